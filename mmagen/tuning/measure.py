"""Runs the program that verifies and times the kernels of a library, and starts it again without the kernel that crashed or hung.

The program is a project's `tests/tune.cu`, in a process of its own: a fault loses the CUDA context, and a kernel that hangs holds
it. The program says what begins before it does it, so that the kernel that is to blame is known. It takes one problem after the
other from its standard input, and ends when that ends.
"""

from __future__ import annotations

import contextlib
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
    """What Program.measure does, by a program that ends with it."""
    with contextlib.closing(Program(program, env)) as running:
        return running.measure(kernels, problems, settings, on_record, until)


class Program:
    """The program, kept running from one call to the next with the same kernels and settings: its start takes most of a second."""

    def __init__(self, path: Path, env: Mapping[str, str] | None = None) -> None:
        """env: variables of its environment beside those of this process."""
        self._path, self._env = path, dict(env or {})
        self._child: _Child | None = None
        self._machine: dict[str, Any] | None = None
        self._busy = threading.Lock()  # a GPU measures one thing at a time

    def close(self) -> None:
        """End the program, whatever it does."""
        if self._child:
            self._child.close()
        self._child = None

    def measure(
        self,
        kernels: Sequence[str],
        problems: Sequence[str],
        settings: Settings,
        on_record: Callable[[Record], None] = lambda _: None,
        until: float | None = None,
    ) -> Session:
        """Measure `kernels` on `problems`, written as the program's --problem takes them.

        on_record: called with each record as it comes; records of a kernel that crashed or hung have the disposition "failed".
        until: on time.monotonic(); no problem begins later. Raises OSError if the program does not start. A program that ends
        without having done anything is in `message`.
        """
        with self._busy:
            session = Session()
            try:
                self._measure(session, kernels, problems, settings, on_record, until)
            except BaseException:
                self.close()  # it may be anywhere in a problem
                raise
            return session

    def _measure(
        self,
        session: Session,
        kernels: Sequence[str],
        problems: Sequence[str],
        settings: Settings,
        on_record: Callable[[Record], None],
        until: float | None,
    ) -> None:
        done: set[str] = set()
        while True:
            left = [problem for problem in problems if problem not in done]
            alive = [name for name in kernels if name not in session.lost]
            if not left or not alive or (until is not None and time.monotonic() >= until):
                return
            last, reason = self._until_it_ends(alive, left, settings, session, done, on_record, until)
            if not reason:
                return
            self.close()
            if last is None:
                session.message = reason
                return
            if last["name"] in alive:
                session.lost[last["name"]] = f"{last['step']} of {last['problem']}: {reason}"
                failed = {"name": last["name"], "problem": last["problem"], "disposition": "failed", "reason": reason}
                session.records.append(failed)
                on_record(failed)
            else:  # not the fault of a kernel of ours
                session.skipped[last["problem"]] = f"{last['name']}: {reason}"
                done.add(last["problem"])

    def _until_it_ends(
        self,
        kernels: Sequence[str],
        problems: Sequence[str],
        settings: Settings,
        session: Session,
        done: set[str],
        on_record: Callable[[Record], None],
        until: float | None,
    ) -> tuple[dict[str, str] | None, str]:
        """What the program did last, and why it ended early, or "" if it did not (or time is up)."""
        child = self._running(command(self._path, kernels, settings))
        last: dict[str, str] | None = None
        for problem in problems:
            if until is not None and time.monotonic() >= until:
                break
            child.ask(problem)
            for line in child.lines(settings.silence_s):
                if line is None:
                    return last, f"it said nothing for {settings.silence_s:g} s and was stopped"
                item = _parsed(line)
                if "end" in item:
                    break
                if "at" in item:
                    last = item["at"]
                elif "machine" in item:
                    self._machine = item["machine"]
                elif "chosen" in item:
                    session.chosen[item["chosen"]["problem"]] = item["chosen"]["config"]
                elif "skipped" in item:
                    session.skipped[item["skipped"]["problem"]] = item["skipped"]["reason"]
                    done.add(item["skipped"]["problem"])
                elif "disposition" in item:
                    item["machine"] = self._machine
                    session.records.append(item)
                    done.add(item["problem"])
                    on_record(item)
                session.machine = Machine.of(self._machine) if self._machine else None
            else:
                if all(one in done for one in problems):
                    self.close()
                    return last, ""
                return (last if last is not None and last["problem"] not in done else None), child.why_it_ended()
        return last, ""

    def _running(self, command: list[str]) -> _Child:
        if self._child and self._child.command != command:
            self.close()
        if not self._child:
            self._machine = None
            self._child = _Child(command, self._env)
        return self._child


def command(program: Path, kernels: Sequence[str], settings: Settings) -> list[str]:
    """The command line of the program, which takes its problems from standard input."""
    words = [str(program), "--json", "--sample-ms", f"{settings.sample_ms:g}", "--reps", str(settings.samples)]
    words += ["--within", f"{settings.within:g}", "--seed", str(settings.seed)]
    return words + [word for name in kernels for word in ("--config", name)] + ["--problem", "-"]


class _Child:
    """A process of the program, which takes problems from its standard input."""

    def __init__(self, command: list[str], env: Mapping[str, str]) -> None:
        self.command = command
        self._stack = contextlib.ExitStack()
        children = self._stack.enter_context(Children())
        pipe = subprocess.PIPE
        self._process = children.start(command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **env})
        self._complaints = _Complaints(self._process)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def close(self) -> None:
        self._stack.close()

    def ask(self, problem: str) -> None:
        """Have it measure a problem. Where it has ended, lines() says so."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            os.write(self._process.stdin.fileno(), f"{problem}\n".encode())

    def lines(self, silence_s: float) -> Iterator[str | None]:
        """Lines of its output as they come, until it ends; None if there is none for so long."""
        while True:
            try:
                line = self._lines.get(timeout=silence_s)
            except queue.Empty:
                yield None
                return
            if line is None:
                return
            yield line

    def why_it_ended(self) -> str:
        code = self._process.wait()
        return self._complaints.text() or f"it ended with exit code {code}"

    def _read(self) -> None:
        assert self._process.stdout
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put(None)


def _parsed(line: str) -> dict[str, Any]:
    """The JSON object of a line; {} for anything else, e.g. a line cut by a crash."""
    try:
        item = json.loads(line)
    except ValueError:
        return {}
    return item if isinstance(item, dict) else {}


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
