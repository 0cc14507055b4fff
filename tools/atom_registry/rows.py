"""Converts structs and the oracle's facts to the contents of operations.json; every layout is proved or marked as flawed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from mmagen.mma.operation import ThreadValueLayout
from tools.atom_registry import flaws
from tools.atom_registry.choices import Instantiation, choices, requirements, traits_parameters
from tools.atom_registry.oracle import Facts
from tools.atom_registry.scan import Struct, matched

_WORDS = {
    "cutlass::half_t": "f16",
    "cutlass::bfloat16_t": "bf16",
    "cutlass::tfloat32_t": "tf32",
    "float": "f32",
    "double": "f64",
    "signed char": "s8",
    "unsigned char": "u8",
    "short int": "s16",
    "int": "s32",
    "cutlass::integer_subbyte<4, true>": "s4",
    "cutlass::integer_subbyte<4, false>": "u4",
    "cutlass::integer_subbyte<1, false>": "u1",
    "cutlass::complex<double>": "c64",
    "cute::SM80_8x8x4_GC64C64C64GC64_TN::GaussComplex": "gc64",
    "int8_t": "s8",
    "uint8_t": "u8",
    "int32_t": "s32",
    "half_t": "f16",
}
# C++ types as the headers spell them, for what g++ prints.
_SHORT = {
    "unsigned int": "uint32_t",
    "long unsigned int": "uint64_t",
    "int": "int32_t",
    "unsigned char": "uint8_t",
    "short unsigned int": "uint16_t",
    "signed char": "int8_t",
    "short int": "int16_t",
}
_PLACE_WORDS = {
    "smem_desc": "shared memory",
    "sparse_smem_desc": "shared memory",
    "tmem_frg": "tensor memory",
    "tmem_e_frg": "tensor memory",
    "tmem_sf_frg": "tensor memory",
}
# Where ptxas 13.0 takes the instruction and the header's guard lets it through; targets.py tries it again. SM103's K of
# 96 assembles for sm_100a as well, where nothing runs it (PTX ISA, tcgen05.mma).
_PLAIN_80 = ("sm_80", "sm_86", "sm_87", "sm_88", "sm_89")
_UMMA = ("sm_100a", "sm_100f", "sm_103a", "sm_103f", "sm_110a", "sm_110f")
_TARGETS = (  # (pattern of "struct opcode", targets), the first that is found
    (r"XORPOPC", _PLAIN_80),
    (r"16x8x256\w*ANDPOPC", (*_PLAIN_80, "sm_90", "sm_90a")),
    (r"wgmma", ("sm_90a",)),
    (r"SM103", ("sm_103a", "sm_103f")),
    (r"SM100\w* fma\.", ("sm_100", "sm_100a", "sm_100f")),
    (r"tcgen05.*kind::i8", ("sm_100a", "sm_110a")),
    (r"_SCALED ", _UMMA[:4]),
    (r"tcgen05\.mma\.sp.*kind::mxf4\b", _UMMA[::2]),
    (r"tcgen05", _UMMA),
    (r"SM120.*kind::mxf4nvf4\.sp", ("sm_120a", "sm_121a")),
    (r"SM120", ("sm_120a", "sm_120f", "sm_121a")),
)


Fields = dict[str, Any]


class Tables:
    """Values that many rows share, each once, by number."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[str, int] = {}

    def number(self, value: object) -> int:
        key = json.dumps(value)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


def data(structs: Sequence[Struct], wanted: Sequence[tuple[Struct, Instantiation]], facts: Sequence[Facts]) -> Fields:
    """What operations.json holds. wanted, facts: the representative of each struct first, in order; then variants."""
    tables = {key: Tables() for key in ("layouts", "registers", "value_types", "parameters", "kinds", "groups")}
    rows: list[list[Any]] = []
    marked: dict[str, list[list[Any]]] = {}
    variants: dict[str, list[list[Any]]] = {}
    first: dict[str, tuple[dict[str, str], list[str | None]]] = {}
    for struct, (_, chosen), found in zip(structs, wanted, facts, strict=False):  # variants follow
        name = operation_name(struct, chosen)
        group = _group(struct, chosen, found) | {
            "of": tables["kinds"].number(_kind_of(struct, found, tables["parameters"])),
            "value_types": tables["value_types"].number({key: _spell(value) for key, value in found.values.items()}),
        }
        registers = tables["registers"].number(_registers(found))
        rows.append([tables["groups"].number(group), *found.shape[:2], registers, _layouts(found, tables["layouts"])])
        first[struct.name] = (dict(chosen.arguments), _types(struct, chosen, found))
        if wrong := flaws.of(struct, found, first[struct.name][1]):
            marked[name] = [
                [operand, what, right and tables["layouts"].number(_proved(right, operand, found.shape))]
                for operand, what, right in wrong
            ]
    for (struct, chosen), found in list(zip(wanted, facts, strict=True))[len(structs) :]:
        arguments, types = first[struct.name]
        numbers = {choice.name: choice.values.index for choice in choices(struct)}
        other = {key: numbers[key](value) for key, value in chosen.arguments if arguments[key] != value}
        now = _types(struct, chosen, found)
        variants.setdefault(struct.name, []).append(
            [other, *found.shape, None if now == types else now, _layouts(found, tables["layouts"])]
        )
    return {key: table.values for key, table in tables.items()} | {"operations": rows, "flaws": marked, "variants": variants}


