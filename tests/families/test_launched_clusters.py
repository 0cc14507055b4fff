"""Kernels of a library that are launched in several clusters: choices, code, and what is refused."""

from __future__ import annotations

import re

import pytest

from mmagen.core.errors import SpecError, SpecFaults
from mmagen.families import family_of, library, plan
from mmagen.families.entries import entries
from mmagen.families.launches import numbers
from mmagen.families.library import choose
from mmagen.generate.render import render
from mmagen.plan.devices import DEVICES
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from tests.support.launched import COST, planned
from tests.support.mutations import ODD

HEAD = """\
mmagen: 1
name: lib
kernel: gemm
atom: SM90_64x128x16_F32BF16BF16_SS
layout: TN
tile: [128, 128, 64]
atoms_layout: [2, 1, 1]
epilogue: {out: bf16}
configs:
"""


def config(clusters: str, more: str = "") -> str:
    launches = ", ".join(f"{{cluster: {one}, cost: {COST}}}" for one in re.findall(r"\[\d+, \d+\]", clusters))
    return HEAD + f"  - {{name: tile, {more}clusters: [{launches}]}}\n"


def refused(text: str) -> list[str]:
    with pytest.raises((SpecError, SpecFaults)) as caught:
        plan(load(text, "lib.yaml").spec)
    if isinstance(caught.value, SpecError):
        return [str(one) for one in caught.value.diagnostics]
    return [f"{'.'.join(map(str, fault.key))}: {fault.what}; {fault.remedy}" for fault in caught.value.faults]


def test_every_cluster_is_a_choice_and_all_are_one_kernel():
    it = planned(config("[2, 1] [1, 1] [1, 2]"))
    assert [one.name for one in it.configs] == ["tile_c2x1", "tile_c1x1", "tile_c1x2"]
    assert [one.plan.scheduler.cluster for one in it.configs] == [(2, 1), (1, 1), (1, 2)]
    assert {one.kernel for one in it.configs} == {"tile"} and list(it.by_kernel) == ["tile"]
    files = render(it)
    assert "src/tile.cu" in files and not any("_c2x1" in path for path in files if path.endswith((".cu", ".cuh")))
    code = files["include/lib/tile.cuh"].decode()
    assert "kClusterAtLaunch = true" in code and "kClusterM" not in code and "kBoxAcross" not in code.split("struct A")[1]
    launches = re.findall(r"Launch::kYes, \{ (\d), (\d), 128 \}", files["src/tile.cu"].decode())
    assert launches == [("2", "1"), ("1", "1"), ("1", "2")]


def test_the_cluster_is_chosen_by_the_problem():
    """Half of a cluster along M computes nothing where M is one tile."""
    it = planned((ODD / "clusters.yaml").read_text())
    chosen = {
        choose(it, Problem(shape=shape)).name for shape in ((4096, 4096, 4096), (64, 64, 64), (40, 8192, 512), (8192, 40, 512))
    }
    assert len(chosen) > 1 and all(name in {one.name for one in it.configs} for name in chosen)


