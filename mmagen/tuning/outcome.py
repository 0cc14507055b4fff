"""The library that follows from measurements, and how good it is: beside cuBLASLt, and beside the library that there was."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from mmagen import families
from mmagen.core.errors import UsageError
from mmagen.families import library
from mmagen.plan.cost import Call, KernelShape, terms, time_us
from mmagen.plan.model import LaunchShape
from mmagen.plan.plans import GemmPlan
from mmagen.spec.cost import Cost
from mmagen.spec.model import Problem, Spec
from mmagen.tuning.candidates import Candidate, names_of
from mmagen.tuning.database import Site
from mmagen.tuning.fit import Kernel, choice, choice_ratio, comparable, cross_validated, fit, refine
from mmagen.tuning.measure import BASELINES, Machine
from mmagen.tuning.objective import Ratios
from mmagen.tuning.select import select
from mmagen.tuning.write import library_text

LEAST_PROBLEMS = 8  # of a config, for its coefficients; of two libraries that are compared
_FOLDS = 5
Times = Mapping[str, Mapping[Call, float]]


@dataclass(frozen=True)
class Measured:
    """What a library is made from. tried: candidates. times: seconds by their names, of those with enough problems. baselines:
    seconds by BASELINES. weights: how much each problem counts. problems: of each call. copied: calls whose times include copies of
    operands."""

    tried: Mapping[str, Candidate]
    times: Times
    baselines: Times
    weights: Mapping[Call, float]
    problems: Mapping[Call, Problem]
    copied: Collection[Call]
    machine: Machine
    site: Site

    @staticmethod
    def of(
        tried: Sequence[Candidate],
        by_candidate: Mapping[str, Mapping[Call, float]],
        baselines: Times,
        weights: Mapping[Call, float],
        problems: Mapping[Call, Problem],
        copied: Collection[Call],
        machine: Machine,
        site: Site,
    ) -> Measured:
        """by_candidate: seconds by name. Raises UsageError if too little was measured."""
        times = enough(by_candidate, copied)
        if not times:
            raise UsageError(
                f"too little was measured for a library: no configuration on {LEAST_PROBLEMS} or more problems whose operands are "
                "not copied"
            )
        return Measured({one.name: one for one in tried}, times, baselines, weights, problems, copied, machine, site)

    @property
    def calls(self) -> list[Call]:
        """All that something was measured on."""
        return list(dict.fromkeys(call for own in self.times.values() for call in own))

    def kernel(self, name: str) -> Kernel:
        plan = self.tried[name].plan
        shape = KernelShape.of(plan)
        return Kernel(shape, self.machine.ctas(shape.group, plan.ctas_per_sm))

    def tile(self, name: str) -> str:
        """Launches of one kernel whose k tiles take the same time."""
        return f"{self.tried[name].kernel} {self.tried[name].plan.tile_of_d}"

    def only(self, calls: Sequence[Call]) -> Times:
        """The times of these."""
        kept = set(calls)
        return {name: {call: s for call, s in own.items() if call in kept} for name, own in self.times.items()}


@dataclass(frozen=True)
class Made:
    """A library: its configs, and the coefficients of their predicted times."""

    kernels: Mapping[str, Kernel]
    costs: Mapping[str, Cost]


def made_of(measured: Measured, times: Times, most: int) -> Made:
    """The library of at most `most` kernels, selected by these times alone and fitted to them."""
    times = enough(times, measured.copied)
    every = {name: measured.kernel(name) for name in times}
    costs = _fitted(measured, every, times)
    predicted = {
        name: {call: time_us(costs[name], terms(kernel.shape, kernel.ctas, call)) for call in times[name]}
        for name, kernel in every.items()
    }
    chosen = select(
        times,
        most,
        measured.baselines[BASELINES[-1]],
        predicted,
        {name: measured.tried[name].kernel for name in times},
        weights=measured.weights,
        known=[name for name in times if measured.tried[name].own],
    )
    chosen = of_one_width(chosen, measured.tried, times)
    kernels = {name: every[name] for name in chosen}
    of_chosen = {name: times[name] for name in chosen}
    return Made(kernels, _refined(measured, kernels, of_chosen))


def enough(times: Times, copied: Collection[Call]) -> Times:
    """The times of those configs that were measured on enough problems without copies to fit coefficients."""
    return {name: own for name, own in times.items() if sum(call not in copied for call in own) >= LEAST_PROBLEMS}


def _fitted(measured: Measured, kernels: Mapping[str, Kernel], times: Times) -> dict[str, Cost]:
    """Coefficients of these kernels. Times that include copies say nothing of a kernel alone."""
    alone = {name: {call: s for call, s in times[name].items() if call not in measured.copied} for name in kernels}
    return fit(kernels, alone, {name: measured.tile(name) for name in kernels})


def _refined(measured: Measured, kernels: Mapping[str, Kernel], times: Times) -> dict[str, Cost]:
    """Coefficients adjusted so that choosing the least predicted time loses less. Copied problems count too: copies take the same
    time for every kernel, so they do not change which one is fastest."""
    return refine(kernels, _fitted(measured, kernels, times), times, measured.weights)


def of_one_width(chosen: Sequence[str], tried: Mapping[str, Candidate], times: Times) -> list[str]:
    """The chosen ones; where only whole tiles are left of a kernel of several widths, the same launches of the kernel that is
    compiled for whole tiles alone, if these were measured."""
    narrow = {tried[name].kernel for name in chosen if tried[name].plan.scheduler.launch.narrow}
    found = []
    for name in chosen:
        one = tried[name]
        alone = names_of(one.plan.launched((), LaunchShape(*one.plan.scheduler.cluster)))[0]
        left_alone = one.several_widths and one.kernel not in narrow and alone in times
        found.append(alone if left_alone else name)
    return list(dict.fromkeys(found))


def held_out(measured: Measured, most: int) -> dict[Call, float]:
    """Seconds of what is chosen for each call by a library that was selected and fitted without it. Nothing where there are too few
    calls."""
    calls = measured.calls
    if len(calls) < _FOLDS * LEAST_PROBLEMS:
        return {}
    order = np.random.default_rng(0).permutation(len(calls))
    found = {}
    for fold in np.array_split(order, _FOLDS):
        out = {calls[i] for i in fold}
        others = measured.only([call for call in calls if call not in out])
        if not enough(others, measured.copied):
            continue  # each candidate was measured on a few of the calls
        made = made_of(measured, others, most)
        for call in out:
            name = choice(made.kernels, made.costs, call)
            if call in measured.times[name]:
                found[call] = measured.times[name][call]
    return found


def present(spec: Spec, measured: Measured) -> dict[Call, float]:
    """Seconds of what the spec's own library chooses as it is, of calls on which that was measured; nothing if it is no library."""
    if not spec.configs:
        return {}
    plan = cast("GemmPlan", families.plan(spec))  # what can be tuned is a gemm
    by_choice = {one.own: name for name, one in measured.tried.items() if one.own}
    found = {}
    for call in measured.calls:
        name = by_choice.get(library.choose(plan, measured.problems[call]).name, "")
        if call in measured.times.get(name, {}):
            found[call] = measured.times[name][call]
    return found


