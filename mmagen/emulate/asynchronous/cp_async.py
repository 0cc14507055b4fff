"""cp.async: copies that are in flight until their thread waits for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Bytes, Events, Indices, Mask
from mmagen.emulate.hazards.granules import SharedShadow
from mmagen.emulate.hazards.source_reads import SourceReads
from mmagen.emulate.memory.owned import OwnedMemory
from mmagen.emulate.report.trace import Trace


@dataclass
class _Copy:
    """One instruction's copies: per lane its group, where the bytes go in the batch's shared memory, and the bytes. number:
    of the instruction, in the order of execution. codes: per lane the first cp.async.mbarrier.arrive behind it, 0 for none.
    source: per lane the positions of its bytes in global memory that kernels may write, -1 for others; None if there are none."""

    number: int
    lanes: Indices
    groups: Indices
    index: Indices
    data: Bytes
    codes: Events
    source: Indices | None

    def part(self, which: Mask) -> _Copy:
        return _Copy(
            self.number,
            self.lanes[which],
            self.groups[which],
            self.index[which],
            self.data[which],
            self.codes[which],
            None if self.source is None else self.source[which],
        )


class PendingCopies:
    """The copies of one batch; each lane counts its own groups."""

    def __init__(
        self,
        lanes: int,
        shared: OwnedMemory,
        shadow: SharedShadow | None,
        sources: SourceReads | None,
        trace: Trace | None = None,
    ):
        self._shared, self._shadow, self._sources, self._trace = shared, shadow, sources, trace
        self._committed = np.zeros(lanes, dtype=np.int64)
        self._copies: list[_Copy] = []
        self.count = 0  # instructions that have started copies

    def start(self, lanes: Indices, index: Indices, data: Bytes, source: Indices, kept: Indices | None) -> None:
        """Adds copies to the open group of each lane.

        lanes: int64[n]; index: int64[n], byte positions in the batch's shared memory; data: uint8[n, size]; source: int64[n],
        positions in global memory; kept: int64[n], how many bytes are read there, None for all.
        """
        if self._trace:
            self._trace.by_warp("copy", lanes, self._committed[lanes], index)
        codes = np.zeros(len(lanes), dtype=np.uint64)
        read = self._read_bytes(source, data.shape[1], kept)
        self._copies.append(_Copy(self.count, lanes, self._committed[lanes], index, data, codes, read))
        self.count += 1

    def _read_bytes(self, source: Indices, size: int, kept: Indices | None) -> Indices | None:
        """int64[n, size]: the positions of bytes that are read and that kernels may write, -1 for others; None for none."""
        if self._sources is None or not (changeable := self._sources.may_change(source)).any():
            return None
        within = np.arange(size)
        read = changeable[:, None] & (within < (size if kept is None else kept[:, None]))
        places: Indices = np.where(read, source[:, None] + within, -1)
        self._sources.start_copy(places[read])
        return places

    def commit(self, mask: Mask | None) -> None:
        """Closes the open group of each active lane."""
        if self._trace:
            self._trace.of_mask("group", mask, self._committed)
        if mask is None:
            self._committed += 1
        else:
            self._committed[mask] += 1

    def wait(self, mask: Mask | None, newest: int | None) -> None:
        """The active lanes wait until at most `newest` of their groups are in flight; None: for all copies."""
        if self._trace:
            self._trace.of_mask("landed", mask, self._committed + 1 if newest is None else self._committed - newest)
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

    def arrive_behind(self, lanes: Indices, codes: Events) -> None:
        """These lanes issue a cp.async.mbarrier.arrive, as events codes[n]. Whoever waits for its phase knows of the copies so
        far, and the thread itself once it has waited for them, whichever comes first."""
        of_lane = np.zeros(len(self._committed), dtype=np.uint64)
        of_lane[lanes] = codes
        for copy in self._copies:
            copy.codes = np.where(copy.codes == 0, of_lane[copy.lanes], copy.codes)

    def in_flight_of(self, lanes: Indices) -> Mask:
        """bool[n]: which of these lanes have copies that they have not waited for."""
        found: Mask = np.isin(lanes, np.concatenate([copy.lanes for copy in self._copies])) if self._copies else lanes < 0
        return found

    def complete(self, lanes: Indices, count: int) -> None:
        """The copies of these lanes in the first `count` instructions are complete, whoever waits for them."""
        remaining: list[_Copy] = []
        for copy in self._copies:
            done = np.isin(copy.lanes, lanes) & (copy.number < count)
            if done.any():
                self._arrive(copy.part(done))
            if not done.all():
                remaining.append(copy.part(~done))
        self._copies = remaining

    def _arrive(self, copy: _Copy) -> None:
        size = copy.data.shape[1]
        width = min(size, 8)
        values = np.ascontiguousarray(copy.data).view(f"u{width}").reshape(-1, size // width)
        self._shared.scatter(copy.index, values)
        if self._shadow is not None:
            self._shadow.end_copy(copy.index, size, copy.lanes, copy.codes)
        if self._sources is not None and copy.source is not None:
            self._sources.end_copy(copy.source[copy.source >= 0])
