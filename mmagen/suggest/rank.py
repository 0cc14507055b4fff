"""Candidates for a gemm, ranked by predicted time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mmagen import families
from mmagen.core.errors import SpecFaults, UsageError
from mmagen.families import kernel_warnings
from mmagen.families.estimate import mean_us
from mmagen.mma.atoms import Atom
from mmagen.plan import budgets
from mmagen.plan.devices import DEVICES, Device
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem, Spec
from mmagen.suggest.operations import operations
from mmagen.suggest.wanted import Wanted

WITHOUT_PROBLEMS = (Problem(shape=(4096, 4096, 4096)),)
EQUAL = 1.02  # times the least predicted time: less than the formula's error, so that the spec with fewer keys is preferred


@dataclass(frozen=True)
class Candidate:
    """keys: of the spec, as YAML has them; us: the geometric mean of predicted times."""

    keys: Mapping[str, Any]
    plan: GemmPlan
    us: float


@dataclass(frozen=True)
class Ranking:
    """Of one operation, the fastest first. passed_over: names of operations that come before it and build no such kernel, each
    with the reason. device: that times are predicted for."""

    atom: Atom
    candidates: tuple[Candidate, ...]
    passed_over: tuple[tuple[str, str], ...]
    device: Device
    problems: tuple[Problem, ...]


def rank(want: Wanted) -> Ranking:
    """The candidates of the first operation that the kernel can be built from; of a kernel that computes one tile the first that
    is legal, without a time. Raises UsageError where there is none."""
    passed_over: list[tuple[str, str]] = []
    device, problems = want.device or DEVICES[-1], want.problems or WITHOUT_PROBLEMS
    tried: set[tuple[str, int, int]] = set()
    for atom in operations(want):
        # Of complex operations the deeper ones have too many registers of fragments.
        kind = (atom.kind, atom.min_arch, atom.k if atom.type_d.parts > 1 else 0)
        if kind in tried:  # one operation of a kind is tried: what refuses it refuses the others
            continue
        tried.add(kind)
        found = _planned(want, atom, _offered(want, atom))
        if isinstance(found, str):
            passed_over.append((atom.name, found))
            continue
        if not found[0][1].any_shape:
            return Ranking(atom, (Candidate(*found[0], 0.0),), tuple(passed_over), device, problems)
        timed = [Candidate(keys, plan, mean_us(plan, device, problems)) for keys, plan in found]
        return Ranking(atom, tuple(_ranked(timed)), tuple(passed_over), device, problems)
    reasons = "; ".join(f"{name}: {reason}" for name, reason in passed_over)
    raise UsageError(f"no {want.kernel} kernel of these types, layout and architecture can be built: {reasons}")


def _ranked(found: Sequence[Candidate]) -> list[Candidate]:
    least = min(one.us for one in found)
    order = sorted(found, key=lambda one: (one.us > least * EQUAL, len(one.keys) if one.us <= least * EQUAL else 0, one.us))
    # The times leave out what `build` warns about, bank conflicts of fragments; to count them takes too long for every candidate.
    first = next((i for i, one in enumerate(order) if not any(kernel_warnings.warnings(one.plan))), 0)
    return order[first:]


def document(want: Wanted, keys: Mapping[str, Any]) -> dict[str, Any]:
    """A whole spec, as YAML has it."""
    stored = {"out": want.out} if want.out != want.sums else {}
    stored |= {"major": want.major} if want.major != "N" else {}
    epilogue: dict[str, Any] = {"epilogue": stored} if stored else {}
    if want.operations:
        last = [{"cast": want.out, **({"major": want.major} if want.major != "N" else {})}] if stored else []
        epilogue = {"epilogue": [*want.operations, *last]}
    listed = [_brief(problem) for problem in want.problems]
    head = {"mmagen": 1, "name": want.name, "kernel": want.kernel, "atom": keys["atom"], "layout": want.layout}
    return {**head, **keys, **want.keys, **epilogue, **({"problems": listed} if listed else {})}


def _brief(problem: Problem) -> Any:
    written = problem.model_dump(mode="json", exclude_defaults=True)
    if set(written) <= {"shape", "batch"}:
        return [*written["shape"], *([written["batch"]] if "batch" in written else [])]
    return written


def _offered(want: Wanted, atom: Atom) -> Iterable[Mapping[str, Any]]:
    offered = [{"atom": atom.name, **keys, **want.target_of(atom)} for keys in families.first_keys(want.kernel, atom)]
    return {json.dumps(keys, sort_keys=True): keys for keys in offered}.values()  # a family may offer the same twice


def _planned(want: Wanted, atom: Atom, offered: Iterable[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], GemmPlan]] | str:
    """Those that are accepted, or why the last one is not."""
    found: list[tuple[Mapping[str, Any], GemmPlan]] = []
    reason = f"no kernel {want.kernel} is built from it"
    for keys in offered:
        try:
            plan = _plan(want, keys)
        except SpecFaults as error:
            reason = error.faults[0].what
            continue
        if not plan.any_shape:
            return [(keys, plan)]
        if not _spills(plan):
            found.append((keys, plan))
    return found or _of_its_problem(want, atom) or reason


def _plan(want: Wanted, keys: Mapping[str, Any]) -> GemmPlan:
    return cast("GemmPlan", families.plan(Spec.model_validate(document(want, keys))))


def _of_its_problem(want: Wanted, atom: Atom) -> list[tuple[Mapping[str, Any], GemmPlan]]:
    """A kernel of one tile whose tile is the only problem."""
    if len(want.problems) != 1:
        return []
    keys = {"atom": atom.name, "tile": list(want.problems[0].shape), **want.target_of(atom)}
    try:
        plan = _plan(want, keys)
    except SpecFaults:
        return []
    return [] if plan.any_shape else [(keys, plan)]


def _spills(plan: GemmPlan) -> bool:
    """Would ptxas keep some of the sums and of two k blocks of fragments in memory? Rules limit the registers of wgmma kernels."""
    if not all(one.smem_copy for one in plan.operands):
        return False
    most = min(budgets.REGISTERS_PER_THREAD, budgets.REGISTERS_PER_SM // (plan.threads * plan.ctas_per_sm))
    needed = plan.accumulator_registers + plan.fragment_registers + budgets.REGISTERS_BESIDES
    return needed > most


def differs(best: Candidate, others: Sequence[Candidate], key: str) -> Candidate | None:
    """The first candidate with another value of `key`."""
    return next((one for one in others if one.keys.get(key) != best.keys.get(key)), None)
