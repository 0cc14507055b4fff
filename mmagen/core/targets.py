"""GPU targets as text: sm_80, sm_90a."""

from __future__ import annotations

from collections.abc import Iterable


def capability(target: str) -> int:
    """80 for sm_80, 90 for sm_90a."""
    return int(target.removeprefix("sm_").rstrip("af"))


def cmake_list(targets: Iterable[str]) -> str:
    """`80;90a`, as CMAKE_CUDA_ARCHITECTURES has it."""
    return ";".join(target.removeprefix("sm_") for target in targets)
