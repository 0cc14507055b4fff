"""CuTe layouts as text: `(4,4,2):(1,8,4)` to a small value and back. Syntax only; `mma.ownership` has the algebra."""

from __future__ import annotations

import re
from dataclasses import dataclass

INT_MAX = 2**31 - 1
MAX_DEPTH = 8
MAX_TEXT = 256

IntTuple = int | tuple["IntTuple", ...]


@dataclass(frozen=True)
class LayoutText:
    """A CuTe layout as written, e.g. `(4,4,2):(1,8,4)`: nested tuples of ints; shape and stride are congruent.

    shape: extents, each >= 1; stride: steps in elements, each >= 0. `str()` gives the canonical text, which
    `parse` reads back to an equal value.
    """

    shape: IntTuple
    stride: IntTuple

    @classmethod
    def parse(cls, text: str) -> LayoutText:
        """Parse `4:1`, `(4,4,2):(1,8,4)` or `((2,2),3):((1,6),2)`; without strides the layout is compact, column-major. CuTe's
        static integers, `_4`, are accepted. Raises ValueError."""
        if len(text) > MAX_TEXT:
            raise ValueError(f"a layout of {len(text)} characters is too long, {MAX_TEXT} are allowed")
        shape_text, colon, stride_text = text.partition(":")
        shape = _parse_int_tuple(shape_text, least=1, part="shape")
        if not colon:
            return cls.compact(shape)
        stride = _parse_int_tuple(stride_text, least=0, part="stride")
        if not _congruent(shape, stride):
            raise ValueError(f"shape {_print_int_tuple(shape)} and stride {_print_int_tuple(stride)} are not congruent")
        return cls(shape, stride)

    @classmethod
    def compact(cls, shape: IntTuple) -> LayoutText:
        """The compact column-major layout of `shape`."""
        return cls(shape, _compact_stride(shape, 1)[0])

    @property
    def rank(self) -> int:
        """Number of modes; 1 for a plain integer."""
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    @property
    def modes(self) -> tuple[LayoutText, ...]:
        """The layouts of its modes; of a plain integer, the layout itself."""
        if isinstance(self.shape, int) or isinstance(self.stride, int):
            return (self,)
        return tuple(map(LayoutText, self.shape, self.stride))

    @property
    def size(self) -> int:
        """Product of all extents."""
        return _product(self.shape)

    def __str__(self) -> str:
        return f"{_print_int_tuple(self.shape)}:{_print_int_tuple(self.stride)}"


def _parse_int_tuple(text: str, *, least: int, part: str) -> IntTuple:
    tokens = re.findall(r"_?[0-9]+|\S", text)
    position = 0

    def parse(depth: int) -> IntTuple:
        nonlocal position
        token = tokens[position] if position < len(tokens) else ""
        position += 1
        digits = token.removeprefix("_")
        if digits.isascii() and digits.isdecimal():
            value = int(digits) if len(digits) <= 10 else INT_MAX + 1
            if not least <= value <= INT_MAX:
                raise ValueError(f"{digits[:20]} in the {part} is out of range, {least} to {INT_MAX} are allowed")
            return value
        if token != "(":
            found = f"has {token!r}" if token else "ends"
            raise ValueError(f"the {part} {found} where an integer or '(' is expected")
        if depth == MAX_DEPTH:
            raise ValueError(f"the {part} nests deeper than {MAX_DEPTH}")
        modes = [parse(depth + 1)]
        while position < len(tokens) and tokens[position] == ",":
            position += 1
            modes.append(parse(depth + 1))
        if position >= len(tokens) or tokens[position] != ")":
            raise ValueError(f"the {part} has a '(' without its ')'")
        position += 1
        return tuple(modes)

    value = parse(0)
    if position != len(tokens):
        raise ValueError(f"the {part} has {tokens[position]!r} after its end")
    return value


def _print_int_tuple(value: IntTuple) -> str:
    return str(value) if isinstance(value, int) else f"({','.join(map(_print_int_tuple, value))})"


def _congruent(shape: IntTuple, stride: IntTuple) -> bool:
    if isinstance(shape, int) or isinstance(stride, int):
        return isinstance(shape, int) and isinstance(stride, int)
    return len(shape) == len(stride) and all(map(_congruent, shape, stride))


def _product(shape: IntTuple) -> int:
    if isinstance(shape, int):
        return shape
    product = 1
    for mode in shape:
        product *= _product(mode)
    return product


def _compact_stride(shape: IntTuple, step: int) -> tuple[IntTuple, int]:
    if isinstance(shape, int):
        return step, step * shape
    strides = []
    for mode in shape:
        stride, step = _compact_stride(mode, step)
        strides.append(stride)
    return tuple(strides), step
