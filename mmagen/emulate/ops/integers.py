"""Integer, logic, comparison and selection instructions."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Values
from mmagen.emulate.ops.emit import Emitter, dtype_of, op
from mmagen.emulate.ptx.model import Immediate, Instruction

_PERMUTATIONS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""prmt's other modes: what each of their four selectors is in the default mode (table in the PTX ISA's "prmt")."""


def unsigned(kind: str) -> str:
    """The unsigned type of the same width: sums and low products do not depend on the sign."""
    return f"u{kind[1:]}"


def is_integer(kind: str) -> bool:
    return kind[0] in "usb" and kind[1:].isdigit()


def wide(kind: str) -> str:
    """The type of twice the width: "s32" -> "s64"."""
    return f"{kind[0]}{2 * int(kind[1:])}"


def build_integer_sum(e: Emitter, i: Instruction, symbol: str) -> None:
    """add and sub on integers, without carry."""
    kind = i.type
    if i.has("sat"):
        a, b = (e.source(x, kind) for x in i.operands[1:3])
        e.write(i.operands[0], f"np.clip({a}.astype(i8) {symbol} {b}, -0x80000000, 0x7fffffff).astype(i4)", kind)
        return
    kind = unsigned(kind)
    a, b = (e.source(x, kind) for x in i.operands[1:3])
    e.write(i.operands[0], f"{a} {symbol} {b}", kind)


def product(e: Emitter, i: Instruction, kind: str) -> tuple[str, str]:
    """(expression, type) of mul's and mad's product: .lo, .hi or .wide."""
    first, second = i.operands[1], i.operands[2]
    if i.has("wide"):
        to = dtype_of(wide(kind))
        return f"{e.source(first, kind)}.astype({to}) * {e.source(second, kind)}.astype({to})", wide(kind)
    if i.has("hi"):
        if kind[1:] == "64":
            return f"{e.bind(_high64)}({e.source(first, kind)}, {e.source(second, kind)})", kind
        to = dtype_of(wide(kind))
        high = f"(({e.source(first, kind)}.astype({to}) * {e.source(second, kind)}) >> {kind[1:]})"
        return f"{high}.astype({dtype_of(kind)})", kind
    return f"{e.source(first, unsigned(kind))} * {e.source(second, unsigned(kind))}", unsigned(kind)


def build_integer_mul(e: Emitter, i: Instruction) -> None:
    expression, kind = product(e, i, i.type)
    e.write(i.operands[0], expression, kind)


def build_integer_mad(e: Emitter, i: Instruction) -> None:
    """mad without carry; .sat limits what .hi adds to."""
    expression, kind = product(e, i, i.type)
    if i.has("sat"):
        total = f"({expression}).astype(i8) + {e.source(i.operands[3], kind)}"
        e.write(i.operands[0], f"np.clip({total}, -0x80000000, 0x7fffffff).astype(i4)", kind)
        return
    kind = unsigned(kind)
    dtype = dtype_of(kind)
    e.write(i.operands[0], f"({expression}).view({dtype}) + {e.source(i.operands[3], kind)}", kind)


def _bits24(e: Emitter, i: Instruction) -> str:
    kind = i.type
    a, b = (e.source(x, kind) for x in i.operands[1:3])
    cut = [f"(({x}.astype(i8) << 40) >> 40)" if kind[0] == "s" else f"({x}.astype(i8) & 0xffffff)" for x in (a, b)]
    shift = " >> 16" if i.has("hi") else ""
    return f"(({cut[0]} * {cut[1]}){shift}).astype(u4)"


@op("mul24")
def _mul24(e: Emitter, i: Instruction) -> None:
    e.write(i.operands[0], _bits24(e, i), "u32")


@op("mad24")
def _mad24(e: Emitter, i: Instruction) -> None:
    e.write(i.operands[0], f"{_bits24(e, i)} + {e.source(i.operands[3], 'u32')}", "u32")


@op("sad")
def _sad(e: Emitter, i: Instruction) -> None:
    kind = i.type
    a, b = (e.source(x, kind) for x in i.operands[1:3])
    distance = f"(np.maximum({a}, {b}) - np.minimum({a}, {b})).view({dtype_of(unsigned(kind))})"
    e.write(i.operands[0], f"{distance} + {e.source(i.operands[3], unsigned(kind))}", unsigned(kind))


def build_integer_divide(e: Emitter, i: Instruction, remainder: bool) -> None:
    """div and rem: truncating; by zero gives all ones (the dividend for rem), as GPUs do."""
    kind = i.type
    a, b = (e.source(x, kind) for x in i.operands[1:3])
    e.write(i.operands[0], f"{e.bind(_remainder if remainder else _quotient)}({a}, {b})", kind)


@op("rem")
def _rem(e: Emitter, i: Instruction) -> None:
    build_integer_divide(e, i, remainder=True)


