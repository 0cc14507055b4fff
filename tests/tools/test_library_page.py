"""The page of a library: what is measured is kept, and only what is missing is measured. Programs and GPUs are stand-ins."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

import pytest

from mmagen.build.job import BuildResult
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.toolchain.model import Gpu
from mmagen.tuning.problems import read_problems
from mmagen.verify.run import RECORD_FIELDS
from tools.library_page import __main__ as page
from tools.library_page import cutlass_builder, energy
from tools.library_page.kept import Found, Kept, Key

ROOT = Path(__file__).resolve().parents[2]
SPEC = str(ROOT / "specs/sm90_gemm_bf16_rules.yaml")
STAND_IN = ROOT / "tests/tuning/stand_in.py"

# A benchmark: a short and a sustained record of each of three candidates.
BENCH = """
import json, sys
problem = sys.argv[sys.argv.index("--problem") + 1]
for suffix in ("", " sustained"):
    for name, tflops in (({name!r}, 600.0), ("cublasLt_first", 400.0), ("cublasLt_best8", 500.0)):
        record = dict.fromkeys({fields!r})
        record |= {{"name": name, "problem": problem + suffix, "disposition": "passed", "max_abs_err": 0.0}}
        record |= {{"tflops": tflops + 1000 * (not suffix), "power_w": 690.0, "sm_clock_mhz": 1500.0}}
        print(json.dumps(record))
"""


def gpus(count: int):
    return lambda env: ((Gpu("NVIDIA Stand-in", (9, 0), "1.0"),) * count, "" if count else "no NVIDIA GPU found")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(*options): the exit code. What programs did is in the files starts and visible."""
    (tmp_path / "problems").write_text("64 64 64\n128 64 64\n192 64 64\n256 64 64\n")
    tune = tmp_path / "tune"
    tune.write_text(
        f'#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES $*" >> {tmp_path}/visible\n'
        f'PAUSE=0.05 STARTS={tmp_path}/starts exec {sys.executable} {STAND_IN} "$@"\n'
    )
    bench = tmp_path / "bench"
    text = BENCH.format(name="sm90_gemm_bf16_rules", fields=RECORD_FIELDS)
    (tmp_path / "bench.py").write_text(text)
    bench.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/bench.py "$@"\n')
    for program in (tune, bench):
        program.chmod(0o755)

    @contextlib.contextmanager
    def built(subjects, options):
        (tmp_path / "built").write_text(",".join(one.title for one in subjects))
        yield [BuildResult(one.plan.name, tmp_path, True, programs={"tune": tune, "bench": bench}) for one in subjects]

    monkeypatch.setattr(page, "_built", built)
    monkeypatch.setattr(page, "find_gpus", gpus(1))

    def call(*options, specs=(SPEC,)) -> int:
        fixed = ["--records", tmp_path / "r.jsonl", "--markdown", tmp_path / "page.md"]
        problems = [] if "--problems" in options else ["--problems", tmp_path / "problems"]
        return page.main([*map(str, (*specs, *problems, *fixed, *options))])

    return call


def problems_of(path: Path) -> list[str]:
    return [json.loads(line)["found"]["problem"] for line in path.read_text().splitlines()]


def test_a_page_lists_every_problem_and_what_it_is_of(run, tmp_path):
    assert run("--choice-only") == 0
    text = (tmp_path / "page.md").read_text()
    for m in (64, 128, 192, 256):
        assert f"| {m} x 64 x 64" in text
    assert "NVIDIA Stand-in, driver 1.0" in text and "geometric mean" in text and "Not measured" not in text
    assert "--config sm90_gemm_bf16_rules --problem" in (tmp_path / "visible").read_text(), "the choice alone"


def test_only_what_is_missing_is_measured(run, tmp_path):
    assert run("--choice-only") == 0
    first = (tmp_path / "r.jsonl").read_bytes()
    (tmp_path / "r.jsonl").write_bytes(b"\n".join(first.splitlines()[:2]) + b'\n{"schema": 1, "ke')
    assert run("--choice-only", "--page-only") == 4, "something is missing, and the page says so"
    assert (tmp_path / "page.md").read_text().count(": not yet") == 2
    assert run("--choice-only") == 0
    again = [line for line in (tmp_path / "r.jsonl").read_bytes().splitlines() if line.endswith(b"}")]
    assert again[:2] == first.splitlines()[:2] and len(again) == 4
    (tmp_path / "starts").unlink()
    assert run("--choice-only") == 0 and not (tmp_path / "starts").exists(), "nothing is missing"


