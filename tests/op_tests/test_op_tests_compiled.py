"""Batches of MMA operations compiled, looked into, and executed by the emulator: instruction and layouts agree."""

import dataclasses

import pytest

from mmagen.mma.catalogue import find
from mmagen.mma.forms import Form
from mmagen.op_tests import check, code
from mmagen.op_tests.batch import Batch
from mmagen.op_tests.check import Options, verify_atoms
from mmagen.toolchain.find import COMPILE, find_toolchain

pytestmark = pytest.mark.nvcc

EMULATED = (
    "SM61_DP4A",
    "SM70_8x8x4_F32F16F16F32_NT",
    "SM75_8x8x16_S32S8S8S32_TN",
    "SM80_16x8x16_F32BF16BF16F32_TN",
    "SM80_16x8x32_S32S4U4S32_TN_SATURATE",
    "SM80_16x8x128_S32U1U1S32_TN_ANDPOPC",
    "SM80_16x8x256_S32U1U1S32_TN_XORPOPC",
    "SM80_8x8x4_GC64C64C64GC64_TN",
    "SM89_16x8x32_F16E4M3E5M2F16_TN",
    "SM90_16x8x8_C64C64C64C64_TN",
    "SM90_64x24x16_F32F16F16_SS",
    "SM90_64x8x8_F32TF32TF32_RS_TN",
    "SM90_64x16x32_S32U8S8_SS_TN",
    "SM90_64x24x32_F16E4M3E4M3_RS_TN",
    "SM90::GMMA::SPARSE::GMMA_64x24x32_F32BF16BF16_SS",
    "SM90::GMMA::SPARSE::GMMA_64x8x16_F32TF32TF32_RS_TN",
    "SM90::GMMA::SPARSE::GMMA_64x16x64_S32S8U8_RS_TN_SATURATE",
)
COMPILED = (
    "SM100_2x1x1_F32F32F32F32",
    "SM100_MMA_F16BF16_SS",
    "SM100_MMA_MXF8F6F4_SS_SPARSE",
    "SM120_16x8x32_TN<float_e4m3_t,float_e4m3_t,float>",
    "SM120::BLOCKSCALED::SM120_16x8x64_TN_VS<float_e2m1_t,float_e2m1_t,float,float_ue4m3_t,16>",
    "SM120::SPARSE::SM120_SPARSE_16x8x64_TN<float_e2m1_t,float_e2m1_t,half_t>",
    "SM90::GMMA::SPARSE::GMMA_64x8x64_F32E4M3E4M3_RS_TN",
)


@pytest.fixture(scope="module")
def toolchain():
    found = find_toolchain(want=COMPILE)
    if found.missing(COMPILE):
        pytest.skip("no compilers here")
    return found


def quiet(*_):
    """Progress that nobody watches."""


def test_the_emulator_agrees_with_instruction_and_layouts(toolchain):
    found = verify_atoms([find(name) for name in EMULATED], toolchain, Options(where="cpu", jobs=2), quiet)
    assert {v.name: v.word for v in found} == dict.fromkeys(EMULATED, "passed (emulated)"), [v.reason for v in found]
    assert all(record["details"]["launches"] >= 1 and record["registers"] for v in found for record in v.records)
    lines = {record["layout"] for v in found if v.name == "SM90_64x24x16_F32F16F16_SS" for record in v.records}
    assert any("128/16" in line for line in lines) and any("MN contiguous, B: MN contiguous" in line for line in lines)


def test_a_wrong_layout_shows(toolchain, monkeypatch):
    """CUTLASS's own layout of B for m16n8k32 of s4, which the registry mends."""
    broken = find("SM80_16x8x32_S32S4S4S32_TN")
    right = verify_atoms([broken], toolchain, Options(where="cpu", jobs=1), quiet)[0]
    swapped = find("SM80_16x8x16_F32F16F16F32_TN")
    layouts = dict(swapped.layouts) | {"B": dataclasses.replace(swapped.layouts["B"], text="((4,8),(2,2)):((32,1),(8,16))")}
    monkeypatch.setitem(vars(swapped), "layouts", layouts)
    wrong = verify_atoms([swapped], toolchain, Options(where="cpu", jobs=1), quiet)[0]
    assert right.word == "passed (emulated)" and wrong.disposition == "incorrect" and "elements are wrong" in wrong.reason


def test_instructions_of_later_gpus_are_in_the_code(toolchain):
    found = verify_atoms([find(name) for name in COMPILED], toolchain, Options(where=""), quiet)
    assert [v.word for v in found] == ["compiled"] * len(COMPILED), [v.reason for v in found]


def test_a_target_without_the_instruction_compiles_to_nothing(toolchain, tmp_path):
    """Plain sm_100 takes tcgen05 operations without a word; so does sm_90 wgmma's."""
    batch = Batch((Form(find("SM100_MMA_F16BF16_SS")), Form(find("SM80_16x8x8_F32F16F16F32_TN"))), "sm_100")
    built = check._build_all([batch], toolchain, Options(where=""), tmp_path, quiet)[0]
    assert built.result.ok and sorted(built.faults) == [0]
    assert built.faults[0] == "tcgen05.mma.cta_group::1.kind::f16 is not in the code compiled for sm_100"
    assert code.ptx_of(built.result.programs["verify"]).keys() == {"mmagen_atom_0", "mmagen_atom_1"}


def test_one_that_does_not_compile_is_found_among_the_others(toolchain, tmp_path):
    good = ("SM61_DP4A", "SM75_8x8x16_S32S8S8S32_TN")
    batch = Batch(tuple(Form(find(name)) for name in (good[0], "SM61_DP2A", good[1])), "sm_90a")
    built = check._build_all([batch], toolchain, Options(where=""), tmp_path, quiet)
    assert {form.operation.name: one.result.ok for one in built for form in one.batch.forms} == {
        good[0]: True,
        "SM61_DP2A": False,
        good[1]: True,
    }
