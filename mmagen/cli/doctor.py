"""`mmagen doctor`: each tool that compiling and running need, with its version or how to install it."""

from __future__ import annotations

from mmagen.toolchain.find import COMPILE, Tool, Toolchain

HEADERS = ("tool", "found", "status", "what to do")

_LABELS = {
    "nvcc": "CUDA compiler (nvcc)",
    "host_compiler": "C++ compiler",
    "cmake": "CMake",
    "ninja": "ninja",
    "cutlass": "CUTLASS headers",
    "cuobjdump": "cuobjdump",
    "sanitizer": "compute-sanitizer",
}


def diagnose(toolchain: Toolchain) -> tuple[list[tuple[str, str, str, str]], bool]:
    """Rows under HEADERS, one per tool and GPU searched for, and whether a generated project can be compiled here.

    A missing GPU, cuobjdump or compute-sanitizer is only a note: compiling does not need it.
    """
    rows = [_tool_row(name, toolchain) for name in _LABELS if name in toolchain.wanted]
    if "gpus" in toolchain.wanted:
        rows += _gpu_rows(toolchain)
    return rows, not toolchain.missing(COMPILE)


def _tool_row(name: str, toolchain: Toolchain) -> tuple[str, str, str, str]:
    tool: Tool | None = getattr(toolchain, name)
    if tool:
        return _LABELS[name], f"{tool.version} ({tool.origin}: {tool.path})", "ok", ""
    status = "missing" if name in COMPILE else "note"
    return _LABELS[name], "-", status, toolchain.remedies.get(name, "")


def _gpu_rows(toolchain: Toolchain) -> list[tuple[str, str, str, str]]:
    if not toolchain.gpus:
        return [("GPU", "-", "note", toolchain.remedies.get("gpus", ""))]
    return [
        (f"GPU {index}", f"{gpu.name}, sm_{gpu.capability[0]}{gpu.capability[1]}, driver {gpu.driver}", "ok", "")
        for index, gpu in enumerate(toolchain.gpus)
    ]
