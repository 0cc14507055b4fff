"""The layout algebra against CuTe itself: every value of every thread is where CuTe puts it.

What CuTe answered is recorded; with MMAGEN_ALL_TESTS it is asked again. tests/support/cute_layouts.py writes the record.
"""

from __future__ import annotations

import json

import pytest

from mmagen.core.layout_text import LayoutText
from mmagen.mma.sparse_atoms import SparseMma
from tests.support.atoms import ATOMS
from tests.support.cute_layouts import (
    PROGRAMS,
    RANDOM,
    RECORDED,
    SEED,
    SPARSE,
    TILINGS,
    cute_digests,
    digest,
    our_digests,
    tilings_of,
)
from tests.support.tilings import random_sparse_tilings, random_tilings

_ANSWERS = json.loads(RECORDED.read_text("utf-8"))["tilings"]
_OF_EVERY_RUN = 24  # of the random tilings; an answer of ours takes 0.2 s


def _marked():
    drawn = random_tilings(RANDOM, SEED), random_sparse_tilings(SPARSE, SEED)
    numbers = {one.name: number for of_a_kind in drawn for number, one in enumerate(of_a_kind)}
    return [pytest.param(name, marks=[pytest.mark.more] if numbers.get(name, 0) >= _OF_EVERY_RUN else []) for name in TILINGS]


@pytest.mark.parametrize("name", _marked())
def test_every_value_of_every_thread_is_where_cute_put_it(name):
    assert our_digests(TILINGS[name]) == _ANSWERS[name]


@pytest.mark.nvcc
@pytest.mark.more
@pytest.mark.parametrize("program", PROGRAMS)
def test_cute_still_answers_what_is_recorded(program, tmp_path):
    assert cute_digests(tmp_path, program) == {one.name: _ANSWERS[one.name] for one in tilings_of(program)}


def test_each_tiling_has_an_answer_and_no_other():
    assert list(_ANSWERS) == list(TILINGS)


def test_another_order_of_values_has_another_digest():
    assert len({digest(elements) for elements in ([(0, 1), (2, 3)], [(1, 0), (2, 3)], [(2, 3), (0, 1)], [(0, 1, 2, 3)])}) == 4


def test_random_tilings_are_of_every_sort():
    drawn = random_tilings(RANDOM, SEED)
    assert len(set(drawn)) == RANDOM
    assert {one.atom.kind for one in drawn} == {"fma", "mma.sync", "wgmma"}
    assert any(one.atom.a_in_registers for one in drawn) and any(one.mma.atoms[2] > 1 for one in drawn)
    assert sum(isinstance(entry, LayoutText) for one in drawn for entry in one.mma.permutation) > RANDOM / 4


def test_random_sparse_tilings_are_of_every_sort():
    drawn = random_sparse_tilings(SPARSE, SEED)
    assert len(set(drawn)) == SPARSE
    of_mma = [one for one in drawn if isinstance(one.atom, SparseMma)]
    assert SPARSE / 3 < len(of_mma) < 2 * SPARSE / 3
    assert {one.atom.type_a.bits for one in drawn if one.atom.wgmma} == {8, 16, 32}
    assert any(one.mma.atoms[2] > 1 for one in of_mma)
    assert sum(isinstance(entry, LayoutText) for one in of_mma for entry in one.mma.permutation) > len(of_mma) / 4


def test_each_atom_has_an_answer():
    assert {one.atom.name for one in TILINGS.values()} >= set(ATOMS)
