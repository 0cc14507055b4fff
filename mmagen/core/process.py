"""Child processes that do not outlive mmagen: each leads a process group, which is killed as a whole."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_GRACE_S = 2.0


@dataclass(frozen=True)
class Finished:
    """How a child ended. exit_code is negative for a signal, as in subprocess; `timed_out` when mmagen killed it. arrivals: of each
    line of stdout, in seconds from the start; only `capture` notes them."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False
    arrivals: tuple[float, ...] = ()


class Children:
    """The processes started in a `with` statement. Each leads a process group of its own, which is killed at the statement's end
    unless its leader was waited for; a signal whose handler raises, at whatever moment, lets none escape."""

    def __enter__(self) -> Children:
        self._started: list[subprocess.Popen[str]] = []
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._started:
            _end(child)
            for pipe in (child.stdin, child.stdout, child.stderr):
                if pipe:
                    pipe.close()

    def start(
        self,
        argv: Sequence[str | Path],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[str]:
        """Start `argv`. Raises OSError if it does not start."""
        with _signals_deferred():
            child = subprocess.Popen(
                [str(part) for part in argv],
                start_new_session=True,
                stdin=stdin,
                text=True,
                encoding="utf-8",
                errors="replace",
                stdout=stdout,
                stderr=stderr,
                env=env,
                cwd=cwd,
            )
            self._started.append(child)
        return child


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """SIGINT and SIGTERM that come meanwhile are handled at the end: an exception of a handler inside Popen would leave a process
    that nobody knows. They are not blocked, since children would inherit that. Handlers run in the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in handlers:
            signal.signal(number, lambda number, _frame: came.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for which in came:
            signal.raise_signal(which)


class _Output:
    """stdout and stderr of a child, read as they come, so that neither pipe fills. No threads: a signal's exception may come
    anywhere."""

    def __init__(self, child: subprocess.Popen[str], start: float):
        assert child.stdout is not None and child.stderr is not None
        self._child, self._start = child, start
        self._parts: dict[int, list[bytes]] = {child.stdout.fileno(): [], child.stderr.fileno(): []}
        self._out, self._err = self._parts
        self._open = set(self._parts)
        self.arrivals: list[float] = []

    def wait(self, timeout_s: float | None) -> None:
        """Until both pipes are closed and the child has ended. Raises subprocess.TimeoutExpired."""
        while self._open:
            ready = select.select([*self._open], [], [], self._left(timeout_s))[0]
            if not ready:
                raise subprocess.TimeoutExpired(self._child.args, timeout_s or 0.0)
            for pipe in ready:
                part = os.read(pipe, 1 << 16)
                self._parts[pipe].append(part)
                if not part:
                    self._open.discard(pipe)
                elif pipe == self._out:
                    self.arrivals += [time.monotonic() - self._start] * part.count(b"\n")
        self._child.wait(self._left(timeout_s))

    def _left(self, timeout_s: float | None) -> float | None:
        return None if timeout_s is None else max(0.0, self._start + timeout_s - time.monotonic())

    def texts(self) -> tuple[str, str]:
        """stdout and stderr."""
        out, err = (b"".join(self._parts[pipe]).decode("utf-8", "replace") for pipe in (self._out, self._err))
        return out.replace("\r\n", "\n"), err.replace("\r\n", "\n")


def capture(
    argv: Sequence[str | Path], *, timeout_s: float | None, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Finished:
    """Run `argv` to completion or for `timeout_s` seconds and capture stdout and stderr. Raises OSError if it does not
    start."""
    start = time.monotonic()
    with Children() as children:
        child = children.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd=cwd)
        output, timed_out = _Output(child, start), False
        try:
            output.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            _end(child)
            output.wait(None)
        stdout, stderr = output.texts()
        return Finished(child.returncode, stdout, stderr, time.monotonic() - start, timed_out, tuple(output.arrivals))


def follow(argv: Sequence[str | Path], *, env: Mapping[str, str], on_line: Callable[[str], None]) -> None:
    """Run `argv` to completion, calling `on_line` for each line of output; stdout and stderr are merged, in order.

    Raises OSError if it does not start.
    """
    with Children() as children:
        child = children.start(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
        assert child.stdout is not None
        for line in child.stdout:
            on_line(line.rstrip("\n"))
        child.wait()


def _end(child: subprocess.Popen[str]) -> None:
    """Terminate the group, then kill it. Once the leader has been waited for, its PID may belong to another process."""
    if child.returncode is not None:  # not poll(), which waits: a leader that ended may have left children
        return
    for number, patience in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience)
            break
    # The leader may exit at once while a grandchild does not; the group keeps the leader's PID while any member lives.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
