"""What nvidia-matmul-heuristics suggests, as candidates of `mmagen tune`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from mmagen.core.errors import UsageError
from mmagen.plan.cost import Call
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.tuning import nvidia_heuristics
from mmagen.tuning.candidates import Candidate, candidates
from mmagen.tuning.nvidia_heuristics import Heuristics, Suggestion, compared, prune
from mmagen.tuning.problems import random_problems

H200 = "NVIDIA H200"
SPEC = """\
mmagen: 1
name: it
kernel: gemm
atom: {atom}
layout: {layout}
tile: [64, 128, 64]
epilogue: {{out: {out}}}
"""


def offered(atom: str = "SM90_64x128x16_F32BF16BF16_SS", layout: str = "TN", out: str = "bf16") -> Iterator[Candidate]:
    return candidates(load(SPEC.format(atom=atom, layout=layout, out=out), "it.yaml").spec)


@pytest.fixture(scope="module", autouse=True)
def _few_widths():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mmagen.families.wgmma.gemm.EVERY", (16, 64, 128, 256))
        yield


@pytest.fixture(scope="module")
def found() -> list[Candidate]:
    pytest.importorskip("nvMatmulHeuristics")
    return [*offered()]


def test_suggestions_are_of_the_problem(found):
    heuristics = Heuristics(found[0].plan, H200)
    wide, few = heuristics.suggested(Problem(shape=(8192, 8192, 8192))), heuristics.suggested(Problem(shape=(16, 4096, 4096)))
    assert len(wide) == len(few) == 8
    assert wide[0].tile[0] * wide[0].tile[1] >= 128 * 128 > few[0].tile[0] * few[0].tile[1]


@pytest.mark.parametrize("device", ["NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA A100-SXM4-80GB"])
def test_devices_are_known_by_the_drivers_names(found, device):
    assert Heuristics(found[0].plan, device).suggested(Problem(shape=(4096, 4096, 4096)))


def test_candidates_that_are_suggested_are_kept(found):
    problems = random_problems(3, 20)
    heuristics = Heuristics(found[0].plan, H200)
    kept = prune(heuristics, found, problems, 12)
    assert len(kept) == 12
    every = {suggestion for problem in problems for suggestion in heuristics.suggested(problem)}
    assert all(any(one.fits(candidate.plan) for one in every) for candidate in kept)
    assert [one.name for one in prune(heuristics, found, problems, 12)] == [one.name for one in kept]


@pytest.mark.parametrize(
    ("atom", "layout", "out", "precision", "stored"),
    [
        ("SM90_64x128x16_F32BF16BF16_SS", "TN", "bf16", "TST", "NT_ROW_MAJOR"),
        ("SM90_64x128x16_F32F16F16_SS", "NN", "f32", "HSS", "TT_ROW_MAJOR"),
        ("SM90_64x128x16_F16F16F16_SS", "TT", "f16", "HHH", "NN_ROW_MAJOR"),
        ("SM90_64x128x8_F32TF32TF32_SS_TN", "TN", "f32", "SFS", "NT_ROW_MAJOR"),
        ("SM90_64x128x32_S32S8S8_SS_TN", "TN", "s32", "BII", "NT_ROW_MAJOR"),
        ("SM90_64x128x32_F32E4M3E5M2_SS_TN", "TN", "bf16", "QRTST", "NT_ROW_MAJOR"),
    ],
)
def test_types_and_layouts_in_nvidias_words(atom, layout, out, precision, stored):
    first = next(offered(atom, layout, out))
    assert nvidia_heuristics._precision(first.plan) == precision
    assert nvidia_heuristics._layout(first.plan) == stored


def test_a_column_major_d_exchanges_the_words():
    text = SPEC.format(atom="SM90_64x128x16_F32BF16BF16_SS", layout="TN", out="bf16").replace("bf16}", "bf16, major: M}")
    first = next(candidates(load(text, "it.yaml").spec))
    assert nvidia_heuristics._layout(first.plan) == "TN_COL_MAJOR"


def test_what_it_does_not_know_is_refused(found):
    with pytest.raises(UsageError, match="does not know NVIDIA Unheard-of"):
        Heuristics(found[0].plan, "NVIDIA Unheard-of")
    first = next(offered("SM90_64x128x32_S32S8U8_SS_TN", out="s8"))
    with pytest.raises(UsageError, match="does not know"):
        Heuristics(first.plan, H200)


def test_without_the_package_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "nvMatmulHeuristics", None)
    with pytest.raises(UsageError, match=r"pip install 'mmagen\[heuristics\]'"):
        Heuristics(next(offered()).plan, H200)


class _Fixed:
    """Suggests the same for every problem."""

    def __init__(self, *suggestions: Suggestion):
        self.suggestions = suggestions

    def suggested(self, problem: Problem, most: int = 8) -> list[Suggestion]:
        return list(self.suggestions)


def test_the_comparison_takes_the_first_suggestion_that_was_measured():
    plain = [one for one in offered() if one.plan.cluster_of_d == (1, 1) and one.plan.scheduler.workspace_splits is None]
    small = next(one for one in plain if one.plan.tile_of_d[:2] == (64, 64) and not one.plan.scheduler.shares_last_wave)
    large = next(one for one in plain if one.plan.tile_of_d[:2] == (128, 256) and not one.plan.scheduler.shares_last_wave)
    problem = Problem(shape=(4096, 4096, 4096))
    call = Call.of(small.plan, problem)
    times = {small.name: {call: 2.0}, large.name: {call: 1.0}}
    unknown, of_small = Suggestion((8, 8), (1, 1), 1), Suggestion((64, 64), (1, 1), 1)
    both = [small, large]
    assert compared(_Fixed(unknown, of_small, Suggestion((128, 256), (1, 1), 1)), both, times, {call: problem}) == [0.5]
    assert compared(_Fixed(Suggestion((128, 256), (1, 1), 1)), both, times, {call: problem}) == [1.0]
    assert compared(_Fixed(unknown), both, times, {call: problem}) == []


def test_a_kernel_that_decides_on_its_split_fits_every_split():
    decides = next(one for one in offered() if one.plan.scheduler.workspace_splits == 0)
    fits = Suggestion(decides.plan.tile_of_d[:2], decides.plan.cluster_of_d, 5)
    assert fits.fits(decides.plan) and not replace(fits, split_k=1).fits(decides.plan)
    of_two = next(one for one in offered() if one.plan.scheduler.split_k == 2)
    split = Suggestion(of_two.plan.tile_of_d[:2], of_two.plan.cluster_of_d, 2)
    assert split.fits(of_two.plan) and not replace(split, split_k=4).fits(of_two.plan)
