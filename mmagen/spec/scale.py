"""The key `scale`: factors of A and B, and which elements share one."""

from __future__ import annotations

from typing import Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from mmagen.spec.values import Model, refuse

BLOCK = 128  # elements of K, and lines of a square block, that share a scale

KindA = Literal["tensor", "row", "1x128", "128x128"]
KindB = Literal["tensor", "column", "1x128", "128x128"]
BLOCKS = ("1x128", "128x128")  # whose scales change along K
LINES = {"tensor": 0, "row": 1, "column": 1, "1x128": 1, "128x128": BLOCK}  # that share a scale; 0 for all
_MIRRORED = {"row": "column", "column": "row"}


class Scale(Model):
    """Scales of A (M,K) and B (N,K), f32 in device memory: D = alpha * sum_k (scale_a * a) (scale_b * b) + beta * C."""

    a: KindA | None = Field(
        default=None,
        description="a is the part of A that shares a scale: tensor, row, 1x128 (128 of K of a row) or 128x128 (128 of K of "
        "128 rows), or null for no scales of A",
    )
    b: KindB | None = Field(
        default=None,
        description="b is the part of B that shares a scale: tensor, column, 1x128 (128 of K of a column) or 128x128 (128 of K of "
        "128 columns), or null for no scales of B",
    )
    a_major: Literal["M", "K"] | None = Field(
        default=None,
        description="a_major is the contiguous dimension of the scales of blocks of A, M or K, or null: M for 1x128, K for 128x128",
    )
    b_major: Literal["N", "K"] | None = Field(
        default=None,
        description="b_major is the contiguous dimension of the scales of blocks of B, N or K, or null: N for 1x128, K for 128x128",
    )

    @field_validator("a", "b", mode="before")
    @classmethod
    def _is_of_its_own_lines(cls, kind: object, info: ValidationInfo) -> object:
        letter = str(info.field_name)
        own, other = ("row", "column") if letter == "a" else ("column", "row")
        if kind == other:
            lines = f"{letter.upper()} has a line of K for each {own} of D"
            raise refuse(f"'{other}' is not a legal value: {lines}", f"{letter}: {own}", meant=own)
        return kind

    @property
    def along_k(self) -> bool:
        """Do scales change along K?"""
        return self.a in BLOCKS or self.b in BLOCKS

    def contiguous_k(self, letter: str) -> bool:
        """Are scales of one line of the operand "A" or "B" adjacent along K?"""
        kind, major = (self.a, self.a_major) if letter == "A" else (self.b, self.b_major)
        return major == "K" if major else kind == "128x128"

    @property
    def mirrored(self) -> Scale:
        """Of the transposed product, B times A."""
        majors = {"M": "N", "N": "M"}
        return self.model_copy(
            update={
                "a": _MIRRORED.get(self.b or "", self.b),
                "b": _MIRRORED.get(self.a or "", self.a),
                "a_major": majors.get(self.b_major or "", self.b_major),
                "b_major": majors.get(self.a_major or "", self.a_major),
            }
        )

    @model_validator(mode="after")
    def _scales_something(self) -> Scale:
        if self.a is None and self.b is None:
            raise refuse("neither A nor B has scales", "omit scale, or write e.g. {a: tensor, b: tensor}")
        return self

    @field_validator("a_major", "b_major")
    @classmethod
    def _is_of_blocks(cls, major: str | None, info: ValidationInfo) -> str | None:
        letter = str(info.field_name)[0]
        kind = info.data.get(letter, BLOCKS[0])  # one that is refused itself says nothing about its scales
        if major and kind not in BLOCKS:
            scales = f"scales of {letter.upper()} per {kind}" if kind else f"{letter.upper()} without scales"
            raise refuse(
                f"{major} has no meaning for {scales}",
                f"omit {letter}_major: only scales of blocks, 1x128 and 128x128, have two dimensions",
            )
        return major

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, str]:
        return {key: value for key, value in handler(self).items() if value is not None}


SCALE = Field(
    default=None,
    description='scale is a mapping of the parts of A and B that share a scale, e.g. {a: "1x128", b: "128x128"} or '
    "{a: row, b: column}, or null for operands without scales; it requires a wgmma atom of 8-bit floats",
)
