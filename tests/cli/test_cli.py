"""The verbs as typed: messages, exit codes, what is written and what is not. The modules behind them are fakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import mmagen.toolchain.find
from mmagen import __version__
from mmagen.core.cache import cache_is_off
from mmagen.core.notices import notice, take_notices
from tests.support.fakes import typed

_ROOT = Path(__file__).resolve().parents[2]


def test_version_and_usage(capsys):
    assert typed(capsys, "--version") == (0, f"mmagen {__version__}\n", "")
    code, _, err = typed(capsys, "build")
    assert code == 2 and "Missing argument" in err
    code, _, err = typed(capsys, "bild", "x")
    assert code == 2 and "No such command" in err
    assert "77" in typed(capsys, "--help")[1]


def test_build_writes_each_project(workspace, capsys):
    code, out, err = typed(capsys, "build", ".")
    assert (code, err) == (0, "") and "generated/one: 2 written" in out
    assert Path("generated/two/a.cu").read_bytes() == b"code"
    assert typed(capsys, "build", "one.yaml", "./one.yaml", "-o", "elsewhere")[0] == 0
    assert sorted(os.listdir("elsewhere")) == ["one"]


def test_no_tests_is_remembered_until_tests_are_asked_for(workspace, capsys):
    def has_tests():
        return json.loads(Path("generated/one/mmagen.json").read_bytes())["tests"]

    assert typed(capsys, "build", "one.yaml", "--no-tests")[0] == 0 and not has_tests()
    assert typed(capsys, "build", "one.yaml")[0] == 0 and not has_tests()
    assert typed(capsys, "build", "one.yaml", "--check")[0] == 0
    assert typed(capsys, "build", "one.yaml", "--check", "--tests")[:2] == (1, "generated/one/mmagen.json differs\n")
    code, _, err = typed(capsys, "verify", "generated/one")
    assert code == 2 and "built with --no-tests" in err and "verify generated/one/spec.yaml, or rebuild it" in err
    assert typed(capsys, "build", "one.yaml", "--tests")[0] == 0 and has_tests()
    assert typed(capsys, "build", "one.yaml", "--check")[0] == 0


def test_what_a_plan_has_to_say_is_said_and_no_failure(workspace, capsys):
    Path("odd.yaml").write_text("mended")
    code, _, err = typed(capsys, "build", "one.yaml", "odd.yaml")
    assert (code, err) == (0, "mmagen: mended: its layout is mended\n")


def test_refused_specs_do_not_stop_the_others(workspace, capsys):
    Path("bad.yaml").write_text("illegal")
    Path("worse.yaml").write_text("unreadable")
    code, out, err = typed(capsys, "build", "one.yaml", "bad.yaml", "worse.yaml")
    assert code == 2 and "generated/one: 2 written" in out and sorted(os.listdir("generated")) == ["one"]
    assert err == (
        "bad.yaml:7:9 stages: 6 need too much; at most 5\nworse.yaml:1:1: not YAML; write YAML\n"
        "mmagen: 2 of 3 specs refused: bad.yaml, worse.yaml; continuing with the others\n"
    )
    code, out, err = typed(capsys, "inspect", ".")
    assert code == 2 and out.endswith("about one\nabout two\n") and "2 of 4 specs refused" in err
    assert out.count("refused, 1 rule broken") == 2 and "<-- REFUSED: stages: 6 need too much; at most 5" in out


def test_nothing_is_written_when_all_specs_are_refused(workspace, capsys):
    Path("bad.yaml").write_text("illegal")
    code, out, err = typed(capsys, "build", "bad.yaml")
    assert (code, out) == (2, "") and not Path("generated").exists()
    assert err == "bad.yaml:7:9 stages: 6 need too much; at most 5\n"


def test_drift_and_failed_builds_beside_a_refused_spec(workspace, machine, capsys):
    Path("bad.yaml").write_text("illegal")
    assert typed(capsys, "build", "one.yaml", "bad.yaml", "--check")[0] == 1
    machine.ok = False
    code, _, err = typed(capsys, "build", "one.yaml", "bad.yaml", "--compile")
    assert code == 2 and "bad.yaml:7:9" in err and "1 project did not build" in err
    assert typed(capsys, "build", "one.yaml", "--compile")[0] == 3


def test_two_specs_of_one_name_are_refused_with_all_other_faults(workspace, capsys):
    Path("bad.yaml").write_text("illegal")
    Path("twin.yaml").write_text("one")
    code, _, err = typed(capsys, "build", "one.yaml", "bad.yaml", "twin.yaml")
    assert code == 2 and "both named one" in err and "bad.yaml:7:9" in err and not Path("generated").exists()


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("build", "gone.yaml"), "gone.yaml does not exist"),
        (("build", "sm90_other.yaml"), "sm90_other.yaml does not exist; pass a spec"),  # like the others in its suffix alone
        (("build", "one.yml"), "one.yml does not exist (did you mean one.yaml?)"),
        (("build", "empty"), "empty has no *.yaml files; pass a folder with specs (mmagen init writes a first one)"),
        (("build", "outer"), "pass a folder with specs (those in outer/kernels)"),
        (("build", "one.yaml", "twin.yaml"), "both named one"),
        (("build", "one.yaml", "--check", "--force"), "--check writes and compiles nothing"),
        (("build", "unreadable.yaml"), "unreadable.yaml cannot be read: Input/output error"),
        (("diff", "unreadable.yaml", "one.yaml"), "unreadable.yaml cannot be read: Input/output error"),
        (("verify", "one.yaml", "--timeout", "nan"), "nan is not a finite number"),
        (("verify", "one.yaml", "--bench", "--sustained", "inf"), "inf is not a finite number"),
        (("cache", "prune", "--days", "1e999"), "inf is not a finite number"),
        (("verify", "one.yaml", "--problem", "1,2"), "write it as M,N,K"),
        (("verify", "one.yaml", "--arch", "hopper"), "'hopper' is not a GPU architecture"),
        (("verify", "one.yaml", "--arch", "sm_90,sm_89a"), "there is no sm_89a"),
        (("build", "one.yaml", "--arch", "sm_90a"), "--arch is what --compile compiles for"),
        (("verify", "one.yaml", "--json", "-", "--csv", "-"), "only one of"),
        (("verify", "one.yaml", "--junit", "no/such/folder/x.xml"), "is not a folder; create it"),
        (("verify", "one.yaml", "--sustained", "2"), "add --bench"),
        (("verify", "one.yaml", "--dist", "overflow"), "--dist overflow requires --atoms"),
        (("verify", "empty"), "neither a generated project"),
    ],
)
def test_bad_usage(workspace, machine, capsys, arguments, reported):
    Path("empty").mkdir()
    Path("outer/kernels").mkdir(parents=True)
    Path("outer/kernels/gemm.mma.yaml").write_text("one")
    Path("twin.yaml").write_text("one")
    if "unreadable.yaml" in arguments:
        Path("unreadable.yaml").symlink_to("/proc/self/mem")  # nothing is at address 0
    code, _out, err = typed(capsys, *arguments)
    assert code == 2 and reported in err and "Traceback" not in err and machine.calls == []


def test_check_tells_drift_and_writes_nothing(workspace, capsys):
    assert typed(capsys, "build", "one.yaml", "--check")[0] == 1
    assert not Path("generated").exists()
    typed(capsys, "build", "one.yaml")
    assert typed(capsys, "build", "one.yaml", "--check") == (0, "", "")
    Path("generated/one/a.cu").write_text("mine")
    code, out, _ = typed(capsys, "build", "one.yaml", "--check")
    assert code == 1 and out == "generated/one/a.cu differs\n" and Path("generated/one/a.cu").read_text() == "mine"


def test_an_edited_project_does_not_keep_the_others_back(workspace, capsys):
    Path("generated/one").mkdir(parents=True)
    Path("generated/one/edited").touch()
    code, _out, err = typed(capsys, "build", ".")
    assert code == 2 and "edited by hand" in err and Path("generated/two/a.cu").exists()
    assert typed(capsys, "build", ".", "--force")[0] == 0


def test_vendored_headers_are_in_the_manifest(workspace, machine, capsys):
    assert typed(capsys, "build", "one.yaml", "--vendor-cutlass")[0] == 0
    manifest = json.loads(Path("generated/one/mmagen.json").read_text())
    assert Path("generated/one/third_party/cutlass.h").exists()
    assert list(manifest["files"]) == ["a.cu", "third_party/cutlass.h"]


def test_build_compile(workspace, machine, capsys):
    code, out, _ = typed(capsys, "build", "one.yaml", "--compile", "--arch", "sm_80,90a", "-j", "3")
    assert code == 0 and "one: compiled" in out and "one_verify" in out
    assert machine.calls[0]["arch"] == ("sm_80", "sm_90a") and machine.calls[0]["jobs"] == 3
    assert "gpus" not in machine.calls[0]["toolchain"].wanted
    machine.ok = False
    code, _, err = typed(capsys, "build", "one.yaml", "--compile")
    assert code == 3 and "one: a.cu(1): error: no" in err
    assert "gpus" in machine.calls[1]["toolchain"].wanted, "the GPU here says what to compile for"


def test_inspect(workspace, capsys):
    assert typed(capsys, "inspect", "one.yaml") == (0, "about one\n", "")


def test_a_refused_spec_in_a_pipe_is_shown():
    """A pipe, as a shell's <(...), can be read once."""
    spec = Path(__file__).resolve().parents[2] / "specs/hello_micro.yaml"
    command = f"{sys.executable} -m mmagen inspect <(sed 's/^tile: .*/tile: [1, 2, 3]/' {spec})"
    done = subprocess.run(["bash", "-c", command], text=True, capture_output=True, check=False)
    assert done.returncode == 2 and "tile" in done.stderr and "CTA tile         1 x 2 x 3" in done.stdout, done