@op("and", "or", "xor")
def _logic(e: Emitter, i: Instruction) -> None:
    kind = "pred" if i.type == "pred" else unsigned(i.type)
    symbol = {"and": "&", "or": "|", "xor": "^"}[i.base]
    a, b = (e.source(x, kind) for x in i.operands[1:3])
    e.write(i.operands[0], f"{a} {symbol} {b}", kind)


@op("not", "cnot")
def _not(e: Emitter, i: Instruction) -> None:
    kind = "pred" if i.type == "pred" else unsigned(i.type)
    a = e.source(i.operands[1], kind)
    e.write(i.operands[0], f"~{a}" if i.base == "not" else f"({a} == 0).astype({dtype_of(kind)})", kind)


@op("shl", "shr")
def _shift(e: Emitter, i: Instruction) -> None:
    """Shifts by the width or more give 0, or all sign bits, as in numpy."""
    kind = i.type if i.base == "shr" and i.type[0] == "s" else unsigned(i.type)
    dtype = dtype_of(kind)
    symbol = "<<" if i.base == "shl" else ">>"
    amount = i.operands[2]
    if isinstance(amount, Immediate):
        by = e.constant(min(int(amount.value), int(kind[1:])), dtype)
    else:
        by = f"np.minimum({e.source(amount, 'u32')}, {kind[1:]}).astype({dtype})"
    e.write(i.operands[0], f"{e.source(i.operands[1], kind)} {symbol} {by}", kind)


@op("shf")
def _funnel(e: Emitter, i: Instruction) -> None:
    low, high, amount = (e.source(x, "u32") for x in i.operands[1:4])
    by = f"np.minimum({amount}, 32)" if i.has("clamp") else f"({amount} & 31)"
    both = f"(({high}.astype(u8) << 32) | {low})"
    if i.has("l"):
        e.write(i.operands[0], f"(({both} << {by}.astype(u8)) >> 32).astype(u4)", "u32")
    else:
        e.write(i.operands[0], f"({both} >> {by}.astype(u8)).astype(u4)", "u32")


@op("bfe")
def _bfe(e: Emitter, i: Instruction) -> None:
    a, start, length = e.source(i.operands[1], i.type), e.source(i.operands[2], "u32"), e.source(i.operands[3], "u32")
    e.write(i.operands[0], f"{e.bind(_extract)}({a}, {start}, {length})", i.type)


@op("bfi")
def _bfi(e: Emitter, i: Instruction) -> None:
    kind = unsigned(i.type)
    a, b = (e.source(x, kind) for x in i.operands[1:3])
    start, length = (e.source(x, "u32") for x in i.operands[3:5])
    e.write(i.operands[0], f"{e.bind(_insert)}({a}, {b}, {start}, {length})", kind)


@op("prmt")
def _prmt(e: Emitter, i: Instruction) -> None:
    a, b, selector = (e.source(x, "u32") for x in i.operands[1:4])
    if i.type != "b32":
        modes = e.bind(np.array(_PERMUTATIONS[i.type], dtype=np.uint32))
        selector = f"{modes}[{selector} & 3]"
    e.write(i.operands[0], f"{e.bind(_permute)}({a}, {b}, {selector})", "u32")


@op("lop3")
def _lop3(e: Emitter, i: Instruction) -> None:
    a, b, c = (e.source(x, "u32") for x in i.operands[1:4])
    table = i.operands[4]
    if not isinstance(table, Immediate):
        raise e.unsupported("lop3 needs a literal table")
    terms = [
        " & ".join(x if row >> shift & 1 else f"~{x}" for x, shift in ((a, 2), (b, 1), (c, 0)))
        for row in range(8)
        if int(table.value) >> row & 1
    ]
    e.write(i.operands[0], " | ".join(f"({t})" for t in terms) or f"{a} & 0", "u32")


@op("popc", "clz", "brev", "bfind", "ffs")
def _bit_counts(e: Emitter, i: Instruction) -> None:
    if i.base == "bfind":
        signed = i.operands[1] if i.type[0] != "s" else None
        a = e.source(i.operands[1], i.type)
        if signed is None:
            a = f"where({a} < 0, ~{a}, {a}).view({dtype_of(unsigned(i.type))})"
        width = int(i.type[1:])
        found = f"{e.bind(_leading_zeros)}({a})"
        result = found if i.has("shiftamt") else f"({width - 1} - {found}.view(i4)).view(u4)"
        e.write(i.operands[0], f"where({a} == 0, {e.constant(0xFFFFFFFF, 'u4')}, {result})", "u32")
        return
    a = e.source(i.operands[1], unsigned(i.type))
    if i.base == "brev":
        e.write(i.operands[0], f"{e.bind(_reverse)}({a})", unsigned(i.type))
    else:
        function = "np.bitwise_count" if i.base == "popc" else e.bind(_leading_zeros)
        e.write(i.operands[0], f"{function}({a}).astype(u4)", "u32")


