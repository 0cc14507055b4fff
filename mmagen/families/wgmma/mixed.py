"""Weights of few bits in wgmma kernels: what the key `weights` means for operands, registers and arguments, and its rules.

Functions of a spec take the one that the kernel computes (`decisions.as_computed`), in which the weights are A; the arguments are
those of a call, in which they are B.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmagen.mma.atoms import TYPES, Atom, ElementType
from mmagen.plan.arguments import Arguments, Extent, Tensor
from mmagen.plan.model import TiledMma
from mmagen.spec.model import Spec
from mmagen.spec.weights import CHUNK

Tile = tuple[int, int, int]

PRODUCER_REGISTERS = 32  # few, since consumers hold weights, fragments and two sets of sums
WARPGROUP = 128
SUM_BYTES = 4
MOST_WARPGROUPS = 4  # consumers: of more each would have too few registers
MOST_DEFAULT_STAGES = 20  # each part keeps one, and k tiles of few rows are small
_ENUMERATORS = {"s4": "kS4", "u4": "kU4", "s8": "kS8", "e4m3": "kE4m3"}  # mmagen::WeightType
# Where their elements have 4 bits, two are a byte.
_STORED = {"s4": "u8", "u4": "u8", "s8": "s8", "e4m3": "e4m3"}


@dataclass(frozen=True)
class WeightLayout:
    """The weights of a kernel as config.cuh names them.

    word: their type, kind: an enumerator of mmagen::WeightType. scale: the type of the scales. chunk: columns that are summed
    before the sum is scaled. group: columns that share a scale, 0 for all of a row. contiguous_k: scales of neighbouring groups
    are adjacent, else those of neighbouring rows. zeros: there are zero points. parts: groups of warpgroups that take the k tiles
    of a tile in turn.
    """

    word: str
    kind: str
    scale: ElementType
    chunk: int
    group: int
    contiguous_k: bool
    zeros: bool
    parts: int


def layout(spec: Spec, mma: TiledMma) -> WeightLayout | None:
    """That of the spec, None without weights."""
    weights = spec.weights
    if weights is None:
        return None
    contiguous_k = weights.scale_major == "K"
    kind, group = _ENUMERATORS[weights.type], weights.group or 0
    zeros = bool(weights.zero)
    return WeightLayout(weights.type, kind, scale_type(spec), weights.chunk, group, contiguous_k, zeros, parts(spec, mma))


def parts(spec: Spec, mma: TiledMma) -> int:
    """Groups of warpgroups that take the k tiles of a CTA tile in turn; 1 without weights."""
    of_mma = mma.threads // WARPGROUP
    shares = spec.weights and spec.warpgroups and spec.schedule != "pingpong"
    return max((spec.warpgroups or 0) // of_mma, 1) if shares else 1


def part_bytes(spec: Spec, mma: TiledMma, tile: Tile) -> int:
    """Bytes of shared memory for the sums of all parts but one."""
    return (parts(spec, mma) - 1) * tile[0] * tile[1] * SUM_BYTES


def scale_type(spec: Spec) -> ElementType:
    """The type of the scales: by default that of the activations, which the atom's name has."""
    assert spec.weights
    return TYPES[spec.weights.scale or ("bf16" if "BF16" in spec.atom else "f16")]


def stored(spec: Spec) -> tuple[ElementType, int, int]:
    """(element, group, kept): of each `group` columns of the weights `kept` elements are in memory."""
    assert spec.weights
    return TYPES[_STORED[spec.weights.type]], spec.weights.packed, 1


def fragment_registers(spec: Spec, atom: Atom, rows: int) -> int:
    """Registers of a thread for the fragments of a warpgroup's rows, of a chunk."""
    assert spec.weights
    return atom.registers_of_a(rows, spec.weights.chunk)


def arguments(spec: Spec) -> Arguments:
    """Scales and zero points as a call passes them, by the spec as it is written."""
    weights = spec.weights
    if weights is None:
        return Arguments()
    groups = Extent("k", step=weights.group) if weights.group else Extent()
    of = f"{weights.group} columns of a row" if weights.group else "a row"

    def tensor(name: str, element: ElementType, what: str) -> Tensor:
        contiguous = weights.scale_major == "K"
        return Tensor(
            name=name,
            element=element,
            part="weights",
            rows=Extent("n"),
            columns=groups,
            columns_contiguous=contiguous,
            pitched=True,
            sentence=f"{what} of B, one for {of}; {'columns' if contiguous else 'rows'} are contiguous",
        )

    scales = tensor("scale_b", scale_type(spec), "scales")
    zeros = (tensor("zero_b", TYPES["u8"], "zero points"),) if weights.zero else ()
    return Arguments((scales, *zeros))


def depths(spec: Spec) -> tuple[int, ...]:
    """Extents along K of a tile, the nearest to the spec's first."""
    assert spec.tile
    return tuple(sorted((CHUNK, 2 * CHUNK), key=lambda k: abs(k - spec.tile[2]) if spec.tile else k))
