"""Bank conflicts as the emulator counts them are those that ncu counted on a GPU, or the difference is accounted for.

Loads agree but for at most TOLERANCE passes that the hardware repeated, of thousands. Stores agree exactly once the
pairs are merged that ptxas merged, whose number ncu's count of store instructions gives away.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.emulate.ncu_compare import TOLERANCE, Counts, emulated, explain, row
from tests.emulate.ncu_conflicts import KERNELS, METRICS, UNSWIZZLED, parse_csv
from tests.support.selection import representatives

ROOT = Path(__file__).resolve().parents[2]

ROOT = Path(__file__).resolve().parents[2]
_RECORDED = json.loads((ROOT / "tests/emulate/recorded/h200_ncu.json").read_text("utf-8"))["kernels"]
# Without swizzle there are many conflicts of loads; with slices of K there are some of stores.
_IN_EVERY_RUN = (f"sm80_gemm_classic{UNSWIZZLED}",)
_PAGE = (ROOT / "docs/results/h200-bank-conflicts.md").read_text("utf-8")
_HEAD = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'


def _table(**counts):
    return "\n".join(
        [
            "PASSED: 1 passed of 1",
            "==PROF== done",
            _HEAD,
            *(f'"0","k<A, 1>","{METRICS[name]}","","{value}"' for name, value in counts.items()),
        ]
    )


@pytest.mark.nvcc
@pytest.mark.parametrize("kernel", representatives(_RECORDED, _IN_EVERY_RUN, lambda kernel: kernel["spec"]))
def test_the_emulator_counts_what_ncu_counted(kernel):
    counts = emulated(kernel["spec"], kernel["problem"])
    assert 0 <= kernel["load_wavefronts"] - counts.load_wavefronts <= TOLERANCE
    assert kernel["load_wavefronts"] - counts.load_wavefronts == kernel["load_conflicts"] - counts.load_conflicts
    # What the stored bytes ask for at best is the same however they are split.
    ideal = counts.store_wavefronts - counts.store_conflicts
    assert kernel["store_wavefronts"] - kernel["store_conflicts"] == ideal
    assert "not explained" not in explain(kernel, counts)
    assert row(kernel, counts) in _PAGE, "docs/results/h200-bank-conflicts.md is not up to date"


def test_at_least_six_kernels_are_recorded():
    assert len(_RECORDED) >= 6
    assert all(KERNELS[kernel["spec"]] == kernel["problem"] for kernel in _RECORDED)


def test_the_table_is_read_after_the_programs_own_output():
    text = _table(**dict.fromkeys(METRICS, "1,234") | {"store_conflicts": "0"})
    assert parse_csv(text) == dict.fromkeys(METRICS, 1234) | {"store_conflicts": 0}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM", "no table"),
        (_table(load_wavefronts="5"), "is missing"),
        (_table(load_wavefronts="n/a"), "is n/a"),
        (_table(load_wavefronts="5") + "\n" + _table(load_wavefronts="5").splitlines()[-1], "more than one launch"),
    ],
)
def test_a_table_that_tells_too_little_is_refused(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        parse_csv(text)


_COUNTS = Counts(100, 10, 60, 8, 40, lone_stores=8, lone_conflicts=8)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"load_wavefronts": 102, "load_conflicts": 12}, "loads: passes repeated: 2"),
        ({"load_wavefronts": 103, "load_conflicts": 13}, "loads: not explained"),
        ({"load_conflicts": 11}, "loads: not explained"),
        ({"store_wavefronts": 52, "store_conflicts": 0, "store_instructions": 36}, "stores: 4 pairs merged"),
        ({"store_wavefronts": 52, "store_conflicts": 0}, "stores: not explained"),
        ({"store_wavefronts": 54, "store_conflicts": 2, "store_instructions": 36}, "stores: not explained"),
    ],
)
def test_only_what_fits_exactly_explains_a_difference(change, reason):
    assert explain(asdict(_COUNTS) | change, _COUNTS) == reason