def test_a_bug_is_one_line_and_its_traceback_is_for_the_asking(workspace, capsys, monkeypatch):
    monkeypatch.setattr(sys.modules["mmagen.generate.render"], "render", lambda plan, **_: 1 / 0)
    code, _, err = typed(capsys, "build", "one.yaml")
    assert code == 70 and err.count("\n") == 1 and "ZeroDivisionError" in err and "Traceback" not in err
    monkeypatch.setenv("MMAGEN_DEBUG", "1")
    assert "Traceback" in typed(capsys, "build", "one.yaml")[2]


def test_a_fault_of_the_disk_names_the_file_and_any_other_is_a_bug(workspace, capsys, monkeypatch):
    def refuse(plan, **_):
        raise error

    monkeypatch.setattr(sys.modules["mmagen.generate.render"], "render", refuse)
    error = OSError(28, "No space left on device", "some/file")
    full = "No space left on device; free space there, or set TMPDIR for temporary files\n"
    assert typed(capsys, "build", "one.yaml") == (2, "", f"mmagen: some/file: {full}")
    error = OSError(28, "No space left on device")
    place = f"a file could not be written, here or in {tempfile.gettempdir()}"
    assert typed(capsys, "build", "one.yaml") == (2, "", f"mmagen: {place}: {full}"), "a write does not name its file"
    error = OSError(13, "Permission denied", "some/file")
    assert typed(capsys, "build", "one.yaml") == (2, "", "mmagen: some/file: Permission denied\n")
    error = OSError("what now")
    assert typed(capsys, "build", "one.yaml")[0] == 70


