"""Operands of PTX instructions, with the scopes in which their registers are declared."""

from __future__ import annotations

import re
import struct
from functools import cache

from mmagen.emulate.ptx.functions import read_call
from mmagen.emulate.ptx.model import Address, Immediate, Name, Negated, Operand, Pair, Register, Special, Symbol, Vector

_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
_NUMBER = re.compile(
    r"[-+]?\s*(?:0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*(?:[eE][-+]?\d+)?|\d+U?)$"
)
_RANGE = re.compile(r"([%$\w]+?)<(\d+)>$")
_ADDRESS = re.compile(r"\[\s*([%$\w]+)\s*(?:([-+])\s*([-+]?\s*\w+))?\s*\]$")
_NESTED = re.compile(r"[{(]|\[[^\]]*,")
_TRAILING_DIGITS = re.compile(r"(.*?)(\d+)$")
_SPECIALS = re.compile(
    r"%(?:(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyz])?|laneid|warpid|nwarpid|"
    r"smid|nsmid|gridid|lanemask_\w+|clock\w*|globaltimer\w*|pm\d+|envreg\d+|total_smem_size|dynamic_smem_size|"
    r"is_explicit_cluster|cluster_ctarank|cluster_nctarank|current_graph_exec|aggr_smem_size|reserved_smem\w*)$"
)


@cache
def size_of(kind: str) -> int | None:
    """Bytes of a PTX type such as "u16" or "pred"; None for an unknown one."""
    if kind == "pred":
        return 1
    found = re.fullmatch(r"(?:[bsuf]|bf)(8|16|32|64|128)(x2)?", kind)
    return _SIZES[found.group(1)] * (2 if found.group(2) else 1) if found else None


