"""Launches that leave many SMs idle, each with the change of the spec that mends it, tried. Printed by `build`, for the problems
that a spec lists."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from mmagen import families
from mmagen.core.errors import SpecFaults
from mmagen.mma.atoms import find_atom, wgmma_widths, with_n
from mmagen.plan.devices import Device, device_for
from mmagen.plan.launch import Launch, Numbers
from mmagen.plan.project import ProjectPlan
from mmagen.spec.model import Problem, Spec

POOR = 0.8  # busy places of all waves, below which a launch is worth a warning
GOOD = 0.9  # what a change must reach
EMPTY = 0.25  # CTAs of clusters that compute nothing
_MOST = 3  # warnings of a kind and kernel: the search for each takes milliseconds
_LEAST_K_TILES = 8  # with fewer, a launch takes no longer than its overhead

Change = dict[str, Any]


def warnings(plan: ProjectPlan) -> list[str]:
    """Sentences, without the name of the spec. Of kernels without problems of their own there are none."""
    device = device_for(plan.arch)
    if device is None or not plan.spec.problems:
        return []
    found = []
    for numbers in families.family_of(plan).numbers(plan, device, {}):
        spec = plan.by_config[numbers.kernel].spec
        about = f"config {numbers.kernel}, " if numbers.kernel else ""
        found += [f"{about}{text}" for kind in (_clusters, _waves) for text in islice(kind(spec, numbers), _MOST)]
    return found


def _useful(it: Launch) -> float:
    """The part of the CTAs that computes anything."""
    m, n, batch = it.tiles
    return m * n * batch * it.parts / it.work


def _clusters(spec: Spec, numbers: Numbers) -> Iterator[str]:
    for problem, it in numbers.launches:
        useful = _useful(it)
        if useful > 1 - EMPTY:
            continue
        m, n = spec.cluster or (1, 1)
        used = [one for one, other in numbers.launches if _useful(other) > 1 - EMPTY]  # and still are after the change
        better = [
            change
            for change in ({"cluster": (n, m)}, {"cluster": None})
            if all(_reaches(spec, change, one, numbers.device) for one in (problem, *used))
        ]
        if better:
            what = f"cluster: {list(better[0]['cluster'])}" if better[0]["cluster"] else "no cluster"
            yield (
                f"problem {problem.text}: {1 - useful:.0%} of the CTAs compute nothing, because {it.tiles[0]} x {it.tiles[1]} "
                f"tiles do not fill clusters of {m} x {n}; {what} uses all"
            )


def _reaches(spec: Spec, change: Change, problem: Problem, device: Device) -> bool:
    it = _launch(spec, change, problem, device)
    return it is not None and _useful(it) > 1 - EMPTY


def _waves(spec: Spec, numbers: Numbers) -> Iterator[str]:
    """Launches of several waves of which too large a part is idle."""
    for problem, it in numbers.launches:
        if it.waves < 2 or it.busy >= POOR or it.k_tiles < _LEAST_K_TILES:
            continue
        best: tuple[float, str] | None = None
        for change, text in _other_launches(spec):
            other = _launch(spec, change, problem, numbers.device)
            if other and other.busy >= GOOD and (best is None or other.busy > best[0]):
                best = (other.busy, text)
        if best:
            yield (
                f"problem {problem.text}: {it.work:,} CTAs' work on the {it.at_once:,} that {numbers.device.title} runs at once "
                f"is {it.waves} waves, {it.busy:.0%} busy; {best[1]} makes it {best[0]:.0%}"
            )


def _other_launches(spec: Spec) -> Iterator[tuple[Change, str]]:
    """A shared last wave, then tiles of at least half the size, in steps of an eighth, with a wgmma as wide as they need."""
    if spec.stream_k is None:
        yield {"stream_k": "last_wave"}, "stream_k: last_wave"
    atom = find_atom(spec.atom)  # None of sparse operations, whose widths along N are not offered
    assert spec.tile
    m, n, k = spec.tile
    for part_m in range(8, 3, -1):
        for part_n in range(8, 3, -1):
            tile = (m * part_m // 8, n * part_n // 8, k)
            if (part_m, part_n) == (8, 8) or part_m * part_n < 32 or m * part_m % 8 or n * part_n % 8:
                continue
            if atom and atom.wgmma and tile[1] % atom.n and atom.n * part_n // 8 in wgmma_widths(atom):
                name = with_n(atom, atom.n * part_n // 8).name
                yield {"tile": tile, "atom": name}, f"tile: {list(tile)} with atom: {name}"
            else:
                yield {"tile": tile}, f"tile: {list(tile)}"


def _launch(spec: Spec, change: Change, problem: Problem, device: Device) -> Launch | None:
    """The launch of the changed spec; None if it is refused."""
    changed = spec.model_copy(update={**change, "problems": (problem,)})
    try:
        plan = families.plan(changed)
    except SpecFaults:
        return None
    (numbers,) = families.family_of(plan).numbers(plan, device, {})
    return numbers.launches[0][1]
