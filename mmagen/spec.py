"""The shape of a spec, version 1: keys, types and enumerations. Nothing in here knows an atom.

Every field's description is written to be read twice: `mmagen schema` prints it, and `mmagen.load` ends its
refusals with it, so each one says what would be right and shows an example.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    GetPydanticSchema,
    PlainSerializer,
    Strict,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError, core_schema

from mmagen.layout_text import INT_MAX, LayoutText

# The `type` of every error raised by hand in here; its context holds `what` and, if there is a better one than the
# field's description, `remedy`.
REFUSED = "mmagen_refused"


def _refuse(what: str, remedy: str = "") -> PydanticCustomError:
    text = "{what}; {remedy}" if remedy else "{what}"
    return PydanticCustomError(REFUSED, text, {"what": what, "remedy": remedy})


# --- Enumerations --------------------------------------------------------------------------------------------------


class DataType(StrEnum):
    """Element types of operands and results."""

    F16 = "f16"
    BF16 = "bf16"
    TF32 = "tf32"
    F32 = "f32"
    F64 = "f64"
    S8 = "s8"
    U8 = "u8"
    S16 = "s16"
    S32 = "s32"
    E4M3 = "e4m3"
    E5M2 = "e5m2"


OutType = Literal[
    DataType.F16,
    DataType.BF16,
    DataType.F32,
    DataType.F64,
    DataType.S8,
    DataType.U8,
    DataType.S32,
    DataType.E4M3,
    DataType.E5M2,
]
Kernel = Literal["ownership", "micro", "gemm"]

# letters -> the contiguous dimension of A (M,K) and of B (N,K)
LAYOUTS = {"TN": ("K", "K"), "NT": ("M", "N"), "NN": ("M", "K"), "TT": ("K", "N")}

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
RESERVED_NAMES = frozenset(f"{_KEYWORDS} {_NAMESPACES} {_TARGETS}".split())
_NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,63}$"


# --- Validators of single values -----------------------------------------------------------------------------------


def _name(value: str) -> str:
    if re.search(r"[/\\:]|^\.", value):
        raise _refuse(f"{value[:80]!r} is a path, and could lead out of the output folder")
    if value in RESERVED_NAMES:
        raise _refuse(f"{value!r} is a word of C++, CMake or the generated code")
    if not re.fullmatch(_NAME_PATTERN.rstrip("$"), value):
        long = f" ({len(value)} characters)" if len(value) > 64 else ""
        raise _refuse(f"{value[:80]!r}{long} is no C identifier of 1 to 64 characters that starts with a letter")
    return value


def _version(value: int) -> int:
    if value != 1:
        raise _refuse(f"version {value} is not known to this mmagen")
    return value


def _three(value: Any) -> Any:
    # pydantic would report a short list at the entry that is not there.
    if isinstance(value, (list, tuple)) and len(value) != 3:
        raise _refuse(f"the list has {len(value)} {'entry' if len(value) == 1 else 'entries'}, not 3")
    return value


def _some(value: Any) -> Any:
    # pydantic would count only the entries that are right.
    if isinstance(value, (list, tuple)) and not value:
        raise _refuse("the list is empty")
    return value


def _unique(value: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({item for item in value if value.count(item) > 1})
    if twice:
        raise _refuse(f"{', '.join(twice)} is listed twice")
    return value


def _layout_text(value: str) -> LayoutText:
    try:
        layout = LayoutText.parse(value)
    except ValueError as error:
        raise _refuse(f"{value[:80]!r} is no CuTe layout: {error}") from None
    if layout.size > INT_MAX:
        raise _refuse(f"{value[:80]!r} has {layout.size} elements, at most {INT_MAX} make sense")
    return layout


def _atoms_layout(value: Any, handler: Callable[[Any], tuple[int, int, int]]) -> LayoutText:
    if isinstance(value, str):
        value = _layout_text(value)
    layout = value if isinstance(value, LayoutText) else LayoutText.compact(handler(value))
    if layout.rank != 3:
        raise _refuse(f"{layout} has rank {layout.rank}, not 3")
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
            raise _refuse(f"{value} is out of range, 1 to {INT_MAX} are allowed")
        return value
    raise PydanticCustomError("permutation_type", "neither an integer, null nor a CuTe layout")


_LAYOUT_PATTERN = r"^\s*[(_0-9][(),_0-9\s]*(:[(),_0-9\s]+)?$"
_LAYOUT3_PATTERN = r"^\s*\([(),_0-9\s]*\)\s*(:\s*\([(),_0-9\s]*\)\s*)?$"
_ARCH_PATTERN = r"^sm_[0-9]{2,3}[af]?$"
_COUNT = {"type": "integer", "minimum": 1, "maximum": INT_MAX}

Count = Annotated[int, Strict(), Field(ge=1, le=INT_MAX)]
Triple = Annotated[tuple[Count, Count, Count], BeforeValidator(_three)]
Number = Annotated[float, Strict(), AllowInfNan(False)]
Arch = Annotated[str, StringConstraints(pattern=_ARCH_PATTERN)]
Archs = Annotated[
    tuple[Arch, ...],
    BeforeValidator(_some),
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
                {"type": "array", "items": _COUNT, "minItems": 3, "maxItems": 3},
                {"type": "string", "pattern": _LAYOUT3_PATTERN},
            ]
        }
    ),
]
PermutationMode = Annotated[
    int | LayoutText | None,
    GetPydanticSchema(lambda _, __: core_schema.no_info_plain_validator_function(_permutation_mode)),
    PlainSerializer(lambda mode: str(mode) if isinstance(mode, LayoutText) else mode),
    WithJsonSchema({"anyOf": [_COUNT, {"type": "null"}, {"type": "string", "pattern": f"^_$|{_LAYOUT_PATTERN}"}]}),
]


# --- The models ----------------------------------------------------------------------------------------------------


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Layout(_Model):
    """Which dimension of A (M,K) and of B (N,K) is contiguous in memory. Written as BLAS letters or spelled out."""

    a_major: Literal["K", "M"] = Field(alias="a", description="the contiguous dimension of A (M,K) is K or M")
    b_major: Literal["K", "N"] = Field(alias="b", description="the contiguous dimension of B (N,K) is K or N")

    @property
    def letters(self) -> str:
        """TN, NT, NN or TT, in the convention of BLAS and CuTe."""
        return next(letters for letters, majors in LAYOUTS.items() if majors == (self.a_major, self.b_major))

    def __str__(self) -> str:
        return f"{self.letters} (A {self.a_major}-contiguous, B {self.b_major}-contiguous)"

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value not in LAYOUTS:
            raise _refuse(f"{value[:80]!r} is none of {', '.join(LAYOUTS)}")
        return dict(zip("ab", LAYOUTS[value], strict=True))

    @model_serializer
    def _as_letters(self) -> str:
        return self.letters

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "enum": list(LAYOUTS)}, handler(schema)]}


class Epilogue(_Model):
    """What becomes of the accumulators on their way to memory."""

    out: OutType | None = Field(
        default=None,
        description=f"the element type of D is one of {', '.join(get_args(OutType))}, or null for the atom's own",
    )
    major: Literal["N", "M"] = Field(default="N", description="the contiguous dimension of D (M,N) is N or M")


class Problem(_Model):
    """One matrix multiply that verify runs: D = alpha * A @ B^T + beta * C, `batch` times."""

    shape: Triple = Field(description="a problem's shape is [M, N, K] in elements, e.g. [1024, 512, 64]")
    batch: Count = Field(default=1, description="the number of independent multiplies is an integer, at least 1")
    ld_pad: Annotated[int, Strict(), Field(ge=0, le=INT_MAX)] = Field(
        default=0, description="ld_pad is the number of elements added to every leading dimension, at least 0"
    )
    offset: Annotated[int, Strict(), Field(ge=0, le=64)] = Field(
        default=0,
        description="offset is the number of elements, 0 to 64, by which every pointer is moved off its alignment",
    )
    alpha: Number = Field(default=1.0, description="alpha is a finite number, the factor of A @ B^T, e.g. 1.0")
    beta: Number = Field(default=0.0, description="beta is a finite number, the factor of C, e.g. 0.0")

    @property
    def m(self) -> int:
        """Rows of D."""
        return self.shape[0]

    @property
    def n(self) -> int:
        """Columns of D."""
        return self.shape[1]

    @property
    def k(self) -> int:
        """Length of the sums."""
        return self.shape[2]

    @property
    def text(self) -> str:
        """`1024x512x64`, and of the rest only what is not the default: ` b3 ld+8 off+1 alpha=2 beta=-1`."""
        rest = (
            (self.batch != 1, f" b{self.batch}"),
            (self.ld_pad != 0, f" ld+{self.ld_pad}"),
            (self.offset != 0, f" off+{self.offset}"),
            (self.alpha != 1, f" alpha={repr(self.alpha).removesuffix('.0')}"),
            (self.beta != 0, f" beta={repr(self.beta).removesuffix('.0')}"),
        )
        return "x".join(map(str, self.shape)) + "".join(text for given, text in rest if given)

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        if not 3 <= len(value) <= 4:
            raise _refuse(f"the list has {len(value)} {'entry' if len(value) == 1 else 'entries'}, not 3 or 4")
        return {"shape": value[:3]} | ({"batch": value[3]} if len(value) == 4 else {})

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "array", "items": _COUNT, "minItems": 3, "maxItems": 4}, handler(schema)]}


class Spec(_Model):
    """One kernel to generate, as the user wrote it, with nothing decided but the defaults."""

    mmagen: Annotated[int, Strict(), AfterValidator(_version), WithJsonSchema({"const": 1})] = Field(
        description="mmagen is the version of the spec format and is 1"
    )
    name: Name = Field(description="the name is one C identifier, e.g. sm80_gemm_f16_tn")
    kernel: Kernel = Field(description="the kernel is ownership, micro or gemm")
    atom: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,256}$")] = Field(
        description="the atom is the exact CuTe operation name, e.g. SM80_16x8x16_F32F16F16F32_TN"
    )
    layout: Layout = Field(
        default=Layout(a="K", b="K"),
        description="the layout is TN, NT, NN or TT, or spelled out as {a: K, b: K} with a K or M and b K or N",
    )
    # Declared after `kernel`, which decides whether it may be left out.
    tile: Triple | None = Field(
        default=None, description="the CTA tile is [M, N, K] in elements, e.g. [128, 128, 32]", validate_default=True
    )
    atoms_layout: AtomsLayout = Field(
        default=LayoutText.compact((1, 1, 1)),
        description="atoms_layout is how many atoms stand in M, N and K, e.g. [2, 2, 1], or a CuTe layout of rank 3, "
        'e.g. "(2,2,1):(1,2,4)"',
        json_schema_extra={"default": [1, 1, 1]},
    )
    permutation: Annotated[tuple[PermutationMode, PermutationMode, PermutationMode], BeforeValidator(_three)] = Field(
        default=(None, None, None),
        description="the permutation has one entry each for M, N and K: an integer, null, or a CuTe layout in quotes, "
        'e.g. [32, null, "(4,4,2):(1,8,4)"]',
    )
    stages: Annotated[int, Strict(), Field(ge=2, le=INT_MAX)] | None = Field(
        default=None,
        description="stages is the depth of the pipeline, an integer of at least 2, or null to let mmagen choose",
    )
    ctas_per_sm: Annotated[int, Strict(), Field(ge=1, le=16)] | None = Field(
        default=None,
        description="ctas_per_sm is how many CTAs should fit on one SM, 1 to 16, or null for no such target",
    )
    raster: Annotated[int, Strict(), Field(ge=1, le=INT_MAX)] | None = Field(
        None, description="raster is how many rows of CTA tiles one band of the grid spans, at least 1, or null for 8"
    )
    epilogue: Epilogue = Field(default=Epilogue(), description="the epilogue is a mapping, e.g. {out: f16, major: N}")
    arch: Archs | None = Field(
        default=None,
        description="arch is a list of GPU architectures, e.g. [sm_80, sm_90a], or null for what the atom needs",
    )
    problems: Annotated[tuple[Problem, ...], BeforeValidator(_some)] | None = Field(
        default=None,
        description="problems is a list, each [M, N, K], [M, N, K, batch] or a mapping such as "
        "{shape: [1024, 512, 64], ld_pad: 8}",
    )

    @field_validator("tile", mode="after")
    @classmethod
    def _gemm_has_a_tile(cls, tile: Any, info: ValidationInfo) -> Any:
        if tile is None and info.data.get("kernel") == "gemm":
            raise _refuse("kernel gemm needs a tile")
        return tile


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a spec file: what `mmagen.load` accepts, short forms included.

    Three rules are beyond JSON Schema and stay with the loader: how the modes of a layout string nest, that 3.0 is
    no integer, and what YAML itself allows (anchors, tags, several documents).
    """
    schema = Spec.model_json_schema(by_alias=True, mode="validation")
    schema["properties"]["problems"]["anyOf"][0]["minItems"] = 1
    tile = {"required": ["tile"], "properties": {"tile": {"not": {"type": "null"}}}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "if": {"required": ["kernel"], "properties": {"kernel": {"const": "gemm"}}},
        "then": tile,
    }
