"""The CTAs that run together: lanes, their stamps, their shared and local memory."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arithmetic.wgmma import WARPGROUP
from mmagen.emulate.asynchronous.bulk import BulkCopies
from mmagen.emulate.asynchronous.cp_async import PendingCopies
from mmagen.emulate.asynchronous.wgmma_groups import Flights
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.hazards.clock_shadow import ClockShadow
from mmagen.emulate.hazards.clocks import Clocks, Seen
from mmagen.emulate.hazards.far_order import FarOrder, is_strong
from mmagen.emulate.hazards.shadow import EPOCH_SHIFT, FIRST_STAMP, WARP_STEP, GlobalOrder, SharedShadow
from mmagen.emulate.memory.memory import OwnedMemory
from mmagen.emulate.ops.emit import WIDE_SPECIALS
from mmagen.emulate.program.program import SPECIALS, Program
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.report.checks import Recorder
from mmagen.emulate.sync.barriers import Barriers
from mmagen.emulate.sync.clusters import ClusterBarrier, Exits, lanes_by
from mmagen.emulate.sync.mbarriers import Mbarriers


class Batch:
    """CTAs first..first+count-1. Lanes: CTA by CTA, each padded to whole warps; padding never runs."""

    def __init__(
        self, program: Program, recorder: Recorder, first: int, count: int, checks: bool, tracked: frozenset[int],
        order: GlobalOrder, far: FarOrder,
    ):  # fmt: skip
        self.program, self.recorder, self.first, self.count, self.checks = program, recorder, first, count, checks
        self.order, self.far = order, far
        self.width = program.padded_threads
        self.size = self.width * count
        self.thread = np.tile(np.arange(self.width), count)
        self.cta = np.repeat(np.arange(count), self.width)
        self.every = np.arange(self.size)
        self.live = self.thread < program.threads
        self._count_live()
        self.shared = OwnedMemory(program.shared_bytes, count, self.cta)
        self.local = OwnedMemory(program.local_bytes, self.size if program.local_bytes else 1, np.arange(self.size))
        self._watch()
        self.copies = PendingCopies(self)
        self.barriers = Barriers(self)
        self.cluster_barrier, self.exits = ClusterBarrier(self), Exits(self)
        self.mbarriers, self.bulk, self.wgmmas = Mbarriers(self), BulkCopies(self), Flights(self)
        self.watched = tracked
        self._told: dict[tuple[int, int], Seen] = {}
        self._written: dict[int, np.ndarray] = {r: np.zeros(self.size, dtype=bool) for r in tracked}
        self._lanes: tuple[np.ndarray | None, np.ndarray | None] = (None, None)

    def _watch(self) -> None:
        """What shared memory is watched with: `stamps` is what its shadow wants to know of a lane."""
        program, granule = self.program, self.program.shared_granule
        self.shadow: SharedShadow | ClockShadow | None = None
        self.clocks: Clocks | None = None
        self.stamps = FIRST_STAMP | self.thread.astype(np.uint64)
        if program.asynchronous:
            self.shared.bytes[:] = 0xFF  # NaN, where it is a float
        if not self.checks:
            return
        if program.asynchronous:
            self.clocks, self.stamps = Clocks(self.size, self.width, program.cluster), self.every
        if not program.shared_bytes:
            return
        if self.clocks is not None:
            self.shadow = ClockShadow(self, self.clocks, min(granule, 16))
        else:
            self.shadow = SharedShadow(len(self.shared.bytes), granule, self.recorder, self.shared.stride, self.first)

    def _count_live(self) -> None:
        self._live_count = int(np.count_nonzero(self.live))
        self.live_or_none = None if self._live_count == self.size else self.live
        self.live_warps = int(self.live.reshape(-1, 32).any(axis=1).sum())

    def specials(self) -> list[np.ndarray]:
        """Values of SPECIALS, in that order, as uint32 (the 64-bit ones as uint64)."""
        p = self.program
        thread, cta = self.thread, self.cta + self.first
        lane = (thread % 32).astype(np.uint64)
        values: dict[str, object] = dict.fromkeys(SPECIALS, 0)
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
        for axis, size in zip("xyz", (p.cluster, 1, 1)):
            values[f"cluster_ctaid.{axis}"], values[f"cluster_nctaid.{axis}"] = values[f"ctaid.{axis}"] % size, size
            values[f"clusterid.{axis}"] = values[f"ctaid.{axis}"] // size
            values[f"nclusterid.{axis}"] = values[f"nctaid.{axis}"] // size
        values |= {"cluster_ctarank": values["cluster_ctaid.x"], "cluster_nctarank": p.cluster}
        values["is_explicit_cluster"] = int(p.cluster > 1)
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

    def lanes(self, mask: np.ndarray | None) -> np.ndarray:
        """The numbers of the active lanes, ascending."""
        if mask is None:
            return self.every
        if self._lanes[0] is not mask:
            self._lanes = (mask, np.flatnonzero(mask))
        return self._lanes[1]

    def spread(self, values: np.ndarray) -> np.ndarray:
        """A register's value as an array over all lanes."""
        return values if len(values) == self.size else np.broadcast_to(values, (self.size,))

    def whole_warps(self, mask: np.ndarray, together: int = 32) -> np.ndarray:
        """The lanes of a mask whose warp is there with all of its live lanes; the mask itself where that is everyone.
        together: 128 for warpgroups, which count from the begin of their CTA."""
        missing, present = self._by(self.live & ~mask, together).any(axis=1), self._by(mask, together).any(axis=1)
        if not (missing & present).any():
            return mask
        return mask & self._spread_out(~missing, together)

    def _by(self, lanes: np.ndarray, together: int) -> np.ndarray:
        """[warps or warpgroups, lanes]; where a CTA is no whole number of them, its last one is filled up."""
        if self.width % together == 0:
            return lanes.reshape(-1, together)
        padded = np.pad(lanes.reshape(self.count, self.width), ((0, 0), (0, -self.width % together)))
        return padded.reshape(-1, together)

    def _spread_out(self, values: np.ndarray, together: int) -> np.ndarray:
        lanes = np.repeat(values, together)
        return lanes if len(lanes) == self.size else lanes.reshape(self.count, -1)[:, : self.width].reshape(-1)

    def whole_warpgroups(self, mask: np.ndarray | None, i: Instruction) -> np.ndarray:
        """int64[g]: the warpgroups that are there with all of their 128 threads; others are a finding."""
        groups = self.wgmmas.groups(mask)
        active = self.live if mask is None else mask
        whole = np.array([int(active[self.wgmmas.lanes(g)].sum()) == WARPGROUP for g in groups.tolist()], dtype=bool)
        if not whole.all():
            lane = self.wgmmas.first_lane(int(groups[~whole][0]))
            self.found("warp_divergence", i, int((~whole).sum()), lane, "runs without some threads of its warpgroup")
        return groups[whole]

    def count_warps(self, mask: np.ndarray) -> int:
        return int(mask.reshape(-1, 32).any(axis=1).sum())

    def exit(self, mask: np.ndarray) -> None:
        """These lanes have come to their end."""
        self.live = self.live & ~mask
        self._count_live()
        if self.program.asynchronous:
            self.bulk.exit(mask)
            self.exits.exit(mask)

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

    @property
    def waits(self) -> bool:
        """Whether lanes wait at a barrier."""
        return bool(self.mbarriers.waits) or not (self.barriers.empty and self.cluster_barrier.empty)

    def warps_of_lanes(self, others: object) -> np.ndarray:
        """bool[lanes]: those of warps of which a lane waits for an mbarrier, or is one of `others` (a mask, if any)."""
        waiting = np.zeros(self.size, dtype=bool)
        for wait in self.mbarriers.waits:
            waiting[wait.lanes] = True
        if isinstance(others, np.ndarray):
            waiting |= others
        return np.repeat(waiting.reshape(-1, 32).any(axis=1), 32)

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

    def note_global(
        self, i: Instruction, index: np.ndarray, size: int, lanes: np.ndarray, writing: bool, atomic: bool = False
    ) -> None:
        """Accesses to global memory: byte positions int64[n] of lanes int64[n]."""
        if self.clocks is None:
            if not atomic:
                self.order.note(i, index, size, self.cta[lanes] + self.first, writing, self.program.memory.size)
            return
        self.far.note(self, i, index, size, lanes, writing)
        if writing and is_strong(i):
            self.far.synchronise(self, i, index, size, lanes)

    def tell_barrier(self, number: int, mask: np.ndarray) -> None:
        """Lanes arrive at a barrier without waiting there: what they did is known to those who do."""
        if self.clocks is None:
            return
        for cta, lanes in lanes_by(self.cta, mask):
            self._told[number, cta] = self.clocks.release(lanes).join(self._told.get((number, cta)))

    def _pass_with_clocks(self, clocks: Clocks, mask: np.ndarray, number: int) -> None:
        for cta, lanes in lanes_by(self.cta, mask):
            clocks.meet(lanes)
            if (number, cta) in self._told:
                clocks.acquire(lanes, self._told.pop((number, cta)))

    def pass_barrier(self, mask: np.ndarray | None, number: int = 0) -> None:
        """The lanes of a mask (None: all) are ordered behind what they and the others of the barrier did before."""
        if self.clocks is not None:
            self._pass_with_clocks(self.clocks, self.live if mask is None else mask, number)
            return
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
        if self.clocks is not None:
            self.clocks.meet_in_warps(mask)
            return
        stepped = self.stamps + WARP_STEP
        self.stamps = stepped if mask is None else np.where(mask, stepped, self.stamps)

    def fence_proxy(self, mask: np.ndarray | None) -> None:
        """fence.proxy.async of the active lanes."""
        self.mbarriers.fence(mask)
        if self.clocks is not None:
            self.clocks.fence(self.lanes(mask))

    def fence_memory(self, mask: np.ndarray | None) -> None:
        """fence.acq_rel and fence.sc of the active lanes."""
        if self.clocks is not None:
            lanes = self.lanes(mask)
            self.far.fence(self, lanes)
            self.clocks.prepare(lanes)
