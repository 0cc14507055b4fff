"""Further arguments of a kernel: tensors and numbers beyond A, B, C, D, alpha and beta, in the order of `<name>_args`.

One list of these values is behind the C header, the checks of a call, the Python binding, the native test program and the
emulated verification. A part of a kernel (its epilogue, scale factors, metadata, groups) adds its own to the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mmagen.mma.atoms import TYPES, ElementType

# Pointers that the struct of every library has.
IN_EVERY_STRUCT = ("metadata_a", "scale_a", "scale_b")
POINTER_BYTES = 8


@dataclass(frozen=True)
class Extent:
    """ceil(of / step) * times + plus. of: m, n, k, batch, the name of a Number of kind int64, or "1"."""

    of: str = "1"
    step: int = 1
    times: int = 1
    plus: int = 0

    def value(self, values: Mapping[str, int]) -> int:
        """The extent, given m, n, k, batch and the numbers by name."""
        of = 1 if self.of == "1" else values[self.of]
        return -(-of // self.step) * self.times + self.plus

    @property
    def cxx(self) -> str:
        """An expression of C++ on a struct `args`, of type int64_t."""
        of = "int64_t(1)" if self.of == "1" else f"args.{self.of}"
        found = of if self.step == 1 else f"mmagen::detail::ceil_div({of}, {self.step})"
        found = found if self.times == 1 else f"{found} * {self.times}"
        return f"{found} + {self.plus}" if self.plus else found

    @property
    def text(self) -> str:
        """`n`, `ceil(k / 128)`, `4 * m`, `groups + 1`."""
        found = self.of if self.step == 1 else f"ceil({self.of} / {self.step})"
        if self.of == "1":
            return str(self.value({}))
        found = found if self.times == 1 else f"{self.times} * {found}"
        return f"{found} + {self.plus}" if self.plus else found


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A matrix of rows x columns, one for each matrix of a batch, in device memory.

    name: of the member, a pointer. part: who fills and judges it. columns_contiguous: the second mode is the contiguous one.
    pitched: `ld_<name>` is the distance of its lines, in elements; else it is one line, or lines without a gap. batched:
    `batch_stride_<name>` is the distance of its matrices, 0 for one that all share; else there is one. access: read, write (of
    what it held before nothing counts) or update. alignment: bytes that the pointer is aligned to, 0 for those of an element.
    required: it must not be NULL. sentence: what it holds. of_groups: each group has one, and the pointer is to an array of
    `batch` pointers in device memory; where it is pitched, `group_ld_<name>` may be an array of leading dimensions.
    """

    name: str
    element: ElementType
    part: str
    rows: Extent
    columns: Extent
    sentence: str
    columns_contiguous: bool = True
    pitched: bool = False
    batched: bool = True
    access: str = "read"
    alignment: int = 0
    required: bool = True
    of_groups: bool = False

    @property
    def line(self) -> Extent:
        """Elements along the contiguous mode."""
        return self.columns if self.columns_contiguous else self.rows

    @property
    def lines(self) -> Extent:
        return self.rows if self.columns_contiguous else self.columns

    @property
    def written(self) -> bool:
        return self.access != "read"

    @property
    def replaced(self) -> bool:
        """Is it written, whatever it held before?"""
        return self.access == "write"

    @property
    def aligned_to(self) -> int:
        """Bytes."""
        return POINTER_BYTES if self.of_groups else self.bytes_of_groups

    @property
    def element_bytes(self) -> int:
        """Of an element in memory."""
        return max(1, self.element.bytes)

    @property
    def bytes_of_groups(self) -> int:
        """That the tensor itself is aligned to, of each group."""
        return self.alignment or self.element_bytes

    @property
    def of_every_struct(self) -> bool:
        """Does the struct of every library have the pointer?"""
        return self.name in IN_EVERY_STRUCT

    @property
    def members(self) -> tuple[tuple[str, str], ...]:
        """(type, name) of the members that a struct has for it besides those of every struct."""
        pointer = () if self.of_every_struct else (("void *" if self.written else "const void *", self.name),)
        pitch = (("int64_t ", f"ld_{self.name}"),) if self.pitched else ()
        stride = (("int64_t ", f"batch_stride_{self.name}"),) if self.batched else ()
        return (*pointer, *pitch, *stride)

    @property
    def ld(self) -> str:
        """Its leading dimension in a struct `args` of C++; 0 where it has none."""
        return f"args.ld_{self.name}" if self.pitched else "0"

    @property
    def stride(self) -> str:
        """Its batch stride, likewise."""
        return f"args.batch_stride_{self.name}" if self.batched else "0"

    @property
    def shape_text(self) -> str:
        """`(1, n)`."""
        return f"({self.rows.text}, {self.columns.text})"

    @property
    def description(self) -> dict[str, Any]:
        """For description() of the library."""
        return {
            "name": self.name,
            "type": self.element.word,
            "rows": vars(self.rows),
            "columns": vars(self.columns),
            "contiguous": "columns" if self.columns_contiguous else "rows",
            "pitched": self.pitched,
            "batched": self.batched,
            "access": self.access,
            "aligned_to": self.aligned_to,
            "required": self.required,
            "about": self.sentence,
        } | ({"of_groups": True} if self.of_groups else {})


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number that the host passes by value. kind: int64 or double. default: what the struct's initializer has."""

    name: str
    part: str
    sentence: str
    kind: str = "int64"
    default: int = 0

    @property
    def ctype(self) -> str:
        return "int64_t" if self.kind == "int64" else "double"

    @property
    def members(self) -> tuple[tuple[str, str], ...]:
        return ((f"{self.ctype} ", self.name),)

    @property
    def description(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.kind, "about": self.sentence}


