"""Runs the program that verifies and times the kernels of a library, and starts it again without the kernel that crashed or hung.

The program is a project's `tests/tune.cu`, in a process of its own: a fault loses the CUDA context, and a kernel that hangs holds
it. The program says what begins before it does it, so that the kernel that is to blame is known.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmagen.core.process import Children

Record = dict[str, Any]
BASELINES = ("cublasLt_first", "cublasLt_best8")
_SILENCE_S = 60.0  # longer than the longest check of one kernel; a hang


@dataclass(frozen=True)
class Settings:
    """How the program measures. sample_ms: length of a sample; samples: of each kernel; within: kernels slower than this factor
    of the fastest get one sample; silence_s: a kernel that runs longer without a word hangs."""

    sample_ms: float = 1.5
    samples: int = 5
    within: float = 1.25
    seed: int = 1
    silence_s: float = _SILENCE_S


@dataclass(frozen=True)
class Machine:
    """What decides how many CTAs run at once: multiprocessors, and clusters that run at once by their number of CTAs."""

    multiprocessors: int
    clusters: Mapping[int, int]

    @staticmethod
    def of(item: Mapping[str, Any]) -> Machine:
        """As the program writes it."""
        return Machine(int(item["multiprocessors"]), {int(ctas): int(count) for ctas, count in item["clusters"].items()})

    def ctas(self, group: int, per_sm: int) -> int:
        """CTAs of a kernel with clusters of `group` CTAs that run at once, if `per_sm` fit an SM."""
        fitting = self.clusters.get(group) or self.multiprocessors // group
        return max(1, fitting * group * per_sm)


@dataclass
class Session:
    """What running a program yielded: records in their order, the machine, the chosen config by problem, the problems that could
    not be measured (too large for the device's memory, say) and the kernels that crashed or hung, with the reason."""

    records: list[Record] = field(default_factory=list)
    machine: Machine | None = None
    chosen: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    message: str = ""


def run(
    program: Path,
    kernels: Sequence[str],
    problems: Sequence[str],
    settings: Settings,
    on_record: Callable[[Record], None] = lambda _: None,
    until: float | None = None,
    env: Mapping[str, str] | None = None,
) -> Session:
    """Measure `kernels` on `problems`, written as the program's --problem takes them.

    on_record: called with each record as it comes; records of a kernel that crashed or hung have the disposition "failed".
    until: on time.monotonic(); no problem begins later. Raises OSError if the program does not start. A program that ends
    without having done anything is in `message`.
    """
    session = Session()
    done: set[str] = set()
    while True:
        left = [problem for problem in problems if problem not in done]
        alive = [name for name in kernels if name not in session.lost]
        if not left or not alive or (until is not None and time.monotonic() >= until):
            return session
        last, reason = _one_process(program, alive, left, settings, session, done, on_record, until, env)
        if not reason:
            return session
        if last is None:
            session.message = reason
            return session
        if last["name"] in alive:
            session.lost[last["name"]] = f"{last['step']} of {last['problem']}: {reason}"
            failed = {"name": last["name"], "problem": last["problem"], "disposition": "failed", "reason": reason}
            session.records.append(failed)
            on_record(failed)
        else:  # not the fault of a kernel of ours
            session.skipped[last["problem"]] = f"{last['name']}: {reason}"
            done.add(last["problem"])


def _one_process(
    program: Path,
    kernels: Sequence[str],
    problems: Sequence[str],
    settings: Settings,
    session: Session,
    done: set[str],
    on_record: Callable[[Record], None],
    until: float | None,
    env: Mapping[str, str] | None,
) -> tuple[dict[str, str] | None, str]:
    """Run the program once. What it did last, and why it ended early, or "" if it did not (or time is up)."""
    command = [str(program), "--json", "--sample-ms", f"{settings.sample_ms:g}", "--reps", str(settings.samples)]
    command += ["--within", f"{settings.within:g}", "--seed", str(settings.seed)]
    command += [word for name in kernels for word in ("--config", name)]
    command += [word for problem in problems for word in ("--problem", problem)]
    last: dict[str, str] | None = None
    machine: dict[str, Any] | None = None
    environment = {**os.environ, **(env or {})}
    with Children() as children:
        child = children.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        complaints = _Complaints(child)
        for line in _lines(child, settings.silence_s):
            if line is None:
                return last, f"it said nothing for {settings.silence_s:g} s and was stopped"
            item = _parsed(line)
            if "at" in item:
                begins = last is None or item["at"]["problem"] != last["problem"]
                if begins and until is not None and time.monotonic() >= until:
                    return last, ""
                last = item["at"]
            elif "machine" in item:
                machine = item["machine"]
                session.machine = Machine.of(item["machine"])
            elif "chosen" in item:
                session.chosen[item["chosen"]["problem"]] = item["chosen"]["config"]
            elif "skipped" in item:
                session.skipped[item["skipped"]["problem"]] = item["skipped"]["reason"]
                done.add(item["skipped"]["problem"])
            elif "disposition" in item:
                item["machine"] = machine
                session.records.append(item)
                done.add(item["problem"])
                on_record(item)
        child.wait()
        if all(problem in done for problem in problems):
            return last, ""
        reason = complaints.text() or f"it ended with exit code {child.returncode}"
        return (last if last is not None and last["problem"] not in done else None), reason


def _parsed(line: str) -> dict[str, Any]:
    """The JSON object of a line; {} for anything else, e.g. a line cut by a crash."""
    try:
        item = json.loads(line)
    except ValueError:
        return {}
    return item if isinstance(item, dict) else {}


def _lines(child: subprocess.Popen[str], silence_s: float) -> Iterator[str | None]:
    """Lines of the child's output as they come, and None if there is none for so long."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert child.stdout
        for line in child.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=silence_s)
        except queue.Empty:
            yield None
            return
        if line is None:
            return
        yield line


class _Complaints:
    """The last line that a child prints on stderr, read beside its output."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._lines: list[str] = []
        self._child = child
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._child.stderr
        for line in self._child.stderr:
            if line.strip():
                self._lines[:] = [line.strip()[:300]]

    def text(self) -> str:
        self._thread.join(timeout=5)
        return self._lines[0] if self._lines else ""
