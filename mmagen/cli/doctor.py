"""`mmagen doctor`: each tool that compiling and running need, with its version or how to install it."""

from __future__ import annotations

from mmagen.core.screen import fold, table
from mmagen.toolchain.find import COMPILE, Tool, Toolchain

HEADERS = ("status", "tool", "version", "from")

_LABELS = {
    "nvcc": "CUDA compiler (nvcc)",
    "host_compiler": "C++ compiler",
    "cmake": "CMake",
    "ninja": "ninja",
    "cutlass": "CUTLASS headers",
    "cuobjdump": "cuobjdump",
    "sanitizer": "compute-sanitizer",
}


def report(toolchain: Toolchain, columns: int | None) -> tuple[str, bool]:
    """The table, and what to do about what is not there; and whether a generated project can be compiled here.

    A missing GPU, cuobjdump or compute-sanitizer is only a note: compiling does not need it.
    """
    rows, remedies = diagnose(toolchain)
    parts = [table(HEADERS, rows, columns)]
    parts += [fold("\n".join(f"{tool}: {remedy}" for tool, remedy in remedies), columns)] if remedies else []
    return "\n\n".join(parts), not toolchain.missing(COMPILE)


def diagnose(toolchain: Toolchain) -> tuple[list[tuple[str, str, str, str]], list[tuple[str, str]]]:
    """Rows under HEADERS, one per tool and GPU searched for, and the tools that are not there with what to do."""
    rows: list[tuple[str, str, str, str]] = []
    remedies: list[tuple[str, str]] = []
    for name, label in _LABELS.items():
        if name in toolchain.wanted:
            tool: Tool | None = getattr(toolchain, name)
            if tool:
                rows.append(("ok", label, tool.version, f"{tool.origin}: {tool.path}"))
            else:
                rows.append(("missing" if name in COMPILE else "note", label, "", "not found"))
                remedies.append((label, toolchain.remedies.get(name, "")))
    if "gpus" in toolchain.wanted:
        rows += _gpu_rows(toolchain)
        remedies += [] if toolchain.gpus else [("GPU", toolchain.remedies.get("gpus", ""))]
    return rows, remedies


def _gpu_rows(toolchain: Toolchain) -> list[tuple[str, str, str, str]]:
    if not toolchain.gpus:
        return [("note", "GPU", "", "not found")]
    return [
        ("ok", f"GPU {index}", f"sm_{gpu.capability[0]}{gpu.capability[1]}", f"{gpu.name}, driver {gpu.driver}")
        for index, gpu in enumerate(toolchain.gpus)
    ]
