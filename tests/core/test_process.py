"""Child processes end with what started them, at whatever moment a signal comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mmagen.core import process
from mmagen.core.process import Children, capture


def _leaders() -> set[str]:
    """This process's children that have not ended, without those that are only to be waited for."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z":
            found.add(stat.parent.name)
    return found


@pytest.fixture
def terminable():
    """SIGTERM raises SystemExit, as in the command line, and SIGINT KeyboardInterrupt, which a shell's background job ignores."""

    def stop(number, frame):
        raise SystemExit(143)

    before = signal.signal(signal.SIGTERM, stop), signal.signal(signal.SIGINT, signal.default_int_handler)
    yield stop
    for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_while_a_process_is_started_ends_it(number, raised, monkeypatch, terminable):
    before, handlers = _leaders(), [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    started = []

    class Interrupted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            os.kill(os.getpid(), number)
            started.append(self.pid)

    monkeypatch.setattr(process.subprocess, "Popen", Interrupted)
    with pytest.raises(raised):
        capture(["/bin/sleep", "60"], timeout_s=60)
    assert started and _leaders() <= before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_signal_at_any_call_leaves_no_process(terminable):
    before, call, ended = _leaders(), 0, False

    def trace(frame, event, _):
        nonlocal left
        left -= frame.f_code.co_name != "__del__"  # which lets no exception out
        if left <= 0 and sys.gettrace():
            sys.settrace(None)
            os.kill(os.getpid(), signal.SIGTERM)

    while not ended:
        call += 4
        left = call
        sys.settrace(trace)
        try:
            capture(["/bin/sleep", "0.1"], timeout_s=60)
            ended = left > 0
        except SystemExit:
            assert left <= 0
        finally:
            sys.settrace(None)
        assert _leaders() <= before, call
    assert call > 50


def test_processes_of_other_threads_start_too():
    found = []
    thread = threading.Thread(target=lambda: found.append(capture(["/bin/echo", "x"], timeout_s=60).stdout))
    thread.start()
    thread.join()
    assert found == ["x\n"]


def test_all_processes_of_a_statement_end_with_it():
    before = _leaders()
    with pytest.raises(RuntimeError), Children() as children:
        for _ in range(2):
            children.start(["/bin/sleep", "60"])
        assert len(_leaders() - before) == 2
        raise RuntimeError
    time.sleep(0.01)
    assert _leaders() <= before
