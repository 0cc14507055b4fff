"""CuTe's own answer to who owns which element: host-only C++ programs partition tiles, and digests of what they print are kept.

    python -m tests.support.cute_layouts [-j JOBS]

asks CuTe about every tiling and writes the digests to tests/mma/recorded/cute_layouts.json: every atom of the registry in a plain
and in a richer tiling, one atom in all of them, and 300 random combinations of atom, atoms_layout and permutation; 72 more of
sparse atoms. Of mma.sp CuTe has the operations of SM120 alone, whose fragments are those of every mma.sp of that shape. The host
compiler alone makes the programs, each in a minute or two; nvcc is asked only because it knows where the toolkit's headers are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from mmagen.mma.atoms import Atom
from mmagen.mma.ownership import ownership
from mmagen.mma.sparse_atoms import SparseMma
from mmagen.plan import cxx as cute
from mmagen.toolchain.find import COMPILE, find_toolchain
from tests.support.atoms import ATOMS
from tests.support.tilings import KINDS, Tiling, random_sparse_tilings, random_tilings, tiling

RECORDED = Path(__file__).resolve().parents[1] / "mma/recorded/cute_layouts.json"

_HEAD = """\
#include <cstdio>
#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/mma_traits_sm90_gmma_sparse.hpp>

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


def _of_each_atom() -> list[Tiling]:
    rich = [kind for kind in KINDS if kind]
    found = [tiling(ATOMS["SM80_16x8x16_F32F16F16F32_TN"], kind) for kind in rich]
    for number, atom in enumerate(sorted(ATOMS.values(), key=lambda atom: atom.type_d.parts)):  # complex ones last
        found += [tiling(atom, 0), tiling(atom, rich[number % len(rich)])]
    return found


SEED, RANDOM, SPARSE = 14, 300, 72
TILINGS = {one.name: one for one in [*_of_each_atom(), *random_tilings(RANDOM, SEED), *random_sparse_tilings(SPARSE, SEED)]}
_SPARSE_MMA = "cute::SM120::SPARSE::SM120_SPARSE_16x8x64_TN<cute::float_e4m3_t, cute::float_e4m3_t, float>"

_IN_A_PROGRAM = 24
PROGRAMS = range(-(-len(TILINGS) // _IN_A_PROGRAM))


def tilings_of(program: int) -> list[Tiling]:
    """The tilings that a program asks CuTe about."""
    return list(TILINGS.values())[program * _IN_A_PROGRAM : (program + 1) * _IN_A_PROGRAM]


def in_registers(atom: Atom) -> str:
    """The matrices that lie in registers; of others no thread owns an element."""
    return "ABC" if not atom.wgmma else "AC" if atom.a_in_registers else "C"


def _source(program: int) -> str:
    calls = []
    for number, one in enumerate(tilings_of(program)):
        extents = ", ".join(map(cute.integer, one.tile))
        # Of wgmma, registers have one order whatever the layout.
        cxx = _SPARSE_MMA if isinstance(one.atom, SparseMma) else one.atom.in_layout("TN").cxx
        asked = ", ".join(str(letter in in_registers(one.atom)).lower() for letter in "AB")
        calls.append(
            f"  partition<{cxx}, {cute.layout(one.mma.atoms_layout)}, "
            f"{cute.tile(one.mma.permutation)}, {extents}, {asked}>({number});"
        )
    return _HEAD + "\n".join(calls) + "\n}\n"


def cute_digests(folder: Path, program: int) -> dict[str, dict[str, str]]:
    """Compile and run a program in `folder`: for each tiling's name and each matrix the digest of CuTe's answer."""
    toolchain = find_toolchain(want=COMPILE)
    assert toolchain.nvcc and toolchain.host_compiler and toolchain.cutlass
    source = folder / "oracle.cpp"
    source.write_text(_source(program))
    # For a .cpp, nvcc only adds the toolkit's folders and hands over to the host compiler.
    command = [
        *(toolchain.nvcc.path, "-ccbin", toolchain.host_compiler.path, "-std=c++17", "-O0", "-w"),
        *(f"-I{toolchain.cutlass.path}", source, "-o", folder / "oracle"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    done = subprocess.run([folder / "oracle"], capture_output=True, text=True, timeout=300, check=True)
    return _parsed(done.stdout, [one.name for one in tilings_of(program)])


def _parsed(text: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    threads: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    for line in text.splitlines():
        number, matrix, thread, *elements = line.split()
        of_matrix = threads.setdefault((names[int(number)], matrix), [])
        assert len(of_matrix) == int(thread)
        of_matrix.append(tuple(map(int, elements)))
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    for (name, matrix), elements_of in threads.items():
        found[name][matrix] = digest(elements_of)
    return found


def our_digests(one: Tiling) -> dict[str, str]:
    """For each matrix the digest of what `mmagen.mma.ownership` says."""
    owned = ownership(one.atom, one.mma.atoms_layout, one.mma.permutation, one.tile, in_registers(one.atom))
    return {each.matrix: digest(each.elements) for each in owned}


def digest(elements: Iterable[Sequence[int]]) -> str:
    """Of the elements that the values of each thread have, in order."""
    return sha256("\n".join(" ".join(map(str, values)) for values in elements).encode()).hexdigest()[:16]


def _asked(program: int) -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        return cute_digests(Path(folder), program)


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask CuTe about every tiling, and write the digests."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.cute_layouts", description=__doc__)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=RECORDED)
    options = parser.parse_args(arguments)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = {name: each for of_program in pool.map(_asked, PROGRAMS) for name, each in of_program.items()}
    toolchain = find_toolchain(want=COMPILE)
    assert toolchain.cutlass
    document = {"cutlass": toolchain.cutlass.version, "tilings": found}
    options.output.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
