"""Programs that behave and programs that do not."""

from __future__ import annotations

import os
import time

import pytest

from mmagen.verify.run import run
from tests.support.fake_builds import fake_build, printing, record


def test_records_with_ptxas_filling_what_is_not_known(tmp_path):
    build = fake_build(tmp_path, printing(record(), record(registers=7, spill_bytes=3)))
    result = run(build)
    assert result.reason == "" and result.exit_code == 0
    assert [(r["registers"], r["spill_bytes"]) for r in result.records] == [(128, 12), (7, 3)]


def test_arguments_reach_the_program(tmp_path):
    build = fake_build(tmp_path, f"r = {record()!r}\nr['reason'] = ' '.join(sys.argv[1:])\nprint(json.dumps(r))")
    assert run(build, args=["--seed", "3"]).records[0]["reason"] == "--json --seed 3"


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("print('Attempting to use tma without CUTE_ARCH_TMA_SM90_ENABLED')", "the device says: Attempting to use"),
        ("sys.stderr.write('ERROR : Attempting to use X without Y_ENABLED.\\n')", "the device says"),
        ("print('hello')", "line 1 of its output is not JSON: hello"),
        ("print('[1]')", "is not a JSON object"),
        ("print('{}')", "lacks name, problem"),
        (printing(record(disposition="fine")), "unknown disposition 'fine'"),
        ("sys.stderr.write('bad flag\\n'); sys.exit(2)", "ended with exit code 2: bad flag"),
        ("sys.exit(3)", "ended with exit code 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("time.sleep(60)", "did not end within 0.5 s"),
    ],
)
def test_whatever_a_program_does_wrong_is_a_sentence(tmp_path, body, reported):
    result = run(fake_build(tmp_path, body), timeout_s=0.5 if "sleep" in body else 60.0)
    assert reported in result.reason


def test_good_records_survive_a_bad_line(tmp_path):
    result = run(fake_build(tmp_path, f"print('oops')\n{printing(record())}"))
    assert len(result.records) == 1 and "line 1" in result.reason


def test_what_cannot_start(tmp_path):
    build = fake_build(tmp_path, "")
    assert "no program bench" in run(build, program="bench").reason
    build.programs["verify"].chmod(0o644)
    result = run(build)
    assert "does not start" in result.reason and result.exit_code is None


def test_a_timeout_takes_grandchildren_along(tmp_path):
    note = tmp_path / "pid"
    build = fake_build(
        tmp_path,
        "import subprocess\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import signal, time; "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])\n"
        f"open({str(note)!r}, 'w').write(str(p.pid))\ntime.sleep(600)",
    )
    for timeout_s in (1.0, 5.0, 25.0):  # a busy machine needs longer to start two processes
        start = time.monotonic()
        result = run(build, timeout_s=timeout_s)
        assert "did not end" in result.reason and time.monotonic() - start < 50 + timeout_s
        if note.exists() and note.read_text():
            break
    pid = int(note.read_text())
    for _ in range(50):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.1)
    pytest.fail("the grandchild still runs")


def test_a_timeout_also_holds_when_only_a_grandchild_is_left(tmp_path):
    """It has the program's output open, as what compute-sanitizer started does when that dies."""
    build = fake_build(
        tmp_path, "import subprocess\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\nos._exit(0)"
    )
    start = time.monotonic()
    result = run(build, timeout_s=1.0)
    assert "did not end within 1 s" in result.reason and time.monotonic() - start < 50


def test_a_sanitizer_wraps_the_program_and_its_findings_fail(tmp_path):
    build = fake_build(tmp_path / "b", printing(record(input_dist="uniform"), record()))
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(
        "#!/bin/sh\necho '========= COMPUTE-SANITIZER'\nshift 4\n\"$@\"\n"
        "echo '========= ERROR SUMMARY: 0 errors'\nexit ${CODE:-0}\n"
    )
    tool.chmod(0o755)
    result = run(build, sanitizer=[str(tool), "memcheck"])
    assert result.reason == "" and result.program == "verify under memcheck"
    assert [r["input_dist"] for r in result.records] == ["uniform, memcheck", "memcheck"]
    tool.write_text("#!/bin/sh\necho '========= COMPUTE-SANITIZER'\necho '========= Invalid __global__ read'\nexit 99\n")
    assert run(build, sanitizer=[str(tool), "memcheck"]).reason == (
        "verify under memcheck found errors: Invalid __global__ read"
    )
