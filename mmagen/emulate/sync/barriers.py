"""CTA barriers: who waits where, and who may go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mmagen.emulate.errors import EmulationError
from mmagen.emulate.ptx.model import Immediate, Instruction, Negated, Operand, Register

if TYPE_CHECKING:
    from mmagen.emulate.batch import Batch

Released = list[tuple[int, np.ndarray]]


@dataclass
class _Wait:
    """Lanes that wait: `start` is the block that follows; value: what they give to a reduction."""

    instruction: Instruction
    start: int
    mask: np.ndarray
    value: np.ndarray | None = None


class Barriers:
    """The barriers of one batch of CTAs, by number."""

    def __init__(self, batch: Batch):
        self._batch = batch
        self._waits: dict[int, list[_Wait]] = {}
        self._arrived: dict[int, np.ndarray] = {}
        self._expected: dict[int, int | None] = {}
        self._registers: list = []

    @property
    def empty(self) -> bool:
        return not any(self._waits.values())

    def arrive(self, i: Instruction, mask: np.ndarray, start: int, registers: list) -> Released:
        """Lanes come to a barrier instruction. Returns the blocks, with their lanes, that may run now."""
        batch, self._registers = self._batch, registers
        how = next((m for m in i.modifiers if m in ("sync", "arrive", "red")), None)
        if how is None:
            raise EmulationError(f"line {i.line}: this form of barrier is not supported: {i.text}")
        operands = list(i.operands)
        value = None
        if how == "red":
            value = self._value(operands.pop(), registers).astype(bool)
            operands = operands[1:]
        if (
            how == "sync" and len(operands) == 1 and isinstance(operands[0], Immediate)
            and mask is batch.live and batch.live_or_none is None and not self._waits.get(int(operands[0].value))
        ):  # fmt: skip
            batch.pass_barrier(None)
            return [(start, mask)]
        numbers = self._value(operands[0], registers)
        released: Released = []
        for number in np.unique(numbers[mask]):
            here = mask & (numbers == number)
            threads = int(self._value(operands[1], registers)[here][0]) if len(operands) > 1 else None
            released += self._arrive(int(number), threads, _Wait(i, start, here, value), how)
        return released

    def _value(self, operand: Operand, registers: list) -> np.ndarray:
        if isinstance(operand, Immediate):
            return np.full(self._batch.size, int(operand.value))
        if isinstance(operand, Negated):
            return ~self._value(operand.register, registers)
        if isinstance(operand, Register):
            return self._batch.spread(registers[operand.index])
        raise EmulationError("a barrier's number is a register or a literal")

    def _arrive(self, number: int, threads: int | None, wait: _Wait, how: str) -> Released:
        batch = self._batch
        arrived = self._arrived.setdefault(number, np.zeros(batch.count, dtype=np.int64))
        arrived += wait.mask.reshape(batch.count, -1).sum(axis=1)
        self._expected[number] = threads
        waits = self._waits.setdefault(number, [])
        released: Released = []
        if how == "arrive":
            batch.tell_barrier(number, wait.mask)
            released.append((wait.start, wait.mask))
        else:
            waits.append(wait)
        return released + self._open(number)

    def after_exit(self) -> Released:
        """Threads have ended: those that wait for all of their CTA wait for fewer."""
        released: Released = []
        for number, waits in self._waits.items():
            if waits and self._expected[number] is None:
                released += self._open(number)
        return released

    def _open(self, number: int) -> Released:
        batch, waits, arrived = self._batch, self._waits[number], self._arrived[number]
        threads = self._expected[number]
        live = batch.live.reshape(batch.count, -1).sum(axis=1)
        needed = live if threads is None else np.full(batch.count, threads)
        done = (arrived >= needed) & (arrived > 0)
        if not done.any():
            return []
        if threads is None:
            self._check_meeting(waits, done & (live < batch.program.threads), done)
        arrived[done] = 0
        lanes = np.repeat(done, batch.width)
        released: Released = []
        everyone = np.zeros(batch.size, dtype=bool)
        for wait in waits:
            leaving = wait.mask & lanes
            if leaving.any():
                released.append((wait.start, leaving))
                everyone |= leaving
        self._reduce(waits, lanes)
        for wait in waits:
            wait.mask = wait.mask & ~lanes
        self._waits[number] = [w for w in waits if w.mask.any()]
        batch.pass_barrier(everyone, number)
        return released

    def _check_meeting(self, waits: list[_Wait], left: np.ndarray, done: np.ndarray) -> None:
        """Threads that exited before the barrier, or that wait for each other at different instructions."""
        batch = self._batch
        for wait in waits:
            by_cta = wait.mask.reshape(batch.count, -1)
            ended = by_cta.any(axis=1) & left
            if ended.any():
                cta = int(np.flatnonzero(ended)[0])
                missing = batch.program.threads - int(batch.live.reshape(batch.count, -1)[cta].sum())
                lane = cta * batch.width + int(np.flatnonzero(by_cta[cta])[0])
                text = f"waits at a barrier that {missing} threads of its CTA never reach: they have ended"
                batch.found("barrier_divergence", wait.instruction, int(ended.sum()), lane, text)
        if len({w.instruction.index for w in waits}) > 1:
            present = np.array([w.mask.reshape(batch.count, -1).any(axis=1) for w in waits])
            mixed = (present.sum(axis=0) > 1) & done
            if mixed.any() and len({w.instruction.index for w, p in zip(waits, present) if (p & mixed).any()}) > 1:
                cta = int(np.flatnonzero(mixed)[0])
                lane = cta * batch.width + int(np.flatnonzero(waits[-1].mask.reshape(batch.count, -1)[cta])[0])
                first = next(w for w in waits if w.instruction.index != waits[-1].instruction.index)
                text = f"meets at this barrier threads of its CTA that wait at another one (PTX line {first.instruction.line})"
                batch.found("barrier_divergence", waits[-1].instruction, int(mixed.sum()), lane, text)

    def _reduce(self, waits: list[_Wait], lanes: np.ndarray) -> None:
        batch = self._batch
        giving = [w for w in waits if w.value is not None]
        if not giving:
            return
        holds = np.zeros(batch.size, dtype=bool)
        present = np.zeros(batch.size, dtype=bool)
        for wait in giving:
            holds |= wait.mask & wait.value
            present |= wait.mask
        counts = holds.reshape(batch.count, -1).sum(axis=1)
        totals = present.reshape(batch.count, -1).sum(axis=1)
        for wait in giving:
            target = wait.instruction.operands[0]
            modifiers = wait.instruction.modifiers
            result = counts if "popc" in modifiers else (counts == totals) if "and" in modifiers else counts > 0
            if isinstance(target, Register):
                old = self._registers[target.index]
                spread = np.repeat(result.astype(old.dtype), batch.width)
                self._registers[target.index] = np.where(wait.mask & lanes, spread, old)
                if target.index in batch.watched:
                    batch.mark_written(target.index, wait.mask & lanes)

    def report_deadlock(self) -> None:
        """Notes the barriers at which threads wait for ever."""
        batch = self._batch
        for number, waits in self._waits.items():
            for wait in waits:
                by_cta = wait.mask.reshape(batch.count, -1)
                cta = int(np.flatnonzero(by_cta.any(axis=1))[0])
                lane = cta * batch.width + int(np.flatnonzero(by_cta[cta])[0])
                expected = self._expected[number] or batch.program.threads
                text = f"waits for ever at barrier {number}: {int(self._arrived[number][cta])} of {expected} threads reach it"
                batch.found("barrier_divergence", wait.instruction, int(by_cta.any(axis=1).sum()), lane, text)
