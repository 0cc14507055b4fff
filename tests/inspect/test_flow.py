"""Pictures of copies, pipelines and raster orders: checked against the C++ headers, the plan's own layouts, and their rules."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from mmagen.families import pipelines, plan
from mmagen.inspect.flow import copied
from mmagen.inspect.page import pictures
from mmagen.plan.bank_conflicts import _vector_words, byte_address
from mmagen.plan.model import TileScheduler
from mmagen.plan.pipeline import raster_order, timeline, work_tiles
from mmagen.spec.load import load
from mmagen.spec.model import Problem

ROOT = Path(__file__).resolve().parents[2]
GEMMS = sorted(path.stem for path in (ROOT / "specs").glob("*gemm*.yaml"))
LOADED_BY_TMA = [name for name in GEMMS if name.startswith("sm90") and "_f64" not in name and "_c64" not in name]
NAMESPACE = {"s": "http://www.w3.org/2000/svg"}


def planned(name: str):
    path = ROOT / f"specs/{name}.yaml"
    return plan(load(path.read_bytes(), path.name).spec)


def drawn(name: str, **options) -> dict[str, str]:
    return {one.name: one.svg for one in pictures(planned(name), {}, **options)}


# --- Raster order ----------------------------------------------------------------------------------------------------

_PROGRAM = """
#include <cstdio>
#include <cstdlib>
static unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
#include "mmagen/tile_raster.cuh"
int main(int, char** v) {
  unsigned m = atoi(v[1]), n = atoi(v[2]);
  mmagen::TileRaster const raster(m, n, atoi(v[3]));
  for (unsigned i = 0; i < m * n; ++i) { auto const t = raster(i); printf("%d %d\\n", t.m, t.n); }
}
"""


@pytest.fixture(scope="module")
def rasterize(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raster")
    (folder / "cute").mkdir()
    (folder / "cute/config.hpp").write_text("#pragma once\n#define CUTE_DEVICE inline\n")
    (folder / "main.cpp").write_text(_PROGRAM)
    compiler = shutil.which("g++")
    assert compiler
    command = [
        compiler,
        "-std=c++17",
        "-I",
        folder,
        "-I",
        ROOT / "templates/runtime",
        folder / "main.cpp",
        "-o",
        folder / "main",
    ]
    subprocess.run(command, check=True)

    def run(*extents: int) -> list[tuple[int, ...]]:
        out = subprocess.run([folder / "main", *map(str, extents)], check=True, capture_output=True, text=True).stdout
        return [tuple(map(int, line.split())) for line in out.splitlines()]

    return run


def test_the_order_is_that_of_the_header(rasterize):
    draw = random.Random(7)
    for _ in range(40):
        extents = draw.randint(1, 40), draw.randint(1, 40), draw.choice([1, 2, 3, 8, 16, 50])
        number = raster_order(*extents)
        assert [number(*at) for at in rasterize(*extents)] == [*range(extents[0] * extents[1])], extents


@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 4), (4, 2)])
def test_every_tile_is_computed_once(cluster):
    for m, n in ((1, 1), (7, 5), (8, 3), (33, 17)):
        tiles = work_tiles(TileScheduler(raster_group=4, cluster=cluster), m, n, 99)
        assert sorted((one.m, one.n) for one in tiles) == [(i, j) for i in range(m) for j in range(n)]
        for one in tiles:
            assert one.rank == (one.m % cluster[0], one.n % cluster[1])


def test_a_matrix_of_many_tiles_is_not_counted_tile_by_tile():
    shape = {"shape": [2147000000, 2147000000, 8], "batch": 2147000000}
    it = planned("sm90_gemm_bf16_tn")
    ((_, pipeline),) = pipelines(it)
    start = time.process_time()
    tiles = -(-2147000000 // 128) * -(-2147000000 // 256)
    assert it.tiles_of(Problem.model_validate(shape)) >= tiles // 2 * 2147000000
    assert len(work_tiles(pipeline.scheduler, 2**24, 2**23, 24)) == 24 * 24
    assert time.process_time() - start < 1


def test_waves_and_clusters_of_a_picture():
    """8192 x 8192 by 128 x 256 in clusters of 2 x 1 on 132 SMs: 66 clusters at once, in bands of 8 rows of clusters."""
    titles = labels(drawn("sm90_gemm_bf16_tn", device="h200")["raster"])
    assert titles["tile (0,0)"] == "number 0, wave 0, CTA (0,0) of its cluster"
    assert titles["tile (3,0)"] == "number 1, wave 0, CTA (1,0) of its cluster"
    assert titles["tile (0,1)"] == "number 8, wave 0, CTA (0,0) of its cluster"
    assert titles["tile (4,8)"] == "number 66, wave 1, CTA (0,0) of its cluster"


def labels(svg: str) -> dict[str, str]:
    titles = [one.text.split(": ", 1) for one in ET.fromstring(svg).iterfind(".//s:title", NAMESPACE) if ": " in one.text]
    return dict(titles)


# --- Copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in GEMMS if name not in LOADED_BY_TMA])
def test_each_element_is_copied_once_by_the_plan_s_thread(name):
    it = planned(name)
    for operand in it.operands:
        for _, by in operand.gmem_copies:
            table = copied(operand, by)
            counts = Counter(element for thread in table.elements for element in thread)
            assert set(counts.values()) == {1} and len(counts) == operand.extent_mn * operand.extent_k
            for thread in range(0, by.threads, 7):
                first = [divmod(element, operand.extent_k) for element in table.elements[thread][: by.vector]]
                assert [byte_address(operand, *place) // 4 for place in first] == _vector_words(operand, by, thread)


def test_boxes_cover_the_tile_and_name_the_cta():
    titles = [one.text for one in ET.fromstring(drawn("sm90_gemm_bf16_tn")["B-copy"]).iterfind(".//s:title", NAMESPACE)]
    assert titles == [
        "CTA 0 of the 2 that share it: panel 0, lines 0 to 127, 64 x 128 elements, 16,384 B",
        "CTA 1 of the 2 that share it: panel 0, lines 128 to 255, 64 x 128 elements, 16,384 B",
    ]


@pytest.mark.parametrize("name", LOADED_BY_TMA)
def test_boxes_have_all_bytes_of_a_stage(name):
    for _, pipeline in pipelines(planned(name)):
        for operand in pipeline.operands:
            share = operand.extent_across // (operand.tma.boxes * operand.tma.box_across)
            assert share == pipeline.scheduler.cluster["BA".index(operand.letter)]
            box = operand.line * operand.tma.box_across * operand.element.bytes
            # Metadata of a sparse A come by a copy of their own: 2 bits for each element that is kept, of 8-bit types 4 for two.
            metadata = (
                operand.extent_mn * operand.extent_k // 4
                if operand.kept < operand.group and not planned(name).spec.weights
                else 0
            )
            metadata = metadata * 2 if operand.element.bits == 32 else metadata
            assert operand.tma.panels * operand.tma.boxes * share * box + metadata == operand.bytes_per_stage


# --- The pipeline ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GEMMS)
def test_no_stage_is_overwritten_while_it_is_needed(name):
    for _, pipeline in pipelines(planned(name)):
        for stages in {2, 3, pipeline.stages}:
            short = 1 if pipeline.through_registers else stages - 1 if pipeline.ahead < pipeline.stages else stages
            one = replace(pipeline, stages=stages, ahead=short)
            for k_tiles in (1, 2, stages, 3 * stages + 1):
                follow(one, k_tiles)


def follow(pipeline, k_tiles: int) -> None:
    shown = timeline(pipeline, k_tiles)
    assert [step.number for step in shown.steps] == list(range(pipeline.tiles * k_tiles))
    for step in shown.steps:
        assert step.issued < step.arrived <= step.begins < step.ends <= step.free
        if step.number >= pipeline.stages:
            before = shown.steps[step.number - pipeline.stages]
            assert before.stage == step.stage and before.phase != step.phase
            assert (step.arrived if pipeline.through_registers else step.issued) >= before.ends
    busy = sorted((step.begins, step.ends) for step in shown.steps)
    assert all(first[1] <= second[0] for first, second in pairwise(busy)), "one k tile at a time"
    for end in shown.epilogues:
        mine = [step for step in shown.steps if step.consumer == end.consumer and step.tile != end.tile]
        assert all(step.ends <= end.begins or step.begins >= end.ends for step in mine)


def test_pingpong_multiplies_during_the_epilogue_and_cooperative_does_not():
    for name, overlaps in (("sm90_gemm_bf16_pingpong", True), ("sm90_gemm_bf16_tn", False)):
        ((_, pipeline),) = pipelines(planned(name))
        shown = timeline(pipeline, 6)
        first = shown.epilogues[0]
        assert any(first.begins <= step.begins < first.ends for step in shown.steps) == overlaps
        assert len(shown.epilogues) == 2


def test_loads_run_ahead_by_the_stages():
    ((_, classic),) = pipelines(planned("sm80_gemm_classic"))
    early = [step for step in timeline(classic, 9).steps if step.issued < 1]
    assert len(early) == classic.stages - 1 == 2
    ((_, hopper),) = pipelines(planned("sm90_gemm_bf16_tn"))
    assert len([step for step in timeline(hopper, 9).steps if step.issued < 1]) == hopper.stages == 4


# --- Documents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["sm80_gemm_classic", "sm75_gemm_f16", "sm90_gemm_swapped", "sm90_gemm_bf16_f32", "hello_micro"]
)
def test_pictures_are_documents_of_their_own(name):
    for svg in drawn(name).values():
        root = ET.fromstring(svg)
        wide, high = float(root.get("width")), float(root.get("height"))
        assert 0 < wide < 20_000 and 0 < high < 20_000 and len(svg) < 300_000
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_the_copy_of_a_large_tile_is_cut_and_says_so():
    """256 x 128 bytes; narrow, a cell for each."""
    found = drawn("sm80_gemm_s8")
    assert "rows 0 to 127, columns 0 to 63" in found["A-copy-narrow"]
    assert all(len(svg) < 300_000 for name, svg in found.items() if "copy" in name or name in ("pipeline", "raster"))


def test_a_large_problem_is_cut_and_says_so():
    svg = drawn("sm90_gemm_bf16_tn")["raster"]
    assert "of 8192x8192x8192, the first 24 x 24" in svg and len(labels(svg)) == 24 * 24


def test_png_is_the_same_picture(tmp_path):
    resvg = pytest.importorskip("resvg_py")
    svg = drawn("sm90_gemm_bf16_tn")["pipeline"]
    root = ET.fromstring(svg)
    image = resvg.svg_to_bytes(svg, background="white", zoom=2)
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(image[16:20], "big") == 2 * int(root.get("width"))
