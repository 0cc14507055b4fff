"""The layout algebra against CuTe itself: a host-only C++ program partitions tiles, and every value must agree.

One program holds every atom of the registry, plain and in one of the richer tilings. The host compiler alone makes it;
nvcc is asked only because it knows where the toolkit's headers are.
"""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
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
  return cute::make_tensor(cute::counting_iterator<int>(0), cute::make_layout(cute::make_shape(rows, columns), cute::LayoutRight{}));
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


def _tilings() -> list[Tiling]:
    atoms = list(ATOMS.values())
    rich = [kind for kind in KINDS if kind]
    chosen = [tiling(atom, 0) for atom in atoms]
    chosen += [tiling(atom, rich[number % len(rich)]) for number, atom in enumerate(atoms)]
    chosen += [tiling(ATOMS["SM80_16x8x16_F32F16F16F32_TN"], kind) for kind in rich]
    return list(dict.fromkeys(chosen))


def _program(numbered: list[tuple[int, Tiling]]) -> str:
    calls = []
    for number, one in numbered:
        extents = ", ".join(map(cute.integer, one.tile))
        calls.append(
            f"  partition<{one.atom.cxx}, {cute.layout(one.mma.atoms_layout)}, "
            f"{cute.tile(one.mma.permutation)}, {extents}>({number});"
        )
    return _HEAD + "\n".join(calls) + "\n}\n"


def _ask_cute(folder: Path) -> None:
    """Two programs side by side: what takes long is to compile them."""
    toolchain = find_toolchain(want=COMPILE)
    numbered = list(enumerate(_tilings()))

    def half(first: int) -> str:
        source, program = folder / f"oracle{first}.cpp", folder / f"oracle{first}"
        source.write_text(_program(numbered[first::2]))
        # For a .cpp, nvcc only adds the toolkit's folders and hands over to the host compiler.
        command = [
            str(toolchain.nvcc.path),
            "-ccbin",
            str(toolchain.host_compiler.path),
            "-std=c++17",
            "-O0",
            "-w",
            f"-I{toolchain.cutlass.path}",
            str(source),
            "-o",
            str(program),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr[-4000:]
        return subprocess.run([str(program)], capture_output=True, text=True, timeout=300, check=True).stdout

    with ThreadPoolExecutor(2) as pool:
        (folder / "said.txt").write_text("".join(pool.map(half, (0, 1))))


@pytest.fixture(scope="module")
def told(made_once) -> dict[tuple[int, str], list[tuple[int, ...]]]:
    """(number of the tiling, matrix) -> for each thread the elements of its values, as CuTe has them."""
    lines = (made_once("oracle", _ask_cute) / "said.txt").read_text().splitlines()
    table: dict[tuple[int, str], list[tuple[int, ...]]] = {}
    for line in lines:
        number, matrix, thread, *elements = line.split()
        threads = table.setdefault((int(number), matrix), [])
        assert len(threads) == int(thread)
        threads.append(tuple(map(int, elements)))
    return table


@pytest.mark.parametrize("number", range(len(_tilings())), ids=lambda number: _tilings()[number].name)
def test_every_value_of_every_thread_is_where_cute_puts_it(told, number):
    one = _tilings()[number]
    for owned in ownership(one.atom, one.mma.atoms_layout, one.mma.permutation, one.tile):
        assert list(owned.elements) == told[number, owned.matrix], owned.matrix
