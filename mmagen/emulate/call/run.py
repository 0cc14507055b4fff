"""`run_ptx`: one launch of an entry of any PTX, with Python values as its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mmagen.core.errors import UsageError
from mmagen.emulate.call.arguments import Argument, parameters
from mmagen.emulate.call.device import Array, Buffer, Device
from mmagen.emulate.call.names import entry_named
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.exec.launch import STEP_LIMIT, launch
from mmagen.emulate.ptx.model import Module
from mmagen.emulate.ptx.parse import parse
from mmagen.emulate.report.findings import Finding
from mmagen.emulate.report.report import Report
from mmagen.emulate.report.traffic import Traffic


@dataclass(frozen=True)
class Launched:
    """What a launch left. buffers: the arrays that were passed as arguments, by position. report: findings, traffic and
    counts of instructions."""

    entry: str
    buffers: Mapping[int, Buffer]
    report: Report

    @property
    def arrays(self) -> dict[int, Array]:
        """Copies of the array arguments after the launch, by position."""
        return {n: buffer.read() for n, buffer in self.buffers.items()}

    @property
    def findings(self) -> list[Finding]:
        """What is wrong although the result may be right; empty for a correct kernel."""
        return self.report.findings

    @property
    def traffic(self) -> list[Traffic]:
        """Accesses to global and shared memory by instruction."""
        return self.report.traffic

    @property
    def ok(self) -> bool:
        """All threads have ended, and nothing was found."""
        return self.report.completed and not self.findings


def run_ptx(
    ptx: str | Path | Module,
    entry: str | None = None,
    arguments: Sequence[Argument] = (),
    *,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    cluster: int | tuple[int, ...] = 1,
    dynamic_smem: int = 0,
    overlaps: bool = False,
    device: Device | None = None,
    step_limit: int = STEP_LIMIT,
    checks: bool = True,
) -> Launched:
    """Runs an entry of a PTX module on the CPU, to its end.

    ptx: the text, a path to it, or what `parse` returned. entry: its name, or any part of the mangled or demangled name
    that only one entry has; not needed for a module of one entry.
    arguments: one for each .param, in order:
      a numpy array (of ml_dtypes types too): the address of a copy in device memory; `arrays` of the result returns it as
        the kernel left it, and the array itself stays unchanged. ReadOnly(array): a store to it is a finding.
        Output(shape, dtype): memory that nothing has written yet;
      a Buffer of `device`: its address;
      an int: an integer parameter of any size, or an address; a float: a parameter of type .f32 or .f64;
      a numpy scalar, a ctypes value, bytes or an element of a structured array: a scalar or a struct of that size;
      a TensorMap (see `tensor_map`): a CUtensorMap, which the kernel declares as __grid_constant__.
    grid, block, cluster: extents in x, y, z. dynamic_smem: bytes. overlaps: the launch may begin before
    the one before it ends (programmatic stream serialization). device: memory to run in; by default the launch has its
    own. step_limit: blocks of instructions after which the launch is given up. checks: also look for races and stray
    accesses, and count traffic.

    Raises EmulationError where the PTX is malformed, an entry or argument does not fit, an instruction that is not
    emulated is reached (with its line), or the step limit is exceeded; UsageError where the path cannot be read.
    """
    module = ptx if isinstance(ptx, Module) else _module(*_text_of(ptx))
    device = Device() if device is None else device
    if not isinstance(device, Device):
        raise EmulationError(f"device is a value of type {type(device).__name__}; pass a mmagen.emulate.Device, or none")
    name = entry_named(module, entry)
    params, buffers = parameters(module.entries[name], arguments, device)
    report = launch(
        module,
        name,
        grid=grid,
        block=block,
        dynamic_smem=dynamic_smem,
        params=params,
        memory=device.memory,
        step_limit=step_limit,
        checks=checks,
        cluster=cluster,
        overlaps=overlaps,
    )
    return Launched(name, buffers, report)


def _text_of(ptx: str | Path) -> tuple[str, str]:
    """(text, name for messages); a string of several lines is the text itself."""
    if not isinstance(ptx, (str, Path)):
        raise EmulationError(f"the PTX is a value of type {type(ptx).__name__}; pass a text, a path or what parse() returned")
    if isinstance(ptx, str) and "\n" in ptx:
        return ptx, "<ptx>"
    try:
        return Path(ptx).read_text("utf-8"), str(ptx)
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a NUL in the path
        raise UsageError(f"{ptx}: cannot be read as PTX: {error}") from None


@lru_cache(maxsize=8)
def _module(text: str, file: str) -> Module:
    """Parsing, and compiling what is run of it, is done once for several launches."""
    return parse(text, file)
