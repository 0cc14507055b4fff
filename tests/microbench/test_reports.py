"""Reports of measured rates, and the command line of mmagen peak."""

from __future__ import annotations

import csv
import io
import json
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from mmagen.cli import peak as verb
from mmagen.cli.main import main
from mmagen.core.errors import ExitCode, UsageError
from mmagen.microbench import figures, measure, report
from mmagen.microbench.chart import to_svg
from mmagen.mma.catalogue import find
from tests.microbench.test_microbench import BF16, MACHINE, fake, runnable


def measured(name=BF16, inputs="random", disposition="passed", tflops=900.0, reason=None):
    record = {"inputs": inputs, "disposition": disposition, "reason": reason}
    if disposition == "passed":
        record |= {
            "tflops": tflops,
            "pct_rate": 95.25,
            "flop_per_cycle": 3900.0,
            "clock_mhz": 1755.0,
            "power_w": 690.0,
            "warps": 8,
            "accumulators": 1,
            "steps": 4,
            "seconds": 1.02,
            "sweep": [[4, 1, 4, 3600.5]],
        }
    return figures.figure(find(name), record, MACHINE)


def test_exit_codes():
    def code(*words):
        return figures.exit_code([measured(disposition=word) for word in words])

    assert code("passed", "not_supported") == ExitCode.OK
    assert code("not_supported") == ExitCode.NOTHING_VERIFIED
    assert code("passed", "failed") == code("not_run") == ExitCode.RUN_FAILED
    assert code("passed", "failed", "incorrect") == ExitCode.INCORRECT


def test_what_does_not_compile_or_says_nothing_is_in_the_report(tmp_path):
    path = fake(tmp_path, 'tell(disposition="passed")')
    here = SimpleNamespace(gpus=["a GPU"])
    settings = measure.Settings(("random", "zeros"), seconds=0.01)
    found = verb._run(measure.Program(path, {"x": "error: no such thing"}), ["a", "x", "y"], settings, here, lambda *_: None)
    words = {"a": "passed", "x": "failed", "y": "not_run"}
    assert {key: record["disposition"] for key, record in found.items()} == {
        (name, inputs): word for name, word in words.items() for inputs in settings.inputs
    }
    assert found["x", "zeros"]["reason"] == "it does not compile: error: no such thing"


@pytest.mark.parametrize(
    ("has_program", "failed", "code", "reported"),
    [
        (True, {}, ExitCode.OK, "3 of 3 loops compiled"),
        (True, {"x": "error"}, ExitCode.BUILD_FAILED, "2 of 3 loops compiled"),
        (False, dict.fromkeys("xyz", "error"), ExitCode.BUILD_FAILED, "no program"),
    ],
)
def test_a_program_that_was_only_compiled_is_put_where_it_is_wanted(tmp_path, capsys, has_program, failed, code, reported):
    made = fake(tmp_path, "") if has_program else None
    assert verb._compiled(measure.Program(made, failed, seconds=7.0), 3, tmp_path / "kept") == code
    out, err = capsys.readouterr()
    assert reported in out and err == "".join(f"{name}: error\n" for name in failed)
    assert (tmp_path / "kept").exists() == has_program and (not made or measure.listed(tmp_path / "kept") == list("edcba"))


def test_reports_hold_what_was_found():
    found = [
        measured(),
        measured(inputs="zeros", tflops=950.0),
        measured("SM100_MMA_TF32_SS", disposition="not_supported", reason="needs sm_100a, not sm_90a"),
    ]
    shown = report.table(found, MACHINE)
    assert "900.0" in shown and "SM100_MMA_TF32_SS: needs sm_100a" in shown and "2 passed, 1 not supported" in shown
    rows = list(csv.DictReader(io.StringIO(report.to_csv(found))))
    assert rows[0]["pct_rate"] == "95.25" and rows[0]["sweep"] == "[[4, 1, 4, 3600.5]]" and rows[2]["tflops"] == ""
    reported = [json.loads(line) for line in report.to_json(found).splitlines()]
    assert reported[0]["pct_datasheet"] == pytest.approx(90.96, rel=1e-3)
    page = report.to_markdown(found, MACHINE, command="mmagen peak", date="2026-01-02", chart="bars.svg")
    assert "8 x 1 x 4 |" in page and "![bars](bars.svg)" in page and "- SM100_MMA_TF32_SS: needs sm_100a" in page
    tree = ElementTree.fromstring(to_svg(found, MACHINE))
    assert sum(element.tag.endswith("rect") for element in tree.iter()) == 1 + 2 + 2


