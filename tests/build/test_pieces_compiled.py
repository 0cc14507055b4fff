"""f32 operands as bf16 pieces, compiled by nvcc and emulated: how every kind of number is split, as docs/split.md says, and what a
kernel makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mmagen.core.process import capture
from mmagen.emulate import Output, ReadOnly, run_ptx
from mmagen.mma.pieces import PRODUCTS
from mmagen.spec.model import Problem
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.judges import product
from mmagen.verify.emulated.session import run_task, tasks

pytestmark = pytest.mark.nvcc

_HEADERS = Path(__file__).resolve().parents[2] / "templates" / "runtime"
_THREADS = 256
_UNIT = """\
#include "mmagen/f32_pieces.cuh"
template <int kPieces>
__device__ void split(float const* x, unsigned* pieces) {
  int const i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned words[kPieces];
  mmagen::detail::split_pair(x[2 * i], x[2 * i + 1], words);
  for (int piece = 0; piece < kPieces; ++piece) { pieces[i * kPieces + piece] = words[piece]; }
}
extern "C" __global__ void two(float const* x, unsigned* pieces) { split<2>(x, pieces); }
extern "C" __global__ void three(float const* x, unsigned* pieces) { split<3>(x, pieces); }
"""
LARGEST = np.finfo(np.float32).max
X6 = "pc1_x6"
_ONE_INFINITY = ((np.inf, 1.0), (1.0, -np.inf))
# Several tiles, k tiles and vectors that are not whole, lines that begin anywhere.
PROBLEM = Problem(shape=(140, 70, 77), batch=2, ld_pad=3, offset=1, beta=1.0)


def _numbers():
    """Every 2^15th float of both signs, random ones, and infinities, NaNs and zeros beside numbers in either half of a pair."""
    bits = np.arange(0x00000001, 0x7F800000, 1 << 15, dtype=np.uint32).view(np.float32)
    drawn = np.random.default_rng(3).uniform(-1, 1, 4096).astype(np.float32)
    rare = np.array(
        [np.inf, 1.5, 2.5, -np.inf, np.nan, 0.1, -0.0, LARGEST, -LARGEST, 3.3953e38, np.inf, np.nan, -1, 0], np.float32
    )
    found = np.concatenate((bits, -bits, drawn, rare))
    return np.resize(found, -(-found.size // (2 * _THREADS)) * 2 * _THREADS)


@pytest.fixture(scope="module")
def ptx(tmp_path_factory):
    toolchain = find_toolchain(want=COMPILE)
    source = tmp_path_factory.mktemp("pieces") / "split.cu"
    source.write_text(_UNIT)
    made = source.with_suffix(".ptx")
    folders = [f"-I{_HEADERS}", f"-I{toolchain.cutlass.path}"]
    command = [toolchain.nvcc.path, "-ptx", "-O3", "-std=c++17", "--expt-relaxed-constexpr", "-arch=sm_90a"]
    done = capture([*command, *folders, source, "-o", made], timeout_s=300)
    assert done.exit_code == 0, done.stderr
    return made.read_text()


@pytest.fixture(scope="module", params=[2, 3])
def split(request, ptx):
    """x, and its pieces as float64, (numbers, pieces)."""
    x, count = _numbers(), request.param
    words = Output((x.size // 2, count), np.uint32)
    entry = {2: "two", 3: "three"}[count]
    launched = run_ptx(ptx, entry, [ReadOnly(x), words], grid=x.size // 2 // _THREADS, block=_THREADS, checks=False)
    halves = launched.arrays[1].view(np.uint16).reshape(x.size // 2, count, 2).swapaxes(1, 2).reshape(x.size, count)
    return x, (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def test_pieces_are_what_is_left_to_the_nearest(split):
    x, pieces = split
    finite = np.isfinite(x)
    x, pieces = x[finite].astype(np.float64), pieces[finite]
    rest = np.abs(x - pieces.sum(axis=1))
    count = pieces.shape[1]
    left = np.abs(x) * 2.0**-16 * (1 + 2.0**-8) if count == 2 else 0.0
    # The largest numbers are split toward zero at first, so that no piece is infinite: one bit less is left to the second.
    left = np.where(np.abs(x) > 3.389e38, 2 * left, left)
    assert np.all(np.isfinite(pieces)) and np.all(rest <= left + 2.0**-134)
    assert np.all(rest[np.abs(x) > 2.0**-109] == 0) or count == 2
    assert np.max(rest[np.abs(x) > 1e-30] / np.abs(x[np.abs(x) > 1e-30])) > (2.0**-18 if count == 2 else -1)
    usual = np.abs(x) < 3.389e38
    assert np.all(np.abs(pieces[usual, 1]) <= 2.0**-8 * np.abs(x[usual]) + 2.0**-134)


def test_what_is_not_finite_lies_in_the_last_piece(split):
    x, pieces = split
    rare = ~np.isfinite(x)
    first, last = pieces[rare, 0], pieces[rare, -1]
    assert np.array_equal(first, np.where(np.signbit(x[rare]), -1.0, 1.0))
    assert np.array_equal(last, x[rare].astype(np.float64), equal_nan=True)
    assert not pieces[rare, 1:-1].any() and rare.sum() == 5


@pytest.mark.parametrize("other", [2.5, -1.0, 0.1, np.inf, -np.inf, 0.0, np.nan])
def test_products_of_infinities_are_those_of_ieee(split, other):
    """The sum of the products that a kernel computes, of infinities and NaNs and any other number."""
    x, pieces = split
    rare = ~np.isfinite(x)
    of_other = pieces[np.flatnonzero(np.isnan(x) if np.isnan(other) else x == np.float32(other))[0]]
    word = {2: "bf16x3", 3: "bf16x6"}[pieces.shape[1]]
    with np.errstate(invalid="ignore"):
        got = sum(pieces[rare, a] * of_other[b] for a, b in PRODUCTS[word])
        assert np.array_equal(got, x[rare].astype(np.float64) * other, equal_nan=True)


@pytest.fixture(scope="module")
def task(compiled):
    return tasks(compiled(X6).plan, compiled(X6).ptx, (), 1, None)[0]


@pytest.mark.parametrize("distribution", ["uniform", "small_int"])
def test_it_passes_emulated(task, distribution):
    (record,) = run_task(replace(task, problem=PROBLEM, distribution=distribution)).records
    assert record["disposition"] == "passed" and not record["details"]["findings"], record["reason"]


@pytest.mark.parametrize(
    ("in_a", "in_b"), [(-np.inf, np.inf), *(pytest.param(*one, marks=pytest.mark.more) for one in _ONE_INFINITY)]
)
def test_infinities_of_operands_are_those_of_the_result(task, in_a, in_b, monkeypatch):
    """One element of a row of A and of a column of B; all others are integers, whose further pieces are zeros."""

    drawn = product.operands

    def planted(*arguments):
        data = drawn(*arguments)
        data.a.view[1, 3, 5], data.b.view[1, 7, 5] = in_a, in_b
        return data

    monkeypatch.setattr(product, "operands", planted)
    (record,) = run_task(replace(task, problem=PROBLEM, distribution="small_int")).records
    assert record["disposition"] == "passed" and not record["details"]["findings"], record["reason"]


@pytest.mark.more
def test_each_kernel_of_a_library_splits_by_its_own_k_tiles(compiled):
    of = compiled("pc3_library")
    work = tasks(of.plan, of.ptx, (), 1, None)
    assert {task.config for task in work} == {"rows", "rest"}
    results = [run_task(task).records[0] for task in work]
    assert [one["disposition"] for one in results] == ["passed"] * len(results), results
