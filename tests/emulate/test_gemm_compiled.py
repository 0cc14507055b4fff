"""A generated GEMM as nvcc compiles it, executed on the CPU: right and without findings, and its races found once made."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mmagen.build.ptx import Ptx, compile_ptx
from mmagen.emulate import Module, parse
from mmagen.toolchain.find import COMPILE, find_toolchain
from tests.support.ptx_gemm import run_gemm

pytestmark = pytest.mark.nvcc

PROJECT = Path(__file__).parents[2] / "generated" / "sm80_gemm_classic"


@cache
def ptx() -> Ptx:
    made = compile_ptx(PROJECT, find_toolchain(want=COMPILE))
    assert not made.error, made.error
    return made


def run(module, a, b, **options):
    return run_gemm(ptx(), (PROJECT / "spec.yaml").read_bytes(), module, a, b, **options)


@cache
def module() -> Module:
    return parse(ptx().text, "classic.ptx")


def operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(A, B, A * B^T) of small integers, exact in f16 and f32."""
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    return a, b, a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "narrow"])
@pytest.mark.parametrize("shape", [(256, 136, 72), (128, 128, 32), (1, 1, 1), (130, 129, 200)], ids=str)
def test_results_are_exact_and_nothing_is_found(shape, wide):
    a, b, product = operands(*shape)
    d, report = run(module(), a, b, wide=wide)
    assert (d.astype(np.float64) == product).all()
    assert report.findings == [] and report.completed
    assert f"ConfigELb{int(wide)}E" in report.entry


def test_alpha_beta_and_c():
    a, b, product = operands(136, 144, 40)
    c = np.random.default_rng(1).integers(-8, 9, product.shape).astype(np.float16)
    d, report = run(module(), a, b, alpha=2.0, beta=-1.0, c=c)
    assert (d.astype(np.float64) == 2 * product - c.astype(np.float64)).all()
    assert report.findings == []


def test_many_ctas_in_small_batches():
    a, b, product = operands(384, 384, 64)
    d, report = run(module(), a, b, lanes=256)
    assert (d.astype(np.float64) == product).all() and report.findings == [] and report.ctas == 9


def test_shared_memory_is_read_without_bank_conflicts():
    a, b, _ = operands(128, 128, 64)
    report = run(module(), a, b)[1]
    loads = [t for t in report.traffic if t.instruction.startswith("ldmatrix")]
    assert loads and all(t.units == t.ideal for t in loads)
    assert {Path(t.file).name for t in loads} == {"mainloop_multistage.cuh"}


def mutated(pattern: str, replacement: str, number: int) -> str:
    """The PTX with one occurrence of a pattern in its wide kernel replaced."""
    start = ptx().text.index("ConfigELb1EEEv", ptx().text.index(".visible .entry"))
    place = list(re.finditer(pattern, ptx().text[start:]))[number]
    return ptx().text[: start + place.start()] + replacement + ptx().text[start + place.end() :]


@pytest.mark.parametrize(
    "pattern, replacement, number",
    [
        *(pytest.param(r"bar\.sync\s+0;", "", n, id=f"no barrier {n}") for n in (0, 1, 5, 6, 7)),
        *(pytest.param(r"cp\.async\.wait_group 1;", "cp.async.wait_group 2;", n, id=f"late wait {n}") for n in (0, 1)),
        *(pytest.param(r"cp\.async\.wait_group 1;", "", n, id=f"no wait {n}") for n in (0, 1)),
        *(pytest.param(r"cp\.async\.commit_group;", "", n, id=f"no commit {n}") for n in (0, 1, 2)),
    ],
)
def test_races_are_found(pattern, replacement, number):
    a, b, _ = operands(256, 128, 200)
    report = run(parse(mutated(pattern, replacement, number), "mutated.ptx"), a, b)[1]
    assert {f.kind for f in report.findings} & {"shared_race", "cp_async_unwaited"}
    assert all("include/" in f.file and f.line > 0 for f in report.findings)
