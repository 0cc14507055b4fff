"""cp.async: copies that are under way until their thread waits for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mmagen.emulate.batch import Batch


@dataclass
class _Copy:
    """One instruction's copies: per lane its group, where the bytes go in the batch's shared memory, and the bytes."""

    lanes: np.ndarray
    groups: np.ndarray
    index: np.ndarray
    data: np.ndarray

    def part(self, which: np.ndarray) -> _Copy:
        return _Copy(self.lanes[which], self.groups[which], self.index[which], self.data[which])


class PendingCopies:
    """The copies of one batch; each lane counts its own groups."""

    def __init__(self, batch: Batch):
        self._batch = batch
        self._committed = np.zeros(batch.size, dtype=np.int64)
        self._copies: list[_Copy] = []

    def start(self, lanes: np.ndarray, index: np.ndarray, data: np.ndarray) -> None:
        """Adds copies to the open group of each lane.

        lanes: int64[n]; index: int64[n], byte positions in the batch's shared memory; data: uint8[n, size].
        """
        self._copies.append(_Copy(lanes, self._committed[lanes], index, data))

    def commit(self, mask: np.ndarray | None) -> None:
        """Closes the open group of each active lane."""
        if mask is None:
            self._committed += 1
        else:
            self._committed[mask] += 1

    def wait(self, mask: np.ndarray | None, newest: int | None) -> None:
        """The active lanes wait until at most `newest` of their groups are under way; None: for all copies."""
        remaining: list[_Copy] = []
        for copy in self._copies:
            done = (
                np.ones(len(copy.lanes), dtype=bool) if newest is None else copy.groups < self._committed[copy.lanes] - newest
            )
            if mask is not None:
                done &= mask[copy.lanes]
            if done.all():
                self._arrive(copy)
            elif not done.any():
                remaining.append(copy)
            else:
                self._arrive(copy.part(done))
                remaining.append(copy.part(~done))
        self._copies = remaining

    def _arrive(self, copy: _Copy) -> None:
        batch = self._batch
        size = copy.data.shape[1]
        width = min(size, 8)
        values = np.ascontiguousarray(copy.data).view(f"u{width}").reshape(-1, size // width)
        batch.shared.scatter(copy.index, values)
        if batch.shadow is not None:
            batch.shadow.end_copy(copy.index, size, batch.stamps[copy.lanes])