def test_other_settings_or_another_device_are_measured_anew(run, tmp_path, monkeypatch):
    assert run("--choice-only") == run("--choice-only", "--samples", "3") == 0
    assert len(problems_of(tmp_path / "r.jsonl")) == 8
    monkeypatch.setattr(page, "find_gpus", lambda env: ((Gpu("Another", (9, 0), "1.0"),), ""))
    assert run("--choice-only") == 0 and len(problems_of(tmp_path / "r.jsonl")) == 12


def test_several_gpus_share_the_problems(run, tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(page, "find_gpus", gpus(2))
    assert run("--choice-only") == 0
    assert sorted(problems_of(tmp_path / "r.jsonl")) == ["128,64,64", "192,64,64", "256,64,64", "64,64,64"]
    assert sorted(line.split()[0] for line in (tmp_path / "visible").read_text().splitlines()) == ["0", "1"]


def test_a_kernel_that_crashes_is_lost_for_the_other_problems_too(run, tmp_path, monkeypatch):
    config = page._plan(Path(SPEC), "").configs[0].name
    monkeypatch.setenv("FAULTS", json.dumps({"crash": [config]}))
    assert run() == 4
    assert len((tmp_path / "starts").read_text().split()) == 2, "it is started again once"
    assert f"- {config}: verify of 64,64,64" in (tmp_path / "page.md").read_text()
    monkeypatch.setenv("FAULTS", json.dumps({"wrong": [config]}))
    assert run("--samples", "2") == 1


def test_layouts_are_libraries_of_their_own(run, tmp_path):
    assert run("--choice-only", "--layout", "NT", "NN") == 0
    text = (tmp_path / "page.md").read_text()
    assert (tmp_path / "built").read_text() == "sm90_gemm_bf16_rules NT,sm90_gemm_bf16_rules NN"
    sections = [line for line in text.splitlines() if line.startswith("## ")]
    assert [line.split(",")[0] for line in sections] == [
        "## Summary",
        "## sm90_gemm_bf16_rules NT",
        "## sm90_gemm_bf16_rules NN",
    ]
    assert len({json.loads(line)["key"]["library"] for line in (tmp_path / "r.jsonl").read_text().splitlines()}) == 2


def test_gemms_of_cutlass_take_turns_with_those_of_the_library(run, tmp_path):
    assert run("--choice-only", "--cutlass") == 0
    command = (tmp_path / "visible").read_text()
    assert all(f"--config {name} " in command for name in cutlass_builder.names())
    text = (tmp_path / "page.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| 64 x 64 x 64"))
    assert "over CUTLASS" in text and "| cutlass_" in row
    assert run("--choice-only") == 0 and "over CUTLASS" not in (tmp_path / "page.md").read_text(), "another measurement"


@pytest.mark.parametrize("name", ["bf16", "e4m3", "s8", "tf32", "f16_f32"])
def test_the_configurations_of_cutlass_have_the_types_of_the_library(name, tmp_path):
    plan = page._plan(ROOT / f"specs/sm90_gemm_{name}_library.yaml", "")
    project = tmp_path / plan.name
    write(render(plan), project)
    cutlass_builder.add_to(project, plan)
    names = cutlass_builder.names()
    assert len(cutlass_builder.CONFIGURATIONS) >= 14 and len(set(names)) == len(names)
    main = (project / "tests/tune.cu").read_text()
    listed = (project / "tests/CMakeLists.txt").read_text()
    for one in cutlass_builder.CONFIGURATIONS:
        unit = (project / f"tests/cutlass/{one.name}.cu").read_text()
        assert f"cutlass/{one.name}.cu" in listed
        assert f"using A = {plan.operands[0].element.cxx};" in unit and f"using D = {plan.epilogue.out.cxx};" in unit
        k = {"bf16": 64, "e4m3": 128, "s8": 128, "tf32": 32, "f16_f32": 64}[name]
        assert f"cute::_{one.tile[0]}, cute::_{one.tile[1]}, cute::_{k}>" in unit
        assert ("FP8FastAccum" in unit) == (name == "e4m3")
    assert all(f'{{"{each}"' in main for each in names)


