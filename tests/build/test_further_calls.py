"""Calls that no problem makes, which verify makes once for each kernel: what they must find is planted in their results.

Faults of kernels that they alone find are in tests/support/mutations_grouped.py, _pointers.py and _pieces.py.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from mmagen.core.errors import ExitCode
from mmagen.emulate import EmulationError, Finding
from mmagen.families import plan
from mmagen.report.complaints import of_record
from mmagen.spec.epilogue import Epilogue
from mmagen.spec.model import Problem
from mmagen.verify.emulated import further_calls, groups, host, nan_row, pointers, product, rare_values, short_workspace
from mmagen.verify.emulated.formats import encode
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import values
from mmagen.verify.emulated.session import run_task, tasks

pytestmark = pytest.mark.nvcc

MASKED, POINTERS, PIECES, CLASSIC = "groups_masked", "pointers_pingpong", "pc1_x6", "sm80_gemm_classic"
GATED = "pointers_gated"  # D has half as many columns as B
STREAM, OPERATIONS = "c2_stream", "sm80_gemm_f16_epilogue"
PARTS = "pc2_x3"  # of K too, in a workspace beside the pieces


@pytest.fixture
def checking(compiled):
    """checking(spec): the task that a kernel's further calls come with."""
    return lambda spec: next(one for one in tasks(compiled(spec).plan, compiled(spec).ptx, (), 1, None) if one.checks)


@pytest.mark.parametrize("spec", [CLASSIC, MASKED, POINTERS, GATED, PIECES, STREAM, OPERATIONS, PARTS])
def test_right_kernels_pass(spec, checking):
    further_calls.check(checking(spec))


def test_they_come_once_for_each_kernel(compiled):
    of = compiled(CLASSIC)
    for problems, distribution in (((), None), ((), "uniform"), ([Problem(shape=(8, 8, 8))], None)):
        work = tasks(of.plan, of.ptx, problems, 1, distribution)
        assert [one.distribution for one in work if one.checks] == ["uniform"]
    assert not any(one.checks for one in tasks(of.plan, of.ptx, (), 1, "small_int"))


def spoil(monkeypatch, change):
    """Have `change` called with the task and the operands of each call, once the kernel has computed them."""
    right = further_calls.multiply

    def multiply(task, data):
        found = right(task, data)
        change(task, data)
        return found

    monkeypatch.setattr(further_calls, "multiply", multiply)


def test_a_k_of_0_that_leaves_something_is_found(checking, monkeypatch):
    def change(task, data):
        data.d.view[0, 3, 1] = np.nan

    spoil(monkeypatch, change)
    with pytest.raises(EmulationError, match=r"a call with a K of 0: 1 of \d+ elements wrong; at \(batch,m,n\): \(0, 3, 1\)"):
        further_calls.check(checking(CLASSIC))


def test_what_they_find_is_judged_as_in_a_problem(checking, monkeypatch):
    def change(task, data):
        data.d.view[0, 3, 1] = np.nan

    with monkeypatch.context() as patch:
        spoil(patch, change)
        result = run_task(checking(CLASSIC))
    (record,) = result.records
    assert (record["disposition"], result.exit_code) == ("incorrect", ExitCode.INCORRECT)
    assert record["reason"].startswith("a call with a K of 0: 1 of ")
    race = Finding("shared_race", "thread 1 reads byte 0", "include/mmagen/a.cuh", 7, "ld", 1, 1, 0, 1)
    right = further_calls.multiply
    monkeypatch.setattr(
        further_calls, "multiply", lambda *given: (right(*given)[0], [replace(right(*given)[1][0], findings=(race,))])
    )
    (record,) = run_task(checking(CLASSIC)).records
    assert record["disposition"] == "failed"
    assert of_record(record) == ["shared_race at include/mmagen/a.cuh:7: a call with a K of 0: thread 1 reads byte 0"]


def test_a_group_whose_status_is_wrong_is_found(checking, monkeypatch):
    def change(task, data):
        if "group_status" in data.results:
            data.results["group_status"][0].reshape(-1)[1] = 0

    spoil(monkeypatch, change)
    with pytest.raises(EmulationError, match="illegal sizes of groups: group_status of group 1 is 0, not 1"):
        further_calls.check(checking(MASKED))


