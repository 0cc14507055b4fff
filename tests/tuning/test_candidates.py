"""The candidates of `mmagen tune`, the libraries that are made of them, and their text."""

from __future__ import annotations

import json
from itertools import islice, takewhile

import pytest

from mmagen.core.errors import UsageError
from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.plan.cost import Call
from mmagen.plan.plans import GemmPlan
from mmagen.spec.cost import Cost
from mmagen.spec.load import load
from mmagen.tuning import database
from mmagen.tuning.candidates import candidates, guess, library_of, prune
from mmagen.tuning.measure import Machine
from mmagen.tuning.problems import random_problems
from mmagen.tuning.tune import check
from mmagen.tuning.write import library_text
from tests.support.mutations import SPECS

MACHINE = Machine(132, {1: 132, 2: 66, 4: 30})
SPEC = """\
mmagen: 1
name: it
kernel: gemm
atom: SM90_64x128x16_F32BF16BF16_SS
tile: [64, 128, 64]
epilogue: {out: bf16}
"""


def test_a_kernel_is_known_by_its_code():
    first, *rest = islice(candidates(load(SPEC, "it.yaml").spec), 20)
    assert database.digest(first.plan) == database.digest(first.plan)
    assert len({database.digest(one.plan) for one in (first, *rest)}) == 20


def test_a_kernel_is_the_same_with_other_coefficients_and_problems():
    def first(launch_us: float, problem: list[int]) -> GemmPlan:
        cost = {name: 1 for name, field in Cost.model_fields.items() if field.is_required()} | {"launch_us": launch_us}
        configs = [{"name": f"of_{rows}", "tile": [rows, 128, 64], "cost": cost} for rows in (64, 128)]
        text = SPEC + "".join(f"{key}: {json.dumps(it)}\n" for key, it in {"problems": [problem], "configs": configs}.items())
        return next(candidates(load(text, "it.yaml").spec)).plan

    plans = [first(2.0, [64, 128, 64]), first(3.0, [64, 128, 4096])]
    assert plans[0].spec_sha != plans[1].spec_sha and database.digest(plans[0]) == database.digest(plans[1])
    wider = next(candidates(load(SPEC.replace("[64, 128, 64]", "[128, 128, 64]"), "it.yaml").spec)).plan
    assert database.digest(wider) != database.digest(plans[0])


def calls_of(found, count: int) -> list[Call]:
    return [Call.of(found[0].plan, problem) for problem in random_problems(1, count)]


def test_candidates_are_legal_differ_and_can_be_one_library():
    found = [*candidates(load(SPEC, "it.yaml").spec)]
    assert len(found) > 200 and len({one.name for one in found}) == len(found)
    assert {one.plan.scheduler.cluster for one in found} >= {(1, 1), (2, 1), (1, 2)}
    assert {one.plan.tile_of_d[1] for one in found} >= {16, 72, 80, 144, 176, 256}, "every width, also as rows of D:"
    assert {one.plan.tile_of_d[0] for one in found} >= {24, 144, 176}
    some = prune(found, calls_of(found, 30), MACHINE, 9)
    library = library_of(some, {one.name: guess(one.plan, MACHINE) for one in some})
    assert sorted(config.name for config in library.configs) == sorted(one.name for one in some) and len(some) == 9
    assert len(library.by_kernel) == len({one.kernel for one in some}), "clusters of a kernel are compiled once"


def test_the_measuring_program_gives_each_kernel_the_workspace_that_it_needs():
    """All kernels of f32 by pieces of bf16 need one, not only those that add parts of K there."""
    offered = [*islice(candidates(load((SPECS / "sm90_gemm_f32_bf16x3.yaml").read_bytes(), "it.yaml").spec), 60)]
    found = [next(one for one in offered if one.plan.scheduler.takes_workspace == sums) for sums in (False, True)]
    library = library_of(found, {one.name: guess(one.plan, MACHINE) for one in found})
    subject = render(library)["tests/tune_subject.cuh"].decode()
    assert "nullptr" not in subject.partition("config_name")[0] and subject.count("::workspace);") == len(found)


