"""Order in global memory between the CTAs of a launch that tell each other by flags: releases and acquires.

A release store leaves what its thread knew with the flag's address; who reads the flag with acquire is told that. What
another cluster's warps did has a column of its own in the clocks, so that it travels on by barriers like everything else.

A store takes its time: a CTA that has not been told of it reads once what the flag held before, however long ago the
store was executed here. So whoever reads a flag without a loop that waits for it is told nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from mmagen.emulate.hazards.clocks import CLOCK, COLUMN, COLUMN_SHIFT, Seen
from mmagen.emulate.ptx.model import Instruction

if TYPE_CHECKING:
    from mmagen.emulate.batch import Batch

_FAR = "far"
_STRONG = ("acquire", "release", "acq_rel", "relaxed", "volatile")
_CLUSTER_SHIFT = np.uint64(48)
Told = dict[tuple[int, int], int]
"""(cluster of the grid, its warp) -> clock."""


@dataclass
class _Flag:
    """told: what who acquires it is told. before, earlier: its bytes, and what they told, until the last strong store;
    event: (cluster of the grid, its warp, clock) of that; cta: whose it was. late: CTAs that have read `before` since."""

    told: Told
    before: bytes
    earlier: Told
    event: tuple[int, int, int]
    cta: int
    late: set[int] = field(default_factory=set)


def is_strong(i: Instruction) -> bool:
    """Does the access take part in synchronisation, so that two of them are no race?"""
    return i.base in ("atom", "red") or any(i.has(word) for word in _STRONG)


class FarOrder:
    """Last writers of the bytes of global memory, and flags; of one launch, over all of its batches."""

    def __init__(self) -> None:
        self._writer: np.ndarray | None = None  # clock | column << 32 | cluster + 1 << 48
        self._flags: dict[int, _Flag] = {}
        self._read: dict[int, Told] = {}  # lane -> flags that it read without acquire; a fence may follow

    def note(self, X: Batch, i: Instruction, index: np.ndarray, size: int, lanes: np.ndarray, writing: bool) -> None:
        """Accesses of `size` bytes at byte positions index int64[n] by lanes int64[n]."""
        if self._writer is None:
            if not writing:
                return
            self._writer = np.zeros(X.program.memory.size, dtype=np.uint64)
        clocks = X.clocks
        places = index[:, None] + np.arange(size)
        before = self._writer[places]
        if not writing and not before.any():
            return
        cluster = (X.cta[lanes] + X.first) // X.program.cluster
        column = lanes // 32 % clocks.warps
        codes = clocks.clock[lanes // 32] | (column.astype(np.uint64) << COLUMN_SHIFT)
        codes = np.broadcast_to((codes | ((cluster + 1).astype(np.uint64) << _CLUSTER_SHIFT))[:, None], places.shape)
        if not is_strong(i):
            other = (before != 0) & (_cta(X, before) != _cta(X, codes))
            if other.any():
                self._judge(X, i, lanes, before, codes, other, writing)
        if writing and is_strong(i):
            self._writer[places] = 0  # a flag: who may touch it next is not watched
        elif writing:
            self._writer[places] = codes
            lost = _cta(X, self._writer[places]) != _cta(X, codes)
            if lost.any():
                self._tell(X, i, lanes, self._writer[places], lost, writing)

    def _judge(self, X: Batch, i: Instruction, lanes, before, codes, other, writing: bool) -> None:
        """Of accesses to what another CTA wrote, finds those whose thread does not know of it."""
        clocks = X.clocks
        rows, _ = np.nonzero(other)
        events, who = before[other], lanes[rows]
        near = (events >> _CLUSTER_SHIFT) == (codes[other] >> _CLUSTER_SHIFT)
        columns = ((events >> COLUMN_SHIFT) & COLUMN).astype(np.int64)
        far = ~near
        for event in np.unique(events[far] >> COLUMN_SHIFT):
            of_it = far & (events >> COLUMN_SHIFT == event)
            columns[of_it] = clocks.column(_FAR, (int(event) >> 16) - 1, int(event) & 0xFFFF)
        known = clocks.known[who, columns] >= (events & CLOCK)
        if not known.all():
            raced = np.zeros(other.shape, dtype=bool)
            raced[other] = ~known
            self._tell(X, i, lanes, before, raced, writing)

    def _tell(self, X: Batch, i: Instruction, lanes, events, raced, writing: bool) -> None:
        row, column = np.argwhere(raced)[0]
        cta, other = int(X.cta[lanes[row]]) + X.first, int(_cta(X, events[row, column]))
        text = f"CTA {cta} {'writes' if writing else 'reads'} global memory that CTA {other} writes in the same launch"
        X.recorder.add("global_race", i, int(raced.any(axis=1).sum()), text, cta=cta)

    # Flags

    def synchronise(self, X: Batch, i: Instruction, index: np.ndarray, size: int, lanes: np.ndarray) -> None:
        """Strong stores and atomics to flags of `size` bytes: at byte positions index, of lanes, before they are done."""
        atomic = i.base in ("atom", "red")
        memory = X.program.memory.view("bytes", 1, 1).reshape(-1)
        for place, lane in zip(index.tolist(), lanes.tolist(), strict=True):
            flag = self._flags.get(place)
            earlier = flag.told if flag else {}
            if atomic:
                self._acquire(X, i, lane, earlier)
            seen = X.clocks.release(np.array([lane])) if _has(i, "release") else X.clocks.relaxed(np.array([lane]))
            told = self._of(X, lane, seen) if seen else {}
            cta = int(X.cta[lane]) + X.first
            cluster, warp = cta // X.program.cluster, lane // 32 % X.clocks.warps
            event = cluster, warp, told.get((cluster, warp), int(X.clocks.clock[lane // 32]))
            # An atomic change goes on with what was released before; a store begins anew.
            told = _joined(earlier, told) if atomic else told
            self._flags[place] = _Flag(told, memory[place : place + size].tobytes(), earlier, event, cta)

    def read(self, X: Batch, i: Instruction, index: np.ndarray, lanes: np.ndarray, values: np.ndarray) -> None:
        """Strong loads of flags: at byte positions index, of lanes. values: what memory holds, of which those become older
        ones that are read before the last store has come through."""
        late: list[tuple[_Flag, int]] = []
        for n, (place, lane) in enumerate(zip(index.tolist(), lanes.tolist(), strict=True)):
            if not (flag := self._flags.get(place)):
                continue
            cta = int(X.cta[lane]) + X.first
            if len(flag.before) == values[n].nbytes and not (cta == flag.cta or cta in flag.late or self._knows(X, lane, flag)):
                values[n] = np.frombuffer(flag.before, dtype=values.dtype)
                self._acquire(X, i, lane, flag.earlier)
                late.append((flag, cta))
            else:
                self._acquire(X, i, lane, flag.told)
        for flag, cta in late:
            flag.late.add(cta)
        # What comes through later is for those who wait as if it were written then.
        X.program.memory.writes += bool(late)

    def _acquire(self, X: Batch, i: Instruction, lane: int, told: Told) -> None:
        """A thread has read a flag; without acquire a fence may follow."""
        if _has(i, "acquire"):
            self._learn(X, lane, told)
        elif told:
            self._read[lane] = _joined(self._read.get(lane), told)

    def _knows(self, X: Batch, lane: int, flag: _Flag) -> bool:
        """Whether a thread has been told of the last store to a flag."""
        cluster, warp, clock = flag.event
        return bool(X.clocks.known[lane, self._column(X, lane, cluster, warp)] >= clock)

    def _column(self, X: Batch, lane: int, cluster: int, warp: int) -> int:
        """Where a thread's clocks have what a warp of a cluster of the grid did."""
        mine = (int(X.cta[lane]) + X.first) // X.program.cluster
        return warp if cluster == mine else X.clocks.column(_FAR, cluster, warp)

    def fence(self, X: Batch, lanes: np.ndarray) -> None:
        """What these lanes have read of flags before is acquired."""
        for lane in set(lanes.tolist()) & set(self._read):
            self._learn(X, lane, self._read.pop(lane))

    def _of(self, X: Batch, lane: int, seen: Seen) -> Told:
        cluster = (int(X.cta[lane]) + X.first) // X.program.cluster
        told = {(cluster, warp): int(seen.known[warp]) for warp in np.flatnonzero(seen.known[: X.clocks.warps]).tolist()}
        for (kind, *key), column in X.clocks.dynamic():
            if kind == _FAR and column < len(seen.known) and seen.known[column]:
                told[key[0], key[1]] = int(seen.known[column])
        return told

    def _learn(self, X: Batch, lane: int, told: Told) -> None:
        for (cluster, warp), clock in told.items():
            X.clocks.learn(np.array([lane]), self._column(X, lane, cluster, warp), clock)


def _has(i: Instruction, order: str) -> bool:
    """Whether an access acquires, or releases."""
    return i.has(order) or i.has("acq_rel")


def _cta(X: Batch, events: np.ndarray) -> np.ndarray:
    """The CTAs of the grid whose events these are."""
    cluster = (events >> _CLUSTER_SHIFT).astype(np.int64) - 1
    return cluster * X.program.cluster + ((events >> COLUMN_SHIFT) & COLUMN).astype(np.int64) // X.clocks.warps_of_cta


def _joined(a: Told | None, b: Told) -> Told:
    result = dict(a or {})
    for key, clock in b.items():
        result[key] = max(clock, result.get(key, 0))
    return result
