"""Order in global memory between the CTAs of a launch that synchronise by flags: releases and acquires.

A release store keeps with the flag's address what its thread knew; a thread that reads the flag with acquire knows that
too, if the scopes of both include the other thread.

A store may become visible late: a CTA that does not know of it reads once what the flag held before, however long ago the
store was executed here. So a thread that reads a flag without a loop that waits for it acquires nothing.
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Events, Indices, Values
from mmagen.emulate.hazards.clocks import ClockRow, Clocks
from mmagen.emulate.hazards.global_history import Flag, GlobalHistory, Knowledge, Releases
from mmagen.emulate.lanes.lanes import Lanes
from mmagen.emulate.memory.global_memory import GlobalMemory
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.ptx.scopes import GPU, reaches, scope_of
from mmagen.emulate.report.findings import FindingLog


class CrossCtaOrder:
    """What the threads of one batch learn from flags."""

    def __init__(self, history: GlobalHistory, memory: GlobalMemory, lanes: Lanes, clocks: Clocks, log: FindingLog):
        self._history, self._memory, self._lanes, self._clocks, self._log = history, memory, lanes, clocks, log
        # lane -> what it read of flags without acquire; a fence may follow. The scope is that of the load.
        self._unfenced: dict[int, Releases] = {}

    def strong_write(self, i: Instruction, index: Indices, size: int, lanes: Indices) -> Events:
        """Strong stores and atomics to flags of `size` bytes: at byte positions index, of lanes; called before memory
        changes. Returns uint64[n], the clock at which a thread knows of each: that of its release, of the fence before it,
        or of now."""
        atomic, scope = i.base in ("atom", "red"), scope_of(i)
        memory, flags = self._memory.flat(), self._history.flags
        clocks = np.zeros(len(lanes), dtype=np.uint64)
        for n, (place, lane) in enumerate(zip(index.tolist(), lanes.tolist(), strict=True)):
            flag = flags.get(place)
            earlier = flag.released if flag else {}
            if flag:
                self._check_scopes(i, lane, flag, "writes")
            if atomic:
                self._acquire(i, lane, earlier)
            now = int(self._clocks.clock[lane // 32])
            released = self._releases(i, lane, lanes, scope)
            cta = self._lanes.grid_cta(lane)
            warp = cta // self._lanes.cluster, lane // 32 % self._clocks.warps
            clocks[n] = max((knowledge[warp] for knowledge in released.values() if warp in knowledge), default=now)
            event = (*warp, int(clocks[n]))
            # An atomic continues the release sequence before it; a store begins a new one.
            released = _joined(earlier, released) if atomic else released
            flags[place] = Flag(released, memory[place : place + size].tobytes(), earlier, event, cta, scope)
            flags[place].observers.add(cta)
        return clocks

    def _releases(self, i: Instruction, lane: int, peers: Indices, scope: int) -> Releases:
        """What a strong access releases, by itself or by fences before it."""
        cta, released = self._lanes.grid_cta(lane), Releases()
        if _has(i, "release"):
            return {(scope, cta): self._knowledge(lane, self._clocks.release(np.array([lane]), peers))}
        for of_fence in range(GPU + 1):
            if row := self._clocks.fence_released(lane // 32, of_fence):
                released = _joined(released, {(min(scope, of_fence), cta): self._knowledge(lane, row)})
        return released

    def strong_read(self, i: Instruction, index: Indices, lanes: Indices, values: Values) -> None:
        """Strong loads of flags: at byte positions index, of lanes. values: what memory holds; replaced by the old value
        where the last store is not visible yet."""
        stale: list[tuple[Flag, int]] = []
        for n, (place, lane) in enumerate(zip(index.tolist(), lanes.tolist(), strict=True)):
            if not (flag := self._history.flags.get(place)):
                continue
            cta = self._lanes.grid_cta(lane)
            visible = cta == flag.cta or cta in flag.stale_readers or self._knows(lane, flag)
            self._check_scopes(i, lane, flag, "reads")
            if len(flag.old_value) == values[n].nbytes and not visible:
                values[n] = np.frombuffer(flag.old_value, dtype=values.dtype)
                self._acquire(i, lane, flag.old_released)
                stale.append((flag, cta))
            else:
                flag.observers.add(cta)
                self._acquire(i, lane, flag.released)
        for flag, cta in stale:
            flag.stale_readers.add(cta)
        # Threads that poll must read again: to them the store is as good as executed now.
        self._memory.writes += bool(stale)

    def _check_scopes(self, i: Instruction, lane: int, flag: Flag, what: str) -> None:
        """Two strong accesses race where the scope of one does not include the thread of the other."""
        cta, cluster = self._lanes.grid_cta(lane), self._lanes.cluster
        if reaches(flag.scope, flag.cta, cta, cluster) and reaches(scope_of(i), cta, flag.cta, cluster):
            return
        if not self._knows(lane, flag):
            text = (
                f"CTA {cta} {what} a flag that CTA {flag.cta} writes in the same launch; their scopes do not include each other"
            )
            self._log.add("global_race", i, 1, text, cta=cta)

    def _acquire(self, i: Instruction, lane: int, released: Releases) -> None:
        """A thread has read a flag; without acquire a fence may follow."""
        mine, cluster, scope = self._lanes.grid_cta(lane), self._lanes.cluster, scope_of(i)
        for (reach, cta), knowledge in released.items():
            if not (reaches(reach, cta, mine, cluster) and reaches(scope, mine, cta, cluster)):
                continue
            if _has(i, "acquire"):
                self._learn(lane, knowledge)
            else:
                self._unfenced[lane] = _joined(self._unfenced.get(lane, {}), {(scope, cta): knowledge})

    def _knows(self, lane: int, flag: Flag) -> bool:
        """Whether a thread knows of the last store to a flag."""
        cluster, warp, clock = flag.event
        return bool(self._clocks.reached(np.array([lane]), self._column(lane, cluster, warp))[0] >= clock)

    def _column(self, lane: int, cluster: int, warp: int) -> int:
        """The column of a warp of a cluster of the grid in a thread's row."""
        mine = self._lanes.grid_cta(lane) // self._lanes.cluster
        return warp if cluster == mine else self._clocks.column("cluster", cluster, warp)

    def fence(self, lanes: Indices, scope: int) -> None:
        """What these lanes have read of flags before is acquired, as far as the fence's scope reaches."""
        for lane in set(lanes.tolist()) & set(self._unfenced):
            mine, later = self._lanes.grid_cta(lane), Releases()
            for (of_load, cta), knowledge in self._unfenced.pop(lane).items():
                if reaches(min(scope, of_load), mine, cta, self._lanes.cluster):
                    self._learn(lane, knowledge)
                else:
                    later[of_load, cta] = knowledge
            if later:
                self._unfenced[lane] = later

    def _knowledge(self, lane: int, row: ClockRow) -> Knowledge:
        """What a row of the clocks knows of warps of the grid."""
        cluster = self._lanes.grid_cta(lane) // self._lanes.cluster
        warps = np.flatnonzero(row.known[: self._clocks.warps]).tolist()
        known = {(cluster, warp): int(row.known[warp]) for warp in warps}
        for (kind, owner, warp), column in self._clocks.found_agents():
            if kind == "cluster" and column < len(row.known) and row.known[column]:
                known[owner, warp] = int(row.known[column])
        return known

    def _learn(self, lane: int, released: Knowledge) -> None:
        for (cluster, warp), clock in released.items():
            self._clocks.advance(np.array([lane]), self._column(lane, cluster, warp), clock)


def _has(i: Instruction, order: str) -> bool:
    """Whether an access acquires, or releases."""
    return i.has(order) or i.has("acq_rel")


def _joined(a: Releases, b: Releases) -> Releases:
    result = dict(a)
    for place, knowledge in b.items():
        known = dict(result.get(place, {}))
        for key, clock in knowledge.items():
            known[key] = max(clock, known.get(key, 0))
        result[place] = known
    return result
