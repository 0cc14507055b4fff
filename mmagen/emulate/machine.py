"""Runs an entry: a grid of CTAs, many at a time, their threads as lanes of numpy arrays.

Lanes that are at the same instruction run together. Where they part, the group at the smallest instruction goes first;
since compilers put the place where paths join behind all of them, groups meet again there by themselves. Lanes wait at
barriers until their CTA is complete, and at warp-wide instructions until their warp is.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np

from . import ops  # noqa: F401  (registers all instructions)
from .batch import Batch
from .blocks import Block, Compiled
from .checks import Recorder, Report
from .emit import storage_of
from .errors import EmulationError
from .layout import Program
from .memory import GlobalMemory
from .ptx_model import Entry, Instruction, Module, Negated, Register
from .shadow import GlobalOrder

STEP_LIMIT = 50_000_000
_LANES_AT_ONCE = 4096
Dim = tuple[int, int, int]


def launch(
    module: Module,
    entry: str,
    *,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    dynamic_smem: int = 0,
    params: bytes = b"",
    memory: GlobalMemory | None = None,
    step_limit: int = STEP_LIMIT,
    checks: bool = True,
    progress: Callable[[int, int], None] | None = None,
    lanes: int = _LANES_AT_ONCE,
) -> Report:
    """Executes one kernel launch to its end.

    grid, block: extents in x, y, z. dynamic_smem: bytes behind the kernel's own shared memory. params: the parameter
    block, laid out as the PTX declares it. memory: what its pointers point to; changed in place. step_limit: instructions
    that one batch of CTAs may execute. checks: also look for what a right result may hide, and count traffic. progress:
    called with (CTAs done, CTAs in all). lanes: about how many threads to run at once.

    Raises EmulationError for an entry that is not there, unsupported instructions that are reached, parameters of
    another size, and a kernel that exceeds the step limit.
    """
    if entry not in module.entries:
        raise EmulationError(f"{module.file}: no entry {entry}; there are: {', '.join(module.entries) or 'none'}")
    program = Program(module, module.entries[entry], _dim(grid), _dim(block), dynamic_smem, params, memory or GlobalMemory())
    recorder = Recorder(module.file)
    report = Report(entry, ctas=program.cta_count)
    runner = _Runner(program, recorder, report, step_limit, checks)
    at_once = max(1, lanes // program.padded_threads)
    with np.errstate(all="ignore"):
        for first in range(0, program.cta_count, at_once):
            runner.run(first, min(at_once, program.cta_count - first))
            if progress:
                progress(min(first + at_once, program.cta_count), program.cta_count)
    report.findings, report.traffic = recorder.findings(), recorder.traffic()
    runner.count()
    return report


def _dim(extents: int | tuple[int, ...]) -> Dim:
    values = (extents,) if isinstance(extents, int) else tuple(extents)
    if not 1 <= len(values) <= 3 or any(v < 1 for v in values):
        raise EmulationError(f"a grid or block has one to three positive extents, not {extents}")
    return (*values, 1, 1)[:3]  # type: ignore[return-value]


_COMPILED: WeakKeyDictionary[Entry, dict[bool, Compiled]] = WeakKeyDictionary()


def _compiled(program: Program, checks: bool) -> Compiled:
    """The compiled blocks of an entry, kept as long as the entry is."""
    kept = _COMPILED.setdefault(program.entry, {})
    if checks not in kept:
        kept[checks] = Compiled(program.entry, program.module.file, program.places, checks)
    return kept[checks]


class _Runner:
    """Schedules the blocks of one entry over batches of CTAs; compiled blocks are kept from batch to batch."""

    def __init__(self, program: Program, recorder: Recorder, report: Report, step_limit: int, checks: bool):
        self.program, self.recorder, self.report = program, recorder, report
        self.step_limit, self.checks = step_limit, checks
        self.compiled = _compiled(program, checks)
        self.blocks, self.next, self.tracked = self.compiled.blocks, self.compiled.next, self.compiled.tracked
        self.global_order = GlobalOrder(recorder, program.global_granule)
        self.executed: dict[int, int] = {}

    def run(self, first: int, count: int) -> None:
        """CTAs first..first+count-1, from beginning to end."""
        batch = Batch(self.program, self.recorder, first, count, self.checks, self.tracked, self.global_order)
        registers = [np.zeros(1, dtype=self._dtype(r)) for r in self.program.entry.registers]
        registers += batch.specials()
        self.groups: dict[int, np.ndarray] = {0: batch.live}
        self.batch, self.steps = batch, 0
        while True:
            if not self.groups:
                if batch.barriers.empty:
                    break
                self._deadlock()
                break
            start, mask = self._choose()
            self._step(self.blocks[start], mask, registers)
        self.report.steps += self.steps

    def _dtype(self, register: Register) -> np.dtype:
        name = storage_of(register)
        return np.dtype("bool" if name == "b1" else name)

    def _choose(self) -> tuple[int, np.ndarray]:
        """Takes out the smallest block that can run now, with its lanes; incomplete warps wait at a warp-wide one."""
        for start in sorted(self.groups):
            mask = self.groups[start]
            if self.blocks[start].needs_warps:
                complete = self.batch.whole_warps(mask)
                if complete is not mask:
                    if not complete.any():
                        continue
                    self.groups[start] = mask & ~complete
                    return start, complete
            del self.groups[start]
            return start, mask
        # No warp will become complete by itself: its other lanes wait elsewhere. Shuffles and votes may name a part of
        # their warp; what needs all 32 lanes will say so.
        start = min(self.groups)
        return start, self.groups.pop(start)

    def _step(self, block: Block, mask: np.ndarray, registers: list) -> None:
        batch = self.batch
        self.steps += block.length + 1
        if self.steps > self.step_limit:
            raise EmulationError(
                f"{self.program.entry.name}: stopped after {self.step_limit:,} instructions of CTAs from {batch.first} on; "
                f"the kernel does not end, or needs a larger step limit (near line {self._line(block)})"
            )
        full = batch.is_full(mask)
        if full:
            mask = batch.live
        if block.body:
            run = self.compiled.function(block, full)
            run(registers, batch.live_or_none if full else mask, batch)
        if block.length:
            warps = batch.live_warps if full else batch.count_warps(mask)
            self.executed[block.start] = self.executed.get(block.start, 0) + warps
        if block.end is None:
            self._go(self.next.get(block.start, -1), mask)
        else:
            self._end(block, block.end, mask, registers)

    def _line(self, block: Block) -> int:
        body = block.body or ((block.end,) if block.end else ())
        return body[0].line if body else 0

    def _go(self, start: int, mask: np.ndarray) -> None:
        if start < 0 or start == len(self.program.entry.instructions):
            self._exit(mask)
        elif start in self.groups:
            self.groups[start] = self.groups[start] | mask
        else:
            self.groups[start] = mask

    def _end(self, block: Block, end: Instruction, mask: np.ndarray, registers: list) -> None:
        taken, rest = self._split(end, mask, registers)
        if rest is not None:
            self._go(self.next.get(block.start, -1), rest)
        if taken is None:
            return
        if end.base == "bra":
            self._go(block.target, taken)
        elif end.base in ("ret", "exit"):
            self._exit(taken)
        elif end.base in ("bar", "barrier"):
            self._release(self.batch.barriers.arrive(end, taken, self.next.get(block.start, -1), registers))
        else:
            what = "the kernel executed a trap" if end.base == "trap" else "this instruction is not supported"
            raise EmulationError(f"{self.program.module.file}:{end.line}: {what}: {end.text}")

    def _split(self, end: Instruction, mask: np.ndarray, registers: list) -> tuple[np.ndarray | None, np.ndarray | None]:
        """(lanes of mask for which the guard holds, the others); None for an empty half."""
        guard = end.guard
        if guard is None:
            return mask, None
        register = guard.register if isinstance(guard, Negated) else guard
        if register.index in self.tracked:
            self.batch.check_written(registers, register.index, mask, end)
        value = registers[register.index]
        value = ~value if isinstance(guard, Negated) else value
        if len(value) == 1:
            return (mask, None) if value[0] else (None, mask)
        taken = mask & value
        if not taken.any():
            return None, mask
        rest = mask & ~value
        return (taken, rest) if rest.any() else (mask, None)

    def _exit(self, mask: np.ndarray) -> None:
        self.batch.exit(mask)
        self._release(self.batch.barriers.after_exit())

    def _release(self, released: list[tuple[int, np.ndarray]]) -> None:
        for start, mask in released:
            self._go(start, mask)

    def _deadlock(self) -> None:
        self.batch.barriers.report_deadlock()
        self.report.completed = False

    def count(self) -> None:
        """Fills the report's instruction counts."""
        for start, warps in self.executed.items():
            block = self.blocks[start]
            self.report.warp_instructions += warps * block.length
            for i in (*block.body, *((block.end,) if block.end else ())):
                name = ".".join((i.base, *i.modifiers))
                self.report.opcodes[name] = self.report.opcodes.get(name, 0) + warps
