"""What follows from measurements: the library, and whether it is better than the one there was. With a machine that is made up."""

from __future__ import annotations

import json
import math
import random
import sys
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from mmagen import families
from mmagen.build.job import BuildResult
from mmagen.core.errors import UsageError
from mmagen.families.library import choose
from mmagen.plan.copies import Loads, loads
from mmagen.plan.cost import Call, KernelShape, predicted_us
from mmagen.plan.plans import GemmPlan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.toolchain.model import Gpu, Tool, Toolchain
from mmagen.tuning import database, measure
from mmagen.tuning.calls import Calls
from mmagen.tuning.candidates import Candidate, candidates, guess, library_of, names_of
from mmagen.tuning.database import Site
from mmagen.tuning.measure import Machine, Settings
from mmagen.tuning.outcome import Measured, compared, made_of
from mmagen.tuning.problems import as_argument, problems_of, random_problems
from mmagen.tuning.tune import Options, Tuned, affordable, calls_of, tune

MACHINE = Machine(132, {1: 132, 2: 66, 4: 30})
PROBLEMS = "random:5:72"
SLOWER_US = 0.35  # of a kernel of several widths, as measured on an H200: 3.7 us instead of 3.4
SPEC = """\
mmagen: 1
name: small
kernel: gemm
atom: SM90_64x128x16_F32BF16BF16_SS
tile: [64, 128, 64]
epilogue: {out: bf16}
"""
TOOLS = Toolchain(
    nvcc=Tool(Path("nvcc"), "13.0.48", ""), gpus=(Gpu("NVIDIA Stand-in", (9, 0), "1.0", (13, 0), 132),), wanted=("nvcc", "gpus")
)
OPTIONS = Options(problems=PROBLEMS, configs=3, tried=20, settings=Settings(silence_s=20))


@cache
def small_calls() -> Calls:
    return calls_of([next(candidates(load(SPEC, "small.yaml").spec))], MACHINE)


def microseconds(one: Candidate, problem: Problem, slower: float = SLOWER_US) -> float:
    """Of the machine: as the guess without its term for several widths, but each kernel a few percent off. Copies take as long as
    their lines say."""
    alone = replace(one.plan, scheduler=replace(one.plan.scheduler, launches=()))
    cost = guess(alone, MACHINE)
    dice = random.Random(one.kernel)
    cost = cost.model_copy(update={key: getattr(cost, key) * math.exp(dice.gauss(0, 0.03)) for key in ("k_tile_us", "l2_tbps")})
    us = predicted_us(KernelShape.of(one.plan), cost, small_calls().of(problem))
    copies = 6.0 + (problem.m + problem.n) * problem.k * 2 / 1.5e6 if small_calls().is_copied(problem) else 0.0
    return us + copies + (slower if one.several_widths else 0.0)


@pytest.fixture
def machine(tmp_path, monkeypatch) -> Path:
    """The stand-in with the machine's times. cuBLASLt takes what the fastest candidate would if widths cost nothing."""
    program, times = tmp_path / "tune", tmp_path / "times.json"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("stand_in.py")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("TIMES", str(times))

    def compile_(alive, *_):
        problems = problems_of(PROBLEMS, (), (2, 2, 2))
        found = {one.name: {as_argument(p): microseconds(one, p) * 1e-3 for p in problems} for one in alive}
        rival = {as_argument(p): min(microseconds(one, p, 0.0) for one in alive) * 1e-3 for p in problems}
        times.write_text(json.dumps(found | {"cublasLt_first": rival, "cublasLt_best8": rival}))
        return BuildResult("tuned", tmp_path, True, programs={"tune": program}), list(alive), []

    monkeypatch.setattr("mmagen.tuning.tune._compile", compile_)
    monkeypatch.setattr("mmagen.families.wgmma.gemm.EVERY", (64,))
    monkeypatch.setattr("mmagen.families.wgmma.gemm.NARROWER", {128: (80, 96, 112)})
    monkeypatch.setattr("mmagen.tuning.outcome._FOLDS", 2)
    monkeypatch.setattr("mmagen.tuning.fit._REFINE_STEPS", 3)
    return tmp_path / "base.jsonl"


