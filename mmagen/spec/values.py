"""Validators of single values of a spec: names, triples, layouts, architectures."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    PlainSerializer,
    Strict,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError, core_schema

from mmagen.core.layout_text import INT_MAX, LayoutText
from mmagen.spec.meant import layout_of, name_of

# The `type` of every error raised in this module; its context holds `what` and, if it differs from the field's description,
# `remedy`.
REFUSED = "mmagen_refused"


def refuse(what: str, remedy: str = "", meant: Any = "") -> PydanticCustomError:
    """meant: the legal value that was probably intended, "" for none."""
    text = "{what}; {remedy}" if remedy else "{what}"
    return PydanticCustomError(REFUSED, text, {"what": what, "remedy": remedy, "meant": meant})


class Model(BaseModel):
    """Base of the models of a spec's mappings: immutable, unknown keys are refused."""

    # Only Spec validates, and contains all others; building a validator for each would cost time.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


_KEYWORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t
class co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch template
this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void
volatile wchar_t while xor xor_eq"""
# A namespace of these names would break the generated code; gcc predefines `linux` and `unix` as macros.
_NAMESPACES = "mmagen std cute cutlass cuda main linux unix"
# The name is a CMake target as well (policy CMP0037).
_TARGETS = """all clean edit_cache help install list_install_components package package_source rebuild_cache test
ALL_BUILD INSTALL PACKAGE RUN_TESTS ZERO_CHECK"""
RESERVED_TARGETS = frozenset(_TARGETS.split())
RESERVED_NAMES = RESERVED_TARGETS | frozenset(f"{_KEYWORDS} {_NAMESPACES}".split())
# Of CUDA's and CUTLASS's headers; all other names at global scope are in global_names.txt.
_GLOBAL_PREFIXES = re.compile(r"cuda[A-Z]|cu[A-Z]|CU[A-Za-z0-9_]|CUTE_|CUTLASS_|atomic[A-Z]|pthread_")
_NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,63}$"


@cache
def _global_names() -> frozenset[str]:
    """What a namespace cannot be called beside the headers that generated code includes."""
    lines = Path(__file__).with_name("global_names.txt").read_text("utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def _name(value: str) -> str:
    if re.search(r"[/\\:]|^\.", value):
        raise refuse(f"{value[:80]!r} is a path, which could lead out of the output folder")
    if value in RESERVED_NAMES:
        raise refuse(f"{value!r} is reserved in C++, CMake or the generated code", meant=f"my_{value}")
    if value in _global_names() or _GLOBAL_PREFIXES.match(value):
        raise refuse(f"{value!r} is declared by a header of C, CUDA or CUTLASS", f"e.g. my_{value[:61]}", f"my_{value[:61]}")
    if not re.fullmatch(_NAME_PATTERN.rstrip("$"), value):
        long = f" ({len(value)} characters)" if len(value) > 64 else ""
        raise refuse(
            f"{value[:80]!r}{long} is not a C identifier of 1 to 64 characters that starts with a letter", meant=name_of(value)
        )
    return value


def checked_version(value: int) -> int:
    if value != 1:
        raise refuse(f"version {value} is not supported by this mmagen")
    return value


def _of_length(length: int) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        # pydantic would report a short list at the missing entry.
        if isinstance(value, (list, tuple)) and len(value) != length:
            raise refuse(f"the list has {len(value)} {'entry' if len(value) == 1 else 'entries'}, not {length}")
        return value

    return check


two, three = _of_length(2), _of_length(3)


def parts_of_k(value: Any) -> Any:
    """Refuses what is neither a number of parts nor `auto`, in one sentence."""
    if value is None or value == "auto" or (type(value) is int and 1 <= value <= INT_MAX):
        return value
    if type(value) is int:
        raise refuse(f"{value} is too {'small, the minimum is 1' if value < 1 else f'large, the maximum is {INT_MAX}'}")
    raise refuse(f"{str(value)[:80]!r} is neither an integer nor auto")


def not_empty(value: Any) -> Any:
    # pydantic would count only valid entries.
    if isinstance(value, (list, tuple)) and not value:
        raise refuse("the list is empty")
    return value


def interval(value: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
    """Refuses one without a bound, and an empty one."""
    low, high = value
    if low is None and high is None:
        raise refuse("the interval has no bound")
    if low is not None and high is not None and low > high:
        raise refuse(f"the interval from {low:.15g} to {high:.15g} is empty", meant=[high, low])
    return value


def _unique(value: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({item for item in value if value.count(item) > 1})
    if twice:
        raise refuse(f"{', '.join(twice)} is listed twice")
    return value


def _layout_text(value: str) -> LayoutText:
    try:
        layout = LayoutText.parse(value)
    except ValueError as error:
        raise refuse(f"{value[:80]!r} is not a CuTe layout: {error}", meant=layout_of(value)) from None
    if layout.size > INT_MAX:
        raise refuse(f"{value[:80]!r} has {layout.size} elements, at most {INT_MAX} are allowed")
    return layout


def _atoms_layout(value: Any, handler: Callable[[Any], tuple[int, int, int]]) -> LayoutText:
    if isinstance(value, str):
        value = _layout_text(value)
    layout = value if isinstance(value, LayoutText) else LayoutText.compact(handler(value))
    if layout.rank != 3:
        raise refuse(f"{layout} has rank {layout.rank}, not 3")
    return layout


def _permutation_mode(value: Any) -> int | LayoutText | None:
    if value is None or value == "_":
        return None
    if isinstance(value, LayoutText):
        return value
    if isinstance(value, str):
        return _layout_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= INT_MAX:
            raise refuse(f"{value} is out of range, 1 to {INT_MAX} are allowed")
        return value
    raise PydanticCustomError("permutation_type", "neither an integer, null nor a CuTe layout")


_LAYOUT_PATTERN = r"^\s*[(_0-9][(),_0-9\s]*(:[(),_0-9\s]+)?$"
_LAYOUT3_PATTERN = r"^\s*\([(),_0-9\s]*\)\s*(:\s*\([(),_0-9\s]*\)\s*)?$"
_ARCH_PATTERN = r"^sm_[0-9]{2,3}[af]?$"
COUNT_SCHEMA = {"type": "integer", "minimum": 1, "maximum": INT_MAX}

Count = Annotated[int, Strict(), Field(ge=1, le=INT_MAX)]
Triple = Annotated[tuple[Count, Count, Count], BeforeValidator(three)]
Pair = Annotated[tuple[Count, Count], BeforeValidator(two)]
Number = Annotated[float, Strict(), AllowInfNan(False)]
Arch = Annotated[str, StringConstraints(pattern=_ARCH_PATTERN)]
Archs = Annotated[
    tuple[Arch, ...],
    BeforeValidator(not_empty),
    AfterValidator(_unique),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string", "pattern": _ARCH_PATTERN},
            "minItems": 1,
            "uniqueItems": True,
        }
    ),
]
Name = Annotated[
    str,
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": _NAME_PATTERN, "not": {"enum": sorted(RESERVED_NAMES)}}),
]
AtomsLayout = Annotated[
    LayoutText,
    GetPydanticSchema(
        lambda _, handler: core_schema.no_info_wrap_validator_function(_atoms_layout, handler.generate_schema(Triple))
    ),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": COUNT_SCHEMA, "minItems": 3, "maxItems": 3},
                {"type": "string", "pattern": _LAYOUT3_PATTERN},
            ]
        }
    ),
]
PermutationMode = Annotated[
    int | LayoutText | None,
    GetPydanticSchema(lambda _, __: core_schema.no_info_plain_validator_function(_permutation_mode)),
    PlainSerializer(lambda mode: str(mode) if isinstance(mode, LayoutText) else mode),
    WithJsonSchema({"anyOf": [COUNT_SCHEMA, {"type": "null"}, {"type": "string", "pattern": f"^_$|{_LAYOUT_PATTERN}"}]}),
]
