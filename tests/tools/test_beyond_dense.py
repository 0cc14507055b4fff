"""The tool that compares kernels beyond a dense product with NVIDIA's libraries. Benchmarks and the GPU are stand-ins."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from mmagen.build.job import BuildResult
from mmagen.spec.groups import Groups
from mmagen.toolchain.model import Gpu, Tool, Toolchain
from mmagen.verify.run import RECORD_FIELDS, RunResult
from tools.beyond_dense import __main__ as tool
from tools.beyond_dense.measuring import Settings, Subject, measure
from tools.beyond_dense.page import lines, to_markdown
from tools.beyond_dense.rows import Against, Kernel, Pair, Row, Time, aligned_problems, label, rows, shuffled
from tools.library_page.kept import Found, Kept, Key

KERNEL = Kernel("a_kernel")
BUILT = BuildResult("a_kernel", Path("."), True)


def record(name: str, problem: str, us: float | None, disposition: str = "passed", reason: str = "") -> dict[str, object]:
    one: dict[str, object] = dict.fromkeys(RECORD_FIELDS)
    timed = {"ms_median": us * 1e-3, "tflops": 100.0} if us else {}
    return one | {"name": name, "problem": problem, "disposition": disposition, "reason": reason, "cutlass": "4.2.0"} | timed


def key(turn: int = 0) -> Key:
    return Key("code", f"turn {turn}", "GPU", "1", "CUDA 13.0")


class Program:
    """Stands in for benchmarks: the kernel takes 10 us, each other candidate 12."""

    def __init__(self, candidates=("cublasLt_best8",), reasons=None, us=None) -> None:
        self.calls: list[tuple[str, list[str]]] = []
        self.limits: list[float] = []
        self._candidates, self._reasons, self._us = candidates, reasons or {}, us or {}

    def __call__(self, built, arguments, limit_s) -> RunResult:
        problems = [arguments[i + 1] for i, word in enumerate(arguments) if word == "--problem"]
        self.calls.append((built.name, problems))
        self.limits.append(limit_s)
        found = []
        for problem in problems:
            if problem in self._reasons:
                return RunResult(built.name, "bench", tuple(found), reason=self._reasons[problem])
            found.append(record(built.name, problem, self._us.get((built.name, problem), 10.0)))
            found += [record(name, problem, 12.0) for name in self._candidates]
        return RunResult(built.name, "bench", tuple(found))


def row(*problems: str, rounds: int = 1, candidate: str = "cublasLt_best8") -> Row:
    pairs = tuple(Pair(label(one), Time(KERNEL, one), Time(KERNEL, one, candidate)) for one in problems)
    return Row("Title", (Against("the other", pairs, 1.1, 0.95),), rounds)


def run(kept: Kept, of: Row, program: Program, until: float | None = None) -> None:
    subjects = {KERNEL: Subject(KERNEL, BUILT, {turn: key(turn) for turn in range(of.rounds)})}
    measure(of, subjects, Settings(), kept, until, program=program)


# --- what is compared ---


def test_each_row_of_the_table_has_its_problems():
    count = {name: [len(against.pairs) for against in one.against] for name, one in rows().items()}
    assert count == {
        "sparse": [16],
        "scaled": [45, 5],
        "epilogue": [4, 2, 2],
        "beta": [1],
        "grouped": [12, 12, 12],
        "mixed": [6],
    }


def test_targets_are_those_of_the_issue():
    targets = {name: [(one.mean, one.least) for one in of.against] for name, of in rows().items()}
    assert targets["sparse"] == [(1.10, None)] and targets["scaled"][0] == (1.10, 0.95)
    assert [mean for mean, _ in targets["epilogue"]] == [0.98, 1.05, 1.05]
    assert targets["beta"] == [(0.95, None)] and targets["mixed"] == [(2.0, None)]
    assert [mean for mean, _ in targets["grouped"]] == [1.5, 1.5, 0.90]


def test_random_problems_are_the_same_for_a_seed_and_can_be_addressed():
    found = aligned_problems(12, 40)
    assert found == aligned_problems(12, 40) and found != aligned_problems(13, 40)
    assert len(set(found)) == 40
    extents = [[int(one) for one in problem.split(",")] for problem in found]
    assert all(extent % 16 == 0 and extent > 0 for one in extents for extent in one)
    assert max(m * n * k for m, n, k in extents) <= 2**41


def test_groups_are_drawn_by_zipfs_law_and_have_all_tokens():
    problems = rows()["grouped"].problems()[Kernel("sm90_gemm_bf16_grouped")]
    for problem in problems:
        extents, groups = problem.split(":groups=")
        sizes = [int(one) for one in groups.split("+")]
        assert sum(sizes) == int(extents.split(",")[0])
        assert tuple(sizes) == Groups(experts=len(sizes), tokens=sum(sizes), seed=1).sizes
        # The first rank has 1 of H(n) parts, at least 16 % of 256 experts.
        assert max(sizes) > 0.12 * sum(sizes) > 3 * sorted(sizes)[len(sizes) // 2] * (len(sizes) > 8)
    assert sorted({len(one.split("+")) for one in problems}) == [8, 64, 256]


def test_problems_and_order_differ_from_turn_to_turn():
    items = [(Kernel(str(i)), tuple(map(str, range(6)))) for i in range(6)]
    one, two = shuffled(items, 1), shuffled(items, 2)
    assert one == shuffled(items, 1) and one != two
    assert sorted((kernel.spec, tuple(sorted(of))) for kernel, of in one) == [(kernel.spec, of) for kernel, of in items]


# Each once, in an order that all workers of a run share.
@pytest.mark.parametrize(
    "kernel", dict.fromkeys(kernel for one in rows().values() for kernel in one.problems()), ids=lambda one: one.name
)
def test_every_kernel_can_be_planned(kernel):
    plan = tool.plan_of(kernel)
    assert plan.name == kernel.name


def test_the_plain_kernel_is_the_same_but_for_its_epilogue():
    gated, plain = (tool.plan_of(Kernel("sm90_gemm_bf16_swiglu", plain)) for plain in (False, True))
    assert gated.spec.epilogue != plain.spec.epilogue
    for fact in ("atom", "tile", "schedule", "cluster", "raster", "layout"):
        assert getattr(gated.spec, fact) == getattr(plain.spec, fact)


def test_rows_are_chosen_by_name():
    assert [*tool.chosen_rows("mixed, sparse")] == ["sparse", "mixed"]
    with pytest.raises(tool.UsageError, match="no such row; there are sparse, scaled"):
        tool.chosen_rows("sparse,dens")
    with pytest.raises(tool.UsageError, match="names none"):
        tool.chosen_rows(",")


# --- measuring ---


def test_problems_are_measured_some_at_a_time_and_once(tmp_path):
    kept, program = Kept(tmp_path / "r"), Program()
    of = row(*(f"{i},1,1" for i in range(1, 12)))
    run(kept, of, program)
    assert [len(problems) for _, problems in program.calls] == [8, 3]
    run(Kept(tmp_path / "r"), of, program)
    assert len(program.calls) == 2
    assert len((tmp_path / "r").read_text().splitlines()) == 11


def test_a_crash_is_the_fault_of_one_problem(tmp_path):
    kept, program = Kept(tmp_path / "r"), Program(reasons={"2,1,1": "killed by SIGSEGV"})
    run(kept, row("1,1,1", "2,1,1", "3,1,1", "4,1,1"), program)
    found = kept.of(key())
    assert found["2,1,1"].skipped == "killed by SIGSEGV"
    assert all(found[one].records for one in ("1,1,1", "3,1,1", "4,1,1"))


def test_nothing_begins_when_time_is_up_and_what_is_cut_off_is_left(tmp_path):
    kept, program = Kept(tmp_path / "r"), Program()
    run(kept, row("1,1,1"), program, until=time.monotonic() - 1)
    assert program.calls == [] and kept.of(key()) == {}

    def slow(built, arguments, limit_s) -> RunResult:
        assert limit_s <= 1.0
        while time.monotonic() < until:
            time.sleep(0.01)
        return RunResult(built.name, "bench", reason="bench did not end within 1 s and was stopped")

    until = time.monotonic() + 0.1
    run(kept, row("1,1,1"), slow, until)
    assert kept.of(key()) == {}


def test_rounds_are_measured_by_themselves(tmp_path):
    kept, program = Kept(tmp_path / "r"), Program()
    run(kept, row("1,1,1", "2,1,1", rounds=3), program)
    assert len(program.calls) == 3
    assert all(kept.of(key(turn)).keys() == {"1,1,1", "2,1,1"} for turn in range(3))


def test_graphs_are_asked_for():
    assert "--graphs" in Settings().arguments(KERNEL, ["1,1,1"])
    assert "--graphs" not in Settings().arguments(Kernel("a_kernel", graphs=False), ["1,1,1"])
    assert Settings().text(KERNEL, 0) != Settings().text(Kernel("a_kernel", graphs=False), 0)


# --- the page ---


def found_of(by_turn):
    return lambda kernel, turn: by_turn.get((kernel, turn), {})


def test_ratios_are_of_times_and_the_median_of_turns():
    by_turn = {}
    for turn, (ours, other) in enumerate([(10.0, 12.0), (10.0, 30.0), (20.0, 22.0)]):
        records = (record("a_kernel", "1,1,1", ours), record("cublasLt_best8", "1,1,1", other))
        by_turn[KERNEL, turn] = {"1,1,1": Found("1,1,1", records)}
    (line,) = lines(row("1,1,1").against[0], 3, found_of(by_turn))
    assert line.ratio == pytest.approx(1.2) and line.ours_us == pytest.approx(10) and line.other_us == pytest.approx(22)


def test_a_page_says_what_was_met_and_what_is_missing():
    of = row("1,1,1", "2,1,1", "3,1,1", "4,1,1")
    found = {
        "1,1,1": Found("1,1,1", (record("a_kernel", "1,1,1", 10.0), record("cublasLt_best8", "1,1,1", 12.0))),
        "2,1,1": Found("2,1,1", (record("a_kernel", "2,1,1", 10.0, reason="no baseline: cuBLASLt has no such type."),)),
        "3,1,1": Found("3,1,1", skipped="killed by SIGSEGV"),
    }
    page = to_markdown({"a": of}, found_of({(KERNEL, 0): found}), "GPU, driver 1", "python -m tools.beyond_dense", ["a note"])
    summary = [cell.strip() for cell in page.split("## Summary")[1].splitlines()[4].split("|")]
    assert summary[1:-1] == ["Title", "the other", "1 of 4", "1.200", "1.200", "1.10, none below 0.95", "yes, of these"]
    missing = page.split("## Not run")[1]
    for text in (
        "a note",
        "2 x 1 x 1, against the other: no baseline: cuBLASLt",
        "3 x 1 x 1, against the other: killed by SIGSEGV",
    ):
        assert text in missing
    assert "4 x 1 x 1, against the other: not measured yet" in missing


@pytest.mark.parametrize(("us", "word"), [((10.0, 10.0), "yes"), ((8.0, 13.0), "no"), ((11.0, 11.0), "no")])
def test_a_target_is_met_by_the_mean_and_the_lowest(us, word):
    found = {
        f"{i},1,1": Found("", (record("a_kernel", f"{i},1,1", ours), record("cublasLt_best8", f"{i},1,1", 12.0)))
        for i, ours in enumerate(us, 1)
    }
    page = to_markdown({"a": row("1,1,1", "2,1,1")}, found_of({(KERNEL, 0): found}), "GPU", "x", [])
    assert page.split("## Summary")[1].splitlines()[4].split("|")[-2].strip() == word


def test_a_wrong_result_has_no_ratio():
    wrong = record("a_kernel", "1,1,1", 10.0, "incorrect", "element 3 differs")
    records = (wrong, record("cublasLt_best8", "1,1,1", 12.0))
    (line,) = lines(row("1,1,1").against[0], 1, found_of({(KERNEL, 0): {"1,1,1": Found("1,1,1", records)}}))
    assert line.ratio is None and line.why == "element 3 differs"


# --- the command ---


@pytest.fixture
def command(tmp_path, monkeypatch):
    """command(*options): the exit code. Its benchmarks are `command.program`."""
    program = Program(
        ("cublasLt_best8", "cusparseLt_best", "cublasLt_plain", "cublasLt_loop", "cublasLt_dense", "cublasLt_first")
    )

    def build(projects, toolchain, *, jobs, programs, progress):
        assert programs == ("bench",)
        call.built = [project.name for project in projects]
        return [BuildResult(one.name, one, one.name not in call.broken, reason="it is broken") for one in projects]

    monkeypatch.setattr(tool, "build", build)
    monkeypatch.setattr(tool, "find_gpus", lambda env: call.gpus)
    monkeypatch.setattr(tool, "_versions", lambda: "CUDA 13.0, no cuSPARSELt")
    monkeypatch.setattr(tool, "render", lambda plan: {})
    monkeypatch.setattr(tool, "write", lambda files, project: None)
    monkeypatch.setattr(tool, "measure", lambda *arguments: measure(*arguments, program=call.program))

    def call(*options) -> int:
        fixed = ["--records", tmp_path / "r.jsonl", "--markdown", tmp_path / "page.md"]
        return tool.main([*map(str, (*fixed, *options))])

    call.gpus, call.program, call.broken, call.page = ((Gpu("NVIDIA H", (9, 0), "1.0"),), ""), program, (), tmp_path / "page.md"
    return call


def test_one_command_measures_every_row(command, capsys):
    assert command() == 0
    assert len(command.built) == 13
    page = command.page.read_text()
    assert "NVIDIA H, driver 1.0, CUDA 13.0, no cuSPARSELt, CUTLASS 4.2.0" in page
    assert "not measured" not in page and "was not timed" not in page and page.count("1.200") > 100
    assert "DeepGEMM" in page.split("## Not run")[1]
    command.built = []
    assert command() == 0 and command.built == []
    capsys.readouterr()
    assert command("--page-only", "--rows", "beta") == 0
    assert "1.000" in capsys.readouterr().out


def test_what_does_not_compile_and_what_there_was_no_time_for_is_said(command):
    command.broken = ("sm90_gemm_s4_bf16",)
    assert command("--rows", "mixed,beta") == 4
    missing = command.page.read_text().split("## Not run")[1]
    assert "sm90_gemm_s4_bf16 does not compile: it is broken" in missing
    assert "1 x 4096 x 4096, against cuBLASLt in bf16, best of 8: not measured yet" in missing


def test_without_a_gpu_nothing_is_measured(command, capsys):
    command.gpus = ((), "no NVIDIA GPU found")
    assert command() == 77
    assert "no NVIDIA GPU found" in capsys.readouterr().err and not command.page.exists()


def test_a_wrong_kernel_is_an_exit_code(command, tmp_path):
    command.program = lambda built, arguments, limit_s: RunResult(
        built.name, "bench", tuple(record(built.name, arguments[-1], None, "incorrect", "wrong") for _ in "1")
    )
    assert command("--rows", "beta") == 1


def test_versions_are_read_from_headers():
    text = "#define CUBLAS_VER_MAJOR 13\n#define CUBLAS_VER_MINOR 1\n#define  CUBLAS_VER_PATCH 0\n"
    assert tool.version_in(text, "CUBLAS_VER") == "13.1.0"
    assert tool.version_in("", "CUBLAS_VER") == "of unknown version"


def test_libraries_are_looked_for_beside_the_toolkit(tmp_path, monkeypatch):
    (tmp_path / "include").mkdir()
    parts = zip(("MAJOR", "MINOR", "PATCH"), (13, 1, 2), strict=True)
    (tmp_path / "include/cublas_api.h").write_text("".join(f"#define CUBLAS_VER_{part} {number}\n" for part, number in parts))
    nvcc = Tool(tmp_path / "bin/nvcc", "13.0.88", "PATH")
    monkeypatch.setattr(tool, "find_toolchain", lambda: Toolchain(nvcc=nvcc, toolkit=tmp_path))
    assert tool._versions() == "CUDA 13.0.88, cuBLAS 13.1.2, no cuSPARSELt"


def test_records_are_lines_of_json(command, tmp_path):
    command("--rows", "beta")
    items = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text().splitlines()]
    assert len(items) == 6 and {item["key"]["device"] for item in items} == {"NVIDIA H"}
