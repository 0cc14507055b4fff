"""Kernels of wgmma and TMA as nvcc compiles them pass emulated, and none does whose PTX lacks a wait, a fence or an arrival."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mmagen.draw.traced import picture
from mmagen.emulate import TensorMap
from mmagen.plan.cost import Call, KernelShape, schedule
from mmagen.spec.model import Problem
from mmagen.verify.emulated import host
from mmagen.verify.emulated.host import Workspace
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.product import traced
from mmagen.verify.emulated.session import run_task, tasks
from mmagen.verify.emulated.task import Task
from mmagen.verify.emulated.traced import problem
from tests.support.pace import is_within
from tests.support.ptx_text import places_in

pytestmark = pytest.mark.nvcc

# Compilation is what takes long: four that have between them multicast, turns, sums through distributed shared memory,
# tiles of a last wave that all clusters share, and parts of K in a workspace.
TURNS, SPLIT, STREAM = "sm90_gemm_bf16_pingpong", "sm90_gemm_splitk", "c2_stream"
STREAM_OF_SUMS = "stream_blocks"  # its mainloop adds sums to the accumulators
KERNEL = "sm90_kernel"  # for operands that TMA can address
SWAPPED = "c3_parts"  # and parts of K that are summed through a workspace
ODD = ("sc4_columns", "sparse_precise", "amax_f64")  # combinations that random specs found wrong, and amax of f64
_WORKSPACE = 0x712345670
_SEVERAL = Problem(shape=(69, 261, 133), batch=2, ld_pad=11, alpha=-1.0, beta=2.0)  # tiles, each of several k tiles
_SECONDS = 30  # of processor time, for one spec

WAIT = r"mbarrier\.try_wait[^;]*;"
ARRIVAL = r"(?:@%p\d+\s+)?mbarrier\.arrive[^;]*;"
RESET = r"(mov\.u64\s+%rd\d+, 0;)\s+st\.global\.u64[^;]*;"  # of the flag that was waited for
CLUSTER = r"barrier\.cluster\.arrive[^;]*;\s*barrier\.cluster\.wait[^;]*;"
# spec, pattern, which of its places (None: all) are empty, the kind of finding
FAULTS = {
    "a release comes a tile early": (TURNS, r"wgmma\.wait_group\.sync\.aligned\s+1;", None, "async_race"),
    "sums are read early": (TURNS, r"wgmma\.wait_group\.sync\.aligned\s+0;", None, "wgmma_order"),
    "no wgmma.fence": (TURNS, r"wgmma\.fence[^;]*;", None, "wgmma_order"),
    "no proxy fence": (TURNS, r"fence\.proxy\.async[^;]*;", None, "proxy_fence"),
    "no wait for the grid before": (TURNS, r"griddepcontrol\.wait;", None, "grid_dependency"),
    "no fence after init": (TURNS, r"fence\.mbarrier_init[^;]*;", None, "proxy_fence"),
    "no barrier after init": (TURNS, CLUSTER, 0, "mbarrier"),
    "stores are not waited for": (TURNS, r"cp\.async\.bulk\.wait_group\.read[^;]*;", None, "async_race"),
    "no barrier of a warpgroup before a store": (TURNS, r"bar\.sync %r\d+, 128;", None, "shared_race"),
    "the producer keeps its registers": (TURNS, r"setmaxnreg\.dec[^;]*;", None, "deadlock"),
    "no barrier before sums are given": (SPLIT, CLUSTER, 1, "async_race"),
    "no barrier after sums are given": (SPLIT, CLUSTER, 2, "shared_race"),
}


@pytest.fixture(scope="module")
def work(compiled):
    """work(name): the tasks that verify would run of a spec."""
    return lambda name: tasks(compiled(name).plan, compiled(name).ptx, (), 1, None)


def test_the_trace_of_a_kernel(compiled):
    """Two warpgroups in turns, a producer, and a stage that is loaded again once both have gone past it."""
    one = compiled(TURNS)
    small = problem(one.plan)
    events = traced(Task(one.plan, one.ptx, small, "uniform", seed=1))
    drawn = picture(events, TURNS, "pipeline-traced")
    assert drawn
    says = re.findall(r"<title>([^<]*)</title>", drawn.svg)
    consumers = {event.warp for event in events if event.kind == "multiply"}
    k_tiles = 3 * small.k // one.plan.tile_of_d[2]
    assert len(consumers) == 2 and sum("loads in flight" in one for one in says) == k_tiles
    assert any(re.fullmatch(r"waits for phase 0 of the mbarrier at byte \d+, which warp \d+ completes", one) for one in says)
    assert any("full mbarrier of stage 0, which a load completes" in one for one in says)


@pytest.mark.parametrize(
    "name", [TURNS, SPLIT, STREAM, STREAM_OF_SUMS, SWAPPED, *(pytest.param(one, marks=pytest.mark.more) for one in ODD)]
)
def test_a_spec_passes_emulated(name, emulated):
    found = emulated(name)
    assert is_within(found.seconds, _SECONDS)
    assert [record["disposition"] for record in found.records] == ["passed"] * len(found.records), found.records
    assert found.records and not any(record["details"]["findings"] for record in found.records)


def _kinds(tasks_, spec, pattern, which, instead=""):
    """The kinds of findings in a kernel whose PTX has something else in place of a pattern."""
    # Several tiles of several steps for a persistent kernel, more steps than stages for the other.
    task = next(t for t in tasks_ if t.problem.k > 64 * t.plan.stages)
    task = replace(task, problem=_SEVERAL) if spec == TURNS else task
    text = task.ptx.text
    places = places_in(text, KERNEL, pattern)
    for place in reversed(places if which is None else [places[which]]):
        text = text[: place.start()] + instead + text[place.end() :]
    return _found(task, text)


def _found(task, text):
    units = {**task.ptx.units, task.ptx.name: text}
    (record,) = run_task(replace(task, ptx=replace(task.ptx, units=units))).records
    assert record["disposition"] in ("failed", "incorrect")
    return {finding["kind"] for finding in record["details"]["findings"]}


@pytest.mark.parametrize("name", FAULTS)
def test_ptx_that_lacks_something_is_found_out(name, work):
    spec, pattern, which, kind = FAULTS[name]
    assert kind in _kinds(work(spec), spec, pattern, which)


def test_slices_that_tma_cannot_store_are_counted_as_those_that_it_can(work):
    """Of the four slices of a row the first is TMA's, the others end within 16 bytes; the third has the first one's buffer. TMA
    cannot store all of such a D, so the second copy of the code stores it; the commit of its second group, an empty one, is
    removed."""
    task = replace(work(TURNS)[0], problem=Problem(shape=(64, 73, 65), ld_pad=7), distribution="small_int")
    (record,) = run_task(task).records
    assert record["disposition"] == "passed" and not record["details"]["findings"], record
    groups = places_in(task.ptx.text, KERNEL, r"cp\.async\.bulk\.commit_group;")
    second = groups[4 + 1]
    assert len(groups) == 8 and "async_race" in _found(task, task.ptx.text[: second.start()] + task.ptx.text[second.end() :])


def test_no_wait_can_be_left_out(work):
    """Not even those without which the results are the same as long as nobody is late: for a turn, and for the others of
    the cluster before the end."""
    count = len(places_in(work(TURNS)[0].ptx.text, KERNEL, WAIT))
    found = [_kinds(work(TURNS), TURNS, WAIT, which, "setp.eq.u32 p, 0, 0;") for which in range(count)]
    assert count == 9 and all(kinds & {"async_race", "mbarrier", "cluster_exit"} for kinds in found)
    assert {"cluster_exit"} in found and {"mbarrier"} in found


def test_no_arrival_can_be_left_out(work):
    count = len(places_in(work(TURNS)[0].ptx.text, KERNEL, ARRIVAL))
    assert count >= 4
    for which in range(count):
        assert "deadlock" in _kinds(work(TURNS), TURNS, ARRIVAL, which)


def test_a_flag_that_is_left_set_is_found_by_the_next_call(work):
    task = next(t for t in work(STREAM) if t.problem.shape == (64, 64, 2048))
    text, count = re.subn(RESET, r"\1", task.ptx.text)
    assert count == 1 and "global_race" in _found(task, text)


_WAIT_FOR_ALL = r"wgmma\.wait_group\.sync\.aligned\s+0;"
_ONE_WARP = """{{.reg .pred one; .reg .b32 warp; mov.u32 warp, %tid.x; and.b32 warp, warp, 96; setp.eq.u32 one, warp, 32;
@one {0}}}"""


@pytest.mark.parametrize(
    ("spec", "pattern", "instead", "kind"),
    [
        (TURNS, _WAIT_FOR_ALL, _ONE_WARP.format("wgmma.wait_group.sync.aligned 0;"), "warp_divergence"),
        (TURNS, r"wgmma\.commit_group[^;]*;", _ONE_WARP.format("wgmma.commit_group.sync.aligned;"), "warp_divergence"),
        (TURNS, r"fence\.proxy\.async\.shared::cta", "fence.proxy.async.global", "proxy_fence"),
        (STREAM, r"st\.release\.gpu", "st.release.cta", "global_race"),
        (STREAM, r"ld\.acquire\.gpu", "ld.acquire.cluster", "global_race"),
    ],
    ids=["wait", "commit", "space", "release", "acquire"],
)
def test_what_is_too_little_is_found_out(spec, pattern, instead, kind, work):
    tasks_ = work(spec)
    if spec == STREAM:
        task = next(t for t in tasks_ if t.problem.shape == (64, 64, 2048))
        text, count = re.subn(pattern, instead, task.ptx.text)
        assert count and kind in _found(task, text)
    else:
        assert kind in _kinds(tasks_, spec, pattern, None, instead)


# --- What the host code launches ---------------------------------------------------------------------------------------


def _launched(task, **problem):
    task = replace(task, problem=Problem(**problem))
    addresses = {name: (n + 1) << 20 for n, name in enumerate("abcd")}
    data = operands(task.plan, task.problem, "zeros", 1)
    workspace = Workspace(_WORKSPACE, host.workspace_bytes(task, data)) if task.product.takes_workspace else Workspace()
    (captured,) = host.multiply_launches(task, data, addresses, workspace)
    return captured, addresses


def _maps(captured):
    """The tensor maps among a launch's parameters, in their order."""
    places = range(0, len(captured.params) - 127, 64)
    return [TensorMap.decode(captured.params[at : at + 128]) for at in places if captured.params[at : at + 8] == b"mmagenTM"]


