"""Configurations that nvidia-matmul-heuristics suggests: NVIDIA's analytic model of GEMM kernels, an optional package.

It ranks kernels of CUTLASS 3 (Hopper: TMA and wgmma) and CUTLASS 2 (mma.sync) by tile, cluster and split of K; schedules and
operands that are exchanged are unknown to it, so a suggestion stands for all candidates that agree in what it says. Needs no GPU.
Source: docs.nvidia.com/cuda/nvidia-matmul-heuristics.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mmagen.core.errors import UsageError
from mmagen.families import tunable
from mmagen.plan.cost import Call
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem
from mmagen.tuning.candidates import Candidate

PACKAGE = "nvidia-matmul-heuristics"
_SUGGESTED = 8  # for a problem
# Parts of a device's name as its driver has it -> the package's name; the first that holds.
_DEVICES = (
    ("H100 PCIe", "H100_PCIE"),
    ("H100 NVL", "H100_NVL"),
    ("H100", "H100_SXM"),
    ("H200", "H200_SXM"),
    ("H20", "H20_SXM"),
    ("A100-PCIE", "A100_PCIE_80GB"),
    ("A100", "A100_SXM_80GB"),
    ("A30", "A30_PCIE"),
    ("A10", "A10_PCIE"),
    ("A40", "A40_PCIE"),
    ("RTX A6000", "RTX_A6000"),
    ("RTX 3090", "RTX_3090"),
    ("RTX 4090", "RTX_4090"),
    ("RTX 6000 Ada", "RTX_6000_ADA"),
    ("L40S", "L40S"),
    ("L40", "L40"),
    ("L20", "L20"),
    ("L4", "L4"),
)
# The letters of nvMatmulHeuristics.h, "Supported precisions". A letter for each of A, B, C, compute and D, or for A and B,
# compute, C and D.
_LETTERS = {"f16": "H", "bf16": "T", "f32": "S", "f64": "D", "s8": "B", "u8": "B", "s32": "I", "e4m3": "Q", "e5m2": "R"}


@dataclass(frozen=True)
class Suggestion:
    """tile, cluster: along M and N of D. split_k: parts of K, 1 for none."""

    tile: tuple[int, int]
    cluster: tuple[int, int]
    split_k: int

    def fits(self, plan: GemmPlan) -> bool:
        """Is that the plan's tile, cluster and way to split K? A kernel that decides on its split fits every number."""
        scheduler = plan.scheduler
        splits = max(scheduler.split_k, 1 if scheduler.workspace_splits is None else scheduler.workspace_splits)
        decides = scheduler.workspace_splits == 0 or scheduler.shares_last_wave
        same_split = self.split_k > 1 if decides else self.split_k == splits
        return plan.tile_of_d[:2] == self.tile and plan.cluster_of_d == self.cluster and same_split


class Heuristics:
    """The suggestions for the kernels of one spec on one GPU.

    Raises UsageError without the package, and for GPUs and types that it does not know.
    """

    def __init__(self, plan: GemmPlan, device: str):
        """plan: of any kernel of the spec. device: its name, as the driver has it."""
        self._package = _package()
        known = next((name for part, name in _DEVICES if part in device), "")
        if not known:
            raise UsageError(f"{PACKAGE} does not know {device}: leave out --source nvidia")
        self._interface: Any = self._package.NvMatmulHeuristicsInterfaceEx(
            backend=self._package.NvMatmulHeuristicsTarget[tunable(plan).cutlass],
            flags=self._package.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
            gpu=self._package.NvMatmulHeuristicsNvidiaGpu[known],
        )
        self._precision = _precision(plan)
        self._layout = self._package.NvMatmulHeuristicsMatmulLayout[_layout(plan)]

    def suggested(self, problem: Problem, most: int = _SUGGESTED) -> list[Suggestion]:
        """The fastest by its model first."""
        m, n, k = problem.shape
        asked = self._interface.makeNvMatmulHeuristicsProblem(m, n, k, self._layout, problem.batch)
        found = [one["kernel"] for one in self._interface.get(asked, most, precision=self._precision)]
        return [
            Suggestion((one.cta_tile_m, one.cta_tile_n), (one.cluster_m, one.cluster_n), max(one.split_k, 1)) for one in found
        ]


def prune(heuristics: Heuristics, found: Sequence[Candidate], problems: Sequence[Problem], most: int) -> list[Candidate]:
    """At most `most` candidates: those that are suggested most often, a first suggestion for a problem counting most."""
    counts: Counter[str] = Counter()
    fitting: dict[Suggestion, list[str]] = {}
    for problem in problems:
        for place, suggestion in enumerate(dict.fromkeys(heuristics.suggested(problem))):
            if suggestion not in fitting:
                fitting[suggestion] = [one.name for one in found if suggestion.fits(one.plan)]
            for name in fitting[suggestion]:
                counts[name] += _SUGGESTED - place
    if not counts:
        raise UsageError(f"none of the {len(found)} configurations is one that {PACKAGE} suggests: leave out --source nvidia")
    kept = {name for name, _ in counts.most_common(most)}
    return [one for one in found if one.name in kept]


def compared(
    heuristics: Heuristics, found: Sequence[Candidate], times: Mapping[str, Mapping[Call, float]], calls: Mapping[Call, Problem]
) -> list[float]:
    """For each problem with a suggestion that was measured: the fastest candidate's time over that of the fastest candidate which
    the first such suggestion fits. times: candidate -> call -> seconds."""
    ratios = []
    for call, problem in calls.items():
        measured = {one.name: times[one.name][call] for one in found if call in times.get(one.name, {})}
        for suggestion in heuristics.suggested(problem):
            fitting = [measured[one.name] for one in found if one.name in measured and suggestion.fits(one.plan)]
            if fitting:
                ratios.append(min(measured.values()) / min(fitting))
                break
    return ratios


def _package() -> ModuleType:
    try:
        return importlib.import_module("nvMatmulHeuristics")
    except (ImportError, OSError):
        raise UsageError(f"--source nvidia needs {PACKAGE}; install it with pip install 'mmagen[heuristics]'") from None


def _precision(plan: GemmPlan) -> str:
    """`TST` for bf16 x bf16 + f32 -> bf16, `QRTST` for e4m3 x e5m2 + f32 -> bf16."""
    a, b = plan.operand("A").multiplied, plan.operand("B").multiplied
    compute, out = plan.atom.type_d.word, plan.epilogue.out.word
    if a == b == "tf32":
        letters = ["S", "F", _LETTERS.get(out, "")]
    elif "e4m3" in (a, b) or "e5m2" in (a, b):
        c = "T" if out in ("e4m3", "e5m2") else _LETTERS.get(out, "")
        letters = [_LETTERS.get(a, ""), _LETTERS.get(b, ""), c, _LETTERS.get(compute, ""), _LETTERS.get(out, "")]
    else:
        letters = [_LETTERS.get(a, "") if a == b else "", _LETTERS.get(compute, ""), _LETTERS.get(out, "")]
    if not all(letters):
        raise UsageError(f"{PACKAGE} does not know {plan.types}: leave out --source nvidia")
    return "".join(letters)


def _layout(plan: GemmPlan) -> str:
    """Its layouts say whether A (M x K) and B (K x N) are transposed in memory, against the order of D."""
    a, b, d = plan.majors
    rows = d == "N"
    transposed_a, transposed_b = (a == "M") == rows, (b == "K") == rows
    return f"{'T' if transposed_a else 'N'}{'T' if transposed_b else 'N'}_{'ROW' if rows else 'COL'}_MAJOR"
