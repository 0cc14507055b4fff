"""Parses the output of CMake, ninja, nvcc and ptxas, and assigns it to projects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

# Given to ninja as NINJA_STATUS: a prefix that no compiler prints.
NINJA_STATUS = "[mmagen:%f/%t] "

_STATUS = re.compile(r"^\[mmagen:(\d+)/(\d+)\] (.*)$")
_PLACE = re.compile(r"(?:^|[\s'\"=])(p\d+)/")
_ERROR = re.compile(
    r"(\berror\b\s*(?:#?[\w-]+\s*)?:|\bfatal\b|undefined reference|multiple definition|\bptxas fatal|"
    r"cannot find -l|No such file or directory|\bKilled\b|internal error)",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"^\d+ errors? detected|^compilation terminated|^ninja: |^FAILED: ")
_WARNING = re.compile(r"\bwarning\b\s*(?:#[\w-]+\s*)?:", re.IGNORECASE)
_PERFORMANCE = re.compile(r"^ptxas info\s*: \(C\d+\)")
_OF_TOOLS = re.compile(r"^(?:ptxas|nvlink|nvcc|fatbinary)\s+warning")
_NEW_MESSAGE = re.compile(r"^\S[^()]*(?:\(\d+\)|:\d+:\d+):|^(?:ptxas|nvlink|nvcc|collect2|CMake)\b|^Remark:")


@dataclass(frozen=True)
class KernelInfo:
    """ptxas's report on one kernel for one architecture; spills, shared memory and stack in bytes."""

    function: str
    arch: str
    registers: int
    spill_stores: int
    spill_loads: int
    smem: int
    stack: int
    demangled: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for a cache entry."""
        return asdict(self)


def worst(kernels: Sequence[KernelInfo]) -> dict[str, int]:
    """The maximum of each resource over `kernels`, by the names of record fields; {} for no kernels."""
    if not kernels:
        return {}
    return {
        "registers": max(kernel.registers for kernel in kernels),
        "spill_bytes": max(kernel.spill_stores + kernel.spill_loads for kernel in kernels),
        "smem_bytes": max(kernel.smem for kernel in kernels),
    }


@dataclass(frozen=True)
class Edge:
    """One step of ninja: its project's folder in the build ("p3"), what it did, what was printed, whether it failed."""

    place: str
    what: str
    lines: tuple[str, ...]
    failed: bool


def parse_status(line: str) -> tuple[int, int, str] | None:
    """(steps done, steps in all, what was done) from a ninja status line, or None for any other line."""
    match = _STATUS.match(line)
    return (int(match[1]), int(match[2]), match[3]) if match else None


def place_of(text: str) -> str:
    """The build folder of the project ("p3") that a ninja description names, or ""."""
    match = _PLACE.search(text)
    return match[1] if match else ""


def edges(output: str) -> tuple[Edge, ...]:
    """Ninja's output cut into its steps; lines before the first step and ninja's own closing lines are left out."""
    found: list[tuple[str, list[str]]] = []
    for line in output.splitlines():
        status = parse_status(line)
        if status:
            found.append((status[2], []))
        elif found and not line.startswith("ninja: "):
            found[-1][1].append(line)
    result = []
    for what, lines in found:
        failed = any(line.startswith("FAILED: ") for line in lines)
        place = place_of(what) or next((p for p in map(place_of, lines[:1]) if p), "")
        result.append(Edge(place, what, tuple(_without_command(lines) if failed else lines), failed))
    return tuple(result)


def _without_command(lines: Sequence[str]) -> Iterable[str]:
    """Drop the FAILED line and the command line that ninja prints after it."""
    after = False
    for line in lines:
        if line.startswith("FAILED: "):
            after = True
        elif after:
            after = False
        else:
            yield line


