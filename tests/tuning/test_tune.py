"""The course of `mmagen tune`, with a stand-in for the program that measures."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import pytest

from mmagen.build.job import BuildResult
from mmagen.core.errors import UsageError
from mmagen.families import plan
from mmagen.plan.plans import GemmPlan
from mmagen.spec.load import load
from mmagen.spec.model import Spec
from mmagen.toolchain.model import Gpu, Tool, Toolchain
from mmagen.tuning import database, measure
from mmagen.tuning.candidates import candidates
from mmagen.tuning.measure import Machine, Settings
from mmagen.tuning.tune import Options, Tuned, _compile, tune

SPEC = """\
mmagen: 1
name: small
kernel: gemm
atom: SM90_64x128x16_F32BF16BF16_SS
tile: [64, 128, 64]
epilogue: {out: bf16}
configs:
  - {name: tiny, when: {m: [1, 4], n: [1, 4]}, tile: [64, 128, 128]}
  - name: rest
"""
TOOLS = Toolchain(
    nvcc=Tool(Path("nvcc"), "13.0.48", ""), gpus=(Gpu("NVIDIA Stand-in", (9, 0), "1.0", (13, 0), 132),), wanted=("nvcc", "gpus")
)
# 30 problems. TMA cannot address the operands of 6; for 3 of these they are copied.
OPTIONS = Options(problems="random:5:30", configs=2, tried=5, settings=Settings(silence_s=20))


@pytest.fixture
def spec() -> Spec:
    return load(SPEC, "small.yaml").spec


@pytest.fixture
def compiled(tmp_path, monkeypatch) -> list[list[str]]:
    """The names of the candidates of each build, none of which happens."""
    path = tmp_path / "tune"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("stand_in.py")} "$@"\n')
    path.chmod(0o755)
    built: list[list[str]] = []

    def compile_(alive, *_):
        built.append([one.name for one in alive])
        return BuildResult("tuned", tmp_path, True, programs={"tune": path}), list(alive), []

    monkeypatch.setattr("mmagen.tuning.tune._compile", compile_)
    # Less of what takes time.
    monkeypatch.setattr("mmagen.families.wgmma.gemm.EVERY", (96,))
    monkeypatch.setattr("mmagen.families.wgmma.gemm.NARROWER", {96: (72, 80)})
    monkeypatch.setattr("mmagen.tuning.outcome._FOLDS", 2)
    monkeypatch.setattr("mmagen.tuning.fit._REFINE_STEPS", 3)
    monkeypatch.setattr("mmagen.tuning.tune._DRAWN", 400)
    return built


def tuned(spec: Spec, base: Path, said: list[str] | None = None, **options) -> Tuned:
    lines = [] if said is None else said
    return tune(spec, replace(OPTIONS, **options), base, TOOLS, measure.run, lambda *_: None, lines.append)


def test_the_library_can_be_built_and_keeps_the_rules(spec, compiled, tmp_path):
    done = tuned(spec, tmp_path / "base.jsonl")
    library = plan(load(done.text, "tuned.yaml").spec)
    assert isinstance(library, GemmPlan)
    assert [config.name for config in library.configs] == ["tiny", *done.names]
    assert 1 < len(done.names) <= 2 and all(config.cost for config in library.configs[1:])
    assert "NVIDIA Stand-in, driver 1.0, CUDA 13.0" in done.text and "choice over cublasLt_best8" in done.text
    assert len(compiled) == 1 and len(compiled[0]) == 5


def test_problems_that_all_configurations_compute_alike_are_left_out(spec, compiled, tmp_path):
    done = tuned(spec, tmp_path / "base.jsonl")
    measured = {line.problem for line in database.read(tmp_path / "base.jsonl").lines}
    unaligned = {text for text in measured if int(text.split(",")[2]) % 8}
    assert unaligned == {"11274,2546,5490", "10605,381,8457", "4199,157,24262"} and len(measured) == 27
    assert any(note.startswith("3 problems are left out, since TMA cannot address") for note in done.notes)
    file = tmp_path / "problems.txt"
    file.write_text("5 640 65\n2 640 67\n")  # of few rows
    with pytest.raises(UsageError, match="multiples of 16 bytes"):
        tuned(spec, tmp_path / "other.jsonl", problems=str(file))


def test_what_the_database_has_is_not_measured_again(spec, compiled, tmp_path):
    base, said = tmp_path / "base.jsonl", []
    first = tuned(spec, base)
    size = base.stat().st_size
    second = tuned(spec, base, said)
    assert base.stat().st_size == size and len(compiled) == 1 and "the database has all measurements" in said
    assert second.text == first.text


def test_an_interrupted_run_goes_on(spec, compiled, tmp_path):
    base, said = tmp_path / "base.jsonl", []
    whole = tuned(spec, base)
    lines = base.read_bytes().splitlines(keepends=True)
    per_problem = len(lines) // 27
    base.write_bytes(b"".join(lines[: 10 * per_problem]) + lines[-1][:40])  # stopped in the middle of a line
    again = tuned(spec, base, said)
    assert "10 problems are in the database, 17 are left" in said
    assert again.names == whole.names and any("1 line cut or damaged, skipped" in note for note in again.notes)
    assert {line.problem for line in database.read(base).lines} == {json.loads(line)["problem"] for line in lines}


def test_a_kernel_that_crashes_costs_itself(spec, compiled, tmp_path, monkeypatch):
    tuned(spec, tmp_path / "first.jsonl")
    victim = compiled[0][2]
    monkeypatch.setenv("FAULTS", json.dumps({"crash": [victim]}))
    done = tuned(spec, tmp_path / "base.jsonl")
    assert done.lost == (victim,) and victim not in done.names
    assert any(note.startswith(f"{victim} is left out") for note in done.notes)
    monkeypatch.delenv("FAULTS")
    assert victim not in tuned(spec, tmp_path / "base.jsonl").names, "the database remembers it"


@pytest.mark.parametrize("clusters", [([2, 1],), ([2, 1], [1, 1])])
def test_a_kernel_that_does_not_compile_costs_itself(clusters, tmp_path, monkeypatch):
    """Its file is called like the kernel, or like the configuration where there is one cluster."""
    bad = "tile: [128, 128, 64], atoms_layout: [2, 1, 1], schedule: cooperative"
    before, rest, _ = SPEC.partition("  - name: rest")
    configs = [f"  - {{name: bad{i}, when: {{k: [1, {i + 1}]}}, {bad}, cluster: {one}}}\n" for i, one in enumerate(clusters)]
    text = before + "".join(configs) + rest + "\n"
    own = [*takewhile(lambda one: one.own, candidates(load(text, "small.yaml").spec))]
    seen = []

    def build(projects, *_, programs, **__):
        assert programs == ("tune",), "each file is then a translation unit, which the log names"
        (file,) = [path.stem for path in (projects[0] / "src").glob("*128x128x64*.cu")] or [""]
        seen.append(file)
        log = f"FAILED: CMakeFiles/tuned.dir/src/{file}.cu.o\n" if file else ""
        return [BuildResult("tuned", projects[0], not file, log=log)]

    monkeypatch.setattr("mmagen.tuning.tune.build", build)
    _, alive, refused = _compile(own, Machine(132, {1: 132, 2: 66}), tmp_path, TOOLS, None, lambda *_: None)
    assert len(seen) == 2 and seen[0] and not seen[1]
    assert len(refused) == len(clusters) and {one.name for one in alive} == {one.name for one in own} - {*refused}


def test_a_wrong_kernel_is_not_in_the_library(spec, compiled, tmp_path, monkeypatch):
    tuned(spec, tmp_path / "first.jsonl")
    victim = compiled[0][0]
    monkeypatch.setenv("FAULTS", json.dumps({"wrong": [victim]}))
    done = tuned(spec, tmp_path / "base.jsonl")
    assert done.incorrect == (victim,) and victim not in done.names


def test_a_budget_ends_the_measurements(spec, compiled, tmp_path, monkeypatch):
    monkeypatch.setenv("PAUSE", "0.3")

    def runner(*arguments):
        assert arguments[-1] is not None
        return measure.run(*arguments[:-1], time.monotonic() + 4)

    done = tune(spec, replace(OPTIONS, budget_s=3600), tmp_path / "base.jsonl", TOOLS, runner, lambda *_: None, print)
    assert any("of 27 problems; the same command goes on with the others" in note for note in done.notes)


def test_measurements_of_other_devices_are_kept_apart(spec, compiled, tmp_path, monkeypatch):
    base = tmp_path / "base.jsonl"
    monkeypatch.setenv("DEVICE", "NVIDIA Other")
    with pytest.raises(UsageError, match="too little was measured"):  # the local GPU, as the driver names it, has none
        tuned(spec, base)
    monkeypatch.delenv("DEVICE")
    said: list[str] = []
    tuned(spec, base, said)
    assert len({line.site for line in database.read(base).lines}) == 2
    assert not any("in the database" in line for line in said)
