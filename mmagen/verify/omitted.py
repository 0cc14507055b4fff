"""What verify does not run on a GPU, and why: a GPU of another architecture, problems that a program did not reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmagen.build.job import BuildResult
from mmagen.core.targets import capability
from mmagen.spec.model import Problem
from mmagen.toolchain.model import Gpu
from mmagen.verify.problem_text import problem_argument
from mmagen.verify.run import RunResult


def unsuitable(build: BuildResult, gpu: Gpu) -> str:
    """Why the GPU cannot run any of what was compiled, or ""."""
    if not build.arch or any(_runs(arch, gpu.capability) for arch in build.arch):
        return ""
    major, minor = gpu.capability
    return f"needs {' or '.join(build.arch)}; this GPU, {gpu.name}, has compute capability {major}.{minor} (sm_{major}{minor})"


def _runs(arch: str, has: tuple[int, int]) -> bool:
    """sm_90a runs on 9.0 alone, sm_100f on later GPUs of its major version, sm_80 on all later ones by its PTX."""
    needs = divmod(capability(arch), 10)
    if arch.endswith("a"):
        return has == needs
    return has >= needs and (not arch.endswith("f") or has[0] == needs[0])


def not_reached(problems: Sequence[Problem], run: RunResult, max_dim: int | None) -> Iterator[tuple[str, str]]:
    """The problems without a record, each with the reason: --max-dim, or how the program ended."""
    reported = {str(record["problem"]) for record in run.records}
    for problem in problems:
        if problem_argument(problem) in reported:
            continue
        if max_dim is not None and max(problem.shape) > max_dim:
            yield problem_argument(problem), f"larger than --max-dim {max_dim}"
        elif run.reason:
            yield problem_argument(problem), f"not reached: {run.reason}"
