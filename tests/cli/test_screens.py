"""Every verb's output at 80 and at 120 columns: nothing is wider, and nothing is lost."""

from __future__ import annotations

import json
import os
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from mmagen.cli.commands import commands
from mmagen.cli.main import main
from mmagen.cli.outputs import in_colour, line_width, painted
from mmagen.core.screen import fold
from mmagen.inspect.operations import page
from mmagen.microbench.figures import FIELDS, Machine
from mmagen.microbench.report import table as peaks
from mmagen.mma.catalogue import operations
from mmagen.op_tests.report import table as of_operations
from mmagen.report.formats import table
from mmagen.verify.run import RunResult
from mmagen.verify.verdict import EMULATED, judge, refused
from tests.support.fake_builds import fake_build, record

SPECS = Path(__file__).resolve().parents[2] / "specs"
WIDTHS = (80, 120)
# One of each kind of kernel.
SHOWN = ("hello_micro", "hello_ownership", "sm80_gemm_classic", "sm90_gemm_bf16_tn", "sm90_gemm_bf16_library")
BAD = """\
mmagen: 1
name: bad
kernel: gemm
atom: SM80_16x8x16_F32F16F16F32_TN
layout: TN
tile: [128, 130, 32]
atoms_layout: [2, 2, 1]
stages: 90
speed: fast
problems: [[16, 16, 16]]
"""
LONGEST = max((operation.name for operation in operations()), key=len)


@pytest.fixture(params=WIDTHS)
def screen(request, monkeypatch, tmp_path, capsys):
    """A function that runs a command line and returns its exit code and its lines, once none is too wide."""
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.chdir(tmp_path)

    def typed(*arguments: object) -> tuple[int, list[str]]:
        with pytest.raises(SystemExit) as done:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        lines = [*captured.out.split("\n"), *captured.err.split("\n")]
        assert max(map(len, lines)) <= request.param, max(lines, key=len)
        return int(done.value.code or 0), lines

    return typed


def _verbs() -> list[tuple[str, ...]]:
    groups = [(name, verb) for name, verb in commands.commands.items() if isinstance(verb, click.Group)]
    return [
        (),
        *((name,) for name in commands.commands),
        *((name, inner) for name, group in groups for inner in group.commands),
    ]


@pytest.mark.parametrize("verb", _verbs(), ids=" ".join)
def test_help(verb, screen):
    code, lines = screen(*verb, "--help")
    assert code == 0 and lines[0].startswith("Usage: ")
    listed = lines[lines.index("Commands:") :] if "Commands:" in lines else []
    assert not any(line.endswith("...") for line in listed), "cut off"


@pytest.mark.parametrize("name", SHOWN)
def test_inspect(name, screen):
    code, lines = screen("inspect", "--ownership", SPECS / f"{name}.yaml")
    assert code == 0 and len(lines) > 30


def test_refused_specs(screen):
    Path("bad.yaml").write_text(BAD)
    for verb in (("build",), ("inspect",), ("verify",), ("vendor", "--into", "lib")):
        code, lines = screen(*verb, "bad.yaml")
        assert code == 2 and any("speed" in line for line in lines)


def test_projects(screen, tmp_path):
    place = tmp_path / "a_folder_with_a_long_name" / "and_another_one_inside_of_it" / "for_a_path_that_is_wider_than_a_line"
    place.parent.mkdir(parents=True)
    assert screen("build", SPECS / "hello_micro.yaml", "-o", place)[0] == 0
    edited = place / "hello_micro" / "README.md"
    edited.write_text("mine")
    assert screen("build", SPECS / "hello_micro.yaml", "-o", place)[0] == 2
    assert screen("build", SPECS / "hello_micro.yaml", "-o", place, "--check")[0] == 1
    assert screen("build", SPECS / "hello_micro.yaml", "-o", place, "--force")[0] == 0
    assert screen("vendor", SPECS / "sm80_gemm_classic.yaml", "--into", place / "library")[0] == 0
    assert screen("vendor", SPECS / "sm80_gemm_classic.yaml", "--into", place / "library", "--check")[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("atoms",),
        ("atoms", "--full", LONGEST),
        ("atoms", "SM80_16x8x16_F32F16F16F32_TN"),
        ("atoms", "no_such_atom_as_this_one"),
        ("cache", "info"),
        ("peak", "--list", "--arch", "sm_80", "SM80_16x8x*"),
    ],
    ids=" ".join,
)
def test_what_is_known(arguments, screen):
    _, lines = screen(*arguments)
    whole = "".join(line.strip() for line in lines)
    if arguments == ("atoms",):
        assert all(operation.name in whole for operation in operations())


