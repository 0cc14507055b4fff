"""Which CUDA headers a project takes along, by kind of kernel, main loop and schedule. Names without `.cuh`, in
templates/runtime."""

from __future__ import annotations

from mmagen.plan.model import Hopper, Kernel

_KERNEL = {
    "gemm": (
        "convert",
        "fill",
        "gemm_arguments",
        "gemm_kernel",
        "gemm_launch",
        "k_slices",
        "epilogue_staged",
        "raster",
        "status",
    ),
    "micro": ("convert", "k_slices", "micro_kernel", "micro_launch", "status"),
    "ownership": ("ownership_kernel", "status"),
}
_WGMMA_MICRO = ("convert", "micro_launch", "sm90_micro_kernel", "status")
_MAINLOOP = {
    None: (),
    "mainloop_multistage": ("mainloop_multistage", "cp_async", "fill_async"),
    "mainloop_register_staged": ("mainloop_register_staged",),
}
_HOPPER = (
    "convert",
    "gemm_arguments",
    "raster",
    "sm90_barrier",
    "sm90_epilogue",
    "sm90_launch",
    "sm90_multiply",
    "sm90_params",
    "sm90_producer",
    "sm90_tensor_map",
    "sm90_tma",
    "sm90_unaligned",
    "status",
)
_HOPPER_SCHEDULE = {"warpgroup": (), "cooperative": ("sm90_split_k", "sm90_stream_k"), "pingpong": ()}
_REPORT = ("test/device", "test/error", "test/nvml", "test/options", "test/problem", "test/record")
_JUDGE = (
    *_REPORT,
    "test/buffers",
    "test/compare",
    "test/inputs",
    "test/judge",
    "test/operands",
    "test/reference",
    "test/session",
    "test/small_int",
    "test/timing",
    "test/types",
    "test/verify_main",
)
_TEST = {
    "gemm": (*_JUDGE, "bench/bench_main", "bench/candidates", "bench/cublaslt"),
    "micro": _JUDGE,
    "ownership": (*_REPORT, "ownership/ownership_main"),
}


def runtime(kind: str, kernel: Kernel) -> tuple[str, ...]:
    """Headers of include/mmagen, with their folder."""
    if kernel.hopper:
        names = _hopper(kernel.hopper)
    elif kind == "micro" and kernel.a.tma:
        names = _WGMMA_MICRO
    else:
        names = (*_KERNEL[kind], *_MAINLOOP[kernel.mainloop])
    return tuple(sorted(f"mmagen/{name}" for name in names))


def _hopper(hopper: Hopper) -> tuple[str, ...]:
    return (*_HOPPER, f"sm90_{hopper.schedule}", *_HOPPER_SCHEDULE[hopper.schedule])


def test_runtime(kind: str, kernel: Kernel) -> tuple[str, ...]:
    """Headers of tests/mmagen, with their folder."""
    peak = ("bench/sm90_peak" if kernel.hopper else "bench/atom_peak",) if kind == "gemm" else ()
    return tuple(sorted((*_TEST[kind], *peak)))
