"""Which branches and loops of an entry the threads of a launch have reached."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """One thing that threads may do at a branch of the PTX.

    what: "taken" or "not taken", of a conditional branch; "once" or "again", of the branch back at the end of a loop: a thread
    leaves the loop after its first iteration, or begins another one. file, line: of the branch in the CUDA source where the PTX
    knows it, else in the PTX.
    """

    ptx_line: int
    what: str
    file: str
    line: int


@dataclass(frozen=True)
class Coverage:
    """The goals of an entry, and those of them that no thread has reached. Nothing is asked of loops that wait for other
    threads: how often they go round depends on the schedule."""

    entry: str
    goals: tuple[Goal, ...] = ()
    missed: frozenset[Goal] = frozenset()

    @property
    def reached(self) -> int:
        return len(self.goals) - len(self.missed)
