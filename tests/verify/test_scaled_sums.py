"""Scaled sums: the reference against a plain loop, and what its bound notices, with the emulator's arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.families import plan as planned
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.verify.emulated.compare import compare
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import values
from tools.error_bounds import as_format, instruction, judged, multiply

BLOCK = 128
WORDS_A, WORDS_B = ("tensor", "row", "1x128", "128x128"), ("tensor", "column", "1x128", "128x128")


def _unscaled(_first: int) -> np.ndarray:
    """The factor of sums that are added as they are."""
    return np.ones(())


def _plan(a: str, b: str, more: str = ""):
    body = "mmagen: 1, name: s, kernel: gemm, atom: SM90_64x64x32_F32E4M3E4M3_SS_TN, tile: [64, 64, 128], schedule: cooperative"
    return planned(load(f"{{{body}, scale: {{a: {a}, b: {b}}}, epilogue: {{out: f32}}{more}}}", "s.yaml").spec)


def _scale(data, name: str, word: str, extent: int, k: int) -> np.ndarray:
    """(extent, k): the scale of every element, one by one."""
    stored = values(data.further[name])[0]
    at = {
        "tensor": lambda line, i: stored[0, 0],
        "row": lambda line, i: stored[0, line],
        "column": lambda line, i: stored[0, line],
        "1x128": lambda line, i: stored[line, i // BLOCK],
        "128x128": lambda line, i: stored[line // BLOCK, i // BLOCK],
    }[word]
    return np.array([[at(line, i) for i in range(k)] for line in range(extent)])


@pytest.mark.parametrize("a", WORDS_A)
@pytest.mark.parametrize("b", WORDS_B)
@pytest.mark.parametrize("distribution", ["uniform", "small_int"])
def test_the_reference_is_a_sum_of_scaled_products(a, b, distribution):
    plan, problem = _plan(a, b), Problem(shape=(7, 131, 300), alpha=-1.0)
    data = operands(plan, problem, distribution, 3)
    left = values(data.a)[0] * _scale(data, "scale_a", a, 7, 300)
    right = values(data.b)[0] * _scale(data, "scale_b", b, 131, 300)
    expected = -np.einsum("mk,nk->mn", left, right)
    data.d.view[0] = expected.astype(np.float32)
    found = compare(plan, problem, data, np.ones(data.d.memory.shape, bool), distribution)
    assert not found.reason and found.max_abs_err <= 1e-5


@pytest.mark.parametrize("distribution", ["uniform", "small_int"])
def test_scales_have_both_signs_and_those_of_a_line_one(distribution):
    for a, b in (("row", "column"), ("1x128", "1x128"), ("128x128", "128x128")):
        data = operands(_plan(a, b), Problem(shape=(1300, 1300, 300)), distribution, 3)
        for name, word, extent in (("scale_a", a, 1300), ("scale_b", b, 1300)):
            signs = np.sign(_scale(data, name, word, extent, 300))
            assert (signs == signs[:, :1]).all() and {-1.0, 1.0} == set(signs[:, 0])


K = 1024
M, N = 64, 256  # two blocks of columns


def _blocks(plan, data) -> list[np.ndarray]:
    """What the tensor core makes of each block of K, (M, N)."""
    step, a, b = instruction(plan), values(data.a)[0], values(data.b)[0]
    parts = [slice(first, first + BLOCK) for first in range(0, K, BLOCK)]
    return [
        np.hstack([multiply(step, 32, a[:, part], b[n : n + 64, part], 0, _unscaled) for n in range(0, N, 64)])
        for part in parts
    ]


def _sums(blocks, scale_a: np.ndarray, scale_b: np.ndarray, left_out: int = -1) -> np.ndarray:
    """As the kernel makes them, with the scales of each line and block of K, (M, blocks) and (N, blocks)."""
    total = np.zeros((M, N))
    for i, sums in enumerate(blocks):
        factor = as_format(scale_a[:, i, None] * scale_b[None, :, i], "f32")
        total = total if i == left_out else as_format(total + factor * sums, "f32")
    return total


@pytest.fixture(scope="module", params=["uniform", "small_int"])
def case(request):
    """judge(sums), what the tensor core makes, and the scales of A's and B's lines."""
    plan, problem = _plan("1x128", "128x128"), Problem(shape=(M, N, K))
    data = operands(plan, problem, request.param, 1)
    scale_a = values(data.further["scale_a"])[0]
    scale_b = np.repeat(values(data.further["scale_b"])[0], BLOCK, axis=0)
    return lambda sums: judged(plan, problem, data, sums, request.param), _blocks(plan, data), scale_a, scale_b


def test_a_right_kernel_is_within_the_bound(case):
    judge, blocks, scale_a, scale_b = case
    found = judge(_sums(blocks, scale_a, scale_b))
    assert not found.incorrect, found.reason


WRONG = {
    "sums of zero": lambda a, b: (0 * a, b),
    "the neighbouring row's scales": lambda a, b: (np.roll(a, 1, axis=0), b),
    "the neighbouring block's scales of B": lambda a, b: (a, np.roll(b, BLOCK, axis=0)),
    "scales of A of the k block before": lambda a, b: (np.roll(a, 1, axis=1), b),
    "scales of B of the next k block": lambda a, b: (a, np.roll(b, -1, axis=1)),
    "scales of A in place of B's": lambda a, b: (a, np.tile(a, (N // M, 1))),
    "no scales of A": lambda a, b: (np.ones_like(a), b),
    "the last k block has the scale of the one before": lambda a, b: (np.hstack([a[:, :-1], a[:, -2:-1]]), b),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_scales_exceed_the_bound(case, wrong):
    judge, blocks, scale_a, scale_b = case
    found = judge(_sums(blocks, *WRONG[wrong](scale_a, scale_b)))
    assert found.incorrect > M * N // 20, found


def test_a_missing_k_block_exceeds_the_bound(case):
    judge, blocks, scale_a, scale_b = case
    found = judge(_sums(blocks, scale_a, scale_b, left_out=5))
    assert found.incorrect > M * N // 20, found


def test_sums_that_stay_in_the_tensor_core_exceed_the_bound():
    """Scales of A and B that do not change along K could be applied to one sum of all of K, which keeps few bits."""
    plan, problem = _plan("1x128", "1x128"), Problem(shape=(64, 64, 2048))
    data = operands(plan, problem, "uniform", 1)
    for name in ("scale_a", "scale_b"):
        data.further[name].view[...] = data.further[name].view[..., :1]
    factor = values(data.further["scale_a"])[0][:, :1] * values(data.further["scale_b"])[0][:, :1].T
    a, b = values(data.a)[0], values(data.b)[0]
    fast, precise = (factor * multiply(instruction(plan), 32, a, b, promoted, _unscaled) for promoted in (0, BLOCK))
    assert not judged(plan, problem, data, precise, "uniform").incorrect
    assert judged(plan, problem, data, fast, "uniform").incorrect > 64 * 64 // 50
