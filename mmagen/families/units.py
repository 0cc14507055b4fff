"""Which files of a project's src/ are compiled together, as one translation unit."""

from __future__ import annotations

from math import ceil
from typing import cast

from mmagen.plan.plans import GemmPlan

_MOST_TOGETHER = 6


def units(plan: GemmPlan, *others: str) -> list[list[str]]:
    """The translation units of a gemm, each as names of source files in src/. The first is that of the interface. others: further
    source files, besides those of the interface and of a library's kernels.

    nvcc takes about 20 s to read CuTe's headers and 6 to 10 s for a kernel, so kernels of a library are compiled together: up to
    six of them, which take about as long as a kernel of several widths with the headers, and which is alone; four or more files
    are in at least two units, so that two cores can share the work. (CPU time of nvcc 13.0 on a machine with two cores, for the
    kernels of specs/sm90_gemm_bf16_library.yaml.)
    """
    if not plan.configs:
        return [[plan.name], *([name] for name in others)]
    together = list(others)
    alone: list[str] = []
    for name, kernel in plan.by_kernel.items():
        (alone if cast(GemmPlan, kernel).scheduler.several_widths else together).append(name)
    count = max(ceil(len(together) / _MOST_TOGETHER), min(2, len(together) // 2))
    return [[plan.name], *([name] for name in alone), *(together[i::count] for i in range(count))]
