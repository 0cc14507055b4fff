"""plan of `weights`: rules with their remedies, what a call passes, and what weights cost."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.core.errors import SpecError
from mmagen.families import plan
from mmagen.families.wgmma.mixed_gemm import problem_faults
from mmagen.families.wgmma.page import sections
from mmagen.generate.render import render
from mmagen.plan.scales import model
from mmagen.spec.load import load
from mmagen.spec.model import Problem, Spec
from mmagen.spec.weights import Weights
from mmagen.verify.emulated.weights import _packed, _unpacked
from tests.support.wgmma_specs import LARGE, MMA_SYNC, faults, planned

S4 = LARGE | {
    "atom": "SM90_64x16x16_F32BF16BF16_RS",
    "tile": [128, 16, 128],
    "cluster": None,
    "operands": "swapped",
    "weights": {"type": "s4", "group": 128},
}
U4 = S4 | {
    "atom": "SM90_64x16x16_F32F16F16_RS",
    "weights": {"type": "u4", "group": 32, "scale": "f32", "scale_major": "K", "zero": "u8"},
    "epilogue": {"out": "f16"},
}

# rule: (a legal spec, what breaks it, key, part of what, part of remedy, what the remedy says)
RULES = {
    "weights in shared memory": (
        S4,
        {"atom": "SM90_64x16x16_F32BF16BF16_SS"},
        ("atom",),
        "reads the weights from shared memory",
        "SM90_64x16x16_F32BF16BF16_RS",
        {"atom": "SM90_64x16x16_F32BF16BF16_RS"},
    ),
    "activations of 8 bits": (
        S4,
        {"atom": "SM90_64x16x32_F32E4M3E4M3_RS_TN", "weights": {"type": "s4", "scale": "f32"}},
        ("atom",),
        "converted to bf16 or f16",
        "SM90_64x16x16_F32BF16BF16_RS",
        {"atom": "SM90_64x16x16_F32BF16BF16_RS"},
    ),
    "sums of f16": (
        U4,
        {"atom": "SM90_64x16x16_F16F16F16_RS"},
        ("atom",),
        "sums in f16",
        "an atom such as SM90_64x16x16_F32BF16BF16_RS",
        {"atom": "SM90_64x16x16_F32F16F16_RS"},
    ),
    "weights as A": (
        S4,
        {"operands": None},
        ("operands",),
        "weights are B",
        "swapped",
        {"operands": "swapped"},
    ),
    "other layouts": (S4, {"layout": "NT"}, ("layout",), "K contiguous", "TN", {"layout": "TN"}),
    "scales of another type": (
        S4,
        {"weights": {"type": "s4", "scale": "f16"}},
        ("weights",),
        "f16 scales of bf16 activations",
        "bf16, or f32",
        {"weights": {"type": "s4", "scale": "f32"}},
    ),
    "no producer": (
        S4,
        {"schedule": "warpgroup"},
        ("schedule",),
        "a producer loads",
        "cooperative or pingpong",
        {"schedule": "cooperative"},
    ),
    "half a chunk": (
        S4,
        {"tile": [128, 16, 64]},
        ("tile", 2),
        "not whole chunks",
        "a multiple of 128",
        {"tile": [128, 16, 128]},
    ),
    "scales twice": (S4, {"scale": {"b": "column"}}, ("scale",), "", "omit", {"scale": None}),
    "groups": (S4, {"grouped": "masked"}, ("grouped",), "does not go with weights", "omit grouped", {"grouped": None}),
    "accumulation": (S4, {"accumulation": "fast"}, ("accumulation",), "", "omit", {"accumulation": None}),
    "too many registers": (
        S4,
        {"atom": "SM90_64x256x16_F32BF16BF16_RS", "tile": [128, 256, 128]},
        ("tile",),
        "and their partial sums, 32 for fragments of A",
        "make M x N smaller",
        {},
    ),
    "rows that TMA cannot address": (
        S4,
        {"problems": [[16, 256, 100]]},
        ("problems", 0),
        "do not all begin at 16-byte boundaries",
        "ld_pad 4",
        {"problems": [{"shape": [16, 256, 100], "ld_pad": 4}]},
    ),
    "warpgroups of a part of a tile": (
        S4,
        {"schedule": "cooperative", "warpgroups": 3},
        ("warpgroups",),
        "3 warpgroups are not groups of the 2 of atoms_layout",
        "one of 2, 4",
        {"schedule": "cooperative", "warpgroups": 4},
    ),
    "warpgroups with too few registers": (
        S4,
        {"schedule": "cooperative", "tile": [320, 16, 128], "atoms_layout": [5, 1, 1]},
        ("atoms_layout",),
        "5 atoms are 5 warpgroups; with weights there are at most 4",
        "1 to 4",
        {"schedule": "cooperative", "tile": [256, 16, 128], "atoms_layout": [4, 1, 1]},
    ),
    "a stage for each part": (
        S4,
        {"schedule": "cooperative", "warpgroups": 4, "stages": 2},
        ("stages",),
        "2 groups of warpgroups take k tiles in turn",
        "a multiple of 2, from 4 on",
        {"schedule": "cooperative", "warpgroups": 4, "stages": 4},
    ),
    "no room for a stage for each part": (
        S4,
        {
            "schedule": "cooperative",
            "tile": [64, 32, 512],
            "atoms_layout": [1, 1, 1],
            "warpgroups": 3,
            "atom": "SM90_64x32x16_F32BF16BF16_RS",
        },
        ("warpgroups",),
        "3 groups of warpgroups take k tiles in turn and need 6 stages, but shared memory has 4 of them",
        "fewer warpgroups",
        {
            "schedule": "cooperative",
            "tile": [64, 32, 512],
            "atoms_layout": [1, 1, 1],
            "warpgroups": 1,
            "atom": "SM90_64x32x16_F32BF16BF16_RS",
        },
    ),
    "a wgmma atom": (
        MMA_SYNC,
        {"weights": {"type": "s4"}},
        ("weights",),
        "requires a wgmma atom",
        "omit it",
        {"weights": None},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_explains_itself_and_its_remedy_works(rule):
    legal, change, key, what, remedy, fix = RULES[rule]
    planned(legal)
    found = faults(legal | change)
    assert {fault.key for fault in found} == {key}, found
    assert any(what in fault.what and remedy in fault.remedy for fault in found), found
    planned(legal | fix)


REFUSED = {
    "weights: {}": "type",
    "weights: s4": "mapping",
    "weights: {type: s3}": "s4, u4, s8",
    "weights: {type: s4, group: 96}": "96 columns with one scale neither divide 128",
    "weights: {type: s4, group: 0}": "the minimum is 1",
    "weights: {type: s4, zero: u8}": "s4 weights have no zero points",
    "weights: {type: u4, zero: u4}": "u8",
    "weights: {type: s4, scale: e4m3}": "bf16",
    "weights: {type: s4, scale_major: M}": "'M' is not a legal value",
    "weights: {type: s4, scales: bf16}": "scales",
}


@pytest.mark.parametrize("line", REFUSED)
def test_wrong_weights_are_refused_at_their_place(line):
    text = f"mmagen: 1\nname: g\nkernel: gemm\natom: {S4['atom']}\ntile: [128, 16, 128]\natoms_layout: [2, 1, 1]\n{line}\n"
    with pytest.raises(SpecError) as caught:
        load(text, "s.yaml")
    assert "s.yaml:7:" in str(caught.value) and REFUSED[line] in str(caught.value)


@pytest.mark.parametrize(("kind", "stored", "packed"), [("s4", "u8", 2), ("u4", "u8", 2), ("s8", "s8", 1), ("e4m3", "e4m3", 1)])
@pytest.mark.parametrize("group", [None, 32, 64, 128, 256])
def test_what_a_call_passes(kind, stored, packed, group):
    one = planned(S4 | {"weights": {"type": kind, "group": group}})
    b = one.operand("B")
    assert (b.element.word, b.group, b.kept, one.facts.packed_b) == (stored, packed, 1, packed)
    (scales,) = one.arguments.tensors
    shape = scales.rows.value({"n": 100, "k": 300}), scales.columns.value({"n": 100, "k": 300})
    assert (scales.name, scales.element.word, shape) == ("scale_b", "bf16", (100, -(-300 // group) if group else 1))
    assert not scales.columns_contiguous and scales.pitched
    assert one.mainloop.weights.chunk == min(group or 128, 128) == one.accumulation.promoted
    assert one.smem_bytes <= one.smem_limit
    # A chunk of a row of weights lies in one line, which TMA swizzles as a whole.
    kernels_a = one.operands[0]
    assert kernels_a.line * packed % one.mainloop.weights.chunk == 0 and kernels_a.smem_copy is None


def test_zero_points_and_scales_by_group():
    one = planned(U4)
    assert [(tensor.name, tensor.element.word, tensor.columns_contiguous) for tensor in one.arguments.tensors] == [
        ("scale_b", "f32", True),
        ("zero_b", "u8", True),
    ]
    assert model(one) == "WeightScales<mmagen::test::weight_u4, mmagen::test::f32, 0, 32, 1>"
    layout = one.mainloop.weights
    assert (layout.kind, layout.scale.word, layout.chunk, layout.group, layout.contiguous_k, layout.zeros) == (
        "kU4",
        "f32",
        32,
        32,
        True,
        True,
    )


def test_fragments_of_a_chunk_and_two_sets_of_sums_take_registers():
    one = planned(S4)
    assert one.fragment_registers == 32
    assert one.accumulator_registers == 2 * 128 * 16 // 256
    assert planned(U4).fragment_registers == 8


@pytest.mark.parametrize(
    ("atoms", "warpgroups", "parts"), [(1, 4, 4), (1, 3, 3), (2, 4, 2), (2, None, 1), (2, 2, 1), (4, None, 1)]
)
def test_warpgroups_take_k_tiles_in_turn(atoms, warpgroups, parts):
    tile = [64 * atoms, 16, 128]
    one = planned(S4 | {"tile": tile, "atoms_layout": [atoms, 1, 1], "warpgroups": warpgroups, "schedule": "cooperative"})
    assert one.mainloop.weights.parts == parts
    assert one.roles.consumers == atoms * parts and one.threads == 128 * (atoms * parts + 1)
    assert one.accumulator_registers == 2 * 64 * 16 // 128  # those of a part, which has all of the tile
    alone = planned(S4 | {"tile": tile, "atoms_layout": [atoms, 1, 1], "stages": one.mainloop.stages})
    sums = (parts - 1) * 4 * tile[0] * tile[1]
    staged = one.epilogue.smem_bytes - alone.epilogue.smem_bytes
    assert one.smem_bytes - alone.smem_bytes == sums + staged
    assert f"kPartsOfK = {parts};" in render(one)["include/g/config.cuh"].decode()


def test_only_addressable_problems_are_planned_and_tried():
    one = planned(S4)
    assert one.problems and not list(problem_faults(one.spec, one.problems))
    assert list(problem_faults(one.spec, [Problem(shape=(16, 16, 16), offset=1)]))
    assert not list(problem_faults(one.spec, [Problem(shape=(16, 16, 16), offset=16)]))


def test_the_files_of_a_project():
    files = render(planned(U4))
    config, header = files["include/g/config.cuh"].decode(), files["include/g/g.h"].decode()
    assert "mmagen::Sm90MainloopMixed<Config>" in config and "WeightType::kU4" in config
    assert "that of even k in the low half" in header and "zero_b" in header and "G_UNALIGNED_B" in header
    assert "src/g_unaligned.cu" not in files and "include/mmagen/weight_conversion.cuh" in files
    assert "any alignment" not in header


def test_the_page_says_what_becomes_of_weights():
    rows = {title: dict(entries) for title, entries in sections(planned(U4))}
    text = str(rows)
    assert "permuted" not in text
    assert "u4" in text and "converted in registers" in text and "32 columns of a row" in text


def test_the_library_inherits_weights():
    document = S4 | {
        "configs": [
            {"name": "few", "when": {"m": [1, 16]}},
            {"name": "more", "atom": "SM90_64x64x16_F32BF16BF16_RS", "tile": [128, 64, 128]},
        ]
    }
    library = plan(Spec.model_validate(document))
    assert all(one.plan.mainloop.weights for one in library.configs)
    assert "mmagen::run_sm90_mixed<Config>" in render(library)["src/few.cu"].decode()


@pytest.mark.parametrize("kind", ["s4", "u4", "s8", "e4m3"])
def test_what_is_packed_is_unpacked(kind):
    weights = Weights(type=kind)
    low, high = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128), "e4m3": (-8, 8)}[kind]
    drawn = np.random.default_rng(1).integers(low, high, (2, 3, 7)).astype(np.float64)
    packed = _packed(weights, drawn)
    assert packed.shape == (2, 3, 4 if weights.packed == 2 else 7)
    assert (_unpacked(weights, packed)[..., :7] == drawn).all()
    if kind == "u4":  # as the header says it: even columns in the low half
        assert (packed[..., :3] & 15 == drawn[..., 0:6:2]).all() and (packed[..., :3] >> 4 == drawn[..., 1:6:2]).all()
