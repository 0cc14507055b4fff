"""atoms: what names spell out, and what a wrong name is told."""

from __future__ import annotations

import re

import pytest
from tensor_layouts import size

from mmagen.core.errors import SpecFaults
from mmagen.mma.atoms import find_atom, with_n
from mmagen.mma.ownership import atom_layouts
from tests.support.atoms import ATOMS, WGMMA_NAMES


@pytest.mark.parametrize(
    ("name", "shape", "types", "threads", "arch", "ldmatrix"),
    [
        ("SM80_16x8x16_F32F16F16F32_TN", (16, 8, 16), "f32 f16 f16 f32", 32, 80, True),
        ("SM80_16x8x8_F32TF32TF32F32_TN", (16, 8, 8), "f32 tf32 tf32 f32", 32, 80, True),
        ("SM80_16x8x8_F32BF16BF16F32_TN", (16, 8, 8), "f32 bf16 bf16 f32", 32, 80, True),
        ("SM80_8x8x4_F64F64F64F64_TN", (8, 8, 4), "f64 f64 f64 f64", 32, 80, False),
        ("SM80_16x8x32_S32U8S8S32_TN_SATURATE", (16, 8, 32), "s32 u8 s8 s32", 32, 80, True),
        ("SM89_16x8x32_F16E4M3E5M2F16_TN", (16, 8, 32), "f16 e4m3 e5m2 f16", 32, 89, True),
        ("SM75_8x8x16_S32S8S8S32_TN", (8, 8, 16), "s32 s8 s8 s32", 32, 75, True),
        ("SM70_8x8x4_F32F16F16F32_NT", (8, 8, 4), "f32 f16 f16 f32", 8, 70, False),
        ("SM61_DP4A", (1, 1, 4), "s32 s8 s8 s32", 1, 61, False),
        ("SM90_64x256x16_F32BF16BF16_SS", (64, 256, 16), "f32 bf16 bf16 f32", 128, 90, False),
        ("SM90_64x24x8_F32TF32TF32_RS_TN", (64, 24, 8), "f32 tf32 tf32 f32", 128, 90, False),
        ("SM90_64x112x32_S32U8S8_SS_TN_SATURATE", (64, 112, 32), "s32 u8 s8 s32", 128, 90, False),
        ("SM90_64x8x32_F16E5M2E4M3_SS_TN", (64, 8, 32), "f16 e5m2 e4m3 f16", 128, 90, False),
        ("UniversalFMA<float,float,float,float>", (1, 1, 1), "f32 f32 f32 f32", 1, 60, False),
    ],
)
def test_a_name_says_it_all(name, shape, types, threads, arch, ldmatrix):
    atom = find_atom(name)
    assert (atom.m, atom.n, atom.k) == shape
    assert " ".join(t.word for t in (atom.type_d, atom.type_a, atom.type_b, atom.type_c)) == types
    assert (atom.threads, atom.min_arch, atom.ldmatrix) == (threads, arch, ldmatrix)


def test_there_are_55_and_their_layouts_have_their_sizes():
    assert len(ATOMS) == 55
    for atom in ATOMS.values():
        layouts = atom_layouts(atom)
        assert size(layouts.thr_id) == atom.threads
        sizes = [size(layout) for layout in (layouts.a, layouts.b, layouts.c)]
        assert sizes == [atom.threads * values for values in (atom.values_a, atom.values_b, atom.values_c)]


@pytest.mark.parametrize("extended", [False, True], ids=["basic", "extended"])
def test_every_dense_wgmma_of_cute_is_known_and_no_other(cutlass, extended):
    header = (cutlass / f"cute/atom/mma_traits_sm90_gmma{'_ext' * extended}.hpp").read_text("utf-8")
    assert {name for name in WGMMA_NAMES if find_atom(name).extended == extended} == set(
        re.findall(r"^using (SM90_\w+)", header, re.M)
    )


def test_wgmma_is_spelled_as_cute_defines_it(cutlass):
    """16-bit types take majors, other floats only factors, integers nothing at all."""
    header = (cutlass / "cute/atom/mma_traits_sm90_gmma.hpp").read_text("utf-8")
    parameters = {name: text for text, name in re.findall(r"^(?:template <([^>]*)>\n)?using (SM90_\w+)", header, re.M)}
    for name, text in parameters.items():
        spelled = find_atom(name).in_layout("NT").cxx.removeprefix(f"cute::{name}")
        assert (spelled != "", "Major::" in spelled) == (text != "", "Major" in text), name


def test_majors_follow_the_layout_but_for_fragments():
    spelled = {letters: find_atom("SM90_64x64x16_F32F16F16_SS").in_layout(letters).cxx for letters in ("TN", "NT", "NN", "TT")}
    majors = {letters: re.findall(r"Major::(\w+)", text) for letters, text in spelled.items()}
    assert majors == {"TN": ["K", "K"], "NT": ["MN", "MN"], "NN": ["MN", "K"], "TT": ["K", "MN"]}
    assert (
        "<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::MN>"
        in find_atom("SM90_64x64x16_F32F16F16_RS").in_layout("NT").cxx
    )
    assert find_atom("SM80_16x8x16_F32F16F16F32_TN").in_layout("NT").cxx == "cute::SM80_16x8x16_F32F16F16F32_TN"