Argument = Tensor | Number


@dataclass(frozen=True)
class Arguments:
    """All further arguments of a kernel, in the order of the struct."""

    all: tuple[Argument, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.all)

    def __add__(self, other: Arguments) -> Arguments:
        return Arguments((*self.all, *other.all))

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(one for one in self.all if isinstance(one, Tensor))

    @cached_property
    def of_groups(self) -> tuple[Tensor, ...]:
        """Those that each group has."""
        return tuple(one for one in self.tensors if one.of_groups)

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        return tuple(one for one in self.all if isinstance(one, Number))

    @property
    def members(self) -> tuple[tuple[str, str], ...]:
        """(type, name) of all members, in order; types are int64_t, double and pointers."""
        return tuple(member for one in self.all for member in one.members)

    @property
    def initializer(self) -> str:
        """`, NULL, 0, 0`: behind the values of the members that every struct has."""
        defaults = {number.name: str(number.default) for number in self.numbers}
        return "".join(f", {'NULL' if '*' in kind else defaults.get(name, '0')}" for kind, name in self.members)

    @property
    def description(self) -> list[dict[str, Any]]:
        return [one.description for one in self.all]


NO_ARGUMENTS = Arguments()


def of_description(entries: Sequence[Mapping[str, Any]]) -> Arguments:
    """Those that a library describes."""
    found: list[Argument] = []
    for entry in entries:
        if "rows" not in entry:
            found.append(Number(name=entry["name"], part="", sentence=entry["about"], kind=entry["type"]))
            continue
        found.append(
            Tensor(
                name=entry["name"],
                element=TYPES[entry["type"]],
                part="",
                rows=Extent(**entry["rows"]),
                columns=Extent(**entry["columns"]),
                sentence=entry["about"],
                columns_contiguous=entry["contiguous"] == "columns",
                **{key: entry[key] for key in ("pitched", "batched", "access", "required")},
                alignment=entry["aligned_to"],
                of_groups=entry.get("of_groups", False),
            )
        )
    return Arguments(tuple(found))


def together(parts: Sequence[Arguments]) -> Arguments:
    """Those of all parts of a kernel."""
    return sum(parts, NO_ARGUMENTS)
