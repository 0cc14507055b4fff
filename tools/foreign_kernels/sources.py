"""Where the kernels come from: repositories, versions, and what of a checkout is put on the compiler's command line."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from mmagen.core.errors import UsageError


@dataclass(frozen=True)
class Source:
    """A project. version: what the kernels were tried with, a tag or a commit. includes: folders of headers. marker: a
    file that every checkout has."""

    name: str
    url: str
    version: str
    includes: tuple[str, ...]
    marker: str


CUTLASS = Source(
    "cutlass",
    "https://github.com/NVIDIA/cutlass",
    "v4.2.0",
    ("include", "tools/util/include", "examples/cute/tutorial", "examples/cute/tutorial/hopper"),
    "include/cutlass/cutlass.h",
)
DEEPGEMM = Source(
    "deepgemm",
    "https://github.com/deepseek-ai/DeepGEMM",
    "v2.1.1.post3",
    ("deep_gemm/include",),
    "deep_gemm/include/deep_gemm/impls/sm90_bf16_gemm.cuh",
)
THUNDERKITTENS = Source(
    "thunderkittens",
    "https://github.com/HazyResearch/ThunderKittens",
    "0b55588d2769dde0c7a9a606ffc015b0ca7a9551",
    ("include", "prototype", "kernels"),
    "include/kittens.cuh",
)
CUDA_HGEMM = Source(
    "cuda_hgemm",
    "https://github.com/Bruce-Lee-LY/cuda_hgemm",
    "0d26c2e4415ab0d0af5a6bfae301275c608d46b4",
    ("src", "src/common"),
    "src/wmma/wmma_base.cu",
)
FAST_CU = Source(
    "fast_cu",
    "https://github.com/pranjalssh/fast.cu",
    "38eb642e0c081231d6f695978be63604bd7c689b",
    (".",),
    "examples/matmul/matmul_2.cuh",
)
SGEMM_CUDA = Source(
    "sgemm_cuda",
    "https://github.com/siboehm/SGEMM_CUDA",
    "60cba6f9b20a198116c76f18de8047f44df8c8b8",
    ("src",),
    "src/runner.cu",
)
SOURCES = {source.name: source for source in (CUTLASS, DEEPGEMM, THUNDERKITTENS, CUDA_HGEMM, FAST_CU, SGEMM_CUDA)}


@dataclass(frozen=True)
class Checkout:
    """A project on this machine. commit: what is checked out, "unknown" where git does not say."""

    source: Source
    folder: Path
    commit: str

    @property
    def flags(self) -> list[str]:
        """Of nvcc."""
        return [f"-I{self.folder / include}" for include in self.source.includes]


def checkout(source: Source, folder: Path) -> Checkout:
    """Raises UsageError where `folder` is no checkout of the project."""
    if not (folder / source.marker).is_file():
        raise UsageError(f"{folder} has no {source.marker}: check out {source.url} at {source.version} there")
    try:
        command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        commit = done.stdout.strip() if done.returncode == 0 else "unknown"
    except OSError:
        commit = "unknown"
    return Checkout(source, folder.resolve(), commit)
