"""The kernel for few rows or columns of operands that TMA cannot address, as nvcc compiles it: rows that begin anywhere between
multiples of 16 bytes, which calls it computes, and none of its barriers can be left out."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from mmagen.host_runtime.arguments import struct_of
from mmagen.plan.copies import call_of, few_rows_ctas, takes_few_rows
from mmagen.plan.cost import Call
from mmagen.plan.trials import few_rows_problems
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.session import run_task, tasks
from tests.support.ptx_text import places_in
from tests.support.selection import representatives

pytestmark = pytest.mark.nvcc

# Its last config has the kernel's Config, which computes the transpose of a D with M contiguous.
SPEC = "few_rows"
BYTES = {SPEC: 2, "few_rows_s8": 1, "few_rows_e5m2": 1, "few_rows_tf32": 4}  # of an element, by spec
_IN_EVERY_RUN = (SPEC, "few_rows_e5m2")


def _launches(made, problem):
    """The work of a call with the workspace that it asks for, and the kernels that it launches."""
    (task,) = tasks(made.plan, made.ptx, [problem], 1, "uniform")
    data = operands(task.product, task.problem, "uniform", 1)
    workspace = Workspace(0x500000010, host.workspace_bytes(task, data))
    return task, _kernels(host.multiply_launches(task, data, dict.fromkeys(data.matrices, 0x10000), workspace))


def _kernels(captured):
    """Which ones are launched."""
    kernel = re.compile(r".*?(copy_operands|sm90_few_rows|sm90_unaligned|sm90)_kernel.*")
    return [kernel.sub(r"\1", one.entry) for one in captured]


def _passes(task):
    (record,) = run_task(task).records
    assert record["disposition"] == "passed" and not record["details"]["findings"], (task.problem.text, record["reason"])


def _offsets():
    """In every run 0, 1 and the last offset within 16 bytes, for which the test has the most rows, of two specs."""
    for spec, size in BYTES.items():
        last = 16 // size - 1
        for offset in range(last + 1):
            always = spec in _IN_EVERY_RUN and offset in (0, 1, last)
            yield pytest.param(spec, offset, marks=[] if always else [pytest.mark.more])


@pytest.mark.parametrize("spec, offset", _offsets())
def test_rows_may_begin_at_any_element(spec, offset, compiled):
    made = compiled(spec)
    vector = 16 // BYTES[spec]
    few = 1 + offset * 16 // vector
    shapes = [
        (few, 70 + offset, 16 * vector + offset),
        (33, few, (5 + offset) * vector),
        (min(few + 1, 16), 9, 1 + offset),
        (few, 5, vector + offset),
    ]
    for shape in shapes:
        problem = Problem(shape=shape, offset=offset, ld_pad=offset % 3, batch=1 + offset % 2, alpha=-1.0, beta=2.0)
        task, launched = _launches(made, problem)
        aligned = offset == 0 and shape[2] % vector == 0
        assert launched == (["sm90"] if aligned else ["sm90_few_rows"]), problem.text
        _passes(task)


@pytest.mark.parametrize("spec", representatives(BYTES, _IN_EVERY_RUN))
def test_verify_has_problems_of_it(spec, compiled):
    made = compiled(spec)
    asked = {task.problem.shape for task in tasks(made.plan, made.ptx, (), 1, None)}
    for problem in few_rows_problems(BYTES[spec]):
        assert problem.shape in asked and _launches(made, problem)[1] == ["sm90_few_rows"]


@pytest.mark.parametrize("many, warps", [(64, 8), (4224, 4), (8400, 2)])
def test_fewer_warps_divide_k_where_there_are_more_rows(many, warps, compiled):
    made = compiled(SPEC)
    task, _ = _launches(made, Problem(shape=(2, many, 41)))
    data = operands(task.product, task.problem, "uniform", 1)
    (captured,) = host.multiply_launches(task, data, dict.fromkeys(data.matrices, 0x10000), Workspace())
    blocks = -(-many // 64)
    assert captured.grid == (8 * -(-blocks // (8 // warps)), 1, 1) == (few_rows_ctas(task.problem, BYTES[SPEC]), 1, 1)
    _passes(task)


@pytest.mark.parametrize(
    "problem, launched",
    [
        (Problem(shape=(16, 64, 257)), ["sm90_few_rows"]),
        (Problem(shape=(64, 16, 257)), ["sm90_few_rows"]),
        (Problem(shape=(17, 64, 33)), ["sm90_unaligned"]),
        (Problem(shape=(17, 64, 1603)), ["copy_operands", "sm90"]),
        (Problem(shape=(16, 64, 256)), ["sm90"]),
        # Of a large operand that TMA can address and a small one that it cannot, the small one is copied.
        (Problem(shape=(1, 4096, 4096), batch=2, batch_stride_a=4097, batch_stride_b=0), ["copy_operands", "sm90"]),
    ],
    ids=lambda value: value.text if isinstance(value, Problem) else "-".join(value),
)
def test_which_calls_it_computes(problem, launched, compiled):
    assert _launches(compiled(SPEC), problem)[1] == launched


def _launches_of_far(made, problem, with_workspace):
    """What a call of these extents launches, whose one B and lines of D are too many to have memory here."""
    (task,) = tasks(made.plan, made.ptx, [Problem(shape=(1, 72, problem.k))], 1, "uniform")
    data = operands(task.product, task.problem, "uniform", 1)
    task = replace(task, problem=problem)
    arguments = host.multiply_arguments(task, data, dict.fromkeys(data.matrices, 0x10000), Workspace())
    struct = struct_of(task.product.arguments.members).from_buffer_copy(arguments)
    struct.ldd, struct.batch_stride_a, struct.batch_stride_b, struct.batch_stride_d = problem.n, problem.k, 0, problem.n
    if with_workspace:
        struct.workspace, struct.workspace_bytes = 0x500000010, host.bytes_of_workspace(task, bytes(struct))
    return host.launches_of_call(task, bytes(struct))


# A batch of so many makes 2^31 - 2^15 CTAs of the kernel for few rows, and fewer tiles than are refused.
FAR, FAR_K, MOST_BATCH = 1 << 20, 1603, (1 << 31) // (1 << 15) - 1


@pytest.mark.parametrize(
    "batch, with_workspace, launched",
    [
        (MOST_BATCH, False, ["sm90_few_rows"]),
        (MOST_BATCH + 1, False, ["sm90_unaligned"]),
        (2 * MOST_BATCH + 3, False, ["sm90_unaligned"]),  # 2^32 + 2^15, as an int a legal number
        (MOST_BATCH + 1, True, ["copy_operands", "sm90"]),
    ],
)
def test_more_ctas_than_a_grid_has_are_left_to_the_other_ways(batch, with_workspace, launched, compiled):
    made = compiled(SPEC)
    problem = Problem(shape=(1, FAR, FAR_K), batch=batch, batch_stride_a=FAR_K, batch_stride_b=0)
    captured = _launches_of_far(made, problem, with_workspace)
    assert _kernels(captured) == launched
    if batch == MOST_BATCH:
        assert captured[0].grid == (few_rows_ctas(problem, BYTES[SPEC]), 1, 1)
    assert takes_few_rows(made.plan, problem) == (batch <= MOST_BATCH)


@pytest.mark.parametrize("spec", BYTES)
def test_the_plan_knows_which_calls_copy_their_operands(spec, compiled):
    made = compiled(spec)
    dice = random.Random(7)
    found = set()
    for i in range(40):
        few, many = dice.randint(1, 24), dice.randint(1, 300)
        shape = (
            *((few, many) if i % 4 < 2 else (many, few)),
            # Of no K are the lines multiples of 128 bytes: a copy's pitch is another one.
            dice.choice([2 * dice.randint(4, 3000) + 1, 64 * dice.randint(1, 50) + 16]),
        )
        problem = Problem(shape=shape, offset=dice.choice([0, 0, 3]), batch=1 + i % 2, ld_pad=dice.choice([0, 0, 1]))
        launched = _launches(made, problem)[1]
        pitches = Call.of(made.plan, problem).pitches
        copied = call_of(made.plan, problem).pitches != pitches
        if pitches[0] % 128 or pitches[1] % 128:  # else copies, made for the offset alone, have the same
            assert ("copy_operands" in launched) == copied, problem.text
        found.add(tuple(launched))
    assert {("sm90_few_rows",), ("copy_operands", "sm90"), ("sm90",)} <= found


def test_no_barrier_of_it_can_be_left_out(compiled):
    made = compiled(SPEC)
    task, _ = _launches(made, Problem(shape=(16, 20, 1301), offset=3))
    unit, text = next((unit, text) for unit, text in task.ptx.units.items() if "sm90_few_rows_kernel" in text)
    places = places_in(text, "sm90_few_rows_kernel", r"bar(?:rier)?\.sync\s+0;")
    assert len(places) == 4
    for place in places:
        without = text[: place.start()] + text[place.end() :]
        (record,) = run_task(replace(task, ptx=replace(task.ptx, units={**task.ptx.units, unit: without}))).records
        assert record["disposition"] in ("failed", "incorrect"), (place, record)
