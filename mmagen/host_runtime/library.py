"""Calls a generated library's C functions in a child process and reads which launches they made."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mmagen.core.process import Finished, capture
from mmagen.host_runtime.entries import Entry

_TIMEOUT_S = 15.0  # calls of host code take milliseconds


class HostError(Exception):
    """The host code crashed, did not return, or could not be loaded; the text says which."""


class HostTimeoutError(HostError):
    """The host code did not return."""


@dataclass(frozen=True)
class Device:
    """The emulated device. capability: 90 for 9.0; shared_bytes: the most that a CTA may have.
    resident_clusters: how many clusters it runs at once."""

    capability: int
    shared_bytes: int
    resident_clusters: int = 100
    multiprocessors: int = 132

    @property
    def directives(self) -> tuple[str, ...]:
        """As the runner takes it."""
        major, minor = divmod(self.capability, 10)
        device = ("device", major, minor, self.multiprocessors, self.shared_bytes, "resident", self.resident_clusters)
        return tuple(map(str, device))


@dataclass(frozen=True)
class CapturedLaunch:
    """One captured kernel launch. entry: the PTX name. grid, block, cluster: extents in x, y, z.
    shared_bytes: dynamic. stream: the handle. programmatic: may it begin before the launch before it ends. params: the
    parameter block, laid out as the PTX declares it."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    stream: int
    programmatic: bool
    params: bytes


@dataclass
class Reply:
    """What became of the directives, in the order in which it came. values: what each call returned; left: what
    cudaPeekAtLastError said after it; outputs: the bytes of each pointer argument; texts: of each "text". refusals: calls
    to the runtime that it refused, and why."""

    launches: list[CapturedLaunch] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class HostLibrary:
    """A project's host code. path: the shared library of its objects; runner: the program that loads it (build.py)."""

    path: Path
    runner: Path

    def ask(self, device: Device, kernels: Iterable[Entry], directives: Sequence[str]) -> Reply:
        """Runs directives (see runner.cpp) in a process of their own, in which nothing was called before. kernels: the
        entries of the project's PTX.

        Raises HostError where the host code crashes, does not return (HostTimeoutError), or lacks a function."""
        declared = [word for entry in kernels for word in entry.directives]
        done = capture([self.runner, self.path, *device.directives, *declared, *directives], timeout_s=_TIMEOUT_S)
        reply = read_reply(done.stdout)
        if done.timed_out:
            raise HostTimeoutError(f"the host code did not return within {_TIMEOUT_S:.0f} s")
        if done.exit_code != 0:
            raise HostError(_why(done, reply))
        return reply


def call(symbol: str, *arguments: int | bytes | str) -> list[str]:
    """The directive that calls an int function. Bytes become a pointer to a copy of them."""
    return ["call", symbol, str(len(arguments)), *map(_word, arguments)]


def text(symbol: str, *arguments: int | bytes | str) -> list[str]:
    """The directive that calls a function returning a string; the argument "?" is what the last call returned."""
    return ["text", symbol, str(len(arguments)), *map(_word, arguments)]


def _word(argument: int | bytes | str) -> str:
    return f"@{argument.hex()}" if isinstance(argument, bytes) else str(argument)


def read_reply(stdout: str) -> Reply:
    """Lines that the runner printed."""
    reply = Reply()
    for line in stdout.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "launch":
            reply.launches.append(_launch(rest))
        elif kind == "refused":
            function, _, why = rest.partition(" ")
            code, _, reason = why.partition(" ")
            reply.refusals.append(f"{function}: {reason} (error {code})")
        elif kind == "bytes":
            reply.outputs.append(bytes.fromhex(rest.split(" ")[1]))
        elif kind == "returned":
            words = rest.split(" ")
            reply.values.append(int(words[0]))
            reply.left.append(int(words[2]))
        elif kind == "text":
            reply.texts.append(rest)
    return reply


def _launch(rest: str) -> CapturedLaunch:
    words = rest.split(" ")
    grid, block, cluster = ((int(words[at]), int(words[at + 1]), int(words[at + 2])) for at in (2, 6, 10))
    params = b"" if words[20] == "-" else bytes.fromhex(words[20])
    return CapturedLaunch(words[0], grid, block, cluster, int(words[14]), int(words[16]), words[18] == "1", params)


def _why(done: Finished, reply: Reply) -> str:
    output = " ".join(done.stderr.split())
    if done.exit_code < 0:
        refused = f"; before it, {reply.refusals[-1]}" if reply.refusals else ""
        return f"the host code ended by {_signal(-done.exit_code)}{refused}{': ' + output if output else ''}"
    return f"the host code cannot be run: {output or f'exit code {done.exit_code}'}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
