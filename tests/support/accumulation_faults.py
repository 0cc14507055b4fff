"""Kernels for the types of tools.error_bounds, with faults that the environment plants when they run."""

from __future__ import annotations

import re

from mmagen.generate.render import render
from tools.error_bounds import SPECS, plan_of

VARIABLE = "MMAGEN_TEST_FAULT"
FAULTS = ("zero", "missing")  # sums of zero; the last k tile is left out
# What hardware offers in place of these sums.
OTHER = {
    "f16 + f32, wgmma": "f16 + f16, wgmma",
    "e4m3 + f32, wgmma, fast": "e4m3 + f16, wgmma",
    "e4m3 + f32, wgmma, precise": "e4m3 + f32, wgmma, fast",
    "e5m2 + f32, wgmma, precise": "e5m2 + f32, wgmma, fast",
    "f16 + f32, mma": "f16 + f16, mma",
}
_JUDGED = re.compile(r"using Acc = .*?;|kAccumulation = \{.*?\};", re.DOTALL)


def called(name: str, other: bool = False) -> str:
    """The name of the project of a type."""
    return "bounds_" + re.sub(r"\W+", "_", name) + ("_other" if other else "")


def project(name: str, other: bool = False) -> dict[str, bytes]:
    """The files of a kernel whose judge expects the sums called `name`. other: the kernel itself has those of OTHER."""
    title = called(name, other)
    right = plan_of(name, called=title)
    files = render(right)
    subject = _edited(files["tests/subject.cuh"].decode())
    if other:
        files = render(plan_of(OTHER[name], right.epilogue.out.word, title))
        files["tests/subject.cuh"] = _judged_as(files["tests/subject.cuh"].decode(), subject).encode()
        return files
    return files | {"tests/subject.cuh": subject.encode()}


def _edited(subject: str) -> str:
    """The call of the kernel with a fault in its arguments."""
    for old, new in (
        ("#include <vector>\n", "#include <cstdlib>\n#include <string>\n#include <vector>\n"),
        ("    args.k = call.k;\n", '    args.k = call.k - (fault() == "missing" ? kTileK : 0);\n'),
        ("    args.alpha = call.alpha;\n", '    args.alpha = fault() == "zero" ? 0.0 : call.alpha;\n'),
        (
            "  static int run(",
            "  static std::string fault() {\n"
            f'    char const* const planted = std::getenv("{VARIABLE}");\n'
            '    return planted == nullptr ? "" : planted;\n'
            "  }\n\n  static int run(",
        ),
    ):
        assert subject.count(old) == 1, f"{old!r} occurs {subject.count(old)} times"
        subject = subject.replace(old, new)
    return subject


def _judged_as(subject: str, right: str) -> str:
    """The subject of another kernel, with the sums that the right one has."""
    wanted = _JUDGED.findall(right)
    assert len(_JUDGED.findall(subject)) == len(wanted) == 2
    return _JUDGED.sub(lambda _: wanted.pop(0), subject)


assert set(OTHER) | set(OTHER.values()) <= set(SPECS)
