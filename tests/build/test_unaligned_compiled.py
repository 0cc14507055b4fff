"""The kernel for operands that TMA cannot address, as nvcc compiles it: every alignment of every line, and none of its barriers,
fences and bounds can be left out."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from mmagen.plan.copies import call_of
from mmagen.plan.cost import Call
from mmagen.plan.trials import copied_problems
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.session import run_task, tasks
from tests.support.ptx_text import places_in
from tests.support.selection import representatives

pytestmark = pytest.mark.nvcc

# Both are compiled by other tests of every run too. Only the second has partial sums in its workspace beside the copies.
SPEC, COPYING = "sm90_gemm_bf16_pingpong", "c2_stream"
# All layouts, elements of 1, 2 and 4 bytes, A in registers, promoted sums, sums split among CTAs, D with M contiguous.
_OTHERS = (
    "sm90_gemm_bf16_nt",
    "sm90_gemm_bf16_nn",
    "sm90_gemm_bf16_tt",
    "sm90_gemm_e4m3_precise",
    "sm90_gemm_tf32",
    "sm90_gemm_s8",
    "sm90_gemm_splitk",
    "rs_m_major",
    "e4m3_out_col",
    "wg3",
)


def _unaligned(element_bytes: int) -> list[Problem]:
    """Lines that begin at each multiple of an element: by the pointers, and by the pitch from line to line. Some are shorter than
    a vector, some end in the first or the last one of a tile; some go through whole tiles in which no line begins or ends."""
    vector = 16 // element_bytes
    by_pointer = [Problem(shape=(19, 35, 8 * vector + 5 * i), offset=i, beta=1.0) for i in range(1, vector)]
    by_pitch = [
        Problem(shape=(17 + 8 * i, 27 + i, 130 + i), batch=2, ld_pad=i, alpha=-1.0, beta=2.0) for i in range(1, vector, 2)
    ]
    short = [Problem(shape=(3 + i, 2 + i, 1 + i), offset=i % 3) for i in range(0, vector, 3)]
    through = [Problem(shape=(20, 36, 640 // element_bytes + 1)), Problem(shape=(389, 20, 130), offset=1)]
    return [*by_pointer, *by_pitch, *short, *through]


@pytest.mark.parametrize("name", representatives((SPEC, *_OTHERS), (SPEC,)))
def test_lines_may_begin_at_any_element(name, compiled):
    made = compiled(name)
    work = tasks(made.plan, made.ptx, _unaligned(made.plan.atom.type_a.bytes), 1, "uniform")
    for task in work:
        (record,) = run_task(replace(task, workspace=False)).records  # with one, operands are copied
        assert record["disposition"] == "passed" and not record["details"]["findings"], (task.problem.text, record["reason"])


def test_threads_without_a_vector_of_a_narrow_tile_load_nothing(compiled):
    """Behind K those would read the last line, which may begin at another place between multiples of 16 bytes."""
    made = compiled("n16_tt")
    for task in tasks(made.plan, made.ptx, [Problem(shape=(70, 49, k), offset=1) for k in (129, 193, 200)], 1, "uniform"):
        (record,) = run_task(replace(task, workspace=False)).records
        assert record["disposition"] == "passed" and not record["details"]["findings"], (task.problem.text, record["reason"])


@pytest.fixture(scope="module")
def task(compiled):
    """Three k tiles of two output tiles, with ends at both sides of every line."""
    made = compiled(SPEC)
    (one,) = tasks(made.plan, made.ptx, [Problem(shape=(70, 40, 147), offset=3)], 1, "small_int")
    return replace(one, workspace=False)


# What is left out of the PTX, or what is put there; which of its places (None: all), and the finding.
FAULTS = {
    "no proxy fence": (r"fence\.proxy\.async[^;]*;", None, "", "proxy_fence"),
    "no barrier after a k tile": (r"bar(?:rier)?\.sync\s+0;", -1, "", "shared_race"),
    "sums are read early": (r"wgmma\.wait_group\.sync\.aligned\s+0;", None, "", "wgmma_order"),
    "no wgmma.fence": (r"wgmma\.fence[^;]*;", None, "", "wgmma_order"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_ptx_of_it_that_lacks_something_is_found_out(name, task):
    pattern, which, instead, kind = FAULTS[name]
    text = task.ptx.text
    places = places_in(text, "sm90_unaligned_kernel", pattern)
    for place in reversed(places if which is None else [places[which]]):
        text = text[: place.start()] + instead + text[place.end() :]
    (record,) = run_task(replace(task, ptx=replace(task.ptx, units={task.ptx.name: text}))).records
    assert kind in {finding["kind"] for finding in record["details"]["findings"]}, record


def test_no_barrier_of_it_can_be_left_out(task):
    text = task.ptx.text
    places = places_in(text, "sm90_unaligned_kernel", r"bar(?:rier)?\.sync\s+0;")
    assert places
    for place in places:
        without = text[: place.start()] + text[place.end() :]
        (record,) = run_task(replace(task, ptx=replace(task.ptx, units={task.ptx.name: without}))).records
        assert record["disposition"] in ("failed", "incorrect"), (place, record)


@pytest.mark.parametrize("shape", [(69, 201, 136), (130, 33, 64)])
def test_of_an_unaligned_d_alone_the_operands_are_still_loaded_by_tma(shape, compiled):
    made = compiled(SPEC)
    (task,) = tasks(made.plan, made.ptx, [Problem(shape=shape, batch=2, alpha=-1.0, beta=2.0)], 1, "uniform")
    data = operands(task.product, task.problem, "uniform", 1)
    (captured,) = host.multiply_launches(task, data, dict.fromkeys("abcd", 0x10000), Workspace())
    assert "unaligned" not in captured.entry
    (record,) = run_task(task).records
    assert record["disposition"] == "passed" and not record["details"]["findings"], record


LONG = Problem(shape=(70, 40, 1603), offset=3)  # a copy takes less than the k tiles of the kernel without TMA


def _launches(made, problem, size=None):
    """The work of a call with a workspace of as many bytes as it asks for, or of `size`, and the kernels that it launches."""
    (task,) = tasks(made.plan, made.ptx, [problem], 1, "uniform")
    data = operands(task.product, task.problem, "uniform", 1)
    workspace = Workspace(0x500000010, host.workspace_bytes(task, data) if size is None else size)
    captured = host.multiply_launches(task, data, dict.fromkeys("abcd", 0x10000), workspace)
    return task, [re.sub(r".*?(copy_operands|sm90_unaligned|sm90)_kernel.*", r"\1", one.entry) for one in captured]


@pytest.mark.parametrize("offset", range(8))
def test_with_a_workspace_operands_are_copied_to_rows_that_tma_can_address(offset, compiled):
    problem = Problem(shape=(61, 35, 1603 + offset), offset=offset, batch=1 + offset % 2, beta=1.0)
    task, launched = _launches(compiled(COPYING), problem)
    assert launched == ["copy_operands", "sm90"]
    (record,) = run_task(task).records
    assert record["disposition"] == "passed" and not record["details"]["findings"], record


@pytest.mark.parametrize("name", (SPEC, COPYING))
def test_verify_has_a_problem_whose_operands_are_copied(name, compiled):
    made = compiled(name)
    for problem in copied_problems(made.plan.tile_of_d, made.plan.operands[0].element.bytes, made.plan.majors):
        assert _launches(made, problem)[1] == ["copy_operands", "sm90"]


def test_operands_are_not_copied_where_that_does_not_pay_or_the_workspace_is_too_small(compiled):
    made = compiled(COPYING)
    assert _launches(made, LONG)[1] == ["copy_operands", "sm90"]
    bytes_of_copies = (70 + 40) * 26 * 128 + 128
    assert _launches(made, LONG, size=bytes_of_copies)[1] == ["copy_operands", "sm90"]
    assert _launches(made, LONG, size=bytes_of_copies - 16)[1] == ["sm90_unaligned"]
    assert _launches(made, Problem(shape=(70, 40, 100), offset=3))[1] == ["sm90_unaligned"]
    assert _launches(made, Problem(shape=(70, 40, 1608)))[1] == ["sm90"]


@pytest.mark.parametrize("name", (SPEC, COPYING))
def test_the_plan_knows_which_calls_copy_their_operands(name, compiled):
    made = compiled(name)
    dice = random.Random(5)
    found = set()
    for i in range(40):
        shape = (dice.randint(1, 300), dice.randint(1, 300), dice.choice([dice.randint(8, 4000), 64 * dice.randint(1, 50) + 8]))
        problem = Problem(shape=shape, offset=dice.choice([0, 0, 3]), batch=1 + i % 2, ld_pad=dice.choice([0, 0, 1]))
        copied = call_of(made.plan, problem).pitches != Call.of(made.plan, problem).pitches
        assert ("copy_operands" in _launches(made, problem)[1]) == copied, problem.text
        found.add(copied)
    assert found == {False, True}


def test_copies_have_lines_of_whole_128_bytes(compiled):
    plan = compiled(COPYING).plan
    assert call_of(plan, LONG).pitches == (26 * 128, 26 * 128, Call.of(plan, LONG).pitches[2])


def test_one_matrix_of_a_batch_is_copied_once(compiled):
    made = compiled(COPYING)
    each = Problem(shape=(70, 40, 1603), batch=3, beta=1.0)
    shared = each.model_copy(update={"batch_stride_a": 0})
    sizes = []
    for problem in (each, shared):
        task, launched = _launches(made, problem)
        assert launched == ["copy_operands", "sm90"]
        sizes.append(host.workspace_bytes(task, operands(task.product, task.problem, "uniform", 1)))
        (record,) = run_task(task).records
        assert record["disposition"] == "passed" and not record["details"]["findings"], record
    assert sizes[0] - sizes[1] == 2 * 70 * 1664 * 2  # rows of 1603 elements take 26 lines of 128 bytes
