"""plan for wgmma: random specs hold what kernels rely on, or are refused with a remedy that works."""

from __future__ import annotations

import random

import pytest

from mmagen.core.errors import SpecFaults
from mmagen.families import plan
from mmagen.families.wgmma import rules as hopper_rules
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import LAYOUTS, Spec


def _document(dice: random.Random) -> dict:
    """What somebody might mean, and more often than not something odd in one place."""
    types, k = dice.choice(
        [
            ("F32BF16BF16", 16),
            ("F32F16F16", 16),
            ("F16F16F16", 16),
            ("F32TF32TF32", 8),
            ("S32S8U8", 32),
            ("F32E4M3E5M2", 32),
            ("F16E5M2E5M2", 32),
        ]
    )
    n = dice.choice([8, 16, 24, 64, 96, 112, 128, 192, 256])
    schedule = dice.choice(["warpgroup", "cooperative", "cooperative", "pingpong"])
    atoms = dice.choice(
        {
            "warpgroup": [[1, 1, 1], [2, 2, 1], [4, 1, 1]],
            "cooperative": [[1, 1, 1], [2, 1, 1], [1, 2, 1], [3, 1, 1]],
            "pingpong": [[1, 1, 1]],
        }[schedule]
    )
    tile = [64 * atoms[0] * dice.choice([1, 1, 1, 2]), n * atoms[1] * dice.choice([1, 1, 2]), k * dice.choice([1, 2, 4, 4])]
    document = {
        "mmagen": 1,
        "name": "random_one",
        "kernel": "gemm",
        "atom": f"SM90_64x{n}x{k}_{types}_{dice.choice(['SS', 'SS', 'RS'])}{'' if k == 16 else '_TN'}",
        "layout": dice.choice(list(LAYOUTS)) if k == 16 else "TN",
        "tile": tile,
        "atoms_layout": atoms,
        "schedule": schedule,
        "cluster": dice.choice([None, [2, 1], [1, 2], [2, 2], [4, 2]]) if schedule != "warpgroup" else None,
        "stages": dice.choice([None, None, 2, 3]),
        "epilogue": {"out": None, "major": dice.choice("NNM")},
    }
    odd = [
        {"tile": [tile[0] + 8, *tile[1:]]},
        {"tile": [4 * tile[0], *tile[1:]]},
        {"tile": [*tile[:2], 16 * tile[2]]},
        {"permutation": [64, None, None]},
        {"layout": "NT"},
        {"atoms_layout": [4, 1, 1]},
        {"atoms_layout": [1, 1, 2]},
        {"schedule": "pingpong"},
        {"schedule": None},
        {"cluster": [3, 1]},
        {"cluster": [8, 1]},
        {"cluster": [4, 4]},
        {"cluster": [16, 2]},
        {"split_k": 2},
        {"split_k": 4},
        {"split_k": 8, "cluster": None},
        {"warpgroups": 1},
        {"warpgroups": 3},
        {"stages": 9},
        {"stages": 90},
        {"ctas_per_sm": 2},
        {"ctas_per_sm": 4},
        {"accumulation": "precise"},
        {"accumulation": "fast"},
        {"epilogue": {"out": "e4m3"}},
    ]
    return document | (dice.choice(odd) if dice.random() < 0.7 else {})


def _hold(it: GemmPlan) -> None:
    assert isinstance(it, WgmmaGemmPlan)
    roles, scheduler, wgmma = it.roles, it.scheduler, it.atom
    assert it.threads == 128 * (roles.consumers + (roles.schedule != "warpgroup"))
    assert all(tile % extent == 0 for tile, extent in zip(it.tile, it.tiled_mma.extent, strict=True))
    for operand, ctas in zip(it.operands, reversed(scheduler.cluster), strict=True):
        tma = operand.tma
        assert tma.swizzle_bytes in (16, 32, 64, 128) and operand.line * operand.element.bytes == tma.swizzle_bytes
        assert operand.line * tma.panels == operand.extent_along
        assert tma.box_across * tma.boxes * ctas == operand.extent_across
        assert tma.box_across % 8 == 0 and tma.box_across <= 256
        assert operand.contiguous_k or (wgmma.m if operand.letter == "A" else wgmma.n) % operand.line == 0
        assert bool(operand.smem_copy) == (operand.letter == "A" and wgmma.a_in_registers)
    staged, count = it.epilogue, it.tile[0] * it.tile[1] // it.tiled_mma.threads * 2
    line = (staged.slice if staged.row_major else 16) * staged.out.bytes
    assert wgmma.n % staged.slice == 0 and staged.slice % 8 == 0 and line in (16, 32, 64, 128)
    assert count // staged.slice % scheduler.split_k == 0
    assert it.smem_bytes <= it.smem_limit and it.smem_bytes % 1024 == 0 and it.stages >= 2
    assert 16 * it.stages + 8 * roles.consumers <= 1024
    assert it.accumulator_registers + it.fragment_registers + 30 <= roles.usable_registers <= 255
    registers = roles.producer_registers + roles.consumers * roles.consumer_registers
    assert 128 * registers * it.ctas_per_sm <= 65536 and roles.producer_registers % 8 == roles.consumer_registers % 8 == 0
    assert scheduler.cluster_ctas == scheduler.split_k * scheduler.cluster[0] * scheduler.cluster[1] <= 16
    assert scheduler.raster_group >= 1


@pytest.mark.parametrize("seed", range(4))
def test_random_specs_are_refused_with_a_remedy_that_works_or_hold(seed):
    dice = random.Random(seed)
    made = refused = mended = 0
    for _ in range(250):
        spec = Spec.model_validate(_document(dice))
        try:
            it = plan(spec)
        except SpecFaults as error:
            assert all(fault.key and fault.what and fault.remedy for fault in error.faults)
            refused += 1
            mended += _mend(spec)
        else:
            _hold(it)
            made += 1
    assert made > 25 and refused > 25 and mended > 25, "the dice must find all of them"


def _mend(spec: Spec) -> int:
    """Follows the recommended change of a spec with a single breach: it must leave none."""
    found = hopper_rules.breaches(spec)
    if len(found) != 1 or (change := hopper_rules.nearest(spec, found[0])) is None:
        return 0
    again = Spec.model_validate(spec.model_copy(update=change).model_dump(mode="json"))
    assert hopper_rules.breaches(again) == [], (spec, change)
    return 1
