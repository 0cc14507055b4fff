"""Values of a plan as C++: CuTe integers, shapes, layouts, tiles and copies as types."""

from __future__ import annotations

from dataclasses import fields

from mmagen.core.layout_text import IntTuple, LayoutText
from mmagen.mma.accumulation import Accumulation
from mmagen.plan.cost import KernelShape
from mmagen.plan.model import GmemCopy, LaunchShape, Operand
from mmagen.plan.plans import Config
from mmagen.spec.kernel import When

# CuTe has aliases for these integers (cute/numeric/integral_constant.hpp); others are Int<n>.
_NAMED = {
    *range(11),
    12,
    16,
    24,
    32,
    40,
    48,
    56,
    64,
    72,
    80,
    88,
    96,
    104,
    112,
    120,
    128,
    136,
    144,
    152,
    160,
    168,
    176,
    184,
    192,
    200,
    208,
    216,
    224,
    232,
    240,
    248,
    256,
    384,
    512,
    768,
    1024,
    2048,
    4096,
    8192,
}


def integer(value: int) -> str:
    """`cute::_32`, or `cute::Int<33>` if CuTe has no alias."""
    return f"cute::_{value}" if value in _NAMED else f"cute::Int<{value}>"


def _nested(kind: str, value: IntTuple) -> str:
    if isinstance(value, int):
        return integer(value)
    return f"cute::{kind}<{', '.join(_nested(kind, part) for part in value)}>"


def shape(value: IntTuple) -> str:
    """A nested tuple as a cute::Shape."""
    return _nested("Shape", value)


def layout(value: LayoutText) -> str:
    """A cute::Layout with explicit strides."""
    return f"cute::Layout<{_nested('Shape', value.shape)}, {_nested('Stride', value.stride)}>"


def tile(entries: tuple[int | LayoutText | None, ...]) -> str:
    """A permutation as the cute::Tile that TiledMMA takes; None is cute::Underscore."""

    def spell(entry: int | LayoutText | None) -> str:
        if entry is None:
            return "cute::Underscore"
        return integer(entry) if isinstance(entry, int) else layout(entry)

    return f"cute::Tile<{', '.join(map(spell, entries))}>"


def smem_copy(operand: Operand) -> str:
    """The CuTe operation that copies fragments from shared memory."""
    copy = operand.smem_copy
    assert copy
    if copy.matrices:
        return f"cute::SM75_U16x{2 * copy.matrices}_LDSM_T" if copy.transposed else f"cute::SM75_U32x{copy.matrices}_LDSM_N"
    bits = copy.elements * operand.element.bits
    if bits == 128:  # a complex element, which its type aligns to half of that
        return "cute::UniversalCopy<cute::uint128_t>"
    return f"cute::UniversalCopy<{operand.element.cxx if copy.elements == 1 else f'uint{bits}_t'}>"


def _mn_k(operand: Operand, along: int, across: int) -> tuple[int, int]:
    """(along, across) the contiguous mode, in the order (MN, K)."""
    return (across, along) if operand.contiguous_k else (along, across)


def _strides(operand: Operand, along: int) -> tuple[int, int]:
    """Strides (MN, K) with the contiguous mode fastest."""
    return (along, 1) if operand.contiguous_k else (1, along)


def smem_atom(operand: Operand) -> str:
    """The shared-memory layout atom for tile_to_shape: lines of contiguous elements, swizzled if that avoids conflicts."""
    plain = layout(LayoutText(_mn_k(operand, operand.line, operand.lines), _strides(operand, operand.line)))
    swizzle = operand.swizzle
    if swizzle.bits == 0:
        return plain
    return (
        f"decltype(cute::composition(cute::Swizzle<{swizzle.bits}, {swizzle.base}, {swizzle.shift}>{{}},\n"
        f"                                                       {plain}{{}}))"
    )


def vector_type(copy: GmemCopy, operand: Operand) -> str:
    """The type of one access of a copy."""
    bits = copy.vector * operand.element.bits
    return operand.element.cxx if copy.vector == 1 else f"cute::uint{bits}_t"


def copy_threads(copy: GmemCopy, operand: Operand) -> str:
    """Thread layout over (MN, K): neighbouring threads along the contiguous mode."""
    return layout(LayoutText(_mn_k(operand, copy.along, copy.across), _strides(operand, copy.along)))


def copy_values(copy: GmemCopy, operand: Operand) -> str:
    """Value layout over (MN, K): one thread's vector."""
    return f"cute::Layout<{shape(_mn_k(operand, copy.vector, 1))}>"


def gmma_atom(operand: Operand) -> str:
    """The layout atom of wgmma's canonical layouts, as CuTe names it: by major and width of the swizzle."""
    assert operand.tma
    width = f"SW{operand.tma.swizzle_bytes}" if operand.tma.swizzle_bytes > 16 else "INTER"
    return f"cute::GMMA::Layout_{'K' if operand.contiguous_k else 'MN'}_{width}_Atom<Element>"


def gmma_order(operand: Operand) -> str:
    """The mode order of tile_to_shape: across the contiguous mode first, so that each panel is contiguous."""
    return f"cute::Step<{', '.join(map(integer, (1, 2, 3) if operand.contiguous_k else (2, 1, 3)))}>"


def accumulation(of: Accumulation) -> dict[str, str]:
    """Members of mmagen::test::Accumulation by name, without the last ones that have their defaults."""
    members = {one.name: one for one in fields(of)}
    while (last := next(reversed(members.values()))).name != "shuffled" and getattr(of, last.name) == last.default:
        del members[last.name]
    return {name: str(getattr(of, name)).lower() for name in members}


def when(rule: When | None) -> str:
    """A rule for choice.cuh: `mmagen::When().m(1, 64).n(1024, mmagen::kNoEnd)`."""
    intervals = rule.intervals if rule else {}
    return "mmagen::When()" + "".join(
        f".{about}({low or 0}, {'mmagen::kNoEnd' if high is None else high})" for about, (low, high) in intervals.items()
    )


def kernel_shape(config: Config) -> str:
    """The mmagen::KernelShape of a library's kernel."""
    kernel = KernelShape.of(config.plan)
    values = (*kernel.tile, *kernel.cluster, kernel.split_k, kernel.workspace_splits)
    return f"{{{', '.join(map(str, values))}, {kernel.stream_k}, {', '.join(map(str, kernel.bytes))}}}"


def narrower(config: Config) -> list[str]:
    """For each of its widths, the call on the mmagen::TimedKernel of whole tiles that makes the narrower one: `with_rows(72)`."""
    along = ("with_rows", "with_columns")[KernelShape.of(config.plan).along]
    return [f"{along}({width})" for width in config.plan.scheduler.widths]


def launch_shape(launch: LaunchShape, all_columns: int) -> str:
    """The mmagen::ClusterShape of a launch of a kernel whose tile has so many columns; it may depend on `args` and kWidths."""
    whole = f"{{ {launch.m}, {launch.n}, {launch.tile_n or all_columns} }}"
    return f"mmagen::with_narrowest<Config>(args, {whole}, kWidths)" if launch.widths else whole


def cost(config: Config) -> str:
    """The mmagen::Cost of a library's kernel: coefficients in the order of the spec's keys."""
    assert config.cost
    return f"{{{', '.join(f'{value:.6g}' for value in config.cost.model_dump().values())}}}"
