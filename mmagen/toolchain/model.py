"""What compiling and running need, as values: tools, GPUs, and what to do about each that is missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mmagen.core.errors import BuildError

EMULATE = ("nvcc", "host_compiler", "cutlass")
"""What kernels and host code for the emulator are compiled with."""
COMPILE = ("nvcc", "host_compiler", "cmake", "ninja", "cutlass")
EVERYTHING = (*COMPILE, "cuobjdump", "sanitizer", "gpus")

_CUDA_EXTRA = "pip install 'mmagen[cuda]'"
REMEDIES = {
    "nvcc": f"{_CUDA_EXTRA}, or install the CUDA toolkit and set CUDACXX to its nvcc",
    "host_compiler": "install a C++17 compiler, e.g. apt install g++, or set CXX",
    "cmake": "pip install 'cmake>=3.24'",
    "ninja": "pip install ninja",
    "cutlass": f"{_CUDA_EXTRA}, or set CUTLASS_DIR to a CUTLASS checkout",
    "cuobjdump": "install the CUDA toolkit's cuobjdump; only needed to look at machine code",
    "sanitizer": "install the CUDA toolkit's compute-sanitizer; only needed for verify --sanitize",
    "gpus": "run on a machine with an NVIDIA GPU and its driver; compiling needs none",
}


@dataclass(frozen=True)
class Tool:
    """One tool or header tree: `path` to it, its `version`, and `origin`, the place that named it."""

    path: Path
    version: str
    origin: str


@dataclass(frozen=True)
class Gpu:
    """One visible NVIDIA GPU: `capability` is (major, minor), `driver` the driver's version, `cuda` the latest version of CUDA
    that it supports, (major, minor) or None if unknown, `multiprocessors` their number, 0 if unknown."""

    name: str
    capability: tuple[int, int]
    driver: str
    cuda: tuple[int, int] | None = None
    multiprocessors: int = 0


@dataclass(frozen=True)
class Toolchain:
    """What was looked for (`wanted`) and what was found; a wanted item that is None has its way out in `remedies`.

    cutlass.path is the folder to include from, the one that holds `cutlass/version.h`. toolkit: the folder
    that nvcc takes its programs and headers from. cublaslt: it has cuBLASLt, which benchmarks are then linked to.
    cusparselt: the folder of cuSPARSELt, which those of sparse kernels are linked to.
    """

    nvcc: Tool | None = None
    host_compiler: Tool | None = None
    cmake: Tool | None = None
    ninja: Tool | None = None
    cutlass: Tool | None = None
    cuobjdump: Tool | None = None
    sanitizer: Tool | None = None
    gpus: tuple[Gpu, ...] = ()
    toolkit: Path | None = None
    cublaslt: bool = False
    cusparselt: Path | None = None
    wanted: tuple[str, ...] = EVERYTHING
    remedies: Mapping[str, str] = field(default_factory=dict)

    def missing(self, names: Collection[str] = COMPILE) -> tuple[str, ...]:
        """Those of `names` that were wanted and not found."""
        return tuple(name for name in names if name in self.wanted and not getattr(self, name))

    def need(self, *names: str) -> None:
        """Raise BuildError, with what to do about it, unless all of `names` were found."""
        absent = self.missing(names)
        if absent:
            lines = (f"{name}: not found; {self.remedies.get(name, REMEDIES[name])}" for name in absent)
            works = "without them, these work: mmagen init, new, build (not --compile), vendor, inspect, diff, atoms, schema"
            raise BuildError("\n  ".join(["required tools are missing:", *lines]) + f"\n{works}")
