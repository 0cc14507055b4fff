"""What is printed below the faults of a spec: lines with which it is accepted."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from mmagen.core.errors import ABSENT
from mmagen.families.reading import read
from mmagen.families.remedies import accepted_changes, as_yaml
from tests.families.test_faults import CASES

MMA: dict[str, Any] = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM80_16x8x16_F32F16F16F32_TN",
    "tile": [128, 128, 32],
    "atoms_layout": [2, 2, 1],
}
WGMMA = MMA | {"atom": "SM90_64x64x16_F32BF16BF16_SS", "atoms_layout": [2, 1, 1], "tile": [128, 64, 64]}
FP8 = WGMMA | {"atom": "SM90_64x64x32_F32E4M3E4M3_SS_TN", "tile": [128, 64, 128]}
S32 = MMA | {"atom": "SM80_16x8x32_S32S8S8S32_TN", "tile": [128, 128, 64]}
WEIGHTS = WGMMA | {
    "atom": "SM90_64x64x16_F32BF16BF16_RS",
    "tile": [128, 64, 128],
    "operands": "swapped",
    "schedule": "cooperative",
    "weights": {"type": "s4"},
}
SPARSE = WGMMA | {"atom": "SM90::GMMA::SPARSE::GMMA_64x64x32_F32BF16BF16_SS", "atoms_layout": [1, 1, 1], "tile": [64, 64, 64]}
ALIGNED: dict[str, Any] = {"batch": 1, "ld_pad": 0, "offset": 0, "alpha": 1.0, "beta": 0.0}
QUAD_PAIRS = MMA | {"atom": "SM70_8x8x4_F16F16F16F16_TN", "tile": [48, 16, 32]}
INTEGERS = MMA | {"atom": "SM90_64x128x32_S32S8U8_SS_TN_SATURATE", "atoms_layout": [1, 1, 1], "tile": [64, 384, 256]}
FIRST, LAST = {"name": "first", "when": {"m": [1, 64]}}, {"name": "last"}
LIBRARY = WGMMA | {"configs": [{"name": "first", "when": {"m": [1, 64]}, "stages": 2}, {"name": "last"}]}


def changes(document: dict[str, Any]) -> dict[str, Any]:
    """The changes, after they were applied as they are printed and accepted."""
    text = yaml.safe_dump(document)
    assert read(text, "g.yaml")[1], "the spec must be refused"
    found = accepted_changes(text, "g.yaml")
    assert found is not None
    kept = {key: value for key, value in document.items() if found.get(key) is not ABSENT}
    plan, faults = read(yaml.safe_dump(kept | (yaml.safe_load(as_yaml(found)) or {})), "g.yaml")
    assert plan is not None, faults
    return found


@pytest.mark.parametrize("name", CASES)
def test_specs_with_many_faults_are_mended_in_one_step(name):
    changes(CASES[name][0])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (MMA | {"stage": 3}, {"stages": 3, "stage": ABSENT}),
        (MMA | {"stage": 3, "stages": 2}, {"stage": ABSENT}),
        (MMA | {"epilogue": ["alpha", "rellu"]}, {"epilogue": ["alpha", "relu"]}),
        (MMA | {"epilogue": ["alpha", "absolute", "relu"]}, {"epilogue": ["alpha", "relu"]}),
        (MMA | {"epilogue": ["alpha", "bias"]}, {"epilogue": ["alpha", {"bias": "column"}]}),
        (MMA | {"epilogue": [{"gelu": "tanh", "type": "f32"}, "alpha"]}, {"epilogue": [{"gelu": "tanh"}, "alpha"]}),
        (MMA | {"epilogue": [{"clamp": [3, 1]}, "alpha"]}, {"epilogue": [{"clamp": [1.0, 3.0]}, "alpha"]}),
        (MMA | {"epilogue": {"bias": "row"}}, {"epilogue": ["alpha", "beta_c", {"bias": "row"}]}),
        (MMA | {"epilogue": {"relu": True, "out": "f32"}}, {"epilogue": ["alpha", "beta_c", "relu", {"cast": "f32"}]}),
        (MMA | {"epilogue": {"gated": "silu"}}, {"epilogue": ["alpha", {"gated": "silu"}]}),
        (MMA | {"epilogue": {"alpha": True, "relu": True}}, {"epilogue": ["alpha", "relu"]}),
        (
            MMA | {"epilogue": {"cast": "f16", "relu": True, "major": "M"}},
            {"epilogue": ["alpha", "beta_c", "relu", {"cast": "f16", "major": "M"}]},
        ),
        (
            MMA | {"epilogue": {"relu": True, "out": "f32", "major": "M"}},
            {"epilogue": ["alpha", "beta_c", "relu", {"cast": "f32", "major": "M"}]},
        ),
        (MMA | {"epilogue": [{"clamp": [0, 1e300]}, "relu"]}, {"epilogue": [{"clamp": [0.0, None]}, "relu"]}),
        (MMA | {"epilogue": [{"add": "zero_b"}]}, {"epilogue": [{"add": "own_zero_b"}]}),
        (WGMMA | {"epilogue": [{"amax": "group_m"}]}, {"epilogue": [{"amax": "own_group_m"}]}),
        (FP8 | {"scale": {"a": "row", "a_major": "K"}}, {"scale": {"a": "row"}}),
        (FP8 | {"scale": {"a": "1x128", "b_major": "N"}}, {"scale": {"a": "1x128"}}),
        (S32 | {"epilogue": [{"clamp": [-5e9, 7]}, "relu"]}, {"epilogue": [{"clamp": [None, 7.0]}, "relu"]}),
        (S32 | {"epilogue": [{"clamp": [-5e9, 5e9]}, "relu"]}, {"epilogue": ["relu"]}),
        (S32 | {"epilogue": [{"clamp": [0.5, 7.5]}, "relu"]}, {"epilogue": [{"clamp": [1, 7]}, "relu"]}),
        (WEIGHTS | {"weights": {"type": "s4", "group": 100}}, {"weights": {"type": "s4", "group": 128}}),
        (WEIGHTS | {"weights": {"type": "s4", "group": 16}}, {"weights": {"type": "s4", "group": 32}}),
        (WEIGHTS | {"weights": {"type": "s4", "group": 2**31 - 1}}, {"weights": {"type": "s4", "group": 2**31 - 128}}),
        (WEIGHTS | {"weights": {"type": "s8", "group": 64, "zero": "u8"}}, {"weights": {"type": "s8", "group": 64}}),
        (MMA | {"epilogue": ["relu", "alpha", "alpha"]}, {"epilogue": ["relu", "alpha"]}),
        (MMA | {"epilogue": [{"cast": "f16"}, "relu"]}, {"epilogue": ["relu", {"cast": "f16"}]}),
        (MMA | {"epilogue": [{"column_sums": "c"}, "relu"]}, {"epilogue": [{"column_sums": "own_c"}, "relu"]}),
        (
            MMA | {"epilogue": [{"bias": "row"}, {"bias": "column"}, {"add": "bias"}]},
            {"epilogue": [{"bias": "row"}, {"bias": "column", "name": "bias2"}, {"add": "bias3"}]},
        ),
        (SPARSE | {"problems": [[64, 24, 60]]}, {"problems": [ALIGNED | {"shape": [64, 24, 60], "ld_pad": 4}]}),
        (
            SPARSE | {"problems": [{"shape": [9, 9, 8], "batch": 2, "batch_stride_a": 100, "batch_stride_b": 0, "offset": 9}]},
            {"problems": [ALIGNED | {"shape": [9, 9, 8], "batch": 2, "batch_stride_b": 0, "offset": 8}]},
        ),
        (
            WEIGHTS | {"problems": [{"shape": [9, 9, 60], "batch": 2, "batch_stride_b": 600, "batch_stride_d": 230}]},
            {"problems": [ALIGNED | {"shape": [9, 9, 60], "batch": 2, "ld_pad": 4}]},
        ),
        (MMA | {"stages": 1}, {"stages": 2}),
        (MMA | {"ctas_per_sm": 17, "tile": [64, 64, 32]}, {"ctas_per_sm": 7}),
        (MMA | {"stages": 40}, {"stages": 10}),
        (MMA | {"tile": [128, 120, 32]}, {"tile": [128, 112, 32]}),
        (MMA | {"arch": ["sm_75", "sm_80", "sm_999"]}, {"arch": ["sm_80"]}),
        (MMA | {"arch": ["sm_75"]}, {"arch": ABSENT}),
        (MMA | {"layout": "TX"}, {"layout": ABSENT}),
        (MMA | {"epilogue": {"out": "f64", "major": "M"}}, {"epilogue": {"out": "f32", "major": "M"}}),
        (MMA | {"cluster": [2, 1], "split_k": 2}, {"cluster": ABSENT, "split_k": ABSENT}),
        (MMA | {"permutation": [None, "(8,2,2):(1,1,8)", None]}, {"permutation": [None, "(8,2,2):(1,8,16)", None]}),
        (MMA | {"atom": "SM80_16x8x16_F32F16F16F32_NT"}, {"atom": "SM80_16x8x16_F32F16F16F32_TN"}),
        (
            MMA | {"problems": [[8, 8, 8], {"shape": [8, 8, 8], "alpha": 1e300}]},
            {
                "problems": [
                    [8, 8, 8],
                    {"shape": [8, 8, 8], "batch": 1, "ld_pad": 0, "offset": 0, "alpha": 1e31, "beta": 0.0},
                ]
            },
        ),
        (
            MMA | {"kernel": "micro", "epilogue": ["relu", {"cast": "bf16", "major": "M"}]},
            {"epilogue": {"out": "bf16", "major": "M"}},
        ),
        (WEIGHTS | {"epilogue": ["alpha", {"gated": "silu"}, {"cast": "bf16"}]}, {"epilogue": ["alpha", {"cast": "bf16"}]}),
        (WGMMA | {"schedule": "pingpong"}, {"atoms_layout": [1, 1, 1]}),
        (WGMMA | {"schedule": "ping_pong"}, {"schedule": "pingpong", "atoms_layout": [1, 1, 1]}),
        (WGMMA | {"cluster": [8, 4]}, {"cluster": [4, 4]}),
        (MMA | {"ctas_per_sm": 8, "tile": [128, 64, 64]}, {"ctas_per_sm": 3}),
        (INTEGERS | {"schedule": "pingpong", "stages": 38}, {"stages": ABSENT, "tile": [64, 384, 224]}),
        (
            MMA | {"tile": [64, 64, 64], "stages": 2, "configs": [FIRST | {"ctas_per_sm": 12}, LAST | {"ctas_per_sm": 12}]},
            {"configs": [FIRST | {"ctas_per_sm": 4}, LAST | {"ctas_per_sm": 4}]},
        ),
        (QUAD_PAIRS | {"atoms_layout": [6, 2, 1]}, {"atoms_layout": "((2,3),2,1):((1,4),2,0)"}),
        (QUAD_PAIRS | {"atoms_layout": [5, 2, 1]}, {"atoms_layout": "((2,3),2,1):((1,4),2,0)"}),
        (WGMMA | {"permutation": [64, None, None]}, {"permutation": [None, None, None]}),
        (
            LIBRARY | {"configs": [LIBRARY["configs"][0] | {"stages": 99}, {"name": "last"}]},
            {"configs": [LIBRARY["configs"][0] | {"stages": 8}, {"name": "last"}]},
        ),
        (LIBRARY | {"configs": LIBRARY["configs"][::-1]}, None),
        (
            MMA | {"atom": "SM90_16x8x16_F64F64F64F64_TN", "atoms_layout": [32, 1, 1], "tile": [512, 8, 32]},
            {"atoms_layout": [16, 1, 1], "tile": [256, 8, 32]},
        ),
    ],
    ids=str,
)
def test_the_nearest_legal_values_are_named(document, expected):
    found = changes(document)
    assert expected is None or found == expected


@pytest.mark.parametrize("warps", [[3, 4, 1], [5, 1, 1], [6, 2, 1], [7, 1, 2], [1, 1, 1]], ids=str)
@pytest.mark.parametrize("tile", [[16, 96, 64], [336, 32, 24], [512, 512, 64]], ids=str)
def test_a_sparse_kernel_of_any_warps_has_whole_blocks_of_metadata(warps, tile):
    found = changes(MMA | {"sparse": "2:4", "atoms_layout": warps, "tile": tile, "permutation": [16 * warps[0], None, None]})
    rows = found["tile"][0]
    assert rows % 64 == 0 and rows % (16 * found.get("atoms_layout", warps)[0]) == 0


def test_what_is_no_spec_is_not_mended():
    assert accepted_changes("[1, 2", "g.yaml") is None
    assert accepted_changes("- 1", "g.yaml") is None


def test_configs_are_written_one_after_the_other():
    costs = {f"coefficient_{i}": 0.123456789 for i in range(9)}
    configs = [{"name": "b", "tile": [128, 128, 64]}, {"name": "a", "when": {"m": [1, 16]}, "cost": costs}]
    lines = as_yaml({"stages": 2, "configs": configs}).splitlines()
    assert lines[:6] == ["stages: 2", "configs:", "- name: b", "  tile: [128, 128, 64]", "- name: a", "  when:"]
    assert len(lines) > 8 and max(map(len, lines)) <= 120
    assert yaml.safe_load("\n".join(lines)) == {"stages": 2, "configs": configs}


def test_lines_are_yaml_of_one_line_each():
    lines = as_yaml({"stages": 2, "tile": [1, 2, 3], "bias": ABSENT, "epilogue": {"out": None}, "name": "g"})
    assert lines.splitlines() == ["stages: 2", "tile: [1, 2, 3]", "epilogue: {out: null}", "name: g", "# without bias"]
