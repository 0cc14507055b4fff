"""What a GEMM with weights of few bits has of its own: files, problems and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mmagen.core.errors import Fault
from mmagen.families.units import units
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.families.wgmma.sparse_rules import with_aligned_lines
from mmagen.families.wgmma.trials import schedule_problems
from mmagen.plan import sentences
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.plan.project import Prepared, Text
from mmagen.plan.reach import Paths, chosen
from mmagen.plan.trials import Trials, of_product
from mmagen.spec.model import Problem, Spec

_ACTIVATION_BYTES = 2
_READING = (("weight_conversion", "how weights are converted in registers"),)


def context(plan: WgmmaGemmPlan) -> Mapping[str, Any]:
    """Variables of templates that differ from those of every wgmma GEMM."""
    if not plan.spec.weights:
        return {}
    return {
        "launch": "sm90_mixed",
        "unaligned": False,
        "units": units(plan),
        "partials": ("mixed/include/NAME/_weights.cuh.j2",),
        "prepared": Prepared("mixed", "weights", b=f"weight_{plan.spec.weights.type}"),
    }


def text(spec: Spec, of_gemm: Text) -> Text:
    """The sentences about a kernel with weights, from those of a GEMM."""
    assert spec.weights
    reading = (*of_gemm.reading, *((sentences.header(name), what) for name, what in _READING))
    title = of_gemm.title.replace("GEMM, ", f"GEMM with {spec.weights.type} weights, ", 1)
    value = "(B - zero)" if spec.weights.zero else "B"
    formula = of_gemm.formula.replace("A * B", f"A * (scale * {value})").replace(", any alignment", "")
    return replace(of_gemm, reading=reading, title=title, formula=formula)


def problem_faults(spec: Spec, problems: Sequence[Problem]) -> Iterator[Fault]:
    """Faults for problems of which TMA cannot address A or B: a kernel with weights has no other way to load them."""
    if not spec.weights:
        return
    step = VECTOR_BYTES // _ACTIVATION_BYTES
    for i, problem in enumerate(problems):
        strides = (problem.batch_stride_a or 0, problem.batch_stride_b or 0) if problem.batch > 1 else (0, 0)
        if (
            problem.offset % VECTOR_BYTES
            or (problem.k + problem.ld_pad) % step
            or strides[0] % step
            or strides[1] % VECTOR_BYTES
        ):
            pad = problem.ld_pad + -(problem.k + problem.ld_pad) % step
            yield Fault(
                ("problems", i),
                "rows of A and of B do not all begin at 16-byte boundaries, which a kernel with weights needs",
                f"an offset and a batch_stride_b that are multiples of {VECTOR_BYTES}, a batch_stride_a that is one of {step}, and "
                f"ld_pad {pad}",
                {("problems", i): with_aligned_lines(problem, pad, VECTOR_BYTES)},
            )


def addressable(spec: Spec, problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """The problems without such faults."""
    wrong = {fault.key[1] for fault in problem_faults(spec, problems)}
    return tuple(problem for i, problem in enumerate(problems) if i not in wrong)


def trials(plan: WgmmaGemmPlan) -> Trials:
    """As of every wgmma GEMM, of problems that TMA can address."""
    turns = plan.roles.consumers if plan.roles.schedule == "pingpong" else 1
    paths = replace(Paths.of(plan, tma=True, turns=turns), operands=frozenset({"K"}))
    return of_product(plan, addressable(plan.spec, (*schedule_problems(plan), *chosen(paths), *_ragged(plan))))


def _ragged(plan: WgmmaGemmPlan) -> tuple[Problem, ...]:
    """Extents that end within groups, bytes and tiles, in batches, with padding that keeps rows of A aligned."""
    m, n, k = plan.tile_of_d
    step = VECTOR_BYTES // _ACTIVATION_BYTES
    return (
        Problem(shape=(m // 2 + 3, n // 2 + 5, 2 * k + 37), batch=2, ld_pad=-(2 * k + 37) % step, alpha=-1.0, beta=2.0),
        Problem(shape=(m + 1, n + 3, k - 3), ld_pad=3 % step),
    )
