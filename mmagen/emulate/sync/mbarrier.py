"""The state of one mbarrier, and of the threads that wait for one of its phases."""

from __future__ import annotations

from dataclasses import dataclass, field

from mmagen.emulate.arrays import Indices
from mmagen.emulate.hazards.clocks import ClockRow
from mmagen.emulate.ptx.model import Instruction
from mmagen.emulate.sync.overtaken import Evidence

Ready = tuple[Instruction, int, Indices, bool]
"""(wait instruction, block that follows, lanes int64[n], its result) of lanes that may run now."""
Place = tuple[int, int]
"""(CTA in the batch, byte of its shared memory)."""


@dataclass
class Mbarrier:
    """count: arrivals of a phase. missing: those that this phase still needs. bytes: announced less arrived. phase: how many
    have completed. initialiser: the lane that executed mbarrier.init; initialised: (column, clock) of that in the clocks;
    fenced: whether it is visible to the cluster and to TMA. pending_copies: copies and stores in flight that complete on it.
    far_stores: some stores of this phase are those of threads of another CTA. completed_by: the lane whose only arrival
    completed the last phase, or -1.
    arrivals: what the arrivals of this phase release; released: what those of completed phases did; both also for those of
    the barrier's own CTA alone (near), which is all that a wait of .cta scope acquires. evidence: of waits that the end of this
    phase may overtake."""

    count: int
    missing: int
    initialiser: int
    initialised: tuple[int, int] = (0, 0)
    bytes: int = 0
    phase: int = 0
    fenced: bool = False
    pending_copies: int = 0
    far_stores: bool = False
    completed_by: int = -1
    arrivals: ClockRow | None = None
    released: ClockRow | None = None
    near_arrivals: ClockRow | None = None
    near_released: ClockRow | None = None
    evidence: Evidence = field(default_factory=Evidence)


@dataclass
class Wait:
    """Lanes that wait for a phase. start: the block that follows."""

    instruction: Instruction
    start: int
    place: Place
    phase: int
    lanes: Indices
