"""atoms: what names spell out, and what a wrong name is told."""

from __future__ import annotations

import pytest
from tensor_layouts import size

from mmagen.atoms import ATOMS, find_atom
from mmagen.errors import SpecFaults
from mmagen.layouts import atom_layouts


@pytest.mark.parametrize(("name", "shape", "types", "threads", "arch", "ldmatrix"), [
    ("SM80_16x8x16_F32F16F16F32_TN", (16, 8, 16), "f32 f16 f16 f32", 32, 80, True),
    ("SM80_16x8x8_F32TF32TF32F32_TN", (16, 8, 8), "f32 tf32 tf32 f32", 32, 80, True),
    ("SM80_16x8x8_F32BF16BF16F32_TN", (16, 8, 8), "f32 bf16 bf16 f32", 32, 80, True),
    ("SM80_8x8x4_F64F64F64F64_TN", (8, 8, 4), "f64 f64 f64 f64", 32, 80, False),
    ("SM80_16x8x32_S32U8S8S32_TN_SATURATE", (16, 8, 32), "s32 u8 s8 s32", 32, 80, True),
    ("SM89_16x8x32_F16E4M3E5M2F16_TN", (16, 8, 32), "f16 e4m3 e5m2 f16", 32, 89, True),
    ("SM75_8x8x16_S32S8S8S32_TN", (8, 8, 16), "s32 s8 s8 s32", 32, 75, True),
    ("SM70_8x8x4_F32F16F16F32_NT", (8, 8, 4), "f32 f16 f16 f32", 8, 70, False),
    ("SM61_DP4A", (1, 1, 4), "s32 s8 s8 s32", 1, 61, False),
    ("SM61_DP2A", (1, 1, 2), "s32 s16 s16 s32", 1, 61, False),
    ("UniversalFMA<float,float,float,float>", (1, 1, 1), "f32 f32 f32 f32", 1, 60, False),
])
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


@pytest.mark.parametrize(("written", "meant"), [
    ("UniversalFMA<float>", "UniversalFMA<float,float,float,float>"),
    ("UniversalFMA< double >", "UniversalFMA<double,double,double,double>"),
    ("UniversalFMA<float, float, float, float>", "UniversalFMA<float,float,float,float>"),
])
def test_the_scalar_atom_may_be_written_short(written, meant):
    assert find_atom(written).name == meant
    assert find_atom(written).cxx.startswith("cute::UniversalFMA<")


@pytest.mark.parametrize(("wrong", "remedy"), [
    ("SM80_16x8x16_F32F16F16F32_NT", "perhaps you meant SM80_16x8x16_F32F16F16F32_TN"),
    ("sm80_16x8x16_f32f16f16f32_tn", "perhaps you meant SM80_16x8x16_F32F16F16F32_TN"),
    ("mma.sync", "e.g. SM80_16x8x16_F32F16F16F32_TN"),
    ("", "e.g. SM80_16x8x16_F32F16F16F32_TN"),
])
def test_a_wrong_name_is_told_the_nearest(wrong, remedy):
    with pytest.raises(SpecFaults) as caught:
        find_atom(wrong)
    (fault,) = caught.value.faults
    assert fault.key == ("atom",) and repr(wrong) in fault.what and remedy in fault.remedy
