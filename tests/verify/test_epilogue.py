"""What the CPU's judge expects of epilogues of operations, and which wrong results it tells from right ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mmagen.families import plan
from mmagen.spec.load import load
from mmagen.verify.emulated.compare import compare
from mmagen.verify.emulated.epilogue import gelu, sigmoid
from mmagen.verify.emulated.formats import decode, encode
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import values
from mmagen.verify.emulated.verify import parse_problem

SPEC = """\
mmagen: 1
name: it
kernel: gemm
atom: {atom}
tile: [64, 64, 32]
atoms_layout: [2, 2, 1]
epilogue: [{operations}, {{cast: {out}}}]
"""


F16, S8 = "SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x32_S32S8S8S32_TN"


def planned(operations: str, out: str = "f32", atom: str = F16):
    return plan(load(SPEC.format(operations=operations, out=out, atom=atom), "it.yaml").spec)


def judged(
    operations: str, make, distribution: str, problem: str = "40,48,64,2:alpha=-1:beta=2", out: str = "f32", atom: str = F16
):
    """The comparison of a D that `make(sums, c, further)` computes in float64, rounded to D's type."""
    of, asked = planned(operations, out, atom), parse_problem(problem)
    data = operands(of, asked, distribution, 1)
    sums = values(data.a) @ values(data.b).swapaxes(1, 2)
    further = {name: values(matrix) for name, matrix in data.further.items()}
    c = values(data.c) if data.c else np.zeros((1, 1, 1))
    data.d.view[...] = encode(make(sums, c, further), out)
    return compare(of, asked, data, np.ones((1, 1), bool), distribution)


FULL = "alpha, {bias: row}, beta_c, {add: residual}, {bias: column, name: shift}"
RIGHT = {
    FULL: lambda s, c, f: -s + f["bias"].swapaxes(1, 2) + 2 * c + f["residual"] + f["shift"],
    "alpha, beta_c, {multiply: gate}, relu": lambda s, c, f: np.maximum((2 * c - s) * f["gate"], 0),
    "alpha, beta_c, silu": lambda s, c, f: (2 * c - s) * sigmoid(2 * c - s),
    "alpha, beta_c, sigmoid": lambda s, c, f: sigmoid(2 * c - s),
    "alpha, beta_c, gelu": lambda s, c, f: gelu(2 * c - s, "erf"),
    "alpha, beta_c, {gelu: tanh}": lambda s, c, f: gelu(2 * c - s, "tanh"),
    "alpha, beta_c, {clamp: [-0.5, 3]}": lambda s, c, f: np.clip(2 * c - s, -0.5, 3),
    "beta_c, alpha": lambda s, c, f: -(s + 2 * c),
}
# Of pairs of columns, without C.
BIASED = "alpha, {bias: column}"
GATED = {
    f"{BIASED}, {{gated: silu}}": lambda x: x[..., ::2] * sigmoid(x[..., ::2]) * x[..., 1::2],
    f"{BIASED}, {{gated: gelu}}": lambda x: gelu(x[..., ::2], "erf") * x[..., 1::2],
    f"{BIASED}, {{gated: relu}}, {{clamp: [-1, 1]}}": lambda x: np.clip(np.maximum(x[..., ::2], 0) * x[..., 1::2], -1, 1),
}
GATED_PROBLEM = "40,48,64,2:alpha=-1"


@pytest.mark.parametrize("distribution", ["small_int", "uniform"])
@pytest.mark.parametrize("operations", RIGHT)
@pytest.mark.parametrize("out", ["f32", "bf16"])
def test_the_exact_result_is_right(operations, distribution, out):
    found = judged(operations, RIGHT[operations], distribution, out=out)
    assert found.reason == "" and found.incorrect == 0


@pytest.mark.parametrize("is_fused", [True, False])
def test_a_product_that_is_added_may_be_rounded_first(is_fused):
    """Beside exact sums: 3 - 3 * 0.66666669 is 1 - 2^-24, and 1 if the product is rounded."""
    beta = np.float32(-2 / 3)

    def make(sums, c, _):
        if is_fused:
            return sums + float(beta) * c
        return (sums.astype(np.float32) + beta * c.astype(np.float32)).astype(np.float64)

    problem = f"200,240,32:beta={beta:.9g}"
    found = judged("relu, beta_c", lambda sums, *more: make(np.maximum(sums, 0), *more), "small_int", problem, atom=S8)
    assert found.reason == "" and found.incorrect == 0


