"""Kernels whose groups have matrices of their own, as nvcc compiles them: the problems of verify, and groups that are not legal."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.host_runtime.arguments import argument_bytes
from mmagen.host_runtime.entries import entries_of
from mmagen.host_runtime.library import Device, HostError
from mmagen.host_runtime.library import call as library_call
from mmagen.plan.budgets import SMEM_PER_BLOCK
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host, pointers
from mmagen.verify.emulated.formats import decode, encode
from mmagen.verify.emulated.matrix import values
from mmagen.verify.emulated.session import run_task, tasks
from mmagen.verify.emulated.task import Task

pytestmark = pytest.mark.nvcc

SMALL, TENSORS, GATED = "pointers_pingpong", "pointers_blocks", "pointers_gated"  # TENSORS: of every kind for each group
_MORE = ("sm90_gemm_bf16_pointers", "pointers_swapped", "pointers_e4m3", "pointers_rs", "pointers_s8", "pointers_rows", GATED)


@pytest.mark.parametrize("name", [SMALL, TENSORS, *(pytest.param(name, marks=pytest.mark.more) for name in _MORE)])
def test_groups_of_any_size_pass_emulated(name, compiled):
    of = compiled(name)
    results = [run_task(task) for task in tasks(of.plan, of.ptx, (), 1, None)]
    assert [result.records[0]["disposition"] for result in results] == ["passed"] * len(results), results
    assert not any(result.records[0]["details"]["findings"] for result in results)


class Call:
    """A call whose arrays a test changes."""

    def __init__(self, of, shapes=((40, 24, 64), (70, 40, 72), (8, 16, 128)), **more):
        most = [max(one[mode] for one in shapes) for mode in range(3)]
        self.problem = Problem.model_validate({"shape": most, "groups": [list(one) for one in shapes], **more})
        self.task = Task(of.plan, of.ptx, self.problem, "small_int", 1)
        self.groups = pointers.groups_of(self.task)
        self.memory, self.values = pointers.allocated(self.task, self.groups)

    def put(self, array, value, group):
        pointers = [*"abcd", *(one.name for one in self.task.product.arguments.of_groups)]
        kind = np.uint64 if array in pointers else np.int32
        self.memory.store(self.values[array] + group * kind().itemsize, np.array([value], kind).tobytes())

    def statuses(self):
        """After the call: a status for each group. D is right where it is 0, and elsewhere nothing was written."""
        reports = pointers.run(self.task, self.memory, self.values)
        assert not [str(finding) for report in reports for finding in report.findings]
        found = self.memory.read("group_status", np.int32).tolist()
        for group, status in zip(self.groups, found, strict=True):
            lines, written = self.memory.read_rows(group.name("d"))
            assert written.all() if status == 0 else not written.any()
            if status == 0 and not self.problem.beta and not self.task.product.arguments.of_groups:
                d, data = group.data.d, group.data
                d.lines[...] = lines.view(d.view.dtype).reshape(d.lines.shape)
                exact = values(data.a) @ values(data.b).swapaxes(1, 2)
                assert (values(d) == decode(encode(exact, d.word))).all()
        return found

    def refusal(self, **changed):
        size = {"workspace": 1 << 20, "workspace_bytes": 1 << 20}
        arguments = argument_bytes({**self.values, **size, **changed}, self.task.product.arguments.members)
        with pytest.raises(HostError) as caught:
            host.launches_of(self.task, self.task.run_symbol, [arguments], most=2)
        return str(caught.value)


WRONG = {
    "negative m": ("group_m", -1, 1),
    "negative n": ("group_n", -7, 1),
    "negative k": ("group_k", -1, 1),
    "m above the call's": ("group_m", 71, 2),
    "n above the call's": ("group_n", 41, 2),
    "k above the call's": ("group_k", 129, 2),
    "lda of no 16 bytes": ("group_lda", 100, 4),
    "ldb of no 16 bytes": ("group_ldb", 100, 4),
    "a of no 16 bytes": ("a", (1 << 40) + 8, 4),
    "d of half an element": ("d", (1 << 40) + 1, 4),
    "lda shorter than a line": ("group_lda", 64, 5),
    "ldd shorter than a line": ("group_ldd", 39, 5),
    "no a": ("a", 0, 6),
    "no b": ("b", 0, 6),
    "no d": ("d", 0, 6),
}


def test_a_group_that_is_not_legal_is_reported_and_not_written(compiled):
    shapes = ((40, 24, 64), *((70, 40, 72),) * len(WRONG), (8, 16, 128))
    call = Call(compiled(SMALL), shapes=shapes)
    for group, (array, value, _) in enumerate(WRONG.values(), 1):
        call.put(array, value, group)
    assert call.statuses() == [0, *(status for _, _, status in WRONG.values()), 0]


def test_a_c_that_is_read_must_be_legal(compiled):
    call = Call(compiled(SMALL), shapes=((40, 24, 64),) * 5, beta=1.0)
    call.put("group_ldc", 3, 1)
    call.put("c", 0, 2)
    call.put("c", (1 << 40) + 1, 3)
    assert call.statuses() == [0, 5, 6, 4, 0]


def test_without_arrays_all_groups_have_the_extents_of_the_call(compiled):
    call = Call(compiled(SMALL), shapes=((40, 24, 64),) * 3)
    for mode in "mnk":
        call.values[f"group_{mode}"] = 0
    assert call.statuses() == [0, 0, 0]


def test_one_leading_dimension_serves_all_groups(compiled):
    call = Call(compiled(SMALL), shapes=((40, 24, 64),))
    for letter in "abd":
        call.values |= {f"group_ld{letter}": 0, f"ld{letter}": call.groups[0].matrices[letter].ld}
    assert call.statuses() == [0]


def test_a_leading_dimension_that_no_tensor_map_has(compiled):
    """2^40 bytes, of 2-byte elements. D is then stored by threads."""
    call = Call(compiled(SMALL), shapes=((1, 24, 64),))
    assert "status 176" in call.refusal(group_lda=0, lda=1 << 39)
    assert "status 177" in call.refusal(group_ldb=0, ldb=1 << 39)
    call.values |= {"group_ldd": 0, "ldd": 1 << 39}
    assert call.statuses() == [0]


def test_matrices_whose_bytes_do_not_fit_64_bits_are_refused(compiled):
    """What groups have arrays for is none of the call's."""
    call = Call(compiled(TENSORS), shapes=((40, 24, 64),) * 2)
    wrapping = (1 << 62) + 16  # in bytes it is a legal stride
    for letter, status in zip("abd", (168, 169, 171), strict=True):
        assert f"status {status}" in call.refusal(**{f"group_ld{letter}": 0, f"ld{letter}": wrapping})
    assert "status 172" in call.refusal(group_ld_residual=0, ld_residual=wrapping)
    call.values |= dict.fromkeys(("lda", "ldb", "ldd", "ld_residual"), wrapping)
    assert call.statuses() == [0, 0]


