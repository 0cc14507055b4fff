"""The groups of a problem of a grouped kernel: how many rows each has, listed or drawn by Zipf's law, or its M, N and K."""

from __future__ import annotations

import random
from functools import cache
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    Strict,
    model_serializer,
    model_validator,
)

from mmagen.core.layout_text import INT_MAX
from mmagen.spec.values import Model, Number, not_empty, refuse

MOST_GROUPS = 4096
_SHOWN = 8  # sizes that a text lists

_Rows = Annotated[int, Strict(), Field(ge=0, le=INT_MAX)]
_Extents = tuple[_Rows, _Rows, _Rows]


class Groups(Model):
    """Rows of D of each group: `rows`, or `tokens` rows that are drawn for one of `experts` each, by Zipf's law. Or `extents`, M, N
    and K of each group."""

    rows: Annotated[tuple[_Rows, ...], BeforeValidator(not_empty)] | None = Field(
        default=None, description="groups is a list of the rows of each group, 0 or more, e.g. [300, 0, 17]"
    )
    extents: Annotated[tuple[_Extents, ...], BeforeValidator(not_empty)] | None = Field(
        default=None, description="groups is a list of [M, N, K] of each group, 0 or more, e.g. [[300, 64, 128], [0, 64, 128]]"
    )
    experts: Annotated[int, Strict(), Field(ge=1, le=MOST_GROUPS)] | None = Field(
        default=None, description=f"experts is the number of groups, 1 to {MOST_GROUPS}"
    )
    tokens: Annotated[int, Strict(), Field(ge=0, le=1 << 24)] | None = Field(
        default=None, description="tokens is the number of rows of all groups together, at most 16777216"
    )
    exponent: Annotated[Number, Field(ge=0, le=8)] = Field(
        default=1.0,
        description="exponent is that of Zipf's law, 0 to 8: the group of rank r gets a row with a probability proportional to "
        "1 / r^exponent",
    )
    seed: Annotated[int, Strict(), Field(ge=0, le=INT_MAX)] = Field(
        default=1, description="seed is an integer of at least 0; another seed draws other sizes"
    )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of each group."""
        if self.extents is not None:
            return tuple(m for m, _, _ in self.extents)
        return self.rows if self.rows is not None else _drawn(self.experts or 0, self.tokens or 0, self.exponent, self.seed)

    def shapes(self, n: int, k: int) -> tuple[tuple[int, int, int], ...]:
        """M, N and K of each group; n and k where groups differ in their rows alone."""
        return self.extents if self.extents is not None else tuple((rows, n, k) for rows in self.sizes)

    @property
    def text(self) -> str:
        """`70+0+129`, `70x64x32+0x64x32`, or `64 by Zipf's law, 4096 rows`."""
        if self.extents is not None:
            each = ["x".join(map(str, one)) for one in self.extents]
            return "+".join(each) if len(each) <= _SHOWN else f"{len(each)} of {sum(self.sizes)} rows"
        if self.rows is None:
            return f"{self.experts} by Zipf's law, {self.tokens} rows"
        return "+".join(map(str, self.rows)) if len(self.rows) <= _SHOWN else f"{len(self.rows)} of {sum(self.rows)} rows"

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        return {"extents" if value and isinstance(value[0], (list, tuple)) else "rows": value}

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Groups:
        drawn = self.experts is not None and self.tokens is not None
        partly = self.experts is not None or self.tokens is not None
        listed = self.rows is not None or self.extents is not None
        if listed == drawn or (listed and partly) or (self.rows is not None and self.extents is not None):
            raise refuse(
                "groups are neither listed nor drawn",
                "use a list of rows, e.g. [300, 0, 17], or {experts: 64, tokens: 4096, exponent: 1.0, seed: 1}",
            )
        if listed and len(self.sizes) > MOST_GROUPS:
            raise refuse(f"{len(self.sizes)} groups", f"at most {MOST_GROUPS}")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> Any:
        written = handler(self)
        if self.extents is not None:
            return [list(one) for one in self.extents]
        if self.rows is not None:
            return list(self.rows)
        return {key: value for key, value in written.items() if key not in ("rows", "extents")}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        sizes = {"type": "integer", "minimum": 0, "maximum": INT_MAX}
        mapping = handler.resolve_ref_schema(handler(schema))
        mapping["properties"].pop("rows")
        mapping["properties"].pop("extents")
        for key in ("experts", "tokens"):
            about = mapping["properties"][key]  # of a mapping, neither may be null
            mapping["properties"][key] = about["anyOf"][0] | {name: about[name] for name in ("description", "title")}
        mapping["required"] = ["experts", "tokens"]
        extents = {"type": "array", "items": sizes, "minItems": 3, "maxItems": 3}
        lists = [{"type": "array", "items": one, "minItems": 1, "maxItems": MOST_GROUPS} for one in (sizes, extents)]
        return {"anyOf": [*lists, mapping]}


@cache
def _drawn(experts: int, tokens: int, exponent: float, seed: int) -> tuple[int, ...]:
    """Rows of each expert. The ranks of Zipf's law are dealt to the experts at random."""
    draw = random.Random(seed)
    ranks = list(range(1, experts + 1))
    draw.shuffle(ranks)
    counts = [0] * experts
    for expert in draw.choices(range(experts), [rank**-exponent for rank in ranks], k=tokens):
        counts[expert] += 1
    return tuple(counts)
