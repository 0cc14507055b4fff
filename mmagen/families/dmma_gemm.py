"""`kernel: gemm` of the f64 atoms of SM90, and of the complex ones made of them: mma.sync m16n8k4, m16n8k8 and m16n8k16, at twice
the rate of SM80's m8n8k4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmagen.families.mma_gemm import MmaGemm
from mmagen.mma.atoms import find_atom
from mmagen.plan.plans import GemmPlan

if TYPE_CHECKING:
    from mmagen.families.protocol import Family


class _DmmaGemm(MmaGemm):
    """The kernel of all mma.sync atoms; on an H200 it reaches 0.95 of cuBLASLt (docs/results/h200-bench-f64.md)."""

    def builds(self, atom: str) -> bool:
        found = find_atom(atom)
        return found is not None and found.generation == "SM90" and found.kind == "mma.sync"


FAMILY: Family[GemmPlan] = _DmmaGemm(__name__)