@pytest.mark.parametrize("distribution", ["small_int", "uniform"])
@pytest.mark.parametrize("operations", GATED)
def test_the_exact_result_of_pairs_is_right(operations, distribution):
    found = judged(operations, lambda s, c, f: GATED[operations](f["bias"] - s), distribution, GATED_PROBLEM)
    assert found.reason == "" and found.incorrect == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: GATED[f"{BIASED}, {{gated: silu}}"](np.roll(x, 1, -1)),  # the odd column gates
        lambda x: GATED[f"{BIASED}, {{gated: silu}}"](np.concatenate([x[..., :1], x[..., :-1]], -1)),
        lambda x: GATED[f"{BIASED}, {{gated: gelu}}"](x),
        lambda x: x[..., ::2] * x[..., 1::2],
        lambda x: x[..., ::2] * sigmoid(x[..., ::2]) * np.roll(x[..., 1::2], 1, -1),
        lambda x: x[..., :24] * sigmoid(x[..., :24]) * x[..., 24:],  # halves, not neighbours
    ],
)
def test_wrong_pairs_are_seen(wrong):
    found = judged(f"{BIASED}, {{gated: silu}}", lambda s, c, f: wrong(f["bias"] - s), "uniform", GATED_PROBLEM)
    assert found.incorrect > 0


# (operations, what a wrong kernel computes)
WRONG = {
    "a sum of zero": (FULL, lambda s, c, f: RIGHT[FULL](0 * s, c, f)),
    "no alpha": (FULL, lambda s, c, f: RIGHT[FULL](-s, c, f)),
    "a bias of the next row": (FULL, lambda s, c, f: RIGHT[FULL](s, c, f | {"bias": np.roll(f["bias"], 1, 2)})),
    "a bias of the other batch": (FULL, lambda s, c, f: RIGHT[FULL](s, c, f | {"bias": f["bias"][::-1]})),
    "a bias by column for row": (
        FULL,
        lambda s, c, f: -s + f["bias"][:, :, :1] + 2 * c + f["residual"] + f["shift"],
    ),
    "no bias": (FULL, lambda s, c, f: RIGHT[FULL](s, c, f | {"shift": 0 * f["shift"]})),
    "another row of the second matrix": (
        FULL,
        lambda s, c, f: RIGHT[FULL](s, c, f | {"residual": np.roll(f["residual"], 1, 1)}),
    ),
    "C without beta": (FULL, lambda s, c, f: RIGHT[FULL](s, c / 2, f)),
    "no activation": ("alpha, beta_c, silu", lambda s, c, f: 2 * c - s),
    "gelu for silu": ("alpha, beta_c, silu", lambda s, c, f: gelu(2 * c - s, "erf")),
    "relu for gelu": ("alpha, beta_c, gelu", lambda s, c, f: np.maximum(2 * c - s, 0)),
    "the other gelu": ("alpha, beta_c, gelu", RIGHT["alpha, beta_c, {gelu: tanh}"]),
    "sigmoid of a zero": ("alpha, beta_c, sigmoid", lambda s, c, f: sigmoid(2 * c)),
    "another bound": ("alpha, beta_c, {clamp: [-0.5, 3]}", lambda s, c, f: np.clip(2 * c - s, -0.625, 3)),
    "an activation before C": ("alpha, beta_c, sigmoid", lambda s, c, f: sigmoid(-s) + 2 * c),
    "scaled before C is added": ("beta_c, alpha", lambda s, c, f: 2 * c - s),
}


@pytest.mark.parametrize("out", ["f32", "bf16"])
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_result_is_seen(fault, out):
    operations, make = WRONG[fault]
    found = judged(operations, make, "uniform", out=out)
    assert found.incorrect > 0 and "elements wrong" in found.reason


def amax_of(make_amax, before: float = 0.25, distribution: str = "uniform"):
    """The comparison of a right D of relu(-sums) with the amax that `make_amax(relu(-sums))` says."""
    of, asked = planned("alpha, relu, amax", "e4m3"), parse_problem("40,48,64,2:alpha=-1")
    data = operands(of, asked, distribution, 1)
    data.further["amax"].view[...] = before
    exact = np.maximum(-(values(data.a) @ values(data.b).swapaxes(1, 2)), 0)
    data.d.view[...] = encode(exact, "e4m3")
    raised = np.full((1, 1, 1), max(before, make_amax(exact)), np.float32)
    data.results["amax"] = raised, np.ones((1, 4), bool)
    return compare(of, asked, data, np.ones((1, 1), bool), distribution)


