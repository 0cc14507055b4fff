"""Kernels of wgmma and TMA as nvcc compiles them pass emulated, and none does whose PTX lacks a wait, a fence or an arrival."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))
from mutations import SPECS, project  # noqa: E402

from mmagen.cpu.session import run_task, tasks  # noqa: E402
from mmagen.load import load  # noqa: E402
from mmagen.plan import plan  # noqa: E402
from mmagen.ptx import compile_ptx  # noqa: E402
from mmagen.toolchain import COMPILE, find_toolchain  # noqa: E402
from mmagen.write import write  # noqa: E402

pytestmark = pytest.mark.nvcc

# Compilation is what takes long: two that have between them multicast, turns, and sums through distributed shared memory.
TURNS, SPLIT = "sm90_gemm_bf16_pingpong", "sm90_gemm_splitk"
_SECONDS = 30  # for one spec, after compilation, on one busy core

WAIT = r"mbarrier\.try_wait[^;]*;"
ARRIVAL = r"(?:@%p\d+\s+)?mbarrier\.arrive[^;]*;"
CLUSTER = r"barrier\.cluster\.arrive[^;]*;\s*barrier\.cluster\.wait[^;]*;"
# spec, pattern, which of its places (None: all), what stands there instead, the kind of finding
FAULTS = {
    "the producer does not wait": (TURNS, WAIT, 0, "setp.eq.u32 p, 0, 0;", "async_race"),
    "the loop does not wait for a stage": (TURNS, WAIT, -1, "setp.eq.u32 p, 0, 0;", "async_race"),
    "an arrival is missing": (TURNS, ARRIVAL, -1, "", "deadlock"),
    "nothing is announced": (TURNS, ARRIVAL, 0, "", "deadlock"),
    "a release comes a tile early": (TURNS, r"wgmma\.wait_group\.sync\.aligned\s+1;", None, "", "async_race"),
    "sums are read early": (TURNS, r"wgmma\.wait_group\.sync\.aligned\s+0;", None, "", "wgmma_order"),
    "no wgmma.fence": (TURNS, r"wgmma\.fence[^;]*;", None, "", "wgmma_order"),
    "no proxy fence": (TURNS, r"fence\.proxy\.async[^;]*;", None, "", "proxy_fence"),
    "no fence after init": (TURNS, r"fence\.mbarrier_init[^;]*;", None, "", "proxy_fence"),
    "no barrier after init": (TURNS, CLUSTER, 0, "", "mbarrier"),
    "a CTA leaves early": (TURNS, CLUSTER, -1, "", "cluster_exit"),
    "stores are not waited for": (TURNS, r"cp\.async\.bulk\.wait_group\.read[^;]*;", None, "", "async_race"),
    "no warp barrier before a store": (TURNS, r"bar\.warp\.sync[^;]*;", None, "", "shared_race"),
    "no barrier before sums are given": (SPLIT, CLUSTER, -3, "", "async_race"),
    "no barrier after sums are given": (SPLIT, CLUSTER, -2, "", "shared_race"),
}


@cache
def _work(name, where):
    write(project(name, name), where / name)
    ptx = compile_ptx(where / name, find_toolchain(want=COMPILE))
    assert not ptx.error, ptx.error
    path = SPECS / f"{name}.yaml"
    return tasks(plan(load(path.read_bytes(), path.name).spec), ptx, (), 1, None)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hopper")
    return lambda name: _work(name, folder)


@pytest.mark.parametrize("name", [TURNS, SPLIT])
def test_a_spec_passes_emulated(name, work):
    results = [run_task(task) for task in work(name)]
    assert [result.records[0]["disposition"] for result in results] == ["passed"] * len(results), results
    assert not any(result.records[0]["details"]["findings"] for result in results)
    assert sum(result.seconds for result in results) < _SECONDS


@pytest.mark.parametrize("name", FAULTS)
def test_ptx_that_lacks_something_is_found_out(name, work):
    spec, pattern, which, instead, kind = FAULTS[name]
    # Several tiles of several steps for a persistent kernel, more steps than stages for the other.
    task = next(t for t in work(spec) if (t.problem.batch > 1 if spec == TURNS else t.problem.k > 64 * t.plan.stages))
    places = list(re.finditer(pattern, task.ptx.text))
    text = task.ptx.text
    for place in reversed(places if which is None else [places[which]]):
        text = text[: place.start()] + instead + text[place.end() :]
    (record,) = run_task(replace(task, ptx=replace(task.ptx, text=text))).records
    assert record["disposition"] in ("failed", "incorrect")
    assert kind in {finding["kind"] for finding in record["details"]["findings"]}, record["reason"]
