"""Problems, the database, the selection, the fit and the text of a library, each alone."""

from __future__ import annotations

import json
import math
import random
from itertools import islice, takewhile

import numpy as np
import pytest

from mmagen.core.errors import UsageError
from mmagen.families import plan
from mmagen.plan.cost import Call, KernelShape, predicted_us
from mmagen.spec.cost import Cost
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.tuning import database
from mmagen.tuning.candidates import candidates, guess, library_of, prune
from mmagen.tuning.database import Site
from mmagen.tuning.fit import Kernel, choice_ratio, fit, refine
from mmagen.tuning.measure import Machine
from mmagen.tuning.problems import as_argument, model_problems, problems_of, random_problems
from mmagen.tuning.select import select
from mmagen.tuning.write import library_text

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


def test_a_kernel_is_known_by_its_code():
    first, *rest = islice(candidates(load(SPEC, "x.yaml").spec), 20)
    assert database.digest(first.plan) == database.digest(first.plan)
    assert len({database.digest(one.plan) for one in (first, *rest)}) == 20


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


# --- Candidates ------------------------------------------------------------------------------------------------------

SPEC = """\
mmagen: 1
name: it
kernel: gemm
atom: SM90_64x128x16_F32BF16BF16_SS
tile: [64, 128, 64]
epilogue: {out: bf16}
"""


def test_candidates_are_legal_differ_and_can_be_one_library():
    found = [*candidates(load(SPEC, "it.yaml").spec)]
    assert len(found) > 200 and len({one.name for one in found}) == len(found)
    assert {one.plan.scheduler.cluster for one in found} >= {(1, 1), (2, 1), (1, 2)}
    assert {one.plan.tile_of_d[1] for one in found} >= {16, 72, 80, 144, 176, 256}, "every width, also as rows of D:"
    assert {one.plan.tile_of_d[0] for one in found} >= {24, 144, 176}
    some = prune(found, random_problems(1, 30), MACHINE, 9)
    library = library_of(some, {one.name: guess(one.plan, MACHINE) for one in some})
    assert sorted(config.name for config in library.configs) == sorted(one.name for one in some) and len(some) == 9
    assert len(library.by_kernel) == len({one.kernel for one in some}), "clusters of a kernel are compiled once"


def test_the_configs_of_a_spec_are_measured_first():
    configs = "configs:\n  - {name: a, tile: [64, 128, 32], when: {m: [1, 2]}}\n  - {name: b, stages: 2}\n"
    spec = load(SPEC + configs, "it.yaml").spec
    found = [*islice(candidates(spec), 40)]
    own = [one.name for one in found if one.own]
    assert len(own) == 2
    some = prune(found, random_problems(1, 10), MACHINE, 3)
    assert [one.name for one in some[:2]] == own and len(some) == 3
    assert [one.name for one in prune(found, random_problems(1, 10), MACHINE, 1)] == own[:1]


@pytest.mark.parametrize(
    "configs", ["", "configs:\n  - {name: b, cluster: [1, 2], when: {m: [1, 3]}}\n  - {name: a, stages: 3}\n"]
)
def test_only_the_configs_of_a_spec_inherit_its_keys(configs):
    text = SPEC.replace("tile: [64,", "atoms_layout: [2, 1, 1]\nschedule: cooperative\ncluster: [2, 1]\ntile: [128,")
    spec = load(text + configs, "it.yaml").spec
    found = [*islice(candidates(spec), 60)]
    own = [one.name for one in found if one.own] or [found[0].name]
    assert own == (["coop_128x128x64_c1x2", "coop_128x128x64_s3_c2x1"] if configs else ["coop_128x128x64_c2x1"])
    some = [found[0], *(one for one in found if not one.own and one.plan.scheduler.cluster == (1, 1))][:9]
    costs = {one.name: guess(one.plan, MACHINE) for one in some}
    written = library_text(spec, [(one.name, one.keys) for one in some], {one.name: one.kernel for one in some}, costs, "")
    library = plan(load(written, "it.yaml").spec)
    tried = {one.name: one.plan for one in some} | ({"b": plan(spec).by_config["b"]} if configs else {})
    assert {one.name for one in library.configs} == {*tried}
    for one in library.configs:
        as_tried = tried[one.name]
        assert (one.plan.roles, one.plan.stages) == (as_tried.roles, as_tried.stages)
        assert one.plan.scheduler.cluster == as_tried.scheduler.cluster


def test_kernels_that_differ_in_more_than_the_cluster_have_names_of_their_own():
    """Names do not say how many warpgroups take turns."""
    one = "  - {{name: {}, tile: [64, 64, 64], atom: SM90_64x64x16_F32BF16BF16_SS, schedule: pingpong, cluster: {}{}}}\n"
    ways = [([2, 1], ", when: {m: [1, 2]}"), ([1, 1], ", warpgroups: 3, when: {m: [1, 3]}"), ([1, 2], ", stream_k: never")]
    configs = "".join(one.format(f"c{i}", *way) for i, way in enumerate(ways))
    own = [*takewhile(lambda one: one.own, candidates(load(f"{SPEC}configs:\n{configs}", "it.yaml").spec))]
    assert [one.name for one in own] == ["ping_64x64x64_c2x1", "ping_64x64x64_2_c1x1", "ping_64x64x64_c1x2"]
    library = library_of(own, {one.name: guess(one.plan, MACHINE) for one in own})
    assert {one.name: one.plan.roles.consumers for one in library.configs} == {
        one.name: one.plan.roles.consumers for one in own
    }


