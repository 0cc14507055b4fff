"""Member masks: which lanes of a warp execute a `.sync` instruction together (PTX ISA 9.7.9 "shfl.sync", 9.7.13 "vote.sync",
"match.sync", "redux.sync", "elect.sync", "bar.warp.sync").

Every executing lane must name itself, and all lanes that it names and that have not ended must execute the same instruction
with the same mask. Lanes that ended before may be named, nothing waits for them; those that go past the instruction may not,
even if they end while others wait there.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mmagen.emulate.arrays import Mask, Words
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.ptx.model import Instruction

_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)
_ALL = np.uint32(0xFFFFFFFF)


def warp_bits(flags: Mask) -> Words:
    """uint32[warps]: one bit per lane of bool[lanes]."""
    bits: Words = np.where(flags.reshape(-1, 32), _BITS, np.uint32(0)).sum(axis=1, dtype=np.uint32)
    return bits


def complete_sets(lanes: Lanes, mask: Mask, members: Words) -> Mask:
    """The lanes of a mask of which all lanes that they name are in it too, or have ended; the mask itself where that is
    everyone. members: uint32[lanes] or [1]."""
    live, named = warp_bits(lanes.live)[:, None], lanes.spread(members).reshape(-1, 32)
    ready = mask.reshape(-1, 32)
    while True:
        missing = named & live & ~warp_bits(ready)[:, None]
        kept = ready & (missing == 0)
        if (kept == ready).all():
            return mask if kept.all() or (kept.reshape(-1) == mask).all() else kept.reshape(-1)
        ready = kept


def participants(lanes: Lanes, mask: Mask | None, members: Words) -> Iterator[tuple[np.uint32, Mask]]:
    """(member mask, bool[lanes] of the active lanes that have it and that it names), for each that an active lane has."""
    active = lanes.live if mask is None else mask
    if len(members) == 1:
        values: list[np.uint32] = [members[0]]
    else:
        values = list(np.unique(members[active]))
    bit = np.tile(_BITS, lanes.size // 32)
    for value in values:
        chosen = active if len(members) == 1 else active & (members == value)
        yield value, chosen if value == _ALL else chosen & (bit & value != 0)


class Members:
    """The lanes of one batch that take part in `.sync` instructions. elects_last: see `elected`."""

    def __init__(self, lanes: Lanes, findings: LaneFindings, elects_last: bool = False):
        self._lanes, self._findings, self._elects_last = lanes, findings, elects_last
        self._past: dict[int, Mask] = {}

    def note_past(self, index: int, mask: Mask) -> None:
        """Lanes run what lies behind an instruction at which others wait. index: of the instruction."""
        before = self._past.get(index)
        self._past[index] = mask if before is None else before | mask

    def take_past(self, index: int) -> Mask | None:
        """The lanes that went past an instruction since others wait there; None for none. They are noted no longer."""
        return self._past.pop(index, None)

    def check(self, i: Instruction, mask: Mask | None, members: Words) -> None:
        """Finds lanes that a mask names without their executing the instruction, or that execute it and are not named."""
        past = self.take_past(i.index)
        if mask is None and len(members) == 1 and members[0] == _ALL:
            return
        lanes = self._lanes
        active = (lanes.live if mask is None else mask).reshape(-1, 32)
        needed = warp_bits(lanes.live if past is None else lanes.live | past)[:, None]
        named = lanes.spread(members).reshape(-1, 32)
        missing = np.where(active, named & needed & ~warp_bits(active)[:, None], np.uint32(0))
        unnamed = active & (named & _BITS == 0)
        if missing.any():
            lane = int(np.flatnonzero(missing)[0])
            absent = _list(int(missing.reshape(-1)[lane]))
            text = (
                f"executes it with member mask {int(named.reshape(-1)[lane]):#010x}; {absent} of its warp, named there, do not"
            )
            self._findings.add("member_mask", i, int((missing != 0).sum()), lane, text)
        if unnamed.any():
            lane = int(np.flatnonzero(unnamed)[0])
            text = f"executes it with member mask {int(named.reshape(-1)[lane]):#010x}, which lacks its own lane {lane % 32}"
            self._findings.add("member_mask", i, int(unnamed.sum()), lane, text)
        elif len(members) > 1 and not missing.any():
            self._check_agreement(i, active, named)

    def elected(self, mask: Mask | None, members: Words) -> Words:
        """uint32[lanes]: the number of the lane that each lane's warp elects of those that take part: the first, or the last."""
        leaders = np.zeros(self._lanes.size, dtype=np.uint32)
        for _, part in participants(self._lanes, mask, members):
            here = part.reshape(-1, 32)
            of_warp = 31 - here[:, ::-1].argmax(axis=1) if self._elects_last else here.argmax(axis=1)
            leaders = np.where(part, np.repeat(of_warp.astype(np.uint32), 32), leaders)
        return leaders

    def _check_agreement(self, i: Instruction, active: Mask, named: Words) -> None:
        """Finds lanes that name one which executes the instruction with another mask."""
        for warp in np.flatnonzero(active.any(axis=1)).tolist():
            masks, here = named[warp], active[warp]
            for lane in np.flatnonzero(here).tolist():
                others = here & (_BITS & masks[lane] != 0) & (masks != masks[lane])
                if others.any():
                    other = int(np.flatnonzero(others)[0])
                    text = f"executes it with member mask {int(masks[lane]):#010x}, lane {other}, named there, with another one"
                    text += f": {int(masks[other]):#010x}"
                    self._findings.add("member_mask", i, int(others.sum()), warp * 32 + lane, text)
                    return


def _list(bits: int) -> str:
    """ "lane 4", "lanes 16 to 31" or "lanes 1, 5 and 7" of a mask with at least one bit."""
    numbers = [n for n in range(32) if bits >> n & 1]
    if len(numbers) == 1:
        return f"lane {numbers[0]}"
    if numbers[-1] - numbers[0] + 1 == len(numbers):
        return f"lanes {numbers[0]} to {numbers[-1]}"
    return f"lanes {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
