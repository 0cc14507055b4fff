"""The template arguments with which the oracle instantiates a struct: a representative set and other legal ones.

Majors, scales and selectors of wgmma: K-major, no negation first; all other legal combinations of majors, a negated
scale and the other metadata selector must give the same layouts, which the oracle asserts. VS of SM120: the one vector
size that the PTX opcode of the specialisation means. SM100's UMMA: types as its instruction descriptors tell them
apart, 128x256 (two CTAs: 256x256) as the representative tile; every legal tuple of types at that tile, and the least
and the greatest legal M and N with the first types, are instantiated besides.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from tools.atom_registry.scan import Struct, matched

_K, _MN = "K", "MN"
_ENUMS = {
    "GMMA::Major": (_K, _MN),
    "GMMA::ScaleIn": ("One", "Neg"),
    "GMMA::SparseSel": ("Zero", "One"),
    "UMMA::Major": (_K, _MN),
    "UMMA::ScaleIn": ("One", "Neg"),
    "UMMA::Saturate": ("False", "True"),
}
# As C++ finds them from namespace cute.
_QUALIFIED = {"GMMA": "cute::SM90::GMMA", "UMMA": "cute::UMMA"}

_F8F6F4 = (
    "cutlass::float_e4m3_t",
    "cutlass::float_e5m2_t",
    "cutlass::detail::float_e2m3_unpacksmem_t",
    "cutlass::detail::float_e3m2_unpacksmem_t",
    "cutlass::detail::float_e2m1_unpacksmem_t",
)
_E2M1, _UE8M0, _UE4M3 = "cutlass::float_e2m1_t", "cutlass::float_ue8m0_t", "cutlass::float_ue4m3_t"
_HALF, _BF16, _TF32 = "cutlass::half_t", "cutlass::bfloat16_t", "cutlass::tfloat32_t"

# The two UMMA structs that are no templates: their traits take the arguments, and check them.
TRAITS_PARAMETERS = ("a_type", "b_type", "c_type", "M", "N", "a_major", "b_major", "a_neg", "b_neg")
_TRAITS_REQUIRE = {
    "SM100_MMA_F8F6F4_SS": ("M == 64 || M == 128", "(N % 8 == 0) && (8 <= N) && (N <= 256)"),
    "SM100_MMA_F8F6F4_2x1SM_SS": ("M == 128 || M == 256", "(N % 16 == 0) && (16 <= N) && (N <= 256)"),
}


@dataclass(frozen=True)
class Choice:
    """Legal values of one template parameter, the representative first. needed: it has no default in C++."""

    name: str
    type: str
    values: tuple[str, ...]
    needed: bool


@dataclass(frozen=True)
class Instantiation:
    """One set of template arguments: (parameter, value) in order; a value is spelled as C++ spells it within cute."""

    arguments: tuple[tuple[str, str], ...]


def traits_parameters(struct: Struct) -> bool:
    """Does the struct take its arguments through MMA_Traits, after its own name?"""
    return struct.name in _TRAITS_REQUIRE


def requirements(struct: Struct) -> tuple[str, ...]:
    """The struct's own static_asserts, or its traits' where only they have any."""
    return struct.requires or _TRAITS_REQUIRE.get(struct.name, ())


def is_umma(struct: Struct) -> bool:
    return struct.header.endswith("_umma.hpp")


def choices(struct: Struct) -> tuple[Choice, ...]:
    """What each template parameter may be. UMMA's types are given first as those that `type_choices` puts first."""
    if traits_parameters(struct):
        kinds = ("class",) * 3 + ("int",) * 2 + ("UMMA::Major",) * 2 + ("UMMA::ScaleIn",) * 2
        declared = list(zip(TRAITS_PARAMETERS, kinds, (None,) * 7 + ("",) * 2, strict=True))
    else:
        declared = [(p.name, p.type, p.default) for p in struct.parameters]
    if struct.arguments:
        return tuple(Choice(name, kind, (_vector_size(struct),), True) for name, kind, _ in declared)
    return tuple(Choice(name, kind, _values(struct, name, kind), default is None) for name, kind, default in declared)


def _values(struct: Struct, name: str, kind: str) -> tuple[str, ...]:
    if kind in _ENUMS:
        fixed = f"{name} == {kind}::K" in requirements(struct) or (struct.name.startswith("SM103::") and "major" in name)
        values = _ENUMS[kind][:1] if fixed else _ENUMS[kind]
        scope, enum = kind.split("::")
        return tuple(f"{_QUALIFIED[scope]}::{enum}::{value}" for value in values)
    if kind == "class":
        column = {"a_type": 0, "b_type": 1, "c_type": 2, "sf_type": 3}[name]
        return tuple(dict.fromkeys(types[column] for types, _ in type_choices(struct)))
    if name == "VS":
        return tuple(dict.fromkeys(str(size) for _, size in type_choices(struct)))
    if name == "ScaleC":  # "scale-input-d" of PTX: D is divided by 2^ScaleC, 0 to 15
        return tuple(map(str, range(16)))
    assert kind == "int", (struct.name, name)
    return tuple(map(str, extents(struct, name)))


