"""Which config a library's own host code chooses: on either side of each bound of its rules, for the problems of its spec, and
where the predicted times decide, with a workspace, with none, and with one that is too small for copies of operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from mmagen.families.library import choose, ranked
from mmagen.host_runtime.library import text
from mmagen.plan.cost import Call, KernelShape
from mmagen.plan.plans import GemmPlan
from mmagen.spec.kernel import When
from mmagen.spec.model import Problem
from mmagen.verify.emulated.interface import Interface
from mmagen.verify.emulated.interface_calls import LARGEST

_USUAL = 256  # an extent that a rule says nothing about
_MOST_PROBLEMS = 32  # of the spec
_EXTENTS = (16, 136, 1000, 4096, 16384)  # among which are problems for whose times the kernels differ
_CLEAR = 1e-6  # by which the second time is longer, relative to the first: C++ may round otherwise


@dataclass(frozen=True)
class _Way:
    """How a call passes a workspace. changes: of the arguments, which have a large one; workspace, room: as choose() has them."""

    text: str
    changes: Mapping[str, float] = field(default_factory=dict)
    workspace: bool = True
    room: bool = True


_AS_ASKED_FOR = _Way("")
_WAYS = (
    _AS_ASKED_FOR,
    _Way(" without a workspace", {"workspace": 0, "workspace_bytes": 0}, workspace=False),
    _Way(" with a workspace of 0 bytes", {"workspace_bytes": 0}, room=False),
)


def wrong(interface: Interface) -> list[str]:
    """The calls for which NAME_config_name does not say what the spec's rules and the predicted times say, in words; [] of a kernel
    alone."""
    library = interface.task.library
    if not library:
        return []
    own = [problem for problem in library.spec.problems or () if problem.batch == 1 and not problem.offset]
    by_rules = dict.fromkeys([*_beside_bounds(library), *own[:_MOST_PROBLEMS]])
    asked = [*((problem, _AS_ASKED_FOR) for problem in by_rules), *product(_by_times(library), _WAYS)]
    symbol = interface.task.symbol("config_name")
    calls = [interface.calls.arguments({**arguments_of(library, problem), **way.changes}) for problem, way in asked]
    said = interface.ask([word for one in calls for word in text(symbol, one)]).texts
    return [
        f"{symbol} says {name} for {problem.text}{way.text}; by the spec's rules and predicted times it is {right}"
        for (problem, way), name in zip(asked, said, strict=True)
        if name != (right := choose(library, problem, way.workspace, way.room).name)
    ]


def _by_times(library: GemmPlan) -> list[Problem]:
    """Problems for which the predicted times decide, with lines that TMA addresses and with others: one for each outcome, which is
    what is chosen in each of _WAYS."""
    others = [config for config in library.configs if config.when is None]
    if len(others) < 2 or any(config.cost is None for config in others):
        return []
    found: dict[tuple[object, ...], Problem] = {}
    for *shape, pad in product(_EXTENTS, _EXTENTS, _EXTENTS, (0, 1)):
        problem = Problem(shape=(shape[0], shape[1], shape[2]), ld_pad=pad)
        if any(config.when and config.when.holds(*problem.shape) for config in library.configs):
            continue
        times = [ranked(library, problem, way.workspace, way.room) for way in _WAYS]
        if all(second > first * (1 + _CLEAR) for (first, _), (second, _), *_ in times):
            found.setdefault((pad, *(best.name for (_, best), *_ in times)), problem)
    return list(found.values())


def arguments_of(library: GemmPlan, problem: Problem) -> dict[str, float]:
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
