"""The mirror of a wgmma kernel's host code: tensor maps, the persistent grid, and the way round TMA."""

from __future__ import annotations

import struct

import pytest

from mmagen.emulate.memory.tensor_map import decode
from mmagen.families import plan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated import hopper_arguments
from mmagen.verify.emulated.launches import fast_divmod
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.problems import small_problems

ADDRESSES = {"a": 1 << 20, "b": 2 << 20, "c": 3 << 20, "d": 4 << 20}


def planned(**changes):
    spec = {
        "mmagen": 1,
        "name": "it",
        "kernel": "gemm",
        "atom": "SM90_64x128x16_F32BF16BF16_SS",
        "layout": "TN",
        "tile": "[128, 128, 64]",
        "atoms_layout": "[2, 1, 1]",
        "schedule": "cooperative",
        "cluster": "[2, 1]",
        "epilogue": "{out: bf16}",
    } | changes
    text = "".join(f"{key}: {value}\n" for key, value in spec.items())
    return plan(load(text, "it.yaml").spec)


def launch(problem, **changes):
    it = planned(**changes)
    return hopper_arguments.gemm(it, problem, operands(it, problem, "zeros", 1), ADDRESSES)


def test_tensor_maps_come_first_and_describe_the_matrices():
    chosen = launch(Problem(shape=(300, 200, 136), batch=3, ld_pad=8))
    a, b, d = (decode(chosen.params[n * 128 : (n + 1) * 128]) for n in (0, 1, 3))
    assert (a.address, a.extents, a.strides) == (ADDRESSES["a"], (136, 300, 3), (288, 300 * 288))
    assert (a.box, a.swizzle, a.element) == ((64, 128, 1), 128, 2)
    assert b.extents == (136, 200, 3) and b.box == (64, 64, 1)  # two CTAs share B
    assert d.extents == (200, 300, 3) and d.box == (64, 16, 1) and d.address == ADDRESSES["d"]
    # The mainloop's after two maps: bytes of a stage and steps of the batch; the epilogue's after its own: M and N.
    assert struct.unpack_from("<3i", chosen.params, 256) == ((128 + 128) * 64 * 2, 1, 1)
    assert struct.unpack_from("<2i", chosen.params, 512) == (300, 200)
    # The scheduler's: the raster, tiles of the cluster, k tiles.
    assert struct.unpack_from("<2I", chosen.params, 640 + 56) == (2 * 2 * 3, 3)
    assert len(chosen.params) % 128 == 0


def test_few_rows_are_read_as_few():
    chosen = launch(Problem(shape=(19, 200, 136)))
    assert decode(chosen.params[:128]).box == (64, 24, 1)


@pytest.mark.parametrize(("shape", "batch", "grid"), [((128, 128, 64), 1, 2), ((256, 256, 64), 1, 2), ((256, 256, 64), 4, 4)])
def test_few_clusters_walk_over_many_tiles(shape, batch, grid):
    chosen = launch(Problem(shape=shape, batch=batch))
    assert chosen.grid == grid and chosen.cluster == 2 and chosen.threads == 384 and not chosen.unaligned


def test_without_persistence_each_tile_has_its_cluster():
    split = {"split_k": "2", "cluster": "[1, 1]"}
    assert launch(Problem(shape=(256, 256, 64)), **split).grid == 8
    assert launch(Problem(shape=(256, 256, 64)), schedule="warpgroup", cluster="[1, 1]").grid == 4


@pytest.mark.parametrize(
    "problem",
    [
        Problem(shape=(16, 16, 33)),
        Problem(shape=(16, 16, 32), offset=1),
        Problem(shape=(16, 19, 32)),
        Problem(shape=(16, 16, 32), ld_pad=4),
    ],
)
def test_what_tma_cannot_address_goes_another_way(problem):
    chosen = launch(problem)
    assert chosen.unaligned and chosen.threads == 256 and chosen.grid == 1 and chosen.cluster == 1
    assert struct.unpack_from("<4q", chosen.params) == (*problem.shape, 1)
    # Arguments, alpha and beta again, and of the raster: the divisor of a batch, tiles of M in a band and at all.
    raster = struct.unpack_from("<14I", chosen.params, 8 * 16 + 16)
    assert raster[0] == 1 and raster[12:] == (1, 1)


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7, 12, 100, 4096, 65535, 1 << 20, (1 << 30) + 1])
def test_the_divisor_divides(divisor):
    it = fast_divmod(divisor)
    for dividend in (0, 1, divisor - 1, divisor, divisor + 1, 12345678, (1 << 31) - 1):
        if dividend < 1 << 31:
            quotient = dividend if it.divisor == 1 else (dividend * it.multiplier >> 32) >> (it.shift - 1)
            assert quotient == dividend // divisor


def test_small_problems_reach_every_way():
    it = planned()
    ways = [hopper_arguments.gemm(it, p, operands(it, p, "zeros", 1), ADDRESSES) for p in small_problems(it)]
    assert {way.unaligned for way in ways} == {True, False}
    assert any(p.m < it.tile[0] and not way.unaligned for p, way in zip(small_problems(it), ways, strict=True))


def streamed(shape, spaces=("flags", "partials"), **changes):
    """(shared_tiles, k_tiles_each, extra, partials, ready) of StreamKTileScheduler::Params, and the grid."""
    it = planned(stream_k="last_wave", cluster="[1, 1]", **changes)
    problem = Problem(shape=shape)
    addresses = ADDRESSES | {name: (5 + n) << 20 for n, name in enumerate(spaces)}
    chosen = hopper_arguments.gemm(it, problem, operands(it, problem, "zeros", 1), addresses)
    # After the mainloop's and the epilogue's parameters, the raster, tiles and k tiles.
    fields = struct.unpack_from("<6I2Q", chosen.params, 384 + 256 + 64)
    return fields[:3] + fields[6:], chosen.grid


def test_clusters_share_the_tiles_of_a_last_wave():
    # Three clusters: of four tiles of six k tiles all, of a single one with 24 each a third.
    assert streamed((128, 512, 384)) == ((4, 8, 0, 6 << 20, 5 << 20), 3)
    assert streamed((128, 128, 1536 + 64)) == ((1, 8, 1, 6 << 20, 5 << 20), 3)


@pytest.mark.parametrize(("shape", "grid"), [((128, 384, 384), 3), ((128, 256, 2048), 2), ((128, 128, 64), 1)])
def test_whole_waves_full_waves_and_short_tiles_are_not_shared(shape, grid):
    assert streamed(shape) == ((0, 0, 0, 0, 0), grid)


def test_without_a_workspace_nothing_is_shared():
    assert streamed((128, 512, 384), spaces=()) == ((0, 0, 0, 0, 0), 3)
    assert hopper_arguments.workspace(planned()) == (0, 0)
    assert hopper_arguments.workspace(planned(stream_k="last_wave")) == (1024, 6 * 128 * 128 * 4)
