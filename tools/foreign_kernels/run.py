"""Compiles and runs one kernel of the table, and says how it went."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmagen.core.errors import BuildError
from mmagen.emulate import Device, EmulationError
from mmagen.host_runtime.compile import Program, compile_program
from mmagen.host_runtime.library import HostError
from mmagen.host_runtime.program import ProgramRun, run_program
from tools.foreign_kernels.kernel import Kernel
from tools.foreign_kernels.problems import operands
from tools.foreign_kernels.sources import Checkout

DRIVERS = Path(__file__).parent / "drivers"


@dataclass(frozen=True)
class Outcome:
    """result: "right", "wrong: ...", "failed: ...". findings: kind -> how many instructions. details: their texts. seconds:
    processor time of the emulation."""

    kernel: Kernel
    result: str
    findings: dict[str, int] = field(default_factory=dict)
    details: tuple[str, ...] = ()
    launches: int = 0
    steps: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Right, and reported are exactly the defects that the kernel has."""
        return self.result == "right" and set(self.findings) == set(self.kernel.defects)

    def seen_as(self, kinds: tuple[str, ...]) -> str:
        """Those of `kinds` that were reported, beside the kernel's own defects; "wrong" is a wrong result."""
        seen = {kind for kind in self.findings if kind not in self.kernel.defects}
        if self.result.startswith("wrong"):
            seen.add("wrong")
        return ", ".join(sorted(seen & set(kinds)))


def compiled(kernel: Kernel, found: dict[str, Checkout], scratch: Path) -> Program:
    """Raises BuildError."""
    flags = [*found[kernel.source.name].flags, *kernel.flags]
    if kernel.source.name != "cutlass" and "cutlass" in found:
        flags += found["cutlass"].flags  # of which the others use CuTe
    flags.append(f"-I{DRIVERS / 'absent'}")
    return compile_program([DRIVERS / kernel.driver], kernel.arch, scratch / kernel.program, flags=flags)


def run(kernel: Kernel, found: dict[str, Checkout], scratch: Path, change: Callable[[str], str] | None = None) -> Outcome:
    """change: of the PTX, to plant a fault."""
    try:
        program = compiled(kernel, found, scratch)
    except BuildError as error:
        return Outcome(kernel, f"failed: {error}")
    if change:
        program = replace(program, units={name: change(text) for name, text in program.units.items()})
    start = time.process_time()
    try:
        done, wrong = _called(kernel, program)
    except (EmulationError, HostError) as error:
        return Outcome(kernel, f"failed: {error}", seconds=time.process_time() - start)
    kinds = Counter(finding.kind for finding in done.findings)
    return Outcome(
        kernel,
        f"wrong: {wrong}" if wrong else "right",
        dict(sorted(kinds.items())),
        tuple(map(str, done.findings)),
        len(done.launches),
        sum(one.report.steps for one in done.launches),
        time.process_time() - start,
    )


def _called(kernel: Kernel, program: Program) -> tuple[ProgramRun, str]:
    """(the run, what is wrong with its result or "")."""
    memory = Device()
    if kernel.problem is None:
        done = run_program(program, kernel.function, (0, 0), memory=memory)
        return done, "" if kernel.says in done.printed else f"the program says {done.printed[-300:]!r}"
    data = operands(kernel.problem, memory)
    done = run_program(program, kernel.function, [data.argument], memory=memory, resident_clusters=4)
    if done.value:
        why = done.refusals[-1] if done.refusals else done.printed[-300:]
        return done, f"the host code returns {done.value}; {why}"
    if not all(one.report.completed for one in done.launches):
        return done, "a launch did not end"
    return done, data.wrong()