def test_tensor_maps_describe_the_matrices(work):
    captured, addresses = _launched(work(TURNS)[0], shape=(300, 200, 136), batch=3, ld_pad=8)
    a, edge_a, line, b, edge_b, d = sorted(_maps(captured), key=lambda one: (one.address, -one.box[1]))
    assert [one.address for one in (a, edge_a, line, b, edge_b, d)] == [addresses[name] for name in "aaabbd"]
    assert (a.extents, a.strides, a.box) == ((136, 300, 3), (288, 300 * 288 + 32), (64, 64, 1))
    assert (a.swizzle, a.element) == (128, 2)
    assert b.extents == (136, 200, 3) and b.box == (64, 128, 1), "two CTAs share B"
    assert (edge_a.box, edge_b.box) == ((64, 300 % 64, 1), (64, 200 % 128, 1)), "the last boxes have the lines that are left"
    assert line.box == (64, 1, 1), "one row of A, which a CTA sends that has no row of the matrix"
    for edge, whole in ((edge_a, a), (line, a), (edge_b, b)):
        assert (edge.extents, edge.strides, edge.swizzle) == (whole.extents, whole.strides, whole.swizzle)
    assert d.extents == (200, 300, 3) and d.box == (64, 64, 1)


def test_few_rows_are_read_as_few(work):
    captured, _ = _launched(work(TURNS)[0], shape=(19, 200, 136))
    assert sorted(one.box for one in _maps(captured) if one.extents[1] == 19 and one.extents[0] == 136) == [
        (64, 1, 1),  # the row that a CTA sends that has no row of the matrix
        (64, 19, 1),
        (64, 64, 1),
    ]