def test_a_workspace_that_is_too_short_has_half_of_the_bytes(checking, monkeypatch):
    """Of stream-K, whose last cluster leaves nothing there."""
    right, sizes = short_workspace.multiply_in, []

    def multiply(task, data, size, c_is_d):
        assert c_is_d and task.problem.beta
        sizes.append((size, host.workspace_bytes(task, data)))
        found = right(task, data, size, c_is_d=c_is_d)
        data.d.view[0, 0, 0] += 1
        return found

    monkeypatch.setattr(short_workspace, "multiply_in", multiply)
    with pytest.raises(EmulationError, match="a call with a workspace that is too short: 1 of"):
        further_calls.check(checking(STREAM))
    ((size, asked),) = sizes
    assert asked // 2 - 16 < size <= asked // 2


def test_a_workspace_is_too_short_for_parts_of_k_behind_copied_operands_too(checking, monkeypatch):
    right, calls = short_workspace.multiply_in, []

    def multiply(task, data, size, c_is_d):
        calls.append((task.problem.ld_pad, host.workspace_bytes(task, data) - size))
        return right(task, data, size, c_is_d=c_is_d)

    monkeypatch.setattr(short_workspace, "multiply_in", multiply)
    short_workspace.check(checking("sm90_gemm_splitk_auto"))
    assert calls == [(0, 144), (1, 144)]


@pytest.mark.parametrize(
    "function, answer, says",
    [
        ("draws_anew", False, "two calls with a workspace have the same parameters"),
        ("launches_alike", False, "with 16 bytes the call launches other work than without a workspace"),
        ("uses_more", True, "with a larger workspace the call launches other work"),
    ],
)
def test_what_the_host_code_makes_of_a_workspace_is_asked(function, answer, says, compiled, monkeypatch):
    of = compiled(STREAM)
    task = next(one for one in tasks(of.plan, of.ptx, (), 1, None) if one.relaunches)
    monkeypatch.setattr(host, function, lambda *given: answer)
    with pytest.raises(EmulationError, match=says):
        product.multiply(task, operands(task.product, task.problem, task.distribution, 1))


def test_pieces_need_their_workspace(compiled, monkeypatch):
    of = compiled(PIECES)
    task = next(one for one in tasks(of.plan, of.ptx, (), 1, None))
    assert task.product.needs_workspace
    monkeypatch.setattr(host, "is_refused", lambda *given: False)
    with pytest.raises(EmulationError, match="a call with a workspace of 16 bytes is not refused"):
        product.multiply(task, operands(task.product, task.problem, task.distribution, 1))


def test_a_c_that_is_d_is_in_the_same_memory(checking, monkeypatch):
    right, addresses = host.multiply_arguments, []

    def arguments(task, data, given, workspace):
        addresses.append((given.get("c"), given["d"]))
        return right(task, data, given, workspace)

    def found(task, data, *, c_is_d):
        assert c_is_d and (data.c.ld, data.c.batch_stride) == (data.d.ld, data.d.batch_stride)
        addresses.clear()
        written = product.multiply_in(task, data, c_is_d=True)
        assert addresses and all(c == d for c, d in addresses)
        data.d.view[0, 0, 0] += 1
        return written

    monkeypatch.setattr(host, "multiply_arguments", arguments)
    monkeypatch.setattr(further_calls, "multiply_in", found)
    with pytest.raises(EmulationError, match=r"a call with a C that is D: 1 of"):
        further_calls.check(checking(CLASSIC))


@pytest.mark.parametrize("row, column, says", [(1, 3, "of rows 0 to 2"), (2, 0, "of rows 0 to 2")])
def test_a_nan_that_is_lost_or_spreads_is_found(row, column, says, checking, monkeypatch):
    right = nan_row.multiply

    def multiply(task, data):
        found = right(task, data)
        data.d.view[0, row, column] = 1.0 if row == 1 else np.nan
        return found

    monkeypatch.setattr(nan_row, "multiply", multiply)
    with pytest.raises(EmulationError, match=f"a call with a NaN in A: .*{says}"):
        further_calls.check(checking(OPERATIONS))


def test_a_call_without_arrays_of_extents_is_judged(checking, monkeypatch):
    right, seen = pointers.multiply, []

    def multiply(task, groups, change):
        def changed(memory, members):
            change(memory, members)
            seen.append({name for name in members if name.startswith("group_") and not members[name]})

        found = right(task, groups, changed)
        if "group_status" in seen[-1]:
            groups[0].data.d.view[0, 0, 0] += 1
        return found

    monkeypatch.setattr(pointers, "multiply", multiply)
    with pytest.raises(EmulationError, match=r"extents in place of arrays of them: group 0, .*: 1 of"):
        further_calls.check(checking(POINTERS))
    assert seen[-1] == {f"group_{name}" for name in ("m", "n", "k", "lda", "ldb", "ldc", "ldd", "status")}


