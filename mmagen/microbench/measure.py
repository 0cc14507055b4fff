"""Run the peak program; when a loop crashes or hangs it, the remaining loops run in a new process."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmagen.core.errors import ExitCode
from mmagen.core.process import Children, capture
from mmagen.core.progress import Progress
from mmagen.verify.run import last_message

# The program's record for one loop and one kind of inputs, and all records by name and inputs.
Record = dict[str, Any]
Records = dict[tuple[str, str], Record]
# Time allowed beyond the expected time before a loop counts as hung.
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Program:
    """path: the program, None when nothing compiled. failed: loops that do not compile, with the compiler's sentence.
    warnings: what ptxas said about wgmma that it runs one by one. seconds: of all compilers together, 0 when cached."""

    path: Path | None
    failed: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Settings:
    """What is measured: inputs as the program spells them, seconds of each measurement and ms of each sample."""

    inputs: tuple[str, ...] = ("random",)
    seconds: float = 1.0
    sample_ms: float = 2.0


def listed(program: Path) -> list[str]:
    """The operations that a program has, in its order."""
    return capture([program.absolute(), "--list"], timeout_s=60).stdout.splitlines()


def run(program: Path, names: Sequence[str], settings: Settings, progress: Progress | None = None) -> list[Record]:
    """A record for each of `names` that the program has and each of the inputs; what takes the program down is failed."""
    numbers = {name: number for number, name in enumerate(listed(program))}
    # The program goes through its loops in its own order: the first without a record is where it stopped.
    left = sorted((name for name in names if name in numbers), key=lambda name: numbers[name])
    records: Records = {}

    def report(name: str) -> None:
        if progress:
            progress(len({key[0] for key in records}), len(names), name)

    while left:
        outcome = _run_once(program, [numbers[name] for name in left], settings, records, report)
        left = [name for name in left if any((name, inputs) not in records for inputs in settings.inputs)]
        begun = [name for name in left if any((name, inputs) in records for inputs in settings.inputs)]
        _record_failure(left if outcome.hopeless else begun or ([] if outcome.lost else left[:1]), settings, records, outcome)
        left = [name for name in left if (name, settings.inputs[0]) not in records]
    return [records[name, inputs] for name in names for inputs in settings.inputs if (name, inputs) in records]


@dataclass(frozen=True)
class _Outcome:
    """How one process ended. lost: it had said itself which loop lost the device. hopeless: another one would end alike.
    disposition: of what it left undone."""

    reason: str
    lost: bool = False
    hopeless: bool = False
    disposition: str = "failed"


def _run_once(
    program: Path, numbers: Sequence[int], settings: Settings, records: Records, report: Callable[[str], None]
) -> _Outcome:
    command: list[str | Path] = [
        program.absolute(),
        "--json",
        "--only",
        ";".join(map(str, numbers)),
        "--inputs",
        ",".join(settings.inputs),
        "--seconds",
        f"{settings.seconds:g}",
        "--sample-ms",
        f"{settings.sample_ms:g}",
    ]
    patience = _PATIENCE_S + 3 * settings.seconds * len(settings.inputs)
    before, timed_out = len(records), threading.Event()
    last: Record = {}
    messages = []
    with Children() as children:
        child = children.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert child.stdout is not None

        def stop() -> None:
            timed_out.set()
            child.kill()

        def watched() -> threading.Timer:
            timer = threading.Timer(patience, stop)
            timer.daemon = True
            timer.start()
            return timer

        watch = watched()
        for line in child.stdout:
            watch.cancel()
            if record := _record(line):
                last = records[record["name"], record["inputs"]] = record
                report(record["name"])
            else:
                messages.append(line)
            watch = watched()
        code = child.wait()
        watch.cancel()
    output = last_message("".join(messages)).removeprefix(": ")
    if timed_out.is_set():
        return _Outcome(f"it did not end within {patience:g} s and was stopped")
    if code == ExitCode.NOTHING_VERIFIED and len(records) == before:
        return _Outcome(output or "no suitable GPU", hopeless=True, disposition="not_supported")
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    reason = f"the program ended with {how}{f': {output}' if output else ''}"
    return _Outcome(
        reason, lost=last.get("disposition") == "failed" and code == ExitCode.RUN_FAILED, hopeless=code == ExitCode.USAGE
    )


def _record(line: str) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "disposition" in record else None


def _record_failure(names: Sequence[str], settings: Settings, records: Records, outcome: _Outcome) -> None:
    for name in names:
        for inputs in settings.inputs:
            made = {"name": name, "inputs": inputs, "disposition": outcome.disposition, "reason": outcome.reason}
            records.setdefault((name, inputs), made)
