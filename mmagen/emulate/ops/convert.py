"""mov, cvt, cvta and the packing of vectors."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arithmetic import numerics
from mmagen.emulate.arrays import Codes, Floats, Values
from mmagen.emulate.ops.emit import Emitter, dtype_of, op
from mmagen.emulate.ops.integers import is_integer, unsigned
from mmagen.emulate.ptx.model import Immediate, Instruction, Name, Operand, Register, Special, Symbol, Vector

_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_ROUNDINGS = ("rn", "rz", "rm", "rp", "rna")
_NARROW_PAIRS = {"e4m3x2": "e4m3", "e5m2x2": "e5m2", "f16x2": "f16", "bf16x2": "bf16"}


@op("mov")
def _mov(e: Emitter, i: Instruction) -> None:
    target, source = i.operands
    kind = i.type
    if isinstance(source, Vector):
        _pack(e, target, source, kind)
    elif isinstance(target, Vector):
        _unpack(e, target, source, kind)
    elif isinstance(source, (Register, Immediate, Special, Symbol, Name)):
        # A plain move keeps the bits: through the destination's own type where the sizes agree.
        e.write(target, e.source(source, kind), kind)
    else:
        raise e.unsupported("this form of mov is not supported")


def _pack(e: Emitter, target: Operand, source: Vector, kind: str) -> None:
    part = f"u{int(kind[1:]) // len(source.elements)}"
    parts = [e.source(x, part) for x in source.elements]
    dtype = dtype_of(unsigned(kind))
    terms = [
        f"({p}).astype({dtype})" + (f" << {e.constant(n * int(part[1:]), dtype)}" if n else "") for n, p in enumerate(parts)
    ]
    e.write(target, " | ".join(f"({t})" for t in terms), unsigned(kind))


def _unpack(e: Emitter, target: Vector, source: Operand, kind: str) -> None:
    part = f"u{int(kind[1:]) // len(target.elements)}"
    dtype = dtype_of(unsigned(kind))
    e.line(f"t = {e.source(source, unsigned(kind))}")
    for n, element in enumerate(target.elements):
        value = f"(t >> {e.constant(n * int(part[1:]), dtype)})" if n else "t"
        e.write(element, f"{value}.astype({dtype_of(part)})", part)


@op("cvt")
def _cvt(e: Emitter, i: Instruction) -> None:
    if i.has("pack"):
        _cvt_pack(e, i)
        return
    to, kind = i.modifiers[-2:]
    if to in _NARROW_PAIRS or kind in _NARROW_PAIRS:
        _cvt_pair(e, i, to, kind)
    elif is_integer(to) and is_integer(kind):
        _integer_to_integer(e, i, to, kind)
    elif is_integer(to):
        _float_to_integer(e, i, to, kind)
    elif is_integer(kind):
        _integer_to_float(e, i, to, kind)
    else:
        _float_to_float(e, i, to, kind)


def _cvt_pack(e: Emitter, i: Instruction) -> None:
    """cvt.pack.sat.<to>.s32{.b32} d, a, b{, c}: b saturated at the bottom, a above it, c's low bits on top."""
    to, kind = [m for m in i.modifiers if m not in ("pack", "sat")][:2]
    bits = int(to[1:])
    low, high = _limits(to)
    a, b = (f"np.clip({e.source(x, kind)}, {low}, {high}).view(u4)" for x in i.operands[1:3])
    mask = (1 << bits) - 1
    expression = f"({b} & {mask}) | (({a} & {mask}) << {bits})"
    if len(i.operands) > 3:
        expression += f" | ({e.source(i.operands[3], 'u32')} << {2 * bits})"
    e.write(i.operands[0], expression, "u32")


