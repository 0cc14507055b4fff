"""The programs in tests/ of a generated library run without a GPU: unmodified host code, emulated kernels."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from mmagen.families import plan
from mmagen.families.library import choose
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.host_runtime.compile import Program, compile_program
from mmagen.host_runtime.program import ProgramRun, run_program
from mmagen.plan.plans import GemmPlan
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.tuning.measure import Machine, Settings, command
from mmagen.tuning.measure import run as measure
from mmagen.verify.emulated.verify import parse_problem

pytestmark = pytest.mark.nvcc

_COST = (
    "{ctas: 132, launch_us: 1.8, overlap_us: 0.4, tile_us: %s, store_pitch: %s, k_tile_us: 0.4, throttle: 0.2, line_ns: 0.6, "
    "dram_tbps: 4.7, dram_spread: 0.3, dram_rows: 0.02, dram_columns: 0.5, store_tbps: 5.3, l2_tbps: 8.6, l2_spread: 0.4, "
    "l2_pitch: 0.07, l2_odd_pitch: 0.2, l2_ragged: 0.02, fixup_us: 0.7, part_us: 0.02, fixup_tbps: 7.6}"
)
# Only `split` uses a workspace. The cost of `narrow` makes its stores of D slower where rows of D are not aligned.
SPEC = f"""\
mmagen: 1
name: two_kernels
kernel: gemm
atom: SM90_64x64x16_F32BF16BF16_SS
layout: TN
tile: [64, 64, 64]
atoms_layout: [1, 1, 1]
epilogue: {{out: bf16}}
configs:
  - {{name: split, schedule: cooperative, split_k: auto, cost: {_COST % (1.8, 0.2)}}}
  - {{name: narrow, atom: SM90_64x32x16_F32BF16BF16_SS, tile: [64, 32, 64], schedule: pingpong, cost: {_COST % (1.4, 0.9)}}}
"""
KERNELS = ("split", "narrow")
COPIED, NOT_COPIED = "65,67,129", "64,96,128"  # rows that TMA cannot address, and rows that it can


@pytest.fixture(scope="module")
def library() -> GemmPlan:
    made = plan(load(SPEC.encode(), "two_kernels.yaml").spec)
    assert isinstance(made, GemmPlan) and made.copies_operands
    return made


@pytest.fixture(scope="module")
def program(library, tmp_path_factory):
    """Compiles tests/<name>.cu with the library."""
    folder = tmp_path_factory.mktemp("own")
    project = folder / "project"
    write(render(library), project)
    cutlass = find_toolchain(want=COMPILE).cutlass
    assert cutlass
    flags = ["-isystem", str(cutlass.path), f'-DMMAGEN_CUTLASS_VERSION="{cutlass.version}"']
    flags += [word for name in ("include", "tests") for word in ("-I", str(project / name))]

    def compiled(name: str) -> Program:
        sources = [*sorted((project / "src").glob("*.cu")), project / "tests" / f"{name}.cu"]
        return compile_program(sources, "sm_90a", folder / "made", flags=flags)

    return compiled


def kernels(run: ProgramRun) -> list[str]:
    """For each launch: "copies", the config whose kernel it is, or "" for the program's own kernels."""
    words = {"copy_operands_kernel": "copies", "5split": "split", "6narrow": "narrow"}
    return [next((name for word, name in words.items() if word in one.launch.entry), "") for one in run.launches]


@pytest.fixture(scope="module")
def tuned(program) -> dict[str, ProgramRun]:
    """The run of tests/tune.cu for each problem, with the options that `mmagen tune` passes."""
    words = command(Path("tune"), KERNELS, Settings(sample_ms=1, samples=1))[1:]
    assert words[-2:] == ["--problem", "-"]
    return {problem: run_program(program("tune"), "main", [*words[:-1], problem]) for problem in (COPIED, NOT_COPIED)}


def test_tune_gives_each_kernel_the_operands_that_the_library_gives_it(tuned):
    for problem, run in tuned.items():
        assert run.value == 0 and not run.findings and all(one.report.completed for one in run.launches)
        counts = Counter(kernels(run))
        assert counts["split"] == counts["narrow"] >= 4  # verified, and timed one by one and in a graph
        before = [one for one, after in itertools.pairwise(kernels(run)) if after in KERNELS]
        assert before.count("copies") == counts["copies"] == (len(before) if problem == COPIED else 0)


def test_mmagen_tune_reads_what_the_program_says(library, tuned, tmp_path):
    """A script that prints the same output stands in for the program."""
    for problem, run in tuned.items():
        (tmp_path / problem).write_text(run.printed)
    said = tmp_path / "tune"
    said.write_text(f'#!/bin/sh\nwhile read -r problem; do cat "{tmp_path}/$problem"; done\n')
    said.chmod(0o755)
    session = measure(said, KERNELS, list(tuned), Settings(silence_s=30))
    assert not session.message and not session.lost and not session.skipped
    assert session.machine == Machine(4, {1: 4, 2: 2, 4: 2, 8: 2, 16: 2})  # those of run_program
    assert session.chosen == {one: choose(library, parse_problem(one)).name for one in tuned}
    assert set(session.chosen.values()) == set(KERNELS)
    found = [(one["problem"], one["name"], one["disposition"]) for one in session.records]
    assert found == [(problem, name, "passed") for problem in tuned for name in KERNELS]
    assert all(one["ms_median"] > 0 and one["device"] == "mmagen.emulate" for one in session.records)


def test_verify_passes(program):
    run = run_program(program("verify"), "main", ["--problem", COPIED, "--json", "--no-timing"])
    assert run.value == 0 and not run.findings
    records = [json.loads(line) for line in run.printed.splitlines()]
    assert [one["disposition"] for one in records if "disposition" in one] == ["passed"] * 2
    assert {"copies", "split"} <= set(kernels(run))


def test_a_malformed_problem_is_a_usage_error(program):
    run = run_program(program("tune"), "main", ["--problem", "1,2"])
    assert run.value == 2 and "1,2" in run.printed and not run.launches
