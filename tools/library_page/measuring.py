"""Measures problems that are missing, each on one of the GPUs, which does nothing else meanwhile."""

from __future__ import annotations

import contextlib
import datetime
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mmagen.build.job import BuildResult
from mmagen.tuning.measure import Program, Settings
from mmagen.tuning.workers import visible
from mmagen.verify.run import run
from tools.library_page.kept import Found, Kept, Key

_SUSTAINED_LIMIT_S = 300.0


@dataclass(frozen=True)
class Task:
    """Problems to measure with the program of one library. names: of its kernels."""

    key: Key
    program: Path
    names: tuple[str, ...]
    problems: tuple[str, ...]


def measure(
    tasks: Sequence[Task], settings: Settings, gpus: int, kept: Kept, until: float | None, said: Callable[[str], None]
) -> None:
    """Each problem that is not in `kept` yet, on any of `gpus` GPUs. until: on time.monotonic(); no problem begins later. said:
    gets the name of each that was measured."""
    left = queue.SimpleQueue[tuple[Task, str]]()
    lost: dict[Key, set[str]] = {}  # kernels that crashed or hung; each would again, and a hang takes a minute
    for task in tasks:
        done = {problem for problem, one in kept.of(task.key).items() if one.ended}
        lost[task.key] = {name for one in kept.of(task.key).values() for name in one.lost}
        for problem in task.problems:
            if problem not in done:
                left.put((task, problem))

    def work(place: int) -> None:
        program: Program | None = None
        of: Path | None = None
        with contextlib.ExitStack() as stack:
            while until is None or time.monotonic() < until:
                try:
                    task, problem = left.get_nowait()
                except queue.Empty:
                    return
                if program is None or of != task.program:
                    stack.close()
                    of = task.program
                    program = Program(of, {"CUDA_VISIBLE_DEVICES": visible(place)})
                    stack.callback(program.close)
                found = _one(program, [name for name in task.names if name not in lost[task.key]], problem, settings)
                lost[task.key] |= set(found.lost)
                kept.add(task.key, found)
                said(problem)

    with ThreadPoolExecutor(gpus) as pool:
        workers = [pool.submit(work, place) for place in range(gpus)]
        try:
            for worker in workers:
                worker.result()
        except BaseException:
            with contextlib.suppress(queue.Empty):
                while True:
                    left.get_nowait()  # the others end with the problem that they are at
            raise


def _one(program: Program, names: Sequence[str], problem: str, settings: Settings) -> Found:
    session = program.measure(names, [problem], settings)
    skipped = session.skipped.get(problem, "" if session.records else session.message)
    chosen = session.chosen.get(problem, "")
    return Found(problem, tuple(session.records), chosen, skipped, dict(session.lost), today())


def sustain(built: BuildResult, key: Key, problems: Sequence[str], seconds: float, kept: Kept, until: float | None) -> None:
    """The same by the benchmark, each kernel for `seconds` without a pause: what the board's power allows, and the energy."""
    done = {problem for problem, one in kept.of(key).items() if one.ended}
    for problem in problems:
        if until is not None and time.monotonic() >= until:
            return
        if problem in done:
            continue
        args = ["--problem", problem, "--sustained", f"{seconds:g}", "--dist", "uniform"]
        ran = run(built, program="bench", args=args, timeout_s=_SUSTAINED_LIMIT_S)
        why = ran.reason or next((str(one["reason"]) for one in ran.records if one["disposition"] != "passed"), "")
        kept.add(key, Found(problem, ran.records if not why else (), "", why, {}, today()))


def today() -> str:
    return datetime.date.today().isoformat()