def test_bands_have_the_same_rows_of_tiles_in_every_cluster():
    it = planned(config("[2, 1] [1, 1] [4, 1]"))
    rows = {one.plan.scheduler.raster_group * one.plan.scheduler.cluster[0] for one in it.configs}
    assert rows == {it.configs[0].plan.scheduler.band_of_config} and min(rows) > 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (config("[2, 1]", "cluster: [1, 1], "), "cluster cannot stand beside clusters: write it in one of them"),
        (config("[2, 1]", f"cost: {COST}, "), "cost cannot stand beside clusters: each of them has its own"),
        (config("[2, 1]", "when: {m: [1, 8]}, "), "when cannot stand beside clusters: their costs decide"),
        (config("[2, 1] [2, 1]"), "configs.0.clusters.1.cluster: tile_c2x1 is already the name of configs[0].clusters[0]"),
        (config("[3, 1]"), "configs.0.clusters.0.cluster: [3, 1] has an extent that is not a power of two"),
        (config("[1, 1] [16, 1]"), "configs.0.clusters.1.cluster: [16, 1] are 16 CTAs"),
        (config("[1, 1]", "split_k: 2, "), "2 CTAs of a cluster share the K of a tile: its kernel is compiled for one cluster"),
        (
            config("[1, 1]")
            .replace(", atoms_layout", "")
            .replace("[128, 128, 64]", "[64, 128, 64]")
            .replace("[2, 1, 1]", "[1, 1, 1]"),
            "schedule warpgroup has no clusters: its kernel is compiled for one cluster",
        ),
        (
            config("[1, 1]")
            .replace("SM90_64x128x16_F32BF16BF16_SS", "SM90_64x128x32_F32E4M3E4M3_SS_TN")
            .replace("128, 64]", "128, 128]")
            .replace("epilogue", "scale: {a: 1x128, b: 128x128}\nepilogue"),
            "operands have scales: its kernel is compiled for one cluster",
        ),
        (
            config("[1, 2] [1, 1]")
            .replace("64x128x16", "64x64x16")
            .replace("[128, 128, 64]", "[384, 64, 64]")
            .replace("[2, 1, 1]", "[3, 1, 1]"),
            "a tile of A has 384 lines, of which TMA loads 256 in a box: its kernel is compiled for one cluster",
        ),
        (config("[1, 1]").replace("clusters: [", "clusters: [{cluster: null}, "), "clusters[0].cluster"),
        (HEAD + "  - {name: tile, clusters: []}\n", "clusters"),
        (
            HEAD + "  - {name: tile, clusters: [{cluster: [2, 1]}, {cluster: [1, 1]}]}\n",
            "configs.0.clusters.1: tile_c1x1 is never reached: tile_c2x1 comes first and has no when and takes every problem; "
            "give each of them a cost as `mmagen tune` writes it, or omit one",
        ),
        (
            config("[1, 1]").replace("clusters: [", "clusters: [{cluster: [2, 1]}, "),
            "tile_c2x1 has neither a when nor a cost, and its time cannot be compared with that of tile_c1x1; give it a cost",
        ),
    ],
)
def test_what_a_launch_cannot_decide_is_refused(text, says):
    found = refused(text)
    assert any(says in one for one in found), found


def test_maps_and_registers_are_those_of_the_compiled_kernel():
    it = planned(config("[2, 1] [1, 1]"))
    titles = [one.title for one in library.maps(it)]
    assert titles and len({*titles}) == len(titles)
    found = numbers(it, DEVICES[0], {"tile": 150}, lambda _: 0)
    assert [(one.kernel, one.measured) for one in found] == [("tile_c2x1", True), ("tile_c1x1", True)]


@pytest.mark.parametrize(
    ("clusters", "says"),
    [
        ("[2, 1] [1, 1]", "set at launch: 2 x 1 CTAs, 1 x 1 CTAs; boxes and traffic are those of 2 x 1 CTAs"),
        ("[2, 1]", "2 x 1 CTAs share operands by multicast"),
        ("[1, 1]", "none"),
    ],
)
def test_a_page_has_all_clusters_of_a_kernel(clusters, says):
    it = planned(config(clusters))
    (rows,) = [dict(rows) for title, rows in family_of(it).page(it) if title == "tile: Schedule"]
    assert rows["cluster"] == says


def test_a_remedy_leaves_one_cluster():
    with pytest.raises(SpecFaults) as caught:
        planned(config("[2, 1]", "split_k: 2, "))
    (fault,) = caught.value.faults
    assert fault.change[("configs", 0, "cluster")] == [2, 1] and ("configs", 0, "clusters") in fault.change


def test_a_config_without_clusters_is_one_choice():
    (one,) = entries(load(HEAD + "  - {name: alone, cluster: [2, 1]}\n", "lib.yaml").spec)
    assert (one.name, one.kernel, one.key) == ("alone", "alone", ("configs", 0)) and one.overrides == {"cluster": (2, 1)}
