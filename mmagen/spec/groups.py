"""The groups of a problem of a grouped kernel: how many rows each has, listed or drawn by Zipf's law."""

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


class Groups(Model):
    """Rows of D of each group: `rows`, or `tokens` rows that are drawn for one of `experts` each, by Zipf's law."""

    rows: Annotated[tuple[_Rows, ...], BeforeValidator(not_empty)] | None = Field(
        default=None, description="groups is a list of the rows of each group, 0 or more, e.g. [300, 0, 17]"
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
        return self.rows if self.rows is not None else _drawn(self.experts or 0, self.tokens or 0, self.exponent, self.seed)

    @property
    def text(self) -> str:
        """`70+0+129`, or `64 by Zipf's law, 4096 rows`."""
        if self.rows is None:
            return f"{self.experts} by Zipf's law, {self.tokens} rows"
        return "+".join(map(str, self.rows)) if len(self.rows) <= _SHOWN else f"{len(self.rows)} of {sum(self.rows)} rows"

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        return {"rows": value} if isinstance(value, (list, tuple)) else value

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Groups:
        drawn = self.experts is not None and self.tokens is not None
        if (self.rows is not None) == drawn or (self.rows is not None and (self.experts or self.tokens is not None)):
            raise refuse(
                "groups are neither listed nor drawn",
                "use a list of rows, e.g. [300, 0, 17], or {experts: 64, tokens: 4096, exponent: 1.0, seed: 1}",
            )
        if self.rows is not None and len(self.rows) > MOST_GROUPS:
            raise refuse(f"{len(self.rows)} groups", f"at most {MOST_GROUPS}")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> Any:
        written = handler(self)
        return list(self.rows) if self.rows is not None else {key: value for key, value in written.items() if key != "rows"}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        sizes = {"type": "integer", "minimum": 0, "maximum": INT_MAX}
        mapping = handler.resolve_ref_schema(handler(schema))
        mapping["properties"].pop("rows")
        mapping["required"] = ["experts", "tokens"]
        return {"anyOf": [{"type": "array", "items": sizes, "minItems": 1, "maxItems": MOST_GROUPS}, mapping]}


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
