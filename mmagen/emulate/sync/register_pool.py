"""The registers of CTAs, which setmaxnreg moves between their warps (PTX ISA 9.7.19.5, "setmaxnreg").

PTX does not say how many registers a thread has at launch. Assumed is what ptxas gives kernels with setmaxnreg: .maxnreg, or
as many as 64 Ki registers allow for the threads of .maxntid or .reqntid times .minnctapersm, in steps of 8, but not more than
the largest count that a setmaxnreg names (ptxas 13.0: 224 for DeepGEMM's kernels of 256 threads). Without these
directives ptxas ignores setmaxnreg, and nothing is checked. The registers of warps that have ended count as free.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mmagen.emulate.arrays import Mask
from mmagen.emulate.lanes.lane_findings import LaneFindings
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.ptx.model import Entry, Immediate, Instruction

_OF_SM = 65536
_MOST = 256
WARPGROUP = 128


@lru_cache(maxsize=8)
def launch_registers(entry: Entry) -> int:
    """Registers of a thread at launch; 0 if the directives leave it open."""
    limits = entry.limits
    if limits.max_registers:
        return -(-limits.max_registers // 8) * 8
    x, y, z = limits.threads or (limits.max_threads, 1, 1)
    threads = x * y * z * max(1, limits.min_ctas)
    counts = [i.operands[0] for i in entry.instructions if i.base == "setmaxnreg"]
    largest = max((int(x.value) for x in counts if isinstance(x, Immediate)), default=_MOST)
    return min(_MOST, largest, _OF_SM // threads // 8 * 8) if threads else 0


class RegisterPool:
    """The registers of the CTAs of a batch."""

    def __init__(self, lanes: Lanes, findings: LaneFindings, entry: Entry):
        self._lanes, self._findings = lanes, findings
        self._at_launch = launch_registers(entry)
        self._warps = lanes.width // 32
        self._current = np.full(lanes.count * self._warps, self._at_launch, dtype=np.int64)

    def fitting(self, mask: Mask, wanted: int) -> Mask:
        """The lanes of a mask that can have `wanted` registers now; warps are served in the order of their numbers. The mask
        itself where that is everyone."""
        if not self._at_launch:
            return mask
        free = self._free()
        here: Mask = np.any(mask.reshape(-1, 32), axis=1)
        served = np.zeros(len(here), dtype=bool)
        groups = -(-self._warps // 4)
        for group in range(self._lanes.count * groups):
            cta, first = group // groups, group // groups * self._warps + group % groups * 4
            warps = np.arange(first, min(first + 4, (cta + 1) * self._warps))
            warps = warps[here[warps]]
            need = int(32 * np.maximum(wanted - self._current[warps], 0).sum())
            if len(warps) and need <= free[cta]:
                free[cta] -= need
                served[warps] = True
        return mask if (served == here).all() else mask & np.repeat(served, 32)

    def _free(self) -> list[int]:
        live = self._lanes.live.reshape(-1, 32).any(axis=1)
        held = np.where(live, self._current, 0).reshape(self._lanes.count, -1).sum(axis=1)
        return [int(32 * (self._warps * self._at_launch - x)) for x in held]

    def change(self, i: Instruction, mask: Mask | None, count: int) -> None:
        """setmaxnreg of the active lanes to `count` registers."""
        active = self._lanes.live if mask is None else mask
        first = int(np.flatnonzero(active)[0])
        if not 24 <= count <= 256 or count % 8:
            self._findings.add(
                "register_count", i, 1, first, f"asks for {count} registers; setmaxnreg takes 24 to 256, in steps of 8"
            )
        partial = self._lanes.whole_warps(active, WARPGROUP)
        if partial is not active:
            lane = int(np.flatnonzero(active & ~partial)[0])
            self._findings.add("warp_divergence", i, 1, lane, "executes it without some threads of its warpgroup")
        if not self._at_launch:
            return
        warps = active.reshape(-1, 32).any(axis=1)
        wrong = warps & ((self._current > count) if i.has("inc") else (self._current < count))
        if wrong.any():
            warp = int(np.flatnonzero(wrong)[0])
            have = int(self._current[warp])
            text = f"asks for {count} registers, {'fewer' if i.has('inc') else 'more'} than the {have} that it has"
            if have == self._at_launch:
                text += " at launch by the entry's directives"
            self._findings.add("register_count", i, int(wrong.sum()), warp * 32, text)
        self._current[warps] = count

    def report_deadlock(self, i: Instruction, mask: Mask, count: int) -> None:
        """Notes lanes that wait forever for registers."""
        lane = int(np.flatnonzero(mask)[0])
        cta, have = lane // self._lanes.width, int(self._current[lane // 32])
        text = (
            f"waits forever for {count} registers: it has {have} and its CTA {self._free()[cta]} free ones, of "
            f"{self._at_launch} for each of {self._lanes.threads} threads at launch; other warps have to release theirs with "
            "setmaxnreg.dec first"
        )
        self._findings.add("deadlock", i, int(mask.sum()), lane, text)
