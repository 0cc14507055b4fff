"""Asking a project's host code, without compiling any: PTX entries, replies, failures, and the arguments of the C interface."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mmagen.build.ptx import Ptx
from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.host_runtime import library as host_library
from mmagen.host_runtime.arguments import Arguments, Info
from mmagen.host_runtime.entries import entries_of
from mmagen.host_runtime.library import Device, HostError, HostLibrary, call, text
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.task import Task

SPECS = Path(__file__).resolve().parents[2] / "specs"
PTX = """\
.version 8.0
.target sm_80
.extern .shared .align 1024 .b8 smem[];
.shared .align 4 .b8 _ZZ4kepti[256];
.visible .entry first(
	.param .u8 first_param_0,
	.param .align 64 .b8 first_param_1[200],
	.param .u64 first_param_2
)
.maxntid 32, 4, 1
.minnctapersm 1
{
	ld.shared.u32 %r1, [_ZZ4kepti];
	ret;
}
.visible .entry second()
{
	.shared .f64 own;
	ret;
}
"""
DEVICE = Device(80, 166912, 4)


def test_entries_are_what_the_ptx_declares():
    first, second = entries_of(PTX)
    assert first.name == "first" and first.most_threads == 128 and first.static_shared_bytes == 256
    assert first.parameters == ((0, 1), (64, 200), (264, 8))
    assert (second.name, second.parameters, second.most_threads, second.static_shared_bytes) == ("second", (), 0, 8)


def test_a_unit_of_host_code_alone_has_no_entries():
    assert entries_of(".version 8.0\n.target sm_80\n") == ()


def test_calls_become_words():
    assert call("run", b"\x01\xff", 7) == ["call", "run", "2", "@01ff", "7"]
    assert text("status_text", "?") == ["text", "status_text", "1", "?"]


def scripted(folder, body):
    """A library whose runner is a shell script."""
    runner = folder / "runner"
    runner.write_text(f"#!/bin/sh\n{body}\n")
    runner.chmod(0o755)
    return HostLibrary(folder / "library.so", runner)


LAUNCH = "launch kernel grid 6 2 1 block 128 1 1 cluster 2 1 1 shared 1000 stream 20480 programmatic 1 params 0aff"


def test_a_reply_is_read(tmp_path):
    script = (
        f"echo {LAUNCH}; echo 'refused cudaFoo 9 a grid of 0'; echo bytes 0 0102; echo returned 3 left 9; echo 'text so it is'"
    )
    reply = scripted(tmp_path, script).ask(DEVICE, (), ())
    (launch,) = reply.launches
    assert (launch.entry, launch.grid, launch.block, launch.cluster) == ("kernel", (6, 2, 1), (128, 1, 1), (2, 1, 1))
    assert (launch.shared_bytes, launch.stream, launch.programmatic, launch.params) == (1000, 20480, True, b"\x0a\xff")
    assert reply.refusals == ["cudaFoo: a grid of 0 (error 9)"] and reply.outputs == [b"\1\2"]
    assert (reply.values, reply.left, reply.texts) == ([3], [9], ["so it is"])


def test_the_runner_is_told_the_device_and_the_kernels(tmp_path):
    first = entries_of(PTX)[0]
    reply = scripted(tmp_path, 'echo "text $*"').ask(DEVICE, (first,), call("run", 1))
    (words,) = reply.texts
    assert words == (
        f"{tmp_path}/library.so device 8 0 132 166912 resident 4 kernel first 128 256 3 0 1 64 200 264 8 call run 1 1"
    )


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("kill -SEGV $$", "ended by SIGSEGV"),
        ("echo 'refused cudaFoo 9 a reason'; kill -ABRT $$", "ended by SIGABRT; before it, cudaFoo: a reason"),
        ("echo no such thing >&2; exit 3", "cannot be run: no such thing"),
        ("exit 5", "exit code 5"),
    ],
)
def test_how_the_host_code_ended_is_said(script, says, tmp_path):
    with pytest.raises(HostError, match=says):
        scripted(tmp_path, script).ask(DEVICE, (), ())


def test_host_code_that_does_not_return_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(host_library, "_TIMEOUT_S", 0.2)
    with pytest.raises(HostError, match="did not return"):
        scripted(tmp_path, "sleep 30").ask(DEVICE, (), ())


# --- The C interface ---------------------------------------------------------------------------------------------------

MMA_SYNC = {
    "atom": "SM80_16x8x16_F32F16F16F32_TN",
    "tile": "[64, 64, 32]",
    "atoms_layout": "[2, 2, 1]",
    "epilogue": "{out: f16}",
}
STREAMING = {
    "atom": "SM90_64x128x16_F32BF16BF16_SS",
    "tile": "[128, 128, 64]",
    "atoms_layout": "[2, 1, 1]",
    "schedule": "cooperative",
    "stream_k": "last_wave",
    "epilogue": "{out: bf16}",
}
PTX_OF_IT = Ptx("it", "gemm", "", "sm_90a", "", "", "", 0.0, True, {"it": PTX})


def task_of(keys, problem):
    spec = {"mmagen": 1, "name": "it", "kernel": "gemm", "layout": "TN"} | keys
    it = plan(load("".join(f"{key}: {value}\n" for key, value in spec.items()), "it.yaml").spec)
    return Task(it, PTX_OF_IT, problem, "small_int", 1)


def arguments(task, workspace):
    data = operands(task.plan, task.problem, "zeros", 1)
    return host.multiply_arguments(task, data, {"a": 0x1000, "b": 0x2000, "c": 0x3000, "d": 0x4000}, workspace)


def test_arguments_describe_the_operands():
    task = task_of(MMA_SYNC, Problem(shape=(70, 130, 40), batch=3, alpha=2.0, beta=-1.0, offset=1))
    it = Arguments.from_buffer_copy(arguments(task, Workspace()))
    assert (it.struct_size, it.m, it.n, it.k, it.batch) == (208, 70, 130, 40, 3)
    gap = 16  # elements between the matrices of a batch
    assert (it.a, it.lda, it.batch_stride_a) == (0x1002, 40, 70 * 40 + gap)
    assert (it.b, it.ldb, it.batch_stride_b) == (0x2002, 40, 130 * 40 + gap)
    assert (it.c, it.ldc, it.batch_stride_c) == (0x3002, 146, 70 * 146 + gap)
    assert (it.d, it.ldd, it.batch_stride_d) == (0x4002, 130, 70 * 130 + gap)
    assert (it.alpha, it.beta, it.alpha_device, it.beta_device) == (2.0, -1.0, 0, 0)


def test_the_struct_is_laid_out_as_every_header_has_it(tmp_path):
    """Of kernels of all kinds, by the C compiler."""
    wanted = [ctypes.sizeof(Arguments), *(getattr(Arguments, name).offset for name, _ in Arguments._fields_)]
    wanted += [ctypes.sizeof(Info), *(getattr(Info, name).offset for name, _ in Info._fields_)]
    for spec in ("sm80_gemm_f64", "sm80_gemm_s8", "sm90_gemm_bf16_library", "hello_micro", "sm80_micro_s4"):
        made = plan(load((SPECS / f"{spec}.yaml").read_bytes(), spec).spec)
        (tmp_path / f"{spec}.h").write_bytes(render(made)[f"include/{spec}/{spec}.h"])
        numbers = [f"sizeof({spec}_args)", *(f"offsetof({spec}_args, {name})" for name, _ in Arguments._fields_)]
        numbers += [f"sizeof({spec}_info)", *(f"offsetof({spec}_info, {name})" for name, _ in Info._fields_)]
        checks = "".join(f'_Static_assert({it} == {value}, "");\n' for it, value in zip(numbers, wanted, strict=True))
        source = tmp_path / "layout.c"
        source.write_text(f'#include "{spec}.h"\n{checks}')
        done = subprocess.run(["gcc", "-std=c11", "-fsyntax-only", source], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_scalars_in_device_memory_leave_nothing_of_use_on_the_host():
    task = task_of(MMA_SYNC, Problem(shape=(8, 8, 8), alpha=3.0))
    data = operands(task.plan, task.problem, "zeros", 1)
    places = {"a": 0x1000, "b": 0x2000, "d": 0x4000, "alpha_device": 0x5000}
    it = Arguments.from_buffer_copy(host.multiply_arguments(task, data, places, Workspace()))
    assert it.alpha != it.alpha and (it.alpha_device, it.beta, it.beta_device) == (0x5000, 0.0, 0)


def test_without_a_c_its_pointer_is_null():
    it = Arguments.from_buffer_copy(arguments(task_of(MMA_SYNC, Problem(shape=(8, 8, 8))), Workspace()))
    assert (it.c, it.ldc, it.batch_stride_c) == (0, 0, 0)


def test_a_workspace_is_handed_over():
    task = task_of(STREAMING, Problem(shape=(128, 128, 64)))
    it = Arguments.from_buffer_copy(arguments(task, Workspace(0x5000, 77)))
    assert (it.workspace, it.workspace_bytes) == (0x5000, 77)


class Scripted:
    """Answers each question with the launch of so many clusters of two CTAs, as many as the device runs of twelve."""

    def __init__(self, status=0, stream=0x5000, launches=1, left=0):
        self.status, self.stream, self.launches, self.left = status, stream, launches, left
        self.asked: list[int] = []

    def ask(self, device, kernels, directives):
        self.asked.append(device.resident_clusters)
        one = host_library.CapturedLaunch(
            "first", (2 * min(12, device.resident_clusters), 1, 1), (128, 1, 1), (2, 1, 1), 0, self.stream, True, b""
        )
        return host_library.Reply(
            [one] * self.launches, ["cudaFoo: too much (error 1)"], [], [self.status], [self.left], ["no such luck"]
        )


def launched(scripted_host, keys=MMA_SYNC):
    task = task_of(keys, Problem(shape=(64, 64, 64)))
    task = replace(task, ptx=replace(PTX_OF_IT, host=scripted_host))
    data = operands(task.plan, task.problem, "zeros", 1)
    (captured,) = host.multiply_launches(task, data, dict.fromkeys("abcd", 0x1000), Workspace())
    return captured


class Launching(Scripted):
    """Answers three calls with these launches each: the parameters, and a number that every launch draws."""

    def __init__(self, *params):
        super().__init__()
        self.params = params

    def ask(self, device, kernels, directives):
        launches = []
        for one in self.params:
            drawn = (len(launches) + 1).to_bytes(8, "little")
            launches += [
                host_library.CapturedLaunch("first", (2, 1, 1), (128, 1, 1), (2, 1, 1), 0, 0x5000, True, drawn + p) for p in one
            ]
        return host_library.Reply(launches, [], [], [0] * 3, [0] * 3, ["fine"])


@pytest.mark.parametrize(
    ("exact", "larger", "differs"),
    [
        ([b"12345678"], [b"12345678"], False),
        ([b"12345678"], [b"12345679"], True),
        ([b"12345678abc"], [b"12345678abd"], True),
        ([b"12345678"], [b"12345678", b"12345678"], True),
        ([b"12345678"], [b"12345678a"], True),
        ([], [], False),
    ],
)
def test_work_that_a_larger_workspace_adds_is_seen(exact, larger, differs):
    task = task_of(STREAMING, Problem(shape=(64, 64, 64)))
    task = replace(task, ptx=replace(PTX_OF_IT, host=Launching(exact, larger, exact)))
    assert host.uses_more(task, b"", b"", len(exact)) == differs


class Padded(Scripted):
    """Answers each call with a launch, whose parameters are a number of the call and what the call before has left in their
    padding."""

    def __init__(self, number_of):
        super().__init__()
        self.number_of = number_of

    def ask(self, device, kernels, directives):
        reply = super().ask(device, kernels, directives)
        params = (bytes([self.number_of(at)] * 8) + bytes([at > 0] * 8) for at in range(directives.count("call")))
        launches = [replace(reply.launches[0], params=one) for one in params]
        return replace(reply, launches=launches, values=[0] * len(launches), left=[0] * len(launches))


@pytest.mark.parametrize(("number_of", "anew"), [(lambda at: at, True), (lambda at: 1, False)])
def test_padding_is_no_number_that_each_launch_draws(number_of, anew):
    task = task_of(STREAMING, Problem(shape=(64, 64, 64)))
    assert host.draws_anew(replace(task, ptx=replace(PTX_OF_IT, host=Padded(number_of))), b"") == anew


@pytest.mark.parametrize(("keys", "clusters"), [(MMA_SYNC, [1 << 24, 2]), (STREAMING, [3])])
def test_few_clusters_are_resident(keys, clusters):
    answering = Scripted()
    assert launched(answering, keys).grid == (2 * clusters[-1], 1, 1)
    assert answering.asked == clusters


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"status": 3}, "status 3, no such luck; cudaFoo: too much"),
        ({"launches": 0}, "launches 0 kernels"),
        ({"launches": 2}, "launches 2 kernels"),
        ({"stream": 0}, "not launch on the stream"),
        ({"left": 9}, "leaves CUDA error 9 behind"),
    ],
)
def test_anything_but_one_launch_on_the_stream_is_a_failure(answers, says):
    with pytest.raises(HostError, match=says):
        launched(Scripted(**answers))
