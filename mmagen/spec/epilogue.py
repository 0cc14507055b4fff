"""The epilogue of a spec: a mapping of D's type and contiguous mode, or a list of operations on accumulators, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    Strict,
    model_serializer,
    model_validator,
)

from mmagen.core.instead import instead, like
from mmagen.spec.values import Model, Name, Number, interval, not_empty, refuse, two

_RealType = Literal["f16", "bf16", "f32", "f64", "s8", "u8", "s32", "e4m3", "e5m2"]
OutType = Literal[_RealType, "c64"]
TYPES = ", ".join(get_args(OutType))

# Operations without a value, and those with one. An option belongs to the operations that are listed.
WORDS = ("alpha", "beta_c", "relu", "silu", "sigmoid")
VALUED = ("bias", "add", "multiply", "gelu", "gated", "clamp", "amax", "row_sums", "column_sums", "cast")
OPERATIONS = {"words alone": WORDS, "with a value": VALUED}
OPTIONS = {"name": ("bias",), "type": ("bias", "add", "multiply"), "overflow": ("cast",), "major": ("cast",)}
# What gathers values; by default the argument has its name.
GATHERS = ("amax", "row_sums", "column_sums")
# Without a value: what they mean.
_SHORT: dict[str, Any] = {**dict.fromkeys(WORDS, True), "gelu": "erf", **{word: word for word in GATHERS}}
# What a call has already, of one kernel or another.
_CALL = ("a", "b", "c", "d", "m", "n", "k", "batch", "lda", "ldb", "ldc", "ldd", "alpha", "beta", "alpha_device", "beta_device")
_REST = (
    "workspace",
    "workspace_bytes",
    "struct_size",
    "metadata_a",
    "scale_a",
    "scale_b",
    "zero_b",
    "out",
    "stream",
    "self",
    "timeout_s",
)
_TAKEN = frozenset((*_CALL, *_REST))
_PREFIXES = ("ld_", "batch_stride_", "group_")  # of members that belong to others, and of the sizes of groups


def _free(value: str) -> str:
    if value in _TAKEN or value.startswith(_PREFIXES):
        own = f"own_{value}"
        raise refuse(f"{value!r} is the name of another argument", f"use a name of its own, e.g. {own}", meant=own)
    return value


def _check_words(mapping: dict[str, Any]) -> None:
    """Refuse a mapping such as {relu: true}, whose value YAML tools read in several ways."""
    word = next((word for word in WORDS if mapping.get(word) not in (None, True)), "")
    if word:
        raise refuse(f"{word} has no value", f"the word alone, {word}; omit it for none", meant=word)


_Word = Annotated[bool, Strict()] | None
_Argument = Annotated[Name, AfterValidator(_free)] | None


def _word(what: str) -> Any:
    return Field(default=None, description=what)


class Operation(Model):
    """One operation of an epilogue: a word such as relu, or a mapping such as {bias: column, type: f32}."""

    alpha: _Word = _word("alpha multiplies by alpha")
    beta_c: _Word = _word("beta_c adds beta * C")
    relu: _Word = _word("relu is max(x, 0)")
    silu: _Word = _word("silu is x / (1 + exp(-x))")
    sigmoid: _Word = _word("sigmoid is 1 / (1 + exp(-x))")
    bias: Literal["row", "column"] | None = Field(
        default=None, description="bias adds a vector and is row (a value for each row of D) or column (for each column of D)"
    )
    add: _Argument = Field(
        default=None, description="add adds a second matrix; its value is the argument's name, e.g. residual"
    )
    multiply: _Argument = Field(
        default=None, description="multiply multiplies by a second matrix; its value is the argument's name, e.g. gate"
    )
    gelu: Literal["erf", "tanh"] | None = Field(
        default=None, description="gelu is erf (x/2 (1 + erf(x/sqrt 2))) or tanh (its usual approximation)"
    )
    gated: Literal["relu", "gelu", "gelu_tanh", "silu", "sigmoid"] | None = Field(
        default=None,
        description="gated computes f(x) * y, with x from an even column and y from the next one, so that D has half as many "
        "columns; "
        "f is relu, gelu, gelu_tanh, silu or sigmoid",
    )
    clamp: Annotated[tuple[Number | None, Number | None], BeforeValidator(two), AfterValidator(interval)] | None = Field(
        default=None, description="clamp is [least, most], null for no bound, e.g. [0, 6]"
    )
    amax: _Argument = Field(
        default=None,
        description="amax raises a number in device memory to the largest magnitude of x; its value is the argument's name",
    )
    row_sums: _Argument = Field(
        default=None,
        description="row_sums adds x to a number in device memory for each row of D; its value is the argument's name",
    )
    column_sums: _Argument = Field(
        default=None,
        description="column_sums adds x to a number in device memory for each column of D; its value is the argument's name",
    )
    cast: OutType | None = Field(default=None, description=f"cast is the element type of D, one of {TYPES}; it comes last")
    type: _RealType | None = Field(
        default=None,
        description="type is the element type of a bias or a second matrix, one of "
        f"{', '.join(get_args(_RealType))}, or null for D's",
    )
    name: _Argument = Field(default=None, description="the name of a bias is a C identifier, e.g. bias")
    overflow: Literal["saturate", "infinity"] | None = Field(
        default=None,
        description="overflow of a cast is saturate (values too large for D become its largest finite value) or infinity, or "
        "null for the default of D's type: 8-bit types and integers saturate, others do not",
    )
    major: Literal["N", "M"] | None = Field(default=None, description="the contiguous dimension of D (M,N) is N or M")

    @property
    def word(self) -> str:
        """What it does."""
        return next(key for key in (*WORDS, *VALUED) if getattr(self, key) not in (None, False))

    @property
    def tensor(self) -> str:
        """The argument that it reads, or ""."""
        gathered = self.amax or self.row_sums or self.column_sums
        return self.add or self.multiply or gathered or ((self.name or "bias") if self.bias else "")

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        if isinstance(value, dict):
            _check_words(value)
        if not isinstance(value, str):
            return value
        if value in _SHORT and value not in OPTIONS:
            return {value: _SHORT[value]}
        if value in VALUED:
            (word, example), *_ = _EXAMPLES[value].items()
            raise refuse(f"{value} needs a value", f"a mapping, e.g. {{{word}: {example}}}", meant=_EXAMPLES[value])
        near = like(value, (*WORDS, *VALUED), 1)
        remedy = instead(near, OPERATIONS, "the operations are", "mmagen schema")
        raise refuse(f"{value[:80]!r} is no operation", remedy, meant=near[0] if near else "")

    @model_validator(mode="after")
    def _does_one_thing(self) -> Operation:
        found = [key for key in (*WORDS, *VALUED) if getattr(self, key) is not None]
        if not found:
            raise refuse("the mapping has no operation", instead((), OPERATIONS, "the operations are", "mmagen schema"))
        if len(found) > 1:
            raise refuse(f"{' and '.join(found)} are {len(found)} operations", "give each an entry of the list")
        for option, of in OPTIONS.items():
            if getattr(self, option) is not None and found[0] not in of:
                without = self.model_copy(update={option: None})
                remedy = f"omit it; {option} is an option of {', '.join(of)}"
                raise refuse(f"{found[0]} has no {option}", remedy, meant=without.model_dump(mode="json"))
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> Any:
        written = {key: value for key, value in handler(self).items() if value is not None}
        if len(written) == 1 and self.word in WORDS:
            return self.word
        return written

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        mapping = handler.resolve_ref_schema(handler(schema))
        for word in WORDS:
            mapping["properties"].pop(word)
        return {"anyOf": [{"type": "string", "enum": [*WORDS, "gelu", *GATHERS]}, mapping]}


_EXAMPLES: dict[str, dict[str, Any]] = {
    "bias": {"bias": "column"},
    "add": {"add": "residual"},
    "multiply": {"multiply": "gate"},
    "clamp": {"clamp": [0, 6]},
    "gated": {"gated": "silu"},
    "cast": {"cast": "bf16"},
}


def _written(listed: Iterable[Operation]) -> list[Any]:
    """A list of operations as a spec has it."""
    return [one.model_dump(mode="json") for one in listed]


def _with_own_names(listed: Iterable[Operation]) -> Iterator[Operation]:
    """The same operations, of which those with a name that one before them has get one that none has, e.g. bias2."""
    operations = list(listed)
    taken = {one.tensor for one in operations}
    seen: set[str] = set()
    for one in operations:
        if one.tensor and one.tensor in seen:
            own = next(name for i in count(2) if (name := f"{one.tensor}{i}") not in taken)
            taken.add(own)
            yield one.model_copy(update={"name" if one.bias else one.word: own})
        else:
            yield one
        seen.add(one.tensor)


def _with_cast(written: dict[str, Any]) -> dict[str, Any]:
    """A mapping of operations beside out and major as the list that a spec is printed with: these two in a cast at its end."""
    others = {key: value for key, value in written.items() if key in ("out", "major") and value is not None}
    if not others:
        return written
    operations = [*written["operations"]]
    if any(isinstance(one, dict) and "cast" in one for one in operations):
        raise refuse(f"{' and '.join(others)} beside a list with a cast", "write the type and the contiguous mode in the cast")
    if "out" not in others:
        raise refuse("major beside a list without a cast", "end the list with a cast, e.g. {cast: f32, major: M}")
    cast = {"cast": others["out"], **({"major": others["major"]} if "major" in others else {})}
    return {**{key: value for key, value in written.items() if key not in others}, "operations": [*operations, cast]}


def _as_list(written: dict[str, Any], found: list[str]) -> list[Any]:
    """The list that a mapping with the operations `found` as its keys stands for: with the scalars of an epilogue without a list
    unless it has some, and with D's type in a cast at its end."""
    scalars = () if {"alpha", "beta_c"} & {*found} else ("alpha",) if "gated" in found else ("alpha", "beta_c")
    operations = [key if key in WORDS else {key: written[key]} for key in found if key != "cast"]
    cast = {
        key: written[of] for key, of in (("cast", "cast" if "cast" in found else "out"), ("major", "major")) if written.get(of)
    }
    return [*scalars, *operations, *([cast] if "cast" in cast else [])]