def parse_ptxas(lines: Iterable[str]) -> tuple[KernelInfo, ...]:
    """The kernels in the output of `-Xptxas=-v`, in its order; one entry for each kernel and architecture."""
    kernels: list[dict[str, Any]] = []
    current: dict[str, Any] | None = None
    about = ""
    for line in lines:
        if match := re.search(r"Compiling entry function '([^']+)' for '([^']+)'", line):
            current = {
                "function": match[1],
                "arch": match[2],
                "registers": 0,
                "spill_stores": 0,
                "spill_loads": 0,
                "smem": 0,
                "stack": 0,
            }
            kernels.append(current)
            about = match[1]
        elif match := re.search(r"Function properties for (\S+)", line):
            # A device function that was not inlined has properties of its own; they are not the kernel's.
            about = match[1]
        elif current is None:
            continue
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            own = about == current["function"]
            current["stack"] = int(match[1]) if own else current["stack"]
            current["spill_stores"] += int(match[2])
            current["spill_loads"] += int(match[3])
        elif match := re.search(r"\bUsed (\d+) registers", line):
            current["registers"] = int(match[1])
            smem = re.search(r"(\d+)(?:\+\d+)? bytes smem", line)
            current["smem"] = int(smem[1]) if smem else 0
    return tuple(KernelInfo(**kernel) for kernel in kernels)


def warnings(lines: Iterable[str], foreign: Sequence[str] = ()) -> tuple[str, ...]:
    """Compiler, linker and ptxas warnings, each once; those whose place starts with a text in `foreign` are left out.

    ptxas reports some performance problems, such as serialised wgmma (C7510), as "info": they are included.
    """
    found: dict[str, None] = {}
    for line in lines:
        mine = _WARNING.search(line) and not any(line.startswith(start) for start in foreign)
        if mine or _PERFORMANCE.match(line) or _OF_TOOLS.match(line):
            found[line.strip()] = None
    return tuple(found)


def useful_lines(lines: Sequence[str], limit: int = 40) -> tuple[str, ...]:
    """The errors in a failed step's output, each with the few lines that explain it; at most `limit` lines.

    Without a line that looks like an error, the end of the output.
    """
    kept: list[str] = []
    explaining = 0
    for line in lines:
        if _COUNTED.match(line):
            explaining = 0
        elif _ERROR.search(line):
            kept.append(line)
            explaining = 3
        elif _NEW_MESSAGE.match(line) or not line.strip():
            explaining = 0
        elif explaining:
            kept.append(line)
            explaining -= 1
    if not kept:
        kept = [line for line in lines if line.strip()][-20:]
    kept = list(dict.fromkeys(kept)) if len(kept) > limit else kept
    more = len(kept) - limit
    return tuple(kept[:limit] + ([f"… {more} more lines in the log"] if more > 0 else []))


def failed_to_configure(output: str) -> tuple[str, ...]:
    """The projects ("p3") that made CMake's configure step fail, by its messages; () when they name none.

    An error names a file under the project's copy, src/p3/; else it happened between the project's begin and end marks.
    """
    named: dict[str, None] = {}
    inside = ""
    error = False
    for line in output.splitlines():
        if match := re.match(r"^mmagen: (begin|end) (p\d+)$", line.strip()):
            inside = match[2] if match[1] == "begin" else ""
            error = False
            continue
        if line.startswith("CMake Error"):
            error = True
            if inside:
                named[inside] = None
        elif line and not line.startswith((" ", "CMake", "Call Stack")):
            error = False
        if error and (match := re.search(r"(?:^|[\s/])src/(p\d+)/", line)):
            named[match[1]] = None
    return tuple(named)


def cmake_errors(output: str, place: str) -> tuple[str, ...]:
    """The part of CMake's output that concerns the project at `place`: from its begin mark on, and what names it."""
    lines = output.splitlines()
    mine: list[str] = []
    inside = False
    naming = False
    for line in lines:
        if match := re.match(r"^mmagen: (begin|end) (p\d+)$", line.strip()):
            inside = match[1] == "begin" and match[2] == place
            continue
        if line.startswith(("CMake Error", "CMake Warning")):
            naming = f"src/{place}/" in line
        elif line and not line.startswith((" ", "Call Stack")):
            naming = False
        if inside or naming:
            mine.append(line)
    return tuple(mine)
