"""Calls that the device runtime answers: vprintf and __assertfail. Calls of functions with a body were replaced by copies of
them when the text was read (ptx/functions.py)."""

from __future__ import annotations

import re

import numpy as np

from mmagen.emulate.arrays import Bytes, Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.errors import KernelAborted
from mmagen.emulate.memory.spaces import GLOBAL_BASE, LOCAL_WINDOW
from mmagen.emulate.ops.access import Access
from mmagen.emulate.ops.emit import Emitter, op
from mmagen.emulate.ptx.model import Instruction, Name, Operand, Symbol, Vector

_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\*|\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXeEfFgGaAcsp%])")
_LONGEST = 4096  # bytes of a string that has no end


@op("call")
def _call(e: Emitter, i: Instruction) -> None:
    function, results, arguments = i.operands
    name = function.name if isinstance(function, Name) else ""
    builder = {"vprintf": _vprintf, "__assertfail": _assertfail}.get(name)
    if builder is None or not isinstance(results, Vector) or not isinstance(arguments, Vector):
        raise e.unsupported("a call of a function without a body here, of itself, or through a pointer is not supported")
    run = e.bind(builder)
    places = [_place(e, x) for x in (*arguments.elements, *results.elements)]
    e.line(f"{run}(X, {e.mask}, {e.bind(i)}, {', '.join(places)})")


def _place(e: Emitter, variable: Operand) -> str:
    """The address in local memory of a parameter of the call."""
    return e.source(Symbol(variable.name, 0) if isinstance(variable, Name) else variable, "u64")


def _vprintf(X: Batch, mask: Mask | None, i: Instruction, form: Values, arguments: Values, result: Values) -> None:
    """The text goes to the report; the result is how many arguments there were."""
    forms, places = (Access(i, 8, 1).load(X, "local", mask, x)[0] for x in (form, arguments))
    counts = np.zeros(X.lanes.size, dtype=np.uint32)
    for lane in X.lanes.of(mask).tolist():
        text, counts[lane] = _formatted(X, lane, _string(X, int(forms[lane])), int(places[lane]))
        X.printed.add(text)
    Access(i, 4, 1).store(X, "local", mask, result, [counts])


def _assertfail(
    X: Batch, mask: Mask | None, i: Instruction, message: Values, file: Values, line: Values, function: Values, _: Values
) -> None:
    """assert() of a condition that does not hold: the launch ends."""
    lanes = X.lanes.of(mask)
    texts = [_string(X, int(Access(i, 8, 1).load(X, "local", mask, x)[0][lanes[0]])) for x in (message, file, function)]
    number = int(Access(i, 4, 1).load(X, "local", mask, line)[0][lanes[0]])
    text = f"fails the assertion `{texts[0]}` in {texts[2]} ({texts[1]}:{number})"
    X.findings.add("assertion", i, len(lanes), int(lanes[0]), text)
    raise KernelAborted


def _formatted(X: Batch, lane: int, form: str, place: int) -> tuple[str, int]:
    """(text, number of arguments) of a printf whose arguments lie at `place` as C passes variable ones: integers of 4 or 8
    bytes, float64 and pointers, each aligned to its size."""
    count = 0

    def take(size: int) -> Bytes:
        nonlocal place, count
        place, count = -(-place // size) * size, count + 1
        data = _local(X, lane, place, size)
        place += size
        return data

    def integer(size: int, signed: bool) -> int:
        return int(take(size).view(f"{'i' if signed else 'u'}{size}")[0])

    def converted(found: re.Match[str]) -> str:
        flags, width, precision, length, kind = found.groups()
        if kind == "%":
            return "%"
        width = str(integer(4, True)) if width == "*" else width or ""
        precision = str(integer(4, True)) if precision == "*" else precision
        pattern = f"%{flags}{width}" + (f".{precision}" if precision is not None else "")
        size = 8 if length in ("l", "ll", "j", "z", "t") else 4
        if kind in "eEfFgGaA":
            value = float(take(8).view(np.float64)[0])
            return value.hex() if kind in "aA" else (pattern + kind) % value
        if kind == "s":
            return (pattern + "s") % _string(X, integer(8, False))
        if kind == "p":
            return f"{integer(8, False):#x}"
        if kind == "c":
            return (pattern + "c") % chr(integer(4, False) & 0xFF)
        return (pattern + ("d" if kind in "diu" else kind)) % integer(size, kind in "di")

    return _CONVERSION.sub(converted, form), count


def _local(X: Batch, lane: int, place: int, size: int) -> Bytes:
    """uint8[size] of a thread's local memory, at a generic address; zeros where it is outside."""
    start = place - LOCAL_WINDOW
    if not 0 <= start <= X.memory.local.size - size:
        return np.zeros(size, dtype=np.uint8)
    first = int(X.memory.local.base[lane]) + start
    return X.memory.local.bytes[first : first + size].copy()


def _string(X: Batch, address: int) -> str:
    """The text that begins at a generic address of global memory."""
    start = address - GLOBAL_BASE
    memory = X.memory.device.flat()
    if not 0 <= start < len(memory):
        return f"<text at {address:#x}>"
    data = memory[start : start + _LONGEST].tobytes()
    return data.split(b"\0", 1)[0].decode(errors="replace")