def test_kernels_for_one_cluster_that_names_do_not_tell_apart_are_all_measured():
    """How many groups of warpgroups take k tiles in turn is in no name, and such kernels are compiled for one cluster."""
    spec = SPEC.replace("SM90_64x128x16_F32BF16BF16_SS", "SM90_64x64x16_F32BF16BF16_RS").replace("128, 64]", "64, 128]")
    spec += "operands: swapped\nschedule: cooperative\nweights: {type: s4, group: 128, scale: bf16}\n"
    ways = (
        ", warpgroups: 2, when: {m: [1, 2]}",
        ", when: {m: [3, 4]}",
        ", warpgroups: 2, when: {m: [5, 6]}",
        ", warpgroups: 3",
    )
    configs = "".join(f"  - {{name: c{i}{way}}}\n" for i, way in enumerate(ways))
    own = [*takewhile(lambda one: one.own, candidates(load(f"{spec}configs:\n{configs}", "it.yaml").spec))]
    assert [(one.own, one.name) for one in own] == [
        ("c0", "coop_64x64x128_swap"),
        ("c1", "coop_64x64x128_swap_2"),
        ("c3", "coop_64x64x128_swap_3"),
    ], "c2 is c0 again"
    library = library_of(own, {one.name: guess(one.plan, MACHINE) for one in own})
    assert {one.name: one.plan.roles.consumers for one in library.configs} == {
        one.name: one.plan.roles.consumers for one in own
    }


def test_every_config_is_compiled_with_the_tile_that_it_inherits():
    configs = "configs:\n  - {name: a, tile: [64, 128, 32], when: {m: [1, 2]}}\n  - {name: b, stages: 2}\n"
    own = [*takewhile(lambda one: one.own, candidates(load(SPEC + configs, "it.yaml").spec))]
    library = library_of(own, {one.name: guess(one.plan, MACHINE) for one in own})
    assert [one.plan.tile for one in library.configs] == [one.plan.tile for one in own] == [(64, 128, 32), (64, 128, 64)]


def test_parts_of_k_in_a_cluster_and_in_a_workspace_are_two_kernels():
    """split_k: 4 is of CTAs of a cluster where these fit it: its kernel is compiled for it, the others may be launched in any."""
    of_4 = "  - {{name: {}, tile: [128, 128, 64], atoms_layout: [2, 1, 1], schedule: cooperative, split_k: 4, cluster: {}}}\n"
    configs = "".join(of_4.format(name, cluster) for name, cluster in (("a", [1, 1]), ("b", [8, 1]), ("c", [2, 4])))
    own = [*takewhile(lambda one: one.own, candidates(load(f"{SPEC}configs:\n{configs}", "it.yaml").spec))]
    names = ["coop_128x128x64_split4", "coop_128x128x64_split4w_c8x1", "coop_128x128x64_split4w_c2x4"]
    assert [one.name for one in own] == names and len({one.kernel for one in own}) == 2
    library = library_of(own, {one.name: guess(one.plan, MACHINE) for one in own})
    assert sorted(config.name for config in library.configs) == sorted(names)


MMA_SYNC = """\
mmagen: 1
name: it
kernel: gemm
atom: {atom}
layout: {layout}
tile: {tile}
epilogue: {{out: {out}}}
"""


@pytest.mark.parametrize(
    ("atom", "layout", "tile", "out"),
    [
        ("SM80_16x8x16_F32BF16BF16F32_TN", "NT", "[64, 64, 32]", "bf16"),
        ("SM80_16x8x8_F32TF32TF32F32_TN", "TN", "[64, 64, 32]", "f32"),
        ("SM80_16x8x32_S32S8S8S32_TN", "TN", "[64, 64, 64]", "s32"),
        ("SM75_16x8x8_F32F16F16F32_TN", "TT", "[64, 64, 32]", "f16"),
    ],
)
def test_kernels_with_mma_sync_have_alternatives(atom, layout, tile, out):
    found = [*candidates(load(MMA_SYNC.format(atom=atom, layout=layout, tile=tile, out=out), "it.yaml").spec)]
    assert len(found) > 100 and len({one.name for one in found}) == len(found)
    assert {one.plan.ctas_per_sm for one in found} == {1, 2} and {one.plan.threads for one in found} >= {64, 128, 256}
    assert {one.plan.stages for one in found[1:]} == ({2} if "SM75" in atom else {3, 4}), "the first is the spec's own"
    of_tile = [one.plan for one in found if one.plan.tile[:2] == (128, 128)]
    wide = next(one for one in of_tile if one.ctas_per_sm == 1 and one.threads == 256)
    pair = next(one for one in of_tile if one.tile == wide.tile and one.ctas_per_sm == 2 and one.threads == 256)
    assert guess(pair, MACHINE).k_tile_us == 2 * guess(wide, MACHINE).k_tile_us, "two CTAs share an SM"
    narrow = next(one for one in of_tile if one.tile == wide.tile and one.ctas_per_sm == 1 and one.threads == 128)
    assert guess(narrow, MACHINE).k_tile_us > guess(wide, MACHINE).k_tile_us, "four warps do not hide latencies"


def test_a_kernel_without_alternatives_says_so():
    other = MMA_SYNC.format(atom="UniversalFMA<float,float,float,float>", layout="NT", tile="[128, 128, 8]", out="f32")
    with pytest.raises(UsageError, match="has no alternatives to choose from"):
        next(candidates(load(other + "atoms_layout: [16, 16, 1]\n", "it.yaml").spec))
