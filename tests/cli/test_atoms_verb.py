"""mmagen atoms: filters, pages, JSON, and what a wrong word is told."""

from __future__ import annotations

import json
import re

import pytest

from mmagen.cli.main import main
from mmagen.inspect.operations import page
from mmagen.mma.catalogue import find, operations


def atoms(capsys, *arguments) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["atoms", *arguments])
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err


@pytest.mark.parametrize(
    ("filters", "count", "one_of_them"),
    [
        ((), 2397, "SM61_DP4A"),
        (("--arch", "sm_90a"), 2200, "SM90_64x256x32_S32S8S8_SS_TN"),
        (("--arch", "90a", "--kind", "wgmma", "--sparse"), 1056, "SM90::GMMA::SPARSE::GMMA_64x8x32_F16F16F16_SS"),
        (("--type", "bf16", "--shape", "64x128x*", "--dense"), 2, "SM90_64x128x16_F32BF16BF16_RS"),
        (("--type", "e4m3,f16", "--family", "sm89"), 3, "SM89_16x8x32_F16E4M3E5M2F16_TN"),
        (
            ("--block-scaled", "--type", "ue4m3,e2m1"),
            2,
            "SM120::BLOCKSCALED::SM120_16x8x64_TN_VS<float_e2m1_t,float_e2m1_t,float,float_ue4m3_t,16>",
        ),
        (("--shape", "16x8x16", "--arch", "sm_80", "--type", "s8"), 6, "SM80_16x8x16_S32S8U8S32_TN_SATURATE"),
    ],
)
def test_filters_leave_what_they_say(capsys, filters, count, one_of_them):
    code, out, _ = atoms(capsys, *filters)
    names = [line.split()[0] for line in out.splitlines()[2:-2]]
    assert code == 0 and len(names) == count and one_of_them in names
    assert out.splitlines()[-1] == f"{count} operations"
    code, out, _ = atoms(capsys, *filters, "--json")
    assert [json.loads(line)["name"] for line in out.splitlines()] == names


def test_json_has_the_layouts_of_every_operation(capsys):
    _, out, _ = atoms(capsys, "--json")
    reported = [json.loads(line) for line in out.splitlines()]
    assert len(reported) == 2397
    for line, operation in zip(reported, operations(), strict=False):
        assert line["name"] == operation.name and tuple(line["shape"]) == operation.shape
        assert {operand: layout["layout"] for operand, layout in line["layouts"].items()} == {
            operand: layout.text for operand, layout in operation.layouts.items()
        }
        assert {"A", "B", "C"} <= set(line["layouts"])


def test_a_page_says_who_owns_what(capsys):
    code, out, _ = atoms(capsys, "SM80_16x8x16_F32F16F16F32_TN")
    assert code == 0
    for part in (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "sm_80 and later",
        "cute/arch/mma_sm80.hpp",
        "A uint32_t[4], B uint32_t[2]",
        "((4,8),(2,2,2)):((32,1),(16,8,128))",
    ):
        assert part in out
    (lane,) = [line.split() for line in out.splitlines() if line.split()[:1] == ["31"]]
    assert lane[1:] == [
        "7,6",
        "7,7",
        "15,6",
        "15,7",
        "7,14",
        "7,15",
        "15,14",
        "15,15",
        "7,6",
        "7,7",
        "7,14",
        "7,15",
        "7,6",
        "7,7",
        "15,6",
        "15,7",
    ]
    assert len(out.splitlines()) < 50


def test_a_page_leaves_out_what_follows_from_the_rest(capsys):
    _, out, _ = atoms(capsys, "SM90_64x64x16_F32F16F16_RS")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.split()[:1] and line.split()[0].isdecimal()}
    assert list(map(int, rows)) == [0, 1, 2, 3, *range(4, 32, 4), 32, 64, 96, 127]
    assert rows["127"][-3:] == ["63,14", "...", "63,63"] and re.search(r"C6 +\.\.\. +C31", out)
    _, out, _ = atoms(capsys, "SM100_MMA_TF32_SS")
    assert "int M: 128, 64\n" in out and "int N: 8 to 256 in steps of 8\n" in out


