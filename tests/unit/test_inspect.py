"""inspect: every derived number of every spec is told, in words that fit the number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mmagen.inspect import inspect
from mmagen.load import load
from mmagen.plan import plan

# A peak has no tile, and so none of these numbers.
SPECS = [path for path in sorted((Path(__file__).resolve().parents[2] / "specs").glob("*.yaml"))
         if "kernel: peak" not in path.read_text()]


def told(name: str) -> tuple:
    path = SPECS[0].with_name(f"{name}.yaml")
    it = plan(load(path.read_bytes(), path.name).spec)
    return it, inspect(it)


@pytest.mark.parametrize("name", [path.stem for path in SPECS])
def test_the_derived_numbers_are_there(name):
    it, text = told(name)
    numbers = [" x ".join(map(str, it.tiled_mma.extent)), f"{it.tiled_mma.threads} thread", it.atom.name, str(it.tiled_mma.atoms_layout)]
    if it.hopper:
        assert [number for number in numbers + _wgmma_numbers(it) if number not in text] == []
        return
    if it.kernel != "ownership":
        numbers += [f"{it.smem_bytes:,} B of {it.smem_limit:,}", f"accumulators  {it.accumulator_registers}"]
        for operand in (it.a, it.b):
            numbers += [operand.smem_copy.removeprefix("cute::"), f"lines of {operand.line} elements"]
            numbers += [f"{operand.fill_narrow.threads} of {it.threads} threads"]
    if it.kernel == "gemm":
        numbers += [f"stages          {it.stages}", f"{it.epilogue.smem_bytes:,} B, in the same bytes"]
        numbers += [problem.text for problem in it.problems]
    assert [number for number in numbers if number not in text] == []


def _wgmma_numbers(it) -> list[str]:
    """What only wgmma kernels have; their threads are not all in the TiledMMA."""
    hopper = it.hopper
    numbers = [f"schedule        {hopper.schedule}", f"{hopper.consumers} {it.text.roles}", f"{it.smem_bytes:,} B of {it.smem_limit:,}",
               f"accumulators  {it.accumulator_registers}", f"stages           {it.stages}",
               f"{it.ctas_per_sm} x {it.threads} threads", f"{it.epilogue.smem_bytes:,} B", f"16 rows x {it.epilogue.slice} columns",
               *(problem.text for problem in it.problems)]
    if hopper.consumer_registers:
        numbers.append(f"{hopper.producer_registers} for those that load, {hopper.consumer_registers} for those that multiply")
    for operand in (it.a, it.b):
        numbers += [f"{operand.line} x {operand.tma.box_across} a stage", operand.smem_copy.removeprefix("cute::")]
    return numbers


@pytest.mark.parametrize("name", [path.stem for path in SPECS])
def test_the_words_fit_the_numbers(name):
    _, text = told(name)
    assert not re.search(r"(?<![\d,.x] )\b1 (threads|owners|values|vectors|elements|passes|CTAs|slices|rows|columns)\b", text), text
    assert not re.search(r"\b([2-9]|\d\d+) (thread|owner|value|vector|element|pass|CTA|slice|row|column)\b(?! contiguous)", text), text


def test_the_classic_tile_in_full():
    _, text = told("sm80_gemm_classic")
    for line in ("accumulators  128", "fragments     64, two k blocks of A and B", "4 slices of 32 rows, padded by 8 elements",
                 "one stage       16,384 B: A 8,192 + B 8,192", "49,152 B of 166,912; an SM has room for 3 CTAs",
                 "1,048,576 flop: 64 flop/B", "16,384 B written, 32,768 B read a stage: 21.33 flop/B",
                 "16 passes a warp and k block, no bank conflicts"):
        assert line in text


def test_owners_of_sliced_k():
    _, text = told("ownership_sliced_k")
    assert "A 32 x 32  8 values a thread, 1 owner an element" in text
    assert "C 32 x 32  16 values a thread, 2 owners an element" in text


def test_conflicts_are_told_by_their_ways():
    _, text = told("sm70_gemm_f16")
    assert "4-way bank conflicts" in text


def test_a_micro_kernel_loads_the_whole_tile():
    _, text = told("micro_sliced_k")
    assert "A and B of the whole tile" in text and "fill, wide" not in text


def test_the_large_wgmma_tile_in_full():
    _, text = told("sm90_gemm_bf16_tn")
    for line in ("SM90_64x256x16_F32BF16BF16_SS, 64 x 256 x 16, 128 threads, sm_90a alone", "2 for one tile, and 1 that loads",
                 "2 x 1 CTAs share operands by multicast", "128 of 232 at 1 x 384 threads an SM; about 30 come on top",
                 "TMA, 1 box of 64 x 128 a stage, each for 2 CTAs", "49,152 B: A 16,384 + B 32,768", "2 buffers",
                 "32,768 B a stage for 4,194,304 flop: 128 flop/B", "49,152 B written, 81,920 B read a stage: 32 flop/B"):
        assert line in text, line
