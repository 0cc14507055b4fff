"""The kernels: those that templates make here; those of functions.py are called as they are."""

from __future__ import annotations

from dataclasses import replace

from tools.foreign_kernels.functions import FUNCTIONS
from tools.foreign_kernels.kernel import Kernel
from tools.foreign_kernels.problems import Problem
from tools.foreign_kernels.sources import CUTLASS, DEEPGEMM, THUNDERKITTENS

_C_TYPES = {
    "f16": "cutlass::half_t",
    "bf16": "cutlass::bfloat16_t",
    "tf32": "float",
    "f32": "float",
    "f64": "double",
    "e4m3": "cutlass::float_e4m3_t",
    "e5m2": "cutlass::float_e5m2_t",
    "s8": "int8_t",
    "s32": "int32_t",
}


# What is reported of kernels whose results are right on a GPU, because it holds for them by the documents.
_LAST_LOADS = (
    "its mainloop goes on loading k tiles past the last one, which nothing waits for: they may arrive after the CTA has ended. "
    "CUTLASS 4.4 loads only while k_tile_count > 0"
)
_NO_BARRIER = (
    "cp_async_wait<0> waits for the thread's own copies; wgmma then reads those of the other threads with neither a barrier nor "
    "a fence.proxy.async between (PTX ISA, wgmma.mma_async: an async proxy fence has to order prior writes)"
)
_CP_ASYNC_PROXY = (
    "the producer's cp.async writes shared memory in the generic proxy and completes on an mbarrier; wgmma reads it with no "
    "fence.proxy.async between (PTX ISA, wgmma.mma_async, as above)"
)
_NO_STORE_WAIT = (
    "the last TMA store of a CTA is not waited for: shared memory may be released while it is read "
    "(CUDA programming guide, bulk copies from shared to global memory: wait before it is destroyed)"
)
_NO_INIT_FENCE = (
    "TMA completes on an mbarrier after bar.sync or in program order alone; neither fence.mbarrier_init nor fence.proxy.async "
    "makes the initialisation visible to it (CUDA programming guide, TMA: fence after init)"
)
_LATE_WARPS = (
    "four producer warps wait for each stage to be free, but only the first warp's loads follow its waits: nothing keeps another "
    "warp from being two rounds of the stages late within a tile, and it then waits for a phase that has passed (PTX ISA, "
    "mbarrier.try_wait: a parity tells a phase from the one before it alone)"
)

_TUTORIALS = "examples/cute/tutorial/"


def _tutorial(
    name: str, file: str, arch: str, element: str, transposed: str, problem: Problem, defects: dict[str, str] | None = None
) -> Kernel:
    """transposed: BLAS letters of A and B. C is M contiguous."""
    macros: dict[str, str | int] = {"TUTORIAL": f'"{file.rpartition("/")[2]}"', "ELEMENT": _C_TYPES[element]}
    layout = ("K" if transposed[0] == "T" else "M") + ("N" if transposed[1] == "T" else "K") + "M"
    problem = replace(problem, types=(element,) * 3, layout=layout)
    return Kernel(name, CUTLASS, _TUTORIALS + file, "cute_tutorial.cu", arch, macros, problem, defects or {})


def _cutlass3(
    name: str,
    schedule: str,
    epilogue: str,
    tile: tuple[int, int, int],
    cluster: tuple[int, int],
    problem: Problem,
    accumulator: str = "f32",
    defects: dict[str, str] | None = None,
    **more: str | int,
) -> Kernel:
    macros = _elements(problem, accumulator) | _layouts(problem.layout)
    macros |= dict(zip(("TILE_M", "TILE_N", "TILE_K", "CLUSTER_M", "CLUSTER_N"), (*tile, *cluster), strict=True))
    macros |= {"SCHEDULE": f"cutlass::gemm::{schedule}", **more}
    if epilogue:
        macros["EPILOGUE"] = f"cutlass::epilogue::{epilogue}"
    where = "include/cutlass/gemm/collective/collective_builder.hpp"
    return Kernel(name, CUTLASS, where, "cutlass3_gemm.cu", "sm_90a", macros, problem, defects or {})


def _layouts(layout: str) -> dict[str, str | int]:
    """CUTLASS's names of a problem's layout."""
    names = {"LAYOUT_A": layout[0] == "K", "LAYOUT_B": layout[1] == "N", "LAYOUT_C": layout[2] == "N"}
    return {name: "RowMajor" if rows else "ColumnMajor" for name, rows in names.items()}


def _elements(problem: Problem, accumulator: str) -> dict[str, str | int]:
    macros: dict[str, str | int] = {f"ELEMENT_{x}": _C_TYPES[t] for x, t in zip("ABC", problem.types, strict=True)}
    return macros | {"ACCUMULATOR": _C_TYPES[accumulator]}


