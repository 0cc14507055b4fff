"""GEMMs of mma.sync on 4-bit integers: their operations after the PTX ISA, plans, faults with their remedies, projects."""

import json

import numpy as np
import pytest

from mmagen.core.errors import SpecFaults
from mmagen.emulate.arithmetic.fragments import fragment_of
from mmagen.emulate.arithmetic.mma import parse
from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.inspect.page import inspect
from mmagen.mma.atoms import TYPES, find_atom
from mmagen.mma.catalogue import known, operations
from mmagen.mma.packed_atoms import PackedAtom, find_packed
from mmagen.plan.reach import FAR
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import values
from mmagen.verify.emulated.packed import pack, unpack
from mmagen.verify.emulated.parts import Call, parts_of

S4 = "SM80_16x8x64_S32S4S4S32_TN"
U4 = "SM80_16x8x32_S32U4S4S32_TN_SATURATE"
NAMES = tuple(one.name for one in operations() if find_packed(one.name))


def planned(atom=S4, **keys):
    document = {"mmagen": 1, "name": "it", "kernel": "gemm", "atom": atom, "tile": [64, 64, 128], **keys}
    return plan(load(json.dumps(document), "it.yaml").spec)


def faults(atom=S4, **keys):
    with pytest.raises(SpecFaults) as caught:
        planned(atom, **keys)
    return {".".join(map(str, fault.key)): fault for fault in caught.value.faults}


def test_there_is_an_atom_of_every_dense_operation_of_4_bits():
    assert len(NAMES) == 3 * 4 * 2  # shapes, types of A and B, with and without saturation
    assert all(find_atom(name) is None for name in NAMES)
    assert find_packed("SM80_16x8x32_S32S8S8S32_TN") is None and find_packed("SM80_16x8x256_S32U1U1S32_TN_XORPOPC") is None


@pytest.mark.parametrize("name", NAMES)
def test_fragments_are_those_of_bytes_of_two_neighbours(name):
    atom = find_packed(name)
    of = parse(tuple(known(name).opcodes[0].split(".")[1:]))
    of_bytes = known(atom.of_bytes.name)
    assert (of.m, of.n, of.k) == (atom.m, atom.n, atom.k) == (of_bytes.m, of_bytes.n, 2 * of_bytes.k)
    for letter, layout in zip("AB", of.layouts[1:3], strict=True):
        fragment = fragment_of(*layout)  # of the PTX ISA, and of the emulator
        mn, k = (fragment.row, fragment.column) if letter == "A" else (fragment.column, fragment.row)
        table = np.array(of_bytes.layout(letter).table())
        rows = of_bytes.layout(letter).rows
        assert of_bytes.registers[letter] == known(name).registers[letter]
        for half in (0, 1):  # the element of even k in the low half
            assert (table % rows == mn[:, half::2]).all() and (2 * (table // rows) + half == k[:, half::2]).all()


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_is_planned_over_bytes(name):
    made = planned(name, atoms_layout=[2, 2, 1])
    assert isinstance(made.atom, PackedAtom) and made.mainloop.cxx == "MainloopPacked"
    for one, word in zip(made.operands, (made.atom.type_a.word, made.atom.type_b.word), strict=True):
        assert (one.element, one.multiplied, one.packed, one.extent_k) == (TYPES["u8"], word, 2, 64)
        assert one.bytes_per_stage == 64 * 64
    assert made.types == f"{made.atom.type_a.word} x {made.atom.type_b.word} + s32 -> s32"
    config = render(made)["include/it/config.cuh"].decode()
    assert f"struct {made.atom.struct} : cute::{name} {{}};" in config
    assert f": cute::MMA_Traits<cute::{made.atom.of_bytes.name}> {{}};" in config


@pytest.mark.parametrize("out", ["s32", "s8", "u8", "f32", "f16", "bf16"])
def test_every_type_of_d_of_an_8_bit_kernel(out):
    assert planned(epilogue={"out": out}).epilogue.out.word == out


@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
def test_other_layouts_are_refused_with_what_to_do(layout):
    fault = faults(layout=layout)["layout"]
    assert "two neighbours along K" in fault.what and "transposing" in fault.remedy
    assert fault.change == {("layout",): "TN"}


def test_an_order_along_k_is_refused():
    assert faults(permutation=[None, 16, 64])["permutation.2"].change == {("permutation", 2): None}
    assert planned(permutation=[32, 16, None], atoms_layout=[2, 1, 1])


def test_older_architectures_and_keys_of_wgmma_are_refused():
    found = faults(arch=["sm_75"], cluster=[2, 1])
    assert set(found) == {"arch.0", "cluster"}


def test_tiles_count_elements():
    assert faults(tile=[64, 64, 96])["tile.2"]
    assert planned(tile=[64, 64, 256]).operand("A").extent_k == 128


def test_the_header_says_how_elements_are_stored():
    header = render(planned())["include/it/it.h"].decode()
    assert "Element types: A s4, B s4, C and D s32" in header
    assert "that of even k in the low half: a row is ceil(K / 2) bytes" in header
    facts = planned().facts
    assert (facts.packed_a, facts.packed_b, facts.group_a) == (2, 2, 1)
    assert facts.description["a"] == {"type": "u8", "contiguous": "K", "packed": 2}


def test_the_page_counts_bytes():
    page = inspect(planned())
    assert "s4, 2 in each byte, K contiguous" in page
    loads = [line for line in page.splitlines() if line.startswith("  load ")]
    assert len(loads) == 2 and all("no bank conflicts" in line for line in loads)


def test_bytes_hold_the_element_of_even_k_in_the_low_half():
    assert pack(np.array([[1.0, -2.0, -8.0]])).tolist() == [[0xE1, 0xD8]]
    assert unpack(np.array([[0xE1, 0xD8]]), "s4").tolist() == [[1, -2, -8, -3]]
    assert unpack(np.array([[0xE1]]), "u4").tolist() == [[1, 14]]


@pytest.mark.parametrize("atom", [S4, U4])
@pytest.mark.parametrize("k", [1, 64, 127])
def test_inputs_have_all_codes_and_something_behind_an_odd_k(atom, k):
    made = planned(atom, epilogue={"out": "s8"})
    problem = Problem(shape=(40, 40, k), batch=2, ld_pad=3)
    data = operands(made, problem, "uniform", 7)
    call = Call(made, problem, None, data)
    (part,) = parts_of(made)
    a, b = part.factors(call, values(data.a), values(data.b))
    assert a.shape == b.shape == (2, 40, k)
    assert b.min() == -8 and a.max() == (15 if atom == U4 else a.max())
    if k % 2:
        assert (data.a.view[..., -1] >> 4 != 0).all()


@pytest.mark.parametrize(
    ("k", "ld_pad", "ld"),
    [(1, 0, 1), (256, 0, 128), (255, 1, 128), (257, 0, 129), (16, 0, 16), (128, 3, 67), (16, FAR, FAR + 16)],
)
def test_lines_are_as_aligned_as_those_of_bytes_and_no_longer(k, ld_pad, ld):
    """Else a leading dimension that counts elements would do."""
    data = operands(planned(), Problem(shape=(2, 2, k), ld_pad=ld_pad), "uniform", 7)
    assert data.a.ld == data.b.ld == ld and (ld - k - ld_pad) % 16 == 0
