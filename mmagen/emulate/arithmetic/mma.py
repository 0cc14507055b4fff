"""mma.sync and mma.sp: the product of one warp's fragments, for many warps at once.

Arithmetic. The PTX ISA (9.7.14.5.14 "Precision and rounding") leaves order and rounding of the sums open; this is what
is computed here, for the products and the accumulator of one instruction:
- f16, bf16, tf32, e4m3, e5m2 with f32 sums: products exact, their sum in float64, one addition of the accumulator in
  float64, then rounded toward zero to f32 as the tensor cores' last step does (Fasi et al., "Numerical behavior of
  NVIDIA tensor cores", PeerJ CS 2021). The tensor core also drops bits of addends that are far below the largest; this
  does not, so it is at least as exact. Sums of small integers are the same either way.
- with f16 sums: the same in float64, then rounded to nearest even to f16.
- f64: a chain of fused multiply-adds in the order of k.
- integers: exact, then wrapped to 32 bits, or clamped once at the end with .satfinite.
- 8-bit floats: as above, where Ada's tensor cores keep 13 bits of an aligned sum. On Hopper this instruction converts to
  f16 first, and an H200 keeps 25 bits of an aligned sum (tests/emulate/recorded); wgmma is another matter (aligned.py).
- mma.sp: only the K/2 elements of B that A's metadata choose are multiplied. An infinity or a NaN in the others does
  not reach the result, as it would with A's zeros written out (recorded on an H200).
NaN results are the canonical NaN (0x7fffffff, 0x7fff).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arithmetic.fragments import fragment_of, gather_index, scatter_index
from mmagen.emulate.arrays import Indices, Values, Words
from mmagen.emulate.errors import EmulationError

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "e4m3": 8, "e5m2": 8, "s32": 32}
BITS |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
_NARROW = ("e3m2", "e2m3", "e2m1")  # of kind::f8f6f4 alone, an element in each byte
BITS |= dict.fromkeys(_NARROW, 8)
_SIZES = {
    "f16": ((16, 8, 8), (16, 8, 16)),
    "bf16": ((16, 8, 8), (16, 8, 16)),
    "tf32": ((16, 8, 4), (16, 8, 8)),
    "f64": ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)),
    "fp8": ((16, 8, 16), (16, 8, 32)),
    "int8": ((8, 8, 16), (16, 8, 16), (16, 8, 32)),
    "int4": ((8, 8, 32), (16, 8, 32), (16, 8, 64)),
    "b1": ((8, 8, 128), (16, 8, 128), (16, 8, 256)),
}
_SPARSE_SIZES = {
    "f16": ((16, 8, 16), (16, 8, 32)),
    "bf16": ((16, 8, 16), (16, 8, 32)),
    "tf32": ((16, 8, 8), (16, 8, 16)),
    "fp8": ((16, 8, 64),),
    "int8": ((16, 8, 32), (16, 8, 64)),
    "int4": ((16, 8, 64), (16, 8, 128)),
}
_FAMILIES = {**dict.fromkeys(("e4m3", "e5m2", *_NARROW), "fp8"), "s8": "int8", "u8": "int8", "s4": "int4", "u4": "int4"}
_SUMS = {"f16": ("f16", "f32"), "fp8": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}
_QUALIFIERS = {"sync", "aligned", "row", "col", "satfinite", "xor", "and", "popc", "rn", "kind::f8f6f4"}

Layout = tuple[str | int, ...]


@dataclass(frozen=True)
class Form:
    """The parts of one mma instruction.

    m, n, k: its shape. types: of D, A, B and C. layouts: of D, A, B and C, as arguments of matrix_layouts.gather_index.
    matrices: independent products per warp (4 for Volta's m8n8k4, else 1). operation: mul, xor or and.
    sparse: A holds K/2 columns, and metadata select them.
    """

    m: int
    n: int
    k: int
    types: tuple[str, str, str, str]
    layouts: tuple[Layout, Layout, Layout, Layout]
    matrices: int
    operation: str
    saturate: bool
    sparse: bool

    @property
    def stored_k(self) -> int:
        return self.k // 2 if self.sparse else self.k


@cache
def parse(modifiers: tuple[str, ...]) -> Form:
    """The instruction that `mma` with these modifiers is; raises EmulationError if PTX or the emulator lacks it."""
    text = "mma." + ".".join(modifiers)
    sparse = bool(modifiers) and modifiers[0] in ("sp", "sp::ordered_metadata")
    words = modifiers[1:] if sparse else modifiers
    shapes = [match for match in (re.fullmatch(r"m(\d+)n(\d+)k(\d+)", word) for word in words) if match]
    types = tuple(word for word in words if word in BITS)
    unknown = [w for w in words if w not in BITS and w not in _QUALIFIERS and not re.fullmatch(r"m\d+n\d+k\d+", w)]
    majors = tuple(word for word in words if word in ("row", "col"))
    if len(shapes) != 1 or len(types) != 4 or unknown or len(majors) != 2:
        raise EmulationError(f"{text}: not an mma instruction that the emulator knows")
    m, n, k = (int(size) for size in shapes[0].groups())
    if {*types[1:3]} & {*_NARROW} and "kind::f8f6f4" not in words:
        raise EmulationError(f"{text}: elements of 4 and 6 bits need .kind::f8f6f4")
    operation = "xor" if "xor" in words else "and" if "and" in words else "mul"
    _check(text, (m, n, k), types, majors, sparse, operation, "satfinite" in words)
    volta = (m, n, k) == (8, 8, 4) and types[1] == "f16"
    layouts = _volta_layouts(types, majors) if volta else _layouts(m, n, k, types, sparse)
    return Form(m, n, k, types, layouts, 4 if volta else 1, operation, "satfinite" in words, sparse)


def _layouts(m: int, n: int, k: int, types: tuple[str, ...], sparse: bool) -> tuple[Layout, Layout, Layout, Layout]:
    """A sparse A is laid out like the dense one of half the depth: its elements are the packed ones (9.7.14.6.2)."""
    return (
        ("fragment_c", m, n, BITS[types[0]]),
        ("fragment_a", m, k // 2 if sparse else k, BITS[types[1]]),
        ("fragment_b", n, k, BITS[types[2]]),
        ("fragment_c", m, n, BITS[types[3]]),
    )


def _volta_layouts(types: tuple[str, ...], majors: tuple[str, ...]) -> tuple[Layout, Layout, Layout, Layout]:
    return (
        ("volta_c", BITS[types[0]]),
        ("volta_a", int(majors[0] == "row")),
        ("volta_b", int(majors[1] == "row")),
        ("volta_c", BITS[types[3]]),
    )


def _check(
    text: str,
    shape: tuple[int, int, int],
    types: tuple[str, ...],
    majors: tuple[str, ...],
    sparse: bool,
    operation: str,
    saturate: bool,
) -> None:
    """Refuse what the syntax of PTX ISA 9.7.14.5.14 and 9.7.14.6.3 does not allow."""
    result, left, right, start = types
    family = _FAMILIES.get(left, left)
    integer = family in ("int8", "int4", "b1")
    volta = shape == (8, 8, 4) and left == "f16" and not sparse
    legal = volta or shape in (_SPARSE_SIZES if sparse else _SIZES).get(family, ())
    legal &= _FAMILIES.get(right, right) == family and (left == right or family in _FAMILIES.values())
    legal &= result in (("s32",) if integer else _SUMS.get(family, ()))
    legal &= start == result or (volta and (result, start) == ("f32", "f16"))
    legal &= volta or majors == ("row", "col")
    legal &= (operation == "mul") == (family != "b1") and (not saturate or family in ("int8", "int4"))
    if not legal:
        raise EmulationError(f"{text}: PTX has no such combination of shape, types and qualifiers")


def mma(
    modifiers: tuple[str, ...],
    a: list[Values],
    b: list[Values],
    c: list[Values],
    metadata: Words | None = None,
    selector: int = 0,
) -> list[Values]:
    """D = A * B + C for the fragments of w warps.

    modifiers: the opcode's words after `mma`, such as ("sync", "aligned", "m16n8k16", "row", "col", "f32", ...).
    a, b, c: the operands' registers in order, each uint32[w, 32] (uint64 where elements are f64). metadata
    (uint32[w, 32]) and selector: the last two operands of mma.sp, which the other forms do not have.
    Returns D's registers likewise. Raises EmulationError for an instruction or a register count that does not exist.
    """
    form = parse(modifiers)
    for name, layout, registers in zip("abc", form.layouts[1:], (a, b, c), strict=True):
        if len(registers) != fragment_of(*layout).registers:
            wanted = fragment_of(*layout).registers
            raise EmulationError(f"mma.{'.'.join(modifiers)}: {name} has {len(registers)} registers, not {wanted}")
    left = values_of(_matrix(a, form.layouts[1], form.matrices, form.m, form.stored_k), form.types[1])
    right = values_of(_matrix(b, form.layouts[2], form.matrices, form.k, form.n), form.types[2])
    start = _matrix(c, form.layouts[3], form.matrices, form.m, form.n)
    if form.sparse:
        if metadata is None:
            raise EmulationError(f"mma.{'.'.join(modifiers)}: the sparsity metadata are missing")
        columns = sparse_columns(BITS[form.types[1]], form.k, metadata, selector)
        left, right = left[:, :, None, :], _chosen(right, columns)
    return _registers(accumulate(form, left, right, start), form.layouts[0])


def _matrix(registers: list[Values], layout: Layout, matrices: int, rows: int, columns: int) -> Values:
    """A fragment's codes as matrices: [w * matrices, rows, columns]; 4-bit and 1-bit elements in a byte each."""
    codes = unpacked(np.concatenate(registers, axis=1), fragment_of(*layout).bits)
    return codes.take(gather_index(*layout), axis=1).reshape(len(codes) * matrices, rows, columns)


def unpacked(words: Values, bits: int) -> Values:
    """The codes of elements of `bits` bits in registers [n, words], from the low bits on: [n, elements]. 4-bit and 1-bit elements
    in a byte each."""
    if bits == 16:
        return words.view(np.uint16)
    if bits > 16:
        return words
    packed = words.view(np.uint8)
    if bits == 4:
        return np.stack((packed & 0xF, packed >> 4), axis=-1).reshape(len(packed), -1)
    return np.unpackbits(packed, axis=1, bitorder="little") if bits == 1 else packed


def _registers(codes: Values, layout: Layout) -> list[Values]:
    """Matrices of codes, of 16, 32 or 64 bits, as a fragment's registers."""
    fragment = fragment_of(*layout)
    index = scatter_index(*layout)
    flat = codes.reshape(-1, index.size).take(index, axis=1)
    words = flat if fragment.bits == 64 else flat.view(np.uint32)
    return list(np.ascontiguousarray(words.reshape(-1, fragment.registers, 32).transpose(1, 0, 2)))


def values_of(codes: Values, name: str) -> Values:
    """Codes as numbers: float64 for floating-point types, float32 for integers, whose sums it holds exactly."""
    if name in ("s8", "u8"):
        return codes.view(np.int8 if name == "s8" else np.uint8).astype(np.float32)
    if name in ("s4", "u4"):
        return (((codes ^ 8).view(np.int8) - 8) if name == "s4" else codes).astype(np.float32)
    if name == "b1":
        return codes.astype(np.float32)
    return numerics.to_float64(codes, name)


def accumulate(form: Form, left: Values, right: Values, start: Values) -> Values:
    """The codes of D.

    start: the codes of C. left, right: A's and B's numbers, [w, m, k] and [w, k, n]; or, sparse, [w, m, 1, k/2] and
    what each row of A is multiplied with, [w, m, k/2, n].
    """
    if form.types[0] == "s32":
        return _accumulate_integers(form, left, right, start)
    if form.types[0] == "f64":
        total = numerics.to_float64(start, "f64")
        for k in range(form.k):
            total = numerics.fma_f64(left[:, :, k, None], right[:, None, k, :], total)
        return numerics.canonical(total, "f64")
    with np.errstate(invalid="ignore"):
        total = np.matmul(left, right).reshape(start.shape) + numerics.to_float64(start, form.types[3])
    return codes_of_sums(total, form.types[0])


def _accumulate_integers(form: Form, left: Values, right: Values, start: Values) -> Values:
    """|products| sum to at most 128 * 255^2 < 2^24, so float32 is exact; popc(x xor y) is the sum of x + y - 2xy."""
    products = np.matmul(left, right).reshape(start.shape)
    if form.operation == "xor":
        products = left.sum(axis=2)[:, :, None] + right.sum(axis=1)[:, None, :] - 2 * products
    return codes_of_sums(products.astype(np.int64) + start.view(np.int32), "s32", form.saturate)


def codes_of_sums(total: Values, name: str, saturate: bool = False) -> Values:
    """The codes of sums of type s32 (exact in int64), f32 or f16 (in float64), as described above."""
    if name == "s32":
        total = np.clip(total, -(2**31), 2**31 - 1) if saturate else total
        return total.astype(np.int32).view(np.uint32)
    return numerics.truncated_f32(total) if name == "f32" else numerics.from_float64(total, "f16")


def sparse_columns(bits: int, k: int, metadata: Words, selector: int) -> Values:
    """The columns of A's packed elements of that many bits: int[w, 16, K/2]. metadata: uint32[w, 32].

    Four bits of metadata hold, for each chunk of four elements of a row (two for tf32, eight for 4-bit types), two
    2-bit places, the lower first. A quad of lanes holds rows group and group + 8 (9.7.14.6.1, and the figures of
    9.7.14.6.2): with 16- and 32-bit types each contributing lane has 16 bits of either row and the second lane the
    columns from K/2 on; with 8- and 4-bit types it has 32 bits of one row, lanes 0 and 1 (or 2 and 3) rows group and
    group + 8, and with all four lanes the upper two hold the columns from K/2 on. So recorded on an H200.
    """
    words = metadata.astype(np.uint32).reshape(-1, 8, 4)
    chunks = k // {32: 2, 4: 8}.get(bits, 4)
    lanes = chunks * 16 * 4 // 32 // 8
    if not 0 <= selector < 4 // lanes:
        raise EmulationError(f"the sparsity selector is {selector}, not below {4 // lanes}")
    chosen = words[:, :, selector * lanes : (selector + 1) * lanes]
    if bits >= 16:
        halves = np.stack((chosen & 0xFFFF, chosen >> 16), axis=1)  # [w, half of rows, group, half of columns]
        nibbles = (halves[..., None] >> np.arange(0, 16, 4, dtype=np.uint32)) & 0xF
    else:
        halves = chosen.reshape(-1, 8, lanes // 2, 2).transpose(0, 3, 1, 2)
        nibbles = (halves[..., None] >> np.arange(0, 32, 4, dtype=np.uint32)) & 0xF
    nibbles = nibbles.reshape(-1, 16, chunks)
    first = np.arange(chunks) * (k // chunks)
    if bits == 32:
        return first + (nibbles >> 3).astype(np.intp)
    places = np.stack((nibbles & 3, nibbles >> 2), axis=-1).astype(np.intp)
    if bits == 4:
        places = (places[..., None] * 2 + np.arange(2)).reshape(*places.shape[:-1], 4)
    return (first[:, None] + places).reshape(len(metadata), 16, k // 2)


def _chosen(right: Values, columns: Indices) -> Values:
    """The elements of B that A's packed ones are multiplied with: [w, 16, K/2, n] from [w, K, n] and [w, 16, K/2]."""
    return right[np.arange(len(right))[:, None, None], columns]
