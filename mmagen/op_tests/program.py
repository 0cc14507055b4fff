"""Cases to a program's file and its results back, one process after the other where a case takes the context with it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmagen.core.process import capture
from mmagen.op_tests.case import Launch
from mmagen.verify.run import last_message

# As in templates/runtime/atoms/atom_main.cuh.
_CASE = struct.Struct("<4I2Q4I7Q")
_RESULT = struct.Struct("<IiQ")
# cudaError_t of a program that has no code for this GPU.
_NO_CODE = (98, 209, 222)


@dataclass(frozen=True)
class Executed:
    """What became of one case. d: the image of D, None where there is none; error: why; no_code: no kernel for this GPU."""

    d: bytes | None
    error: str = ""
    no_code: bool = False


def encoded(kernel: int, launch: Launch) -> bytes:
    """One case of the file."""
    sizes = [image.nbytes for image in launch.images]
    head = _CASE.pack(
        kernel,
        launch.threads,
        launch.steps,
        launch.smem,
        *launch.descriptors,
        *launch.bytes_smem,
        *launch.step_smem,
        *sizes,
        launch.size_d,
    )
    return head + b"".join(image.tobytes() for image in launch.images)


def execute(program: Path, cases: Sequence[bytes], scratch: Path, timeout_s: float) -> list[Executed]:
    """Run every case, whatever the others do; a process that dies or hangs costs only the case it was at.

    timeout_s: of one process. Raises OSError when the program does not start.
    """
    file, results = scratch / "cases", scratch / "results"
    file.write_bytes(b"".join(cases))
    results.write_bytes(b"")
    done: dict[int, Executed] = {}
    while len(done) < len(cases):
        first = len(done)
        ended = capture([program, str(file), str(results), str(first)], timeout_s=timeout_s)
        done = _read(results)
        if ended.exit_code == 77:
            return [Executed(None, last_message(ended.stderr).removeprefix(": ") or "no CUDA device", no_code=True)] * len(
                cases
            )
        if ended.exit_code == 0:
            break
        if len(done) == first or not next(reversed(done.values())).error:
            # It ended without saying what was wrong with the case it was at.
            why = f"did not end within {timeout_s:g} s" if ended.timed_out else f"ended with exit code {ended.exit_code}"
            _append(results, len(done), f"the program {why}{last_message(ended.stderr)}")
            done = _read(results)
    lost = Executed(None, "the program left no result for it")
    return [done.get(index, lost) for index in range(len(cases))]


def _read(results: Path) -> dict[int, Executed]:
    """All whole results, in order; what follows the last whole one is cut off the file."""
    data = results.read_bytes()
    found: dict[int, Executed] = {}
    at = 0
    while at + _RESULT.size <= len(data):
        index, status, size = _RESULT.unpack_from(data, at)
        body = data[at + _RESULT.size : at + _RESULT.size + size]
        if len(body) < size:
            break
        found[index] = Executed(body) if status == 0 else Executed(None, body.decode("utf-8", "replace"), status in _NO_CODE)
        at += _RESULT.size + size
    if at < len(data):
        results.write_bytes(data[:at])
    return found


def _append(results: Path, index: int, error: str) -> None:
    with results.open("ab") as file:
        file.write(_RESULT.pack(index, -1, len(error.encode())) + error.encode())