# Each is a template within the one before it; nvcc takes hundreds, and minutes for them.
MOST_OPERATIONS = 32


class Epilogue(Model):
    """How accumulators are converted and stored to D: D's type and contiguous mode; or the operations on each value, in order,
    with those two in the cast that ends them."""

    out: OutType | None = Field(
        default=None,
        description=f"the element type of D is one of {TYPES}, or null for the atom's own",
    )
    major: Literal["N", "M"] = Field(default="N", description="the contiguous dimension of D (M,N) is N or M")
    operations: Annotated[tuple[Operation, ...], BeforeValidator(not_empty)] | None = Field(
        default=None, description="the operations are a list, e.g. [alpha, {bias: column}, relu, {cast: bf16}]"
    )

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        written = {"operations": value} if isinstance(value, (list, tuple)) else value
        if isinstance(written, dict) and (found := [key for key in written if key in (*WORDS, *VALUED)]):
            raise refuse(
                f"{found[0]} is an operation, and operations are a list",
                "e.g. [alpha, {bias: column}, relu, {cast: bf16}]",
                meant=_as_list(written, found),
            )
        if not isinstance(written, dict) or not isinstance(written.get("operations"), (list, tuple)):
            return written
        written = _with_cast(written)
        if (many := len(written["operations"])) > MOST_OPERATIONS:
            raise refuse(f"the list has {many} operations", f"at most {MOST_OPERATIONS}")
        return written

    @model_validator(mode="after")
    def _in_order(self) -> Epilogue:
        listed = self.operations or ()
        words = [one.word for one in listed]
        for word in ("alpha", "beta_c", "cast"):
            if words.count(word) > 1:
                kept = [one for i, one in enumerate(listed) if one.word != word or word not in words[:i]]
                raise refuse(f"{word} is in the list {words.count(word)} times", "list it once", meant=_written(kept))
        if "cast" in words[:-1]:
            last = sorted(listed, key=lambda one: one.word == "cast")
            raise refuse("a cast is followed by other operations", "make the cast the last of the list", meant=_written(last))
        names = [one.tensor for one in listed if one.tensor]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise refuse(
                f"{', '.join(twice)} is the name of several arguments",
                "give each a name of its own, e.g. name: bias2",
                meant=_written(_with_own_names(listed)),
            )
        cast = listed[-1] if listed and listed[-1].cast else None
        # Whoever asks for D's type and contiguous mode finds them in either form.
        return self.model_copy(update={"out": cast.cast, "major": cast.major or "N"}) if cast else self

    def without_out(self) -> Epilogue:
        """The same with a D of the accumulators' type."""
        if self.operations is None:
            return self.model_copy(update={"out": None})
        return self.model_copy(update={"out": None, "operations": tuple(one for one in self.operations if not one.cast)})

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> Any:
        written = handler(self)
        operations = written.pop("operations", None)  # absent where only what is set is written
        return written if operations is None else operations

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        mapping = handler.resolve_ref_schema(handler(schema))
        listed = mapping["properties"].pop("operations")["anyOf"][0]
        return {"anyOf": [{**listed, "minItems": 1, "maxItems": MOST_OPERATIONS}, mapping]}