@pytest.mark.parametrize(("shape", "batch", "grid"), [((128, 256, 64), 1, 2), ((256, 512, 64), 1, 2), ((256, 512, 64), 4, 4)])
def test_few_clusters_do_many_tiles(shape, batch, grid, work):
    captured, _ = _launched(work(TURNS)[0], shape=shape, batch=batch)
    assert captured.grid == (grid, 1, 1) and captured.cluster == (2, 1, 1) and captured.block == (384, 1, 1)


def test_without_persistence_each_tile_has_its_cluster(work):
    captured, _ = _launched(work(SPLIT)[0], shape=(256, 512, 64))
    assert captured.grid == (8, 1, 1) and captured.cluster == (2, 1, 1)


@pytest.mark.parametrize("problem", [{"shape": (16, 16, 33)}, {"shape": (16, 16, 32), "offset": 1}])
def test_what_tma_cannot_address_takes_another_kernel(problem, work):
    captured, _ = _launched(work(TURNS)[0], **problem)
    assert "unaligned" in captured.entry and captured.grid == (1, 1, 1) and captured.block == (128, 1, 1)


@pytest.mark.parametrize(
    ("shape", "grid"),
    [((64, 256, 384), 3), ((64, 64, 1600), 3), ((64, 192, 384), 3), ((64, 128, 448), 2), ((64, 64, 64), 1)],
    ids=["a wave and one", "one tile", "a whole wave", "two short tiles", "short"],
)
def test_three_clusters_share_the_tiles_of_a_last_wave(shape, grid, work):
    captured, _ = _launched(work(STREAM)[0], shape=shape)
    shared = _WORKSPACE.to_bytes(8, "little") in captured.params
    assert captured.grid == (grid, 1, 1) and shared == (shape in ((64, 256, 384), (64, 64, 1600)))


