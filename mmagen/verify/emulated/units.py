"""The translation units of a project: parsed PTX, and the code that the emulator generates from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mmagen.emulate import KeptCode, Module, parse, prepare
from mmagen.host_runtime.entries import entries_of
from mmagen.host_runtime.library import CapturedLaunch
from mmagen.verify.emulated.task import Task

_UNITS = 3  # parsed ones that are kept: a library's kernels are in several


@dataclass(frozen=True)
class Unit:
    """A parsed unit. code: of earlier processes, None if none is to be kept."""

    module: Module
    code: KeptCode | None


def launched_unit(task: Task, captured: CapturedLaunch) -> Unit:
    """The unit with the entry that is launched."""
    name, ptx = launched_ptx(task, captured)
    return _unit(ptx, f"{name}.ptx", task.code_folder)


def launched_ptx(task: Task, captured: CapturedLaunch) -> tuple[str, str]:
    """Name and PTX of that unit."""
    return next((name, ptx) for name, ptx in task.ptx.units.items() if _has(ptx, captured.entry))


def prepare_ahead(task: Task) -> None:
    """Parses the kernels of a task and makes the functions that were run before, for processes that are forked off then."""
    if task.ptx.host and len(task.ptx.units) <= _UNITS:
        for name, ptx in task.ptx.units.items():
            unit = _unit(ptx, f"{name}.ptx", task.code_folder)
            if unit.code:
                prepare(unit.module, unit.code)


@lru_cache(maxsize=_UNITS)
def _unit(ptx: str, file: str, folder: Path | None) -> Unit:
    return Unit(parse(ptx, file), KeptCode(folder, ptx) if folder else None)


def _has(ptx: str, name: str) -> bool:
    return any(entry.name == name for entry in entries_of(ptx))
