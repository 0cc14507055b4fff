"""Loads operations.json and finds operations.

The file is normal form: what many operations share (layouts, registers, everything but name, shape and layouts) stands
in tables once, and every line of it is one value, so that a change of CUTLASS is a readable difference.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from mmagen.core.errors import UsageError
from mmagen.core.instead import did_you_mean
from mmagen.mma.operation import Flaw, Operation, Parameter, Registers, ThreadValueLayout, Variant
from mmagen.mma.sparse_forms import own_operation

CUTLASS = "4.2.0"
# Fields that the file has only where they say something.
_LEFT_OUT: Mapping[str, object] = {
    "targets": (),
    "type_sf": None,
    "sparsity": None,
    "vector": None,
    "saturate": False,
    "parameters": (),
    "traits_take_parameters": False,
    "requires": (),
    "flaws": (),
    "variants": (),
}
_TYPES = ("type_d", "type_a", "type_b", "type_c", "type_sf")
Fields = dict[str, Any]
_DATA = Path(__file__).with_name("operations.json")


@cache
def _catalogue() -> Catalogue:
    return Catalogue(json.loads(_DATA.read_text("utf-8")))


def operations() -> tuple[Operation, ...]:
    """All operations, in the order of headers and of the structs in them."""
    return _catalogue().operations


class Catalogue:
    """The operations of `data`, which is what operations.json holds. Each is made when it is first asked for: a build of a
    project looks at a few of them."""

    def __init__(self, data: Fields):
        self._data = data
        self._made: dict[int, Operation] = {}
        # Parts that operations share, by their number in the file.
        self._layout = cache(lambda number: ThreadValueLayout(*data["layouts"][number]))
        self._registers = cache(lambda number: _registers(data["registers"][number]))
        self._parameter = cache(lambda number: _parameter(*data["parameters"][number]))
        self._kind = cache(lambda number: _kind(data["kinds"][number], self._parameter))
        self._group = cache(lambda number: _group(data["groups"][number], self._kind, data["value_types"]))
        self._layouts = cache(lambda used: _layout_map(used, self._layout))

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """All of them, in order."""
        return tuple(map(self._at, range(len(self._data["operations"]))))

    def named(self, name: str) -> Operation | None:
        """The operation of exactly that name."""
        groups = self._data["groups"]
        spellings = (name, re.sub(r"\d+x\d+x\d+", "$MNK", name, count=1))
        for number, (group, m, n, *_) in enumerate(self._data["operations"]):
            of = groups[group]
            if of["name"] in spellings and of["name"].replace("$MNK", f"{m}x{n}x{of['k']}") == name:
                return self._at(number)
        return None

    def _at(self, number: int) -> Operation:
        if number not in self._made:
            self._made[number] = self._new(*self._data["operations"][number])
        return self._made[number]

    def _new(self, group: int, m: int, n: int, registers: int, used: str) -> Operation:
        names, shared = self._group(group)
        k = shared["k"]
        name, struct, *opcodes = names.replace("$MNK", f"{m}x{n}x{k}").replace("$SHAPE", f"m{m}n{n}k{k}").split("\n")
        made = _operation(
            shared,
            name=name,
            struct=struct,
            m=m,
            n=n,
            opcodes=tuple(opcodes),
            registers=self._registers(registers),
            layouts=self._layouts(used),
        )
        if rows := self._data["flaws"].get(name):
            flaws = (Flaw(operand, what, None if right is None else self._layout(right)) for operand, what, right in rows)
            vars(made)["flaws"] = tuple(flaws)
        if rows := self._data["variants"].get(name):
            vars(made)["variants"] = tuple(_variant(row, made, self._layouts) for row in rows)
        return made


def _parameter(name: str, kind: str, values: Sequence[str], default: bool) -> Parameter:
    return Parameter(name, kind, tuple(values), default)


def _operation(shared: Fields, **own: Any) -> Operation:
    """An Operation without its __init__, which for a frozen class of many fields is what most of loading would take."""
    operation = object.__new__(Operation)
    vars(operation).update(shared, **own)
    return operation


def _registers(row: str) -> dict[str, Registers]:
    """`D float[4];A uint32_t[4]` as a map from operand to registers."""
    found = {}
    for part in row.split(";"):
        operand, _, cxx = part.partition(" ")
        kind, _, count = cxx.rstrip("]").partition("[")
        found[operand] = Registers(kind, int(count))
    return found


def _kind(kind: Fields, parameter: Callable[[int], Parameter]) -> Fields:
    shared: Fields = {key: tuple(value) if isinstance(value, list) else value for key, value in {**_LEFT_OUT, **kind}.items()}
    return shared | {"parameters": tuple(map(parameter, shared["parameters"]))}


def _group(group: Fields, kind: Callable[[int], Fields], value_types: Sequence[Fields]) -> tuple[str, Fields]:
    """(name, struct and opcodes, one a line, and all other fields) of a group."""
    own = dict(group)
    name, opcodes = own.pop("name"), own.pop("opcodes")
    base, _, arguments = name.rstrip(">").partition("<")
    own["arguments"] = tuple(
        f"cute::{argument}" if argument.endswith("_t") else argument for argument in arguments.split(",") if argument
    )
    types = dict(zip(_TYPES, own.pop("types").split(), strict=False))
    names = "\n".join((name, own.pop("struct", base), *opcodes))
    return names, kind(own.pop("of")) | own | types | {"value_types": value_types[group["value_types"]]}


def _layout_map(used: str, layout: Callable[[int], ThreadValueLayout]) -> dict[str, ThreadValueLayout]:
    """`A0 B3 C17` as a map from operand to layout."""
    return {re.sub(r"\d", "", word): layout(int(re.sub(r"\D", "", word))) for word in used.split()}


def _variant(row: list[Any], of: Operation, maps: Callable[[str], dict[str, ThreadValueLayout]]) -> Variant:
    numbers, m, n, k, types, used = row
    other = {
        parameter.name: parameter.values[numbers[parameter.name]] for parameter in of.parameters if parameter.name in numbers
    }
    type_d, type_a, type_b, type_c, type_sf = types or (of.type_d, of.type_a, of.type_b, of.type_c, of.type_sf)
    return Variant(other, m, n, k, type_d, type_a, type_b, type_c, type_sf, maps(used))


def find(name: str) -> Operation:
    """The operation of that name; blanks, a leading cute:: and namespaces may be left out or put in.

    Raises UsageError with the nearest names.
    """
    if found := known(name):
        return found
    if "universalfma" in name.lower():
        remedy = "UniversalFMA<float> and UniversalFMA<double> are atoms of specs: one thread, one element of A, B and C"
    else:
        remedy = did_you_mean(nearest(name)) or "mmagen atoms lists all names"
    raise UsageError(f"no MMA operation is called {name!r}; {remedy}")


def called(name: str) -> list[Operation]:
    """The operations of a name, of a pattern with * or ?, or of a PTX instruction, whole or its beginning, e.g.
    mma.sync.aligned.m16n8k16. Raises UsageError where there are none."""
    if "*" in name or "?" in name:
        pattern = name.lower()  # no two names differ in case alone
        found = [operation for operation in operations() if fnmatch.fnmatchcase(operation.name.lower(), pattern)]
        if not found:
            raise UsageError(f"no MMA operation matches {name}; mmagen atoms lists all names")
        return found
    return of_instruction(name) or [find(name)]


def of_instruction(text: str) -> list[Operation]:
    """The operations of a PTX instruction, whole or its beginning; none for a text that is none."""
    opcode = text.partition(" ")[0].rstrip(";")
    if "." not in opcode:
        return []
    parts = opcode.lower().split(".")
    return [one for one in operations() if any(each.lower().split(".")[: len(parts)] == parts for each in one.opcodes)]


def known(name: str) -> Operation | None:
    """The operation that `find` finds, None for a name that no operation has. Those of mma.sp, which CUTLASS lacks, are none of
    `operations()`."""
    if found := _catalogue().named(name) or own_operation(name):
        return found
    wanted = _plain(name)
    return _names().get(wanted) or _names().get(wanted.partition("<")[0])


def nearest(name: str, count: int = 3) -> list[str]:
    """Names most like `name`, the most alike first; the part before template arguments counts as well."""
    wanted = _plain(name).upper()
    spellings: dict[str, dict[str, None]] = {}
    for key, operation in _names().items():
        for spelling in {key.upper(), key.partition("<")[0].upper()}:
            spellings.setdefault(spelling, {})[operation.name] = None
    close = difflib.get_close_matches(wanted, spellings, n=count, cutoff=0.6)
    return list(dict.fromkeys(found for key in close for found in spellings[key]))[:count]


@cache
def _names() -> dict[str, Operation]:
    """Operations by all spellings of their names, blanks aside: the name, the struct, the struct without namespaces."""
    table: dict[str, Operation] = {}
    for operation in operations():
        brackets = "".join(operation.name.partition("<")[1:])
        for spelling in (operation.name, operation.struct + brackets, operation.struct.rpartition("::")[2] + brackets):
            table.setdefault(_plain(spelling), operation)
    return table


def _plain(name: str) -> str:
    return re.sub(r"\s+|\b(cute|cutlass)::", "", name)


def select(
    *,
    target: str | None = None,
    kind: str | None = None,
    family: str | None = None,
    type: str | None = None,
    shape: str | None = None,
    sparse: bool | None = None,
    block_scaled: bool | None = None,
    among: Iterable[Operation] | None = None,
) -> list[Operation]:
    """The operations that match all given filters.

    target: it runs there (sm_90a). type: A or B is of it, or of `bf16,f32` every word is among A, B, D and the scales.
    shape: `16x8x16`, or with a * for any extent, `64x*x16`.
    """
    words = set(type.split(",")) if type else set()
    extents = re.split(r"[x,]", shape) if shape else []
    if extents and (len(extents) != 3 or not all(part == "*" or part.isdecimal() for part in extents)):
        raise UsageError(f"{shape}: a shape is written as 16x8x16, or with * for any extent, 64x*x16")

    def wanted(operation: Operation) -> bool:
        inputs = {operation.type_a, operation.type_b}
        every = inputs | {operation.type_d, operation.type_sf}
        return (
            (not target or operation.runs_on(target))
            and (not kind or operation.kind == kind)
            and (not family or operation.family == family.upper())
            and (not words or (bool(words & inputs) and words <= every))
            and all(part in ("*", str(extent)) for part, extent in zip(extents, operation.shape, strict=False))
            and sparse in (None, operation.sparse)
            and block_scaled in (None, operation.block_scaled)
        )

    return [operation for operation in (operations() if among is None else among) if wanted(operation)]


def choose_operations(
    names: Sequence[str], filters: Mapping[str, Any], called: Callable[[str], list[Operation]]
) -> list[Operation]:
    """The operations that `called` finds for each of the names; without names those that select(**filters) leaves.

    Raises UsageError for names beside filters, and where nothing is left.
    """
    if names and any(value is not None for value in filters.values()):
        raise UsageError("names and filters cannot be combined; leave out the filters")
    found = [operation for name in names for operation in called(name)] if names else select(**filters)
    if not found:
        raise UsageError("no MMA operation matches all filters; leave one of them out")
    return found
