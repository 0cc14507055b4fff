"""The layout algebra against CuTe itself: a host-only C++ program partitions tiles, and every value must agree.

One program, for every run, holds every atom of the registry, plain and in one of the richer tilings, and a few of 300 random
combinations of atom, atoms_layout and permutation; others hold the rest. The host compiler alone makes them; nvcc is asked only
because it knows where the toolkit's headers are.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from mmagen.core.layout_text import LayoutText
from mmagen.mma.atoms import Atom
from mmagen.mma.ownership import ownership
from mmagen.plan import cxx as cute
from mmagen.toolchain.find import COMPILE, find_toolchain
from tests.support.atoms import ATOMS
from tests.support.tilings import KINDS, Tiling, random_tilings, tiling

pytestmark = pytest.mark.nvcc

_HEAD = """\
#include <cstdio>
#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>

template <class TensorT>
void print(int id, char matrix, int thread, TensorT const& owned)
{
  std::printf("%d %c %d", id, matrix, thread);
  for (int v = 0; v < cute::size(owned); ++v) { std::printf(" %d", int(owned(v))); }
  std::printf("\\n");
}

template <class Rows, class Columns>
auto numbered(Rows rows, Columns columns)
{
  auto const layout = cute::make_layout(cute::make_shape(rows, columns), cute::LayoutRight{});
  return cute::make_tensor(cute::counting_iterator<int>(0), layout);
}

template <class Op, class AtomsLayout, class Permutation, class M, class N, class K, bool kA, bool kB>
void partition(int id)
{
  auto const mma = cute::make_tiled_mma(cute::MMA_Atom<Op>{}, AtomsLayout{}, Permutation{});
  for (int thread = 0; thread < cute::size(mma); ++thread) {
    auto const slice = mma.get_slice(thread);
    if constexpr (kA) { print(id, 'A', thread, slice.partition_A(numbered(M{}, K{}))); }
    if constexpr (kB) { print(id, 'B', thread, slice.partition_B(numbered(N{}, K{}))); }
    print(id, 'C', thread, slice.partition_C(numbered(M{}, N{})));
  }
}

int main()
{
"""


def _tilings() -> dict[Tiling, int]:
    """Each with the program that asks about it. Program 0, for every run, has all atoms, every second one plain and the
    others in a richer tiling, and of one atom all tilings; program 1 has the rest."""
    atoms = list(ATOMS.values())
    rich = [kind for kind in KINDS if kind]
    programs = {tiling(ATOMS["SM80_16x8x16_F32F16F16F32_TN"], kind): 0 for kind in rich}
    for number, atom in enumerate(atoms):
        for at, kind in enumerate((0, rich[number % len(rich)])):
            programs.setdefault(tiling(atom, kind), (number + at) % 2)
    return programs


TILINGS = _tilings()

SEED, RANDOM, RANDOM_IN_CI = 14, 300, 3
# First and last of the random tilings, by their program; program 0 has the first of them too.
BATCHES = {0: (0, RANDOM_IN_CI), **{2 + i: (begin, min(begin + 20, RANDOM)) for i, begin in enumerate(range(3, RANDOM, 20))}}
_FIRST_RANDOM = len(TILINGS)


def _random(program: int) -> list[tuple[int, Tiling]]:
    """The random tilings of a program, numbered."""
    begin, end = BATCHES.get(program, (0, 0))
    return [(_FIRST_RANDOM + n, one) for n, one in enumerate(random_tilings(end, SEED)) if n >= begin]


def _asked(atom: Atom) -> str:
    """The matrices that lie in registers; of others no thread owns an element."""
    return "ABC" if not atom.wgmma else "AC" if atom.a_in_registers else "C"


def _program(numbered: list[tuple[int, Tiling]]) -> str:
    calls = []
    for number, one in numbered:
        extents = ", ".join(map(cute.integer, one.tile))
        cxx = one.atom.in_layout("TN").cxx  # of wgmma, registers have one order whatever the layout
        asked = ", ".join(str(letter in _asked(one.atom)).lower() for letter in "AB")
        calls.append(
            f"  partition<{cxx}, {cute.layout(one.mma.atoms_layout)}, "
            f"{cute.tile(one.mma.permutation)}, {extents}, {asked}>({number});"
        )
    return _HEAD + "\n".join(calls) + "\n}\n"


def _ask_cute(folder: Path, program: int) -> None:
    """Makes said.txt, CuTe's answers for one program's tilings. Compiling it takes long."""
    toolchain = find_toolchain(want=COMPILE)
    source = folder / "oracle.cpp"
    fixed = [(number, one) for number, one in enumerate(TILINGS) if TILINGS[one] == program]
    source.write_text(_program([*fixed, *_random(program)]))
    # For a .cpp, nvcc only adds the toolkit's folders and hands over to the host compiler.
    command = [
        *(toolchain.nvcc.path, "-ccbin", toolchain.host_compiler.path, "-std=c++17", "-O0", "-w"),
        *(f"-I{toolchain.cutlass.path}", source, "-o", folder / "oracle"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    done = subprocess.run([folder / "oracle"], capture_output=True, text=True, timeout=300, check=True)
    (folder / "said.txt").write_text(done.stdout)


@pytest.fixture(scope="module")
def answers(made_once) -> Callable[[int], dict[tuple[int, str], list[tuple[int, ...]]]]:
    """Of a program: (number of the tiling, matrix) -> for each thread the elements of its values, as CuTe has them."""

    @cache
    def of(program: int) -> dict[tuple[int, str], list[tuple[int, ...]]]:
        lines = (made_once(f"oracle{program}", lambda folder: _ask_cute(folder, program)) / "said.txt").read_text().splitlines()
        table: dict[tuple[int, str], list[tuple[int, ...]]] = {}
        for line in lines:
            number, matrix, thread, *elements = line.split()
            threads = table.setdefault((int(number), matrix), [])
            assert len(threads) == int(thread)
            threads.append(tuple(map(int, elements)))
        return table

    return of


@pytest.mark.parametrize(
    "one", [pytest.param(one, id=one.name, marks=[pytest.mark.more] if program else []) for one, program in TILINGS.items()]
)
def test_every_value_of_every_thread_is_where_cute_puts_it(answers, one):
    number = list(TILINGS).index(one)
    for owned in ownership(one.atom, one.mma.atoms_layout, one.mma.permutation, one.tile):
        assert list(owned.elements) == answers(TILINGS[one])[number, owned.matrix], owned.matrix


@pytest.mark.parametrize("program", [pytest.param(one, marks=[pytest.mark.more] if one else []) for one in BATCHES])
def test_random_tilings_are_partitioned_as_cute_does(answers, program):
    for number, one in _random(program):
        for owned in ownership(one.atom, one.mma.atoms_layout, one.mma.permutation, one.tile, _asked(one.atom)):
            assert list(owned.elements) == answers(program)[number, owned.matrix], f"{one.name}: {owned.matrix}"


def test_random_tilings_are_of_every_sort():
    drawn = random_tilings(RANDOM, SEED)
    assert len(set(drawn)) == RANDOM
    assert {one.atom.kind for one in drawn} == {"fma", "mma.sync", "wgmma"}
    assert any(one.atom.a_in_registers for one in drawn) and any(one.mma.atoms[2] > 1 for one in drawn)
    assert sum(isinstance(entry, LayoutText) for one in drawn for entry in one.mma.permutation) > RANDOM / 4


def test_every_run_has_each_atom():
    assert {one.atom.name for one, program in TILINGS.items() if program == 0} == set(ATOMS)
