"""The spec format, version 1: keys, types and enumerations. Rules that depend on the atom are elsewhere.

Every field's description has two uses: `mmagen schema` prints it, and `mmagen.spec.load` appends it to faults as the remedy. So
each description states the legal values and shows an example.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    Strict,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)

from mmagen.core.instead import instead
from mmagen.core.layout_text import INT_MAX, LayoutText
from mmagen.spec.epilogue import OPERATIONS, OPTIONS, Epilogue
from mmagen.spec.groups import Groups
from mmagen.spec.kernel import (
    CACHE,
    Atom,
    Atoms,
    Cache,
    Cluster,
    Config,
    CtasPerSm,
    Operands,
    Permutation,
    Prefetch,
    Raster,
    Schedule,
    Sparse,
    SplitK,
    Stages,
    StreamK,
    Tile,
    Warpgroups,
)
from mmagen.spec.registered import KERNELS
from mmagen.spec.scale import SCALE, Scale
from mmagen.spec.values import COUNT_SCHEMA, Archs, Count, Model, Name, Number, Triple, checked_version, not_empty, refuse
from mmagen.spec.weights import WEIGHTS, Weights

# --- Enumerations --------------------------------------------------------------------------------------------------


if TYPE_CHECKING:
    Kernel = str
else:
    Kernel = Literal[KERNELS]

# Keys that require a wgmma atom (sm_90a).
WGMMA_KEYS = (
    "schedule",
    "cluster",
    "split_k",
    "stream_k",
    "operands",
    "prefetch",
    "cache",
    "warpgroups",
    "accumulation",
    "sparse",
    "scale",
    "weights",
    "split",
    "grouped",
)

# Keys of a spec, of its configs and of operations by what they are about.
_GROUPS: dict[str, Sequence[str]] = {
    "the kernel": ("mmagen", "name", "kernel", "arch", "problems", "configs", "when", "cost"),
    "the operation, its types": ("atom", "layout", "accumulation", "sparse", "scale", "weights", "split"),
    "a CTA's tile": ("tile", "atoms_layout", "permutation", "warpgroups", "cluster", "clusters", "ctas_per_sm"),
    "loads": ("stages", "schedule", "operands", "prefetch", "cache"),
    "work of CTAs": ("raster", "split_k", "stream_k", "grouped"),
    "D": ("epilogue",),
}


def grouped_keys(known: Sequence[str]) -> Mapping[str, Sequence[str]] | Sequence[str]:
    """Known keys of a mapping; those of a spec, a config or an operation by what they are about."""
    for groups in (_GROUPS, {**OPERATIONS, "options": tuple(OPTIONS)}):
        mine = {group: [key for key in keys if key in known] for group, keys in groups.items()}
        if sum(map(len, mine.values())) == len(known):
            return mine
    return known


# letters -> the contiguous dimension of A (M,K) and of B (N,K)
LAYOUTS = {"TN": ("K", "K"), "NT": ("M", "N"), "NN": ("M", "K"), "TT": ("K", "N")}


# --- The models ----------------------------------------------------------------------------------------------------


class Layout(Model):
    """The contiguous dimensions of A (M,K) and B (N,K), written as BLAS letters or as a mapping."""

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
            meant = value.strip().upper() if value.strip().upper() in LAYOUTS else ""
            remedy = instead([meant] if meant else [], list(LAYOUTS), "the layouts are")
            raise refuse(f"{value[:80]!r} is not a legal value", f"{remedy}, or a mapping, e.g. {{a: K, b: K}}", meant=meant)
        return dict(zip("ab", LAYOUTS[value], strict=True))

    @model_serializer
    def _as_letters(self) -> str:
        return self.letters

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "enum": list(LAYOUTS)}, handler(schema)]}


MATRICES = "abcd"
BATCH_STRIDES = tuple(f"batch_stride_{name}" for name in MATRICES)
BatchStride = Annotated[int, Strict(), Field(ge=0, le=1 << 40)] | None


def _batch_stride(name: str) -> Any:
    shared = "" if name == "D" else f"0 for one {name} that all share, or "
    return Field(
        default=None,
        description=f"batch_stride_{name.lower()} is the number of elements from one {name} to the next: {shared}"
        "at least a matrix with its padding; omit it for matrices that follow each other",
    )


class Problem(Model):
    """One matrix multiply for verify to run: D = alpha * A @ B^T + beta * C, `batch` times."""

    shape: Triple = Field(description="a problem's shape is [M, N, K] in elements, e.g. [1024, 512, 64]")
    batch: Count = Field(default=1, description="the number of independent multiplies is an integer, at least 1")
    ld_pad: Annotated[int, Strict(), Field(ge=0, le=INT_MAX)] = Field(
        default=0, description="ld_pad is the number of elements added to every leading dimension, at least 0"
    )
    offset: Annotated[int, Strict(), Field(ge=0, le=64)] = Field(
        default=0,
        description="offset is the number of elements, 0 to 64, by which every pointer is shifted from its alignment",
    )
    alpha: Number = Field(default=1.0, description="alpha is a finite number, the factor of A @ B^T, e.g. 1.0")
    beta: Number = Field(default=0.0, description="beta is a finite number, the factor of C, e.g. 0.0")
    batch_stride_a: BatchStride = _batch_stride("A")
    batch_stride_b: BatchStride = _batch_stride("B")
    batch_stride_c: BatchStride = _batch_stride("C")
    batch_stride_d: BatchStride = _batch_stride("D")
    groups: Groups | None = Field(
        default=None,
        description="groups, of a grouped kernel, is a list of the rows of each group, e.g. [300, 0, 17], or a mapping such as "
        "{experts: 64, tokens: 4096, exponent: 1.0, seed: 1} for sizes by Zipf's law; with grouped pointers also of [M, N, K]",
    )

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
        """Length of the reduction."""
        return self.shape[2]

    @property
    def batch_strides(self) -> tuple[int, ...]:
        """Of A, B, C and D; -1 for matrices one behind the other."""
        return tuple(-1 if (stride := getattr(self, key)) is None else stride for key in BATCH_STRIDES)

    @property
    def has_batch_strides(self) -> bool:
        """Is one of them set?"""
        return any(stride >= 0 for stride in self.batch_strides)

    @property
    def text(self) -> str:
        """`1024x512x64`, followed by what differs from the defaults: ` b3 ld+8 off+1 alpha=2 beta=-1`."""
        rest = (
            (self.batch != 1 and not self.groups, f" b{self.batch}"),
            (self.ld_pad != 0, f" ld+{self.ld_pad}"),
            (self.offset != 0, f" off+{self.offset}"),
            (self.alpha != 1, f" alpha={repr(self.alpha).removesuffix('.0')}"),
            (self.beta != 0, f" beta={repr(self.beta).removesuffix('.0')}"),
            *((getattr(self, key) is not None, f" {key}={getattr(self, key)}") for key in BATCH_STRIDES),
            (self.groups is not None, f" groups={self.groups.text}" if self.groups else ""),
        )
        return "x".join(map(str, self.shape)) + "".join(text for given, text in rest if given)

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return _with_a_matrix_for_each_group(value)
        if not 3 <= len(value) <= 4:
            raise refuse(f"the list has {len(value)} {'entry' if len(value) == 1 else 'entries'}, not 3 or 4")
        return {"shape": value[:3]} | ({"batch": value[3]} if len(value) == 4 else {})

    @model_validator(mode="after")
    def _has_a_matrix_for_each_group(self) -> Problem:
        if self.groups and self.batch != len(self.groups.sizes):
            raise refuse(f"batch {self.batch} is not the number of groups, {len(self.groups.sizes)}", "omit batch")
        return self

    @model_validator(mode="after")
    def _no_matrices_overlap(self) -> Problem:
        lines = {"a": (self.m, self.k), "b": (self.n, self.k), "c": (self.m, self.n), "d": (self.m, self.n)}
        for name, key in zip(MATRICES, BATCH_STRIDES, strict=True):
            stride, (rows, columns) = getattr(self, key), lines[name]
            # Either mode may be the contiguous one; C's lines are padded more than D's.
            pad = 2 * self.ld_pad + 16 if name == "c" else self.ld_pad
            least = max(rows * (columns + pad), columns * (rows + pad))
            if self.batch == 1 or stride is None or stride >= least or (stride == 0 and name != "d"):
                continue
            remedy = f"use {'' if name == 'd' else '0 or '}at least {least}, or omit it"
            raise refuse(f"{key} {stride} makes the matrices {name.upper()} of a batch overlap", remedy)
        return self

    @model_serializer(mode="wrap")
    def _without_strides_that_follow(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A key that is not set is not part of the identity of a spec.
        written = handler(self)
        return {key: value for key, value in written.items() if key not in (*BATCH_STRIDES, "groups") or value is not None}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "array", "items": COUNT_SCHEMA, "minItems": 3, "maxItems": 4}, handler(schema)]}


def _with_a_matrix_for_each_group(value: Any) -> Any:
    """The mapping of a problem, of which batch is the number of groups where it has groups."""
    if not isinstance(value, dict) or "batch" in value or value.get("groups") is None:
        return value
    groups = value["groups"]
    count = groups.get("experts") if isinstance(groups, dict) else len(groups) if isinstance(groups, (list, tuple)) else None
    if isinstance(groups, Groups):
        count = len(groups.sizes)
    return value if not isinstance(count, int) or not count >= 1 else {**value, "batch": count}


class Spec(Model):
    """One project to generate, as written by the user, with defaults filled in and nothing else decided."""

    mmagen: Annotated[int, Strict(), AfterValidator(checked_version), WithJsonSchema({"const": 1})] = Field(
        description="mmagen is the version of the spec format and is 1"
    )
    name: Name = Field(description="the name is one C identifier, e.g. sm80_gemm_f16_tn")
    kernel: Kernel = Field(description=f"the kernel is {', '.join(KERNELS[:-1])} or {KERNELS[-1]}")
    atom: Atom
    layout: Layout = Field(
        default=Layout(a="K", b="K"),
        description="the layout is TN, NT, NN or TT, or spelled out as {a: K, b: K} with a K or M and b K or N",
    )
    # Declared after `kernel`, which decides whether it may be omitted.
    tile: Tile = Field(default=None, validate_default=True)
    atoms_layout: Atoms = LayoutText.compact((1, 1, 1))
    permutation: Permutation = (None, None, None)
    stages: Stages = None
    ctas_per_sm: CtasPerSm = None
    raster: Raster = None
    schedule: Schedule = None
    cluster: Cluster = None
    split_k: SplitK = None
    stream_k: StreamK = None
    operands: Operands = None
    prefetch: Prefetch = None
    cache: Cache | None = CACHE
    warpgroups: Warpgroups = None
    accumulation: Literal["fast", "precise"] | None = Field(
        default=None,
        description="accumulation of fp8 and of split f32 is fast (inside the tensor core) or precise (partial sums promoted to "
        "f32), or null: fast for fp8, precise with split",
    )
    sparse: Sparse = None
    scale: Scale | None = SCALE
    weights: Weights | None = WEIGHTS
    split: Literal["bf16x3", "bf16x6"] | None = Field(
        default=None,
        description="split is bf16x3 or bf16x6 for f32 A and B: each element is split into 2 or 3 bf16 pieces, and the 3 or "
        "6 largest products of pieces are computed; or null for an A and B of the atom's types. It requires a wgmma or "
        "mma.sync atom of bf16",
    )
    grouped: Literal["contiguous", "masked", "pointers"] | None = Field(
        default=None,
        description="grouped is contiguous (the rows of all groups follow each other, with offsets in device memory), masked "
        "(a matrix for each group, whose first rows are used, with their number in device memory) or pointers (each group "
        "has its own M, N, K and matrices, all in device memory), or null for no groups",
    )
    epilogue: Epilogue = Field(
        default=Epilogue(),
        description="the epilogue is a mapping, e.g. {out: f16, major: N}, or a list of operations, e.g. "
        "[alpha, {bias: column}, relu, {cast: f16}]",
    )
    arch: Archs | None = Field(
        default=None,
        description="arch is a list of GPU architectures, e.g. [sm_80, sm_90a], or null for the oldest that has the atom",
    )
    problems: Annotated[tuple[Problem, ...], BeforeValidator(not_empty)] | None = Field(
        default=None,
        description="problems is a list, each [M, N, K], [M, N, K, batch] or a mapping such as "
        "{shape: [1024, 512, 64], ld_pad: 8}",
    )
    configs: Annotated[tuple[Config, ...], BeforeValidator(not_empty)] | None = Field(
        default=None,
        description="configs is a list of kernels for one library, each a mapping of a name, the rule when, and what differs "
        "from the keys above, e.g. {name: small_m, when: {m: [1, 64]}, tile: [64, 32, 128]}",
    )

    @field_validator("tile", mode="after")
    @classmethod
    def _gemm_has_a_tile(cls, tile: Any, info: ValidationInfo) -> Any:
        if tile is None and info.data.get("kernel") == "gemm":
            raise refuse("kernel gemm needs a tile")
        return tile

    @model_serializer(mode="wrap")
    def _without_foreign_keys(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # A rarely used key is not part of the identity of a spec that does not set it.
        written = handler(self)
        return {key: value for key, value in written.items() if key not in (*WGMMA_KEYS, "configs") or value is not None}


def json_schema() -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a spec file: what `mmagen.spec.load` accepts, short forms included.

    JSON Schema cannot express three rules, which the loader checks: how the modes of a layout string nest, that 3.0 is not an
    integer, and the YAML features that are refused (anchors, tags, several documents).
    """
    schema = Spec.model_json_schema(by_alias=True, mode="validation")
    for key in ("problems", "configs"):
        schema["properties"][key]["anyOf"][0]["minItems"] = 1
    tile = {"required": ["tile"], "properties": {"tile": {"not": {"type": "null"}}}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "if": {"required": ["kernel"], "properties": {"kernel": {"const": "gemm"}}},
        "then": tile,
    }
