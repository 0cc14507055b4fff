"""The key `weights`: a B of few bits, whose elements are converted to the type of A and multiplied by scales."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_serializer,
)

from mmagen.core.layout_text import INT_MAX
from mmagen.spec.values import Model, refuse

WeightWord = Literal["s4", "u4", "s8", "e4m3"]
CHUNK = 128  # groups are divisors or multiples of it
GROUPS = (32, 64)  # the divisors
PACKED = ("s4", "u4")  # two to a byte
_GROUP_SCHEMA = {
    "anyOf": [{"enum": list(GROUPS)}, {"type": "integer", "minimum": CHUNK, "maximum": INT_MAX, "multipleOf": CHUNK}]
}


class Weights(Model):
    """B (N,K) as elements of `type`, two to a byte where they have 4 bits: D = alpha * sum_k a * scale * (b - zero) + beta * C. A
    scale belongs to `group` columns of a row of B."""

    type: WeightWord = Field(description="type is that of the weights, the elements of B: s4, u4, s8 or e4m3")
    group: Annotated[int, Strict(), Field(ge=1, le=INT_MAX), WithJsonSchema(_GROUP_SCHEMA)] | None = Field(
        default=None,
        description="group is the number of columns of a row of B that share a scale: 32, 64 or a multiple of 128, or null for one "
        "scale for each row",
    )
    scale: Literal["bf16", "f16", "f32"] | None = Field(
        default=None, description="scale is the type of the scales: f32 or A's own, bf16 or f16, or null for A's own"
    )
    scale_major: Literal["N", "K"] = Field(
        default="N", description="scale_major is the contiguous dimension of scales and zero points, (N, K / group): N or K"
    )
    zero: Literal["u8"] | None = Field(
        default=None,
        description="zero is u8 for zero points of u4 weights, a byte of 0 to 15 for each scale, or null for none",
    )

    @property
    def packed(self) -> int:
        """Elements of a byte."""
        return 2 if self.type in PACKED else 1

    @property
    def chunk(self) -> int:
        """Columns that are summed before the sum is scaled."""
        return min(self.group or CHUNK, CHUNK)

    @field_validator("group")
    @classmethod
    def _is_a_group(cls, group: int | None) -> int | None:
        if group is not None and group not in GROUPS and group % CHUNK:
            multiple = min(max(round(group / CHUNK), 1), INT_MAX // CHUNK) * CHUNK
            nearest = min((*GROUPS, multiple), key=lambda legal: abs(legal - group))
            raise refuse(f"{group} columns with one scale neither divide {CHUNK} nor are a multiple of it", meant=nearest)
        return group

    @field_validator("zero")
    @classmethod
    def _has_zeros_of_its_type(cls, zero: str | None, info: ValidationInfo) -> str | None:
        weights = info.data.get("type", "u4")  # a type that is refused itself says nothing about zero points
        if zero and weights != "u4":
            raise refuse(f"{weights} weights have no zero points", "omit zero, or use type: u4")
        return zero

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {key: value for key, value in handler(self).items() if key in self.model_fields_set or key == "type"}


WEIGHTS = Field(
    default=None,
    description="weights is a mapping of the type, groups and scales of a narrow B, e.g. {type: s4, group: 128, scale: bf16}, "
    "or null for a B of the atom's type; it requires a wgmma atom of bf16 or f16 with A in registers and operands: swapped",
)
