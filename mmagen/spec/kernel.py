"""The keys of one kernel, which a spec sets and each of its configs may override; rules and configs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    Strict,
    StringConstraints,
    field_validator,
    model_serializer,
    model_validator,
)

from mmagen.core.layout_text import INT_MAX, LayoutText
from mmagen.spec.cost import COST, Cost
from mmagen.spec.values import (
    AtomsLayout,
    Count,
    Model,
    Name,
    Pair,
    PermutationMode,
    Triple,
    interval,
    not_empty,
    parts_of_k,
    refuse,
    three,
    two,
)

_LARGEST_PRODUCT = 2**62  # of two extents; C++ compares in 64 bits

# --- Keys, each with its description -------------------------------------------------------------------------------

Atom = Annotated[
    str,
    StringConstraints(pattern=r"^[!-~]{1,256}$"),
    Field(description="the atom is the exact CuTe operation name, e.g. SM80_16x8x16_F32F16F16F32_TN"),
]
Tile = Annotated[Triple | None, Field(description="the CTA tile is [M, N, K] in elements, e.g. [128, 128, 32]")]
Atoms = Annotated[
    AtomsLayout,
    Field(
        description="atoms_layout is the number of atoms along M, N and K, e.g. [2, 2, 1], or a CuTe layout of rank 3, "
        'e.g. "(2,2,1):(1,2,4)"',
        json_schema_extra={"default": [1, 1, 1]},
    ),
]
Permutation = Annotated[
    tuple[PermutationMode, PermutationMode, PermutationMode],
    BeforeValidator(three),
    Field(
        description="the permutation has one entry each for M, N and K: an integer, null, or a CuTe layout in quotes, "
        'e.g. [32, null, "(4,4,2):(1,8,4)"]',
    ),
]
Stages = Annotated[
    Annotated[int, Strict(), Field(ge=2, le=INT_MAX)] | None,
    Field(
        description="stages is the number of pipeline stages, an integer of at least 2, or null to let mmagen choose; if launches "
        "may compute fewer columns of a tile (tile_n), the number for whole tiles"
    ),
]
CtasPerSm = Annotated[
    Annotated[int, Strict(), Field(ge=1, le=16)] | None,
    Field(description="ctas_per_sm is how many CTAs must fit on one SM, 1 to 16, or null for no requirement"),
]
Raster = Annotated[
    Annotated[int, Strict(), Field(ge=1, le=INT_MAX)] | None,
    Field(description="raster is the number of rows of CTA tiles in one band of the raster order, at least 1, or null for 8"),
]
Schedule = Annotated[
    Literal["warpgroup", "cooperative", "pingpong"] | None,
    Field(
        description="schedule is the kernel schedule of wgmma atoms: warpgroup (all warpgroups are consumers), cooperative "
        "(one producer, consumers share a tile) or pingpong (one producer, a tile for each consumer), or null to let "
        "mmagen choose",
    ),
]
Cluster = Annotated[
    Pair | None,
    Field(description="cluster is how many CTAs along M and N share operands by multicast, e.g. [2, 1], or null for [1, 1]"),
]
SplitK = Annotated[
    Annotated[int, Strict(), Field(ge=1, le=INT_MAX)] | Literal["auto"] | None,
    BeforeValidator(parts_of_k),
    Field(
        description="split_k is the number of parts into which the K of a tile is split: 2, 4 or 8 CTAs of a cluster, if it "
        "has room for them; any other number, or auto for one that fits the problem, through a workspace; or null for 1",
    ),
]
StreamK = Annotated[
    Literal["never", "last_wave", "always"] | None,
    Field(
        description="stream_k is last_wave to split a last wave that is less than two thirds full along K among all CTAs (their "
        "partial sums are added through a workspace, in a fixed order), always for any partial last wave, or never, or null for "
        "never",
    ),
]
Operands = Annotated[
    Literal["in_order", "swapped"] | None,
    Field(
        description="operands is swapped for a kernel that computes the transpose of D with B as its A, useful for few rows (atom, "
        "tile, atoms_layout, cluster and raster are then those of the kernel), or in_order, or null for in_order",
    ),
]
Prefetch = Annotated[
    Annotated[int, Strict(), Field(ge=0, le=INT_MAX)] | None,
    Field(
        description="prefetch is how many stages a CTA prefetches into L2 while the previous kernel in the stream still runs, or "
        "null for 0; useful for kernels of a few microseconds",
    ),
]
Warpgroups = Annotated[
    Annotated[int, Strict(), Field(ge=1, le=8)] | None,
    Field(
        description="warpgroups is the number of consumer warpgroups of schedule pingpong, 2 or 3, or null for 2; with weights "
        "also of cooperative, up to 4: groups of those that atoms_layout has take k tiles in turn"
    ),
]

Sparse = Annotated[
    Literal["2:4", "1:2"] | None,
    Field(
        description="sparse is 2:4 (of each 4 neighbours along K of A at most 2 are not zero) or 1:2 (tf32: 1 of 2), as the "
        "atom requires, or null for that of the atom",
    ),
]


# --- Rules ---------------------------------------------------------------------------------------------------------

_Product = Annotated[int, Strict(), Field(ge=1, le=_LARGEST_PRODUCT)]
Interval = Annotated[tuple[Count | None, Count | None], BeforeValidator(two), AfterValidator(interval)]
ProductInterval = Annotated[tuple[_Product | None, _Product | None], BeforeValidator(two), AfterValidator(interval)]


def _interval(of: str) -> Any:
    return Field(default=None, description=f"{of} is [least, most], both inclusive, null for no bound, e.g. [1, 64]")


class When(Model):
    """The rule of a config: it takes the problems for which all intervals hold."""

    m: Interval | None = _interval("m")
    n: Interval | None = _interval("n")
    k: Interval | None = _interval("k")
    mn: ProductInterval | None = _interval("mn, the number of elements of D,")

    @property
    def intervals(self) -> dict[str, tuple[int | None, int | None]]:
        """The conditions that are set, by extent: m, n, k or mn."""
        return {about: value for about in ("m", "n", "k", "mn") if (value := getattr(self, about))}

    def holds(self, m: int, n: int, k: int) -> bool:
        """Does the rule hold for a problem of these extents?"""
        values = {"m": m, "n": n, "k": k, "mn": m * n}
        return all(
            (low is None or low <= values[about]) and (high is None or values[about] <= high)
            for about, (low, high) in self.intervals.items()
        )

    def covers(self, other: When) -> bool:
        """Does it hold wherever `other` does? (Bounds on mn that follow from m and n are not derived.)"""
        inner = other.intervals
        return all(about in inner and _inside(inner[about], outer) for about, outer in self.intervals.items())

    @property
    def text(self) -> str:
        """`m 1 .. 64, n from 1024, mn up to 4194304`."""
        return ", ".join(
            f"{about} up to {high}" if low is None else f"{about} from {low}" if high is None else f"{about} {low} .. {high}"
            for about, (low, high) in self.intervals.items()
        )

    @model_validator(mode="after")
    def _says_something(self) -> When:
        if not self.intervals:
            raise refuse(
                "a rule without a condition holds for every problem",
                "omit when in the config that takes all remaining problems",
            )
        return self

    @model_serializer(mode="wrap")
    def _only_conditions(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {about: value for about, value in handler(self).items() if value is not None}


def _inside(inner: tuple[int | None, int | None], outer: tuple[int | None, int | None]) -> bool:
    low = outer[0] is None or (inner[0] is not None and outer[0] <= inner[0])
    high = outer[1] is None or (inner[1] is not None and inner[1] <= outer[1])
    return low and high


# --- Caches --------------------------------------------------------------------------------------------------------

CacheWord = Literal["normal", "evict_first", "evict_last"]


class Cache(Model):
    """L2 eviction priority of A and B in TMA loads: evict_first for data read once, evict_last for data that all CTAs
    reread."""

    a: CacheWord = Field(default="normal", description="a is the L2 eviction priority of A: normal, evict_first or evict_last")
    b: CacheWord = Field(default="normal", description="b is the L2 eviction priority of B: normal, evict_first or evict_last")


CACHE = Field(
    default=None,
    description="cache is a mapping of the L2 eviction priorities of A and B, e.g. {a: evict_last, b: evict_first}",
)


# --- Configs -------------------------------------------------------------------------------------------------------


_LEAST_COLUMNS, _MOST_COLUMNS = 8, 256


def _columns(value: Any) -> Any:
    """Refuses all but a number of columns or an ascending list of them, in one message."""
    if isinstance(value, (list, tuple)):
        value = not_empty([_number_of_columns(one, "is not an integer") for one in value])
        ascending = sorted(dict.fromkeys(value))
        if value != ascending:
            raise refuse("the numbers of columns do not ascend", f"write {ascending}", meant=ascending)
        return tuple(value)
    return None if value is None else _number_of_columns(value, "is neither an integer nor a list of integers")


def _number_of_columns(value: Any, why_not: str) -> int:
    if type(value) is not int:
        raise refuse(f"{str(value)[:80]!r} {why_not}")
    if value < _LEAST_COLUMNS:
        raise refuse(f"{value} is too small, the minimum is {_LEAST_COLUMNS}")
    if value > _MOST_COLUMNS:
        raise refuse(f"{value} is too large, the maximum is {_MOST_COLUMNS}")
    return value


_Columns = Annotated[int, Field(ge=_LEAST_COLUMNS, le=_MOST_COLUMNS)]
TileN = Annotated[
    _Columns | Annotated[tuple[_Columns, ...], Field(min_length=1)] | None,
    BeforeValidator(_columns),
    Field(
        description="tile_n is how many columns of the tile are computed, a multiple of 8 below the atom's N, e.g. 112; or an "
        "ascending list of these, e.g. [96, 112]: each call uses the narrowest that needs no more waves of CTAs than whole tiles "
        "(no more tiles if CTAs share the K of a tile), else whole tiles",
    ),
]


def launch_suffix(cluster: tuple[int, int], tile_n: int | tuple[int, ...] | None) -> str:
    """Of the names of a choice and of its functions: `c2x1`, `c2x1_n112`, `c2x1_fit`."""
    columns = "_fit" if isinstance(tile_n, tuple) else f"_n{tile_n}" if tile_n else ""
    return f"c{cluster[0]}x{cluster[1]}{columns}"


class Launch(Model):
    """A cluster that the kernel of a config can be launched in, and the columns of a tile that it then computes."""

    cluster: Pair = Field(description="cluster is how many CTAs along M and N share operands by multicast, e.g. [2, 1]")
    tile_n: TileN = None
    cost: Cost | None = COST

    @property
    def suffix(self) -> str:
        """Of the name of the config."""
        return launch_suffix(self.cluster, self.tile_n)

    @property
    def widths(self) -> tuple[int, ...]:
        """tile_n if it is a list, else ()."""
        return self.tile_n if isinstance(self.tile_n, tuple) else ()

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if key in self.model_fields_set}


# What to write instead of a key that cannot stand beside clusters.
_INSTEAD = {
    "cluster": "write it in one of them",
    "cost": "each of them has its own",
    "when": "their costs decide; omit it, or use cluster",
}


class Config(Model):
    """One of several kernels in a library. Omitted keys are inherited from the spec; null is a value like any other."""

    name: Name = Field(description="a config's name is one C identifier, e.g. small_m")
    when: When | None = Field(
        default=None,
        description="when is a mapping of intervals over m, n, k and mn, e.g. {m: [1, 64], n: [1024, null]}; the last config "
        "has none",
    )
    cost: Cost | None = COST
    # The defaults below stand for omitted keys and are never read.
    atom: Atom = ""
    tile: Tile = None
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
    clusters: Annotated[tuple[Launch, ...], BeforeValidator(not_empty)] | None = Field(
        default=None,
        description="clusters is a list of clusters that one compiled kernel is launched in, e.g. [{cluster: [2, 1]}, {cluster: "
        "[1, 1], tile_n: 112}]; each has a cost and is a choice of its own, NAME_c2x1 and NAME_c1x1_n112 (NAME_c1x1_fit if tile_n "
        "is a list)",
    )

    @property
    def overrides(self) -> dict[str, Any]:
        """The keys that it overrides, with their values."""
        return {key: getattr(self, key) for key in CONFIG_KEYS if key in self.model_fields_set}

    @field_validator("tile", mode="after")
    @classmethod
    def _has_a_tile(cls, tile: Any) -> Any:
        if tile is None:
            raise refuse("kernel gemm needs a tile")
        return tile

    @model_validator(mode="after")
    def _in_each_of_clusters(self) -> Config:
        if self.clusters is not None:
            for key, instead in _INSTEAD.items():
                if getattr(self, key) is not None:
                    raise refuse(f"{key} cannot stand beside clusters: {instead}")
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if key in self.model_fields_set}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        written = handler.resolve_ref_schema(handler(schema))
        for field in written["properties"].values():
            field.pop("default", None)  # the default is the spec's value
        return written


CONFIG_KEYS = tuple(key for key in Config.model_fields if key not in ("name", "when", "cost", "clusters"))