@pytest.mark.parametrize("columns", WIDTHS)
def test_operations_of_every_kind(columns):
    def kind(one):
        return one.kind, one.sparse, one.block_scaled, tuple(sorted(one.places.items())), bool(one.variants)

    kinds = {kind(one): one for one in operations()}
    assert len(kinds) > 10
    for one, full in product(kinds.values(), (False, True)):
        lines = page(one, full, columns).split("\n")
        assert max(map(len, lines)) <= columns, max(lines, key=len)


def test_first_specs(screen):
    place = Path("a_folder_with_a_long_name") / "and_another_one_inside_of_it" / "for_a_path_that_is_wider_than_a_line_of_80"
    assert screen("init", place)[0] == 0 and screen("init", place)[0] == 0 and screen("init", "--list")[0] == 0
    (place / "kernels/gemm.mma.yaml").write_text("mine")
    assert screen("init", place)[0] == 2 and screen("init", place, "--spec", "no_such_spec_as_this_one")[0] == 2


def test_the_cache(screen, monkeypatch, tmp_path):
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path / "a_cache_in_a_folder_with_a_long_name" / ("and_another_one" * 4)))
    for verb in (("info",), ("prune", "--days", "1", "--max-size", "1K"), ("clear",)):
        assert screen("cache", *verb)[0] == 0


@pytest.mark.nvcc
def test_an_emulated_kernel(screen):
    reports = ("--json", "a.json", "--junit", "a.xml", "--csv", "a.csv", "--markdown", "a.md")
    for more in ((), ("-v",), ("--problem", "32x32x8"), reports):
        code, lines = screen("verify", SPECS / "fma_micro.yaml", "--on", "cpu", *more)
        assert code == 0 and any("passed (emulated)" in line for line in lines), lines


