"""The further matrices of a call in the test program of a project."""

from __future__ import annotations

from collections.abc import Iterable

from mmagen.plan.arguments import Tensor

_DESCRIBED_BY_THEMSELVES = ("group", "sparse")  # parts whose matrices the test program has elsewhere


def described(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Those that the test program lists as further matrices."""
    return [one for one in tensors if one.part not in _DESCRIBED_BY_THEMSELVES]


def factory(tensor: Tensor) -> str:
    """The function of templates/runtime/test that describes the matrix, and how it is filled."""
    if tensor.part == "weights":
        return "zero_point_tensor" if tensor.name == "zero_b" else "weight_scale_tensor<B, Scales::Type>"
    if tensor.part == "scale":
        return f"scale_tensor<Scales::Of{tensor.name[-1].upper()}>"
    return f"further_tensor<mmagen::test::{tensor.element.word}>"
