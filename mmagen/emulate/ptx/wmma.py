"""The wmma instructions by their words (PTX ISA 9.7.14.3 to 9.7.14.5, "wmma.load", "wmma.store", "wmma.mma").

Which thread holds which element is left open by the ISA, so that programs cannot rely on it. Here a thread holds consecutive
elements: of A and B in the order of their memory, so that a product that is told the other order than the load computes something
else; of C and D by rows. Where a fragment has more registers than elements, as those of f16 do, it holds them more than once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from mmagen.emulate.errors import EmulationError

WARP = 32
_WIDEST = 16  # bytes of one access of a thread
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
_SQUARE = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
_SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), _SQUARE),
    "tf32": ((16, 16, 8),),
    "f64": ((8, 8, 4),),
    **dict.fromkeys(("s4", "u4"), ((8, 8, 32),)),
    "b1": ((8, 8, 128),),
}
_SUMS = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}  # s32 of the others
_ROW_COL_ONLY = ("s4", "u4", "b1")


@dataclass(frozen=True)
class Fragment:
    """Of one matrix, held by the threads of a warp. rows, columns: of the matrix. bits: of an element. by_rows: do consecutive
    elements of a thread lie in a row? registers: of a thread, of 64 bits where elements have so many, else of 32."""

    rows: int
    columns: int
    bits: int
    by_rows: bool
    registers: int

    @property
    def elements(self) -> int:
        """Different ones of a thread."""
        return self.rows * self.columns // WARP

    @property
    def held(self) -> int:
        """Registers of a thread with different elements, the first ones."""
        return self.elements * self.bits // max(32, self.bits)

    @property
    def line(self) -> int:
        """Elements between the beginnings of lines in the order of the fragment."""
        return self.columns if self.by_rows else self.rows


@dataclass(frozen=True)
class Transfer:
    """wmma.load or wmma.store. by_rows: do the lines in memory hold rows?"""

    fragment: Fragment
    by_rows: bool

    @property
    def extent(self) -> int:
        """Elements of a line in memory, which is the stride where none is given."""
        return self.fragment.columns if self.by_rows else self.fragment.rows

    @property
    def together(self) -> int:
        """Elements that a thread accesses at once: those that it holds, as far as they follow each other in memory."""
        fragment = self.fragment
        if fragment.by_rows != self.by_rows:
            return max(1, 8 // fragment.bits)
        return min(fragment.elements, fragment.line, _WIDEST * 8 // fragment.bits)

    @property
    def bytes_together(self) -> int:
        return self.together * self.fragment.bits // 8


@dataclass(frozen=True)
class Product:
    """wmma.mma. types: of D, A, B and C; operation: mul, xor or and."""

    shape: tuple[int, int, int]
    types: tuple[str, str, str, str]
    a: Fragment
    b: Fragment
    c: Fragment
    d: Fragment
    operation: str
    saturate: bool


@cache
def transfer_of(modifiers: tuple[str, ...]) -> Transfer:
    """modifiers: the words after `wmma`, such as ("load", "a", "sync", "aligned", "row", "m16n16k16", "global", "f16"). Raises
    EmulationError for what PTX does not have."""
    text = "wmma." + ".".join(modifiers)
    match = re.fullmatch(
        r"wmma\.(load\.[abc]|store\.d)\.sync\.aligned\.(row|col)\.m(\d+)n(\d+)k(\d+)(?:\.(?:global|shared(?:::cta)?))?\.(\w+)",
        text,
    )
    if not match or match[6] not in _BITS:
        raise EmulationError(f"{text}: not a wmma instruction that the emulator knows")
    letter, by_rows, shape, kind = match[1][-1], match[2] == "row", _shape(match.group(3, 4, 5)), match[6]
    if letter in "cd":
        inputs = [one for one, shapes in _SHAPES.items() if shape in shapes and kind in _SUMS.get(one, ("s32",))]
        legal = bool(inputs)
    else:
        legal = shape in _SHAPES.get(kind, ()) and (kind not in _ROW_COL_ONLY or by_rows == (letter == "a"))
    if not legal:
        raise EmulationError(f"{text}: PTX has no such combination of shape, type and layout")
    return Transfer(_fragment(letter, shape, kind, by_rows), by_rows)


@cache
def product_of(modifiers: tuple[str, ...]) -> Product:
    """modifiers: the words after `wmma`, such as ("mma", "sync", "aligned", "row", "col", "m16n16k16", "f32", "f32"). Raises
    EmulationError for what PTX does not have."""
    text = "wmma." + ".".join(modifiers)
    match = re.fullmatch(
        r"wmma\.mma(?:\.(xor|and)\.popc)?\.sync\.aligned\.(row|col)\.(row|col)\.m(\d+)n(\d+)k(\d+)(?:\.rn)?"
        r"((?:\.(?:[fsu]\d+|bf16|tf32|b1))+)(?:\.rn)?(\.satfinite)?",
        text,
    )
    words = match[7].split(".")[1:] if match else []
    if len(words) == 2:
        words = [words[0], "f16", "f16", words[1]]
    if not match or len(words) != 4 or {*words} - {*_BITS}:
        raise EmulationError(f"{text}: not a wmma instruction that the emulator knows")
    result, left, right, start = words
    shape, rows = _shape(match.group(4, 5, 6)), (match[2] == "row", match[3] == "row")
    sums = _SUMS.get(left, ("s32",))
    legal = shape in _SHAPES.get(left, ()) and left == right and result in sums and start in sums
    legal &= left not in _ROW_COL_ONLY or rows == (True, False)
    legal &= (match[1] is not None) == (left == "b1") and (not match[8] or (sums == ("s32",) and left != "b1"))
    if not legal:
        raise EmulationError(f"{text}: PTX has no such combination of shape, types and qualifiers")
    return Product(
        shape,
        (result, left, right, start),
        _fragment("a", shape, left, rows[0]),
        _fragment("b", shape, right, rows[1]),
        _fragment("c", shape, start, True),
        _fragment("d", shape, result, True),
        match[1] or "mul",
        bool(match[8]),
    )


def _shape(words: tuple[str, ...]) -> tuple[int, int, int]:
    m, n, k = (int(word) for word in words)
    return m, n, k


def _fragment(letter: str, shape: tuple[int, int, int], kind: str, by_rows: bool) -> Fragment:
    m, n, k = shape
    rows, columns = {"a": (m, k), "b": (k, n)}.get(letter, (m, n))
    bits = _BITS[kind]
    needed = rows * columns // WARP * bits // max(32, bits)
    factor = letter in "ab"
    return Fragment(rows, columns, bits, by_rows or not factor, 8 if factor and kind == "f16" else needed)
