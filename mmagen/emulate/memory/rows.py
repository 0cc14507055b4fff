"""Which bytes of an allocation hold elements: rows, and the padding between and behind them, which nobody may access."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmagen.emulate.arrays import Indices


@dataclass(frozen=True)
class Rows:
    """Rows of `width` bytes, of which the first begins at byte `start` of its allocation. counts, strides: how many there are
    in each mode, and how many bytes apart, the innermost mode first: rows, then matrices of a batch. A stride may be 0."""

    start: int
    width: int
    counts: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    def starts(self) -> Indices:
        """int64[rows]: where each row begins, the innermost mode fastest."""
        places: Indices = np.array([self.start], dtype=np.int64)
        for count, stride in zip(self.counts, self.strides, strict=True):
            places = (np.arange(count, dtype=np.int64)[:, None] * stride + places).reshape(-1)
        return places

    def past_end(self, byte: int) -> str:
        """Where a byte is that belongs to no row: how far past the end of the row before it."""
        starts = self.starts()
        before = np.where(starts <= byte, starts, -1)
        row = int(np.argmax(before))
        if before[row] < 0:
            return f"{self.start - byte} bytes before its first row"
        number, place = row, []
        for count in self.counts:
            place.append(number % count)
            number //= count
        what = "its row" if not place else f"row {place[0]}"
        of = f" of matrix {place[1]}" if len(place) > 1 and self.counts[1] > 1 else ""
        return f"{byte - int(before[row]) - self.width} bytes past the end of {what}{of} ({self.width} bytes)"