def operation_name(struct: Struct, chosen: Instantiation) -> str:
    """What one writes after cute::, without blanks; by CuTe's alias where it has one."""
    prefix, replaced = _prefix(struct)
    free = dict(chosen.arguments)
    arguments = ",".join(free.get(argument, argument) for argument in struct.arguments)
    return prefix + struct.name.removeprefix(replaced) + (f"<{arguments}>" if arguments else "")


def _prefix(struct: Struct) -> tuple[str, str]:
    for replaced in ("SM90::GMMA::MMA_", "SM90::MMA_"):
        if struct.name.startswith(replaced):
            return "SM90_", replaced
    return "", ""


def _group(struct: Struct, chosen: Instantiation, found: Facts) -> Fields:
    """Fields shared by operations of one name and set of types, except M and N; empty fields are omitted.

    $MNK stands for 64x8x16 and $SHAPE for m64n8k16 of the operation; K is the group's.
    """
    m, n, k = found.shape
    name, struct_name = (text.replace(f"_{m}x{n}x{k}", "_$MNK") for text in (operation_name(struct, chosen), struct.name))
    types = _types(struct, chosen, found)
    return _without_empty(
        {
            "name": name,
            "struct": struct_name if struct_name != name.partition("<")[0] else None,
            "k": k,
            "types": " ".join(filter(None, types)),
            "opcodes": [opcode.replace(f"m{m}n{n}k{k}", "$SHAPE") for opcode in _opcodes(struct)],
            "sparsity": _sparsity(struct, types[1]),
            "vector": _vector(chosen, found),
            "saturate": "satfinite" in struct.opcodes[0],
        }
    )


def _kind_of(struct: Struct, found: Facts, parameters: Tables) -> Fields:
    """Fields shared by operations of one header with the same kind of operands, for all types."""
    arch, targets = _architecture(struct)
    majors = _majors(struct)
    free = [] if struct.arguments else [[c.name, c.type, list(c.values), not c.needed] for c in choices(struct)]
    return _without_empty(
        {
            "header": struct.header,
            "kind": _kind(struct),
            "family": _family(struct),
            "arch": arch,
            "targets": targets,
            "places": _places(found),
            "thr_id": found.layouts["ThrID"],
            "threads": size(found.layouts["ThrID"]),
            "majors_a": majors[0],
            "majors_b": majors[1],
            "parameters": [parameters.number(parameter) for parameter in free],
            "traits_take_parameters": traits_parameters(struct),
            "requires": [] if struct.arguments else requirements(struct),
        }
    )


def _without_empty(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if value not in ([], (), None, False)}


def _kind(struct: Struct) -> str:
    opcode = struct.opcodes[0]
    return next((kind for kind in ("wgmma", "tcgen05", "mma.sync") if opcode.startswith(kind)), "fma")


def _family(struct: Struct) -> str:
    return matched(r"SM103(?=::)|(?<=mma_)sm\d+", f"{struct.name} {struct.header}")[0].upper()


def _architecture(struct: Struct) -> tuple[str, tuple[str, ...]]:
    """The lowest target with its suffix, and all targets where not every later one will do."""
    text = f"{struct.name} {_opcodes(struct)[0]}"
    targets = next((targets for pattern, targets in _TARGETS if re.search(pattern, text)), ())
    return targets[0] if targets else f"sm_{_family(struct).removeprefix('SM')}", targets


def _opcodes(struct: Struct) -> list[str]:
    """The representative's opcode first: of two vector sizes the wide one, block32."""
    return sorted(struct.opcodes, key=lambda opcode: "block16" in opcode)


def _types(struct: Struct, chosen: Instantiation, found: Facts) -> list[str | None]:
    """Words of D, A, B, C and the scale factors. Template arguments tell more than CuTe's containers."""
    if struct.arguments:
        a, b, c, *scale = map(_word, struct.arguments[:4])
        return [c, a, b, c, scale[0] if scale else None]
    given = dict(chosen.arguments)
    if "a_type" in given:
        a, b, c = (_word(given[name]) for name in ("a_type", "b_type", "c_type"))
        return [c, a, b, c, _word(given["sf_type"]) if "sf_type" in given else None]
    return [*(_word(re.sub(r"cute::sparse_elem<\d+, (.*)>", r"\1", found.values[operand])) for operand in "DABC"), None]


