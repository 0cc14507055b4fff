"""GPU targets as text: sm_80, sm_90a."""

from __future__ import annotations

from collections.abc import Iterable

# Compute capabilities, times ten, of the GPUs that CUDA has architectures for.
CAPABILITIES = (60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121)
_OLDEST_OF_ALL = 75  # of those that CUDA 13 compiles for, with CMake's "all"
_VARIANTS = {"a": 90, "f": 100}  # suffix: the oldest capability that has it


def capability(target: str) -> int:
    """80 for sm_80, 90 for sm_90a."""
    return int(target.removeprefix("sm_").rstrip("af"))


def exists(target: str) -> bool:
    """Is there such an architecture? Only sm_90 and later have one with the suffix a, sm_100 and later one with f."""
    return capability(target) in CAPABILITIES and capability(target) >= _VARIANTS.get(target[-1], 0)


def every_target() -> list[str]:
    """All that there are: sm_60, ..., sm_90, sm_90a, ..."""
    every = (f"sm_{one}{suffix}" for one in CAPABILITIES for suffix in ("", *_VARIANTS))
    return [name for name in every if exists(name)]


def those_that_exist() -> str:
    """The second half of a sentence about one that does not."""
    return f"one of {', '.join(f'sm_{one}' for one in CAPABILITIES)}, from sm_90 on also with a, from sm_100 on with f"


def cmake_unfit(target: str, fit: Iterable[str] = ()) -> str:
    """A condition of CMake's if(): ${architecture}, one entry of CMAKE_CUDA_ARCHITECTURES, lacks what `target` has.

    Only sm_90a has what it has, but sm_80 and all later ones have what sm_80 has. fit: further ones that have what `target` has.
    native may have it; all and all-major include architectures that do not.
    """
    number = target.removeprefix("sm_")
    if not number.isdigit():
        exact = "|".join(dict.fromkeys((number, *(one.removeprefix("sm_") for one in fit))))
        return f'NOT architecture MATCHES "^(({exact})(-real|-virtual)?|native)$"'
    old = "|".join(str(one) for one in CAPABILITIES if one < int(number))
    return f'architecture MATCHES "^({old}|all|all-major)(-real|-virtual)?$"' if int(number) > _OLDEST_OF_ALL else "FALSE"


def cmake_list(targets: Iterable[str]) -> str:
    """`80;90a`, as CMAKE_CUDA_ARCHITECTURES has it."""
    return ";".join(target.removeprefix("sm_") for target in targets)
