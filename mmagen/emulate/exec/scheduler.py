"""Schedules the threads of a batch of CTAs as lanes of numpy arrays.

Lanes at the same instruction run together. Where they diverge, the group at the smallest instruction goes first; since
compilers put the place where paths join behind all of them, groups reconverge there by themselves. Lanes wait at barriers
until their CTA is complete, at warp-wide instructions until their warp is, and at an mbarrier until its phase completes.
TMA loads arrive when no lane can go on without them.
"""

from __future__ import annotations

from time import monotonic

import numpy as np

from mmagen.emulate.arrays import Indices, Mask, Registers, Words
from mmagen.emulate.batch import Batch
from mmagen.emulate.errors import EmulationError, KernelAborted, defect
from mmagen.emulate.exec.blocks import Block
from mmagen.emulate.exec.compile import Compiled
from mmagen.emulate.exec.coverage import BranchLog
from mmagen.emulate.exec.endless import Limits, Stopped, Watch, report_late
from mmagen.emulate.lanes.members import complete_sets
from mmagen.emulate.lanes.special_values import special_registers
from mmagen.emulate.ops.mbarriers import address_operand, phase_operands, shared_address
from mmagen.emulate.ptx.model import Immediate, Instruction, Negated, Register
from mmagen.emulate.sync.resumed import Resumed

_MOST_POLLS = 1000


