"""plan of `scale`: rules with their remedies, what a kernel looks up, and what scales cost."""

from __future__ import annotations

import pytest

from mmagen.core.errors import SpecError
from mmagen.families import plan
from mmagen.families.wgmma.page import sections
from mmagen.generate.render import render
from mmagen.spec.load import load
from mmagen.spec.model import Spec
from tests.support.wgmma_specs import FP8, LARGE, faults, planned

BLOCKS = {"a": "1x128", "b": "128x128"}
SCALED = FP8 | {"scale": BLOCKS}
ROWS = FP8 | {"scale": {"a": "row", "b": "column"}}

# rule: (a legal spec, what breaks it, key, part of what, part of remedy, what the remedy says)
RULES = {
    "types without scales": (
        LARGE,
        {"scale": BLOCKS},
        ("scale",),
        "bf16 operands take no scales",
        "requires e4m3 or e5m2",
        {"scale": None},
    ),
    "f16 accumulators": (
        ROWS,
        {"atom": "SM90_64x128x32_F16E4M3E4M3_SS_TN"},
        ("scale",),
        "those of SM90_64x128x32_F16E4M3E4M3_SS_TN are f16",
        "SM90_64x128x32_F32E4M3E4M3_SS_TN",
        {"atom": "SM90_64x128x32_F32E4M3E4M3_SS_TN"},
    ),
    "k tile across blocks": (
        SCALED,
        {"tile": [128, 128, 96]},
        ("tile", 2),
        "a k tile of 96 does not lie in one block of 128",
        "a divisor of 128: the nearest legal is tile [128, 128, 128]",
        {"tile": [128, 128, 128]},
    ),
    "k tile of two blocks": (
        SCALED,
        {"tile": [128, 128, 256], "stages": 2},
        ("tile", 2),
        "a k tile of 256",
        "tile [128, 128, 128]",
        {"tile": [128, 128, 128], "stages": 2},
    ),
    "no producer": (
        SCALED,
        {"schedule": "warpgroup", "cluster": None},
        ("schedule",),
        "copied by a warp of the producer",
        "cooperative or pingpong",
        {"schedule": "cooperative", "cluster": None},
    ),
    "fast sums of several blocks": (
        SCALED,
        {"accumulation": "fast"},
        ("accumulation",),
        "never inside the tensor core",
        "precise, or omit it",
        {"accumulation": "precise"},
    ),
    "registers for one unit": (
        SCALED,
        {"tile": [128, 256, 128], "atom": "SM90_64x256x32_F32E4M3E4M3_SS_TN"},
        ("tile",),
        "registers per thread for accumulators and their partial sums",
        "make M x N smaller",
        {"tile": [128, 256, 128]},
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_explains_itself_and_its_remedy_works(rule):
    legal, change, key, what, remedy, fix = RULES[rule]
    planned(legal)
    found = faults(legal | change)
    assert {fault.key for fault in found} == {key}, found
    assert what in found[0].what and remedy in found[0].remedy, found[0]
    planned(legal | fix)


REFUSED = {
    "scale: {}": "neither A nor B has scales",
    "scale: {a: 1x64}": "1x128",
    "scale: {a: column}": "A has a line of K for each row of D; a: row",
    "scale: {b: row}": "B has a line of K for each column of D; b: column",
    "scale: {a: row, a_major: K}": "scale.a_major: K has no meaning for scales of A per row",
    "scale: {a: 1x128, b_major: N}": "scale.b_major: N has no meaning for B without scales",
    "scale: {a: 1x128, a_major: N}": "'N' is not a legal value",
    "scale: 1x128": "mapping",
}


@pytest.mark.parametrize("line", REFUSED)
def test_a_wrong_scale_is_refused_at_its_place(line):
    text = f"mmagen: 1\nname: g\nkernel: gemm\natom: {FP8['atom']}\ntile: [128, 128, 128]\natoms_layout: [2, 1, 1]\n{line}\n"
    with pytest.raises(SpecError) as caught:
        load(text, "s.yaml")
    assert "s.yaml:7:" in str(caught.value) and REFUSED[line] in str(caught.value)


def test_scales_of_the_other_operands_lines_become_its_own():
    text = f"mmagen: 1\nname: g\nkernel: gemm\natom: {FP8['atom']}\ntile: [128, 128, 128]\natoms_layout: [2, 1, 1]\n"
    with pytest.raises(SpecError) as caught:
        load(text + "scale: {a: column, b: row}\n", "s.yaml")
    changes = [one.change for one in caught.value.diagnostics]
    assert changes == [{("scale", "a"): "row"}, {("scale", "b"): "column"}]


def test_every_pair_of_words_is_planned():
    for a in (None, "tensor", "row", "1x128", "128x128"):
        for b in (None, "tensor", "column", "1x128", "128x128"):
            if a or b:
                one = planned(FP8 | {"scale": {"a": a, "b": b}})
                assert one.mainloop.scales_k == bool({a, b} & {"1x128", "128x128"})
                assert one.mainloop.scales_tile == bool({a, b} & {"tensor", "row", "column"})
                assert [tensor.name for tensor in one.arguments.tensors] == ["scale_a"] * bool(a) + ["scale_b"] * bool(b)


@pytest.mark.parametrize(
    ("atom_n", "tile", "layout", "granule"),
    [
        (128, [128, 128, 128], [2, 1, 1], 128),
        (96, [128, 192, 128], [2, 1, 1], 64),
        (128, [128, 256, 128], [2, 1, 1], 128),
        (136, [128, 136, 128], [2, 1, 1], 8),
        (64, [128, 64, 64], [2, 1, 1], 64),
        (64, [256, 128, 128], [2, 1, 1], 128),
    ],
)
def test_lookups_of_a_tile_begin_where_a_block_may(atom_n, tile, layout, granule):
    one = planned(SCALED, atom=f"SM90_64x{atom_n}x32_F32E4M3E4M3_SS_TN", tile=tile, atoms_layout=layout, cluster=None)
    a, b = one.mainloop.scales
    assert (a.granule, b.granule, one.mainloop.partial_registers) == (1, granule, atom_n // 2)
    # A tile may begin at any multiple of its extent: every block begins a multiple of a granule into it.
    assert all(start % granule == 0 for at in range(0, 64 * tile[1], tile[1]) for start in range(-at % 128, tile[1], 128))
    assert b.slots >= tile[1] // granule
    sums = tile[0] * tile[1] // 256
    assert one.accumulator_registers == sums + atom_n // 2
    assert one.smem_bytes <= one.smem_limit and one.smem_bytes % 1024 == 0


def test_scales_along_k_have_a_producer_unless_the_spec_says_otherwise():
    simple = FP8 | {"tile": [64, 128, 128], "atoms_layout": [1, 1, 1], "cluster": None}
    assert planned(simple).roles.schedule == "warpgroup"
    assert planned(simple | {"scale": {"a": "row"}}).roles.schedule == "warpgroup"
    assert planned(simple | {"scale": BLOCKS}).roles.schedule == "cooperative"


def test_swapped_operands_keep_the_names_of_a_call():
    scale = {"a": "1x128", "b": "128x128", "a_major": "K", "b_major": "N"}
    one = planned(
        FP8,
        scale=scale,
        operands="swapped",
        atom="SM90_64x16x32_F32E4M3E4M3_SS_TN",
        tile=[64, 16, 128],
        cluster=None,
        atoms_layout=[1, 1, 1],
    )
    a, b = one.mainloop.scales  # of the kernel: A is the call's B
    assert (a.kind, a.contiguous_k, b.kind, b.contiguous_k) == ("128x128", False, "1x128", True)
    by_name = {tensor.name: tensor for tensor in one.arguments.tensors}
    assert by_name["scale_a"].shape_text == "(m, ceil(k / 128))" and by_name["scale_a"].columns_contiguous
    assert by_name["scale_b"].shape_text == "(ceil(n / 128), ceil(k / 128))" and not by_name["scale_b"].columns_contiguous


def test_the_key_is_not_part_of_a_spec_without_it():
    assert "scale" not in Spec.model_validate(FP8).model_dump(mode="json")
    assert Spec.model_validate(SCALED).model_dump(mode="json")["scale"] == BLOCKS


def test_a_project_has_the_headers_that_it_uses_and_no_others():
    def headers(document):
        return {path.rsplit("/", 1)[1] for path in render(plan(Spec.model_validate(document))) if path.startswith("include/")}

    plain, blocks, rows = headers(FP8), headers(SCALED), headers(ROWS)
    assert not any("scale" in name for name in plain)
    assert blocks - plain >= {"sm90_scales.cuh", "sm90_mainloop_scaled.cuh", "cp_async.cuh"}
    assert "sm90_mainloop_tile_scaled.cuh" in rows and "sm90_mainloop_scaled.cuh" not in rows


def test_inspect_says_what_is_scaled_where():
    text = str(dict(sections(planned(SCALED)))["Scales"])
    assert "one for 128 of K of each row, M contiguous" in text and "64 registers of a thread, of 64 rows x 128 columns" in text
    assert "multiply the finished tile" in str(dict(sections(planned(ROWS)))["Scales"])
    assert "Scales" not in dict(sections(planned(FP8)))
