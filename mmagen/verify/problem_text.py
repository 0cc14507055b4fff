"""Problems as text: as programs take them, and as tables print them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import cast

from mmagen.core.errors import UsageError
from mmagen.plan.plans import GemmPlan
from mmagen.plan.project import ProjectPlan
from mmagen.spec.model import Problem

_ARGUMENT = re.compile(r"^\d+,\d+,\d+(,\d+)?(:\w+=[\w.+-]+)*$")
# As tables print one: 1024x512x64 b3 ld+8 off+1 alpha=2 beta=-1.
_PRINTED = re.compile(r"^(\d+)x(\d+)x(\d+)(?:x(\d+))?((?: \S+)*)$")
_COUNTED = re.compile(r" groups=\d+ (of \d+|by Zipf's law, \d+) rows$")  # groups that are too many to be printed
_SETTINGS = {"ld+": "ld_pad=", "off+": "offset="}


def problem_argument(problem: Problem) -> str:
    """The problem as `--problem` takes it and the programs print it: `300,200,136,3:alpha=2`."""
    groups = problem.groups
    extents = [*problem.shape, *([problem.batch] if problem.batch != 1 and not groups else [])]
    settings = (
        ("ld_pad", problem.ld_pad, 0),
        ("offset", problem.offset, 0),
        ("alpha", problem.alpha, 1),
        ("beta", problem.beta, 0),
        *((f"batch_stride_{name}", getattr(problem, f"batch_stride_{name}"), None) for name in "abcd"),
    )
    # %.9g, as the programs' number_text.
    said = [f"{key}={value:.9g}" for key, value, usual in settings if value != usual]
    if groups:
        sizes = ("x".join(map(str, one)) for one in groups.extents) if groups.extents else map(str, groups.sizes)
        said.append(f"groups={'+'.join(sizes)}")
    return ":".join([",".join(map(str, extents)), *said])


def as_argument(text: str, plans: Sequence[ProjectPlan] = ()) -> str:
    """A problem that a user writes or pastes, as the programs take it. plans: of whose problems those with many groups may be
    named as they are printed. Raises UsageError for a text that is no problem."""
    found = text.strip()
    if _COUNTED.search(found) and (named := next((one for one in _known(plans) if one.text == found), None)):
        return problem_argument(named)
    if printed := _PRINTED.match(found):
        *extents, rest = (part or "" for part in printed.groups())
        settings = rest.split()
        if not extents[3] and settings and re.fullmatch(r"b\d+", settings[0]):
            extents[3] = settings.pop(0)[1:]
        for short, key in _SETTINGS.items():
            settings = [key + one.removeprefix(short) if one.startswith(short) else one for one in settings]
        found = ":".join([",".join(filter(None, extents)), *settings])
    if not _ARGUMENT.match(found):
        raise UsageError(
            f"--problem {text}: write it as M,N,K or M,N,K,BATCH, e.g. 4096,4096,1024:ld_pad=8, or as it is printed, "
            "e.g. '4096x4096x1024 ld+8'"
        )
    return found


def _known(plans: Sequence[ProjectPlan]) -> Iterator[Problem]:
    """The problems of specs, and those that emulation chooses."""
    from mmagen.verify.emulated.session import emulated_cases

    for plan in plans:
        yield from plan.problems
        library = None if "" in plan.by_config else cast(GemmPlan, plan)
        for one in plan.by_config.values():
            yield from (problem for problem, _ in emulated_cases(one, library))
