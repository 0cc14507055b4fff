"""Measurements on several GPUs through Dask: one worker process for each GPU, of this machine or of a scheduler's.

The client submits some problems at a time and writes what comes back: many at first, and few at the end, so that all workers end
together. A worker keeps the program running from one task to the next. If a worker is lost, Dask gives its problems to others;
their measurements are made again as a whole. Only workers with the most common GPU model take part: times of different models
are not mixed.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from mmagen.core.errors import UsageError
from mmagen.toolchain.gpus import find_gpus
from mmagen.toolchain.model import Gpu
from mmagen.tuning import measure
from mmagen.tuning.measure import Record, Session, Settings

_LEAST_AT_ONCE, _MOST_AT_ONCE = 1, 16  # problems of a task
_WAITING = 2  # tasks of a worker, so that it never waits for the client
_CONNECT_S = 30

Seen = tuple[Gpu, ...]


def gpus_here() -> Seen:
    """The GPUs that a worker sees."""
    return find_gpus(os.environ)[0]


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise UsageError("several GPUs need Dask; install it with pip install 'mmagen[tune]'") from None


class Workers:
    """A runner (mmagen.tuning.tune) on Dask's workers."""

    def __init__(self, scheduler: str, count: int, gpus: Callable[[], Seen] = gpus_here) -> None:
        """scheduler: its address, or "" for `count` workers on this machine, one for each GPU. gpus: called on each worker.

        Raises UsageError without Dask, or if the scheduler does not answer.
        """
        dask = _distributed()
        self._cluster: Any = None
        if not scheduler:
            self._cluster = dask.LocalCluster(n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None)
        try:
            self._client: Any = dask.Client(self._cluster or scheduler, timeout=_CONNECT_S)
        except (OSError, ValueError) as error:
            raise UsageError(f"--scheduler {scheduler}: it does not answer: {error}") from None
        self._gpus = gpus

    def gpus(self) -> Seen:
        """One GPU of each worker that takes part, all of one model; () if no worker has any."""
        return tuple(gpu for _, gpu in self._usable())

    def processes(self) -> dict[str, int]:
        """Process ids by address, of all workers; each on its own machine."""
        return dict(self._client.run(os.getpid))

    def close(self) -> None:
        """End the workers of this machine, and the connection."""
        self._client.close()
        if self._cluster:
            self._cluster.close()

    def _usable(self) -> list[tuple[str, Gpu]]:
        """(address, first GPU) of the workers with the most common model and driver."""
        seen = {address: found[0] for address, found in self._client.run(self._gpus).items() if found}
        if not seen:
            return []
        most, _ = Counter((gpu.name, gpu.driver) for gpu in seen.values()).most_common(1)[0]
        return [(address, gpu) for address, gpu in sorted(seen.items()) if (gpu.name, gpu.driver) == most]

    def __call__(
        self,
        program: Path,
        kernels: Sequence[str],
        problems: Sequence[str],
        settings: Settings,
        on_record: Callable[[Record], None],
        until: float | None,
    ) -> Session:
        usable = self._usable()
        model = usable[0][1].name if usable else ""
        # hash=False: by the hash of its content it would have the key of the call before, which may be about to be forgotten.
        code = self._client.scatter(program.read_bytes(), broadcast=True, hash=False)
        session, left = Session(), list(problems)
        running = _distributed().as_completed(with_results=False)
        # On the clock that machines have in common.
        deadline = None if until is None else time.time() + until - time.monotonic()
        tasks: dict[Any, list[str]] = {}

        def submit() -> None:
            while left and len(tasks) < _WAITING * max(1, len(usable)):
                if until is not None and time.monotonic() >= until:
                    left.clear()
                    return
                count = at_once(len(left), len(usable))
                some, left[:] = left[:count], left[count:]
                alive = [name for name in kernels if name not in session.lost]
                if not alive:
                    left.clear()
                    return
                # Not pinned to workers: what a lost one had goes to any other. A worker with another GPU hands it back.
                task = self._client.submit(
                    _measured,
                    code,
                    alive,
                    some,
                    settings,
                    self._gpus,
                    model,
                    bool(self._cluster),
                    deadline,
                    pure=False,
                    retries=2,
                )
                tasks[task] = some
                running.add(task)

        submit()
        while tasks:
            task = next(running)
            some = tasks.pop(task)
            if task.status == "error":
                session.skipped.update({problem: f"no worker could measure it: {task.exception()}" for problem in some})
            else:
                found: Session | None = task.result()
                if found is None:
                    left += some
                    time.sleep(0.1)
                else:
                    _join(session, found, on_record)
            submit()
        self._client.run(_end_programs)
        return session


def at_once(left: int, workers: int) -> int:
    """Problems of the next task, of so many that are left: a part of each worker's share."""
    return max(_LEAST_AT_ONCE, min(_MOST_AT_ONCE, left // (2 * max(1, workers))))


def _join(session: Session, found: Session, on_record: Callable[[Record], None]) -> None:
    session.records += found.records
    session.machine = found.machine or session.machine
    session.chosen |= found.chosen
    session.skipped |= found.skipped
    session.lost |= found.lost
    session.message = found.message or session.message
    for record in found.records:
        on_record(record)


def _measured(
    code: bytes,
    kernels: Sequence[str],
    problems: Sequence[str],
    settings: Settings,
    gpus: Callable[[], Seen],
    model: str,
    local: bool,
    deadline: float | None,
) -> Session | None:
    """On a worker: run the program. None if its GPU is another model. local: worker i of this machine takes GPU i. deadline: on
    time.time(); no problem begins later."""
    seen = gpus()
    if model and (not seen or seen[0].name != model):
        return None
    program = _written(code)
    env = {"CUDA_VISIBLE_DEVICES": visible(int(_distributed().get_worker().name))} if local else {}
    until = None if deadline is None else time.monotonic() + deadline - time.time()
    return _running(program, env).measure(kernels, problems, settings, until=until)


_PROGRAMS: dict[tuple[Path, str], measure.Program] = {}  # of this process; at most one
_STARTING = threading.Lock()  # a worker may have several threads


def _running(program: Path, env: dict[str, str]) -> measure.Program:
    """The program on this worker, which the next task finds running."""
    key = (program, str(env))
    with _STARTING:
        if key not in _PROGRAMS:
            _close_all()
            _PROGRAMS[key] = measure.Program(program, env)
        return _PROGRAMS[key]


def _end_programs() -> None:
    """On a worker: leave nothing running."""
    with _STARTING:
        _close_all()


def _close_all() -> None:
    for running in _PROGRAMS.values():
        running.close()
    _PROGRAMS.clear()


def visible(place: int) -> str:
    """The name of the GPU at this place among those that programs see."""
    names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return names[place].strip() if place < len(names) else str(place)


def _written(code: bytes) -> Path:
    """The program as an executable file of this machine, once for each content and process."""
    folder = Path(tempfile.gettempdir()) / f"mmagen-tune-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{hashlib.sha256(code).hexdigest()[:16]}-{os.getpid()}"
    if not path.exists():
        part = path.with_suffix(".part")
        part.write_bytes(code)
        part.chmod(0o700)
        part.rename(path)
    return path
