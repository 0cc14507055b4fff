"""The problems to tune on: from a file, the spec, a seeded distribution, or the projections of public models."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from mmagen.core.errors import UsageError
from mmagen.spec.model import BATCH_STRIDES, Problem
from mmagen.tuning.projections import PROJECTIONS, ROWS

DEFAULT_COUNT = 200
_MOST_M, _LEAST_NK, _MOST_NK = 16384, 128, 32768
_MOST_BYTES = 8e9  # of A, B and D together
_MOST_DIGITS = 18  # int() refuses a text of thousands of digits
_RANDOM = re.compile(r"random:(\d+)(?::(\d+))?")


def problems_of(source: str, of_spec: Sequence[Problem], element_bytes: tuple[int, int, int]) -> tuple[Problem, ...]:
    """The problems that `--problems` names: spec, models, random:SEED[:COUNT], or the path of a file. Without repetitions.

    of_spec: those of the spec. element_bytes: of A, B and D. Raises UsageError, of a file with its line.
    """
    if source == "spec":
        found: Sequence[Problem] = [one for one in of_spec if one.alpha == 1 and one.beta == 0]
    elif source == "models":
        found = model_problems()
    elif match := _RANDOM.fullmatch(source):
        found = random_problems(int(match[1]), int(match[2] or DEFAULT_COUNT), element_bytes)
    else:
        found = read_problems(Path(source))
    if not found:
        raise UsageError(f"--problems {source}: there is no problem to measure")
    return tuple(dict.fromkeys(found))


def is_random(source: str) -> bool:
    """Does `--problems` name random problems?"""
    return _RANDOM.fullmatch(source) is not None


def as_argument(problem: Problem) -> str:
    """The problem as programs take it: `4096,4096,4096`, `64,64,64,3`."""
    extents = ",".join(map(str, (*problem.shape, *((problem.batch,) if problem.batch != 1 else ()))))
    rest = [f"{key}={value}" for key, value in (("ld_pad", problem.ld_pad), ("offset", problem.offset)) if value]
    strides = [(key, getattr(problem, key)) for key in BATCH_STRIDES]
    rest += [f"{key}={value}" for key, value in strides if value is not None]
    return ":".join([extents, *rest])


def random_problems(seed: int, count: int, element_bytes: tuple[int, int, int] = (2, 2, 2)) -> list[Problem]:
    """`count` problems, the same for the same seed.

    M is log-uniform in 1..16384, N and K in 128..32768; N and K are multiples of 8 in half of the problems, of 64 in a quarter,
    and any number in a quarter. A, B and D take at most 8 GB.
    """
    draw = random.Random(seed)
    found: list[Problem] = []
    while len(found) < count:
        multiple = (8, 8, 64, 1)[len(found) % 4]
        m = _log_uniform(draw, 1, _MOST_M, 1)
        n, k = (_log_uniform(draw, _LEAST_NK, _MOST_NK, multiple) for _ in range(2))
        a, b, d = element_bytes
        if m * k * a + n * k * b + m * n * d <= _MOST_BYTES:
            found.append(Problem(shape=(m, n, k)))
    return found


def _log_uniform(draw: random.Random, least: int, most: int, multiple: int) -> int:
    value = math.exp(draw.uniform(math.log(least), math.log(most)))
    return min(max(round(value / multiple) * multiple, least), most)


def model_problems() -> list[Problem]:
    """All projections at all numbers of rows, models in turn."""
    shapes = {(m, n, k): None for layers in PROJECTIONS.values() for n, k in layers.values() for m in ROWS}
    return [Problem(shape=shape) for shape in shapes]


def read_problems(path: Path) -> list[Problem]:
    """One problem a line: M N K or M N K BATCH, separated by blanks, commas or x, or an item of a YAML list; # begins a comment.

    Raises UsageError with file and line of each fault.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise UsageError(
            f"--problems {path}: no such file; name one, or spec, models, or random:SEED[:COUNT], e.g. random:7:200"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--problems {path} cannot be read: {error}") from None
    found: list[Problem] = []
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            found.append(_read_line(text))
        except ValueError as error:
            faults.append(f"{path}:{number}: {error}")
    if faults:
        raise UsageError("\n".join(faults))
    return found


def _read_line(text: str) -> Problem:
    """The problem of one line; ValueError says what is wrong and what is right."""
    right = "write M N K or M N K BATCH, e.g. 4096 4096 4096"
    listed = re.fullmatch(r"(?:-\s+)?\[(.*)\]", text)
    words = re.split(r"\s*[,x]\s*|\s+", listed[1].strip() if listed else text)
    if not 3 <= len(words) <= 4:
        raise ValueError(f"{text[:60]!r} has {len(words)} {'number' if len(words) == 1 else 'numbers'}, not 3 or 4; {right}")
    if wrong := [word for word in words if not re.fullmatch(r"[0-9]+", word)]:
        raise ValueError(f"{(wrong[0] or text)[:40]!r} is not a positive integer; {right}")
    if long := [word for word in words if len(word) > _MOST_DIGITS]:
        raise ValueError(f"{long[0][:40]} is too large; {right}")
    try:
        return Problem.model_validate([int(word) for word in words])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ("M", "N", "K")[int(first["loc"][1])] if len(first["loc"]) > 1 else "BATCH"
        raise ValueError(f"{where}: {first['msg'].lower()}; {right}") from None
