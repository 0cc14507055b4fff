"""Instructions -> Python source: one function per straight-line block, with numpy over all lanes.

A register's value is an array over the lanes (CTAs x threads), or of length 1 while it is the same in all of them.
Values are never changed in place: an instruction binds its result anew, so `mov` costs nothing and a partial write is
`where(mask, new, old)`. Source is generated, rather than a closure per instruction, because the call would cost as much as
the arithmetic of a small CTA.

An instruction is added by registering a builder under its base opcode in OPS, from any ops module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mmagen.emulate.errors import EmulationError
from mmagen.emulate.program.specials import WIDE_SPECIALS
from mmagen.emulate.ptx.model import Address, Immediate, Instruction, Name, Negated, Operand, Register, Special, Symbol

# numpy type of a value of a PTX type, as named in the generated source.
_DTYPES = {
    "pred": "b1",
    **{f"{kind}{bits}": f"u{bits // 8}" for kind in "ub" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": f"i{bits // 8}" for bits in (8, 16, 32, 64)},
    "f16": "u2",
    "bf16": "u2",
    "f16x2": "u4",
    "bf16x2": "u4",
    "tf32": "u4",
    "f32": "f4",
    "f64": "f8",
    "e4m3x2": "u2",
    "e5m2x2": "u2",
    "u16x2": "u4",
    "s16x2": "u4",
}
NUMPY_TYPES: dict[str, type] = {
    "b1": np.bool_,
    **{f"u{size}": np.dtype(f"u{size}").type for size in (1, 2, 4, 8)},
    **{f"i{size}": np.dtype(f"i{size}").type for size in (1, 2, 4, 8)},
    "f4": np.float32,
    "f8": np.float64,
}

_OTHER_FORM = "this form of the instruction is not supported"

Builder = Callable[["Emitter", Instruction], None]
OPS: dict[str, Builder] = {}
# Opcodes that need their warp whole: lanes that arrive early wait for the others.
WARP_WIDE: set[str] = set()


def op(*bases: str, warp_wide: bool = False) -> Callable[[Builder], Builder]:
    """Registers a builder for base opcodes."""

    def register(builder: Builder) -> Builder:
        for base in bases:
            OPS[base] = builder
            if warp_wide:
                WARP_WIDE.add(base)
        return builder

    return register


def literal(operand: Operand) -> int:
    """The value of a literal; raises EmulationError for another operand."""
    if not isinstance(operand, Immediate):
        raise EmulationError(_OTHER_FORM)
    return int(operand.value)


def register(operand: Operand) -> Register:
    """The operand as a register; raises EmulationError for another one."""
    if not isinstance(operand, Register):
        raise EmulationError(_OTHER_FORM)
    return operand


def dtype_of(kind: str) -> str:
    """The numpy type name ("u4") for a PTX type ("b32"); raises KeyError for an unknown one."""
    return _DTYPES[kind]


def storage_of(register: Register) -> str:
    """The numpy type name in which a register's values are kept: floats as floats, all else unsigned."""
    return dtype_of(register.type).replace("i", "u")