def _vector_size(struct: Struct) -> str:
    """Elements per scale factor: K of the opcode over the factors that one row takes, scale_vec::NX."""
    (opcode,) = struct.opcodes
    return str(int(matched(r"\.m\d+n\d+k(\d+)\.", opcode)[1]) // int(matched(r"scale_vec::(\d)X", opcode)[1]))


def extents(struct: Struct, name: str) -> list[int]:
    """The legal M or N of some tile, greatest first."""
    return sorted({tile["MN".index(name)] for tile in _tiles(struct)}, reverse=True)


def _tiles(struct: Struct) -> list[tuple[int, int]]:
    """(M, N) for which the struct's static_asserts hold; those that ask for types, majors or VS aside."""
    conditions = [c for c in requirements(struct) if not re.search(r"type|major|VS", c)]
    if "2x1SM" in struct.name and not any("M ==" in c for c in conditions):
        conditions.append("M == 128 || M == 256")  # 4.2.0 forgets it in MXF4NVF4_2x1SM_SS_SPARSE
    python = [c.replace("||", " or ").replace("&&", " and ") for c in conditions]
    return [
        (m, n)
        for m in (64, 128, 256)
        for n in range(8, 257, 8)
        if all(eval(condition, {"M": m, "N": n}) for condition in python)
    ]


def type_choices(struct: Struct) -> list[tuple[tuple[str, ...], int | None]]:
    """Legal ((a, b, c[, sf]), VS) of a UMMA struct, the representative first."""
    name = struct.name
    if "MXF4" in name:
        wide, narrow = (64, 32) if "SPARSE" in name else (32, 16)
        return [((_E2M1, _E2M1, "float", scale), size) for scale, size in ((_UE8M0, wide), (_UE4M3, narrow), (_UE8M0, narrow))]
    if "MXF8F6F4" in name:
        return [((a, b, "float", _UE8M0), None) for a, b in itertools.product(_F8F6F4, repeat=2)]
    if "F8F6F4" in name:
        return [((a, b, c), None) for c in ("float", _HALF) for a, b in itertools.product(_F8F6F4, repeat=2)]
    if "F16BF16" in name:
        return [((_HALF, _HALF, "float"), None), ((_HALF, _HALF, _HALF), None), ((_BF16, _BF16, "float"), None)]
    if "TF32" in name:
        return [((_TF32, _TF32, "float"), None)]
    assert "_S8_" in name, name
    return [((a, b, "int32_t"), None) for a, b in itertools.product(("int8_t", "uint8_t"), repeat=2)]


def representative(struct: Struct) -> Instantiation:
    """The first value of every parameter that has no default."""
    return Instantiation(tuple((choice.name, choice.values[0]) for choice in choices(struct) if choice.needed))


def same_layouts(struct: Struct) -> list[Instantiation]:
    """Other instantiations that must have the representative's layouts: each parameter's other values, all of majors."""
    if is_umma(struct) or struct.arguments:
        return []
    options = choices(struct)
    majors = [choice for choice in options if choice.needed]
    sets = [
        dict(zip((c.name for c in majors), values, strict=True)) for values in itertools.product(*(c.values for c in majors))
    ]
    found = [tuple(chosen.items()) for chosen in sets[1:]]
    for number, choice in enumerate(options):
        if not choice.needed and len(choice.values) > 1:
            found.append(tuple((c.name, c.values[1] if c is choice else c.values[0]) for c in options[: number + 1]))
    return [Instantiation(arguments) for arguments in found]


def variants(struct: Struct) -> list[Instantiation]:
    """Other instantiations of a UMMA struct worth their own layouts: types at the representative tile, tile extremes."""
    if not is_umma(struct):
        return []
    first = dict(representative(struct).arguments)
    found = []
    for types, size in type_choices(struct)[1:]:
        chosen = dict(zip(("a_type", "b_type", "c_type", "sf_type"), types, strict=False))
        found.append(first | chosen | ({"VS": str(size)} if size else {}))
    tiles = _tiles(struct)
    for m in sorted({m for m, _ in tiles}):
        least, greatest = min(n for k, n in tiles if k == m), max(n for k, n in tiles if k == m)
        found += [first | {"M": str(m), "N": str(n)} for n in (least, greatest) if (str(m), str(n)) != (first["M"], first["N"])]
    return [Instantiation(tuple(arguments.items())) for arguments in found]
