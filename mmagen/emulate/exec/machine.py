"""Runs an entry: a grid of CTAs, many at a time, their threads as lanes of numpy arrays.

Lanes that are at the same instruction run together. Where they part, the group at the smallest instruction goes first;
since compilers put the place where paths join behind all of them, groups meet again there by themselves. Lanes wait at
barriers until their CTA is complete, at warp-wide instructions until their warp is, and at an mbarrier until its phase
ends. What TMA loads arrives when nobody can run on without it.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np

from mmagen.emulate.batch import Batch
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.exec.blocks import Block, Compiled
from mmagen.emulate.hazards.far_order import FarOrder
from mmagen.emulate.hazards.shadow import GlobalOrder
from mmagen.emulate.memory.memory import GlobalMemory
from mmagen.emulate.ops import table  # noqa: F401  (registers all instructions)
from mmagen.emulate.ops.emit import storage_of
from mmagen.emulate.ops.mbarriers import phase_operands, shared_address
from mmagen.emulate.program.program import Program
from mmagen.emulate.ptx.model import Entry, Instruction, Module, Negated, Register
from mmagen.emulate.report.checks import Recorder, Report

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
    cluster: int = 1,
) -> Report:
    """Executes one kernel launch to its end.

    grid, block: extents in x, y, z. dynamic_smem: bytes behind the kernel's own shared memory. params: the parameter
    block, laid out as the PTX declares it. memory: what its pointers point to; changed in place. step_limit: instructions
    that one batch of CTAs may execute. checks: also look for what a right result may hide, and count traffic. progress:
    called with (CTAs done, CTAs in all). lanes: about how many threads to run at once. cluster: CTAs, next to each other
    along x, that form one.

    Raises EmulationError for an entry that is not there, unsupported instructions that are reached, parameters of
    another size, and a kernel that exceeds the step limit.
    """
    if entry not in module.entries:
        raise EmulationError(f"{module.file}: no entry {entry}; there are: {', '.join(module.entries) or 'none'}")
    program = Program(
        module, module.entries[entry], _dim(grid), _dim(block), dynamic_smem, params, memory or GlobalMemory(), cluster
    )
    recorder = Recorder(module.file)
    report = Report(entry, ctas=program.cta_count)
    runner = _Runner(program, recorder, report, step_limit, checks)
    at_once = max(1, lanes // program.padded_threads // cluster) * cluster
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
        self.far_order = FarOrder()
        self.executed: dict[int, int] = {}

    def run(self, first: int, count: int) -> None:
        """CTAs first..first+count-1, from beginning to end."""
        batch = Batch(self.program, self.recorder, first, count, self.checks, self.tracked, self.global_order, self.far_order)
        registers = [np.zeros(1, dtype=self._dtype(r)) for r in self.program.entry.registers]
        registers += batch.specials()
        self.groups: dict[int, np.ndarray] = {0: batch.live}
        self.batch, self.steps = batch, 0
        self.registers = registers
        self.polled = np.full(batch.size, -1, dtype=np.int64)
        while True:
            self._wake()
            chosen = self._choose()
            if chosen is None:
                if self._help():
                    continue
                if batch.waits or self.groups:
                    self._deadlock()
                break
            self._step(self.blocks[chosen[0]], chosen[1], registers)
        self.report.steps += self.steps

    def _dtype(self, register: Register) -> np.dtype:
        name = storage_of(register)
        return np.dtype("bool" if name == "b1" else name)

    def _choose(self) -> tuple[int, np.ndarray] | None:
        """Takes out the smallest block that can run now, with its lanes; incomplete warps wait at a warp-wide one."""
        for start in sorted(self.groups):
            mask = self.groups[start]
            if self.blocks[start].polls:
                continue
            if self.blocks[start].together > 1:
                complete = self.batch.whole_warps(mask, self.blocks[start].together)
                if complete is not mask:
                    if not complete.any():
                        continue
                    self.groups[start] = mask & ~complete
                    return start, complete
            del self.groups[start]
            return start, mask
        return None

    def _help(self) -> bool:
        """Nobody can run: lets TMA deliver, tests of mbarriers fail, flags be read again, or incomplete warps run. False if
        nothing helps."""
        batch = self.batch
        if batch.bulk.land():
            return True
        if failed := batch.mbarriers.failed_tests():
            for i, start, lanes in failed:
                self._resume(i, start, lanes, False)
            return True
        # Who reads a flag in a loop reads it again only when something was written since.
        unread = self.polled != self.program.memory.writes
        polling = [start for start in self.groups if self.blocks[start].polls]
        if self._run_some(polling, unread):
            return True
        # No warp will become complete by itself: its other lanes wait elsewhere. Shuffles and votes may name a part of
        # their warp; what needs all 32 lanes will say so. But a phase that has yet to end may still complete it, or a flag.
        waiting = batch.warps_of_lanes(polling and np.logical_or.reduce([self.groups[start] for start in polling]))
        return self._run_some([start for start in self.groups if start not in polling], ~waiting)

    def _run_some(self, starts: list[int], able: np.ndarray) -> bool:
        """Runs the smallest of these blocks that has lanes which are able to."""
        for start in sorted(starts):
            mask = self.groups[start] & able
            if mask.any():
                self.polled[mask] = self.program.memory.writes
                rest = self.groups.pop(start) & ~mask
                if rest.any():
                    self.groups[start] = rest
                self._step(self.blocks[start], mask, self.registers)
                return True
        return False

    def _wake(self) -> None:
        for i, start, lanes in self.batch.mbarriers.woken():
            self._resume(i, start, lanes, True)

    def _resume(self, i: Instruction, start: int, lanes: np.ndarray, ended: bool) -> None:
        """Lanes go on behind a wait for an mbarrier's phase."""
        mask = np.zeros(self.batch.size, dtype=bool)
        mask[lanes] = True
        target = i.operands[0]
        if isinstance(target, Register):
            self.registers[target.index] = np.where(mask, ended, self.registers[target.index])
            if target.index in self.tracked:
                self.batch.mark_written(target.index, mask)
        self._go(start, mask)

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
        elif end.base == "mbarrier":
            self._await(block, end, taken, registers)
        elif end.base == "barrier" and end.modifiers[0] == "cluster":
            following, barrier = self.next.get(block.start, -1), self.batch.cluster_barrier
            if end.has("arrive"):
                self._go(following, taken)
                self._release(barrier.arrive(end, taken))
            else:
                self._release(barrier.wait(end, taken, following))
        elif end.base in ("bar", "barrier"):
            self._release(self.batch.barriers.arrive(end, taken, self.next.get(block.start, -1), registers))
        else:
            what = "the kernel executed a trap" if end.base == "trap" else "this instruction is not supported"
            raise EmulationError(f"{self.program.module.file}:{end.line}: {what}: {end.text}")

    def _await(self, block: Block, end: Instruction, mask: np.ndarray, registers: list) -> None:
        """Lanes ask for an mbarrier's phase: those whose phase has ended go on, the others when it does."""
        batch, following = self.batch, self.next.get(block.start, -1)
        lanes = np.flatnonzero(mask)
        where, phases = (
            batch.spread(values)[lanes].astype(np.int64) for values in phase_operands(end, registers, self.program)
        )
        ended = batch.mbarriers.wait(end, following, lanes, shared_address(where), phases, end.has("parity"))
        if ended.any():
            self._resume(end, following, lanes[ended], True)

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
        if self.program.asynchronous:
            self._release(self.batch.cluster_barrier.after_exit())

    def _release(self, released: list[tuple[int, np.ndarray]]) -> None:
        for start, mask in released:
            self._go(start, mask)

    def _deadlock(self) -> None:
        for start, mask in self.groups.items():
            if self.blocks[start].polls:
                lane = int(np.flatnonzero(mask)[0])
                text = "waits for ever for a flag that nobody writes any more"
                self.batch.found("deadlock", self.blocks[start].body[0], int(mask.sum()), lane, text)
        self.batch.barriers.report_deadlock()
        self.batch.cluster_barrier.report_deadlock()
        self.batch.mbarriers.report_deadlock()
        self.report.completed = False

    def count(self) -> None:
        """Fills the report's instruction counts."""
        for start, warps in self.executed.items():
            block = self.blocks[start]
            self.report.warp_instructions += warps * block.length
            for i in (*block.body, *((block.end,) if block.end else ())):
                name = ".".join((i.base, *i.modifiers))
                self.report.opcodes[name] = self.report.opcodes.get(name, 0) + warps