@pytest.mark.parametrize("distribution", ["small_int", "uniform"])
@pytest.mark.parametrize("before", [0.0, 1e4])
def test_the_largest_magnitude_is_right(distribution, before):
    assert amax_of(np.max, before, distribution).reason == ""


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: 0.0,
        lambda x: x[0].max() if x[0].max() < x.max() else x[1].max(),  # of one matrix of the batch
        lambda x: np.sort(x.ravel())[-2] * 0.99,
        lambda x: decode(encode(x, "e4m3")).max() * 1.05,
        lambda x: np.nan,
    ],
)
def test_a_wrong_largest_magnitude_is_seen(wrong):
    found = amax_of(wrong)
    assert "amax: 1 of 1 elements wrong" in found.reason and found.incorrect == 1


LINES = {
    "row_sums": lambda x: x.sum(axis=2),
    "column_sums": lambda x: x.sum(axis=1),
}


def sums_of(word: str, make, before: float = 0.0, distribution: str = "uniform"):
    """The comparison of a right D of relu(-sums) with the sums of lines that `make(relu(-sums))`, (batch, lines), says."""
    of, asked = planned(f"alpha, relu, {word}"), parse_problem("40,48,64,2:alpha=-1")
    data = operands(of, asked, distribution, 1)
    data.further[word].view[...] = before
    exact = np.maximum(-(values(data.a) @ values(data.b).swapaxes(1, 2)), 0)
    data.d.view[...] = encode(exact, "f32")
    found = np.broadcast_to((before + make(exact))[:, None, :], data.further[word].view.shape).astype(np.float32)
    data.results[word] = found, np.ones((2, found.shape[-1] * 4), bool)
    return compare(of, asked, data, np.ones((1, 1), bool), distribution)


@pytest.mark.parametrize("distribution", ["small_int", "uniform"])
@pytest.mark.parametrize("before", [0.0, 0.25, 1e3])
@pytest.mark.parametrize("word", LINES)
def test_sums_of_lines_are_right_whatever_they_began_with(word, before, distribution):
    assert sums_of(word, LINES[word], before, distribution).reason == ""


@pytest.mark.parametrize("distribution", ["small_int", "uniform"])
@pytest.mark.parametrize("word", LINES)
@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: 0 * x,
        lambda x: x + 1,
        lambda x: np.roll(x, 1, 1),
        lambda x: x[::-1],  # of the other matrix of the batch
        lambda x: x.sum(axis=0, keepdims=True) + 0 * x,  # of all matrices together
        lambda x: np.where(np.arange(x.shape[1]) == 3, np.nan, x),
        lambda x: x * (1 + 1e-3),
    ],
)
def test_wrong_sums_of_lines_are_seen(wrong, word, distribution):
    found = sums_of(word, lambda x: wrong(LINES[word](x)), 0.25, distribution)
    assert f"{word}: " in found.reason and found.incorrect > 0


@pytest.mark.parametrize("word", LINES)
def test_a_sum_without_its_last_term_is_seen(word):
    left_out = {"row_sums": lambda x: x[:, :, :-1], "column_sums": lambda x: x[:, :-1]}[word]
    assert sums_of(word, lambda x: LINES[word](left_out(x))).incorrect > 0


def test_the_functions_are_what_they_are_called():
    x = np.linspace(-30, 30, 601)
    assert sigmoid(x) == pytest.approx(1 / (1 + np.exp(-x)), rel=1e-12)
    assert gelu(x, "erf") == pytest.approx([t / 2 * (1 + math.erf(t / math.sqrt(2))) for t in x], abs=1e-14)
    tanh = x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    assert gelu(x, "tanh") == pytest.approx(tanh, abs=1e-13)


def test_an_infinity_is_wrong_where_the_cast_saturates():
    spec = SPEC.format(operations="alpha", out="f16, overflow: saturate", atom=F16)
    of, asked = plan(load(spec, "it.yaml").spec), parse_problem("16,16,32:alpha=60000")
    data = operands(of, asked, "small_int", 1)
    exact = 60000 * (values(data.a) @ values(data.b).swapaxes(1, 2))
    written = np.ones((1, 1), bool)
    data.d.view[...] = encode(np.clip(exact, -65504, 65504), "f16")
    assert compare(of, asked, data, written, "small_int").reason == ""
    data.d.view[...] = encode(exact, "f16")
    assert np.isinf(decode(data.d.view)).any() and compare(of, asked, data, written, "small_int").incorrect
