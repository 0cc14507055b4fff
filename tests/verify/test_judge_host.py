"""The judge that every project carries, as far as a machine without a GPU can check it."""

import dataclasses
import itertools
import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mmagen.mma.accumulation import Accumulation
from mmagen.mma.bounds import drift, path_of
from mmagen.mma.piece_bounds import drift_of_pieces, path_of_pieces
from mmagen.mma.ranges import Limits, small_int_rule, uniform_rule
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.compare import distances

pytestmark = pytest.mark.nvcc

HERE = Path(__file__).resolve().parent
RUNTIME = HERE.parents[1] / "templates" / "runtime" / "test"

FIELDS = [
    "name",
    "problem",
    "layout",
    "types",
    "disposition",
    "max_abs_err",
    "max_rel_err",
    "bound",
    "ms_median",
    "ms_min",
    "ms_max",
    "tflops",
    "gbps",
    "pct_peak",
    "peak_source",
    "baseline",
    "baseline_tflops",
    "ratio",
    "sm_clock_mhz",
    "power_w",
    "registers",
    "spill_bytes",
    "smem_bytes",
    "device",
    "driver",
    "cuda",
    "cutlass",
    "mmagen",
    "spec_sha",
    "seed",
    "input_dist",
    "reason",
]


def _compile(folder: Path) -> None:
    command = [find_toolchain(want=COMPILE).nvcc.path, "-std=c++17", "-O2", "-Xcompiler=-Wall,-Wextra,-Werror", f"-I{RUNTIME}"]
    done = subprocess.run(
        [*command, HERE / "host_types_test.cu", "-o", folder / "host_types_test"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def judge(made_once) -> Path:
    return made_once("judge", _compile) / "host_types_test"


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=120)


def test_conversions_inputs_and_bounds(judge):
    done = run(judge)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("text", ['a "b" \\ c', "tab\there\nand there", "ünï → code", "\x01"])
def test_json_is_json_and_has_the_fields_in_order(judge, text):
    record = json.loads(run(judge, "json", text).stdout)
    assert list(record) == FIELDS
    assert record["name"] == text
    assert record["max_abs_err"] == pytest.approx(1.5e-7)
    assert record["registers"] == 168 and record["seed"] == 2**64 - 1
    assert record["bound"] is None and record["ratio"] is None and record["device"] is None
    assert not any(isinstance(value, float) and not math.isfinite(value) for value in record.values())


def test_both_judges_say_the_same_of_infinities_and_nan(judge):
    """Of every interval and value that these numbers make: the project's judge and that of the CPU."""
    numbers = [-math.inf, -65504.0, 0.0, 1.0, 65504.0, math.inf]
    intervals = itertools.combinations_with_replacement(numbers, 3)
    cases = np.array([(*interval, got) for interval in intervals for got in (*numbers, math.nan)])
    done = run(judge, "element", *(str(x) for x in cases.flat))
    theirs = np.array([[float(x) for x in line.split()] for line in done.stdout.splitlines()])
    right, error, bound = distances(*cases.T)
    assert np.array_equal(theirs[:, :3], np.stack([~right, error, bound], axis=1)) and np.array_equal(theirs[:, 3], error)
    assert not np.isnan(theirs).any() and np.isfinite(error[right]).all()
    low, expected, _, got = cases.T
    same = (got == expected) & np.isinf(got)
    assert right[same].all() and not error[same].any()
    certain = (low == expected) & (expected == cases[:, 2])  # no error is allowed
    assert not right[certain & ~(got == expected)].any()


ACCUMULATIONS = [
    Accumulation(24, 8, 23, nearest=False, turns=2),
    Accumulation(25, 16, 10, nearest=True),
    Accumulation(13, 32, 13, nearest=False),
    Accumulation(13, 32, 13, nearest=False, promoted=128),
    Accumulation(13, 32, 13, nearest=False, promoted=64),
    Accumulation(25, 16, 23, nearest=False, products=3, left_out=3 * 2.0**-16),
    Accumulation(25, 16, 23, nearest=False, promoted=32, products=6, left_out=2.0**-23),
    Accumulation(25, 16, 23, nearest=False, promoted=64, products=3, left_out=3 * 2.0**-16),
    Accumulation(24, 8, 23, nearest=False, promoted=16, turns=2, products=6, left_out=2.0**-23, residue=32),
    Accumulation(0, 1, 52, nearest=True, turns=2, shuffled=True),
    Accumulation(0, 1, 0, nearest=True),
]


def _scale(first: int) -> np.ndarray:
    """Of a block of 128, as host_types_test.cu has it."""
    return np.full((1, 1), 1 / (1 + first // 128 % 3))


def _may_be_scaled(of: Accumulation) -> bool:
    return of.promoted > 0 and not of.of_pieces


def test_both_judges_bound_sums_alike(judge):
    signs = [(k, one) for k in (1, 5, 32, 100, 1024, 5000) for one in (False, True)]
    cases = [(of, *one, scaled) for of in ACCUMULATIONS for one in signs for scaled in (False, True)[: 1 + _may_be_scaled(of)]]
    arguments = [repr(float(x)) for of, *rest in cases for x in (*dataclasses.astuple(of), *rest)]
    theirs = [float(line) for line in run(judge, "drift", *arguments).stdout.splitlines()]
    ours = []
    for of, k, symmetric, scaled in cases:
        products = np.arange(k) * 7919 % 1000 / 500 - 1
        products = products if symmetric else np.abs(products)
        if of.of_pieces:
            _, magnitude, sums = path_of_pieces(of, products[None], np.ones((1, k)))
            ours.append(float(drift_of_pieces(of, k, sums, magnitude, symmetric)[0, 0]))
            continue
        _, magnitude, path = path_of(of, products[None], np.ones((1, k)), _scale if scaled else None)
        ours.append(float(drift(of, k, path, magnitude, symmetric)[0, 0]))
    assert theirs == pytest.approx(ours, rel=2e-3, abs=0) and any(ours)


def test_both_judges_draw_inputs_of_the_same_size(judge):
    limits = [
        (2.0**24, 2.0**24, 2048.0),
        (2048.0, 2.0**24, 2048.0),
        (8192.0, 2.0**24, 256.0),
        (2.0**31 - 1, 2.0**31 - 1, 127.0),
    ]
    scales = [(1.0, 0.0), (2.0, -0.5), (0.1, 1.0), (1000.0, 0.25)]
    cases = [(k, *scale, *limit) for k in (1, 33, 512, 2049, 4096, 100000) for scale in scales for limit in limits]
    lines = run(judge, "ranges", *(repr(x) for case in cases for x in case)).stdout.splitlines()
    kinds = [("f16", "f16"), ("e4m3", "e4m3"), ("s8", "f16"), ("u8", "s8"), ("s8", "s32")]
    for (k, alpha, beta, *limit), line in zip(cases, lines, strict=True):
        expected: list[float] = [*dataclasses.astuple(small_int_rule(k, alpha, beta, Limits(*limit)))]
        for word, out in kinds:
            for positive in (False, True):
                expected += dataclasses.astuple(uniform_rule(word, word, out, k, alpha, positive))
        assert [float(x) for x in line.split()] == pytest.approx([float(x) for x in expected], rel=1e-5)


def test_options(judge):
    done = run(
        judge, "verify", "--json", "--seed", "7", "--no-timing", "--max-dim", "256", "--dist", "small_int",
        "--problem", "1,2,3", "--problem", "64,32,16,4:ld_pad=8:offset=1:alpha=2:beta=-0.5",
        "--problem", "4,5,6,2:batch_stride_a=0:batch_stride_d=4294967296",
    )  # fmt: skip
    assert done.returncode == 0
    settings, *problems = done.stdout.splitlines()
    assert settings == "seed=7 json=1 timing=0 max_dim=256 reps=9 sample_ms=20 sustained=0 graphs=0 dist=small_int"
    assert problems == [
        "1,2,3",
        "64,32,16,4:ld_pad=8:offset=1:alpha=2:beta=-0.5",
        "4,5,6,2:batch_stride_a=0:batch_stride_d=4294967296",
    ]
    done = run(judge, "bench", "--sample-ms", "2.5", "--reps", "3", "--sustained", "2")
    assert "reps=3 sample_ms=2.5 sustained=2 graphs=0 dist=default" in done.stdout
    assert " graphs=1 " in run(judge, "bench", "--graphs").stdout
    assert run(judge, "tune", "--graphs").returncode == run(judge, "verify", "--graphs").returncode == 2
    done = run(judge, "tune", "--problem", "1,2,3", "--problem", "-")
    assert done.stdout.splitlines()[1:] == ["1,2,3", "standard input"]
    assert run(judge, "verify", "--problem", "-").returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--bogus"], ["--seed"], ["--seed", "-1"], ["--seed", "1x"], ["--dist", "normal"], ["--max-dim", "0"],
        ["--problem", "1,2"], ["--problem", "1,2,3,4,5"], ["--problem", "0,2,3"], ["--problem", "1,2,3:beta"],
        ["--problem", "1,2,3:gamma=1"], ["--problem", "1,2,3:ld_pad=-1"], ["--problem", "1,2,x"],
        ["--problem", "1,2,3:alpha=nan"], ["--problem", "16777216,16777216,16777216,65536"], ["--sample-ms", "5"],
        ["--problem", "4,5,6,2:batch_stride_d=0"], ["--problem", "4,5,6,2:batch_stride_a=23"],
        ["--problem", "4,5,6,2:batch_stride_e=0"], ["--problem", "4,5,6,2:batch_stride_b=-1"], ["positional"],
    ],
)  # fmt: skip
def test_malformed_options_are_refused(judge, arguments):
    done = run(judge, "verify", *arguments)
    assert done.returncode == 2
    assert done.stdout.startswith("fault: ")
