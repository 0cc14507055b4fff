"""The CTAs that run together: lanes, their stamps, their shared and local memory."""

from __future__ import annotations

import numpy as np

from .barriers import Barriers
from .checks import Recorder
from .copies import PendingCopies
from .emit import WIDE_SPECIALS
from .errors import EmulationError
from .layout import SPECIALS, Program
from .memory import OwnedMemory
from .ptx_model import Instruction
from .shadow import EPOCH_SHIFT, FIRST_STAMP, WARP_STEP, GlobalOrder, SharedShadow


class Batch:
    """CTAs first..first+count-1. Lanes: CTA by CTA, each padded to whole warps; padding never runs."""

    def __init__(
        self, program: Program, recorder: Recorder, first: int, count: int, checks: bool, tracked: frozenset[int], order: GlobalOrder
    ):
        self.program, self.recorder, self.first, self.count, self.checks = program, recorder, first, count, checks
        self.order = order
        self.width = program.padded_threads
        self.size = self.width * count
        self.thread = np.tile(np.arange(self.width), count)
        self.cta = np.repeat(np.arange(count), self.width)
        self.every = np.arange(self.size)
        self.live = self.thread < program.threads
        self._count_live()
        self.stamps = FIRST_STAMP | self.thread.astype(np.uint64)
        self.shared = OwnedMemory(program.shared_bytes, count, self.cta)
        self.local = OwnedMemory(program.local_bytes, self.size if program.local_bytes else 1, np.arange(self.size))
        self.shadow = None
        if checks and program.shared_bytes:
            granule = program.shared_granule
            self.shadow = SharedShadow(len(self.shared.bytes), granule, recorder, self.shared.stride, first)
        self.copies = PendingCopies(self)
        self.barriers = Barriers(self)
        self.watched = tracked
        self._written: dict[int, np.ndarray] = {r: np.zeros(self.size, dtype=bool) for r in tracked}
        self._lanes: tuple[np.ndarray | None, np.ndarray | None] = (None, None)

    def _count_live(self) -> None:
        self._live_count = int(np.count_nonzero(self.live))
        self.live_or_none = None if self._live_count == self.size else self.live
        self.live_warps = int(self.live.reshape(-1, 32).any(axis=1).sum())

    def specials(self) -> list[np.ndarray]:
        """Values of SPECIALS, in that order, as uint32 (the 64-bit ones as uint64)."""
        p = self.program
        thread, cta = self.thread, self.cta + self.first
        lane = (thread % 32).astype(np.uint64)
        values: dict[str, object] = {name: 0 for name in SPECIALS}
        step_t = step_c = 1
        for axis, (block, grid) in zip("xyz", zip(p.block, p.grid)):
            values[f"tid.{axis}"], values[f"ctaid.{axis}"] = thread // step_t % block, cta // step_c % grid
            values[f"ntid.{axis}"], values[f"nctaid.{axis}"] = block, grid
            step_t, step_c = step_t * block, step_c * grid
        values |= {"laneid": lane, "warpid": thread // 32, "nwarpid": self.width // 32, "nsmid": 1}
        values |= {"dynamic_smem_size": p.dynamic_smem, "total_smem_size": p.shared_bytes}
        bit = np.uint64(1) << lane
        below, every = bit - np.uint64(1), np.uint64(0xFFFFFFFF)
        values |= {"lanemask_eq": bit, "lanemask_lt": below, "lanemask_le": below | bit}
        values |= {"lanemask_gt": every & ~(below | bit), "lanemask_ge": every & ~below}
        values |= {"cluster_nctarank": 1, "cluster_nctaid.x": 1, "clusterid.x": values["ctaid.x"], "nclusterid.x": p.grid[0]}
        return [np.atleast_1d(values[n]).astype(np.uint64 if n in WIDE_SPECIALS else np.uint32) for n in SPECIALS]

    def address_of(self, name: str) -> np.ndarray:
        """uint64[1]: where a variable of global memory lies."""
        return np.array([self.program.address_of(name)], dtype=np.uint64)

    # Lanes and masks

    def is_full(self, mask: np.ndarray) -> bool:
        """Whether a mask (a part of the live lanes) is all of them."""
        return mask is self.live or int(np.count_nonzero(mask)) == self._live_count

    def both(self, mask: np.ndarray | None, guard: np.ndarray) -> np.ndarray:
        """bool[lanes]: active lanes for which a guard holds."""
        if mask is None:
            return guard if len(guard) == self.size else np.full(self.size, bool(guard[0]))
        return mask & guard

    def lanes(self, mask: np.ndarray | None) -> np.ndarray | None:
        """The numbers of the active lanes; None for all."""
        if mask is None:
            return None
        if self._lanes[0] is not mask:
            self._lanes = (mask, np.flatnonzero(mask))
        return self._lanes[1]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """A register's value as an array over all lanes."""
        return values if len(values) == self.size else np.broadcast_to(values, (self.size,))

    def whole_warps(self, mask: np.ndarray) -> np.ndarray:
        """The lanes of a mask whose warp is there with all of its live lanes; the mask itself where that is everyone."""
        missing = (self.live & ~mask).reshape(-1, 32).any(axis=1)
        present = mask.reshape(-1, 32).any(axis=1)
        if not (missing & present).any():
            return mask
        return mask & np.repeat(~missing, 32)

    def count_warps(self, mask: np.ndarray) -> int:
        return int(mask.reshape(-1, 32).any(axis=1).sum())

    def exit(self, mask: np.ndarray) -> None:
        """These lanes have come to their end."""
        self.live = self.live & ~mask
        self._count_live()

    def warps_of(self, mask: np.ndarray | None, i: Instruction) -> np.ndarray | None:
        """int64[w]: the warps that take part in a warp-wide instruction; None for all. Incomplete ones are a finding."""
        if mask is None:
            return None
        by_warp = mask.reshape(-1, 32)
        warps = by_warp.any(axis=1)
        if not by_warp[warps].all():
            self.warp_divergence(i, mask)
        return None if warps.all() else np.flatnonzero(warps)

    def warp_divergence(self, i: Instruction, mask: np.ndarray) -> None:
        """Notes that a warp-wide instruction runs without some lanes of its warp."""
        by_warp = mask.reshape(-1, 32)
        partial = by_warp.any(axis=1) & ~by_warp.all(axis=1)
        warp = int(np.flatnonzero(partial)[0])
        lane = warp * 32 + int(np.flatnonzero(by_warp[warp])[0])
        count = int(by_warp[warp].sum())
        self.found("warp_divergence", i, int(partial.sum()), lane, f"runs with {count} of its warp's 32 threads")

    # What went wrong

    def found(self, kind: str, i: Instruction, count: int, lane: int, message: str) -> None:
        """Notes a finding of which `lane` is the example."""
        thread, cta = int(self.thread[lane]), int(self.cta[lane]) + self.first
        self.recorder.add(kind, i, count, f"thread {thread} of CTA {cta} {message}", thread, cta)

    def refuse(self, message: str) -> None:
        """Raises EmulationError: an instruction that is not supported was reached."""
        raise EmulationError(message)

    def mark_written(self, register: int, mask: np.ndarray | None) -> None:
        """Notes that a watched register was written by the lanes of a mask (None: all)."""
        if mask is None:
            self._written[register][:] = True
        else:
            self._written[register] |= mask

    def check_written(self, registers: list, register: int, mask: np.ndarray | None, i: Instruction) -> None:
        """Finds lanes that read a watched register before anything wrote it."""
        missing = ~self._written[register]
        missing &= self.live if mask is None else mask
        if missing.any():
            name = self.program.entry.registers[register].name
            lanes = np.flatnonzero(missing)
            self.found("uninitialised_register", i, len(lanes), int(lanes[0]), f"reads {name}, which it never wrote")

    # Order between threads

    def pass_barrier(self, mask: np.ndarray | None) -> None:
        """The lanes of a mask (None: all) are ordered behind what they and the others of the barrier did before."""
        renewed = FIRST_STAMP | self.thread.astype(np.uint64)
        if mask is None:
            epoch = (self.stamps[0] >> EPOCH_SHIFT) << EPOCH_SHIFT
            if (self.stamps >> EPOCH_SHIFT == epoch >> EPOCH_SHIFT).all():
                self.stamps = renewed + epoch
                return
            mask = np.ones(self.size, dtype=bool)
        epochs = np.where(mask, self.stamps >> EPOCH_SHIFT, 0).reshape(self.count, -1).max(axis=1)
        later = np.repeat(epochs << EPOCH_SHIFT, self.width) + renewed
        self.stamps = np.where(mask, later, self.stamps)

    def pass_warp_barrier(self, mask: np.ndarray | None) -> None:
        """The same for lanes of one warp each."""
        stepped = self.stamps + WARP_STEP
        self.stamps = stepped if mask is None else np.where(mask, stepped, self.stamps)


