"""inspect: every derived number of every spec is told, in words that fit the number."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from mmagen.families import plan
from mmagen.families.estimate import predicted
from mmagen.families.library import choose, ranked
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.families.wgmma.page import WARPGROUPS
from mmagen.inspect.page import inspect, to_json
from mmagen.plan import cxx as cute
from mmagen.plan.devices import DEVICES
from mmagen.plan.model import Operand
from mmagen.plan.plans import GemmPlan, ProductPlan
from mmagen.spec.load import load
from tests.support.mutations import ODD

# A peak has no tile, and so none of these numbers.
SPECS = [
    path
    for path in sorted((Path(__file__).resolve().parents[2] / "specs").glob("*.yaml"))
    if not any(word in path.read_text() for word in ("kernel: peak", "micro_s4", "micro_sparse"))
]


def reported(name: str) -> tuple:
    path = SPECS[0].with_name(f"{name}.yaml")
    it = plan(load(path.read_bytes(), path.name).spec)
    return it, inspect(it)


@pytest.mark.parametrize("name", [path.stem for path in SPECS])
def test_the_derived_numbers_are_there(name):
    it, text = reported(name)
    numbers = [
        " x ".join(map(str, it.tiled_mma.extent)),
        f"{it.tiled_mma.threads} thread",
        it.atom.name,
        str(it.tiled_mma.atoms_layout),
    ]
    if isinstance(it, WgmmaGemmPlan):
        joined = re.sub(" +", " ", text)  # the longest label decides where a column begins
        if it.configs:  # of a kernel's clusters the page has the first
            it = next(one.plan for one in it.configs if one.kernel == it.configs[-1].kernel)
        assert [number for number in numbers + _wgmma_numbers(it) if re.sub(" +", " ", number) not in joined] == []
        return
    if isinstance(it, ProductPlan):
        numbers += [f"{it.smem_bytes:,} B of {it.smem_limit:,}", f"accumulators  {it.accumulator_registers}"]
        for operand in it.operands:
            numbers += [*_copy(operand), f"lines of {operand.line * operand.packed} elements"]
            numbers += [f"{operand.copy_narrow.threads} of {it.threads} threads"]
    if isinstance(it, GemmPlan):
        numbers += [f"stages          {it.stages}", f"{it.epilogue.smem_bytes:,} B, reusing the stages"]
        numbers += [problem.text for problem in it.problems]
    assert [number for number in numbers if number not in text] == []


def _wgmma_numbers(it) -> list[str]:
    """What only wgmma kernels have; their threads are not all in the TiledMMA."""
    roles = it.roles
    numbers = [
        f"schedule      {roles.schedule}",
        f"{roles.consumers} {WARPGROUPS[roles.schedule]}",
        f"{it.smem_bytes:,} B of {it.smem_limit:,}",
        f"accumulators  {it.accumulator_registers}",
        f"stages           {it.stages}",
        f"{it.ctas_per_sm} x {it.threads} threads",
        f"{it.epilogue.smem_bytes:,} B",
        f"64 rows x {it.epilogue.slice} columns",
        *(problem.text for problem in it.problems),
    ]
    if roles.consumer_registers:
        numbers.append(f"{roles.producer_registers} per producer thread, {roles.consumer_registers} per consumer thread")
    for operand in it.operands:
        numbers += [f"{operand.line} x {operand.tma.box_across} per stage", *_copy(operand)]
    return numbers


def _copy(operand: Operand) -> list[str]:
    return [cute.smem_copy(operand).removeprefix("cute::")] if operand.smem_copy else ["none; wgmma reads shared memory"]


@pytest.mark.parametrize("name", [path.stem for path in SPECS])
def test_the_words_fit_the_numbers(name):
    _, text = reported(name)
    assert not re.search(
        r"(?<![\d,.x] )\b1 (threads|owners|values|vectors|elements|passes|CTAs|slices|rows|columns)\b", text
    ), text
    assert not re.search(
        r"\b([2-9]|\d\d+) (thread|owner|value|vector|element|pass|CTA|slice|row|column)\b(?! contiguous)", text
    ), text


def test_the_classic_tile_in_full():
    _, text = reported("sm80_gemm_classic")
    for line in (
        "accumulators  128",
        "fragments     64, two k blocks of A and B: one is multiplied while the next is loaded",
        "k blocks         2 per CTA tile, 16 elements of K each: what the TiledMMA multiplies at once",
        "4 slices of 32 rows, padded by 8 elements",
        "one stage       16,384 B: A 8,192 + B 8,192",
        "49,152 B of 166,912; 3 CTAs per SM",
        "1,048,576 flop: 64 flop/B",
        "16,384 B written, 32,768 B read per stage: 21.33 flop/B",
        "16 wavefronts per warp and k block, no bank conflicts",
    ):
        assert line in text


def test_owners_of_sliced_k():
    _, text = reported("ownership_sliced_k")
    assert "A 32 x 32  8 values per thread, 1 owner per element" in text
    assert "C 32 x 32  16 values per thread, 2 owners per element" in text


def test_conflicts_are_reported_by_their_ways():
    _, text = reported("sm70_gemm_f16")
    assert "4-way bank conflicts" in text


def test_a_micro_kernel_loads_the_whole_tile():
    _, text = reported("micro_sliced_k")
    assert "A and B of the whole tile" in text and "copy, wide" not in text


def test_registers_beside_the_accumulators_are_those_that_the_rule_counts():
    path = ODD / "sums_160.yaml"
    assert "160 of 232 at 1 x 384 threads per SM; excluding about 40" in inspect(plan(load(path.read_bytes(), path.name).spec))


def test_the_large_wgmma_tile_in_full():
    _, text = reported("sm90_gemm_bf16_tn")
    for line in (
        "SM90_64x256x16_F32BF16BF16_SS, 64 x 256 x 16, 128 threads, sm_90a alone",
        "2 consumers share a tile; 1 producer loads",
        "2 x 1 CTAs share operands by multicast",
        "128 of 232 at 1 x 384 threads per SM; excluding about 30",
        "TMA, 1 box of 64 x 128 per stage, each multicast to 2 CTAs",
        "49,152 B: A 16,384 + B 32,768",
        "2 buffers",
        "32,768 B per stage for 4,194,304 flop: 128 flop/B",
        "49,152 B written, 81,920 B read per stage: 32 flop/B",
    ):
        assert line in text, line


def section(text: str, title: str) -> dict[str, str]:
    """The rows of a section by their names."""
    lines = text.split(f"\n{title}\n", 1)[1].split("\n\n", 1)[0].splitlines()
    return dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines)


def test_what_ctas_share_is_reported_of_the_operand_that_they_share():
    """In a cluster of 2 x 1 both CTAs need the same rows of B, in one of 1 x 2 the same rows of A."""
    _, text = reported("sm90_gemm_bf16_tn")
    assert section(text, "Operand A (M,K)")["copy"] == "TMA, 1 box of 64 x 128 per stage"
    assert section(text, "Operand B (N,K)")["copy"] == "TMA, 1 box of 64 x 128 per stage, each multicast to 2 CTAs"
    _, text = reported("sm90_gemm_f16_f32")
    assert section(text, "mid: Operand A (M,K)")["copy"] == "TMA, 1 box of 64 x 128 per stage, each multicast to 2 CTAs"
    assert section(text, "mid: Operand B (N,K)")["copy"] == "TMA, 1 box of 64 x 128 per stage"
    traffic = section(text, "mid: Traffic per CTA tile")
    # A 32,768 B, fetched half by each CTA; B 16,384 B, read for each 64 of 256 rows.
    assert traffic["from global memory"].startswith("32,768 B per stage for 4,194,304 flop")
    assert traffic["shared memory"].startswith("49,152 B written, 98,304 B read per stage")


def test_how_each_problem_is_loaded_and_stored():
    ways = section(reported("sm90_gemm_bf16_tn")[1], "Loads and stores of each problem")
    assert ways["8192x8192x8192"] == "A and B by TMA"
    library = section(reported("sm90_gemm_bf16_library")[1], "Loads and stores of each problem")
    assert library["2049x2057x1000 b2"] == "A and B by TMA; D by threads"
    by_threads = "A and B unaligned: A and B by threads, or by TMA from copies in the workspace; D by threads"
    assert library["17x33x65"] == library["256x136x200 off+1 alpha=-1 beta=2"] == by_threads
    assert library["16x136x200 off+1 alpha=-1 beta=2"] == by_threads.replace("B by threads", "B by the kernel for few rows")


def test_operands_in_registers():
    """A wgmma reads B from shared memory, and its A was loaded from there once; a micro kernel loads all k blocks."""
    it, text = reported("sm90_gemm_bf16_rs")
    assert (it.operand("A").bytes_per_stage, it.operand("B").bytes_per_stage, it.tile[0] // it.atom.m) == (16384, 16384, 2)
    assert section(text, "Traffic per CTA tile")["shared memory"] == "32,768 B written, 49,152 B read per stage: 25.6 flop/B"
    # Two wgmmas side by side use the same registers of A.
    wide = inspect(plan(it.spec.model_copy(update={"tile": (128, 256, 64)})))
    assert section(wide, "Traffic per CTA tile")["shared memory"].startswith("49,152 B written, 81,920 B read per stage")
    # 32 x 64 of A among 128 threads, 32 x 64 of B among 64: 16 and 32 f16 each.
    assert section(reported("micro_sliced_k")[1], "Registers per thread")["fragments"] == "24, A and B of the whole tile"


def test_slices_of_the_epilogue():
    assert section(reported("sm80_gemm_f16_col_d")[1], "Epilogue")["staged"] == "3 slices of 32 columns, padded by 8 elements"
    # 64 rows and 256 columns for each of two warpgroups, 64 x 64 at a time.
    assert section(reported("sm90_gemm_bf16_tn")[1], "Epilogue")["staged"].startswith(
        "4 slices per warpgroup, of 64 rows x 64 columns"
    )


def test_one_instruction_says_where_its_operands_lie():
    it, text = reported("sm90_micro_sparse")
    assert it.operation.opcode in text and "64 x 16" in text and "2048 B of shared memory" in text
    assert "((2,2,8,4),(16,2)):((1024,0,1,16),(64,8))" in text and "mended" not in text
    mended = reported("sm80_micro_s4")[1]
    assert "mended" in mended and "((4,8),8):((64,1),8)" in mended.replace("(8)", "8")


def test_choices_are_the_specs_or_mmagens():
    rows = section(reported("sm80_gemm_classic")[1], "Choices")
    assert "stages 3" in rows["free, in the spec"] and "raster" not in rows["free, in the spec"]
    assert rows["free, by default"] == "ctas_per_sm 1; raster 8; arch sm_80"
    assert rows["fixed by the instruction"].startswith("16 x 8 x 16, 32 threads, f32 = f16 x f16; A in registers")
    assert rows["fixed by the instruction"].endswith("values per thread: 8 of A, 4 of B, 4 of C")
    assert rows["derived"].startswith(
        "threads 128: 4 atoms of 32; the TiledMMA covers 32 x 32 x 16: by the permutation, in multiples of the atoms' "
        "32 x 16 x 16; the CTA tile is 4 x 4 x 2 of it, and so a multiple; each thread has 128 of the tile's sums; all else"
    )
    producer = section(reported("sm90_gemm_bf16_tn")[1], "Choices")["derived"]
    assert producer.startswith(
        "threads 384: 2 atoms of 128, and 128 that load or take turns; the TiledMMA covers 128 x 256 x 16: what"
    )
    sliced = section(reported("sm80_gemm_sliced_k")[1], "Choices")["derived"]
    assert f"each thread has {reported('sm80_gemm_sliced_k')[0].accumulator_registers} of the tile's sums" in sliced
    rows = section(reported("sm90_gemm_tf32")[1], "mid: Choices")
    assert "stages 4" in rows["free, by default"] and "cluster [1, 2]" in rows["free, in the spec"]
    assert "A in shared memory" in rows["fixed by the instruction"]


@pytest.mark.parametrize("name", [path.stem for path in SPECS if "_gemm" in path.stem])
def test_defaults_that_are_written_down_change_nothing(name):
    it, _ = reported(name)
    for one in it.by_config.values():
        absent = [key for key in ("stages", "ctas_per_sm", "raster", "split_k") if getattr(one.spec, key) is None]
        written = {key: int(one.chosen[key]) for key in absent if key in one.chosen}
        again = plan(one.spec.model_copy(update=written))
        scheduler = replace(one.scheduler, launches=(), tile_n=0, widths=())  # the library's, not the spec's of one choice
        # A spec counts the stages of whole tiles.
        stages = one.stages_of(one.tile[1]) if one.scheduler.several_widths else one.stages
        assert (again.stages, again.ctas_per_sm, again.scheduler) == (stages, one.ctas_per_sm, scheduler)


def test_predicted_times_are_those_that_the_library_chooses_by():
    it, text = reported("sm90_gemm_bf16_library")
    launches = json.loads(to_json(it, False, "h200"))["numbers"]
    seen = 0
    for one in launches:
        mine = [p for p in it.problems if choose(it, p).name == one["kernel"]]
        for launched, problem in zip(one["launches"], mine, strict=True):
            times = {other.name: us for us, other in ranked(it, problem)}
            assert launched["predicted_us"] == pytest.approx(times[one["kernel"]]) == pytest.approx(min(times.values()))
            seen += 1
    assert seen == len(it.problems) and "predicted us  least / predicted" in text
    assert "Launches on H200 SXM: 132 SMs" in text and "predicted by the config's cost" in text
    assert {launched["predicted_by"] for one in launches for launched in one["launches"]} == {"cost"}


def test_predicted_times_of_a_kernel_without_a_cost_are_estimates():
    it, text = reported("sm90_gemm_bf16_tn")
    (one,) = json.loads(to_json(it, False, "h200"))["numbers"]
    assert "predicted from datasheets and what was measured" in text
    assert [launched["predicted_us"] for launched in one["launches"]] == predicted(it, DEVICES[-1], it.problems)
    assert {launched["predicted_by"] for launched in one["launches"]} == {"estimate"}


def test_words_say_what_the_numbers_are_of():
    weights, kernel = reported("sm90_gemm_s4_bf16")[1], "coop_64x64x128_swap_split2_g2"
    assert section(weights, f"{kernel}: Operand A (M,K)")["type"].startswith("s4, two in a byte")
    assert section(weights, f"{kernel}: Schedule")["operands"].startswith("swapped")
    assert section(weights, f"{kernel}: TiledMMA")["permutation"] == "none"
    assert section(reported("sm90_gemm_u4_f16")[1], "Operand A (M,K)")["type"].startswith("u4, two in a byte")
    assert section(reported("sm90_gemm_s8_bf16")[1], "general: Operand A (M,K)")["type"].startswith("s8, ")
    sparse = reported("sm90_gemm_sparse_bf16")[1]
    for config, extents in (("few_rows", "64 x 64"), ("large", "128 x 32")):
        assert section(sparse, f"{config}: Sparse A")["values"].startswith(extents)
        assert "metadata" in section(sparse, f"{config}: Registers per thread")["fragments"]
    assert "few_rows: Sparse A" in reported("sm80_gemm_sparse_f16")[1]
    assert "1 atom of 128" in sparse and "1 atoms of" not in sparse


def test_no_prediction_is_below_the_least_time():
    for path in SPECS:
        if "_gemm" not in path.stem:
            continue
        for one in json.loads(to_json(reported(path.stem)[0], False, None))["numbers"]:
            for launched in one["launches"]:
                if launched["predicted_by"] == "cost":  # of the device that it was fitted on
                    continue
                assert launched["predicted_us"] > 0.9 * launched["least_us"], (path.stem, one["kernel"], launched["problem"])


def test_times_of_another_device_are_not_compared_with_this_one():
    it, text = reported("sm80_gemm_bf16_library")
    assert "fitted on, another one" in text and "Launches on A100" in text
    on_h200 = inspect(it, "h200")
    assert "fitted on, another one" not in on_h200 and re.search(r"  4096x4096x4096 .* \d\d%", on_h200)
