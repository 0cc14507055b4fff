"""`kernel: gemm` of sparse wgmma atoms: A compressed, its metadata and B by TMA, and functions that compress A."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from mmagen.core.errors import Fault, SpecFaults
from mmagen.families import library, sparse
from mmagen.families.units import units
from mmagen.families.wgmma import sparse_rules
from mmagen.families.wgmma.gemm import WgmmaGemm
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.families.wgmma.trials import schedule_problems
from mmagen.mma.atoms import Atom
from mmagen.mma.sparse_atoms import SparseAtom, find_sparse, in_shared_memory
from mmagen.plan import pages, rules, sentences
from mmagen.plan.arguments import Arguments
from mmagen.plan.reach import Paths, chosen
from mmagen.plan.trials import Trials, of_product
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family

# What stands for keys that sparse kernels do not have.
_WITHOUT = {"operands": None, "grouped": None, "scale": None, "weights": None, "split": None}


class _SparseGemm(WgmmaGemm):
    module = __name__

    def builds(self, atom: str) -> bool:
        found = find_sparse(atom)
        return (found is not None and found.wgmma) or in_shared_memory(atom) is not None

    def plan(self, spec: Spec, sha: str) -> WgmmaGemmPlan:
        wrong = [] if spec.configs else [*_atom_faults(spec)]
        if wrong:
            raise SpecFaults((*wrong, *rules.faults_without_atom(spec)))
        own = [] if spec.configs else [*sparse_rules.sparse_faults(spec)]
        atom = find_sparse(spec.atom)
        if atom and spec.problems:
            own += sparse_rules.problem_faults(atom, spec.layout.b_major, spec.problems)
        try:
            made = super().plan(spec.model_copy(update=_WITHOUT) if own else spec, sha)
        except SpecFaults as error:
            raise SpecFaults((*own, *error.faults)) from None
        if own:
            raise SpecFaults(tuple(own))
        made = replace(made, problems=sparse_rules.addressable(made.atom, made.operand("B").major, made.problems))
        if made.configs:
            return made
        arguments = made.arguments + Arguments((sparse.metadata(made.name, cast(SparseAtom, made.atom)),))
        return replace(made, arguments=arguments, text=replace(made.text, formula=sparse.FORMULA, reading=_reading(made)))

    def problem_faults(self, plan: WgmmaGemmPlan, problems: Sequence[Problem]) -> Iterator[Fault]:
        yield from super().problem_faults(plan, problems)
        yield from sparse_rules.problem_faults(plan.atom, plan.operand("B").major, problems)

    def parts(self, plan: WgmmaGemmPlan) -> tuple[str, ...]:
        libraries = ("sparse_library",) if plan.configs else ()
        return ("common", "package", "product", "gemm", "hopper", "sparse", *library.parts(plan), *libraries)

    def context(self, plan: WgmmaGemmPlan, config: str) -> Mapping[str, Any]:
        return {
            **super().context(plan, config),
            "launch": "sm90_sparse",
            "unaligned": False,
            "units": [*units(plan), [f"{plan.name}_compress"]],
            "partials": ("sparse/include/NAME/_sparse.cuh.j2",),
            "format": sparse.format_of(plan),
            "prepared": sparse.PREPARED,
        }

    def trials(self, plan: WgmmaGemmPlan) -> Trials:
        b = plan.operand("B")
        turns = plan.roles.consumers if plan.roles.schedule == "pingpong" else 1
        # Only B's lines in memory depend on the problem: those of A's values are padded to whole vectors.
        paths = replace(Paths.of(plan, tma=True, turns=turns), operands=frozenset({b.major}))
        problems = (*schedule_problems(plan), *chosen(paths), *_ragged(plan))
        trials = of_product(plan, sparse_rules.addressable(plan.atom, b.major, problems))
        return replace(trials, majors=(plan.spec.layout.a_major, *plan.majors[1:]))

    def page(self, plan: WgmmaGemmPlan) -> list[pages.Section]:
        *sections, _ = super().page(plan)  # not how unaligned operands are loaded
        return [*sections, *sparse.sections(plan)]

    def alternatives(self, spec: Spec) -> Iterator[Mapping[str, Any]]:
        return _choices(cast(SparseAtom, rules.atom_for(spec)))

    def first_keys(self, atom: Atom) -> Iterator[Mapping[str, Any]]:
        return _choices(cast(SparseAtom, atom))


FAMILY: Family[WgmmaGemmPlan] = _SparseGemm()


def _atom_faults(spec: Spec) -> Iterator[Fault]:
    """Fault for an operation with A in registers: what is stored of A comes from memory, and need not be changed there."""
    name = in_shared_memory(spec.atom)
    if name:
        what = f"{spec.atom} reads A from registers"
        yield Fault(("atom",), what, f"use {name}, which reads it from shared memory", {("atom",): name})


def _choices(atom: SparseAtom) -> Iterator[Mapping[str, Any]]:
    """Tiles of one wgmma along N, in k tiles of one and of two blocks of metadata."""
    for depth in atom.depths[:2]:
        yield {"tile": [128, atom.n, depth], "atoms_layout": [2, 1, 1], "schedule": "cooperative", "cluster": [2, 1]}
        yield {"tile": [128, atom.n, depth], "atoms_layout": [2, 1, 1], "schedule": "cooperative"}
        yield {"tile": [64, atom.n, depth], "schedule": "pingpong", "cluster": [2, 1]}
        yield {"tile": [64, atom.n, depth], "schedule": "pingpong"}


def _reading(plan: WgmmaGemmPlan) -> tuple[tuple[str, str], ...]:
    """The headers to read: no kernel for operands that TMA cannot address, but those that compress."""
    return (*(entry for entry in plan.text.reading if entry[0] != sentences.header("sm90_unaligned")), *sparse.READING)


def _ragged(plan: WgmmaGemmPlan) -> tuple[Problem, ...]:
    """Extents that end within groups, blocks and tiles, in batches, with padding that keeps lines of B aligned."""
    m, n, k = plan.tile
    pad = {"K": -(k + 3), "N": -(n // 2 + 5)}[plan.operand("B").major] % 16
    return (Problem(shape=(m // 2 + 7, n // 2 + 5, k + 3), batch=2, ld_pad=pad, alpha=-1.0, beta=2.0),)
