"""The table of other projects' kernels, without their sources: operands, judgement, faults, the page and the command line."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from mmagen.core.errors import UsageError
from mmagen.emulate import Device, EmulationError
from mmagen.host_runtime.compile import Program
from mmagen.host_runtime.library import HostLibrary
from mmagen.host_runtime.program import Executed, ProgramRun
from tools.foreign_kernels import run as running
from tools.foreign_kernels.faults import FAULTS, Fault
from tools.foreign_kernels.page import page
from tools.foreign_kernels.problems import TYPES, Problem, operands
from tools.foreign_kernels.run import DRIVERS, Outcome
from tools.foreign_kernels.sources import CUTLASS, SOURCES, Checkout, checkout
from tools.foreign_kernels.table import KERNELS

FOUND = {"cutlass": Checkout(CUTLASS, DRIVERS, "59b61c606fe7")}
BY_NAME = {kernel.name: kernel for kernel in KERNELS}


def test_the_table_is_sound():
    assert len(BY_NAME) == len(KERNELS) >= 20
    for kernel in KERNELS:
        assert kernel.source in SOURCES.values() and (DRIVERS / kernel.driver).is_file()
        assert kernel.problem or kernel.says
        driver = (DRIVERS / kernel.driver).read_text()
        unused = [name for name in kernel.macros if not re.search(rf"\b{name}\b", driver) and not name.startswith("KITTENS")]
        assert not unused, kernel.name
    assert {fault.kernel for fault in FAULTS} <= set(BY_NAME)


def test_kernels_of_the_same_driver_and_macros_share_a_program():
    assert BY_NAME["cute_sgemm_1_nt"].program == BY_NAME["cute_sgemm_1_tn"].program
    assert len({kernel.program for kernel in KERNELS}) >= 15


def test_macros_with_commas_are_refused():
    with pytest.raises(AssertionError):
        _ = replace(KERNELS[0], macros={"TILE": "Shape<_1, _2>"}).flags


@pytest.mark.parametrize("layout", ["KKN", "MNN", "MKM", "KNM"])
@pytest.mark.parametrize("kind", ["f16", "bf16", "f64", "s8"])
def test_operands_lie_as_the_layout_says(layout, kind):
    memory = Device()
    types = ("s8", "s8", "s32") if kind == "s8" else (kind,) * 3
    data = operands(Problem(5, 6, 7, batch=2, types=types, layout=layout, alpha=2, beta=3), memory)
    m, n, k, batch, a_at, b_at, c_at, d_at, *leading = struct.unpack_from("<4q4Q4q", data.argument)
    assert (m, n, k, batch) == (5, 6, 7, 2) and d_at == data.d.address
    assert leading == [{"M": 5, "N": 6, "K": 7}[mode] for mode in layout] + [leading[2]]
    a, b, c = (
        np.frombuffer(memory.memory.load(at, 2 * rows * columns * np.dtype(TYPES[t]).itemsize), TYPES[t]).astype(np.float64)
        for at, rows, columns, t in zip((a_at, b_at, c_at), (5, 6, 5), (7, 7, 6), types, strict=True)
    )
    a = a.reshape(2, 5, 7) if layout[0] == "K" else a.reshape(2, 7, 5).transpose(0, 2, 1)
    b = b.reshape(2, 6, 7) if layout[1] == "K" else b.reshape(2, 7, 6).transpose(0, 2, 1)
    c = c.reshape(2, 5, 6) if layout[2] == "N" else c.reshape(2, 6, 5).transpose(0, 2, 1)
    assert (data.expected.astype(np.float64) == 2 * a @ b.transpose(0, 2, 1) + 3 * c).all() and data.expected.any()


def test_scales_multiply_their_blocks():
    memory = Device()
    data = operands(Problem(4, 256, 256, types=("e4m3", "e4m3", "bf16"), scales=True), memory)
    a_at, b_at = struct.unpack_from("<2Q", data.argument, 32)
    scale_a, scale_b = struct.unpack_from("<2Q", data.argument, len(data.argument) - 32)

    def load(at, shape, kind):
        return np.frombuffer(memory.memory.load(at, int(np.prod(shape)) * np.dtype(kind).itemsize), kind)

    a = load(a_at, (4, 256), TYPES["e4m3"]).reshape(4, 2, 128).astype(np.float64)
    b = load(b_at, (256, 256), TYPES["e4m3"]).reshape(2, 128, 2, 128).astype(np.float64)
    of_a, of_b = load(scale_a, (2, 4), np.float32).reshape(2, 4), load(scale_b, (2, 2), np.float32).reshape(2, 2)
    expected = np.einsum("mik,jnik,im,ji->mjn", a, b, of_a, of_b).reshape(4, 256)
    assert (data.expected[0].astype(np.float64) == expected.astype(TYPES["bf16"]).astype(np.float64)).all()


def test_what_is_wrong_with_a_result_is_said():
    memory = Device()
    data = operands(Problem(4, 6, 8, layout="KKM"), memory)
    assert data.wrong() == "24 of 24 elements of D were not written"
    stored = np.ascontiguousarray(data.expected.transpose(0, 2, 1))
    memory.memory.store(data.d.address, stored.tobytes())
    assert data.wrong() == ""
    stored[0, 5, 3] += 1
    memory.memory.store(data.d.address, stored.tobytes())
    assert data.wrong().startswith("1 of 24 elements differ, the first at (0, 3, 5)")


def test_a_fault_that_changes_nothing_is_an_error():
    fault = Fault("k", "what", r"bar\.sync (\d);", r"bar.arrive \1;", 1, ("deadlock",))
    assert fault.plant("bar.sync 0; bar.sync 1;") == "bar.sync 0; bar.arrive 1;"
    with pytest.raises(ValueError, match="the PTX has 1 places"):
        fault.plant("bar.sync 0;")


def scripted(monkeypatch, outcome):
    """`run` of the first kernel with a program whose result is what `outcome` makes of its operands."""
    program = Program({"k": "text"}, "sm_80", HostLibrary(DRIVERS, DRIVERS))
    monkeypatch.setattr(running, "compile_program", lambda *_, **__: program)
    monkeypatch.setattr(running, "run_program", outcome)
    return running.run(KERNELS[0], FOUND, DRIVERS)


def test_outcomes_say_what_happened(monkeypatch):
    def refused(*_, **__):
        return ProgramRun(value=7, refusals=["cudaMalloc: no"])

    assert scripted(monkeypatch, refused).result == "wrong: the host code returns 7; cudaMalloc: no"

    def unsupported(*_, **__):
        raise EmulationError("k.ptx:3: this instruction is not supported")

    outcome = scripted(monkeypatch, unsupported)
    assert outcome.result.startswith("failed: k.ptx:3") and not outcome.ok
    assert scripted(monkeypatch, lambda *_, **__: ProgramRun()).result.endswith("of D were not written")
    report = type("Report", (), {"completed": False, "findings": [], "steps": 3})()
    hanging = ProgramRun(launches=[Executed(None, report)])
    assert scripted(monkeypatch, lambda *_, **__: hanging).result == "wrong: a launch did not end"


def test_only_the_kernels_own_defects_are_expected():
    plain, flawed = KERNELS[0], replace(KERNELS[0], defects={"async_race": "why"})
    assert Outcome(plain, "right").ok and not Outcome(plain, "right", {"async_race": 1}).ok
    assert Outcome(flawed, "right", {"async_race": 1}).ok
    assert not Outcome(flawed, "right").ok and not Outcome(flawed, "right", {"async_race": 1, "deadlock": 1}).ok
    assert Outcome(flawed, "wrong: all", {"async_race": 1, "deadlock": 1}).seen_as(("deadlock", "async_race", "wrong")) == (
        "deadlock, wrong"
    )


def test_the_page_counts_what_was_seen():
    flawed = replace(KERNELS[1], defects={"async_race": "it does not wait"})
    outcomes = [Outcome(KERNELS[0], "right"), Outcome(flawed, "right", {"async_race": 2}), Outcome(KERNELS[2], "wrong: all")]
    fault = replace(FAULTS[0], what="no barrier")
    text = page(outcomes, [(fault, Outcome(KERNELS[0], "right", {"shared_race": 1}))], FOUND, "13.0", "docs/page.md")
    assert "3 runs: 1 right without a finding, 1 right with true findings alone, 1 others." in text
    assert "async_race (2)" in text and "(`async_race`): it does not wait." in text
    assert f"| {fault.kernel} | no barrier | shared_race |" in text and "59b61c606fe7" in text


def test_a_folder_without_the_sources_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"check out https://github.com/NVIDIA/cutlass at v4"):
        checkout(CUTLASS, tmp_path)
    command = [sys.executable, "-m", "tools.foreign_kernels"]
    for arguments, says in ((["--cutlass", str(tmp_path)], "check out"), ([], "no kernel of that name")):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
