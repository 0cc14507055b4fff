"""Whole CUDA programs without a GPU: their host code runs, and what it launches is emulated on the memory that it uses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mmagen.core.errors import BuildError
from mmagen.emulate import Device, EmulationError
from mmagen.host_runtime.compile import compile_program
from mmagen.host_runtime.entries import entries_of
from mmagen.host_runtime.library import HostError
from mmagen.host_runtime.program import run_program

SOURCE = Path(__file__).with_name("program_test.cu")


def test_pointers_among_the_parameters_are_read():
    text = (
        ".visible .entry k(\n.param .u64 .ptr .align 1 k_0,\n.param .u64 .ptr .global .align 4 k_1,\n.param .f32 k_2\n)\n{\n}"
    )
    assert entries_of(text)[0].parameters == ((0, 8), (8, 8), (16, 4))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program([SOURCE], "sm_80", tmp_path_factory.mktemp("program"))


@pytest.mark.nvcc
def test_a_launch_is_executed_on_the_memory_that_was_given(program):
    memory = Device()
    values = memory.array(np.arange(40, dtype=np.float32), "values")
    run = run_program(program, "run", [values, 40], memory=memory)
    assert run.ok and (values.read() == 3 * np.arange(40)).all()
    assert [one.launch.grid for one in run.launches] == [(2, 1, 1)] and run.launches[0].report.ctas == 2


@pytest.mark.nvcc
def test_a_whole_program_allocates_copies_and_checks(program):
    run = run_program(program, "whole_program")
    assert run.ok and run.value == 0 and len(run.launches) == 2 and run.printed == "0 2 on sm_80\n"


@pytest.mark.nvcc
def test_findings_of_a_launch_are_returned(program):
    memory = Device()
    values = memory.array(np.arange(64, dtype=np.int32))
    run = run_program(program, "run_race", [values.address], memory=memory)
    assert not run.ok and {finding.kind for finding in run.findings} == {"shared_race"}
    assert run.findings[0].file.endswith("program_test.cu")


@pytest.mark.nvcc
def test_a_refused_launch_is_the_hosts_to_report(program):
    run = run_program(program, "run_too_large", [0])
    assert run.value == 9 and not run.ok and "a CTA of 2048 x 1 x 1 threads" in run.refusals[0]


@pytest.mark.nvcc
@pytest.mark.parametrize(("function", "value"), [("make_im2col_map", 101), ("call_im2col", 801)])
def test_tensor_maps_that_are_not_tiled_are_refused(program, function, value):
    run = run_program(program, function)
    assert run.value == value and not run.ok
    assert "cuTensorMapEncodeIm2col: only tiled tensor maps are emulated" in run.refusals[0]


@pytest.mark.nvcc
def test_what_the_host_does_wrong_is_said(program):
    memory = Device()
    small = memory.array(np.zeros(4, np.uint8), "small")
    with pytest.raises(EmulationError, match=r"the host copies 8 bytes at small\[0\], of which 4 bytes lie past its end"):
        run_program(program, "copy_out_of_bounds", [small], memory=memory)
    with pytest.raises(HostError, match="ended by SIGSEGV"):
        run_program(program, "crash")
    with pytest.raises(HostError, match="cudaWhatIsThis"):
        run_program(program, "call_what_is_not_there")


@pytest.mark.nvcc
def test_a_graph_runs_what_was_captured_each_time_it_is_launched(program):
    memory = Device()
    values = memory.array(np.ones(40, dtype=np.float32), "values")
    run = run_program(program, "run_graph", [values, 40], memory=memory)
    assert run.value == 0 and not run.refusals and not run.findings
    assert len(run.launches) == 3 * 2 + 1
    assert values.read().tolist() == [0, 1000, *[8] * 38]  # zeroed, 10 * 10 * 10, 2 * 2 * 2


# cudaErrorStreamCapture*, cudaErrorCapturedEvent, cudaErrorIllegalState, cudaErrorNotSupported
UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, ISOLATION, IMPLICIT = 900, 901, 902, 903, 904, 905, 906
CAPTURED_EVENT, ILLEGAL, NOT_SUPPORTED = 907, 401, 801
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
CALLS = (
    *("cudaMalloc", "cudaMemset", "cudaDeviceSynchronize", "cudaStreamSynchronize", "a launch on the default stream"),
    *("cudaStreamGetDevice, then a launch", "cudaStreamBeginCapture", "a copy to the host", "a fork without a join"),
    *("a wait for an event of before", "a wait in another capture", "a wait of the default stream"),
    *("the end on another stream", "a question about the default stream", "cudaEventSynchronize"),
    *("cudaMalloc in a relaxed thread", "a join before the last work", "cudaMemsetAsync"),
)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("called", "mode", "non_blocking", "error", "at_end"),
    [
        ("cudaMalloc", GLOBAL, 0, UNSUPPORTED, INVALIDATED),
        ("cudaMalloc", THREAD_LOCAL, 1, UNSUPPORTED, INVALIDATED),
        ("cudaMalloc", RELAXED, 0, 0, 0),
        ("cudaMalloc in a relaxed thread", GLOBAL, 1, 0, 0),
        ("cudaMemset", THREAD_LOCAL, 1, UNSUPPORTED, INVALIDATED),
        ("cudaMemset", RELAXED, 0, IMPLICIT, INVALIDATED),
        ("cudaMemset", RELAXED, 1, 0, 0),
        ("cudaDeviceSynchronize", GLOBAL, 1, UNSUPPORTED, INVALIDATED),
        ("cudaDeviceSynchronize", RELAXED, 1, UNSUPPORTED, INVALIDATED),
        ("cudaStreamSynchronize", RELAXED, 1, UNSUPPORTED, INVALIDATED),
        ("cudaEventSynchronize", RELAXED, 1, CAPTURED_EVENT, INVALIDATED),
        ("a launch on the default stream", RELAXED, 0, IMPLICIT, INVALIDATED),
        ("a launch on the default stream", GLOBAL, 1, 0, 0),
        ("a wait of the default stream", GLOBAL, 1, IMPLICIT, INVALIDATED),
        ("a question about the default stream", GLOBAL, 0, IMPLICIT, 0),
        ("a question about the default stream", GLOBAL, 1, 0, 0),
        ("a wait for an event of before", GLOBAL, 1, ISOLATION, INVALIDATED),
        ("a wait in another capture", RELAXED, 1, MERGE, INVALIDATED),
        ("a fork without a join", GLOBAL, 1, 0, UNJOINED),
        ("a join before the last work", GLOBAL, 1, 0, UNJOINED),
        ("the end on another stream", GLOBAL, 1, UNMATCHED, INVALIDATED),
        ("cudaStreamGetDevice, then a launch", GLOBAL, 1, INVALIDATED, INVALIDATED),
        ("cudaStreamBeginCapture", GLOBAL, 1, ILLEGAL, 0),
        ("a copy to the host", GLOBAL, 1, NOT_SUPPORTED, INVALIDATED),
        ("cudaMemsetAsync", GLOBAL, 0, 0, 0),
    ],
)
def test_what_is_not_allowed_while_a_stream_is_captured_is_refused(program, called, mode, non_blocking, error, at_end):
    run = run_program(program, "call_in_capture", [CALLS.index(called), mode, non_blocking])
    assert divmod(run.value, 1000) == (at_end, error)
    assert bool(run.refusals) == bool(error or at_end)


@pytest.mark.nvcc
def test_main_gets_the_words_of_a_command_line(program):
    run = run_program(program, "main", ["--problem", "1 2", ""])
    assert run.value == 44 and run.printed == "3 words: <--problem> <1 2> <>\n"
    assert run_program(program, "main").value == 41
    left = run_program(program, "main", ["x"])
    assert left.value == 7 and left.printed == "1 words: <x>\n"
    with pytest.raises(HostError, match="ended by SIGABRT"):
        run_program(program, "main", ["a"])
    with pytest.raises(HostError, match="cudaWhatIsThis"):
        run_program(program, "main", ["missing"])


@pytest.mark.nvcc
def test_what_was_compiled_is_used_again_until_a_file_changes(tmp_path, monkeypatch):
    (tmp_path / "part.h").write_text("#define VALUE 1\n")
    source = tmp_path / "it's a unit.cu"
    source.write_text('#include "part.h"\n__global__ void k(int* x) { *x = VALUE; }\nextern "C" int run() { return VALUE; }\n')
    made = [compile_program([source], "sm_80", tmp_path / "made") for _ in range(2)]
    assert made[0].seconds > 0 and made[1].seconds == 0 and made[0].units == made[1].units
    (tmp_path / "part.h").write_text("#define VALUE 2\n")
    changed = compile_program([source], "sm_80", tmp_path / "made")
    assert changed.seconds > 0 and run_program(changed).value == 2
    (tmp_path / "made" / "it's a unit.ptx").write_text("")
    assert compile_program([source], "sm_80", tmp_path / "made").units == changed.units
    monkeypatch.chdir(tmp_path)
    assert compile_program([source], "sm_80", Path("made")).seconds == 0
    with pytest.raises(BuildError, match="different names"):
        compile_program([source, tmp_path / "other" / source.name], "sm_80", Path("made"))
    (tmp_path / "part.h").write_text("#error no\n")
    with pytest.raises(BuildError, match="does not compile"):
        compile_program([source], "sm_80", tmp_path / "made")