class Emitter:
    """Writes the source of one entry's blocks. Builders call `source`, `write`, `line` and `bind`.

    place_of: a variable's address in its own space, None for global memory. specials: a special register's expression.
    tracked: registers of which it is checked at run time that they are written before they are read. unused: the index of an
    instruction -> registers whose values nothing uses there, for which this is not checked. inner: registers that no block
    reads before it has written them: lanes that are elsewhere may hold anything in them, so that results need no mask.
    """

    def __init__(
        self,
        place_of: Callable[[str], int | None],
        specials: Callable[[str], str],
        tracked: frozenset[int],
        unused: Mapping[int, frozenset[int]],
        inner: frozenset[int] = frozenset(),
    ):
        self._place_of = place_of
        self._specials = specials
        self.begin_function()
        self.full = True
        self.mask = "m"
        self.instruction: Instruction | None = None
        self._indent = "  "
        self.tracked = tracked
        self._unused = unused
        self._inner = inner

    def begin_function(self) -> None:
        """Starts a function. Names of its namespace do not depend on the functions before it, so that its source is the same in
        each process."""
        self.namespace: dict[str, Any] = {**NUMPY_TYPES, "np": np, "where": np.where}
        self.lines: list[str] = []
        self._constants: dict[tuple[str, bytes], str] = {}
        self._names = 0

    def begin(self, instruction: Instruction, full: bool) -> None:
        """Starts an instruction; `full`: all lanes that still run take part."""
        self.instruction, self.full, self.mask, self._indent = instruction, full, "m", "  "
        if instruction.guard is not None:
            self.line(f"g = X.lanes.both(m, {self.source(instruction.guard, 'pred')})")
            self.line("if g.any():")
            self.mask, self._indent = "g", "    "

    def line(self, text: str) -> None:
        """Adds a line of source to the instruction."""
        self.lines.append(self._indent + text)

    def bind(self, value: object) -> str:
        """A name for `value` in the generated source."""
        self._names += 1
        name = f"k{self._names}"
        self.namespace[name] = value
        return name

    def constant(self, value: int | float, dtype: str) -> str:
        """A name for an array of length 1."""
        if dtype[0] in "ui":
            bits = 8 * int(dtype[1])
            array = np.array([int(value) % (1 << bits)], dtype=f"u{dtype[1]}").view(dtype)
        else:
            array = np.array([value], dtype=NUMPY_TYPES[dtype])
        key = (dtype, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.bind(array)
        return self._constants[key]

    def source(self, operand: Operand, kind: str) -> str:
        """An expression for an operand's value as the PTX type `kind`."""
        wanted = dtype_of(kind)
        if isinstance(operand, Register):
            return self._register(operand, wanted)
        if isinstance(operand, Negated):
            return f"~R[{operand.register.index}]"
        if isinstance(operand, Immediate):
            return self._immediate(operand, wanted)
        if isinstance(operand, Special):
            return _converted(self._specials(operand.name), "u8" if operand.name in WIDE_SPECIALS else "u4", wanted)
        if isinstance(operand, Name):
            return self._symbol(operand.name, 0, wanted)
        if isinstance(operand, Symbol):
            return self._symbol(operand.name, operand.offset, wanted)
        raise self.unsupported("an operand that this instruction does not take")

    def _register(self, register: Register, wanted: str) -> str:
        i = self.instruction
        if register.index in self.tracked and not (i and register.index in self._unused.get(i.index, ())):
            self.line(f"X.registers.check_written({register.index}, {self.mask}, {self.bind(self.instruction)})")
        return _converted(f"R[{register.index}]", storage_of(register), wanted)

    def _immediate(self, operand: Immediate, wanted: str) -> str:
        if wanted == "b1":
            return self.constant(bool(operand.value), wanted)
        if operand.bits is not None and wanted[0] in "ui":
            return self.constant(operand.bits, wanted)
        if operand.bits is not None and wanted[0] == "f":
            # From the bits, so that NaN payloads survive.
            size = 8 if (isinstance(operand.bits, int) and operand.bits > 0xFFFFFFFF) or wanted == "f8" else 4
            exact = np.array([operand.bits], dtype=f"u{size}").view(f"f{size}")
            return self.constant(exact[0], wanted) if size == int(wanted[1]) else self.constant(operand.value, wanted)
        return self.constant(operand.value, wanted)

    def write(self, operand: Operand, expression: str, kind: str) -> None:
        """Binds an expression of PTX type `kind` to a destination; a narrower value is extended by its sign or zeros."""
        if isinstance(operand, Name) and operand.name == "_":
            return
        if not isinstance(operand, Register):
            raise self.unsupported("a destination that is not a register")
        value = _converted(expression, dtype_of(kind), storage_of(operand))
        self._bind(operand.index, value)

    def special(self, name: str) -> str:
        """The place of a special register."""
        return self._specials(name)

    def assign(self, place: str, value: str) -> None:
        """Binds an expression to a place of the active lanes."""
        everywhere = self.full and self.mask == "m"
        self.line(f"{place} = {value}" if everywhere else f"{place} = where({self.mask}, {value}, {place})")

    def _bind(self, index: int, value: str) -> None:
        if index in self._inner and self.mask == "m":
            self.line(f"R[{index}] = {value}")
        else:
            self.assign(f"R[{index}]", value)
        if index in self.tracked:
            self.line(f"X.registers.mark_written({index}, {'None' if self.full and self.mask == 'm' else self.mask})")

    def address(self, operand: Operand, bits: int = 64) -> str:
        """An expression for the byte address of `[base + offset]`, as unsigned integers of `bits` bits."""
        if not isinstance(operand, Address):
            raise self.unsupported("an operand that should be an address")
        dtype = f"u{bits // 8}"
        if isinstance(operand.base, Register):
            base = _converted(f"R[{operand.base.index}]", storage_of(operand.base), dtype)
            if operand.base.index in self.tracked:
                base = self._register(operand.base, dtype)
            return f"{base} + {self.constant(operand.offset, dtype)}" if operand.offset else base
        if operand.base is None:
            return self.constant(operand.offset, dtype)
        return self._symbol(operand.base.name, operand.offset, dtype)

    def _symbol(self, name: str, offset: int, dtype: str) -> str:
        """A variable's address; of those in global memory only the launch knows it."""
        place = self._place_of(name)
        if place is not None:
            return self.constant(place + offset, dtype)
        return f"(np.array([X.program.address_of({name!r})], dtype=u8) + {self.constant(offset, 'u8')}).astype({dtype})"

    def unsupported(self, why: str) -> EmulationError:
        """The error for this instruction, without file and line; the caller raises it."""
        return EmulationError(why)


def _converted(expression: str, have: str, wanted: str) -> str:
    """An expression of numpy type `have` as bits of type `wanted`: reinterpreted, cut or extended, never rounded."""
    if have == wanted:
        return expression
    if wanted == "b1":
        return f"({expression}).astype(b1)"
    if have[1] == wanted[1]:
        return f"({expression}).view({wanted})"
    raw = f"({expression}).view(u{have[1]})" if have[0] == "f" else f"({expression})"
    if wanted[0] == "f":
        return f"{raw}.astype(u{wanted[1]}).view({wanted})"
    return f"{raw}.astype({wanted})"
