"""One project to compile, and the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmagen.build.log import KernelInfo
from mmagen.toolchain.model import Toolchain


@dataclass(frozen=True)
class BuildResult:
    """The result of compiling one project.

    ok: every requested program exists. programs: kind ("verify", "bench", "tune") -> path; library: the kernel's library.
    log: what was printed for this project, project paths relative to it. errors: the useful lines of it on failure.
    seconds: time of its compile steps, summed (of the first build when `cached`). reason: one sentence, "" when ok.
    offered: the programs that the project has, built or not.
    arch: what it was compiled for ("sm_90a"). cuda, cutlass, host: versions it was built with.
    """

    name: str
    project: Path
    ok: bool
    programs: Mapping[str, Path] = field(default_factory=dict)
    library: Path | None = None
    log: str = ""
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ptxas: tuple[KernelInfo, ...] = ()
    seconds: float = 0.0
    cached: bool = False
    reason: str = ""
    arch: tuple[str, ...] = ()
    kernel: str = ""
    offered: tuple[str, ...] = ()
    spec_sha: str = ""
    cuda: str = ""
    cutlass: str = ""
    host: str = ""


@dataclass(frozen=True)
class Job:
    """One project as it was read: its files (path in the project -> content), and what to make of them.

    programs: to build now; offered: all that the project has.
    """

    project: Path
    name: str
    kernel: str
    spec_sha: str
    files: Mapping[str, bytes]
    arch: tuple[str, ...]
    programs: tuple[str, ...]
    offered: tuple[str, ...]
    cutlass: str


def vendored_cutlass(files: Mapping[str, bytes]) -> str:
    """The folder in the project from which its own CUTLASS headers are included, or ""."""
    tail = "/cutlass/version.h"
    return next((path.removesuffix(tail) for path in files if path.endswith(tail)), "")


def with_origin(result: BuildResult, job: Job, toolchain: Toolchain) -> BuildResult:
    """`result` with what it was made from and with."""
    assert toolchain.nvcc and toolchain.host_compiler
    return replace(
        result,
        arch=job.arch,
        kernel=job.kernel,
        offered=job.offered,
        spec_sha=job.spec_sha,
        cuda=toolchain.nvcc.version,
        cutlass=job.cutlass,
        host=toolchain.host_compiler.version,
    )