def test_what_the_host_can_know_is_a_status(compiled):
    call = Call(compiled(SMALL))
    needed = host.bytes_of_workspace(call.task, argument_bytes(call.values, call.task.product.arguments.members))
    assert "status 74" in call.refusal(workspace=0)
    assert "status 74" in call.refusal(workspace_bytes=needed - 1)
    assert "status 73" in call.refusal(workspace=(1 << 20) + 8)
    assert "status 48" in call.refusal(a=0)
    assert "status 51" in call.refusal(d=0)
    assert "status 65" in call.refusal(b=call.values["b"] + 4)
    assert "status 80" in call.refusal(group_lda=0, lda=8)
    assert "status 113" in call.refusal(group_m=call.values["group_m"] + 2)


def test_a_stream_of_another_device_starts_neither_kernel(compiled):
    call = Call(compiled(SMALL))
    task, size = call.task, {"workspace": 1 << 20, "workspace_bytes": 1 << 20}
    arguments = argument_bytes({**call.values, **size}, task.product.arguments.members)
    kernels = [entry for unit in task.ptx.units.values() for entry in entries_of(unit)]
    run = library_call(task.run_symbol, arguments, 0x5000)
    for streams, expected in (("0", (0, 2)), ("1", (20, 0))):
        reply = task.ptx.host.ask(Device(90, SMEM_PER_BLOCK[90], 1), kernels, ["streams", streams, *run])
        assert (reply.values[0], len(reply.launches)) == expected


WRONG_TENSORS = {
    "no bias": ("bias", 0, 6),
    "bias of half an element": ("bias", (1 << 40) + 1, 4),
    "no second matrix": ("residual", 0, 6),
    "lines of the second matrix": ("group_ld_residual", 39, 5),
    "sums of half an element": ("row_sums", (1 << 40) + 2, 4),
    "no scales of a": ("scale_a", 0, 6),
    "scales of a shorter than m": ("group_ld_scale_a", 69, 5),
    "scales of b shorter than the blocks of k": ("group_ld_scale_b", 1, 5),
    "scales of b of half an element": ("scale_b", (1 << 40) + 2, 4),
}


def test_a_group_whose_tensors_are_not_legal_is_reported_and_not_written(compiled):
    shapes = ((40, 24, 64), *((70, 40, 144),) * len(WRONG_TENSORS), (8, 16, 128))
    call = Call(compiled(TENSORS), shapes=shapes)
    for group, (array, value, _) in enumerate(WRONG_TENSORS.values(), 1):
        call.put(array, value, group)
    assert call.statuses() == [0, *(status for _, _, status in WRONG_TENSORS.values()), 0]


def test_one_leading_dimension_of_a_tensor_serves_all_groups(compiled):
    call = Call(compiled(TENSORS), shapes=((40, 24, 64),))
    for name in ("residual", "scale_a", "scale_b"):
        call.values |= {f"group_ld_{name}": 0, f"ld_{name}": call.groups[0].data.further[name].ld}
    assert call.statuses() == [0]
    assert "status 114" in call.refusal(ld_scale_a=39)
    assert "status 112" in call.refusal(bias=0)
    assert "status 113" in call.refusal(scale_b=call.values["scale_b"] + 4)
    assert "status 112" in call.refusal(amax=0)


@pytest.mark.more
def test_an_odd_number_of_columns_makes_no_pairs(compiled):
    call = Call(compiled(GATED), shapes=((40, 24, 64), (40, 24, 64), (8, 16, 0)))
    call.put("group_n", 23, 1)
    assert call.statuses() == [0, 7, 0]
    assert "status 118" in call.refusal(n=23)