def tuned(text: str, base: Path, **options) -> Tuned:
    return tune(load(text, "small.yaml").spec, replace(OPTIONS, **options), base, TOOLS, measure.run, lambda *_: None, print)


def test_kernels_of_one_width_are_selected_for_short_problems_and_of_several_for_long_ones(machine):
    pytest.importorskip("scipy")
    done = tuned(SPEC, machine)
    library = families.plan(load(done.text, "tuned.yaml").spec)
    assert isinstance(library, GemmPlan)
    several = {one.name for one in library.configs if one.plan.scheduler.several_widths}
    assert several and len(several) < len(library.configs), done.names
    assert any(one.plan.scheduler.widths for one in library.configs)
    problems = [p for p in problems_of(PROBLEMS, (), (2, 2, 2)) if p.k % 8 == 0]
    times = json.loads((machine.parent / "times.json").read_text())
    best = {p: min(own[as_argument(p)] for own in times.values()) for p in problems}
    short, long = ([p for p in problems if holds(best[p] * 1e3)] for holds in (lambda us: us < 5, lambda us: us > 30))
    of_library = {one.name: times[names_of(one.plan)[0]] for one in library.configs}
    for p in short:
        us = {name: own[as_argument(p)] for name, own in of_library.items()}
        chosen = choose(library, p).name
        assert chosen not in several or us[chosen] < min(us[name] for name in us if name not in several), (p, chosen, us)
    by_several = sum(choose(library, p).name in several for p in long) / len(long)
    assert by_several > 0.3, (by_several, done.names)
    names = [name for name, _ in done.figures]
    assert "selected library over cublasLt_best8, held out" in names and done.recommended


def test_the_library_is_made_again_of_what_was_measured_without_a_gpu(machine):
    pytest.importorskip("scipy")
    done = tuned(SPEC, machine)
    size = machine.stat().st_size
    here = Toolchain(wanted=("gpus",))
    again = tune(
        load(SPEC, "small.yaml").spec, replace(OPTIONS, measure=False), machine, here, measure.run, lambda *_: None, print
    )
    assert again.text == done.text and machine.stat().st_size == size
    with pytest.raises(UsageError, match="there are no measurements"):
        tune(
            load(SPEC, "small.yaml").spec,
            replace(OPTIONS, measure=False),
            machine.with_name("none.jsonl"),
            here,
            measure.run,
            lambda *_: None,
            print,
        )


def test_what_an_earlier_run_measured_is_selected_from_where_a_later_one_tries_less(machine):
    pytest.importorskip("scipy")
    done = tuned(SPEC, machine)
    size = machine.stat().st_size
    again = tuned(SPEC, machine, tried=1)
    assert machine.stat().st_size == size, "the only candidate that is tried has all its measurements"
    assert again.names == done.names and len(again.names) > 1


def test_a_selection_that_does_worse_than_the_present_library_is_not_recommended(machine):
    """One kernel instead of those of the spec, which is the library of three that was just selected."""
    pytest.importorskip("scipy")
    present = tuned(SPEC, machine).text
    done = tuned(present, machine, configs=1)
    assert not done.recommended
    (said,) = [note for note in done.notes if note.startswith("NOT RECOMMENDED")]
    assert "small as it is does better than the selected library" in said and said.endswith("keep small")
    assert done.text.startswith("# NOT RECOMMENDED: small as it is does better")
    assert dict(done.figures)["small as it is, the same problems"]


# --- The comparison alone --------------------------------------------------------------------------------------------


