"""The further matrices of a call in the test program of a project."""

from __future__ import annotations

from mmagen.plan.arguments import Tensor


def factory(tensor: Tensor) -> str:
    """The function of templates/runtime/test that describes the matrix, and how it is filled."""
    if tensor.part == "weights":
        return "zero_point_tensor" if tensor.name == "zero_b" else "weight_scale_tensor<B, Scales::Type>"
    return "scale_tensor" if tensor.part == "scale" else f"further_tensor<mmagen::test::{tensor.element.word}>"