@dataclass(frozen=True)
class Verdict:
    """How the selected library compares with the present one. figures: (name, value). worse: why it is not recommended, or ""."""

    figures: tuple[tuple[str, str], ...]
    worse: str = ""


def compared(measured: Measured, selected: Mapping[Call, float], known: Mapping[Call, float], name: str) -> Verdict:
    """selected: seconds of the selected library, held out; known: those of the present library, `name`. Both over cuBLASLt's best
    of 8, or, where nothing of it was measured, over the fastest of all candidates. `worse` is empty if fewer than LEAST_PROBLEMS
    calls have both."""
    best8 = measured.baselines[BASELINES[-1]]
    over, rival = "cublasLt_best8", best8
    if not any(call in best8 for call in selected):
        over = "the fastest candidate"
        rival = {call: min(own[call] for own in measured.times.values() if call in own) for call in measured.calls}
    calls = [call for call in selected if call in rival]
    if not calls:
        return Verdict(())

    def ratios(of: Mapping[Call, float], some: Sequence[Call]) -> Ratios:
        return Ratios([rival[call] / of[call] for call in some], [measured.weights[call] for call in some])

    held = f"selected library over {over}, held out"
    both = [call for call in calls if call in known]
    if len(both) < LEAST_PROBLEMS:
        alone = (held, ratios(selected, calls).text)
        few = f"not compared: measured on {len(both)} of these problems, fewer than {LEAST_PROBLEMS}"
        return Verdict((alone, (f"{name} as it is", few)) if known else (alone,))
    new, old = ratios(selected, both), ratios(known, both)
    figures = ((held, new.text), (f"{name} as it is, the same problems", old.text))
    if new.loss < old.loss:
        return Verdict(figures)
    return Verdict(
        figures,
        f"NOT RECOMMENDED: {name} as it is does better than the selected library on {len(both)} problems that were held out, over "
        f"{over}: {old.text} against {new.text}; keep {name}",
    )


def figures_of(made: Made, measured: Measured) -> list[tuple[str, str]]:
    """How good the choice is, on the problems of the fit and on others, and how it compares with cuBLASLt. Where not all of the
    library's kernels were measured, the choice is among the others."""
    times = {name: measured.times[name] for name in made.kernels}
    names = list(made.kernels)
    calls = comparable(names, times) if len(names) > 1 else list(times[names[0]])
    if not calls:
        return []
    weights = [measured.weights[call] for call in calls]
    of_best = {call: choice_ratio(made.kernels, made.costs, times, call) for call in calls}
    figures = [("choice over fastest kernel, same problems", Ratios([*of_best.values()], weights).text)]
    if len(calls) >= 2 * _FOLDS and len(names) > 1:

        def fitted(part: Times) -> dict[str, Cost]:
            return _refined(measured, made.kernels, part)

        held = cross_validated(made.kernels, times, _FOLDS, 0, fitted)
        figures.append((f"the same, problems held out ({_FOLDS} folds)", Ratios(held.tolist(), weights).text))
    for name in BASELINES:
        known = [call for call in calls if call in measured.baselines[name]]
        if known:
            fastest = {call: min(own[call] for own in times.values() if call in own) for call in known}
            ratios = [measured.baselines[name][call] / fastest[call] * of_best[call] for call in known]
            figures.append((f"choice over {name}", Ratios(ratios, [measured.weights[call] for call in known]).text))
    return figures


def text_of(spec: Spec, made: Made, measured: Measured, figures: Sequence[tuple[str, str]], worse: str) -> str:
    """The library spec, with a comment that says what it was made from."""
    names = list(made.kernels)
    day, site = datetime.date.today().isoformat(), measured.site
    lines = [worse] if worse else []
    lines.append(
        f"{spec.name}: each problem goes to the kernel with the least predicted time (cost), unless a rule (when) holds."
    )
    lines.append(
        f"Tuned on {site.device}, driver {site.driver}, CUDA {site.cuda}, {day}: {len(measured.times)} configurations, "
        f"{len(measured.calls)} problems."
    )
    comment = "\n".join([*lines, *(f"{name}: {value}." for name, value in figures)])
    configs = [(name, measured.tried[name].keys) for name in names]
    return library_text(spec, configs, {name: measured.tried[name].kernel for name in names}, made.costs, comment)
