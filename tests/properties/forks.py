"""Work in forked processes: a crash, a kill or an endless loop in one does not stop the others."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from tests.properties.planned import Record, TimeLimit, failure, limited, record
from tests.properties.verified import Accepted

# Verifies some specs and yields a record for each as it is known.
Verify = Callable[[Sequence[Accepted]], Iterator[Record]]
_GRACE_S = 20.0  # after the limit, for the process to end its own children


@dataclass
class _Fork:
    process: BaseProcess
    reading: Connection
    left: dict[str, Accepted]  # the specs without a record
    alone: bool
    deadline: float


def verify_each(batches: Iterable[list[Accepted]], verify: Verify, at_once: int, limit_s: float) -> Iterator[Record]:
    """The records of all specs, as they come. `verify` runs in a forked process per batch, for at most limit_s seconds.

    The specs that a process of several left without a record are verified again one by one; one that ends its process is a
    crash, one that exceeds the limit a hang. Processes that run when the generator is closed are killed.
    """
    waiting = iter(batches)
    again: list[list[Accepted]] = []
    running: list[_Fork] = []
    try:
        while True:
            while len(running) < at_once and (batch := again.pop() if again else next(waiting, None)):
                running.append(_start(batch, verify, limit_s))
            if not running:
                return
            connection.wait([fork.reading for fork in running], timeout=1.0)
            for fork in list(running):
                records, ended = _received(fork)
                yield from records
                if ended or time.monotonic() > fork.deadline:
                    running.remove(fork)
                    why = _end(fork)
                    if fork.alone:
                        yield from (record(name, "hang" if not ended else "crash", why, stage="run") for name in fork.left)
                    else:
                        again += [[one] for one in fork.left.values()]
    finally:
        for fork in running:
            _kill(fork)


def _start(batch: list[Accepted], verify: Verify, limit_s: float) -> _Fork:
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(batch, verify, limit_s, writing))
    process.start()
    writing.close()
    left = {one.spec.name: one for one in batch}
    return _Fork(process, reading, left, len(batch) == 1, time.monotonic() + limit_s + _GRACE_S)


def _work(batch: list[Accepted], verify: Verify, limit_s: float, writing: Connection) -> None:
    """In the fork: send each record. What interrupts a single spec becomes its record."""
    os.setpgrp()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    try:
        with limited(limit_s):
            for found in verify(batch):
                writing.send(found)
    except TimeLimit:
        if len(batch) == 1:
            writing.send(record(batch[0].spec.name, "hang", f"not done after {limit_s:g} s", stage="run"))
    except Exception as error:
        if len(batch) == 1:
            writing.send(failure(batch[0].spec.name, error, "run"))
    finally:
        writing.close()


def _received(fork: _Fork) -> tuple[list[Record], bool]:
    """The records sent since the last call, and whether the process has ended."""
    records = []
    try:
        while fork.reading.poll():
            records.append(fork.reading.recv())
            fork.left.pop(records[-1]["name"], None)
    except EOFError:
        return records, True
    return records, False


def _end(fork: _Fork) -> str:
    """Wait for the process, or kill it and its group; how it ended."""
    fork.process.join(1.0)
    _kill(fork)
    return f"its process ended with exit code {fork.process.exitcode}"


def _kill(fork: _Fork) -> None:
    assert fork.process.pid
    with contextlib.suppress(ProcessLookupError):
        os.killpg(fork.process.pid, signal.SIGKILL)
    fork.process.join()
    fork.reading.close()
