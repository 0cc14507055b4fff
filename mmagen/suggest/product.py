"""A product as another library computes it, as answers of `mmagen new`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Product:
    """types: of A and B; sums: None where the expression does not say; layout: letters; shape: M, N, K and batch. D is N
    contiguous. operations: of the epilogue, as YAML has them, () for alpha and beta * C; keys: further ones of the spec; remark:
    what was decided about it, a sentence."""

    types: tuple[str, str]
    sums: str | None
    out: str
    layout: str
    shape: tuple[int, int, int, int]
    operations: tuple[Any, ...] = ()
    keys: Mapping[str, Any] = field(default_factory=dict)
    remark: str = ""

    @property
    def answers(self) -> dict[str, str]:
        """For options of the same names."""
        a, b = self.types
        said = {"kernel": "gemm", "types": a if a == b else f"{a},{b}", "out": self.out, "layout": self.layout, "major": "N"}
        return said | ({"sums": self.sums} if self.sums else {})

    @property
    def problem(self) -> str:
        """As --problem takes it."""
        return ",".join(map(str, self.shape if self.shape[3] > 1 else self.shape[:3]))


def letters(a_k_contiguous: bool, b_k_contiguous: bool) -> str:
    """TN for both."""
    return ("T" if a_k_contiguous else "N") + ("N" if b_k_contiguous else "T")
