"""Libraries whose kernels are launched in several ways, as text and as plans."""

from __future__ import annotations

from mmagen.families import plan
from mmagen.plan.plans import GemmPlan
from mmagen.spec.load import load

COST = (
    "{ctas: 132, launch_us: 2, overlap_us: 0.3, tile_us: 0.5, store_pitch: 0.3, k_tile_us: 0.2, throttle: 0.3, line_ns: 1, "
    "dram_tbps: 4, dram_spread: 0.3, dram_rows: 0.02, dram_columns: 0.2, store_tbps: 5, l2_tbps: 9, l2_spread: 0.4, "
    "l2_pitch: 0.1, l2_odd_pitch: 0.3, l2_ragged: 0.02, fixup_us: 1.5, part_us: 0.03, fixup_tbps: 3}"
)


def planned(text: str) -> GemmPlan:
    made = plan(load(text, "lib.yaml").spec)
    assert isinstance(made, GemmPlan)
    return made
