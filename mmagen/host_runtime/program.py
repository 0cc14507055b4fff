"""Runs a CUDA program without a GPU: its host code in a child process, its kernels in the emulator, on one memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import IO

import numpy as np

from mmagen.core.process import Children
from mmagen.core.targets import capability
from mmagen.emulate import STEP_LIMIT, Buffer, EmulationError, Finding, Module, Report, launch, parse
from mmagen.emulate import Device as Memory
from mmagen.host_runtime.compile import Program
from mmagen.host_runtime.entries import entries_of
from mmagen.host_runtime.library import CapturedLaunch, Device, HostError, Reply, call, read_reply

_SILENCE_S = 120.0
_SHARED_BYTES = {70: 98304, 75: 65536, 80: 166912, 86: 101376, 87: 166912, 89: 101376, 90: 232448}


@dataclass(frozen=True)
class Executed:
    """A launch of the host code, and what the emulator saw of it."""

    launch: CapturedLaunch
    report: Report


@dataclass
class ProgramRun:
    """value: what the function returned, or passed to exit(). launches: in order. outputs: the bytes of each pointer argument
    after the call. refusals: calls to the CUDA runtime that it refused, and why. printed: the program's own output."""

    value: int = 0
    launches: list[Executed] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    printed: str = ""

    @property
    def findings(self) -> list[Finding]:
        """Of all launches."""
        return [finding for one in self.launches for finding in one.report.findings]

    @property
    def ok(self) -> bool:
        """The function returned 0 and launched kernels, all of which ended without a finding."""
        return self.value == 0 and bool(self.launches) and all(x.report.completed for x in self.launches) and not self.findings


def run_program(
    program: Program,
    function: str = "run",
    arguments: Sequence[int | bytes | Buffer] | Sequence[str] = (),
    *,
    memory: Memory | None = None,
    multiprocessors: int = 4,
    resident_clusters: int = 2,
    step_limit: int = STEP_LIMIT,
    checks: bool = True,
) -> ProgramRun:
    """Calls `extern "C" int function(...)` of a program, or its main. Each kernel that it launches is emulated at once, on
    `memory`, which cudaMalloc, cudaMemcpy and cudaMemset of the host code use too.

    arguments: at most six integers, pointers to device memory (a Buffer of `memory`), or bytes, of which the function gets
    the address of a copy; for main: any number of strings, its command-line arguments after the program's name.
    multiprocessors, resident_clusters: of the device that the host code sees; few, so that persistent kernels compute several
    tiles per CTA. step_limit, checks: see `emulate.launch`.

    Raises HostError where the host code crashes, does not return, or uses a function of the CUDA runtime that is not there,
    and EmulationError where a kernel uses what is not emulated.
    """
    memory = memory or Memory()
    target = capability(program.arch)
    shown = Device(target, _SHARED_BYTES.get(target, 49152), resident_clusters, multiprocessors)
    run = ProgramRun()
    session = _Session(program, memory, run, step_limit, checks)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
        try:
            code = session.run([*shown.directives, *session.directives(), *_call(function, arguments)], printed)
        except EmulationError as error:
            if run.refusals:
                raise EmulationError(f"{error}; before it, the host code was refused {run.refusals[-1]}") from error
            raise
        finally:
            printed.seek(0)
            run.printed = printed.read()
        called_exit = function == "main" and session.returned and code > 0
        if code != 0 and not called_exit:
            refused = f"; before it, {run.refusals[-1]}" if run.refusals else ""
            raise HostError(f"the host code {_ending(code)}{refused}: {' '.join(run.printed.split())[-1000:]}")
    return run


def _call(function: str, arguments: Sequence[int | bytes | Buffer | str]) -> list[str]:
    """The runner's directive for this call."""
    words = [argument.address if isinstance(argument, Buffer) else argument for argument in arguments]
    return ["main", str(len(words)), *map(str, words)] if function == "main" else call(function, *words)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"ended by {signal.Signals(-code).name}"
    return f"ended by signal {-code}"


class _Session:
    """One process of the host code, and the device that it talks to."""

    def __init__(self, program: Program, memory: Memory, run: ProgramRun, step_limit: int, checks: bool):
        self._program, self._memory, self._run = program, memory, run
        self._step_limit, self._checks = step_limit, checks
        self._entries = {entry.name: unit for unit, text in program.units.items() for entry in entries_of(text)}
        self._allocations = 0
        self.returned = False

    def directives(self) -> list[str]:
        """The kernels of the program, and where device memory is so far."""
        words = [word for text in self._program.units.values() for entry in entries_of(text) for word in entry.directives]
        ends = [place.address + place.size for place in self._memory.memory.allocations.values()]
        return [*words, "memory", str(self._memory.memory.first), str(max(ends, default=self._memory.memory.first))]

    def run(self, directives: Sequence[str], printed: IO[str]) -> int:
        """The exit code of the process."""
        command: list[str | Path] = [self._program.host.runner, "-program", self._program.host.path, *directives]
        with Children() as children:
            child = children.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=printed.fileno())
            for line in _lines(child):
                answer = self._obey(line)
                if answer is not None:
                    assert child.stdin
                    child.stdin.write(f"{answer}\n")
                    child.stdin.flush()
            return child.wait()

    def _obey(self, line: str) -> str | None:
        """Does what a line of the child asks for; the answer that it waits for, None where it waits for none."""
        verb, *words = line.split()
        if verb == "allocate":
            self._allocations += 1
            return str(self._memory.empty(int(words[0]), np.uint8, f"cudaMalloc {self._allocations}").address)
        if verb == "read":
            return self._memory.memory.load(int(words[0]), int(words[1])).hex()
        if verb == "write":
            self._memory.memory.store(int(words[0]), bytes.fromhex(words[1]))
        elif verb == "set":
            self._memory.memory.store(int(words[0]), bytes([int(words[1])]) * int(words[2]))
        elif verb == "copy":
            self._memory.memory.store(int(words[0]), self._memory.memory.load(int(words[1]), int(words[2])))
        else:
            self._read(read_reply(line))
        return None

    def _read(self, reply: Reply) -> None:
        for captured in reply.launches:
            self._run.launches.append(Executed(captured, self._emulate(captured)))
        self._run.outputs += reply.outputs
        self._run.refusals += reply.refusals
        if reply.values:
            self._run.value = reply.values[-1]
            self.returned = True

    def _emulate(self, captured: CapturedLaunch) -> Report:
        unit = self._entries[captured.entry]
        return launch(
            _module(self._program.units[unit], f"{unit}.ptx"),
            captured.entry,
            grid=captured.grid,
            block=captured.block,
            dynamic_smem=captured.shared_bytes,
            params=captured.params,
            memory=self._memory.memory,
            cluster=captured.cluster,
            overlaps=captured.programmatic,
            step_limit=self._step_limit,
            checks=self._checks,
        )


def _lines(child: subprocess.Popen[str]) -> Iterator[str]:
    """What the child prints; HostError where it is silent for too long."""
    assert child.stdout
    silent = threading.Event()

    def end() -> None:
        silent.set()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)

    while True:
        timer = threading.Timer(_SILENCE_S, end)
        timer.start()
        try:
            line = child.stdout.readline()
        finally:
            timer.cancel()
        if silent.is_set():
            raise HostError(f"the host code did nothing for {_SILENCE_S:.0f} s")
        if not line:
            return
        yield line


@lru_cache(maxsize=4)
def _module(unit: str, file: str) -> Module:
    return parse(unit, file)
