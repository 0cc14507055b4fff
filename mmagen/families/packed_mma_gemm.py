"""`kernel: gemm` of mma.sync on 4-bit integers: the kernel of 8-bit operands over bytes of two elements each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mmagen.core.errors import Fault
from mmagen.families.mma_gemm import MmaGemm
from mmagen.mma.atoms import Atom
from mmagen.mma.packed_atoms import find_packed
from mmagen.plan.plans import GemmPlan
from mmagen.plan.project import Prepared
from mmagen.plan.reach import Paths, chosen
from mmagen.plan.trials import Trials, of_product
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family

MAINLOOP = ("MainloopPacked", "mainloop_packed")
_STORAGE = (
    "\n * Two elements of A and of B are a byte, that of even k in the low half: a row is ceil(K / 2) bytes. lda, ldb and their"
    "\n * batch strides count bytes. For an odd K the high half of the last byte may hold anything."
)


class _PackedMmaGemm(MmaGemm):
    def builds(self, atom: str) -> bool:
        return find_packed(atom) is not None

    def plan(self, spec: Spec, sha: str) -> GemmPlan:
        made = super().plan(spec, sha)
        return replace(made, text=replace(made.text, storage=_STORAGE))

    def mainloop(self, spec: Spec, atom: Atom) -> tuple[str, str]:
        return MAINLOOP

    def shape_faults(self, spec: Spec, atom: Atom) -> Iterator[Fault]:
        if spec.layout.letters != "TN":
            yield Fault(
                ("layout",),
                f"{spec.layout.letters} has an operand whose neighbours in memory do not lie along K; two of 4 bits are a byte, "
                "and the instruction reads bytes of two neighbours along K",
                "TN: pack both operands along K, transposing before they are packed where need be",
                {("layout",): "TN"},
            )
        if spec.permutation[2] is not None:
            yield Fault(
                ("permutation", 2),
                f"{spec.permutation[2]} would reorder elements along K, two of which share a byte",
                "null",
                {("permutation", 2): None},
            )

    def context(self, plan: GemmPlan, config: str) -> Mapping[str, Any]:
        a, b = (f"packed_{operand.multiplied}" for operand in plan.operands)
        return {
            **super().context(plan, config),
            "definition_files": ("packed_mma/include/NAME/_definition.cuh.j2",),
            "prepared": Prepared("packed_mma", "packed_operands", a, b),
        }

    def parts(self, plan: GemmPlan) -> tuple[str, ...]:
        return (*super().parts(plan), "packed_mma")

    def alternatives(self, spec: Spec) -> Iterator[Mapping[str, Any]]:
        return map(_without_order_of_k, super().alternatives(spec))

    def first_keys(self, atom: Atom) -> Iterator[Mapping[str, Any]]:
        return map(_without_order_of_k, super().first_keys(atom))

    def trials(self, plan: GemmPlan) -> Trials:
        return of_product(plan, (*chosen(Paths.of(plan)), *_ragged(plan)))


FAMILY: Family[GemmPlan] = _PackedMmaGemm(__name__)


def _without_order_of_k(keys: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**keys, "permutation": [*keys["permutation"][:2], None]} if "permutation" in keys else keys


def _ragged(plan: GemmPlan) -> tuple[Problem, ...]:
    """An odd K, whose last byte has one element, of whole vectors and of others, in a batch and in one k tile."""
    m, n, k = plan.tile
    return (
        Problem(shape=(m // 2 + 7, n + 5, k + 5), batch=2, ld_pad=27, alpha=-1.0, beta=2.0),
        Problem(shape=(m, n, k - 1), ld_pad=1, beta=1.0),
        Problem(shape=(m // 2 + 1, n // 2 + 3, k // 2 + 3)),
    )