def _limits(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def _integer_to_integer(e: Emitter, i: Instruction, to: str, kind: str) -> None:
    a = e.source(i.operands[1], kind)
    if i.has("sat"):
        low, high = _limits(to)
        have_low, have_high = _limits(kind)
        a = f"np.clip({a}, {max(low, have_low)}, {min(high, have_high)})"
    e.write(i.operands[0], f"({a}).astype({dtype_of(to)})", to)


def _float_bits(kind: str) -> str:
    return {"f32": "u32", "f64": "u64", "tf32": "u32"}.get(kind, "u16")


def _float_to_integer(e: Emitter, i: Instruction, to: str, kind: str) -> None:
    round_name = next((m for m in i.modifiers if m in _TO_INTEGER), None)
    if round_name is None:
        raise e.unsupported("a conversion to integers needs .rni, .rzi, .rmi or .rpi")
    rounded, (low, high), ftz = _TO_INTEGER[round_name], _limits(to), i.has("ftz")
    dtype = np.dtype(dtype_of(to))
    # NaN gives 0, but the highest bit alone from or to 64 bits (PTX ISA, "cvt"; recorded on an H200).
    highest = low if to[0] == "s" else (high + 1) // 2
    for_nan = highest if "64" in (to[1:], kind[1:]) else 0

    def convert(codes: Codes) -> Codes:
        values = rounded(numerics.to_float64(numerics.flush(codes) if ftz else codes, kind))
        # A float64 cannot hold 2^63 - 1: compare before converting.
        result = np.zeros(values.shape, dtype=dtype)
        inside = (values > low) & (values < high)
        result[inside] = values[inside].astype(dtype)
        result[values >= high] = high
        result[values <= low] = low
        result[np.isnan(values)] = for_nan
        return result

    e.write(i.operands[0], f"{e.bind(convert)}({e.source(i.operands[1], _float_bits(kind))})", to)


def _rounding(i: Instruction) -> str:
    return next((m for m in i.modifiers if m in _ROUNDINGS), "rn")


def _integer_to_float(e: Emitter, i: Instruction, to: str, kind: str) -> None:
    rounding, bits = _rounding(i), int(kind[1:])

    def convert(values: Values) -> Values:
        if to == "f32" and rounding == "rn":
            return values.astype(np.float32).view(np.uint32)
        if bits == 64:
            # 64-bit integers do not fit a float64: the remainder makes the sum odd, so that it is rounded once.
            high = (values >> np.array(32, values.dtype)).astype(np.float64) * 2.0**32
            low = (values & np.array(0xFFFFFFFF, values.dtype)).astype(np.float64)
            if to == "f64":
                return numerics.rounded_sum_f64(high, low, rounding).view(np.uint64)
            exact = numerics.add_to_odd(high, low)
        else:
            exact = values.astype(np.float64)
        return numerics.from_float64(exact, to, rounding)

    e.write(i.operands[0], f"{e.bind(convert)}({e.source(i.operands[1], kind)})", _float_bits(to))


def _relu(values: Floats) -> Floats:
    """Negative numbers as zero, and -0 as +0 (recorded on an H200); NaN stays."""
    return np.where(values <= 0, 0.0, values)


def _float_to_float(e: Emitter, i: Instruction, to: str, kind: str) -> None:
    whole = next((m for m in i.modifiers if m in _TO_INTEGER), None)
    rounding, sat = _rounding(i), i.has("sat")
    ftz, relu, finite = i.has("ftz"), i.has("relu"), i.has("satfinite")

    def convert(codes: Codes) -> Codes:
        if to == "tf32" and rounding == "rna":
            return numerics.tf32_ties_away(codes, finite)
        values = numerics.to_float64(numerics.flush(codes) if ftz and kind == "f32" else codes, kind)
        if whole:
            values = _TO_INTEGER[whole](values)
        if relu:
            values = _relu(values)
        result = numerics.from_float64(values, to, rounding, finite)
        if sat:
            result = numerics.saturate01(result, to)
        return numerics.flush(result) if ftz and to == "f32" else result

    e.write(i.operands[0], f"{e.bind(convert)}({e.source(i.operands[1], _float_bits(kind))})", _float_bits(to))


def _cvt_pair(e: Emitter, i: Instruction, to: str, kind: str) -> None:
    """Two floats to a pair (the first operand goes to the upper half), or a pair of bytes to f16x2 and back."""
    rounding, relu, finite = _rounding(i), i.has("relu"), i.has("satfinite")
    element = _NARROW_PAIRS.get(to)
    if element is None:
        raise e.unsupported("this conversion of pairs is not supported")

    def narrow(values: Floats) -> Codes:
        if relu:
            values = _relu(values)
        return numerics.from_float64(values, element, rounding, finite)

    def joined(upper: Floats, lower: Floats) -> Codes:
        shift = 16 if element in ("f16", "bf16") else 8
        wide = np.dtype(np.uint32 if shift == 16 else np.uint16)
        both: Codes = (narrow(upper).astype(wide) << wide.type(shift)) | narrow(lower)
        return both

    def from_floats(a: Values, b: Values) -> Values:
        return joined(a.astype(np.float64), b.astype(np.float64))

    def from_pair(pair: Values) -> Values:
        name = _NARROW_PAIRS[kind]
        shift = 16 if name in ("f16", "bf16") else 8
        halves = [(pair >> pair.dtype.type(n * shift)) & pair.dtype.type((1 << shift) - 1) for n in (1, 0)]
        return joined(*(numerics.to_float64(h, name) for h in halves))

    bits = "u32" if element in ("f16", "bf16") else "u16"
    if kind == "f32":
        a, b = (e.source(x, "f32") for x in i.operands[1:3])
        e.write(i.operands[0], f"{e.bind(from_floats)}({a}, {b})", bits)
    else:
        source = e.source(i.operands[1], "u32" if kind in ("f16x2", "bf16x2") else "u16")
        e.write(i.operands[0], f"{e.bind(from_pair)}({source})", bits)