def test_what_needs_a_gpu(screen, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert screen("tune", SPECS / "sm90_gemm_bf16_library.yaml", "--budget", "1s")[0] == 77
    assert screen("peak", "SM80_16x8x16_F32F16F16F32_TN")[0] == 77


def test_diff(screen):
    first, second = (SPECS / f"{name}.yaml" for name in ("sm80_gemm_classic", "sm90_gemm_bf16_tn"))
    assert screen("diff", first, second)[0] == 0 and screen("diff", first, first)[0] == 0


def test_new(screen):
    keys = ("--kernel", "gemm", "--arch", "sm_90a", "--type", "bf16", "--problem", "4096,4096,4096", "--layout", "TN")
    code, lines = screen("new", *keys, "one.yaml")
    assert code == 0 and any("one.yaml" in line for line in lines), lines


def test_doctor(screen):
    _, lines = screen("doctor")
    assert any("CUDA compiler" in line for line in lines)


def test_compare(screen):
    old, new = (
        record(problem="4096x4096x4096 b3 ld+8 alpha=2 beta=-1", name="sm90_gemm_bf16_library", ratio=ratio)
        for ratio in (1.0, 0.5)
    )
    Path("old.json").write_text(json.dumps(old))
    Path("new.json").write_text(json.dumps(new))
    assert screen("compare", "old.json", "new.json")[0] == 1
    assert screen("compare", "old.json", os.devnull)[0] == 2


@pytest.mark.parametrize("columns", WIDTHS)
def test_verdicts(tmp_path, columns):
    shared = {"layout": "TN (A: K contiguous, B: K contiguous, D: N contiguous)", "types": "e4m3 x e5m2 + f32 -> bf16"}
    figures = {
        "ms_median": 1.25,
        "tflops": 623.25,
        "registers": 168,
        "spill_bytes": 8,
        "smem_bytes": 232448,
        "input_dist": "small_int",
    }
    finding = {
        "kind": "cp_async_unwaited",
        "message": "thread 1 reads it too early " * 6,
        "file": "include/mmagen/" + "x" * 40,
        "line": 9,
    }
    records = (
        record(problem="1029x133x5 b2 ld+11 alpha=-1 beta=2 batch_stride_d=16385", device=EMULATED, **shared, **figures),
        record(disposition="failed", reason="it", details={"findings": [finding]}, **shared, **figures),
        record(disposition="incorrect", reason="a difference of 7 at (1, 2) " * 8, **shared, **figures),
    )
    build = fake_build(tmp_path, "", "sm90_gemm_e4m3_with_a_long_name", warnings=("src/a.cu(1): warning: " + "unused " * 20,))
    one = judge(
        build,
        RunResult(build.name, "verify", tuple(r | {"name": build.name} for r in records), 1),
        skipped=[("8192x8192x8192", "too large " * 9)],
    )
    shown = table([one, refused("some/folder/bad.yaml", "some/folder/bad.yaml:7:9: " + "it is bad " * 12)], columns)
    assert max(map(len, shown.split("\n"))) <= columns, shown
    for word in (
        "passed (emulated)",
        "incorrect",
        "623.2",
        "1029x133x5 b2 ld+11 alpha=-1 beta=2 batch_stride_d=16385",
        "cp_async_unwaited at",
    ):
        assert word in shown, shown


@pytest.mark.parametrize("columns", WIDTHS)
def test_peaks_and_operations(tmp_path, columns):
    figures = dict.fromkeys(FIELDS)
    figures |= {
        "name": LONGEST,
        "inputs": "random",
        "disposition": "passed",
        "tflops": 1234.5,
        "pct_rate": 99.1,
        "pct_datasheet": 98.7,
    }
    figures |= {"clock_mhz": 1980.0, "power_w": 690.0, "seconds": 1.0, "warps": 8, "accumulators": 4, "steps": 16, "reason": ""}
    shown = fold(
        peaks([figures, figures], Machine("sm_90a", "NVIDIA H200", "580.65.06", "13.0.88", "4.2.0", "0.1.0"), columns), columns
    )
    assert max(map(len, shown.split("\n"))) <= columns and shown.count("1234.5") == 2
    two = [next(iter(operations())), next(operation for operation in operations() if operation.name == LONGEST)]
    details = {"launches": 12345, "elements": 123456789, "incorrect": 0}
    verdicts = [
        judge(fake_build(tmp_path, "", f"o{i}"), RunResult(f"o{i}", "verify", (record(name=f"o{i}", details=details),), 0))
        for i in range(2)
    ]
    shown = fold(of_operations(two, verdicts, columns=columns), columns)
    assert max(map(len, shown.split("\n"))) <= columns, shown


def test_verdicts_are_coloured_where_they_are_cells():
    text = "name  verdict\n----  -------\na     passed (emulated)  1\nb     failed\n\nb: failed twice, passed once"
    shown = painted(text, True)
    assert "\x1b[32mpassed (emulated)\x1b[0m  1" in shown and "\x1b[31mfailed\x1b[0m\n" in shown
    assert shown.endswith("b: failed twice, passed once") and painted(text, False) == text


def test_lines_stay_whole_in_a_pipe(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert line_width() is None and line_width(err=True) is None
    for given, width in (("100", 100), ("7", 40), ("0", None), ("wide", None)):
        monkeypatch.setenv("COLUMNS", given)
        assert line_width() == width


@pytest.mark.parametrize(("no_color", "term", "coloured"), [("", "xterm", True), ("1", "xterm", False), ("", "dumb", False)])
def test_no_colour_where_it_is_not_wanted(monkeypatch, no_color, term, coloured):
    monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", term)
    assert in_colour() is coloured