class BatchScheduler:
    """groups: block -> lanes that are about to run it. executed: counts, by block, of the warps that ran it. watch: counts
    steps, once those of all lanes together exceed half of what one may take."""

    def __init__(self, batch: Batch, code: Compiled, limits: Limits, executed: dict[int, int], branches: BranchLog):
        self._batch, self._lanes, self._code = batch, batch.lanes, code
        self._blocks, self._next = code.blocks, code.next
        self._limits, self._executed, self._branches = limits, executed, branches
        self._registers: Registers = code.zeros.copy()
        self._registers += special_registers(batch.program, batch.lanes)
        self._groups: dict[int, Mask] = {0: batch.lanes.live}
        # (block, lane, address) of the flags that were read since the last write, of which there had been so many: the
        # registers of the lane when it read the flag again, and how often it has.
        self._polled: dict[tuple[int, int, int], tuple[int, int]] = {}
        self._writes = batch.memory.device.writes
        self._last = code.blocks[0]  # that was run
        self._unwatched = limits.steps // 2
        self._watch: Watch | None = None
        self.steps = 0
        self.stopped = False

    def run(self) -> bool:
        """Runs all lanes to their end; False where some wait forever. `stopped`: a limit is exceeded. An instruction that the
        emulator cannot execute, for whatever reason, raises EmulationError: a defect in here costs the verdict of one kernel,
        not the whole run."""
        try:
            return self._run()
        except Stopped:
            self.stopped = True
            return False
        except (EmulationError, KernelAborted, MemoryError):
            raise
        except Exception as error:
            first, last = self._last_lines()
            file = self._batch.program.module.file
            raise defect(f"in the instructions from here to line {last}", error, f"{file}:{first}") from error

    def _last_lines(self) -> tuple[int, int]:
        """The first and the last line of the block that was run last."""
        lines = sorted(i.line for i in self._last.instructions)
        return (lines[0], lines[-1]) if lines else (0, 0)

    def _run(self) -> bool:
        while True:
            for ready in self._batch.mbarriers.take_completed():
                self._resume(*ready)
            chosen = self._choose()
            if chosen is not None:
                self._step(self._blocks[chosen[0]], chosen[1])
                if self._watch and self._watch.turn_ends:
                    self._serve_waiting()
            elif not (self._serve_waiting() or self._run_incomplete_warps()):
                break
        if not (self._waits() or self._groups):
            return True
        self._report_deadlock()
        return False

    # Choosing

    def _choose(self) -> tuple[int, Mask] | None:
        """Takes out the smallest block that can run now, with its lanes; incomplete warps wait at a warp-wide one."""
        order = sorted(self._groups)
        for start in self._watch.in_turn(order) if self._watch else order:
            mask, block = self._groups[start], self._blocks[start]
            if block.polls:
                continue
            if block.together > 1:
                complete = self._complete(block, mask)
                if complete is not mask:
                    if not complete.any():
                        continue
                    self._groups[start] = mask & ~complete
                    return start, complete
            del self._groups[start]
            return start, mask
        return None

    def _complete(self, block: Block, mask: Mask) -> Mask:
        """The lanes of a group that need not wait for others, or for registers; the mask itself where that is everyone."""
        if isinstance(block.members, (Register, Immediate)):
            return complete_sets(self._lanes, mask, self._member_masks(block.members))
        complete = self._lanes.whole_warps(mask, block.together)
        return self._batch.register_pool.fitting(complete, block.registers) if block.registers else complete

    def _member_masks(self, members: Register | Immediate) -> Words:
        if isinstance(members, Immediate):
            return np.array([int(members.value) & 0xFFFFFFFF], dtype=np.uint32)
        masks: Words = self._registers[members.index].astype(np.uint32)
        return masks

    def _serve_waiting(self) -> bool:
        """No lane can run: lets TMA loads and remote stores arrive, and the copies that an mbarrier waits for, tests of mbarriers
        fail, or flags be read again. False if none of these is possible."""
        batch = self._batch
        delivered = [batch.copy_arrivals.deliver(), batch.remote_stores.deliver(), batch.bulk.deliver()]
        if any(delivered):
            return True
        if failed := batch.mbarriers.take_failed_tests():
            for ready in failed:
                self._resume(*ready)
            return True
        return self._poll(self._polling)

    @property
    def _polling(self) -> list[int]:
        """The blocks that begin with reading a flag, of those that lanes are about to run."""
        return [start for start in self._groups if self._blocks[start].polls]

    def _run_incomplete_warps(self) -> bool:
        """No lane can run even so: lets incomplete warps run. False if there are none."""
        polling = self._polling
        # No warp will become complete by itself: its other lanes wait elsewhere. Shuffles and votes may name a part of
        # their warp; what needs all 32 lanes reports it. But a phase that has yet to complete may complete the warp, or a
        # flag.
        waiting = self._warps_that_wait(polling)
        return any(
            self._run_some(start, self._served(start) & ~waiting) for start in sorted(self._groups) if start not in polling
        )

    def _served(self, start: int) -> Mask:
        """The lanes at a block that do not wait for registers."""
        registers = self._blocks[start].registers
        return self._batch.register_pool.fitting(self._groups[start], registers) if registers else self._groups[start]

    def _poll(self, polling: list[int]) -> bool:
        """Lets lanes of the smallest of these blocks read their flags. If nothing was written since a lane read a flag at the
        same place, it reads it again only if its registers have changed, as they do in a loop over several flags or values;
        not for ever, since it may count how often it has looked."""
        writes = self._batch.memory.device.writes
        if writes != self._writes:
            self._polled.clear()
            self._writes = writes
        for start in sorted(polling):
            lanes = np.flatnonzero(self._groups[start])
            address = address_operand(self._blocks[start].body[0], self._registers, self._batch.program)
            mask = np.zeros(self._lanes.size, dtype=bool)
            for lane, place in zip(lanes.tolist(), self._lanes.spread(address)[lanes].tolist(), strict=True):
                mask[lane] = self._reads_again((start, lane, place))
            if self._run_some(start, mask):
                return True
        return False

    def _reads_again(self, flag: tuple[int, int, int]) -> bool:
        if flag not in self._polled:
            self._polled[flag] = 0, 0
            return True
        before, times = self._polled[flag]
        lane = flag[1]
        lasting = (self._registers[index] for index in self._code.lasting)
        now = hash(tuple((r if len(r) == 1 else r[lane : lane + 1]).tobytes() for r in lasting))
        self._polled[flag] = now, times + 1
        return times < _MOST_POLLS and (times == 0 or now != before)

    def _run_some(self, start: int, mask: Mask) -> bool:
        """Runs a block for those of its lanes, if there are any."""
        if not mask.any():
            return False
        rest = self._groups.pop(start) & ~mask
        if rest.any():
            self._groups[start] = rest
        self._step(self._blocks[start], mask)
        return True

    def _warps_that_wait(self, polling: list[int]) -> Mask:
        """bool[lanes]: those of warps of which a lane waits for an mbarrier or polls a flag."""
        waiting = np.zeros(self._lanes.size, dtype=bool)
        for wait in self._batch.mbarriers.waits:
            waiting[wait.lanes] = True
        for start in polling:
            waiting |= self._groups[start]
        return np.repeat(waiting.reshape(-1, 32).any(axis=1), 32)

    def _waits(self) -> bool:
        """Whether lanes wait at a barrier."""
        batch = self._batch
        return bool(batch.mbarriers.waits) or not (batch.barriers.empty and batch.cluster_barrier.empty)

    # Running

    def _step(self, block: Block, mask: Mask) -> None:
        lanes, self._last = self._lanes, block
        self.steps += block.length + 1
        for start in self._groups:
            if self._blocks[start].synchronises and block.start in self._code.past(start):
                self._batch.members.note_past(start, mask)
        self._unwatched -= block.steps
        if self._unwatched < 0:
            self._watch = self._watch or Watch(self._batch, self._blocks, self._limits)
            self._watch.count(block, mask)
        if monotonic() > self._limits.until:
            report_late(self._batch, block, mask, self._limits)
            raise Stopped
        full = lanes.is_full(mask)
        if full:
            mask = lanes.live
        if block.body:
            run = self._code.function(block, full, self._batch.undefined.any)
            run(self._registers, lanes.live_or_none if full else mask, self._batch)
        if block.length:
            warps = lanes.live_warps if full else lanes.count_warps(mask)
            self._executed[block.start] = self._executed.get(block.start, 0) + warps
        if block.end is None:
            self._go(self._next.get(block.start, -1), mask)
        else:
            self._end(block, block.end, mask)

    def _go(self, start: int, mask: Mask) -> None:
        if start < 0 or start == len(self._batch.program.entry.instructions):
            self._exit(mask)
        elif start in self._groups:
            self._groups[start] = self._groups[start] | mask
        else:
            self._groups[start] = mask

    def _end(self, block: Block, end: Instruction, mask: Mask) -> None:
        """Executes the branch, barrier or exit at the end of a block."""
        following = self._next.get(block.start, -1)
        taken, rest = self._split(end, mask)
        if block.target >= 0:
            self._branches.note(block, taken, rest)
        if rest is not None:
            self._go(following, rest)
        if taken is None:
            return
        if end.base == "bra":
            self._go(block.target, taken)
        elif end.base == "brx" and block.targets:
            self._branch_by_index(block, end, taken)
        elif end.base in ("ret", "exit"):
            self._exit(taken)
        elif end.base == "trap":
            lane, count = int(np.flatnonzero(taken)[0]), int(taken.sum())
            self._batch.findings.add("trap", end, count, lane, "executes a trap, which ends the launch with an error")
            raise KernelAborted
        elif end.base == "mbarrier":
            self._wait_for_phase(end, taken, following)
        elif end.base == "barrier" and end.modifiers[0] == "cluster":
            self._unaligned(end, taken)
            if end.has("arrive"):
                self._go(following, taken)
                if not end.has("relaxed"):
                    self._batch.mbarriers.fence(taken)
                self._release(self._batch.cluster_barrier.arrive(end, taken))
            else:
                self._release(self._batch.cluster_barrier.wait(end, taken, following))
        elif end.base in ("bar", "barrier"):
            if end.has("arrive"):
                self._unaligned(end, taken)
            self._release(self._batch.barriers.arrive(end, taken, following, self._registers))
        else:
            raise EmulationError(f"{self._batch.program.module.file}:{end.line}: this instruction is not supported: {end.text}")

    def _branch_by_index(self, block: Block, end: Instruction, mask: Mask) -> None:
        """brx.idx: each lane goes to the target of its index."""
        index = end.operands[0]
        if not isinstance(index, Register):
            raise EmulationError(f"{self._batch.program.module.file}:{end.line}: this index is not supported: {end.text}")
        values = self._lanes.spread(self._registers[index.index])
        outside = mask & (values >= len(block.targets))
        if outside.any():
            lane = int(np.flatnonzero(outside)[0])
            text = f"branches by index {int(values[lane])}; there are {len(block.targets)} targets"
            raise EmulationError(f"{self._batch.program.module.file}:{end.line}: thread {self._lanes.thread[lane]} {text}")
        for value in np.unique(values[mask]).tolist():
            self._go(block.targets[value], mask & (values == value))

    def _unaligned(self, end: Instruction, mask: Mask) -> None:
        """Finds warps that execute an .aligned instruction in part."""
        self._batch.findings.unaligned(end, mask, self._batch.members.take_past(end.index))

    def _wait_for_phase(self, end: Instruction, mask: Mask, following: int) -> None:
        """Lanes wait for an mbarrier's phase: those whose phase has completed go on, the others when it does."""
        lanes = np.flatnonzero(mask)
        place, phase = phase_operands(end, self._registers, self._batch.program)
        where, phases = (self._lanes.spread(values)[lanes].astype(np.int64) for values in (place, phase))
        wait = self._batch.mbarriers.wait
        for result, these in zip(
            (True, False), wait(end, following, lanes, shared_address(where), phases, end.has("parity")), strict=True
        ):
            if these.any():
                self._resume(end, following, lanes[these], result)

    def _resume(self, i: Instruction, start: int, lanes: Indices, completed: bool) -> None:
        """Lanes go on behind a wait for an mbarrier's phase."""
        mask = np.zeros(self._lanes.size, dtype=bool)
        mask[lanes] = True
        target = i.operands[0]
        if isinstance(target, Register):
            self._registers[target.index] = np.where(mask, completed, self._registers[target.index])
            if target.index in self._code.tracked:
                self._batch.registers.mark_written(target.index, mask)
        self._go(start, mask)

    def _split(self, end: Instruction, mask: Mask) -> tuple[Mask | None, Mask | None]:
        """(lanes of mask for which the guard holds, the others); None for an empty half."""
        guard = end.guard
        if guard is None:
            return mask, None
        register = guard.register if isinstance(guard, Negated) else guard
        if register.index in self._code.tracked:
            self._batch.registers.check_written(register.index, mask, end)
        if self._batch.undefined.any:
            self._batch.undefined.branch(end, register.index, mask)
        value = self._registers[register.index]
        value = ~value if isinstance(guard, Negated) else value
        if len(value) == 1:
            return (mask, None) if value[0] else (None, mask)
        taken = mask & value
        if not taken.any():
            return None, mask
        rest = mask & ~value
        return (taken, rest) if rest.any() else (mask, None)

    # Ends

    def _exit(self, mask: Mask) -> None:
        batch = self._batch
        batch.lanes.end(mask)
        if batch.program.asynchronous:
            batch.bulk.end(mask)
            batch.exits.end(mask)
            batch.wgmmas.end(mask)
        self._release(batch.barriers.after_exit())
        if batch.program.asynchronous:
            self._release(batch.cluster_barrier.after_exit())

    def _release(self, resumed: Resumed) -> None:
        for start, mask in resumed:
            self._go(start, mask)

    def _report_deadlock(self) -> None:
        batch = self._batch
        for start, mask in self._groups.items():
            if self._blocks[start].registers:
                batch.register_pool.report_deadlock(self._blocks[start].body[0], mask, self._blocks[start].registers)
            if self._blocks[start].polls:
                lane = int(np.flatnonzero(mask)[0])
                text = "waits forever for a flag that no thread writes any more"
                batch.findings.add("deadlock", self._blocks[start].body[0], int(mask.sum()), lane, text)
        batch.barriers.report_deadlock()
        batch.cluster_barrier.report_deadlock()
        batch.mbarriers.report_deadlock()
