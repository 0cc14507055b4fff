"""The layout algebra against CuTe itself: a host-only C++ program partitions tiles, and every value must agree.

One program holds every atom of the registry, plain and in one of the richer tilings. The host compiler alone makes it;
nvcc is asked only because it knows where the toolkit's headers are.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from mmagen.mma.ownership import ownership
from mmagen.plan import cxx as cute
from mmagen.toolchain.find import COMPILE, find_toolchain
from tests.support.atoms import ATOMS
from tests.support.tilings import KINDS, Tiling, tiling

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

template <class Op, class AtomsLayout, class Permutation, class M, class N, class K>
void partition(int id)
{
  auto const mma = cute::make_tiled_mma(cute::MMA_Atom<Op>{}, AtomsLayout{}, Permutation{});
  for (int thread = 0; thread < cute::size(mma); ++thread) {
    auto const slice = mma.get_slice(thread);
    print(id, 'A', thread, slice.partition_A(numbered(M{}, K{})));
    print(id, 'B', thread, slice.partition_B(numbered(N{}, K{})));
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


def _program(numbered: list[tuple[int, Tiling]]) -> str:
    calls = []
    for number, one in numbered:
        extents = ", ".join(map(cute.integer, one.tile))
        calls.append(
            f"  partition<{one.atom.cxx}, {cute.layout(one.mma.atoms_layout)}, "
            f"{cute.tile(one.mma.permutation)}, {extents}>({number});"
        )
    return _HEAD + "\n".join(calls) + "\n}\n"


def _ask_cute(folder: Path, program: int) -> None:
    """Makes said.txt, CuTe's answers for one program's tilings. Compiling it takes long."""
    toolchain = find_toolchain(want=COMPILE)
    source = folder / "oracle.cpp"
    source.write_text(_program([(number, one) for number, one in enumerate(TILINGS) if TILINGS[one] == program]))
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


def test_every_run_has_each_atom():
    assert {one.atom.name for one, program in TILINGS.items() if program == 0} == set(ATOMS)