def measured_on(rival: dict[Call, float], calls: list[Call]) -> Measured:
    times = {"a": dict.fromkeys(calls, 1.0)}
    weights = dict.fromkeys(calls, 1.0)
    return Measured({}, times, {"cublasLt_best8": rival}, weights, {}, (), MACHINE, Site("X", "1", "13.0"))


def test_the_low_end_decides_where_means_are_nearly_the_same():
    calls = [Call(i, 8, 8, 1, (16, 16, 16)) for i in range(1, 21)]
    measured = measured_on(dict.fromkeys(calls, 1.0), calls)
    even = dict.fromkeys(calls, 0.95)
    uneven = {call: 0.93 if call.m > 1 else 1.30 for call in calls}
    assert math.prod(uneven.values()) < math.prod(even.values()), "the mean is better"
    verdict = compared(measured, uneven, even, "lib")
    assert verdict.worse.startswith("NOT RECOMMENDED: lib as it is does better than the selected library on 20 problems")
    assert "1.053 (5th percentile 1.053, lowest 1.053, 20 problems) against 1.057" in verdict.worse
    assert not compared(measured, even, uneven, "lib").worse
    assert compared(measured, even, even, "lib").worse, "a library that is the same is no reason to change"


def test_what_was_not_measured_of_one_of_both_is_compared_on_neither():
    calls = [Call(i, 8, 8, 1, (16, 16, 16)) for i in range(1, 21)]
    measured = measured_on(dict.fromkeys(calls[:15], 1.0), calls)
    verdict = compared(measured, dict.fromkeys(calls, 0.9), dict.fromkeys(calls[5:], 1.0), "lib")
    assert [value.rpartition(", ")[2] for _, value in verdict.figures] == ["10 problems)", "10 problems)"]
    few = compared(measured, dict.fromkeys(calls, 1.1), dict.fromkeys(calls[8:], 1.0), "lib")
    assert few.figures[0][1].endswith("15 problems)")
    assert few.figures[1:] == (("lib as it is", "not compared: measured on 7 of these problems, fewer than 8"),)
    assert not few.worse, "7 problems are too few for a verdict"
    alone = compared(measured, dict.fromkeys(calls, 0.9), {}, "lib")
    assert [name for name, _ in alone.figures] == ["selected library over cublasLt_best8, held out"] and not alone.worse
    without = measured_on({}, calls)
    assert "over the fastest candidate" in compared(without, dict.fromkeys(calls, 1.1), {}, "lib").figures[0][0]


# --- Copies of operands ----------------------------------------------------------------------------------------------


def made_with_copies(copies_us: float, longer: tuple[float, float], most: int) -> dict[str, dict[str, float]]:
    """The coefficients of a library of at most `most` of two kernels, "first" and "second". Where nothing is copied, the second is
    slower for small problems and faster for large ones; longer: by which factor each is slower where operands are."""
    pair = [*islice(candidates(load(SPEC, "small.yaml").spec), 2)]
    aligned = [Call(128 * i, 4096, 64 * i, 1, (128 * i, 128 * i, 8192)) for i in range(1, 21)]
    copied = [Call(call.m, 4096, call.k - 1, 1, call.pitches) for call in aligned]

    def us(call: Call) -> float:
        return predicted_us(KernelShape.of(pair[0].plan), guess(pair[0].plan, MACHINE), call)

    times = {
        one.name: {
            **{call: us(call) * 1e-6 * (slower if call.m <= 1280 else 1 / slower) for call in aligned},
            **{call: (copies_us + factor * us(call)) * 1e-6 for call in copied},
        }
        for one, slower, factor in zip(pair, (1.0, 1.25), longer, strict=True)
    }
    weights = dict.fromkeys([*aligned, *copied], 1.0)
    measured = Measured.of(pair, times, {"cublasLt_best8": {}}, weights, {}, frozenset(copied), MACHINE, Site("X", "1", "13.0"))
    made = made_of(measured, measured.times, most)
    return {"first" if name == pair[0].name else "second": cost.model_dump() for name, cost in made.costs.items()}