@pytest.mark.parametrize("verb", [("build", "--compile"), ("verify",)])
def test_no_cache_holds_for_the_whole_verb(workspace, machine, capsys, monkeypatch, verb):
    seen = []
    find = mmagen.toolchain.find.find_toolchain
    monkeypatch.setattr("mmagen.toolchain.find.find_toolchain", lambda **named: seen.append(cache_is_off()) or find(**named))
    assert typed(capsys, *verb, "one.yaml")[0] == 0
    assert typed(capsys, *verb, "--no-cache", "one.yaml")[0] == 0
    assert seen == [False, True] and not cache_is_off()
    assert typed(capsys, "peak", "--no-cache", "nothing")[0] == 2 and not cache_is_off(), "errors end it too"


def test_programs_that_are_not_kept_are_not_offered(workspace, machine, capsys, monkeypatch):
    monkeypatch.setattr("mmagen.core.cache.is_kept", lambda path: False)
    out = typed(capsys, "build", "--compile", "one.yaml")[1]
    assert "  one_verify: not kept, because the cache could not be written" in out and "/one_verify" not in out


def test_remarks_are_printed_once_at_the_end(workspace, capsys, monkeypatch):
    def remark(plan, **_):
        for _ in range(2):
            notice("the cache is full")
        return {}

    monkeypatch.setattr(sys.modules["mmagen.generate.render"], "render", remark)
    take_notices()
    assert typed(capsys, "build", "one.yaml")[2] == "mmagen: the cache is full\n"
    assert typed(capsys, "--version")[2] == ""