def split_operands(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    if not _NESTED.search(text):
        return [part.strip() for part in text.split(",")] if text.strip() else []
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return parts if parts != [""] else []


class OperandReader:
    """Reads operands, and numbers registers as they are first used."""

    def __init__(self) -> None:
        self.registers: list[Register] = []
        self._scopes: list[dict[str, Register]] = [{}]
        self._ranges: list[dict[str, tuple[int, str]]] = [{}]
        self._labels: list[dict[str, str]] = [{}]
        self._variables: list[dict[str, str]] = [{}]
        self._read_before: list[dict[str, Operand]] = [{}]
        self._numbers = [0]  # of the open scopes, in the order in which scopes were opened
        self._count = 0

    def open_scope(self) -> None:
        self._scopes.append({})
        self._ranges.append({})
        self._labels.append({})
        self._variables.append({})
        self._read_before.append({})
        self._count += 1
        self._numbers.append(self._count)

    def close_scope(self) -> bool:
        """Whether the outermost scope was closed."""
        self._scopes.pop()
        self._ranges.pop()
        self._labels.pop()
        self._variables.pop()
        self._numbers.pop()
        self._read_before.pop()
        return not self._scopes

    def declare(self, kind: str, names: str, vector: str) -> None:
        """`.reg .kind names`; raises ValueError for an unknown type."""
        if size_of(kind) is None or vector:
            raise ValueError(f"registers of type {vector}.{kind} are not supported")
        for name in (n.strip() for n in names.split(",")):
            if found := _RANGE.match(name):
                self._ranges[-1][found.group(1)] = (int(found.group(2)), kind)
            else:
                self._scopes[-1][name] = self._new(name, kind)
        self._read_before[-1].clear()

    def declare_label(self, name: str) -> str:
        """Notes a label of this scope and returns the name that is unique in the entry; raises ValueError for a second one."""
        if name in self._labels[-1]:
            raise ValueError(f"label {name} is defined twice")
        self._labels[-1][name] = f"{name}#{self._numbers[-1]}" if len(self._labels) > 1 else name
        return self._labels[-1][name]

    def declare_variable(self, name: str) -> str:
        """Notes a variable of this scope and returns the name that is unique in the entry."""
        unique = f"{name}#{self._numbers[-1]}" if len(self._variables) > 1 else name
        self.rename(name, unique)
        return unique

    def rename(self, name: str, unique: str) -> None:
        """In this scope a name means the variable that is called `unique` in the entry."""
        self._variables[-1][name] = unique
        self._read_before[-1].clear()

    def variable(self, name: str) -> str:
        """The name in the entry of the variable that a name means here; the name itself where no scope declares it."""
        return next((scope[name] for scope in reversed(self._variables) if name in scope), name)

    def visible_labels(self) -> tuple[dict[str, str], ...]:
        """The label tables of the open scopes, innermost first; they go on filling while statements arrive."""
        return tuple(reversed(self._labels))

    def _new(self, name: str, kind: str) -> Register:
        register = Register(name, kind, len(self.registers))
        self.registers.append(register)
        return register

    def register(self, name: str) -> Register | None:
        """The register that this name means here, or None."""
        for scope, ranges in zip(reversed(self._scopes), reversed(self._ranges), strict=True):
            if name in scope:
                return scope[name]
            if ranges and (found := _TRAILING_DIGITS.match(name)):
                count, kind = ranges.get(found.group(1), (0, ""))
                if int(found.group(2)) < count:
                    scope[name] = self._new(name, kind)
                    return scope[name]
        return None

    def guard(self, name: str, negated: bool) -> Register | Negated:
        """The predicate of `@name` or `@!name`; raises ValueError for another operand."""
        return Negated(self._predicate(name)) if negated else self._predicate(name)

    def _predicate(self, name: str) -> Register:
        register = self.register(name)
        if register is None or register.type != "pred":
            raise ValueError(f"{name} is not a predicate")
        return register

    def operands(self, text: str, base: str) -> tuple[Operand, ...]:
        """All operands of one statement; raises ValueError for what cannot be read."""
        if base == "call":
            called = read_call(text)
            results, arguments = (Vector(tuple(map(self.operand, part))) for part in (called.results, called.arguments))
            return Name(called.name), results, arguments
        return tuple(self.operand(part) for part in split_operands(text))

    def operand(self, text: str) -> Operand:
        before = self._read_before[-1]
        if text not in before:
            before[text] = self._read(text)
        return before[text]

    def _read(self, text: str) -> Operand:
        if not text:
            raise ValueError("an operand is missing")
        if text[0] == "{":
            if text[-1] != "}":
                raise ValueError(f"unclosed vector {text}")
            return Vector(tuple(self.operand(part) for part in split_operands(text[1:-1])))
        if text[0] == "[":
            return self._address(text)
        if text[0] == "!":
            return Negated(self._predicate(text[1:].strip()))
        if "|" in text:
            first, second = text.split("|", 1)
            return Pair(self.operand(first.strip()), self.operand(second.strip()))
        if register := self.register(text):
            return register
        if _NUMBER.match(text):
            return number(text)
        if text[0] == "%":
            if _SPECIALS.match(text):
                return Special(text[1:])
            raise ValueError(f"unknown register {text}")
        return self._word(text)

    def _word(self, text: str) -> Operand:
        if text == "WARP_SZ":
            return Immediate(32)
        if found := re.fullmatch(r"([$\w]+)\s*\+\s*(\d+)", text):
            return Symbol(self.variable(found.group(1)), int(found.group(2)))
        if re.fullmatch(r"[$\w]+", text):
            return Name(self.variable(text))
        raise ValueError(f"unreadable operand {text}")

    def _address(self, text: str) -> Address | Vector:
        found = _ADDRESS.match(text)
        if not found:
            # Tensor coordinates: [map, {x, y}] is read as the list of its parts.
            if text[-1] == "]" and "," in text:
                place, *coordinates = split_operands(text[1:-1])
                return Vector((self._address(f"[{place}]"), *(self.operand(part) for part in coordinates)))
            raise ValueError(f"unreadable address {text}")
        name, sign, offset = found.groups()
        distance = int(number(offset).value) if offset else 0
        distance = -distance if sign == "-" else distance
        if register := self.register(name):
            return Address(register, distance)
        if _NUMBER.match(name):
            return Address(None, int(number(name).value) + distance)
        if name[0] == "%":
            raise ValueError(f"unknown register {name}")
        return Address(Symbol(self.variable(name)), distance)


def number(text: str) -> Immediate:
    """A literal: 12, -3, 0x1F, 0f3F800000, 0d..., 1.5. Raises ValueError for an integer of more than 64 bits."""
    text = text.replace(" ", "")
    sign = -1 if text[0] == "-" else 1
    plain = text.lstrip("+-")
    if plain[:2] in ("0f", "0F"):
        bits = int(plain[2:], 16)
        return Immediate(struct.unpack("<f", struct.pack("<I", bits))[0], bits)
    if plain[:2] in ("0d", "0D"):
        bits = int(plain[2:], 16)
        return Immediate(struct.unpack("<d", struct.pack("<Q", bits))[0], bits)
    if "." in plain:
        return Immediate(sign * float(plain))
    plain = plain.rstrip("U")
    base = 0 if plain[:2].lower() in ("0x", "0b") else 8 if plain.startswith("0") and len(plain) > 1 else 10
    value = sign * int(plain, base)
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{text} has more than 64 bits")
    return Immediate(value)