def test_times_with_copies_decide_what_is_selected_and_are_not_fitted(monkeypatch):
    pytest.importorskip("scipy")
    assert [*made_with_copies(20.0, (1.0, 3.0), 1)] == ["first"] and [*made_with_copies(20.0, (3.0, 1.0), 1)] == ["second"]
    monkeypatch.setattr("mmagen.tuning.outcome.refine", lambda _, costs, *__: costs)
    costs = made_with_copies(20.0, (1.0, 1.0), 2)
    assert len(costs) == 2 and made_with_copies(900.0, (1.1, 1.0), 2) == costs


def test_eight_problems_without_copies_are_needed():
    calls = [Call(i, 8, 8, 1, (16, 16, 16)) for i in range(1, 21)]
    arguments = [{"a": dict.fromkeys(calls, 1.0)}, {}, dict.fromkeys(calls, 1.0), {}]
    assert Measured.of([], *arguments, calls[:-8], MACHINE, Site("X", "1", "13.0")).times
    with pytest.raises(UsageError, match="no configuration on 8 or more problems whose operands are not copied"):
        Measured.of([], *arguments, calls[:-7], MACHINE, Site("X", "1", "13.0"))


@pytest.mark.parametrize("configs", ["", "configs:\n  - {name: one}\n  - {name: other, tile: [64, 128, 128]}\n"])
def test_what_is_copied_is_what_the_library_that_is_measured_copies(configs):
    """A spec without configs has no kernel for few rows, but the library that is made of its candidates has."""
    found = [*islice(candidates(load(SPEC + configs, "small.yaml").spec), 3)]
    library = library_of(found, {one.name: guess(one.plan, MACHINE) for one in found})
    calls, problems = calls_of(found, MACHINE), random_problems(3, 200)
    kept = calls.distinguishing(problems, "random")
    assert kept == [problem for problem in problems if loads(library, problem) in (Loads.TMA, Loads.COPIES)] and len(kept) < 200
    assert [calls.is_copied(problem) for problem in kept] == [loads(library, problem) is Loads.COPIES for problem in kept]


def test_of_problems_with_one_call_the_first_is_measured():
    shape = (4096, 4096, 4096)
    problems = [Problem(shape=shape), Problem(shape=(64, 64, 64)), Problem(shape=shape, offset=1)]
    assert small_calls().is_copied(problems[2]) and small_calls().distinct(problems) == problems[:2]


# --- The budget ------------------------------------------------------------------------------------------------------


def test_fewer_candidates_are_tried_where_the_budget_is_short():
    of = Options(tried=100, jobs=16)
    assert affordable(of, 250) == 100, "without a budget all"
    assert affordable(replace(of, budget_s=1200), 250) == 100, "20 minutes suffice for all"
    some = [affordable(replace(of, budget_s=seconds), 250) for seconds in (60, 150, 300, 480)]
    assert some == sorted(some) and some[0] >= 8 and 70 < some[-1] < 100 and some[1] < 40
    assert affordable(replace(of, budget_s=300), 125) > some[2] > affordable(replace(of, budget_s=300, jobs=2), 250)
    assert affordable(replace(of, budget_s=300), 250, gpus=2) == affordable(replace(of, budget_s=300), 125)


def test_the_database_knows_where_most_was_measured(tmp_path):
    path = tmp_path / "base.jsonl"
    writer = database.Writer(path, {"a": "digest"}, {})
    for device, count in (("X", 1), ("Y", 3)):
        for i in range(count):
            writer.add(
                {"name": "a", "problem": f"1,2,{i}", "disposition": "passed", "ms_median": 1.0}, Site(device, "1", "13.0")
            )
    writer.close()
    assert database.site_of(database.read(path), path).device == "Y"
    assert {line.name for line in database.read(path).lines} == {"a"}