@pytest.mark.parametrize(
    ("k", "room", "needed", "parts"),
    [
        (1600, 12, 12, 12),
        (1600, 99, 12, 12),
        (1600, 5, 12, 5),
        (1600, 1, 12, 1),
        (1600, 0, 12, 1),
        (192, 3, 3, 3),
        (64, 9, 0, 1),
    ],
)
def test_parts_of_k_are_as_many_as_the_workspace_holds(k, room, needed, parts, work):
    """One cluster tile; the sums of one part are 16 lines of 64 f32. The second kernel adds up what there is to add."""
    task = replace(work(SWAPPED)[0], problem=Problem(shape=(16, 64, k)))
    data, addresses = operands(task.plan, task.problem, "zeros", 1), dict.fromkeys("abcd", 1 << 20)
    of_one_part = 16 * 64 * 4
    assert host.workspace_bytes(task, data) == needed * of_one_part
    first, *reduction = host.multiply_launches(task, data, addresses, Workspace(_WORKSPACE, room * of_one_part))
    assert (first.grid, first.cluster) == ((2 * min(parts, 3), 1, 1), (2, 1, 1)) and len(reduction) == (parts > 1)
    for launch in reduction:
        vectors = 16 * 64 // 4
        assert "split_k_reduction" in launch.entry and launch.programmatic and launch.block == (128, 1, 1)
        assert launch.grid == (vectors * (1 if parts <= 8 else 2) // 128, 1, 1)
        assert _WORKSPACE.to_bytes(8, "little") in launch.params


@pytest.mark.more
@pytest.mark.parametrize(
    "shape",
    [
        (256, 256, 65536),
        (16, 64, 8192),
        (300, 520, 3000),
        (1024, 1024, 1024),
        (64, 4096, 512),
        (128, 128, 64),
        (2000, 130, 20000),
    ],
)
def test_the_predicted_time_knows_how_many_parts_of_k_there_will_be(shape, work):
    """split_k: auto decides in sm90_tile_scheduler_split_k_workspace.cuh; plan/cost.py says what it will decide."""
    task = replace(work("sm90_gemm_splitk_auto")[0], problem=Problem(shape=shape))
    kernel = KernelShape.of(task.plan)
    expected = schedule(kernel, host.sharing(task) * kernel.group, Call.of(task.plan, task.problem)).splits
    room = host.workspace_bytes(task, operands(task.plan, task.problem, "zeros", 1))
    of_one_part = shape[0] * -(-shape[1] // 8) * 8 * 4
    assert room == (expected * of_one_part if expected > 1 else 0)
