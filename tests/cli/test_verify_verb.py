"""`mmagen verify` as typed: what is compiled and run, what comes of it. The modules behind it are fakes."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import mmagen.build.build
from mmagen.build.build import BuildResult
from mmagen.cli.verify import _sanitized
from mmagen.core.errors import UsageError
from mmagen.families import family_of, plan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.toolchain.find import COMPILE, Tool, Toolchain
from mmagen.verify.emulated.verify import parse_problem
from mmagen.verify.problem_text import as_argument, problem_argument
from mmagen.verify.verdict import EMULATED, Verdict
from tests.support.fake_builds import printing, record
from tests.support.fakes import replace_module, typed
from tests.support.mutations import SPECS


def test_verify_passes_and_reports(workspace, machine, capsys):
    code, out, _ = typed(capsys, "verify", "one.yaml", "--json", "r.jsonl", "--csv", "r.csv", "--junit", "r.xml")
    assert code == 0 and "1 passed" in out
    assert machine.calls[0]["programs"] == ("verify",) and machine.calls[0]["files"] == [["a.cu", "mmagen.json"]]
    assert not Path("generated").exists()
    assert json.loads(Path("r.jsonl").read_text())["disposition"] == "passed"
    assert Path("r.csv").read_text().startswith("name,problem") and "<testsuite " in Path("r.xml").read_text()


def test_pictures_are_drawn_only_where_a_readme_is_left(workspace, machine, capsys, monkeypatch):
    module, drawn = sys.modules["mmagen.generate.render"], []
    render = module.render

    def observed(plan, *, tests=True, with_figures=True):
        drawn.append(with_figures)
        return render(plan, tests=tests, with_figures=with_figures)

    monkeypatch.setattr(module, "render", observed)
    assert typed(capsys, "verify", "one.yaml")[0] == 0 and drawn == [False]
    assert typed(capsys, "build", "one.yaml")[0] == 0 and drawn == [False, True]


def test_what_has_ended_is_in_the_json_file_while_the_rest_runs(workspace, machine, capsys):
    Path("r.jsonl").write_text("of an earlier run")
    copied = f"import shutil; shutil.copy({str(Path('r.jsonl').resolve())!r}, os.path.dirname(__file__) + '/seen')"
    machine.body = f"{copied}\n{printing(record(name='NAME'))}"
    code, _, _ = typed(capsys, "verify", "two.yaml", "one.yaml", "--json", "r.jsonl")
    whole = Path("r.jsonl").read_text()
    seen = {path.parent.name: path.read_text() for path in workspace.rglob("seen")} if code == 0 else {}
    assert sorted(seen.values(), key=len) == ["", whole.splitlines(keepends=True)[0]], seen
    assert len(whole.splitlines()) == 2


def test_verify_builds_a_project_folder_as_it_is(workspace, machine, capsys):
    typed(capsys, "build", "one.yaml")
    Path("generated/one/a.cu").write_text("a mutant")
    assert typed(capsys, "verify", "generated/one", "two.yaml", "generated/one/")[0] == 0
    assert next(str(p) for p in machine.calls[0]["projects"]) == "generated/one"
    assert len(machine.calls[0]["projects"]) == 2 and Path("generated/one/a.cu").read_text() == "a mutant"


@pytest.mark.parametrize(
    ("body", "code", "reported"),
    [
        (printing(record(name="NAME", disposition="incorrect", reason="row 3"), code=1), 1, "row 3"),
        ("sys.exit(4)", 4, "exit code 4"),
        (
            printing(record(name="NAME", disposition="not_supported", reason="requires exactly sm_90a"), code=77),
            77,
            "requires exactly sm_90a",
        ),
        ("", 4, "reported no result"),
        ("time.sleep(60)", 4, "did not end within 0.5 s"),
    ],
)
def test_verify_exit_codes(workspace, machine, capsys, body, code, reported):
    machine.body = body
    ended, out, _ = typed(capsys, "verify", "one.yaml", "--timeout", "0.5" if "sleep" in body else "60")
    assert ended == code and reported in out


@pytest.mark.parametrize(("body", "code"), [(record(name="NAME"), 2), (record(name="NAME", disposition="incorrect"), 1)])
def test_refused_specs_do_not_keep_the_others_from_being_verified(workspace, machine, capsys, body, code):
    Path("bad.yaml").write_text("illegal")
    machine.body = printing(body, code=int(code == 1))
    found, out, err = typed(capsys, "verify", "one.yaml", "bad.yaml")
    assert found == code and "one" in out and "bad.yaml:7:9" in err and "1 of 2 specs refused: bad.yaml" in err
    out = typed(capsys, "verify", "one.yaml", "bad.yaml", "--json", "-", "--junit", "r.xml")[1]
    of_bad = json.loads(out.splitlines()[1])
    assert (of_bad["name"], of_bad["disposition"]) == ("bad.yaml", "failed") and "bad.yaml:7:9" in of_bad["reason"]
    assert '<error message="refused: bad.yaml:7:9' in Path("r.xml").read_text(), "a report of its own has no stderr"
    machine.calls.clear()
    found, out, err = typed(capsys, "verify", "bad.yaml")
    assert (found, out) == (2, "") and not machine.calls


def test_problems_of_a_spec_are_accounted_for(workspace, machine, capsys, monkeypatch):
    def read(data, file):
        plan, wrong = real(data, file)
        plan.problems = (Problem(shape=(64, 64, 32)), Problem(shape=(999, 9, 9)))
        return plan, wrong

    reading = sys.modules["mmagen.families.reading"]
    real = reading.read
    monkeypatch.setattr(reading, "read", read)
    machine.body = printing(record(name="NAME", problem="64,64,32"))
    code, out, _ = typed(capsys, "verify", "one.yaml", "--max-dim", "512", "--json", "-")
    assert code == 0 and [json.loads(line)["disposition"] for line in out.splitlines()] == ["passed", "skipped"]
    assert json.loads(out.splitlines()[1])["reason"] == "larger than --max-dim 512"
    machine.body += "\ntime.sleep(60)"
    machine.body = machine.body.replace("sys.exit(0)", "sys.stdout.flush()")
    code, out, _ = typed(capsys, "verify", "one.yaml", "--timeout", "4", "--junit", "-")
    assert code == 4 and "not reached: verify did not end within 4 s" in out and 'skipped="1"' in out
    machine.gpus = ()
    code, out, _ = typed(capsys, "verify", "one.yaml", "--on", "gpu")
    assert code == 77 and "999,9,9" in out and "2 skipped: no NVIDIA GPU found" in out
    assert "skipped" not in typed(capsys, "verify", "one.yaml", "--on", "gpu", "--problem", "8,8,8")[1]


def test_a_gpu_that_does_not_suit_is_named_and_nothing_run(workspace, machine, capsys, monkeypatch):
    build = mmagen.build.build.build
    monkeypatch.setattr(
        "mmagen.build.build.build", lambda *args, **named: [replace(b, arch=("sm_100a",)) for b in build(*args, **named)]
    )
    machine.body = "sys.exit('it was run')"
    code, out, _ = typed(capsys, "verify", "one.yaml")
    assert code == 77 and "needs sm_100a; this GPU, Fake, has compute capability 9.0 (sm_90)" in out


def test_a_benchmark_that_there_is_not_is_skipped(workspace, machine, capsys):
    machine.offered = ("verify",)
    code, out, _ = typed(capsys, "verify", "one.yaml", "--bench")
    assert code == 0 and "benchmark" in out and "1 skipped: kernel:" in out


def test_verify_without_a_gpu_still_compiles(workspace, machine, capsys):
    machine.gpus = ()
    code, out, _ = typed(capsys, "verify", "one.yaml", "--sanitize", "memcheck")
    assert code == 77 and "no NVIDIA GPU found" in out and len(machine.calls) == 1
    code, out, _ = typed(capsys, "verify", "one.yaml", "--on", "gpu")
    assert code == 77 and "no NVIDIA GPU found" in out
    code, out, _ = typed(capsys, "verify", "one.yaml", "--compile-only")
    assert code == 0 and "compiled" in out
    code, _, err = typed(capsys, "verify", "one.yaml", "--on", "cpu", "--bench")
    assert code == 2 and "--bench and --sanitize need a GPU" in err
    machine.ok = False
    code, out, err = typed(capsys, "verify", "one.yaml", "--on", "gpu")
    assert code == 3 and "one: a.cu(1): error: no" in err and "build failed" in out


def test_verify_options_reach_the_program(workspace, machine, capsys):
    machine.body = f"r = {record(name='NAME')!r}\nr['reason'] = ' '.join(sys.argv[1:])\nprint(json.dumps(r))"
    code, out, err = typed(
        capsys,
        "verify",
        "one.yaml",
        "--json",
        "-",
        "--seed",
        "7",
        "--problem",
        "8,8,8:ld_pad=8",
        "--problem",
        "1,2,3,4",
        "--max-dim",
        "64",
        "--no-timing",
        "--arch",
        "sm_90a",
        "--dist",
        "zeros",
    )
    assert code == 0 and "1 passed" in err
    assert json.loads(out)["reason"] == (
        "--json --problem 8,8,8:ld_pad=8 --problem 1,2,3,4 --seed 7 --dist zeros --max-dim 64 --no-timing"
    )
    assert machine.calls[0]["arch"] == ("sm_90a",)


@pytest.fixture
def started(monkeypatch):
    """(program, arguments, sanitizer's tool) of each run, none of which really happens; each run passes."""
    runs = []

    def run(result, *, program, args, timeout_s, sanitizer):
        from mmagen.verify.run import RunResult

        runs.append((program, *args, *sanitizer[1:]))
        return RunResult(result.name, program, (record(name=result.name),), 0)

    monkeypatch.setattr("mmagen.verify.run.run", run)
    return runs


def test_sanitizers_are_further_runs(workspace, machine, capsys, started):
    assert typed(capsys, "verify", "one.yaml", "--sanitize", "memcheck")[0] == 4
    assert machine.calls == [], "a missing sanitizer is told before anything is compiled"
    machine.sanitizer = Tool(Path("/bin/compute-sanitizer"), "2025.3", "PATH")
    assert typed(capsys, "verify", "one.yaml", "--sanitize", "memcheck", "--sanitize", "racecheck", "--seed", "3")[0] == 0
    small = ("verify", "--problem", "224,160,96", "--seed", "3", "--no-timing")
    assert started == [("verify", "--seed", "3"), (*small, "memcheck"), (*small, "racecheck")]
    started.clear()
    assert typed(capsys, "verify", "one.yaml", "--sanitize", "memcheck", "--problem", "8,8,8")[0] == 0
    assert started[1] == ("verify", "--problem", "8,8,8", "--no-timing", "memcheck")


def test_a_kernel_of_one_shape_is_sanitized_on_that(workspace, machine, capsys, started):
    machine.offered, machine.sanitizer = ("verify",), Tool(Path("/bin/compute-sanitizer"), "2025.3", "PATH")
    assert typed(capsys, "verify", "one.yaml", "--sanitize", "memcheck")[0] == 0
    assert started[1] == ("verify", "--no-timing", "memcheck")


@pytest.mark.parametrize("spec", sorted(SPECS.glob("*gemm*.yaml")), ids=lambda path: path.stem)
def test_every_gemm_computes_the_problem_for_sanitizers(spec):
    it = plan(load(spec.read_bytes(), spec.name).spec)
    option, problem = _sanitized(it.problems)
    assert option == "--problem" and not [*family_of(it).problem_faults(it, [parse_problem(problem)])]
    assert ("groups" in problem) == bool(it.spec.grouped)


def test_a_grouped_kernel_is_sanitized_on_groups(workspace, machine, capsys, started, monkeypatch):
    reading = sys.modules["mmagen.families.reading"]
    plain, own = reading.read, (Problem.model_validate({"shape": (16, 16, 16), "groups": [3, 9]}),)

    def read(data, file):
        it, faults = plain(data, file)
        it.problems = own if file.startswith("two") else ()
        return it, faults

    monkeypatch.setattr(reading, "read", read)
    machine.sanitizer = Tool(Path("/bin/compute-sanitizer"), "2025.3", "PATH")
    assert typed(capsys, "verify", "one.yaml", "two.yaml", "--sanitize", "memcheck")[0] == 0
    assert [run[2] for run in started if run[-1] == "memcheck"] == ["224,160,96", "224,160,96:groups=70+0+1+129+17"]


def test_only_what_will_be_used_is_looked_for(workspace, machine, capsys):
    for options, looked_for in (
        ((), {"gpus"}),
        (("--arch", "sm_80"), {"gpus"}),
        (("--compile-only",), {"gpus"}),
        (("--compile-only", "--arch", "sm_80"), set()),
        (("--compile-only", "--arch", "sm_80", "--sanitize", "memcheck"), set()),
    ):
        assert typed(capsys, "verify", "one.yaml", *options)[0] == 0
        assert set(machine.calls[-1]["toolchain"].wanted) - {*COMPILE} == looked_for, options


def test_a_benchmark_is_a_further_run_where_there_is_one(workspace, machine, capsys, started):
    asked = ("verify", "one.yaml", "--bench", "--sustained", "2", "--max-dim", "512", "--no-timing")
    assert typed(capsys, *asked)[0] == 0
    assert machine.calls[0]["programs"] == ("verify", "bench")
    assert started == [("verify", "--max-dim", "512", "--no-timing")], "nothing but a gemm has a benchmark"
    machine.programs = ("bench",)
    assert typed(capsys, *asked)[0] == 0
    assert started[1:] == [("verify", "--max-dim", "512", "--no-timing"), ("bench", "--max-dim", "512", "--sustained", "2")]


@pytest.fixture
def emulated(monkeypatch):
    """What the emulator was asked for; it finds nothing wrong."""
    asked = []

    def emulate_all(projects, toolchain, **options):
        asked.append(options | {"names": [project.name for project in projects]})
        build = BuildResult("one", projects[0], True)
        return [Verdict("one", "passed", (record(name="one", device=EMULATED),), "", 0.0, build)]

    replace_module(monkeypatch, "mmagen.verify.emulated.verify", emulate_all=emulate_all)
    return asked


def test_the_emulator_stands_in_where_no_gpu_is(workspace, machine, capsys, emulated):
    machine.gpus = ()
    code, out, _ = typed(capsys, "verify", "one.yaml", "--arch", "sm_80", "--problem", "8,8,8", "--seed", "3", "--max-dim", "9")
    assert code == 0 and "1 passed (emulated)" in out and machine.calls == []
    asked = emulated[0]
    assert (asked["arch"], asked["problems"], asked["seed"], asked["max_dim"]) == ("sm_80", ("8,8,8",), 3, 9)
    assert asked["names"] == ["one"] and asked["distribution"] is None
    code, _, err = typed(capsys, "verify", "one.yaml", "--arch", "sm_80,sm_90a")
    assert code == 2 and "one architecture at a time" in err


def test_the_emulator_is_asked_beside_a_gpu_only_by_name(workspace, machine, capsys, emulated):
    assert typed(capsys, "verify", "one.yaml")[0] == 0 and emulated == []
    assert typed(capsys, "verify", "one.yaml", "--on", "cpu")[0] == 0 and len(emulated) == 1 == len(machine.calls)


@pytest.mark.parametrize("option", ["--bench", "--problem 8,8,8", "--max-dim 8", "--sanitize memcheck"])
def test_what_operations_have_no_use_for_is_refused(capsys, monkeypatch, option):
    replace_module(monkeypatch, "mmagen.cli.verify_atoms", verify=lambda *texts, **options: 0)
    code, _, err = typed(capsys, "verify", "--atoms", "all", *option.split())
    assert code == 2 and f"mmagen: {option.split()[0]} cannot be combined with --atoms" in err
    assert typed(capsys, "verify", "--atoms", "all", "--seed", "2") == (0, "", "")


def test_operations_or_projects_but_not_both(capsys):
    assert "give either specs or projects to verify" in typed(capsys, "verify", "one.yaml", "--atoms", "all")[2]
    assert "give either specs or projects to verify" in typed(capsys, "verify")[2]


def test_operations_without_a_gpu_are_in_every_report(capsys, monkeypatch):
    gone = Toolchain(remedies={"gpus": "no NVIDIA driver found"})
    monkeypatch.setattr("mmagen.toolchain.find.find_toolchain", lambda **_: gone)
    monkeypatch.setattr("mmagen.cli.verify_atoms.find_toolchain", lambda **_: gone)
    name = "SM80_16x8x16_F32F16F16F32_TN"
    code, out, err = typed(capsys, "verify", "--atoms", name, "--on", "gpu", "--json", "-")
    assert code == 77 and "no NVIDIA driver found" in err
    line = json.loads(out)
    assert (line["name"], line["disposition"], line["reason"]) == (name, "not_run", "no NVIDIA driver found")


@pytest.mark.parametrize(
    ("printed", "argument"),
    [
        ("16x8x16", "16,8,16"),
        ("16,8,16:beta=2", "16,8,16:beta=2"),
        ("300x200x136x3", "300,200,136,3"),
        ("1029x133x5 b2 ld+11 off+1 alpha=-1 beta=2.5 batch_stride_d=150000", None),
    ],
)
def test_a_problem_may_be_given_as_it_is_printed(printed, argument):
    if argument is None:
        problem = Problem(shape=(1029, 133, 5), batch=2, ld_pad=11, offset=1, alpha=-1, beta=2.5, batch_stride_d=150000)
        assert problem.text == printed
        argument = problem_argument(problem)
    assert as_argument(printed) == argument


@pytest.mark.parametrize("text", ["", "16x8", "16x8x16 b", "16x8x16 ld-3", "16,8", "16 8 16", "16x8x16 ld+3 b2"])
def test_what_is_no_problem_is_refused(text):
    with pytest.raises(UsageError, match="as it is printed"):
        as_argument(text)