def test_who_calls_main_keeps_its_signals(capsys):
    before = signal.getsignal(signal.SIGTERM)
    typed(capsys, "--version")
    assert signal.getsignal(signal.SIGTERM) is before


def test_interrupt(workspace, capsys, monkeypatch):
    def interrupt(plan, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["mmagen.generate.render"], "render", interrupt)
    assert typed(capsys, "build", "one.yaml") == (130, "", "mmagen: interrupted\n")


def _process(code, **options):
    # Buffered as usual, whatever the tests' own output is: what is left in a buffer is what a closed pipe is about.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"} | {"PYTHONPATH": str(_ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


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


@pytest.mark.parametrize(("say", "times"), [("click.echo", 1000), ("print", 1000), ("print", 1)])
def test_a_closed_pipe_is_no_traceback(say, times):
    child = _process(
        "import mmagen.cli.main as c, mmagen.cli.verbs.descriptions as verbs, click\n"
        f"verbs.schema.callback = lambda: [{say}('x' * 1000) for _ in range({times})] and 0\n"
        "c.main(['schema'])"
    )
    child.stdout.close()
    assert (child.stderr.read(), child.wait(30)) == ("", 141)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("verb", "code"), [("build spec.yaml", 0), ("inspect spec.yaml", 0), ("build gone.yaml", 2)])
def test_a_stream_that_is_closed_is_no_error(closed, verb, code, tmp_path):
    (tmp_path / "spec.yaml").write_bytes((_ROOT / "specs/hello_ownership.yaml").read_bytes())
    command = f"exec {sys.executable} -m mmagen {verb} {closed}"
    environment = os.environ | {"PYTHONPATH": str(_ROOT)}
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code and "internal error" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_take_the_children_along(tmp_path, number, code):
    note = tmp_path / "pid"
    child = _process(
        "import mmagen.cli.main as c, mmagen.cli.verbs.descriptions as verbs, os\nfrom mmagen.core.process import follow\n"
        f"script = 'echo $$ > {note}.new; mv {note}.new {note}; sleep 60; sleep 60'\n"
        "verbs.schema.callback = lambda: follow(['/bin/sh', '-c', script], env=os.environ, on_line=print)\n"
        "c.main(['schema'])",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # in the background it is ignored
    for _ in range(1200):
        if note.exists():
            break
        time.sleep(0.05)
    child.send_signal(number)
    _, err = child.communicate(timeout=30)
    assert child.returncode == code and "Traceback" not in err
    assert _living(int(note.read_text())) == []


def test_fakes_end_with_their_test():
    """In a process of their own, in which nothing is imported before the fakes are."""
    tests = ["tests/cli/test_cli.py::test_bad_usage", "tests/inspect/test_difference.py::test_headers_that_come_and_go"]
    child = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], capture_output=True, text=True, cwd=_ROOT
    )
    assert child.returncode == 0, child.stdout


def test_nothing_slow_is_imported_for_generating():
    child = _process(
        "import sys, mmagen.cli.main, mmagen.cli.build, mmagen.generate.write\n"
        "slow = {'tqdm', 'tabulate', 'platformdirs', 'subprocess', 'numpy', 'mmagen.build.build'}\n"
        "print(*sorted(slow & set(sys.modules)))"
    )
    out, err = child.communicate(timeout=60)
    assert (out.strip(), err) == ("", "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("mmagen ver", "plain,verify"),
        ("mmagen atoms SM80_16x8x16_F32F", "plain,SM80_16x8x16_F32F16F16F32_TN"),
        ("mmagen verify --ju", "plain,--junit"),
        ("mmagen build --arch sm_9", "plain,sm_90a"),
        ("mmagen new --arch sm_9", "plain,sm_90"),
        ("mmagen verify --arch sm_80,sm_9", "plain,sm_80,sm_90a"),
        ("mmagen init --spec sm90_gemm_bf16_pingpong1", "plain,sm90_gemm_bf16_pingpong128"),
    ],
)
def test_shell_completion(monkeypatch, capsys, words, offered):
    monkeypatch.setenv("_MMAGEN_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert offered in typed(capsys)[1].splitlines()


def test_the_shell_s_function_is_printed(monkeypatch, capsys):
    monkeypatch.setenv("_MMAGEN_COMPLETE", "zsh_source")
    assert "compdef _mmagen_completion mmagen" in typed(capsys)[1]