def test_a_full_page_leaves_nothing_out(capsys):
    _, out, _ = atoms(capsys, "SM90_64x64x16_F32F16F16_RS", "--full")
    rows = [line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0].isdecimal()]
    assert [row[0] for row in rows] == [str(thread) for thread in range(128)]
    assert {len(row) for row in rows} == {1 + 8 + 32} and "..." not in out


def test_a_flawed_layout_is_shown_next_to_the_right_one(capsys):
    _, out, _ = atoms(capsys, "SM80_16x8x32_S32S4S4S32_TN")
    assert "KNOWN BAD  B: CUTLASS has ((4,8),(8)):((32,1),(8)), which leaves elements out" in out
    assert "((4,8),8):((64,1),8)            once" in out and "as CUTLASS has it: wrong" in out


@pytest.mark.parametrize(
    "name",
    [
        "SM61_DP2A",
        "SM100_2x1x1_F32F32F32F32",
        "SM100_MMA_F8F6F4_SS",
        "SM103_MXF4_ULTRA_SS_VS",
        "SM100_MMA_MXF4NVF4_2x1SM_SS_SPARSE",
        "SM70_8x8x4_F32F16F16F32_NT",
        "SM80_16x8x128_S32U1U1S32_TN_XORPOPC",
        "SM80_8x8x4_GC64C64C64GC64_TN",
        "SM120::SPARSE::SM120_SPARSE_16x8x64_TN<float_e2m1_t,float_e5m2_t,half_t>",
    ],
)
def test_every_kind_has_its_page(name):
    operation = find(name)
    for full in (False, True):
        text = page(operation, full)
        assert text.startswith(operation.name) and all(opcode in text for opcode in operation.opcodes)
        assert all(layout.text in text for layout in operation.layouts.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("SM80_16x8x16_F32F16F16F32_NT",), "did you mean SM80_16x8x16_F32F16F16F32_TN"),
        (("SM120_SPARSE_16x8x64_TN",), "did you mean SM120::SPARSE::SM120_SPARSE_16x8x64_TN<"),
        (("nonsense",), "mmagen atoms lists all names"),
        (("SM61_DP4A", "--type", "s8"), "leave out the filters"),
        (("--type", "fp16"), "--type fp16: no operation has it; did you mean f16?"),
        (("--type", "q17"), "    scale factors: ue4m3, ue8m0"),
        (("--shape", "16x8"), "a shape is written as 16x8x16"),
        (("--arch", "hopper"), "is not a GPU architecture"),
        (("--arch", "sm_80a"), "--arch: there is no sm_80a; one of sm_60,"),
        (("--arch", "sm_999"), "--arch: there is no sm_999"),
        (("UniversalFMA<float>",), "UniversalFMA<float> and UniversalFMA<double> are atoms of specs"),
        (("--type", "f64", "--sparse"), "no MMA operation matches all filters"),
    ],
)
def test_what_is_not_there_ends_with_2(capsys, arguments, message):
    code, out, err = atoms(capsys, *arguments)
    assert code == 2 and message in err and not out


def test_patterns_and_ptx_instructions_are_names(capsys):
    _, out, _ = atoms(capsys, "SM80_16x8x16_F32*")
    assert out.count("\n\n  what ") == 2
    assert atoms(capsys, "sm80_16X8x16_f32*")[1] == out
    assert atoms(capsys, "--kind", "WGMMA", "--shape", "64x8x8")[1] == atoms(capsys, "--kind", "wgmma", "--shape", "64x8x8")[1]
    _, out, _ = atoms(capsys, "SM80*")
    assert "operation " in out.splitlines()[0] and "SM80_16x8x16_F32F16F16F32_TN" in out and "SM90" not in out
    code, out, _ = atoms(capsys, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    assert code == 0 and out.startswith("SM80_16x8x16_F32BF16BF16F32_TN\n")
    _, out, _ = atoms(capsys, "wgmma.mma_async")
    assert "SM90_64x8x16_F16F16F16_SS" in out and "SM80" not in out
    code, _, err = atoms(capsys, "mma.sync.aligned.m99n8k16")
    assert code == 2 and "mma.sync.aligned.m99n8k16" in err
    assert atoms(capsys, "SM81*")[0] == 2
