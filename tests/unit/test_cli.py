"""The verbs as typed: messages, exit codes, what is written and what is not. The modules behind them are fakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from fake_builds import fake_build, printing, record

from mmagen import __version__
from mmagen.cli import main
from mmagen.errors import Diagnostic, Fault, SpecError, SpecFaults, UsageError
from mmagen.toolchain import COMPILE, Gpu, Tool, Toolchain

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class _Written:
    folder: Path
    changed: tuple = ()
    removed: tuple = ()
    unchanged: tuple = ()


def _load(data, file):
    text = data.decode()
    if text.startswith("unreadable"):
        raise SpecError((Diagnostic(file, 1, 1, (), "not YAML", "write YAML"),))

    def locate(faults):
        return tuple(Diagnostic(file, 7, 9, f.key, f.what, f.remedy) for f in faults)

    return SimpleNamespace(spec=text.strip(), source=SimpleNamespace(locate=locate))


def _plan(spec):
    if spec.startswith("illegal"):
        raise SpecFaults((Fault(("stages",), "6 need too much", "at most 5"),))
    return SimpleNamespace(name=spec, kernel="gemm", arch=("sm_80",), spec_sha="abc",
                           extended=False)


def _render(plan):
    manifest = {"name": plan.name, "kernel": plan.kernel, "arch": list(plan.arch), "files": {"a.cu": "0"}}
    return {"a.cu": b"code", "mmagen.json": (json.dumps(manifest) + "\n").encode()}


def _write(files, folder, force=False):
    if (folder / "edited").exists() and not force:
        raise UsageError(f"{folder}/a.cu was edited by hand; pass --force")
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return _Written(folder, tuple(files))


def _check(files, folder):
    return tuple(name for name, data in files.items()
                 if not (folder / name).exists() or (folder / name).read_bytes() != data)


@pytest.fixture
def house(tmp_path, monkeypatch):
    """The other rooms as fakes, and an empty folder to work in."""
    fakes = {"load": {"load": _load}, "plan": {"plan": _plan}, "render": {"render": _render},
             "write": {"write": _write, "check": _check}, "inspect": {"inspect": lambda plan: f"about {plan.name}"},
             "vendor": {"vendor_cutlass": lambda include, extended: {"third_party/cutlass.h": b"header"}}}
    for name, content in fakes.items():
        module = ModuleType(f"mmagen.{name}")
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, f"mmagen.{name}", module)
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        Path(f"{name}.yaml").write_text(f"{name}\n")
    return tmp_path


@pytest.fixture
def machine(monkeypatch):
    """A toolchain and a build that the test decides on: set .gpus, .sanitizer, .body; .calls says what was asked."""
    tool = Tool(Path("/usr/bin/tool"), "1.0", "PATH")
    state = SimpleNamespace(gpus=(Gpu("Fake", (9, 0), "1"),), sanitizer=None, calls=[], ok=True,
                            body=printing(record(name="NAME")))

    def find(env=None, want=()):
        tools = dict.fromkeys(COMPILE, tool)
        return Toolchain(**tools, gpus=state.gpus, sanitizer=state.sanitizer, wanted=tuple(want),
                         remedies={"gpus": "no NVIDIA GPU found", "sanitizer": "install it"})

    def build(projects, toolchain, **options):
        state.calls.append(options | {"projects": list(projects), "toolchain": toolchain,
                                      "files": [sorted(os.listdir(p)) for p in projects]})
        root = Path.cwd() / "cache"
        names = [json.loads((p / "mmagen.json").read_text())["name"] for p in projects]
        made = [fake_build(root / str(i), state.body.replace("NAME", name), name=name, kernel="gemm")
                for i, name in enumerate(names)]
        return [b if state.ok else replace(b, ok=False, programs={}, reason="no", errors=("a.cu(1): error: no",))
                for b in made]

    monkeypatch.setattr("mmagen.toolchain.find_toolchain", find)
    monkeypatch.setattr("mmagen.build.build", build)
    return state


def _type(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def test_version_and_usage(capsys):
    assert _type(capsys, "--version") == (0, f"mmagen {__version__}\n", "")
    code, _, err = _type(capsys, "build")
    assert code == 2 and "Missing argument" in err
    code, _, err = _type(capsys, "bild", "x")
    assert code == 2 and "No such command" in err
    assert "77" in _type(capsys, "--help")[1]


def test_build_writes_each_project(house, capsys):
    code, out, err = _type(capsys, "build", ".")
    assert (code, err) == (0, "") and "generated/one: 2 written" in out
    assert Path("generated/two/a.cu").read_bytes() == b"code"
    assert _type(capsys, "build", "one.yaml", "./one.yaml", "-o", "elsewhere")[0] == 0
    assert sorted(os.listdir("elsewhere")) == ["one"]


def test_any_fault_in_any_spec_writes_nothing_and_all_are_told(house, capsys):
    Path("bad.yaml").write_text("illegal")
    Path("worse.yaml").write_text("unreadable")
    code, out, err = _type(capsys, "build", "one.yaml", "bad.yaml", "worse.yaml")
    assert code == 2 and out == "" and not Path("generated").exists()
    assert err == "bad.yaml:7:9 stages: 6 need too much; at most 5\nworse.yaml:1:1: not YAML; write YAML\n"


@pytest.mark.parametrize(("arguments", "told"), [
    (("build", "gone.yaml"), "gone.yaml does not exist"),
    (("build", "empty"), "empty has no *.yaml files"),
    (("build", "one.yaml", "twin.yaml"), "both named one"),
    (("build", "one.yaml", "--check", "--force"), "--check writes and compiles nothing"),
    (("build", "locked.yaml"), "locked.yaml: Is a directory"),
    (("verify", "one.yaml", "--problem", "1,2"), "write it as M,N,K"),
    (("verify", "one.yaml", "--arch", "hopper"), "'hopper' is not a GPU architecture"),
    (("verify", "one.yaml", "--json", "-", "--csv", "-"), "only one of"),
    (("verify", "one.yaml", "--junit", "no/such/folder/x.xml"), "existing folder"),
    (("verify", "one.yaml", "--sustained", "2"), "add --bench"),
    (("verify", "empty"), "neither a generated project"),
])
def test_bad_usage(house, machine, capsys, monkeypatch, arguments, told):
    Path("empty").mkdir()
    Path("twin.yaml").write_text("one")
    if "locked.yaml" in arguments:
        Path("locked.yaml").write_text("x")

        def refuse(self):
            raise IsADirectoryError(21, "Is a directory", str(self))

        monkeypatch.setattr(Path, "read_bytes", refuse)
    code, out, err = _type(capsys, *arguments)
    assert code == 2 and told in err and "Traceback" not in err and machine.calls == []


def test_check_tells_drift_and_writes_nothing(house, capsys):
    assert _type(capsys, "build", "one.yaml", "--check")[0] == 1
    assert not Path("generated").exists()
    _type(capsys, "build", "one.yaml")
    assert _type(capsys, "build", "one.yaml", "--check") == (0, "", "")
    Path("generated/one/a.cu").write_text("mine")
    code, out, _ = _type(capsys, "build", "one.yaml", "--check")
    assert code == 1 and out == "generated/one/a.cu differs\n" and Path("generated/one/a.cu").read_text() == "mine"


def test_an_edited_project_does_not_keep_the_others_back(house, capsys):
    Path("generated/one").mkdir(parents=True)
    Path("generated/one/edited").touch()
    code, out, err = _type(capsys, "build", ".")
    assert code == 2 and "edited by hand" in err and Path("generated/two/a.cu").exists()
    assert _type(capsys, "build", ".", "--force")[0] == 0


def test_vendored_headers_are_in_the_manifest(house, machine, capsys):
    assert _type(capsys, "build", "one.yaml", "--vendor-cutlass")[0] == 0
    manifest = json.loads(Path("generated/one/mmagen.json").read_text())
    assert Path("generated/one/third_party/cutlass.h").exists()
    assert list(manifest["files"]) == ["a.cu", "third_party/cutlass.h"]


def test_build_compile(house, machine, capsys):
    code, out, _ = _type(capsys, "build", "one.yaml", "--compile", "--arch", "sm_80,90a", "-j", "3")
    assert code == 0 and "one: compiled" in out and "one_verify" in out
    assert machine.calls[0]["arch"] == ("sm_80", "sm_90a") and machine.calls[0]["jobs"] == 3
    machine.ok = False
    code, _, err = _type(capsys, "build", "one.yaml", "--compile")
    assert code == 3 and "one: a.cu(1): error: no" in err


def test_verify_passes_and_reports(house, machine, capsys):
    code, out, _ = _type(capsys, "verify", "one.yaml", "--json", "r.jsonl", "--csv", "r.csv", "--junit", "r.xml")
    assert code == 0 and "1 passed" in out
    assert machine.calls[0]["programs"] == ("verify",) and machine.calls[0]["files"] == [["a.cu", "mmagen.json"]]
    assert not Path("generated").exists()
    assert json.loads(Path("r.jsonl").read_text())["disposition"] == "passed"
    assert Path("r.csv").read_text().startswith("name,problem") and "<testsuite " in Path("r.xml").read_text()


def test_verify_builds_a_project_folder_as_it_is(house, machine, capsys):
    _type(capsys, "build", "one.yaml")
    Path("generated/one/a.cu").write_text("a mutant")
    assert _type(capsys, "verify", "generated/one", "two.yaml", "generated/one/")[0] == 0
    assert [str(p) for p in machine.calls[0]["projects"]][0] == "generated/one"
    assert len(machine.calls[0]["projects"]) == 2 and Path("generated/one/a.cu").read_text() == "a mutant"


@pytest.mark.parametrize(("body", "code", "told"), [
    (printing(record(name="NAME", disposition="incorrect", reason="row 3"), code=1), 1, "row 3"),
    ("sys.exit(4)", 4, "exit code 4"),
    (printing(record(name="NAME", disposition="not_supported", reason="needs sm_90a"), code=77), 77, "needs sm_90a"),
    ("", 4, "reported no result"),
    ("time.sleep(60)", 4, "did not end within 0.5 s"),
])
def test_verify_exit_codes(house, machine, capsys, body, code, told):
    machine.body = body
    ended, out, _ = _type(capsys, "verify", "one.yaml", "--timeout", "0.5")
    assert ended == code and told in out


def test_verify_without_a_gpu_still_compiles(house, machine, capsys):
    machine.gpus = ()
    code, out, _ = _type(capsys, "verify", "one.yaml", "--sanitize", "memcheck")
    assert code == 77 and "no NVIDIA GPU found" in out and len(machine.calls) == 1
    code, out, _ = _type(capsys, "verify", "one.yaml", "--on", "gpu")
    assert code == 77 and "no NVIDIA GPU found" in out
    code, out, _ = _type(capsys, "verify", "one.yaml", "--compile-only")
    assert code == 0 and "compiled" in out
    code, _, err = _type(capsys, "verify", "one.yaml", "--on", "cpu", "--bench")
    assert code == 2 and "--bench and --sanitize need a GPU" in err
    machine.ok = False
    code, out, err = _type(capsys, "verify", "one.yaml", "--on", "gpu")
    assert code == 3 and "one: a.cu(1): error: no" in err and "build failed" in out


def test_verify_options_reach_the_program(house, machine, capsys):
    machine.body = f"r = {record(name='NAME')!r}\nr['reason'] = ' '.join(sys.argv[1:])\nprint(json.dumps(r))"
    code, out, err = _type(capsys, "verify", "one.yaml", "--json", "-", "--seed", "7", "--problem", "8,8,8:ld_pad=8",
                           "--problem", "1,2,3,4", "--max-dim", "64", "--no-timing", "--arch", "sm_90a", "--dist", "zeros")
    assert code == 0 and "1 passed" in err
    assert json.loads(out)["reason"] == ("--json --problem 8,8,8:ld_pad=8 --problem 1,2,3,4 --seed 7 --dist zeros "
                                         "--max-dim 64 --no-timing")
    assert machine.calls[0]["arch"] == ("sm_90a",)


def test_bench_and_sanitizers_are_further_runs(house, machine, capsys, monkeypatch):
    started = []

    def run(result, *, program, args, timeout_s, sanitizer):
        from mmagen.run import RunResult

        started.append((program, *args, *sanitizer[1:]))
        return RunResult(result.name, program, (record(name=result.name),), 0)

    monkeypatch.setattr("mmagen.run.run", run)
    assert _type(capsys, "verify", "one.yaml", "--sanitize", "memcheck")[0] == 4
    assert machine.calls == [], "a missing sanitizer is told before anything is compiled"
    machine.sanitizer = Tool(Path("/bin/compute-sanitizer"), "2025.3", "PATH")
    assert _type(capsys, "verify", "one.yaml", "--sanitize", "memcheck", "--sanitize", "racecheck", "--bench")[0] == 0
    assert machine.calls[0]["programs"] == ("verify", "bench")
    assert [s[0] for s in started] == ["verify", "verify", "verify"] and started[2][-1] == "racecheck"
    assert "224,160,96" in started[1] and "--no-timing" in started[1]


def test_inspect(house, capsys):
    assert _type(capsys, "inspect", "one.yaml") == (0, "about one\n", "")


def test_a_bug_is_one_line_and_its_traceback_is_for_the_asking(house, capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["mmagen.render"], "render", lambda plan: 1 / 0)
    code, _, err = _type(capsys, "build", "one.yaml")
    assert code == 70 and err.count("\n") == 1 and "ZeroDivisionError" in err and "Traceback" not in err
    monkeypatch.setenv("MMAGEN_DEBUG", "1")
    assert "Traceback" in _type(capsys, "build", "one.yaml")[2]


def test_interrupt(house, capsys, monkeypatch):
    def interrupt(plan):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["mmagen.render"], "render", interrupt)
    assert _type(capsys, "build", "one.yaml") == (130, "", "mmagen: interrupted\n")


def _process(code, **options):
    env = os.environ | {"PYTHONPATH": str(_ROOT)}
    return subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **options)


def _living(group):
    """Processes of a group that are not merely waiting for someone to take note of their end."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = stat.read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state != "Z":
            found.append(stat.parent.name)
    return found


