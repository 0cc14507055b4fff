"""`kernel: gemm` of mma.sp: cp.async of what is stored of A, of its metadata and of B; functions that compress A."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from mmagen.core.errors import Fault
from mmagen.families import library, sparse
from mmagen.families.mma_gemm import MmaGemm
from mmagen.families.units import units
from mmagen.mma.atoms import Atom
from mmagen.mma.sparse_atoms import ROWS, SparseAtom, SparseMma, find_sparse
from mmagen.mma.sparse_forms import FORMS
from mmagen.plan import pages, tiling
from mmagen.plan.arguments import Arguments
from mmagen.plan.model import TiledMma
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.plan.plans import GemmPlan
from mmagen.plan.reach import Paths, chosen
from mmagen.plan.trials import Trials, of_product
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family

# (tile of M and N, warps along them): worth measuring, or to begin with.
_TILES = (((128, 128), (2, 2)), ((128, 256), (2, 4)), ((256, 128), (4, 2)), ((64, 128), (2, 2)), ((64, 64), (2, 2)))


class _SparseMmaGemm(MmaGemm):
    def builds(self, atom: str) -> bool:
        return isinstance(find_sparse(atom), SparseMma)

    def plan(self, spec: Spec, sha: str) -> GemmPlan:
        made = super().plan(spec, sha)
        if made.configs:
            return made
        arguments = made.arguments + Arguments((sparse.metadata(made.name, cast(SparseAtom, made.atom)),))
        text = replace(made.text, formula=sparse.FORMULA, reading=(*made.text.reading, *sparse.READING))
        return replace(made, arguments=arguments, text=text)

    def mainloop(self, spec: Spec, atom: Atom) -> tuple[str, str]:
        return "MainloopSparseMultistage", "mainloop_sparse_multistage"

    def shape_faults(self, spec: Spec, atom: Atom) -> Iterator[Fault]:
        assert isinstance(atom, SparseAtom) and spec.tile
        tile, (_, _, atoms_k) = list(spec.tile), tiling.atoms_per_mode(spec.atoms_layout)
        if tile[2] not in atom.depths:
            near = min(atom.depths, key=lambda depth: abs(depth - tile[2]))
            yield Fault(
                ("tile", 2),
                f"{tile[2]} columns are not whole blocks of metadata with at least two k blocks",
                f"one of {', '.join(map(str, atom.depths))}: the nearest legal is {near}",
                {("tile", 2): near},
            )
        if tile[0] % ROWS:
            unit = _rows(spec, atom)
            rows = max(1, tile[0] // unit) * unit
            yield Fault(
                ("tile", 0),
                f"{tile[0]} rows are not whole blocks of metadata, of {ROWS} rows each",
                f"a multiple of {unit}, e.g. {rows}",
                {("tile", 0): rows},
            )
        if atoms_k != 1:
            atoms = [*tiling.atoms_per_mode(spec.atoms_layout)[:2], 1]
            yield Fault(
                ("atoms_layout",), "the warps of a sparse kernel do not share K", f"{atoms}", {("atoms_layout",): atoms}
            )
        for mode, letter in ((0, "M"), (2, "K")):
            entry = spec.permutation[mode]
            if entry is not None and not (isinstance(entry, int) and (mode == 0 or entry == atom.k)):
                yield Fault(
                    ("permutation", mode),
                    f"{entry} would move metadata along {letter}, which lie in the order of the instruction",
                    "null" if mode == 2 else "null, or an extent",
                    {("permutation", mode): None},
                )

    def units(self, spec: Spec, atom: Atom, mma: TiledMma) -> tiling.Tile:
        assert isinstance(atom, SparseAtom)
        m, n, _ = super().units(spec, atom, mma)
        return math.lcm(m, ROWS), n, atom.depths[0]

    def parts(self, plan: GemmPlan) -> tuple[str, ...]:
        libraries = ("sparse_library",) if plan.configs else ()
        return ("common", "package", "product", "gemm", "sparse", "sparse_mma", *library.parts(plan), *libraries)

    def context(self, plan: GemmPlan, config: str) -> Mapping[str, Any]:
        return {
            **super().context(plan, config),
            "launch": "gemm_sparse",
            "units": [*units(plan), [f"{plan.name}_compress"]],
            "definition": _definition(plan),
            "definition_files": ("sparse_mma/include/NAME/_definition.cuh.j2",) if plan.atom.name in FORMS else (),
            "partials": ("sparse_mma/include/NAME/_sparse.cuh.j2",),
            "format": sparse.format_of(plan),
            "prepared": sparse.PREPARED,
        }

    def alternatives(self, spec: Spec) -> Iterator[Mapping[str, Any]]:
        return _choices(cast(SparseAtom, find_sparse(spec.atom)))

    def first_keys(self, atom: Atom) -> Iterator[Mapping[str, Any]]:
        return _choices(cast(SparseAtom, atom))

    def trials(self, plan: GemmPlan) -> Trials:
        trials = of_product(plan, (*chosen(Paths.of(plan)), *_ragged(plan)))
        return replace(trials, majors=(plan.spec.layout.a_major, *plan.majors[1:]))

    def page(self, plan: GemmPlan) -> list[pages.Section]:
        return [*super().page(plan), *sparse.sections(plan)]


FAMILY: Family[GemmPlan] = _SparseMmaGemm(__name__)


def _rows(spec: Spec, atom: Atom) -> int:
    """What the rows of a tile are a multiple of: whole blocks of metadata, and what the atoms cover."""
    entry = spec.permutation[0]
    covered = entry if isinstance(entry, int) else atom.m * tiling.atoms_per_mode(spec.atoms_layout)[0]
    return math.lcm(ROWS, covered)


def _choices(atom: SparseAtom) -> Iterator[Mapping[str, Any]]:
    for (rows, columns), (warps_m, warps_n) in _TILES:
        for depth in atom.depths[:2]:
            for stages in (3, 4):
                yield {
                    "tile": [rows, columns, depth],
                    "atoms_layout": [warps_m, warps_n, 1],
                    "stages": stages,
                }


def _definition(plan: GemmPlan) -> Mapping[str, Any] | None:
    """The operation as a struct in C++: its instruction, its registers, and the thread-value layouts of B and C."""
    form = FORMS.get(plan.atom.name)
    if form is None:  # of a library: each config has its own
        return None
    registers = form.registers
    names = {letter: [f"{letter.lower()}{i}" for i in range(registers[letter].count)] for letter in "CAB"}
    numbers, at = {}, 0
    for letter in "CAB":
        numbers[letter] = ", ".join(f"%{at + i}" for i in range(len(names[letter])))
        at += len(names[letter])
    return {
        "name": form.name,
        "instruction": form.opcode,
        "sums": registers["C"].type,
        "constraint": "f" if registers["C"].type == "float" else "r",
        "names": names,
        "numbers": numbers,
        "metadata": f"%{at}",
        "selector": f"%{at + 1}",
        "permutation_of_a": (*plan.tiled_mma.permutation[:2], None),
        "layouts": {"A": form.layout_a, "B": form.layout_b, "C": form.layout_c},
    }


def _ragged(plan: GemmPlan) -> tuple[Problem, ...]:
    """Extents that end within groups, blocks and tiles, in a batch; lines of B that are whole vectors, and others."""
    m, n, k = plan.tile
    pad = {"K": -(k + 3), "N": -(n // 2 + 5)}[plan.operand("B").major] % VECTOR_BYTES
    shape = (m // 2 + 7, n // 2 + 5, k + 3)
    return (
        Problem(shape=shape, batch=2, ld_pad=pad, alpha=-1.0, beta=2.0),
        Problem(shape=(math.ceil(m / 2) + 1, n + 3, 2 * k + 5), beta=1.0),
    )
