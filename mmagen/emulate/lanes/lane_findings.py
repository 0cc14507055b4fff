"""Findings about lanes: named by thread and CTA."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Mask
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.findings import FindingLog


class LaneFindings:
    """The findings of one batch. log: that of the launch."""

    def __init__(self, lanes: Lanes, log: FindingLog):
        self._lanes, self.log = lanes, log

    def add(self, kind: str, i: Instruction, count: int, lane: int, message: str) -> None:
        """Notes a finding of which `lane` is the example; the message continues "thread T of CTA C ..."."""
        thread, cta = int(self._lanes.thread[lane]), self._lanes.grid_cta(lane)
        self.log.add(kind, i, count, f"thread {thread} of CTA {cta} {message}", thread, cta)

    def unaligned(self, i: Instruction, mask: Mask, past: Mask | None = None) -> None:
        """Finds lanes that execute an `.aligned` instruction without others of their warp, which have not ended or have gone
        past it."""
        if i.base != "bar" and not i.has("aligned"):
            return
        here = mask.reshape(-1, 32)
        live = (self._lanes.live if past is None else self._lanes.live | past).reshape(-1, 32)
        partial = here.any(axis=1) & (live & ~here).any(axis=1)
        if partial.any():
            warp = int(np.flatnonzero(partial)[0])
            lane = warp * 32 + int(np.flatnonzero(here[warp])[0])
            text = (
                f"executes this .aligned instruction with {int(here[warp].sum())} of its warp's {int(live[warp].sum())} threads"
            )
            self.add("warp_divergence", i, int(partial.sum()), lane, text)

    def partial_warps(self, i: Instruction, mask: Mask) -> None:
        """Notes that a warp-wide instruction runs without some lanes of its warp."""
        by_warp = mask.reshape(-1, 32)
        partial = by_warp.any(axis=1) & ~by_warp.all(axis=1)
        warp = int(np.flatnonzero(partial)[0])
        lane = warp * 32 + int(np.flatnonzero(by_warp[warp])[0])
        count = int(by_warp[warp].sum())
        self.add("warp_divergence", i, int(partial.sum()), lane, f"runs with {count} of its warp's 32 threads")
