"""Every committed spec through the command line on a GPU: right on its small problems, and clean under the sanitizers.

python -m pytest tests/gpu/test_specs.py -q
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mmagen.toolchain.find import find_toolchain
from tools.gpu_round.specs import asked

pytestmark = pytest.mark.gpu

SPECS = sorted((Path(__file__).resolve().parents[2] / "specs").glob("*.yaml"))
# wgmma kernels that nobody would ship, but anybody may ask for: every type, width of N, place of A, type and order of D,
# cluster, split and schedule that the others do not have.
ODD = sorted((Path(__file__).resolve().parent / "odd").glob("*.yaml"))
# One of each kernel, main loop, layout of D and way of loading fragments; sanitizers are slow.
SANITIZED = (
    "hello_ownership",
    "hello_micro",
    "micro_sliced_k",
    "micro_volta",
    "sm61_gemm_s8",
    "sm75_gemm_f16",
    "sm80_gemm_classic",
    "sm80_gemm_bf16_nt",
    "sm80_gemm_f16_col_d",
    "sm80_gemm_s8_nt_out8",
    "sm80_gemm_sliced_k",
    "sm89_gemm_e5m2_tt",
)
# Aligned and ragged; unaligned, so single elements are copied; a batch with alpha, beta and padded rows.
SMALL = ("224,160,96", "129,97,75:offset=1", "65,72,40,2:ld_pad=8:alpha=2:beta=-1")


def _verify(*arguments: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "mmagen", "verify", *map(str, arguments)], capture_output=True, text=True, timeout=1800
    )


@pytest.fixture(scope="module")
def compiled():
    """All specs compiled in one build; what follows takes them from the cache."""
    done = _verify(*SPECS, "--compile-only")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_it_verifies(compiled, path, tmp_path):
    report = tmp_path / "report.json"
    (spec,), _ = asked([path], 1000)
    done = _verify(path, "--max-dim", str(spec.max_dim), "--no-timing", "--json", report)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [json.loads(line) for line in report.read_text().splitlines()]
    dispositions = [record["disposition"] for record in records if "larger than --max-dim" not in (record["reason"] or "")]
    assert set(dispositions) == {"passed"}


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
@pytest.mark.parametrize("name", SANITIZED)
def test_a_sanitizer_finds_nothing(compiled, name, tool):
    toolchain = find_toolchain(want=("nvcc", "sanitizer"))
    if toolchain.missing(("sanitizer",)):
        pytest.skip(f"{name} under {tool}: {toolchain.remedies['sanitizer']}")
    path = SPECS[0].with_name(f"{name}.yaml")
    problems = [part for problem in SMALL for part in ("--problem", problem)] if "kernel: gemm" in path.read_text() else []
    done = _verify(path, *problems, "--no-timing", "--sanitize", tool)
    assert done.returncode == 0, done.stdout + done.stderr


def test_odd_wgmma_kernels_verify():
    done = _verify(*ODD, "--no-timing", "--max-dim", "1100")
    assert done.returncode == 0, done.stdout + done.stderr
