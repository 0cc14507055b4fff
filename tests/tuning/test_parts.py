"""Problems, the database, the selection and the fit, each alone."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest

from mmagen.core.errors import UsageError
from mmagen.plan.cost import Call, KernelShape, predicted_us
from mmagen.spec.cost import Cost
from mmagen.spec.model import Problem
from mmagen.tuning import database
from mmagen.tuning.database import Site
from mmagen.tuning.fit import Kernel, choice_ratio, comparable, fit, refine
from mmagen.tuning.measure import Machine
from mmagen.tuning.problems import as_argument, model_problems, problems_of, random_problems
from mmagen.tuning.select import select

SIZES = (2, 2, 2)
MACHINE = Machine(132, {1: 132, 2: 66, 4: 30})


# --- Problems --------------------------------------------------------------------------------------------------------


def test_random_problems_are_the_same_for_a_seed_and_as_described():
    found = random_problems(3, 400)
    assert found == random_problems(3, 400) != random_problems(4, 400) and found[:100] == random_problems(3, 100)
    assert all(1 <= p.m <= 16384 and min(p.n, p.k) >= 128 and max(p.n, p.k) <= 32768 for p in found)
    by_8 = sum(p.n % 8 == p.k % 8 == 0 for p in found)
    by_64 = sum(p.n % 64 == p.k % 64 == 0 for p in found)
    assert 300 <= by_8 <= 320 and 100 <= by_64 <= 120
    assert 0.3 < sum(p.m < 128 for p in found) / 400 < 0.7, "log-uniform: 128 is half of 16384 on a logarithmic scale"
    assert max(2 * (p.m * p.k + p.n * p.k + p.m * p.n) for p in found) <= 8e9


def test_projections_of_models_come_at_every_number_of_rows():
    found = model_problems()
    assert len(found) == len(set(found)) and {p.m for p in found} >= {1, 64, 8192}
    assert Problem(shape=(1, 6144, 4096)) in found


def test_a_file_of_problems(tmp_path):
    path = tmp_path / "problems.txt"
    path.write_text(
        "\ufeff# prefill\n4096 4096 4096\n  [64, 64, 128, 3]  # batched\n\n- [8 , 8, 8]\n16 x 4096x512\n16,4096,512\n"
    )
    found = [as_argument(p) for p in problems_of(str(path), (), SIZES)]
    assert found == ["4096,4096,4096", "64,64,128,3", "8,8,8", "16,4096,512"]


def test_faults_of_a_file_are_all_named_by_line(tmp_path):
    path = tmp_path / "problems.txt"
    path.write_text("1 2\n64 64 64\n64 -1 64\n64 64 0\n64 64 64 0\n")
    with pytest.raises(UsageError) as caught:
        problems_of(str(path), (), SIZES)
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["1", "3", "4", "5"]
    assert "has 2 numbers, not 3 or 4; write M N K or M N K BATCH" in lines[0]
    assert "'-1' is not a positive integer" in lines[1] and "K: " in lines[2] and "BATCH: " in lines[3]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("-1 2 3", "'-1' is not a positive integer"),
        ("16 16 16x", "'16 16 16x' is not a positive integer"),
        ("16,,16", "'16,,16' is not a positive integer"),
        ("[16, 16, 16", "'[16' is not a positive integer"),
        ("\u0661 2 3", "'\u0661' is not a positive integer"),
        ("1 2 " + 5000 * "9", f"{40 * '9'} is too large"),
    ],
)
def test_a_line_that_is_no_problem(line, says, tmp_path):
    path = tmp_path / "problems.txt"
    path.write_text(line, "utf-8")
    with pytest.raises(UsageError) as caught:
        problems_of(str(path), (), SIZES)
    assert str(caught.value) == f"{path}:1: {says}; write M N K or M N K BATCH, e.g. 4096 4096 4096"


def test_a_source_that_is_no_file_says_what_there_is(tmp_path):
    with pytest.raises(UsageError, match=r"no such file; name one, or spec, models, or random:SEED"):
        problems_of(str(tmp_path / "none"), (), SIZES)
    with pytest.raises(UsageError, match="there is no problem to measure"):
        problems_of("spec", (), SIZES)


# --- The database ----------------------------------------------------------------------------------------------------


def test_lines_that_are_cut_or_of_another_version_are_skipped_and_counted(tmp_path):
    path = tmp_path / "base.jsonl"
    writer = database.Writer(path, {"a": "digest"}, {"a": {"tile": [64, 64, 64]}})
    record = {"name": "a", "problem": "1,2,3", "disposition": "passed", "ms_median": 0.5, "sm_clock_mhz": 1700.0}
    writer.add(record, Site("X", "1", "13.0"))
    writer.add(record | {"name": "not ours"}, Site("X", "1", "13.0"))
    writer.close()
    whole = path.read_text()
    path.write_text(whole + json.dumps(json.loads(whole) | {"schema": 99}) + "\n[1]\n" + whole[:50])
    found = database.read(path)
    assert [(line.kernel, line.problem, line.ms) for line in found.lines] == [("digest", "1,2,3", 0.5)]
    assert found.notes == (
        f"{path}: 2 lines cut or damaged, skipped: 3, 4",
        f"{path}: 1 line not of version {database.SCHEMA}, skipped: 2",
    )
    database.Writer(path, {"a": "digest"}, {}).add(record | {"problem": "4,5,6"}, Site("X", "1", "13.0"))
    assert {line.problem for line in database.read(path).lines} == {"1,2,3", "4,5,6"}, "a cut line does not spoil the next"


# --- Selection -------------------------------------------------------------------------------------------------------


def test_the_selection_covers_what_a_single_one_cannot():
    times = {"a": {1: 1.0, 2: 9.0, 3: 9.0}, "b": {1: 9.0, 2: 1.0, 3: 9.0}, "c": {1: 2.0, 2: 2.0, 3: 2.0}, "d": {3: 2.5}}
    assert select(times, 1) == ["c"]
    assert set(select(times, 3)) == {"a", "b", "c"}
    assert set(select(times, 10)) == {"a", "b", "c"}, "d adds nothing"


def test_an_exchange_improves_a_greedy_selection():
    # greedy takes c, which is good everywhere; with two, a and b are better
    times = {
        "a": {1: 1.0, 2: 1.0, 3: 3.0, 4: 3.0},
        "b": {1: 3.0, 2: 3.0, 3: 1.0, 4: 1.0},
        "c": dict.fromkeys((1, 2, 3, 4), 1.3),
    }
    assert set(select(times, 2)) == {"a", "b"}
    assert "c" in select(times, 2, exchange=False)


def test_a_kernel_brings_all_its_clusters():
    times = {
        "a_c1x1": {1: 1.0, 2: 5.0, 3: 9.0},
        "a_c2x1": {1: 5.0, 2: 1.0, 3: 9.0},
        "b": {1: 2.0, 2: 2.0, 3: 2.0},
        "c": {3: 1.0},
    }
    kernels = {"a_c1x1": "a", "a_c2x1": "a", "b": "b", "c": "c"}
    assert set(select(times, 2, kernels=kernels)) == {"a_c1x1", "a_c2x1", "c"}
    assert len(select(times, 2)) == 2, "else each of them is one of two"
    times["a_c4x1"] = dict.fromkeys((1, 2, 3), 9.0)
    assert "a_c4x1" not in select(times, 2, kernels=kernels | {"a_c4x1": "a"}), "which adds nothing"


def test_a_problem_that_a_baseline_wins_counts_more():
    # a comes closer to the fastest on average; c loses nothing to the baseline where a loses a third
    times = {
        "a": {1: 1.0, 2: 1.0, 3: 1.5},
        "b": {1: 9.0, 2: 9.0, 3: 1.0},
        "c": {1: 1.2, 2: 1.2, 3: 1.1},
    }
    assert select(times, 1) == ["a"]
    assert select(times, 1, baseline={1: 2.0, 2: 2.0, 3: 1.0}) == ["c"]
    assert select(times, 1, baseline={1: 2.0, 2: 2.0, 3: 2.0}) == select(times, 1, baseline={}) == ["a"], "none is lost"


def test_a_kernel_that_would_be_chosen_wrongly_is_of_no_use():
    times = {"a": {1: 1.0, 2: 3.0}, "b": {1: 3.0, 2: 1.0}, "c": {1: 1.5, 2: 1.1}}
    assert set(select(times, 2)) == {"a", "b"}
    always_b = {"a": {1: 2.0, 2: 2.0}, "b": {1: 1.0, 2: 1.0}, "c": {1: 2.0, 2: 2.0}}
    assert "b" not in select(times, 2, predicted=always_b)
    assert set(select(times, 2, predicted=times)) == {"a", "b"}


# --- The fit ---------------------------------------------------------------------------------------------------------


def shapes() -> dict[str, KernelShape]:
    def shape(*tile: int, cluster: tuple[int, int] = (1, 1)) -> KernelShape:
        return KernelShape(tile, cluster, 1, -1, 0, SIZES)  # type: ignore[arg-type]

    return {"small": shape(64, 32, 128), "middle": shape(64, 128, 64), "large": shape(128, 256, 64, cluster=(2, 1))}


def synthetic(noise: float, count: int) -> tuple[dict[str, Kernel], dict[str, Cost], dict[str, dict[Call, float]]]:
    """Kernels, their true costs, and times by these with noise."""
    base = Cost(
        ctas=132,
        launch_us=2,
        overlap_us=0.5,
        tile_us=0.3,
        store_pitch=0.2,
        k_tile_us=0.15,
        line_ns=1.2,
        dram_tbps=4.2,
        dram_spread=0.3,
        store_tbps=4,
        l2_tbps=11,
        l2_spread=0.4,
        l2_pitch=0.2,
        l2_odd_pitch=0.8,
        l2_ragged=0.1,
        fixup_us=1.5,
        fixup_tbps=3,
    )
    kernels = {name: Kernel(shape, 132) for name, shape in shapes().items()}
    slow = {"small": 0.18, "middle": 0.15, "large": 0.58}
    costs = {name: base.model_copy(update={"k_tile_us": slow[name], "tile_us": 4 * slow[name]}) for name in kernels}
    dice = random.Random(11)
    calls = [
        Call(p.m, p.n, p.k, 1, (2 * p.k, 2 * p.k, 2 * p.n)) for p in random_problems(11, 4 * count) if p.n % 8 == p.k % 8 == 0
    ][:count]
    times = {
        name: {
            call: predicted_us(kernels[name].shape, costs[name], call) * 1e-6 * math.exp(dice.gauss(0, noise)) for call in calls
        }
        for name in kernels
    }
    return kernels, costs, times


def test_the_fit_finds_what_the_times_were_made_from():
    pytest.importorskip("scipy")
    kernels, costs, times = synthetic(0.01, 120)
    found = fit(kernels, times)
    held_out = synthetic(0.0, 240)[2]
    errors = [
        abs(math.log(predicted_us(kernels[name].shape, found[name], call) / (seconds * 1e6)))
        for name, of in held_out.items()
        for call, seconds in of.items()
        if seconds < 1.3 * min(other[call] for other in held_out.values())
    ]
    assert np.median(errors) < 0.02 and np.percentile(errors, 95) < 0.08
    assert found["middle"].k_tile_us == pytest.approx(costs["middle"].k_tile_us, rel=0.15)


def test_clusters_of_a_kernel_are_fitted_together():
    """A launch that was measured on few problems borrows the coefficients of its kernel."""
    pytest.importorskip("scipy")
    kernels, _, times = synthetic(0.03, 120)
    few = {"small": times["small"], "few": dict(list(times["small"].items())[:9])}
    both = {"small": kernels["small"], "few": kernels["small"]}
    held_out = synthetic(0.0, 240)[2]["small"]

    def error(cost: Cost) -> float:
        shape = kernels["small"].shape
        return float(np.median([abs(math.log(predicted_us(shape, cost, call) / (s * 1e6))) for call, s in held_out.items()]))

    assert error(fit(both, few, {"small": "k", "few": "k"})["few"]) < 0.85 * error(fit(both, few)["few"])


def test_refinement_does_not_make_the_choice_worse():
    pytest.importorskip("scipy")
    kernels, _, times = synthetic(0.08, 100)
    plain = fit(kernels, times)
    better = refine(kernels, plain, times)
    calls = list(times["small"])

    def loss(costs: dict[str, Cost]) -> float:
        return -sum(math.log(choice_ratio(kernels, costs, times, call)) for call in calls)

    assert loss(better) <= loss(plain) + 1e-9


def test_the_choice_is_among_the_configs_that_were_measured():
    """Figures of a library count such calls, and calls of a single config say nothing of the choice."""
    kernels, true, times = synthetic(0.0, 40)
    calls = list(times["small"])
    first, second, third = calls[:3]
    fastest = min(kernels, key=lambda name: times[name][first])
    del times[fastest][first]
    for name in ("small", "middle"):
        del times[name][second]
    assert set(comparable(kernels, times)) == {*calls} - {second}
    for call in (first, third):
        assert choice_ratio(kernels, true, times, call) == pytest.approx(1.0), "the model is exact"
    quick, slow = sorted((name for name in kernels if name != fastest), key=lambda name: times[name][first])
    wrong = true | {quick: true[quick].model_copy(update={"launch_us": 1e6})}
    assert choice_ratio(kernels, wrong, times, first) == times[quick][first] / times[slow][first] < 1


def test_refinement_counts_calls_that_lack_some_configs():
    """Large problems on which a kernel was not measured must still keep the choice from the wrong one of the others."""
    pytest.importorskip("scipy")
    kernels, true, times = synthetic(0.0, 100)
    by_size = sorted(times["small"], key=lambda call: call.m * call.n * call.k)
    large = set(by_size[50:])
    times["small"] = {call: s for call, s in times["small"].items() if call not in large}
    # Only long calls notice the throttle: there the large tile seems slower than the middle one.
    wrong = {**true, "large": true["large"].model_copy(update={"throttle": 3.0})}
    among = {name: kernels[name] for name in ("middle", "large")}

    def loss(costs: dict[str, Cost]) -> float:
        return -sum(math.log(choice_ratio(among, costs, times, call)) for call in large)

    assert loss(wrong) > 0.1
    assert loss(refine(kernels, wrong, times)) < 0.5 * loss(wrong)