def test_a_wgmma_of_another_width_is_the_one_of_that_name():
    assert with_n(find_atom("SM90_64x64x32_S32S8S8_RS_TN"), 48) == find_atom("SM90_64x48x32_S32S8S8_RS_TN")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("UniversalFMA<float>", "UniversalFMA<float,float,float,float>"),
        ("UniversalFMA< double >", "UniversalFMA<double,double,double,double>"),
        ("UniversalFMA<float, float, float, float>", "UniversalFMA<float,float,float,float>"),
    ],
)
def test_the_scalar_atom_may_be_written_short(written, meant):
    assert find_atom(written).name == meant
    assert find_atom(written).cxx.startswith("cute::UniversalFMA<")


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        ("SM80_16x8x16_F32F16F16F32_NT", "did you mean SM80_16x8x16_F32F16F16F32_TN"),
        ("sm80_16x8x16_f32f16f16f32_tn", "did you mean SM80_16x8x16_F32F16F16F32_TN"),
        ("mma.sync", "e.g. SM80_16x8x16_F32F16F16F32_TN"),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
            "that is PTX, the instruction of SM80_16x8x16_F32F16F16F32_TN",
        ),
        (
            "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16",
            "SM90_64x96x16_F32BF16BF16_SS or SM90_64x96x16_F32BF16BF16_RS",
        ),
        ("mma.sync.aligned.m16n8k99", "e.g. SM80_16x8x16_F32F16F16F32_TN"),
        ("UniversalFMA", "UniversalFMA<float> and UniversalFMA<double>"),
        ("universalfma<float>", "UniversalFMA<float> and UniversalFMA<double>"),
        (
            "SM90_64x100x16_F32BF16BF16_SS",
            "the multiples of 8 up to 256: the nearest is SM90_64x96x16_F32BF16BF16_SS or SM90_64x104x16",
        ),
        (
            "SM90_64x264x8_F32TF32TF32_RS_TN",
            "the nearest is SM90_64x248x8_F32TF32TF32_RS_TN or SM90_64x256x8_F32TF32TF32_RS_TN",
        ),
        (
            "SM90_64x40x32_S32S8S8_SS_TN",
            "8, 24 and the multiples of 16 up to 256: the nearest is SM90_64x32x32_S32S8S8_SS_TN or",
        ),
        (
            "SM90_64x64x32_F32BF16BF16_SS",
            "64 x N x 16, N one of the multiples of 8 up to 256: the nearest is SM90_64x64x16_F32BF16",
        ),
        ("SM90_128x64x16_F32F16F16_SS", "the nearest is SM90_64x64x16_F32F16F16_SS"),
        ("SM90_64x064x16_F32F16F16_SS", "the nearest is SM90_64x64x16_F32F16F16_SS"),
        ("sm90_64x256x16_f32bf16bf16_ss", "the nearest is SM90_64x256x16_F32BF16BF16_SS"),
        ("SM90_64x256x16_F32BF16BF16_SS_TN", "did you mean SM90_64x256x16_F32BF16BF16_SS"),
        ("SM90_64x64x32_F16F16F16_SPARSE", "did you mean SM90::GMMA::SPARSE::GMMA_64x64x32_F16F16F16_"),
        ("SM90_64x96x32_F32BF16BF16_SS_SPARS", "did you mean SM90::GMMA::SPARSE::GMMA_64x96x32_F32BF16BF16_SS"),
        (
            "SM90::GMMA::SPARSE::GMMA_64x96x16_F32TF32TF32_SS",
            "did you mean SM90::GMMA::SPARSE::GMMA_64x96x16_F32TF32TF32_SS_TN",
        ),
        ("SM90_16x8x4_F64F64F64F64", "did you mean SM90_16x8x4_F64F64F64F64_TN"),
        ("SM100_MMA_F16BF16_SS_SCALE", "did you mean SM100_MMA_F16BF16_SS_SCALED"),
        ("SM80_16x8x64_S32S4S4S32_T", "did you mean SM80_16x8x64_S32S4S4S32_TN"),
        ("", "e.g. SM80_16x8x16_F32F16F16F32_TN"),
    ],
)
def test_a_wrong_name_is_told_the_nearest(wrong, remedy):
    with pytest.raises(SpecFaults) as caught:
        find_atom(wrong)
    (fault,) = caught.value.faults
    assert fault.key == ("atom",) and repr(wrong) in fault.what and remedy in fault.remedy


def test_an_operation_that_cannot_be_assembled_is_refused():
    with pytest.raises(SpecFaults) as caught:
        find_atom("SM61_DP2A")
    (fault,) = caught.value.faults
    assert fault.key == ("atom",) and fault.what.startswith("SM61_DP2A cannot be used: ") and "no PTX" in fault.what


@pytest.mark.parametrize(
    "name",
    [
        "SM90::GMMA::SPARSE::GMMA_64x64x32_F32F16F16_SS",
        "SM80_8x8x128_S32U1U1S32_TN_XORPOPC",
        "SM80_8x8x4_GC64C64C64GC64_TN",
        "SM100_MMA_F8F6F4_2x1SM_SS",
        "SM80_16x8x32_S32S4S4S32_TN",
    ],
)
def test_an_operation_that_no_tile_is_built_from_is_no_atom(name):
    assert find_atom(name) is None
