"""The test suites, random specs and other commands as jobs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from tools.gpu_round.jobs import COMPILE, TESTS, Ended, Job, Outcome, of_exit_code, text_of

# Files of tests whose modules compile much: as many jobs, each of which takes every N-th test.
_SHARDS = {"test_mutations.py": 8, "test_error_bounds.py": 2, "test_operations.py": 2}
# What a round does itself, with the limits that it was given.
_NOT_HERE = ("test_specs.py",)
_OF_TWO_GPUS = ("test_two_devices.py",)
_TEST_CORES, _RANDOM_CORES = 2, 6
_TESTS_LIMIT_S = 900.0
_NO_TESTS = 5  # pytest's exit code; all have passed before
_RANDOM = {"right": "passed", "not_run": "skipped", "wrong": "wrong"}  # the other outcomes are failures
_REFUSED = ("refused", "refused_unmended")


def files_of(folder: Path) -> list[Path]:
    """The test files of a folder that a round runs."""
    return [path for path in sorted(folder.glob("test_*.py")) if path.name not in _NOT_HERE]


def tests(files: Sequence[Path], work: Path, done: Collection[str], keep: Path) -> list[Job]:
    """The files' tests, in shards that end at about the same time, without those that `done` names. keep: the file to which what
    they said is appended, for tools.test_tables."""
    found = []
    passed = work / "passed_tests"
    passed.write_text("".join(f"{test}\n" for test in sorted(done)), "utf-8")
    for path in files:
        count = _SHARDS.get(path.name, 1)
        for index in range(1, count + 1):
            name = f"{path.name} {index}/{count}"
            report = work / f"{path.stem}{index}.jsonl"
            command: tuple[str, ...] = (sys.executable, "-m", "pytest", str(path), "-q", "-p", "no:cacheprovider")
            command += ("-p", "tools.gpu_round.reported", "--round-report", str(report), "--round-shard", f"{index}/{count}")
            command += ("--round-passed", str(passed))
            gpus = 2 if path.name in _OF_TWO_GPUS else 1
            read = _kept(_tested(name, report), report, keep)
            found.append(
                Job(name, "tests", (name,), command, read, _TEST_CORES, (TESTS, COMPILE), gpus, limit_s=_TESTS_LIMIT_S)
            )
    return found


def _tested(name: str, report: Path) -> Callable[[Ended], list[Outcome]]:
    """Reads what the plugin wrote: an outcome for each test that was collected or reported."""

    def read(ended: Ended) -> list[Outcome]:
        lines = [json.loads(line) for line in text_of(report).splitlines() if line.endswith("}")]
        word = ended.word or "failed"
        why = ended.reason or f"pytest ended with exit code {ended.exit_code}: {ended.last_line}"
        found: dict[str, Outcome] = {}
        for line in lines:
            found |= {test: Outcome("tests", test, word, why) for test in line.get("collected", ())}
        bad = {line["test"] for line in lines if line.get("outcome") == "failed"}
        for line in lines:
            if "test" in line and (line["test"] not in bad or line["outcome"] == "failed"):
                found[line["test"]] = Outcome("tests", line["test"], line["outcome"], line["reason"])
        nothing_left = ended.exit_code == _NO_TESTS and lines
        return [*found.values()] or ([] if nothing_left else [Outcome("tests", name, word, why)])

    return read


def _kept(read: Callable[[Ended], list[Outcome]], report: Path, keep: Path) -> Callable[[Ended], list[Outcome]]:
    """The same, and the report is appended to a file."""

    def then(ended: Ended) -> list[Outcome]:
        if text := text_of(report):
            with keep.open("a", encoding="utf-8") as file:
                file.write(text.rstrip("\n") + "\n")
        return read(ended)

    return then


def random_specs(seed: int, count: int, out: Path) -> Job:
    """`count` random specs that `build` accepts. out: the records of tests.properties, where a second round goes on."""
    unit = f"{seed}:{count}"
    command: tuple[str, ...] = (
        sys.executable,
        "-m",
        "tests.properties",
        "--on",
        "gpu",
        "--count",
        str(count),
        "--seed",
        str(seed),
    )
    command += ("--out", str(out), "--jobs", str(_RANDOM_CORES), "--limit", "200")

    def read(ended: Ended) -> list[Outcome]:
        records = [json.loads(line) for line in text_of(out).splitlines() if line.endswith("}")]
        found = [
            Outcome("random", one["name"], _RANDOM.get(one["outcome"], "failed"), _why(one["outcome"], one["what"]))
            for one in {one["name"]: one for one in records}.values()
            if one["outcome"] not in _REFUSED
        ]
        if ended.exit_code is None or ended.exit_code > 1:  # 1 says that there is a failure among them
            why = ended.reason or ended.last_line
            missing = max(0, count - len(found))
            found.append(Outcome("random", unit, ended.word or "failed", f"{missing} of {count} specs are missing: {why}"))
        return found or [Outcome("random", unit, "failed", "no spec was accepted")]

    return Job(f"random {unit}", "random", (unit,), command, read, _RANDOM_CORES, (COMPILE, TESTS), limit_s=3600.0)


def _why(outcome: str, what: str) -> str:
    return "" if outcome == "right" else f"{outcome}: {what}"


def alone(text: str) -> Job:
    """Any command that measures, with a GPU that nothing else uses; `python` is the one that runs this."""
    program, *rest = shlex.split(text)
    return Job(
        text,
        "alone",
        (text,),
        (sys.executable if program == "python" else program, *rest),
        of_exit_code("alone", text),
        2,
        alone=True,
        limit_s=3600.0,
    )
