"""TiledMMAs of mma.sp, of which CuTe has but one shape: fragments filled by our maps and multiplied by the emulator's instruction,
which reads registers after the PTX manual, give the product of the tile."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import pytest

from mmagen.emulate.arithmetic.mma import mma
from mmagen.mma import catalogue
from mmagen.mma.formats import decode, encode
from mmagen.mma.ownership import ownership
from mmagen.mma.sparse_atoms import ROWS, WORDS, SparseMma, find_sparse
from mmagen.mma.sparse_forms import FORMS
from mmagen.mma.sparsity import compress, kept
from tests.support.tilings import Tiling, random_tiling

_OF_EACH = 3
_M, _LANES = 16, 32


@dataclass(frozen=True)
class _Executed:
    """A tiling whose fragments are filled with random integers."""

    tiling: Tiling

    @property
    def atom(self):
        return self.tiling.atom

    @cached_property
    def places(self):
        """(lane, value) of the atom's A -> (row, column)."""
        table = np.array(catalogue.find(self.atom.name).layout("A").table())
        return table % _M, table // _M

    @cached_property
    def owned(self):
        """By matrix the elements of (warp, lane, value of the atom, number of the atom)."""
        tables = ownership(self.atom, self.tiling.mma.atoms_layout, self.tiling.mma.permutation, self.tiling.tile)
        values = (self.places[0].shape[1], 8 * self.atom.k // _LANES, 4)
        arrays = [
            np.array(table.elements).reshape(-1, _LANES, _atoms(table, n), n) for table, n in zip(tables, values, strict=True)
        ]
        return [array.swapaxes(2, 3) for array in arrays]

    @property
    def atoms(self):
        """Of a warp along M, N and K."""
        covered = (self.atom.m, self.atom.n, self.atom.k)
        return [e // (c * n) for e, c, n in zip(self.tiling.tile, covered, self.tiling.mma.atoms, strict=True)]

    def block(self, i, slab):
        """(elements of A intp[warps, 16, k] of an instruction, which of them are stored): of groups that are neighbours in the
        instruction, drawn by the element, so that all warps agree."""
        mine = self.owned[0][..., i + self.atoms[0] * slab]
        block = np.empty((len(mine), _M, self.atom.k), np.intp)
        block[:, *self.places] = mine
        return block, kept(self.atom, 1 + np.sin(block * 12.9898))

    def metadata(self, stored):
        """uint32[warps, 32]: of selector 0; other lanes have those of other columns."""
        whole = np.zeros((len(stored), ROWS, self.atom.block_k), bool)
        whole.reshape(*whole.shape[:2], -1, self.atom.group)[..., : self.atom.kept] = True
        whole[:, :_M, : self.atom.k] = stored
        words = compress(self.atom, np.zeros(whole.shape, np.int8), whole)[1]
        return np.ascontiguousarray(words[:, :WORDS].reshape(-1, WORDS)[:, :_LANES])


def _atoms(table, values):
    """Atoms of a thread."""
    return len(table.elements[0]) // values


def _registers(codes, bits):
    """uint32[warps, 32] each, of codes [warps, 32, elements]."""
    per = 32 // bits
    parts = codes.astype(np.uint64).reshape(*codes.shape[:2], -1, per) << (np.arange(per, dtype=np.uint64) * np.uint64(bits))
    return list(np.ascontiguousarray(np.moveaxis(parts.sum(axis=-1).astype(np.uint32), -1, 0)))


def _sums(registers, word):
    """Numbers [warps, 32, 4] of D's registers."""
    bits = 16 if word == "f16" else 32
    words = np.stack(registers, axis=-1)
    codes = (words[..., None] >> np.arange(0, 32, bits, dtype=np.uint32)) & np.uint32(2**bits - 1)
    return decode(codes.reshape(*words.shape[:2], 4), word)


def _product(one: _Executed, a, b, form):
    """D of the tile, instruction by instruction."""
    m, n, _ = one.tiling.tile
    found, atoms = np.zeros(m * n), one.atoms
    for i, j, slab in product(*map(range, atoms)):
        stored = one.block(i, slab)[1]
        mine, right, sums = (
            owned[..., at]
            for owned, at in zip(one.owned, (i + atoms[0] * slab, j + atoms[1] * slab, i + atoms[0] * j), strict=True)
        )
        left = mine[stored[:, *one.places]].reshape(*mine.shape[:2], -1)
        operands = [
            _registers(encode(matrix.ravel()[elements].astype(float), word), form.bits)
            for matrix, elements, word in ((a, left, form.type_a), (b, right, form.type_b))
        ]
        zeros = [np.zeros((len(left), _LANES), np.uint32)] * form.registers["C"].count
        got = mma(tuple(form.opcode.split(".")[1:]), *operands, zeros, metadata=one.metadata(stored), selector=0)
        np.add.at(found, sums, _sums(got, form.type_d))
    return found.reshape(m, n)


@pytest.mark.parametrize("name", FORMS)
def test_fragments_filled_by_the_maps_multiply_to_the_product_of_the_tile(name):
    atom, dice, tilings = find_sparse(name), random.Random(name), []
    assert isinstance(atom, SparseMma)
    while len(tilings) < _OF_EACH:
        tilings += filter(None, [random_tiling(dice, atom)])
    for one in map(_Executed, tilings):
        (m, n, k), rng = one.tiling.tile, np.random.default_rng(7)
        stored = np.zeros(m * k, bool)
        for i, slab in product(range(one.atoms[0]), range(one.atoms[2])):
            block, of_block = one.block(i, slab)
            stored[block[of_block]] = True
        assert stored.sum() == m * k // 2
        a, b = np.where(stored.reshape(m, k), rng.integers(1, 4, (m, k)), 0), rng.integers(0, 4, (n, k))
        np.testing.assert_array_equal(_product(one, a, b, FORMS[name]), a @ b.T)


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.k == 64])
def test_metadata_are_where_cute_s_operation_of_that_shape_has_them(name):
    """Which is one of SM120 alone."""
    theirs = catalogue.find("SM120::SPARSE::SM120_SPARSE_16x8x64_TN<float_e4m3_t,float_e4m3_t,float>").layout("E")
    table = np.array(theirs.table())[:, ::4]  # (lane, group) -> row + 16 * column
    atom = find_sparse(name)
    stored = kept(atom, np.random.default_rng(3).random((1, ROWS, atom.block_k)))
    words = compress(atom, np.zeros(stored.shape, np.int8), stored)[1][0, :WORDS].reshape(ROWS // _M, _LANES)
    for warp, lane, group in np.ndindex(ROWS // _M, _LANES, table.shape[1]):
        row, column = warp * _M + table[lane, group] % _M, table[lane, group] // _M
        nibble = int(words[warp, lane]) >> 4 * group & 15
        assert stored[0, row, column : column + 4].nonzero()[0].tolist() == [nibble & 3, nibble >> 2]
