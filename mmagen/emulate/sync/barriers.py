"""CTA barriers: which lanes wait at which barrier, and which of them may go on."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from mmagen.emulate.arrays import Indices, Mask, Registers, Values
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.hazards.tracker import HazardTracker
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.lanes.registers import RegisterTracker
from mmagen.emulate.ptx.model import Immediate, Instruction, Negated, Operand, Register
from mmagen.emulate.report.trace import Trace
from mmagen.emulate.sync.alike import alike
from mmagen.emulate.sync.repeated_arrivals import RepeatedArrivals
from mmagen.emulate.sync.resumed import Resumed

_BARRIERS = 16  # of a CTA
_WARP = 32  # threads


@dataclass
class _Wait:
    """Lanes that wait. start: the block that follows. value: their operand of a reduction."""

    instruction: Instruction
    start: int
    mask: Mask
    value: Mask | None = None


class Barriers:
    """The CTA barriers of one batch, by number."""

    def __init__(
        self,
        lanes: Lanes,
        hazards: HazardTracker,
        tracker: RegisterTracker,
        findings: LaneFindings,
        trace: Trace | None = None,
        repeated: RepeatedArrivals | None = None,
    ):
        self._trace, self._repeated = trace, repeated
        self._arrived_at: set[int] = set()  # barriers at which some threads arrive without waiting
        self._lanes, self._hazards, self._tracker, self._findings = lanes, hazards, tracker, findings
        self._waits: dict[int, list[_Wait]] = {}
        self._arrived: dict[int, Indices] = {}
        self._expected: dict[int, Indices] = {}  # threads that complete the barrier, by CTA; 0: all that live
        self._registers: Registers = []

    @property
    def empty(self) -> bool:
        return not any(self._waits.values())

    def arrive(self, i: Instruction, mask: Mask, start: int, registers: Registers) -> Resumed:
        """Lanes execute a barrier instruction; `start` is the block that follows. Returns what may run now."""
        lanes, self._registers = self._lanes, registers
        how = next((m for m in i.modifiers if m in ("sync", "arrive", "red")), None)
        if how is None:
            raise EmulationError(f"line {i.line}: this form of barrier is not supported: {i.text}")
        operands = list(i.operands)
        value = None
        if how == "red":
            value = self._value(operands.pop(), registers).astype(bool)
            operands = operands[1:]
        if (
            how == "sync" and len(operands) == 1 and isinstance(operands[0], Immediate) and operands[0].value in range(_BARRIERS)
            and mask is lanes.live and lanes.live_or_none is None and self._is_untouched(int(operands[0].value))
        ):  # fmt: skip
            self._hazards.pass_barrier(None)
            if self._repeated:
                self._repeated.together(mask)
            if self._trace:
                self._trace.of_mask("sync", mask, number=int(operands[0].value))
            return [(start, mask)]
        numbers = self._value(operands[0], registers)
        counts = self._value(operands[1], registers) if len(operands) > 1 else np.full(lanes.size, -1)
        resumed: Resumed = []
        arriving = np.flatnonzero(mask)
        for (number, threads), members in sorted(alike(numbers[arriving], counts[arriving]), key=itemgetter(0)):
            here = np.zeros(lanes.size, dtype=bool)
            here[arriving[members]] = True
            for part in self._apart(here) if threads == _WARP else (here,):
                resumed += self._arrive(number, None if threads < 0 else threads, _Wait(i, start, part, value), how)
        return resumed

    def _apart(self, mask: Mask) -> list[Mask]:
        """The lanes of the first warp of each CTA, of the second and so on: a whole warp completes a barrier of 32 threads on its
        own, and waits for no other."""
        warps = np.arange(self._lanes.size) % self._lanes.width // _WARP
        return [mask & (warps == warp) for warp in np.unique(warps[mask])]

    def _is_untouched(self, number: int) -> bool:
        """Has no thread of any CTA arrived there since the barrier last completed?"""
        return number not in self._arrived or not self._arrived[number].any()

    def _value(self, operand: Operand, registers: Registers) -> Values:
        if isinstance(operand, Immediate):
            return np.full(self._lanes.size, int(operand.value))
        if isinstance(operand, Negated):
            return ~self._value(operand.register, registers)
        if isinstance(operand, Register):
            return self._lanes.spread(registers[operand.index])
        raise EmulationError("a barrier's number is a register or a literal")

    def _arrive(self, number: int, threads: int | None, wait: _Wait, how: str) -> Resumed:
        lanes = self._lanes
        arrived = self._arrived.setdefault(number, np.zeros(lanes.count, dtype=np.int64))
        self._check_operands(number, threads, wait, arrived)
        arriving = lanes.by_cta(wait.mask).sum(axis=1)
        arrived += arriving
        self._expected.setdefault(number, np.zeros(lanes.count, dtype=np.int64))[arriving > 0] = threads or 0
        waits = self._waits.setdefault(number, [])
        resumed: Resumed = []
        if how == "arrive":
            self._hazards.arrive(number, wait.mask)
            self._arrived_at.add(number)
            resumed.append((wait.start, wait.mask))
        else:
            waits.append(wait)
        return resumed + self._open(number)

    def _check_operands(self, number: int, threads: int | None, wait: _Wait, arrived: Indices) -> None:
        """Finds barriers that there are not, counts that are no whole warps, counts that differ from that of the threads which
        have arrived, more threads than the count, and reductions together with other barriers (PTX ISA, "barrier"). arrived:
        before these."""
        text, waits = "", self._waits.get(number, [])
        if not 0 <= number < _BARRIERS:
            text = f"uses barrier {number}; a CTA has barriers 0 to {_BARRIERS - 1}"
        elif threads is not None and (threads % _WARP or not threads):
            text = f"uses barrier {number} with {threads} threads, which is not a multiple of 32"
        else:
            arriving = self._lanes.by_cta(wait.mask).sum(axis=1)
            mine, count, most = arriving > 0, threads or self._lanes.threads, int((arrived + arriving)[arriving > 0].max())
            named = self._expected.get(number, np.zeros_like(arrived))[mine & (arrived > 0)]
            named = np.where(named, named, self._lanes.threads)
            if (named != count).any():
                text = f"uses barrier {number} with {count} threads; those that have arrived there named {named[named != count][0]}"
            elif threads and most > threads:
                # Which of them the barrier leaves out depends on their order; those wait for the threads that come next.
                text = f"is one of {most} threads at barrier {number}, which {threads} complete"
            elif any(
                one.instruction.has("red") != wait.instruction.has("red")
                and (self._lanes.by_cta(one.mask).any(axis=1) & mine).any()
                for one in waits
            ):
                text = f"reduces at barrier {number} together with threads that do not, or the other way round"
        if text:
            lane = int(np.flatnonzero(wait.mask)[0])
            self._findings.add("barrier_divergence", wait.instruction, int(wait.mask.sum()), lane, text)

    def after_exit(self) -> Resumed:
        """Threads have ended: those that wait for all of their CTA wait for fewer."""
        resumed: Resumed = []
        for number, waits in self._waits.items():
            if waits:
                resumed += self._open(number)
        return resumed

    def _open(self, number: int) -> Resumed:
        lanes, waits, arrived = self._lanes, self._waits[number], self._arrived[number]
        expected = self._expected[number]
        live, of_all = lanes.by_cta(lanes.live).sum(axis=1), expected == 0
        needed = np.where(of_all, live, expected)
        done = (arrived >= needed) & (arrived > 0)
        if not done.any():
            return []
        if (done & of_all).any():
            self._check_divergence(number, waits, done & of_all & (live < lanes.threads), done & of_all)
        arrived[done] = 0
        opened = np.repeat(done, lanes.width)
        resumed: Resumed = []
        everyone = np.zeros(lanes.size, dtype=bool)
        for wait in waits:
            leaving = wait.mask & opened
            if leaving.any():
                resumed.append((wait.start, leaving))
                everyone |= leaving
        self._check_alignment(waits, opened)
        self._reduce(waits, opened)
        for wait in waits:
            wait.mask = wait.mask & ~opened
        self._waits[number] = [w for w in waits if w.mask.any()]
        self._hazards.pass_barrier(everyone, number)
        if self._repeated:
            self._repeated.together(everyone, ctas=1 if number in self._arrived_at else None)
        if self._trace:
            self._trace.of_mask("sync", everyone, number=number)
        return resumed

    def _check_alignment(self, waits: list[_Wait], opened: Mask) -> None:
        """Finds warps of which a part waits at an .aligned barrier, and the others not at the same instruction."""
        together: dict[int, tuple[Instruction, Mask]] = {}
        for wait in waits:
            i = wait.instruction
            before = together[i.index][1] if i.index in together else np.zeros_like(opened)
            together[i.index] = i, before | (wait.mask & opened)
        for i, mask in together.values():
            self._findings.unaligned(i, mask)

    def _check_divergence(self, number: int, waits: list[_Wait], left: Mask, done: Mask) -> None:
        """Finds threads that ended before the barrier, and threads that wait for each other at different instructions."""
        lanes = self._lanes
        for wait in waits:
            by_cta = lanes.by_cta(wait.mask)
            ended = by_cta.any(axis=1) & left
            if ended.any():
                cta = int(np.flatnonzero(ended)[0])
                missing = lanes.threads - int(lanes.by_cta(lanes.live)[cta].sum())
                lane = cta * lanes.width + int(np.flatnonzero(by_cta[cta])[0])
                text = f"waits at a barrier that {missing} threads of its CTA never reach: they have ended"
                self._findings.add("barrier_divergence", wait.instruction, int(ended.sum()), lane, text)
        self._check_instructions(number, waits, np.repeat(done, lanes.width))

    def _check_instructions(self, number: int, waits: list[_Wait], done: Mask) -> None:
        """Barrier 0 is __syncthreads', which all threads of a CTA have to reach at the same place (CUDA programming guide).
        Of the others, which are asked for by number, only the threads of a warp have to (PTX ISA, "barrier")."""
        lanes, last = self._lanes, waits[-1]
        for other in waits[:-1] if number == 0 else ():
            if other.instruction.index == last.instruction.index:
                continue
            mixed = lanes.by_cta(other.mask & done).any(axis=1) & lanes.by_cta(last.mask & done).any(axis=1)
            if mixed.any():
                cta = int(np.flatnonzero(mixed)[0])
                lane = cta * lanes.width + int(np.flatnonzero(lanes.by_cta(last.mask)[cta])[0])
                text = "waits at this barrier while threads of its CTA wait at another instruction"
                text += f" (PTX line {other.instruction.line})"
                self._findings.add("barrier_divergence", last.instruction, int(mixed.sum()), lane, text)
                return

    def _reduce(self, waits: list[_Wait], opened: Mask) -> None:
        """barrier.red: the result of the CTA goes to its lanes that waited."""
        lanes = self._lanes
        reduced = [(w, w.value) for w in waits if w.value is not None]
        if not reduced:
            return
        holds = np.zeros(lanes.size, dtype=bool)
        present = np.zeros(lanes.size, dtype=bool)
        for wait, value in reduced:
            holds |= wait.mask & value
            present |= wait.mask
        counts = lanes.by_cta(holds).sum(axis=1)
        totals = lanes.by_cta(present).sum(axis=1)
        for wait, _ in reduced:
            target = wait.instruction.operands[0]
            modifiers = wait.instruction.modifiers
            result = counts if "popc" in modifiers else (counts == totals) if "and" in modifiers else counts > 0
            if isinstance(target, Register):
                old = self._registers[target.index]
                spread = np.repeat(result.astype(old.dtype), lanes.width)
                self._registers[target.index] = np.where(wait.mask & opened, spread, old)
                if target.index in self._tracker.tracked:
                    self._tracker.mark_written(target.index, wait.mask & opened)

    def report_deadlock(self) -> None:
        """Notes the barriers that never open."""
        lanes = self._lanes
        for number, waits in self._waits.items():
            for wait in waits:
                by_cta = lanes.by_cta(wait.mask)
                cta = int(np.flatnonzero(by_cta.any(axis=1))[0])
                lane = cta * lanes.width + int(np.flatnonzero(by_cta[cta])[0])
                expected = int(self._expected[number][cta]) or lanes.threads
                text = f"waits forever at barrier {number}: {int(self._arrived[number][cta])} of {expected} threads reach it"
                self._findings.add("barrier_divergence", wait.instruction, int(by_cta.any(axis=1).sum()), lane, text)
