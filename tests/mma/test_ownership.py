"""layouts: the ownership that NVIDIA documents, and that every tiling covers its matrices as it must.

That the algebra is CuTe's, element by element, is proved in tests/mma/test_layout_oracle.py.
"""

from __future__ import annotations

from collections import Counter

import pytest

from mmagen.core.layout_text import LayoutText
from mmagen.mma.ownership import Ownership, flat, ownership
from tests.support.atoms import ATOMS
from tests.support.tilings import KINDS, tiling

CLASSIC = ATOMS["SM80_16x8x16_F32F16F16F32_TN"]
ONE = LayoutText.compact((1, 1, 1))
ANY = (None, None, None)


def _first_owners(table: Ownership, row: int) -> list[str]:
    owners = table.owners()[row * table.columns : (row + 1) * table.columns]
    return ["T{:02d}v{:d}".format(*owner[0]) for owner in owners]


def test_the_commonest_instruction_is_owned_as_ptx_says():
    a, b, c = ownership(CLASSIC, ONE, ANY, (16, 8, 16))
    assert _first_owners(c, 0) == ["T00v0", "T00v1", "T01v0", "T01v1", "T02v0", "T02v1", "T03v0", "T03v1"]
    assert _first_owners(a, 0)[:8] == _first_owners(c, 0)
    assert _first_owners(c, 1)[:2] == _first_owners(a, 1)[:2] == ["T04v0", "T04v1"]
    assert _first_owners(a, 0)[8:10] == ["T00v4", "T00v5"] and _first_owners(a, 8)[:2] == ["T00v2", "T00v3"]
    assert _first_owners(b, 0)[:2] == ["T00v0", "T00v1"] and _first_owners(b, 1)[:2] == ["T04v0", "T04v1"]
    for thread, values in enumerate(c.elements):
        for v, element in enumerate(values):
            assert divmod(element, 8) == (thread // 4 + 8 * (v // 2), 2 * (thread % 4) + v % 2)


def test_warps_follow_the_strides_of_atoms_layout():
    rows_first = ownership(CLASSIC, LayoutText.parse("(2,2,1):(1,2,4)"), ANY, (32, 16, 16))[2]
    columns_first = ownership(CLASSIC, LayoutText.parse("(2,2,1):(2,1,4)"), ANY, (32, 16, 16))[2]
    corner = [divmod(table.elements[32][0], 16) for table in (rows_first, columns_first)]
    assert corner == [(16, 0), (0, 8)], "where the second warp's tile begins"


def test_values_go_through_the_atom_first_then_along_m_then_along_n():
    c = ownership(CLASSIC, ONE, ANY, (32, 16, 16))[2]
    assert [divmod(element, 16) for element in c.elements[0]] == [
        (0, 0),
        (0, 1),
        (8, 0),
        (8, 1),
        (16, 0),
        (16, 1),
        (24, 0),
        (24, 1),
        (0, 8),
        (0, 9),
        (8, 8),
        (8, 9),
        (16, 8),
        (16, 9),
        (24, 8),
        (24, 9),
    ]


def test_a_permutation_moves_whole_atoms():
    """(4,4,2):(1,8,4) along N puts a thread's rows of B side by side, four from each of two atoms."""
    atom = ATOMS["SM70_8x8x4_F32F16F16F32_NT"]
    plain = ownership(atom, LayoutText.compact((2, 2, 1)), (None, 32, None), (16, 32, 4))[1]
    moved = ownership(atom, LayoutText.compact((2, 2, 1)), (None, LayoutText.parse("(4,4,2):(1,8,4)"), None), (16, 32, 4))[1]
    rows = [sorted(element // 4 for element in table.elements[0]) for table in (plain, moved)]
    assert rows == [[0, 1, 2, 3, 16, 17, 18, 19], [0, 1, 2, 3, 4, 5, 6, 7]]


def test_a_scalar_atom_owns_what_its_thread_stands_for():
    a, b, c = ownership(ATOMS["SM61_DP4A"], LayoutText.compact((2, 4, 1)), ANY, (2, 4, 4))
    assert list(c.elements) == [(thread % 2 * 4 + thread // 2,) for thread in range(8)]
    assert a.elements[1] == (4, 5, 6, 7) and b.elements[2] == (4, 5, 6, 7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ATOMS)
def test_every_element_has_the_owners_it_must_have(name, kind):
    """Along the mode that a matrix lacks, every atom holds a copy of it."""
    one = tiling(ATOMS[name], kind)
    atoms_m, atoms_n, atoms_k = one.mma.atoms
    tables = ownership(one.atom, one.mma.atoms_layout, one.mma.permutation, one.tile)
    copies = {"A": atoms_n, "B": atoms_m, "C": atoms_k}
    for table in tables:
        assert len(table.elements) == one.mma.threads
        owners = Counter(element for values in table.elements for element in values)
        assert set(owners) == set(range(table.rows * table.columns)), "covered, and nothing outside"
        assert set(owners.values()) == {copies[table.matrix]}
        assert all(len(set(values)) == len(values) for values in table.elements), "no thread owns an element twice"


def test_the_owners_table_is_the_elements_turned_round():
    table = Ownership("C", 1, 3, ((0, 2), (1, 2)))
    assert table.owners() == [[(0, 0)], [(1, 0)], [(0, 1), (1, 1)]]


def test_flat():
    assert flat(3) == (3,) and flat(((1, 2), (3, (4,)))) == (1, 2, 3, 4)