def _cutlass2(
    name: str,
    tile: tuple[int, int, int],
    warp: tuple[int, int, int],
    mma: tuple[int, int, int],
    stages: int,
    problem: Problem,
    accumulator: str = "f32",
    **more: str | int,
) -> Kernel:
    macros = _elements(problem, accumulator) | _layouts(problem.layout) | {"STAGES": stages}
    for word, shape in (("TILE", tile), ("WARP", warp), ("MMA", mma)):
        macros |= {f"{word}_{mode}": extent for mode, extent in zip("MNK", shape, strict=True)}
    where = "include/cutlass/gemm/device/gemm_universal.h"
    return Kernel(name, CUTLASS, where, "cutlass2_gemm.cu", "sm_80", macros | more, problem)


def _deepgemm(name: str, tile: tuple[int, int], stages: int, multicast: int, problem: Problem) -> Kernel:
    fp8 = problem.scales
    blocks = -(-problem.k // (128 if fp8 else 64))
    macros: dict[str, str | int] = {"TILE_M": tile[0], "TILE_N": tile[1], "STAGES": stages, "MULTICAST": multicast}
    macros |= {"LAST_STAGES": blocks % stages, "SMS": 2}
    if fp8:
        macros["FP8"] = 1
    where = "deep_gemm/include/deep_gemm/impls/" + ("sm90_fp8_gemm_1d2d.cuh" if fp8 else "sm90_bf16_gemm.cuh")
    problem = replace(problem, types=("e4m3", "e4m3", "bf16") if fp8 else _BF16)
    return Kernel(name, DEEPGEMM, where, "deepgemm.cu", "sm_90a", macros, problem, {"async_race": _NO_STORE_WAIT})


def _thunderkittens(name: str, file: str, problem: Problem, defects: dict[str, str], **more: str | int) -> Kernel:
    where = f"kernels/gemm/{file}"
    macros: dict[str, str | int] = {"SOURCE": f'"gemm/{file}"', "KITTENS_HOPPER": 1, **more}
    options = ("-std=c++20", "--use_fast_math", "--expt-extended-lambda")
    problem = replace(problem, types=_BF16, layout="KNN")
    return Kernel(name, THUNDERKITTENS, where, "thunderkittens.cu", "sm_90a", macros, problem, defects, options)


_HALF = ("f16", "f16", "f16")
_BF16 = ("bf16", "bf16", "bf16")
_SCHEDULER = "cutlass::gemm::StreamKScheduler"

KERNELS = (
    _tutorial("cute_sgemm_1_nt", "sgemm_1.cu", "sm_80", "f32", "NT", Problem(256, 128, 24, alpha=2)),
    _tutorial("cute_sgemm_1_tn", "sgemm_1.cu", "sm_80", "f32", "TN", Problem(128, 256, 24)),
    _tutorial("cute_sgemm_sm70_nt", "sgemm_sm70.cu", "sm_80", "f32", "NT", Problem(128, 256, 40)),
    _tutorial("cute_sgemm_sm70_tn", "sgemm_sm70.cu", "sm_80", "f32", "TN", Problem(256, 128, 40)),
    _tutorial("cute_sgemm_sm80_tn", "sgemm_sm80.cu", "sm_80", "f16", "TN", Problem(256, 128, 320)),
    _tutorial(
        "cute_wgmma_sm90_tn",
        "hopper/wgmma_sm90.cu",
        "sm_90a",
        "f16",
        "TN",
        Problem(128, 256, 320),
        {"shared_race": _NO_BARRIER, "proxy_fence": _NO_BARRIER},
    ),
    _tutorial(
        "cute_wgmma_sm90_nt",
        "hopper/wgmma_sm90.cu",
        "sm_90a",
        "f16",
        "NT",
        Problem(256, 128, 256),
        {"shared_race": _NO_BARRIER, "proxy_fence": _NO_BARRIER},
    ),
    _tutorial(
        "cute_wgmma_tma_sm90_nt",
        "hopper/wgmma_tma_sm90.cu",
        "sm_90a",
        "f16",
        "NT",
        Problem(256, 128, 320),
        {"cluster_exit": _LAST_LOADS},
    ),
    _tutorial(
        "cute_wgmma_tma_sm90_tn",
        "hopper/wgmma_tma_sm90.cu",
        "sm_90a",
        "f16",
        "TN",
        Problem(256, 128, 256),
        {"cluster_exit": _LAST_LOADS},
    ),
    Kernel(
        "cute_tiled_copy",
        CUTLASS,
        _TUTORIALS + "tiled_copy.cu",
        "cute_program.cu",
        "sm_80",
        {"TUTORIAL": '"tiled_copy.cu"'},
        says="Success",
    ),
    _cutlass3(
        "cutlass3_ws_f16_tn", "KernelTmaWarpSpecialized", "", (64, 64, 64), (2, 1), Problem(192, 128, 384, types=_HALF, alpha=2)
    ),
    _cutlass3(
        "cutlass3_pingpong_bf16_nt",
        "KernelTmaWarpSpecializedPingpong",
        "TmaWarpSpecialized",
        (64, 128, 64),
        (1, 2),
        Problem(256, 512, 320, types=_BF16, layout="MNN", beta=1),
    ),
    _cutlass3(
        "cutlass3_stream_k_f16_tn",
        "KernelTmaWarpSpecializedCooperative",
        "TmaWarpSpecializedCooperative",
        (128, 128, 64),
        (1, 1),
        Problem(128, 640, 1024, types=("f16", "f16", "f32"), layout="KKM", workspace=1 << 20),
        SCHEDULER=_SCHEDULER,
    ),
    _cutlass3(
        "cutlass3_cooperative_f16_nn",
        "KernelTmaWarpSpecializedCooperative",
        "TmaWarpSpecializedCooperative",
        (128, 128, 64),
        (2, 1),
        Problem(256, 256, 256, batch=2, types=("f16", "f16", "f16"), layout="MKN", beta=2),
    ),
    _cutlass3(
        "cutlass3_fp8_fast",
        "KernelTmaWarpSpecializedPingpongFP8FastAccum",
        "TmaWarpSpecialized",
        (64, 128, 128),
        (1, 1),
        Problem(200, 384, 384, types=("e4m3", "e4m3", "bf16")),
    ),
    _cutlass3(
        "cutlass3_fp8_precise",
        "KernelTmaWarpSpecializedCooperative",
        "TmaWarpSpecializedCooperative",
        (128, 128, 128),
        (1, 1),
        Problem(256, 256, 512, types=("e4m3", "e5m2", "f16")),
    ),
    _cutlass3(
        "cutlass3_tf32_tn",
        "KernelTmaWarpSpecialized",
        "TmaWarpSpecialized",
        (64, 128, 32),
        (1, 1),
        Problem(128, 256, 96, types=("f32", "f32", "f32")),
    ),
    _cutlass3(
        "cutlass3_s8_tn",
        "KernelTmaWarpSpecializedPingpong",
        "TmaWarpSpecialized",
        (64, 128, 128),
        (2, 1),
        Problem(256, 256, 256, types=("s8", "s8", "s32")),
        "s32",
    ),
    _cutlass3(
        "cutlass3_pingpong_fp8_cluster",  # several tiles for each cluster, and stages that come round several times
        "KernelTmaWarpSpecializedPingpong",
        "TmaWarpSpecialized",
        (64, 64, 128),
        (2, 1),
        Problem(512, 512, 1408, types=("e4m3", "e4m3", "f16")),
    ),
    _cutlass3(
        "cutlass3_cp_async_f16",
        "KernelCpAsyncWarpSpecialized",
        "",
        (64, 64, 64),
        (1, 1),
        Problem(128, 128, 256, types=("f16", "f16", "f16")),
        defects={"proxy_fence": _CP_ASYNC_PROXY},
    ),
    _cutlass2(
        "cutlass2_f16_tn", (128, 128, 32), (64, 64, 32), (16, 8, 16), 3, Problem(256, 128, 160, types=_HALF, alpha=2, beta=1)
    ),
    _cutlass2(
        "cutlass2_f16_nt_split_k",
        (64, 64, 32),
        (32, 32, 32),
        (16, 8, 16),
        4,
        Problem(128, 128, 256, types=("f16", "f16", "f32"), layout="MNN", workspace=4096),
        SPLITS=3,
    ),
    _cutlass2("cutlass2_bf16_batched", (64, 128, 32), (32, 64, 32), (16, 8, 16), 3, Problem(72, 136, 72, 3, _BF16), BATCHED=1),
    _cutlass2(
        "cutlass2_s8_tn",
        (64, 64, 64),
        (32, 32, 64),
        (16, 8, 32),
        3,
        Problem(128, 128, 256, types=("s8", "s8", "s32")),
        "s32",
        MULTIPLY_ADD_SATURATE=1,
    ),
    _cutlass2(
        "cutlass2_f64_nt",
        (32, 64, 16),
        (16, 32, 16),
        (8, 8, 4),
        3,
        Problem(64, 64, 48, types=("f64",) * 3, layout="MNN"),
        "f64",
    ),
    _deepgemm("deepgemm_bf16", (128, 96), 3, 1, Problem(256, 192, 512)),
    _deepgemm("deepgemm_bf16_multicast", (64, 128), 4, 2, Problem(128, 512, 384)),
    _deepgemm("deepgemm_fp8_1d2d", (128, 128), 3, 1, Problem(256, 384, 640, scales=True)),
    _thunderkittens(
        "kittens_level_08", "educational_h100/level_08.cu", Problem(256, 256, 256), {"proxy_fence": _NO_INIT_FENCE}
    ),
    _thunderkittens(
        "kittens_bf16_h100",
        "bf16_h100/bf16_h100_gemm.cu",
        Problem(256, 512, 384),
        {"proxy_fence": _NO_INIT_FENCE, "mbarrier": _LATE_WARPS},
        WIDE=1,
    ),
    *FUNCTIONS,
)
