"""Tuning with one worker and with two: the same measurements, each once. The GPUs are stand-ins."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from mmagen.build.job import BuildResult
from mmagen.toolchain.model import Gpu, Tool, Toolchain
from mmagen.tuning.measure import Settings
from mmagen.tuning.tune import Options
from tools import tuning_speedup
from tools.tuning_speedup import Run, differences, table, tuned

pytest.importorskip("distributed")

ROOT = Path(__file__).resolve().parents[2]
GPU = Gpu("NVIDIA Stand-in", (9, 0), "1.0", (13, 0), 132)
TOOLS = Toolchain(nvcc=Tool(Path("nvcc"), "13.0.48", ""), gpus=(GPU, GPU), wanted=("nvcc", "gpus"))
SPEC = """\
mmagen: 1
name: small
kernel: gemm
atom: SM90_64x128x16_F32BF16BF16_SS
tile: [64, 128, 64]
epilogue: {out: bf16}
"""
PAUSE_S = 0.1  # for a problem
OPTIONS = Options(problems="random:5:40", configs=2, tried=3, settings=Settings(silence_s=20))
MEASURED = 36  # of the 40 problems; the other 4 are computed by the kernel for few rows, whichever candidate is chosen


def one_gpu() -> tuple[Gpu, ...]:
    return (GPU,)


@pytest.fixture
def spec(tmp_path, monkeypatch) -> Path:
    """Whose candidates need not be compiled; the program pauses for each problem."""
    program = tmp_path / "tune"
    stand_in = ROOT / "tests/tuning/stand_in.py"
    program.write_text(f'#!/bin/sh\nPAUSE={PAUSE_S} STARTS={tmp_path}/starts exec {sys.executable} {stand_in} "$@"\n')
    program.chmod(0o755)

    def compile_(alive, *_):
        return BuildResult("tuned", tmp_path, True, programs={"tune": program}), list(alive), []

    monkeypatch.setattr("mmagen.tuning.tune._compile", compile_)
    monkeypatch.setattr("mmagen.families.wgmma.gemm.EVERY", (96,))
    monkeypatch.setattr("mmagen.families.wgmma.gemm.NARROWER", {96: (80,)})
    monkeypatch.setattr("mmagen.tuning.outcome._FOLDS", 2)
    monkeypatch.setattr("mmagen.tuning.fit._REFINE_STEPS", 3)
    path = tmp_path / "small.yaml"
    path.write_text(SPEC)
    return path


def starts(spec: Path) -> int:
    """How often the program was started since this was last asked."""
    file = spec.with_name("starts")
    count = len(file.read_text().split())
    file.unlink()
    return count


def test_one_worker_and_two_measure_the_same(spec):
    runs = [tuned(spec, OPTIONS, TOOLS, count, gpus=one_gpu) for count in (1, 2)]
    assert differences(runs) == [] and starts(spec) == 3
    assert len(runs[0].records) == MEASURED * 5, "three candidates and cuBLASLt's two"
    # How much less the time of two is depends on what else this machine does.
    assert runs[0].seconds >= MEASURED * PAUSE_S and runs[1].seconds >= MEASURED // 2 * PAUSE_S


def test_a_worker_that_is_killed_costs_no_measurement(spec):
    killed = tuned(spec, OPTIONS, TOOLS, 2, kill=True, gpus=one_gpu)
    assert killed.killed and not Path(f"/proc/{killed.killed}").exists()
    assert len(killed.records) == MEASURED * 5 and differences([killed]) == []


def run(workers: int, seconds: float, **records: int) -> Run:
    return Run(workers, seconds, 60.0, Counter({(name, "p"): times for name, times in records.items()}))


def test_what_is_lost_doubled_or_new_is_said():
    runs = [run(1, 10, a=1, b=1), run(2, 5, a=2), run(2, 5, a=1, b=1, c=1)]
    assert differences(runs) == [
        "run 2 (2 workers): 1 measured more than once: a on p",
        "run 2 (2 workers): 1 lost: b on p",
        "run 3 (2 workers): 1 measured here alone: c on p",
    ]


def test_the_table_compares_medians():
    text = table([run(1, 100, a=1), run(2, 50, a=1), run(2, 60, a=1), run(1, 110, a=1)], run(2, 70, a=1))
    one, two = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:4]]
    assert one == ["1", "2", "100.0, 110.0", "1.00", "1.00"]
    assert two == ["2", "2", "50.0, 60.0", "1.91", "1.43"]
    assert "killed in the middle: 70.0 s" in text


def test_too_few_gpus_are_said(monkeypatch, capsys):
    monkeypatch.setattr(tuning_speedup, "find_toolchain", lambda: Toolchain(gpus=(GPU,), wanted=("gpus",)))
    assert tuning_speedup.main(["specs/sm90_gemm_bf16_rules.yaml"]) == 77
    assert "2 workers need as many GPUs; there are 1" in capsys.readouterr().err