def test_a_closed_pipe_is_no_traceback():
    child = _process("import mmagen.cli as c, click\n"
                     "c.schema.callback = lambda: [click.echo('x' * 1000) for _ in range(1000)] and 0\n"
                     "c.main(['schema'])")
    child.stdout.close()
    assert (child.stderr.read(), child.wait(30)) == ("", 141)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_take_the_children_along(tmp_path, number, code):
    note = tmp_path / "pid"
    child = _process(
        "import mmagen.cli as c, sys\nfrom mmagen.process import follow\nimport os\n"
        f"script = 'echo $$ > {note}.new; mv {note}.new {note}; sleep 60; sleep 60'\n"
        "c.schema.callback = lambda: follow(['/bin/sh', '-c', script], env=os.environ, on_line=print)\n"
        "c.main(['schema'])")
    for _ in range(300):
        if note.exists():
            break
        time.sleep(0.05)
    child.send_signal(number)
    _, err = child.communicate(timeout=30)
    assert child.returncode == code and "Traceback" not in err
    assert _living(int(note.read_text())) == []


def test_nothing_slow_is_imported_for_generating():
    child = _process("import sys, mmagen.cli, mmagen.verbs\n"
                     "print(*sorted({'tqdm', 'tabulate', 'platformdirs', 'subprocess', 'numpy'} & set(sys.modules)))")
    out, err = child.communicate(timeout=60)
    assert (out.strip(), err) == ("", "")
