"""Which config a library's own host code chooses, on either side of each bound of its rules and for the problems of its spec."""

from __future__ import annotations

from collections.abc import Iterator

from mmagen.families.library import choose
from mmagen.host_runtime.library import text
from mmagen.plan.cost import Call, KernelShape
from mmagen.plan.plans import GemmPlan
from mmagen.spec.kernel import When
from mmagen.spec.model import Problem
from mmagen.verify.emulated.interface import Interface
from mmagen.verify.emulated.interface_calls import LARGEST

_USUAL = 256  # an extent that a rule says nothing about
_MOST_PROBLEMS = 32  # of the spec


def wrong(interface: Interface) -> list[str]:
    """The calls for which NAME_config_name does not say what the spec's rules say, in words; [] of a kernel alone."""
    library = interface.task.library
    if not library or library.spec.grouped:
        return []
    own = [problem for problem in library.spec.problems or () if problem.batch == 1 and not problem.offset]
    asked = list(dict.fromkeys([*_beside_bounds(library), *own[:_MOST_PROBLEMS]]))
    symbol = interface.task.symbol("config_name")
    calls = [interface.calls.arguments(_arguments(library, problem)) for problem in asked]
    said = interface.ask([word for one in calls for word in text(symbol, one)]).texts
    return [
        f"{symbol} says {name} for {problem.text}; by the spec's rules it is {right}"
        for problem, name in zip(asked, said, strict=True)
        if name != (right := choose(library, problem).name)
    ]


def _arguments(library: GemmPlan, problem: Problem) -> dict[str, float]:
    """Extents and leading dimensions of a call for the problem."""
    sizes, pitches = KernelShape.of(library).bytes, Call.of(library, problem).pitches
    lines = {f"ld{name}": pitch // size for name, size, pitch in zip("abd", sizes, pitches, strict=True)}
    return {**dict(zip("mnk", problem.shape, strict=True)), **lines}


def _beside_bounds(library: GemmPlan) -> Iterator[Problem]:
    """Problems at each bound of each rule and one beyond, whose other extents satisfy the rule."""
    for when in (config.when for config in library.configs if config.when):
        inside = _inside(when)
        for about, (low, high) in when.intervals.items():
            bounds = [low - 1, low] if low is not None else []
            for bound in (*bounds, *([high, high + 1] if high is not None else ())):
                extents = inside | ({"m": 1, "n": bound} if about == "mn" else {about: bound})
                if all(1 <= extent <= LARGEST for extent in extents.values()):
                    yield Problem(shape=(extents["m"], extents["n"], extents["k"]))


def _inside(when: When) -> dict[str, int]:
    """Extents that satisfy the rule's intervals of m, n and k."""
    extents = {}
    for name in "mnk":
        low, high = when.intervals.get(name, (None, None))
        extents[name] = min(max(_USUAL, low or 1), high or LARGEST)
    return extents