def _word(cxx: str) -> str:
    narrow = re.fullmatch(r"(?:cutlass::)?(?:detail::)?float_(\w+?)(?:_unpacksmem)?_t", cxx)
    return narrow[1] if narrow else _WORDS[cxx]


def _spell(cxx: str) -> str:
    for long, short in _SHORT.items():
        cxx = re.sub(rf"(?<![\w ]){long}(?![\w])", short, cxx)
    return re.sub(r"\b(cute|cutlass)::", "", cxx)


def _registers(found: Facts) -> str:
    """`D float[4];A uint32_t[4]`"""
    return ";".join(
        f"{operand} {_spell(text).replace(' [', '[')}" for operand, text in found.registers.items() if text != "void"
    )


def _places(found: Facts) -> dict[str, str]:
    """Where the operands lie: what CuTe makes fragments of tells; a plain type is registers."""
    places = {}
    for operand in ("A", "B", "C", "E", "SFA", "SFB"):
        fragment = found.fragments.get(operand, "")
        kind = re.search(r"\b(\w+)<", fragment)
        exists = operand in found.registers or operand in found.fragments
        if exists:
            places[operand] = _PLACE_WORDS.get(kind[1] if kind else "", "registers")
    return places


def _sparsity(struct: Struct, type_a: str | None) -> str | None:
    if "SPARSE" not in struct.name:
        return None
    if type_a == "tf32":
        return "1:2"
    return "4:8" if "mxf4" in struct.opcodes[0] else "2:4"


def _vector(chosen: Instantiation, found: Facts) -> int | None:
    """Elements that share a scale factor: VS, or 32 and 64 of MXF8F6F4, which CuTe's fragment is made with."""
    if size := dict(chosen.arguments).get("VS"):
        return int(size)
    fragment = re.search(r"tmem_sf_frg<[\w:]+, (\d+),", found.fragments.get("SFA", ""))
    return int(fragment[1]) if fragment else None


def _majors(struct: Struct) -> tuple[list[str], list[str]]:
    legal = {c.name: [value.rpartition("::")[2] for value in c.values] for c in choices(struct)}
    if "tnspA" in legal or "a_major" in legal:
        return (legal.get("tnspA") or legal["a_major"]), (legal.get("tnspB") or legal["b_major"])
    letters = re.search(r"_([TN])([TN])(_|$)", struct.name)
    if not letters:  # one thread's fma: its few values come from anywhere
        return ["K", "MN"], ["K", "MN"]
    return ["K" if letters[1] == "T" else "MN"], ["K" if letters[2] == "N" else "MN"]


def _layouts(found: Facts, table: Tables) -> str:
    return " ".join(
        f"{operand}{table.number(_proved(text, operand, found.shape))}"
        for operand, text in found.layouts.items()
        if operand != "ThrID"
    )


def _proved(text: str, operand: str, shape: tuple[int, ...]) -> list[Any]:
    m, n, k = shape
    rows, columns = {"A": (m, k), "E": (m, k), "SFA": (m, k), "B": (n, k), "SFB": (n, k), "C": (m, n)}[operand]
    return [text, rows, columns, owners(text, rows, columns)]


@cache
def owners(text: str, rows: int, columns: int) -> int:
    """How many (thread, value) pairs own each element; 0 unless it is the same number for all of them."""
    try:
        table = ThreadValueLayout(text, rows, columns, 0).table()
    except ValueError:  # shape and stride do not nest alike
        return 0
    counts = [0] * (rows * columns)
    for values in table:
        for element in values:
            if not 0 <= element < len(counts):
                return 0
            counts[element] += 1
    return counts[0] if len(set(counts)) == 1 else 0


def size(text: str) -> int:
    """Product of a layout's extents."""
    product = 1
    for extent in re.findall(r"\d+", text.partition(":")[0]):
        product *= int(extent)
    return product


def spell(found: Mapping[str, Any]) -> str:
    """operations.json: one value a line, so that differences can be read."""
    parts = []
    for key, value in found.items():
        if isinstance(value, list):
            body = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            parts.append(f'"{key}":[\n{body}\n]')
        else:
            body = ",\n".join(f"{json.dumps(name)}:{_lines(rows)}" for name, rows in value.items())
            parts.append(f'"{key}":{{\n{body}\n}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(rows: list[Any]) -> str:
    return "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]"
