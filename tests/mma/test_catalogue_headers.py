"""The registry against the CUTLASS headers: a part of it made anew, and layouts evaluated by another program."""

from __future__ import annotations

import subprocess
from dataclasses import fields

import pytest

from mmagen.mma.catalogue import Catalogue, find, operations
from mmagen.mma.operation import Operation
from mmagen.toolchain.find import COMPILE, find_toolchain
from tools.atom_registry import choices, oracle, rows
from tools.atom_registry.scan import Struct, scan

pytestmark = pytest.mark.nvcc


@pytest.fixture(scope="module")
def toolchain():
    return find_toolchain(want=COMPILE)


@pytest.fixture(scope="module")
def structs(toolchain) -> list[Struct]:
    return scan(toolchain.cutlass.path)


def test_every_struct_of_the_headers_is_in_the_registry_in_their_order(structs):
    names = [rows.operation_name(struct, choices.representative(struct)) for struct in structs]
    assert names == [operation.name for operation in operations()]
    assert [struct.header for struct in structs] == [operation.header for operation in operations()]


def test_a_part_made_anew_is_what_the_registry_holds(toolchain, structs):
    """All of SM61 to SM89 and SM100's two packed FMAs, every third of UMMA and SM120, every 30th wgmma."""
    large = {"SM90_": 30, "SM90::GMMA": 30, "SM100_MMA": 3, "SM120": 5}
    some = [
        struct
        for number, struct in enumerate(structs)
        if number
        % next(
            (n for name, n in large.items() if rows.operation_name(struct, choices.representative(struct)).startswith(name)), 1
        )
        == 0
    ]
    assert len(some) > 180
    wanted = [(struct, choices.representative(struct)) for struct in some]
    made = Catalogue(rows.data(some, wanted, oracle.ask(wanted, toolchain))).operations
    for operation in made:
        known = find(operation.name)
        for field in fields(Operation):
            if field.name != "variants":
                assert getattr(operation, field.name) == getattr(known, field.name), (operation.name, field.name)


_PROGRAM = r"""
#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/atom/mma_traits_sm120_sparse.hpp>
#include <cstdio>

template <class Layout> void evaluate(int number, char const* operand) {
  Layout layout{};
  int const threads = cute::size<0>(layout), values = cute::size<1>(layout);
  for (int thread = 0; thread < threads; thread += threads * values > 20000 ? threads - 1 : 1) {
    std::printf("%d %s %d", number, operand, thread);
    for (int value = 0; value < values; ++value) std::printf(" %d", int(layout(thread, value)));
    std::printf("\n");
    if (threads == 1) break;
  }
}

int main() {
"""


def _sample() -> list[Operation]:
    """Three operations of every kind, and of wgmma and UMMA of every way to take operands."""
    kinds: dict[tuple, list[Operation]] = {}
    for operation in operations():
        if not any(flaw.operand for flaw in operation.flaws):
            kind = (
                operation.family,
                operation.kind,
                operation.sparse,
                operation.block_scaled,
                operation.places["A"],
                operation.threads,
            )
            kinds.setdefault(kind, []).append(operation)
    return [found[place] for found in kinds.values() for place in sorted({0, len(found) // 2, len(found) - 1})]


def test_another_program_evaluates_the_layouts_to_the_same_elements(toolchain, tmp_path):
    sample = _sample()
    assert len(sample) > 50
    calls = [
        f'  evaluate<typename {operation.traits()}::{operand}Layout>({number}, "{operand}");'
        for number, operation in enumerate(sample)
        for operand in operation.layouts
    ]
    source, program = tmp_path / "evaluate.cpp", tmp_path / "evaluate"
    source.write_text(_PROGRAM + "\n".join(calls) + "\n}\n")
    command = [
        str(toolchain.nvcc.path),
        "-ccbin",
        str(toolchain.host_compiler.path),
        "-std=c++17",
        "-O0",
        "-w",
        "-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED",
        f"-I{toolchain.cutlass.path}",
        str(source),
        "-o",
        str(program),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    lines = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()
    tables = {
        (number, operand): layout.table()
        for number, operation in enumerate(sample)
        for operand, layout in operation.layouts.items()
    }
    seen = set()
    for line in lines:
        number, operand, thread, *elements = line.split()
        assert tables[int(number), operand][int(thread)] == list(map(int, elements)), (sample[int(number)].name, operand)
        seen.add((int(number), operand))
    assert seen == set(tables)