def test_kinds_are_told_apart_by_all_but_their_shape():
    names = [
        BF16,
        "SM90_64x8x16_F32BF16BF16_SS",
        "SM90_64x256x16_F32BF16BF16_RS",
        "SM90::GMMA::SPARSE::GMMA_64x8x32_F32BF16BF16_SS",
        "SM90_64x8x32_S32U8S8_SS_TN",
        "SM90_64x8x32_S32U8S8_SS_TN_SATURATE",
        "SM80_16x8x8_F32BF16BF16F32_TN",
    ]
    assert list(dict.fromkeys(map(figures.group_of, map(measured, names)))) == [
        "wgmma SS f32 bf16 random",
        "wgmma RS f32 bf16 random",
        "wgmma SS f32 bf16 sparse random",
        "wgmma SS s32 u8 s8 random",
        "wgmma SS s32 u8 s8 saturating random",
        "mma.sync f32 bf16 random",
    ]
    slow, none, fast = measured(tflops=1.0), measured(disposition="failed"), measured(tflops=2.0)
    assert figures.best_of_groups([slow, none, fast]) == figures.best_of_groups([none, fast, slow]) == [fast]


def test_long_lists_and_large_numbers_are_cut_short():
    found = [measured(o.name, disposition="failed", reason=f"why {i}") for i, o in enumerate(runnable()[:25])]
    shown = report.table(found, MACHINE)
    assert shown.count(": why") == 20 and "and 5 more operations for other reasons" in shown
    assert ",1234568," in report.to_csv([measured(tflops=1234567.8)])


def test_what_keeps_many_operations_from_running_is_said_once():
    names = [operation.name for operation in runnable()[:25]]
    found = [measured(name, disposition="not_supported", reason="no driver") for name in names[:24]]
    shown = report.table([*found, measured(names[24], disposition="not_supported", reason="needs sm_100a")], MACHINE)
    assert shown.splitlines()[:2] == ["24 operations: no driver", f"{names[24]}: needs sm_100a"]
    assert shown.count("no driver") == 1 and "25 not supported" in shown and names[0] not in shown
    assert names[0] in report.table([*found, measured(names[24])], MACHINE), "with results there is a row for each"


def test_bars_are_as_long_as_the_figures():
    def widths(figures_):
        bars = ElementTree.fromstring(to_svg(figures_, MACHINE)).iter("{http://www.w3.org/2000/svg}rect")
        return [float(bar.get("width")) for bar in bars if bar.get("height") == "13"]

    longest, half = widths([measured(tflops=900.0), measured(inputs="zeros", tflops=450.0)])
    assert longest == 2 * half == 470.0
    many = [measured(operation.name, tflops=1.0) for operation in runnable() if operation.kind == "wgmma"]
    assert len(widths(many)) == len(figures.best_of_groups(many)) < 120 < len(many)


def test_many_operations_are_shown_by_kind():
    names = [operation.name for operation in runnable() if operation.kind == "wgmma"][:300]
    found = [measured(name, tflops=100.0 + i) for i, name in enumerate(names)]
    page = report.to_markdown(found, MACHINE, command="mmagen peak", date="2026-01-02")
    assert "## wgmma by N" in page and len(page.splitlines()) < 120
    assert f"| {names[-1]} " in page and ElementTree.fromstring(to_svg(found, MACHINE)) is not None


def test_names_and_filters():
    filters = dict.fromkeys(("type", "shape", "kind", "family", "sparse"))
    assert [o.name for o in verb.chosen([BF16, BF16], filters)] == [BF16]
    assert len(verb.chosen(["SM90_64x*x16_F32BF16BF16_RS"], filters)) == 32
    assert len(verb.chosen([], filters | {"kind": "wgmma", "shape": "64x256x*", "sparse": False})) == 40
    for names, more in (([BF16], {"kind": "wgmma"}), (["SM90_nothing*"], {}), ([], {"type": "bf16", "family": "SM70"})):
        with pytest.raises(UsageError):
            verb.chosen(names, filters | more)


def run_cli(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main(["peak", *arguments])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def test_without_a_gpu_nothing_is_verified_and_nothing_compiled(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path))
    code, out, _ = run_cli(capsys, BF16, "SM100_MMA_TF32_SS", "SM61_DP2A", "--json", "-")
    reported = {line["name"]: line for line in map(json.loads, out.splitlines())}
    assert code == ExitCode.NOTHING_VERIFIED and {line["disposition"] for line in reported.values()} == {"not_supported"}
    assert reported["SM100_MMA_TF32_SS"]["reason"].startswith("needs sm_100a")
    assert {path.name for path in tmp_path.iterdir()} <= {"cuda"}, "links to PyPI's toolkit, where nvcc comes from there"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--inputs", "ones,pi"), "--inputs pi"),
        ((BF16, "--kind", "wgmma"), "leave out the filters"),
        (("--program", "/nowhere"), "not an executable file"),
        ((BF16, "--csv", "/nowhere/x.csv"), "/nowhere is not a folder"),
    ],
)
def test_wrong_words(capsys, arguments, message):
    code, _, err = run_cli(capsys, *arguments)
    assert code == ExitCode.USAGE and message in err


def test_a_program_from_elsewhere_says_itself_what_it_has(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "elsewhere"
    path.write_text(f"#!/bin/sh\necho {BF16}\n")
    path.chmod(0o755)
    code, out, _ = run_cli(capsys, "--program", str(path), "--json", "-")
    assert code == ExitCode.NOTHING_VERIFIED and [json.loads(line)["name"] for line in out.splitlines()] == [BF16]
