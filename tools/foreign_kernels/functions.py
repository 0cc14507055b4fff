"""Kernels of projects whose host functions take pointers and extents, and are called as they are."""

from __future__ import annotations

from collections.abc import Iterator

from tools.foreign_kernels.kernel import Kernel
from tools.foreign_kernels.problems import Problem
from tools.foreign_kernels.sources import CUDA_HGEMM, FAST_CU, SGEMM_CUDA

_HGEMM = {
    "wmma": {
        "naive": "wmmaNaive",
        "base": "wmmaBase",
        "padding": "wmmaPadding",
        "async": "wmmaAsync",
        "async_pg2s": "wmmaAsyncPg2s",
        "async_pg2s_ps2r": "wmmaAsyncPg2sPs2r",
        "async_stage2": "wmmaAsyncStage2",
        "async_stage3": "wmmaAsyncStage3",
    },
    "mma": {
        "naive": "mmaNaive",
        "base": "mmaBase",
        "permuted": "mmaPermuted",
        "async": "mmaAsync",
        "async_pg2s": "mmaAsyncPg2s",
        "async_pg2s_ps2r": "mmaAsyncPg2sPs2r",
        "async_stage2": "mmaAsyncStage2",
        "async_stage3": "mmaAsyncStage3",
        "async_stage4": "mmaAsyncStage4",
    },
}
_NO_INIT_FENCE = (
    "mbarriers are initialised, and after bar.sync alone TMA completes on them (CUDA programming guide, TMA: fence after init)"
)
_NO_LAST_BARRIER = (
    "consumers arrive on the mbarriers of the other CTA for tiles that its producer does not load any more: that CTA may have "
    "ended (PTX ISA, mapa and shared::cluster: the CTA must exist); a cluster barrier before the end is missing"
)
_NO_STORE_FENCE = (
    "threads write a tile to shared memory and meet at a barrier; the TMA store of it then reads with no fence.proxy.async between "
    "(PTX ISA, cp.async.bulk.tensor: the async proxy)"
)
_NO_STORE_WAIT = "the last TMA store of a CTA is not waited for: shared memory may be released while it is read"

_TWO_BRANCHES = (
    "warps meet at the __syncthreads() of two branches; CUDA allows it in conditional code only where the condition is the same "
    "for the whole block (CUDA programming guide, Synchronization Functions)"
)


def _fast_defects(number: int) -> dict[str, str]:
    found = {"proxy_fence": _NO_INIT_FENCE} if number == 7 else {}
    if number >= 8:
        found["cluster_exit"] = _NO_LAST_BARRIER
    if number >= 10:
        found |= {"proxy_fence": _NO_STORE_FENCE, "async_race": _NO_STORE_WAIT}
    return found


def _fast_problem(number: int) -> Problem:
    """Kernels 6 to 10 take groups of 16 by 8 tiles alone."""
    m, n, k = (2048, 2048, 192) if 6 <= number <= 10 else (512, 512, 320)
    return Problem(m, n, k, types=("bf16", "bf16", "bf16"), layout="KKM")


def _all() -> Iterator[Kernel]:
    for folder, functions in _HGEMM.items():
        for name, function in functions.items():
            file = f"{folder}/{folder}_{name}.cu"
            macros: dict[str, str | int] = {"SOURCE": f'"{file}"', "FUNCTION": function}
            problem = Problem(256, 512, 192)
            yield Kernel(f"hgemm_{folder}_{name}", CUDA_HGEMM, f"src/{file}", "cuda_hgemm.cu", "sm_80", macros, problem)
    for number in range(2, 13):
        where = f"examples/matmul/matmul_{number}.cuh"
        problem, defects = _fast_problem(number), _fast_defects(number)
        yield Kernel(f"fast_{number}", FAST_CU, where, "fast_cu.cu", "sm_90a", {"NUMBER": number}, problem, defects)
    for number in range(1, 13):
        problem = Problem(256, 256, 64, types=("f32", "f32", "f32"), layout="KNN", alpha=2, beta=3)
        defects = {"barrier_divergence": _TWO_BRANCHES} if number == 11 else {}
        macros = {"NUMBER": number}
        yield Kernel(f"sgemm_{number}", SGEMM_CUDA, "src/runner.cu", "sgemm_cuda.cu", "sm_80", macros, problem, defects)


FUNCTIONS = tuple(_all())
