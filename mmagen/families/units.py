"""Which files of a project's src/ are compiled together, as one translation unit."""

from __future__ import annotations

from math import ceil
from typing import cast

from mmagen.plan.plans import GemmPlan

_MOST_TOGETHER = 6


def units(plan: GemmPlan, *of_library: str) -> list[list[str]]:
    """The translation units of a gemm, each as names of source files in src/. The first is that of the interface. of_library: files
    that a library has besides those of its interface and its kernels.

    nvcc takes about 20 s to read CuTe's headers, 6 to 10 s for a kernel with wgmma, and 30 s for one with mma.sync, most of it for
    templates of CuTe, of which similar kernels share instances. So kernels of a library are compiled together, in at least two
    units if there are four or more files, so that two cores can share the work. A kernel of several widths takes 30 s besides the
    headers and is alone. (CPU time of nvcc 13.0 on a machine with two cores; docs/performance.md has that of the libraries.)
    """
    if not plan.configs:
        return [[plan.name]]
    together = list(of_library)
    alone: list[str] = []
    for name, kernel in plan.by_kernel.items():
        (alone if cast(GemmPlan, kernel).scheduler.several_widths else together).append(name)
    count = max(ceil(len(together) / _MOST_TOGETHER), min(2, len(together) // 2))
    return [[plan.name], *([name] for name in alone), *(together[i::count] for i in range(count))]
