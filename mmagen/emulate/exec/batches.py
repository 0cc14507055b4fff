"""Runs the batches of a launch one after the other, and counts what they executed."""

from __future__ import annotations

from mmagen.emulate.batch import LaunchState, make_batch
from mmagen.emulate.errors import KernelAborted
from mmagen.emulate.exec.compile import Compiled
from mmagen.emulate.exec.coverage import BranchLog
from mmagen.emulate.exec.endless import Limits
from mmagen.emulate.exec.scheduler import BatchScheduler
from mmagen.emulate.report.report import Report


class Batches:
    """Runs the batches of one launch, one after the other. completed: all threads so far have ended. No other batch is to run
    if it was stopped, since a limit was exceeded, or aborted, by a trap or an assertion."""

    def __init__(self, launch: LaunchState, code: Compiled, limits: Limits):
        self._launch, self._code, self._limits = launch, code, limits
        self._executed: dict[int, int] = {}  # block -> warps that have run it
        self.branches = BranchLog(code.branches)
        self.steps = 0
        self.completed = True
        self.aborted = False
        self.stopped = False

    def run(self, first: int, count: int) -> None:
        """CTAs first..first+count-1, from beginning to end."""
        batch = make_batch(self._launch, first, count)
        self.branches.begin()
        run = BatchScheduler(batch, self._code, self._limits, self._executed, self.branches)
        try:
            self.completed &= run.run()
        except KernelAborted:
            self.completed, self.aborted = False, True
        self.stopped |= run.stopped
        self.steps += run.steps

    def count_instructions(self, report: Report) -> None:
        """Fills the report's instruction counts."""
        for start, warps in self._executed.items():
            block = self._code.blocks[start]
            report.warp_instructions += warps * block.length
            for name, count in block.opcodes.items():
                report.opcodes[name] = report.opcodes.get(name, 0) + warps * count