def test_groups_may_ask_for_no_status(checking, monkeypatch):
    asked = []
    spoil(monkeypatch, lambda task, data: asked.append("group_status" in data.further))
    further_calls.check(checking(MASKED))
    assert set(asked) == {True, False}


def test_a_group_with_illegal_matrices_that_is_computed_is_found(checking, monkeypatch):
    right = pointers.multiply

    def multiply(task, groups, change):
        found = right(task, groups, change)
        found.bytes_of_d[4][0, 0] = True
        return found

    monkeypatch.setattr(pointers, "multiply", multiply)
    with pytest.raises(EmulationError, match="illegal groups: D of group 4, which is to be skipped with status 2, was written"):
        further_calls.check(checking(POINTERS))


def test_a_scalar_of_which_bits_are_lost_is_found(checking, monkeypatch):
    """Of alpha and beta of the problems all are integers, and no beta is negative: a kernel may take them for others."""

    def change(task, data):
        if task.problem.alpha not in (0, 1):
            assert task.problem.alpha < 0 and task.problem.beta < 0 and task.problem.alpha % 1
            data.d.view[...] = (values(data.c) * task.problem.beta).astype(data.d.view.dtype)

    spoil(monkeypatch, change)
    with pytest.raises(EmulationError, match="a call with an alpha and a beta of all bits: "):
        further_calls.check(checking(CLASSIC))


def test_an_infinity_that_is_lost_is_found(checking, monkeypatch):
    def change(task, data):
        data.d.view[0, 1, -1] = 1.0

    monkeypatch.setattr(further_calls, "_judge", lambda *given: None)
    spoil(monkeypatch, change)
    with pytest.raises(EmulationError, match=r"infinities, .*: at \(m,n\): \(1, 15\) got 1 expected -?inf"):
        further_calls.check(checking(PIECES))


@pytest.mark.parametrize(("out", "of_infinity"), [("e4m3", 448.0), ("e5m2", 57344.0), ("f16", np.inf), ("bf16", np.inf)])
def test_infinities_are_expected_as_d_can_hold_them(out, of_infinity, checking, monkeypatch):
    task = checking(PIECES)
    of = plan(task.product.spec.model_copy(update={"epilogue": Epilogue(out=out)}))
    written = []

    def multiply(task, data):
        with np.errstate(invalid="ignore"):
            exact = values(data.a) @ values(data.b).swapaxes(1, 2)
        data.d.view[...] = encode(exact, out)
        written.append(np.nanmax(values(data.d)))
        return None, ()

    monkeypatch.setattr(further_calls, "_judge", lambda *given: None)
    monkeypatch.setattr(further_calls, "_check_in_place", lambda *given: None)
    monkeypatch.setattr(further_calls, "multiply", multiply)
    further_calls.check(replace(task, plan=of))
    assert written == [of_infinity]


@pytest.mark.parametrize("odd", [0, 1])
@pytest.mark.parametrize("of_b", [False, True])
def test_the_neighbour_of_a_large_number_is_seen(odd, of_b):
    """Pieces of two neighbours share a register: what is done for one that is rare must leave the other as it is."""
    a, b = rare_values.operands(1)
    spoilt, first = [a.copy(), b.copy()], 16 if of_b else 0
    for line in range(4 + odd, 10, 2):
        spoilt[of_b][line, first + (line ^ 1)] = 0.0
    with np.errstate(invalid="ignore"):
        right, wrong = (encode(x.astype(float) @ y.astype(float).T, "f32").astype(float) for x, y in ((a, b), spoilt))
    assert rare_values.wrong_element(right, a, b, "f32", 2.0**-23) == ""
    assert "got" in rare_values.wrong_element(wrong, a, b, "f32", 2.0**-14)


OFFSETS = {
    (0, 70, 60, 200, 250): [{0}, {1}, {3}, {0}],
    (-4, 70, 60, 304, 305): [{2}, {1}, {3}, {2}],
    (9, 2**31 - 1, 200, 220, 100): [{2}, {1}, {0}, {1}],
    (5, 5, 5, 1, 5): [{0}, {0}, {1}, {3}],
}


@pytest.mark.parametrize("offsets", OFFSETS)
def test_statuses_that_the_documentation_says(offsets):
    given = {"group_offsets": SimpleNamespace(view=np.array([[offsets]]))}
    call = SimpleNamespace(
        problem=SimpleNamespace(m=304),
        data=SimpleNamespace(further=given),
        plan=SimpleNamespace(spec=SimpleNamespace(grouped="contiguous")),
    )
    assert groups.statuses(call) == OFFSETS[offsets]
