"""Order in global memory between the CTAs of a launch that tell each other by flags: releases and acquires.

A release store leaves what its thread knew with the flag's address; who reads the flag with acquire is told that. What
another cluster's warps did has a column of its own in the clocks, so that it travels on by barriers like everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .clocks import Seen
from .ptx_model import Instruction

if TYPE_CHECKING:
    from .batch import Batch

_FAR = "far"
_STRONG = ("acquire", "release", "acq_rel", "relaxed", "volatile")
_COLUMN_SHIFT, _CLUSTER_SHIFT = np.uint64(32), np.uint64(48)
_CLOCK, _COLUMN = np.uint64(0xFFFFFFFF), np.uint64(0xFFFF)
Told = dict[tuple[int, int], int]
"""(cluster of the grid, its warp) -> clock."""


def is_strong(i: Instruction) -> bool:
    """Does the access take part in synchronisation, so that two of them are no race?"""
    return i.base in ("atom", "red") or any(i.has(word) for word in _STRONG)


class FarOrder:
    """Last writers of the bytes of global memory, and flags; of one launch, over all of its batches."""

    def __init__(self) -> None:
        self._writer: np.ndarray | None = None  # clock | column << 32 | cluster + 1 << 48
        self._flags: dict[int, Told] = {}
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
        cluster = (X.cta[lanes] + X.first) // X.program.cluster
        column = lanes // 32 % clocks.warps
        codes = clocks.clock[lanes // 32] | (column.astype(np.uint64) << _COLUMN_SHIFT)
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
        columns = ((events >> _COLUMN_SHIFT) & _COLUMN).astype(np.int64)
        far = ~near
        for event in np.unique(events[far] >> _COLUMN_SHIFT):
            of_it = far & (events >> _COLUMN_SHIFT == event)
            columns[of_it] = clocks.column(_FAR, (int(event) >> 16) - 1, int(event) & 0xFFFF)
        known = clocks.known[who, columns] >= (events & _CLOCK)
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

    def synchronise(self, X: Batch, i: Instruction, index: np.ndarray, lanes: np.ndarray, writing: bool) -> None:
        """Strong accesses to flags: at byte positions index, of lanes."""
        atomic = i.base in ("atom", "red")
        for place, lane in zip(index.tolist(), lanes.tolist(), strict=True):
            if (atomic or not writing) and (told := self._flags.get(place)):
                if i.has("acquire") or i.has("acq_rel"):
                    self._learn(X, lane, told)
                else:
                    self._read[lane] = _joined(self._read.get(lane), told)
            if not writing:
                continue
            releases = i.has("release") or i.has("acq_rel")
            who = np.array([lane])
            seen = X.clocks.release(who) if releases else X.clocks.relaxed(who)
            told = self._of(X, lane, seen) if seen else {}
            # An atomic change goes on with what was released before; a store begins anew.
            self._flags[place] = _joined(self._flags.get(place), told) if atomic else told

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
        mine = (int(X.cta[lane]) + X.first) // X.program.cluster
        for (cluster, warp), clock in told.items():
            column = warp if cluster == mine else X.clocks.column(_FAR, cluster, warp)
            X.clocks.learn(np.array([lane]), column, clock)


def _cta(X: Batch, events: np.ndarray) -> np.ndarray:
    """The CTAs of the grid whose events these are."""
    cluster = (events >> _CLUSTER_SHIFT).astype(np.int64) - 1
    return cluster * X.program.cluster + ((events >> _COLUMN_SHIFT) & _COLUMN).astype(np.int64) // X.clocks.warps_of_cta


def _joined(a: Told | None, b: Told) -> Told:
    result = dict(a or {})
    for key, clock in b.items():
        result[key] = max(clock, result.get(key, 0))
    return result
