"""Runs jobs beside one another, as processors and GPUs allow, until all have ended or the time is up.

Jobs begin in their order. One that waits for processors keeps later ones off its pools, so that it is not passed over for ever;
one that waits for a GPU of its own does the same with the only GPU, which until then has brief jobs alone. While jobs wait that
compile, no other job gets their processors.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from mmagen.core.process import Children
from mmagen.tuning.workers import visible
from tools.gpu_round.jobs import COMPILE, Ended, Job, Outcome
from tools.gpu_round.records import Records
from tools.gpu_round.resources import Cores, Gpus

_POLL_S = 0.05
_SHOWN_EVERY_S = 15.0
_GRACE_S = 4.0  # for children to end theirs


@dataclass
class _Running:
    job: Job
    child: subprocess.Popen[str]
    stack: contextlib.ExitStack
    log: Path
    began: float
    cpus: tuple[int, ...]
    gpus: tuple[int, ...]


class Round:
    """Jobs, in the order in which they should begin."""

    def __init__(
        self,
        jobs: Sequence[Job],
        cores: Cores,
        gpus: Gpus,
        records: Records,
        logs: Path,
        say: Callable[[str], None] = lambda _: None,
        root: Path | None = None,
    ) -> None:
        """logs: folder of what jobs print. say: gets a line now and then. root: the folder in which jobs run."""
        self._waiting, self._running = list(jobs), list[_Running]()
        self._cores, self._gpus, self._records, self._logs, self._say, self._root = cores, gpus, records, logs, say, root
        self._open = {job.name for job in jobs}  # not ended
        self._known: set[tuple[str, str]] = set()  # (kind, unit) with an outcome
        self._shown = time.monotonic()

    def run(self, until: float) -> None:
        """Until all have ended, or until time.monotonic() is `until`: what runs then is ended. The same if a signal's handler
        raises, which is raised again once all children have ended."""
        self._logs.mkdir(parents=True, exist_ok=True)
        try:
            while (self._waiting or self._running) and time.monotonic() < until:
                self._reap()
                self._begin()
                self._show(until)
                time.sleep(_POLL_S)
        finally:
            with _without_signals():
                self._end_all()

    def _begin(self) -> None:
        closed: set[str] = set()
        gpu_closed = False
        for job in list(self._waiting):
            if job.after in self._open:
                continue
            if job.units and all((job.kind, unit) in self._known for unit in job.units):
                self._waiting.remove(job)  # what came before has said all of it, e.g. that it does not compile
                self._open.discard(job.name)
                continue
            pools = self._pools(job)
            timed_later = any(one.alone for one in self._waiting)
            long = self._gpus.count == 1 and timed_later and not (job.alone or job.brief)
            if closed & set(pools) or (job.gpus and (gpu_closed or long)):
                continue
            gpus = self._gpus.take(job.gpus, job.alone, timed_later) if job.gpus else ()
            if job.gpus and not gpus:
                gpu_closed |= job.alone and self._gpus.count == 1
                continue
            cpus = self._cores.take(min(job.cores, self._cores.most(job.pools)), pools)
            if not cpus:
                self._gpus.give(gpus)
                closed |= set(pools)
                continue
            self._waiting.remove(job)
            self._start(job, cpus, gpus)

    def _pools(self, job: Job) -> tuple[str, ...]:
        if job.kind == COMPILE or not any(one.kind == COMPILE for one in self._waiting):
            return job.pools
        return tuple(name for name in job.pools if name != COMPILE)

    def _start(self, job: Job, cpus: tuple[int, ...], gpus: tuple[int, ...]) -> None:
        log = self._logs / f"{len(list(self._logs.iterdir())):04d}.log"
        env = {**os.environ, **job.env}
        if job.gpus:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(map(visible, gpus))
        self._records.began(job, cpus, gpus)
        stack = contextlib.ExitStack()
        children = stack.enter_context(Children())
        with log.open("w", encoding="utf-8") as out, _on(cpus):
            child = children.start(job.command, stdout=out.fileno(), stderr=subprocess.STDOUT, env=env, cwd=self._root)
        self._running.append(_Running(job, child, stack, log, time.monotonic(), cpus, gpus))

    def _reap(self) -> None:
        for one in list(self._running):
            late = time.monotonic() - one.began > one.job.limit_s
            if one.child.poll() is not None:
                self._end(one, "", "")
            elif late:
                _stop([one.child])
                self._end(one, f"it did not end within {one.job.limit_s:g} s and was stopped", "failed")

    def _end(self, one: _Running, reason: str, word: str) -> None:
        exit_code = None if reason else one.child.returncode  # of one that is ended here, it says nothing
        one.stack.close()
        log = one.log.read_text("utf-8", "replace")
        ended = Ended(exit_code, time.monotonic() - one.began, reason, word, log)
        outcomes = _read(one.job, ended)
        self._known |= {(outcome.kind, outcome.unit) for outcome in outcomes}
        self._records.ended(one.job, ended, outcomes)
        self._running.remove(one)
        self._open.discard(one.job.name)
        self._cores.give(one.cpus)
        self._gpus.give(one.gpus)

    def _end_all(self) -> None:
        _stop([one.child for one in self._running])
        for one in list(self._running):
            self._end(one, "the round ended while it ran", "cut_off")

    def _show(self, until: float) -> None:
        if time.monotonic() - self._shown >= _SHOWN_EVERY_S:
            self._shown = time.monotonic()
            names = ", ".join(one.job.name for one in self._running)
            self._say(f"{until - self._shown:.0f} s left, {len(self._waiting)} jobs wait, {len(self._running)} run: {names}")


def _stop(children: Sequence[subprocess.Popen[str]]) -> None:
    """Interrupt all at once, so that each ends its own children; then kill what is left of them and of all that they started.

    What mmagen starts leads process groups of its own, which the end of a test's process would leave running.
    """
    started = [process for child in children for process in _descendants(child.pid)]
    for child in children:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
    until = time.monotonic() + _GRACE_S
    while time.monotonic() < until and any(child.poll() is None for child in children):
        time.sleep(_POLL_S)
    started += [process for child in children if child.poll() is None for process in _descendants(child.pid)]
    for process in started:
        with contextlib.suppress(psutil.Error):  # it has ended; psutil knows a process from a later one with its number
            process.kill()


def _descendants(pid: int) -> list[psutil.Process]:
    """The process and all below it."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _read(job: Job, ended: Ended) -> list[Outcome]:
    """What a job's records say; a fault in them fails the job, not the round."""
    try:
        found = list(job.read(ended))
    except (ValueError, KeyError, TypeError, OSError) as error:
        return [Outcome(job.kind, unit, "failed", f"its records cannot be read: {error!r}") for unit in job.units]
    return found


@contextlib.contextmanager
def _on(cpus: Iterable[int]) -> Iterator[None]:
    """Children started here may run on these processors alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def _without_signals() -> Iterator[None]:
    """SIGTERM and SIGINT are ignored: the end of a round must not be interrupted by a second one."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