@op("dp4a")
def _dp4a(e: Emitter, i: Instruction) -> None:
    first, second = i.modifiers[-2:]
    a = f"{e.bind(_bytes)}({e.source(i.operands[1], 'u32')}, {first[0] == 's'})"
    b = f"{e.bind(_bytes)}({e.source(i.operands[2], 'u32')}, {second[0] == 's'})"
    e.write(i.operands[0], f"({a} * {b}).sum(-1, dtype=i4).view(u4) + {e.source(i.operands[3], 'u32')}", "u32")


@op("dp2a")
def _dp2a(e: Emitter, i: Instruction) -> None:
    first, second = i.modifiers[-2:]
    a = f"{e.bind(_halves)}({e.source(i.operands[1], 'u32')}, {first[0] == 's'})"
    half = "slice(0, 2)" if i.has("lo") else "slice(2, 4)"
    b = f"{e.bind(_bytes)}({e.source(i.operands[2], 'u32')}, {second[0] == 's'})[..., {half}]"
    e.write(i.operands[0], f"({a} * {b}).sum(-1, dtype=i4).view(u4) + {e.source(i.operands[3], 'u32')}", "u32")


def _quotient(a: Values, b: Values) -> Values:
    zero = b == 0
    if a.dtype.kind == "u":
        quotient = a // np.where(zero, 1, b).astype(a.dtype)
    else:
        quotient = np.trunc(a / np.where(zero, 1, b)) if a.dtype.itemsize <= 4 else _truncated(a, np.where(zero, 1, b))
        quotient = quotient.astype(np.int64).astype(a.dtype)
    return np.where(zero, np.array(-1).astype(a.dtype), quotient)


def _truncated(a: Values, b: Values) -> Values:
    floored: Values = a // b
    truncated: Values = floored + ((floored < 0) & (floored * b != a))
    return truncated


def _remainder(a: Values, b: Values) -> Values:
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.where(b == 0, a, np.fmod(a, safe))


def _high64(a: Values, b: Values) -> Values:
    exact = a.astype(object) * b.astype(object)
    return np.array([int(x) >> 64 & 0xFFFFFFFFFFFFFFFF for x in np.atleast_1d(exact)], dtype=np.uint64).view(a.dtype)


def _extract(a: Values, start: Values, length: Values) -> Values:
    width = a.dtype.itemsize * 8
    a, start, length = np.broadcast_arrays(a, start & 0xFF, length & 0xFF)
    wide_type = np.int64 if a.dtype.kind == "i" else np.uint64
    end = np.minimum(start.astype(np.int64) + length, width)
    # Move the field to the top, then back down: the shift brings in its sign, or zeros.
    up = (64 - end).astype(wide_type)
    kept = np.maximum(end - start, 0)
    field = (a.astype(wide_type) << up) >> np.minimum(64 - kept, 63).astype(wide_type)
    beyond = np.where(a < 0, -1, 0) if a.dtype.kind == "i" else np.zeros(a.shape, dtype=np.int64)
    field = np.where(kept > 0, field, beyond.astype(wide_type))
    return np.where(length == 0, 0, field).astype(a.dtype)


def _insert(a: Values, b: Values, start: Values, length: Values) -> Values:
    start, length = (start & 0xFF).astype(np.uint64), (length & 0xFF).astype(np.uint64)
    ones = np.where(length >= 64, np.uint64(0xFFFFFFFFFFFFFFFF), (np.uint64(1) << np.minimum(length, 63)) - np.uint64(1))
    field = ones << start
    merged = ((a.astype(np.uint64) << start) & field) | (b.astype(np.uint64) & ~field)
    return merged.astype(a.dtype)


def _permute(a: Values, b: Values, selector: Values) -> Values:
    pool = (b.astype(np.uint64) << np.uint64(32)) | a
    result = np.zeros(1, dtype=np.uint32)
    for position in range(4):
        nibble = (selector >> np.uint32(4 * position)) & np.uint32(15)
        byte = (pool >> ((nibble & np.uint32(7)).astype(np.uint64) * np.uint64(8))).astype(np.uint32) & np.uint32(0xFF)
        spread = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
        result = result | (np.where(nibble & np.uint32(8), spread, byte) << np.uint32(8 * position))
    return result


def _leading_zeros(a: Values) -> Values:
    width = a.dtype.itemsize * 8
    filled = a.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < width:
            filled |= filled >> filled.dtype.type(shift)
    return (width - np.bitwise_count(filled)).astype(np.uint32)


def _reverse(a: Values) -> Values:
    bits = np.unpackbits(np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1), axis=1, bitorder="little")
    return np.packbits(bits[:, ::-1], axis=1, bitorder="little").reshape(-1).view(a.dtype)


def _bytes(a: Values, signed: bool) -> Values:
    return np.ascontiguousarray(a).view(np.int8 if signed else np.uint8).reshape(-1, 4).astype(np.int32)


def _halves(a: Values, signed: bool) -> Values:
    return np.ascontiguousarray(a).view(np.int16 if signed else np.uint16).reshape(-1, 2).astype(np.int32)