@pytest.mark.parametrize(("layout", "widths"), [("TN", True), ("TT", True), ("NN", True), ("NT", False)])
def test_a_layout_in_which_no_part_of_a_tile_can_be_computed_has_whole_tiles(layout, widths):
    library = page._plan(ROOT / "specs/sm90_gemm_bf16_library.yaml", layout)
    assert library.spec.model_dump(mode="json")["layout"] == layout
    assert any(one.plan.scheduler.widths for one in library.configs) == widths
    assert len(library.configs) == len(page._plan(ROOT / "specs/sm90_gemm_bf16_library.yaml", "").configs)


def test_layouts_of_cutlass_are_those_of_the_library(tmp_path):
    plan = page._plan(Path(SPEC), "NT")
    project = tmp_path / plan.name
    write(render(plan), project)
    cutlass_builder.add_to(project, plan)
    unit = (project / f"tests/cutlass/{cutlass_builder.CONFIGURATIONS[0].name}.cu").read_text()
    assert "LayoutA = cutlass::layout::ColumnMajor" in unit and "LayoutB = cutlass::layout::RowMajor" in unit


def test_cutlass_has_no_counterpart_of_every_library(run, capsys):
    assert run("--choice-only", "--cutlass", specs=(ROOT / "specs/sm80_gemm_bf16_library.yaml",)) == 2
    assert "sm_90a alone" in capsys.readouterr().err


def test_a_layout_that_the_library_cannot_have_is_refused(run, capsys):
    assert run("--layout", "NT", specs=(ROOT / "specs/sm90_gemm_e4m3_library.yaml",)) == 2
    assert "layout" in capsys.readouterr().err


def test_sustained_runs_show_energy(run, tmp_path):
    assert run("--choice-only", "--sustained", "2") == 0
    text = (tmp_path / "page.md").read_text()
    assert "## sm90_gemm_bf16_rules: sustained" in text
    row = next(line for line in text.splitlines() if line.startswith("| 64 x 64 x 64") and "1.150" in line)
    assert [cell.strip() for cell in row.strip("|").split("|")][1:] == [
        "600.0",
        "1500",
        "690",
        "1.150",
        "500.0",
        "690",
        "1.380",
        "1.200",
        "1.500",
    ]
    lines = len((tmp_path / "r.jsonl").read_text().splitlines())
    assert run("--choice-only", "--sustained", "2") == 0
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == lines == 8


def test_energy_of_what_was_not_read_is_left_open():
    records = [
        {"name": name, "problem": "1,1,1 sustained", "tflops": 1.0, "power_w": None, "sm_clock_mhz": None}
        for name in ("lib", "cublasLt_first", "cublasLt_best8")
    ]
    (row,) = energy.rows(records, "lib")
    assert row.own.picojoule != row.own.picojoule and "| - " in energy.to_markdown("t", [row], 2.0)
    assert energy.rows(records[:2], "lib") == [], "without cuBLASLt there is nothing to compare with"


def test_time_that_is_up_leaves_the_rest_for_the_next_call(run, tmp_path):
    assert run("--choice-only", "--budget", "0.001s") == 77
    assert not (tmp_path / "r.jsonl").exists()
    assert run("--choice-only") == 0


def test_without_a_gpu_nothing_is_measured(run, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(page, "find_gpus", gpus(0))
    assert run("--choice-only") == 77 and "no NVIDIA GPU found" in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()


def test_the_named_sets_are_files_of_the_repository():
    assert len(read_problems(page._NAMED["eleven"])) == 11
    assert len(read_problems(page._NAMED["large"])) == 12
    assert len(read_problems(page._NAMED["cutlass"])) == 12


def test_threads_add_whole_lines(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    kept, key = Kept(tmp_path / "a/r.jsonl"), Key("d", "s", "g", "1", "13")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: kept.add(key, Found(str(i), chosen="x" * 5000)), range(64)))
    assert len(Kept(tmp_path / "a/r.jsonl").of(key)) == 64 and os.path.getsize(tmp_path / "a/r.jsonl") > 64 * 5000
