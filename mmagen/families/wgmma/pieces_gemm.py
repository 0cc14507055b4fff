"""What a GEMM of f32 pieces has of its own: files, problems and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mmagen.families.units import units
from mmagen.families.wgmma import pieces
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.families.wgmma.trials import schedule_problems
from mmagen.plan.project import Text
from mmagen.plan.reach import Paths, chosen
from mmagen.plan.trials import Trials, of_product
from mmagen.spec.model import Problem, Spec

_LONG = 1024
READING = (
    ("f32_pieces", "how an f32 is split into bf16 pieces, and the kernel that does it"),
    ("sm90_pieces_launch", "the host side: pieces of A and B in the workspace, then the GEMM"),
)


def context(plan: WgmmaGemmPlan) -> Mapping[str, Any]:
    """Variables of templates that differ from those of every wgmma GEMM."""
    if not plan.mainloop.pieces:
        return {}
    return {
        "launch": "sm90_pieces",
        "workspace": "sm90_pieces",
        "unaligned": False,
        "units": units(plan),
        "partials": ("pieces/include/NAME/_pieces.cuh.j2",),
    }


def trials(plan: WgmmaGemmPlan) -> Trials:
    """As of every wgmma GEMM. Whatever A and B are, the kernel loads pieces by TMA; the lines of A and B differ for the kernel that
    splits them alone."""
    m, n, _ = plan.tile_of_d
    # Sums so long that without promotion, or without the smallest product, they exceed their bound.
    long = Problem(shape=(m, n, _LONG), beta=1.0)
    turns = plan.roles.consumers if plan.roles.schedule == "pingpong" else 1
    paths = Paths.of(plan, tma=True, turns=turns)
    return of_product(plan, (long, *schedule_problems(plan), *chosen(replace(paths, operands=frozenset({"K"})))))


def text(spec: Spec, of_gemm: Text) -> Text:
    """The sentences about a kernel with pieces, from those of a GEMM."""
    made = pieces.layout(spec)
    assert made
    formula = of_gemm.formula.replace("any alignment", f"any alignment; products of f32 as {made.text}")
    return replace(text_of_library(spec, of_gemm), formula=formula)


def text_of_library(spec: Spec, of_library: Text) -> Text:
    """The same of a library, whose formula is that of its kernels."""
    made = pieces.layout(spec)
    assert made
    title = of_library.title.replace("GEMM, bf16 x bf16", "GEMM, f32 x f32", 1)
    return replace(of_library, title=title.replace(" ->", f" by {made.text} ->", 1))