def test_the_configs_of_a_spec_are_measured_first():
    configs = "configs:\n  - {name: a, tile: [64, 128, 32], when: {m: [1, 2]}}\n  - {name: b, stages: 2}\n"
    spec = load(SPEC + configs, "it.yaml").spec
    found = [*islice(candidates(spec), 40)]
    own = [one.name for one in found if one.own]
    assert len(own) == 2
    some = prune(found, calls_of(found, 10), MACHINE, 3)
    assert [one.name for one in some[:2]] == own and len(some) == 3
    assert [one.name for one in prune(found, calls_of(found, 10), MACHINE, 1)] == own[:1]


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
    """Names do not say which operand has a cache hint."""
    one = "  - {{name: {}, tile: [64, 64, 64], atom: SM90_64x64x16_F32BF16BF16_SS, schedule: pingpong, cluster: {}{}}}\n"
    hint = ", cache: {{{}: evict_last}}, when: {{m: [1, {}]}}".format
    ways = [([2, 1], hint("a", 2)), ([1, 1], hint("b", 3)), ([1, 2], ", stream_k: never, cache: {a: evict_last}")]
    configs = "".join(one.format(f"c{i}", *way) for i, way in enumerate(ways))
    own = [*takewhile(lambda one: one.own, candidates(load(f"{SPEC}configs:\n{configs}", "it.yaml").spec))]
    assert [one.name for one in own] == ["ping_64x64x64_hint_c2x1", "ping_64x64x64_hint_2_c1x1", "ping_64x64x64_hint_c1x2"]
    library = library_of(own, {one.name: guess(one.plan, MACHINE) for one in own})
    assert {one.name: one.plan.spec.cache for one in library.configs} == {one.name: one.plan.spec.cache for one in own}


def test_kernels_for_one_cluster_that_names_do_not_tell_apart_are_all_measured():
    """Those with weights are compiled for one cluster."""
    spec = SPEC.replace("SM90_64x128x16_F32BF16BF16_SS", "SM90_64x64x16_F32BF16BF16_RS").replace("128, 64]", "64, 128]")
    spec += "operands: swapped\nschedule: cooperative\nweights: {type: s4, group: 128, scale: bf16}\n"
    ways = (
        ", cache: {a: evict_last}, when: {m: [1, 2]}",
        ", cache: {b: evict_last}, when: {m: [3, 4]}",
        ", cache: {a: evict_last}, when: {m: [5, 6]}",
        ", cache: {b: evict_first}",
        ", warpgroups: 3",
    )
    configs = "".join(f"  - {{name: c{i}{way}}}\n" for i, way in enumerate(ways))
    own = [*takewhile(lambda one: one.own, candidates(load(f"{spec}configs:\n{configs}", "it.yaml").spec))]
    assert [(one.own, one.name) for one in own] == [
        ("c0", "coop_64x64x128_swap_hint"),
        ("c1", "coop_64x64x128_swap_hint_2"),
        ("c3", "coop_64x64x128_swap_hint_3"),
        ("c4", "coop_64x64x128_swap_g3"),
    ], "c2 is c0 again"
    library = library_of(own, {one.name: guess(one.plan, MACHINE) for one in own})
    compiled, tried = (
        {one.name: (one.plan.spec.cache, one.plan.roles.consumers) for one in of} for of in (library.configs, own)
    )
    assert compiled == tried and len({*tried.values()}) == len(own)


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


def test_a_grouped_spec_is_not_tuned():
    spec = load((SPECS / "sm90_gemm_bf16_grouped.yaml").read_text(), "it.yaml").spec
    with pytest.raises(UsageError, match="depend on the sizes of the groups"):
        check(spec, "spec")
