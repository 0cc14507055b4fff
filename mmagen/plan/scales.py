"""Scales of A and B in the test program of a project."""

from __future__ import annotations

from mmagen.plan.plans import ProductPlan
from mmagen.spec.scale import BLOCK, BLOCKS, LINES


def model(plan: ProductPlan) -> str:
    """The type of templates/runtime/test/scales.cuh that looks up the scales of a call."""
    scale, weights = plan.spec.scale, plan.spec.weights
    names = [one.name for one in plan.arguments.tensors]
    if weights:
        scales = plan.arguments.tensors[names.index("scale_b")]
        zero = names.index("zero_b") if weights.zero else -1
        types = f"mmagen::test::weight_{weights.type}, mmagen::test::{scales.element.word}"
        return f"WeightScales<{types}, {names.index('scale_b')}, {weights.group or 0}, {zero}>"
    if scale is None:
        return "NoScales"
    return f"Scales<{', '.join(_of(kind, f'scale_{letter}', names) for letter, kind in (('a', scale.a), ('b', scale.b)))}>"


def _of(kind: str | None, name: str, names: list[str]) -> str:
    if kind is None:
        return "mmagen::test::ScalesOf<-1, 0, 0>"
    return f"mmagen::test::ScalesOf<{names.index(name)}, {LINES[kind]}, {BLOCK if kind in BLOCKS else 0}>"
