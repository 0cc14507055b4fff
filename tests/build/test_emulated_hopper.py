"""Kernels of wgmma and TMA as nvcc compiles them pass emulated, and none does whose PTX lacks a wait, a fence or an arrival."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from mmagen.build.ptx import compile_ptx
from mmagen.families import plan
from mmagen.generate.write import write
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.session import run_task, tasks
from tests.support.mutations import project

pytestmark = pytest.mark.nvcc

# Compilation is what takes long: three that have between them multicast, turns, sums through distributed shared memory, and
# tiles of a last wave that all clusters share.
TURNS, SPLIT, STREAM = "sm90_gemm_bf16_pingpong", "sm90_gemm_splitk", "c2_stream"
_SECONDS = 30  # for one spec, after compilation, on one busy core

WAIT = r"mbarrier\.try_wait[^;]*;"
ARRIVAL = r"(?:@%p\d+\s+)?mbarrier\.arrive[^;]*;"
CLUSTER = r"barrier\.cluster\.arrive[^;]*;\s*barrier\.cluster\.wait[^;]*;"
# spec, pattern, which of its places (None: all) are empty, the kind of finding
FAULTS = {
    "a release comes a tile early": (TURNS, r"wgmma\.wait_group\.sync\.aligned\s+1;", None, "async_race"),
    "sums are read early": (TURNS, r"wgmma\.wait_group\.sync\.aligned\s+0;", None, "wgmma_order"),
    "no wgmma.fence": (TURNS, r"wgmma\.fence[^;]*;", None, "wgmma_order"),
    "no proxy fence": (TURNS, r"fence\.proxy\.async[^;]*;", None, "proxy_fence"),
    "no fence after init": (TURNS, r"fence\.mbarrier_init[^;]*;", None, "proxy_fence"),
    "no barrier after init": (TURNS, CLUSTER, 0, "mbarrier"),
    "stores are not waited for": (TURNS, r"cp\.async\.bulk\.wait_group\.read[^;]*;", None, "async_race"),
    "no warp barrier before a store": (TURNS, r"bar\.warp\.sync[^;]*;", None, "shared_race"),
    "no barrier before sums are given": (SPLIT, CLUSTER, -2, "async_race"),
    "no barrier after sums are given": (SPLIT, CLUSTER, -1, "shared_race"),
}


@cache
def _work(name, where):
    write(project(name, name), where / name)
    ptx = compile_ptx(where / name, find_toolchain(want=COMPILE))
    assert not ptx.error, ptx.error
    spec = where / name / "spec.yaml"
    return tasks(plan(load(spec.read_bytes(), str(spec)).spec), ptx, (), 1, None)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hopper")
    return lambda name: _work(name, folder)


@pytest.mark.parametrize("name", [TURNS, SPLIT, STREAM])
def test_a_spec_passes_emulated(name, work):
    results = [run_task(task) for task in work(name)]
    assert [result.records[0]["disposition"] for result in results] == ["passed"] * len(results), results
    assert not any(result.records[0]["details"]["findings"] for result in results)
    assert sum(result.seconds for result in results) < _SECONDS


def _kinds(tasks_, spec, pattern, which, instead=""):
    """The kinds of findings in a kernel whose PTX has something else in place of a pattern."""
    # Several tiles of several steps for a persistent kernel, more steps than stages for the other.
    task = next(t for t in tasks_ if (t.problem.batch > 1 if spec == TURNS else t.problem.k > 64 * t.plan.stages))
    places = list(re.finditer(pattern, task.ptx.text))
    text = task.ptx.text
    for place in reversed(places if which is None else [places[which]]):
        text = text[: place.start()] + instead + text[place.end() :]
    return _found(task, text)


def _found(task, text):
    (record,) = run_task(replace(task, ptx=replace(task.ptx, text=text))).records
    assert record["disposition"] in ("failed", "incorrect")
    return {finding["kind"] for finding in record["details"]["findings"]}


@pytest.mark.parametrize("name", FAULTS)
def test_ptx_that_lacks_something_is_found_out(name, work):
    spec, pattern, which, kind = FAULTS[name]
    assert kind in _kinds(work(spec), spec, pattern, which)


def test_slices_that_tma_cannot_store_are_counted_as_those_that_it_can(work):
    """Of the four slices of a row the first is TMA's, the others end within 16 bytes; the third has the first one's buffer."""
    task = replace(work(TURNS)[0], problem=Problem(shape=(64, 73, 65), ld_pad=7), distribution="small_int")
    (record,) = run_task(task).records
    assert record["disposition"] == "passed" and not record["details"]["findings"], record
    groups = list(re.finditer(r"cp\.async\.bulk\.commit_group;", task.ptx.text))
    third = groups[2]
    assert len(groups) == 5 and "async_race" in _found(task, task.ptx.text[: third.start()] + task.ptx.text[third.end() :])


def test_no_wait_can_be_left_out(work):
    """Not even those without which the results are the same as long as nobody is late: for a turn, and for the others of
    the cluster before the end."""
    count = len(re.findall(WAIT, work(TURNS)[0].ptx.text))
    found = [_kinds(work(TURNS), TURNS, WAIT, which, "setp.eq.u32 p, 0, 0;") for which in range(count)]
    assert count == 5 and all(kinds & {"async_race", "mbarrier", "cluster_exit"} for kinds in found)
    assert {"cluster_exit"} in found and {"mbarrier"} in found


def test_no_arrival_can_be_left_out(work):
    count = len(re.findall(ARRIVAL, work(TURNS)[0].ptx.text))
    assert count >= 4
    for which in range(count):
        assert "deadlock" in _kinds(work(TURNS), TURNS, ARRIVAL, which)
