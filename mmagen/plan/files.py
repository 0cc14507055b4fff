"""Which CUDA headers a project takes along, by kind of kernel and main loop. Names without `.cuh`."""

from __future__ import annotations

_KERNEL = {
    "gemm": ("convert", "fill", "gemm_kernel", "gemm_launch", "k_slices", "epilogue_staged", "raster", "status"),
    "micro": ("convert", "fill", "k_slices", "micro_kernel", "micro_launch", "status"),
    "ownership": ("ownership_kernel", "status"),
}
_MAINLOOP = {
    None: (),
    "mainloop_multistage": ("mainloop_multistage", "cp_async", "fill_async"),
    "mainloop_register_staged": ("mainloop_register_staged",),
}
_REPORT = ("test/device", "test/error", "test/nvml", "test/options", "test/problem", "test/record")
_JUDGE = (*_REPORT, "test/buffers", "test/compare", "test/inputs", "test/judge", "test/operands", "test/reference",
          "test/session", "test/small_int", "test/timing", "test/types", "test/verify_main")
_TEST = {
    "gemm": (*_JUDGE, "bench/atom_peak", "bench/bench_main", "bench/candidates", "bench/cublaslt"),
    "micro": _JUDGE,
    "ownership": (*_REPORT, "ownership/ownership_main"),
}


def runtime(kernel: str, mainloop: str | None) -> tuple[str, ...]:
    """Headers of include/mmagen."""
    return tuple(sorted((*_KERNEL[kernel], *_MAINLOOP[mainloop])))


def test_runtime(kernel: str) -> tuple[str, ...]:
    """Headers of tests/mmagen, with their folder in templates/runtime."""
    return tuple(sorted(_TEST[kernel]))
