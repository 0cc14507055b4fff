"""Warp-wide communication: shfl, vote, match, activemask, redux, elect, and the warp barrier."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmagen.emulate.arrays import Mask, Values, Words
from mmagen.emulate.batch import Batch
from mmagen.emulate.lanes.members import participants, warp_bits
from mmagen.emulate.ops.emit import Emitter, dtype_of, op
from mmagen.emulate.ops.integers import is_integer
from mmagen.emulate.ptx.model import Immediate, Instruction, Operand, Pair, Register

_ALL = Immediate(0xFFFFFFFF)


def _members(e: Emitter, i: Instruction, operand: Operand | None) -> str:
    """An expression for the member mask, which is checked first; the forms without .sync have none."""
    if operand is None or not (i.has("sync") or i.base == "bar"):
        return e.source(_ALL, "u32")
    members = e.source(operand, "u32")
    e.line(f"X.members.check({e.bind(i)}, {e.mask}, {members})")
    return members


def _operand(i: Instruction, place: int) -> Operand | None:
    return i.operands[place] if place < len(i.operands) else None


@op("bar", "barrier")
def _warp_barrier(e: Emitter, i: Instruction) -> None:
    """bar.warp.sync; barriers of a CTA end their block and are executed by the scheduler."""
    members = _members(e, i, _operand(i, 0))
    e.line(f"{e.bind(_pass_warp_barrier)}(X, {e.mask}, {members})")


def _pass_warp_barrier(X: Batch, mask: Mask | None, members: Words) -> None:
    if mask is None or (len(members) == 1 and members[0] == _ALL.value):
        X.hazards.pass_warp_barrier(mask)
        return
    for _, part in participants(X.lanes, mask, members):
        X.hazards.pass_warp_barrier(part)


@op("shfl", warp_wide=True)
def _shfl(e: Emitter, i: Instruction) -> None:
    mode = next(m for m in i.modifiers if m in ("up", "down", "bfly", "idx"))
    target = i.operands[0]
    members = _members(e, i, _operand(i, 4))
    a, b, c = (e.source(x, "u32") for x in i.operands[1:4])
    e.line(f"t, u = {e.bind(_shuffle)}(X, {e.mask}, {mode!r}, {a}, {b}, {c})")
    first = target.first if isinstance(target, Pair) else target
    if isinstance(first, Register):
        read = i.operands[1].index if isinstance(i.operands[1], Register) else -1
        e.line(f"t = X.undefined.shuffle({e.bind(i)}, {e.mask}, {members}, {read}, {first.index}, t, u)")
    e.write(first, "t", "u32")
    if isinstance(target, Pair):
        e.write(target.second, "u[1]", "pred")


def _shuffle(X: Batch, mask: Mask | None, mode: str, a: Words, b: Words, c: Words) -> tuple[Words, tuple[Values, Mask]]:
    """(values uint32[lanes], (the lane of its warp that each reads, int64[lanes], whether that was in its segment))."""
    values = X.lanes.spread(a).reshape(-1, 32)
    amount = (X.lanes.spread(b) & np.uint32(31)).astype(np.int64).reshape(-1, 32)
    clamp = X.lanes.spread(c).astype(np.int64).reshape(-1, 32)
    lane = np.arange(32)[None, :]
    segment = (clamp >> 8) & 31
    low = lane & segment
    high = low | (clamp & 31 & ~segment)
    if mode == "up":
        source = lane - amount
        inside = source >= high
    elif mode == "down":
        source = lane + amount
        inside = source <= high
    elif mode == "bfly":
        source = lane ^ amount
        inside = source <= high
    else:
        source = low | (amount & ~segment)
        inside = source <= high
    chosen = np.where(inside, source, lane)
    return np.take_along_axis(values, chosen, axis=1).reshape(-1), (chosen.reshape(-1), inside.reshape(-1))


@op("vote", warp_wide=True)
def _vote(e: Emitter, i: Instruction) -> None:
    mode = next(m for m in i.modifiers if m in ("all", "any", "uni", "ballot"))
    members = _members(e, i, _operand(i, 2))
    p = e.source(i.operands[1], "pred")
    e.line(f"t = {e.bind(_votes)}(X, {e.mask}, {mode!r}, {p}, {members})")
    e.write(i.operands[0], "t", "u32" if mode == "ballot" else "pred")


def _votes(X: Batch, mask: Mask | None, mode: str, p: Mask, members: Words) -> Values:
    active = np.repeat(warp_bits(X.lanes.live if mask is None else mask), 32) & members
    holds = np.repeat(warp_bits(X.lanes.spread(p)), 32) & active
    if mode == "ballot":
        return holds
    every, some = holds == active, holds != 0
    result: Values = {"all": every, "any": some, "uni": every | ~some}[mode]
    return result


@op("activemask")
def _activemask(e: Emitter, i: Instruction) -> None:
    def active(X: Batch, mask: Mask | None) -> Words:
        return np.repeat(warp_bits(X.lanes.live if mask is None else mask), 32)

    e.write(i.operands[0], f"{e.bind(active)}(X, {e.mask})", "u32")


@op("match", warp_wide=True)
def _match(e: Emitter, i: Instruction) -> None:
    kind = i.type.replace("b", "u")
    members = _members(e, i, _operand(i, 2))
    e.line(f"t = {e.bind(_matches)}(X, {e.mask}, {e.source(i.operands[1], kind)}, {i.has('all')}, {members})")
    target = i.operands[0]
    e.write(target.first if isinstance(target, Pair) else target, "t[0]", "u32")
    if isinstance(target, Pair):
        e.write(target.second, "t[1]", "pred")


def _matches(X: Batch, mask: Mask | None, a: Values, whole: bool, members: Words) -> tuple[Words, Mask]:
    active = X.lanes.live if mask is None else mask
    values = X.lanes.spread(a).reshape(-1, 32)
    equal = (values[:, :, None] == values[:, None, :]) & active.reshape(-1, 1, 32)
    bits = (equal.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(axis=2, dtype=np.uint32).reshape(-1) & members
    every = bits == np.repeat(warp_bits(active), 32) & members
    return np.where(every, bits, np.uint32(0)) if whole else bits, every


@op("redux", warp_wide=True)
def _redux(e: Emitter, i: Instruction) -> None:
    kind = i.type
    operation = next(m for m in i.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    if not is_integer(kind):
        raise e.unsupported("redux on floats is not supported")
    function = {"add": np.add, "min": np.minimum, "max": np.maximum}.get(operation) or getattr(np, f"bitwise_{operation}")
    members = _members(e, i, _operand(i, 2))
    run = e.bind(_reducer(function, operation in ("add", "xor")))
    e.write(i.operands[0], f"{run}(X, {e.mask}, {e.source(i.operands[1], kind)}, {members}).astype({dtype_of(kind)})", kind)


def _reducer(function: np.ufunc, sums: bool) -> Callable[[Batch, Mask | None, Values, Words], Values]:
    """sums: lanes that do not take part count as zeros; else they repeat one that does."""

    def reduce(X: Batch, mask: Mask | None, a: Values, members: Words) -> Values:
        values = X.lanes.spread(a).reshape(-1, 32)
        result = np.zeros(X.lanes.size, dtype=values.dtype)
        for _, part in participants(X.lanes, mask, members):
            here = part.reshape(-1, 32)
            neutral = 0 if sums else np.take_along_axis(values, here.argmax(axis=1)[:, None], axis=1)
            total = function.reduce(np.where(here, values, neutral).astype(values.dtype), axis=1)
            result = np.where(part, np.repeat(total, 32), result)
        return result

    return reduce


@op("elect", warp_wide=True)
def _elect(e: Emitter, i: Instruction) -> None:
    members = _members(e, i, _operand(i, 1))
    e.line(f"t = {e.bind(_elected)}(X, {e.mask}, {members})")
    target = i.operands[0]
    if isinstance(target, Pair):
        e.write(target.first, "t[0]", "u32")
        e.write(target.second, "t[1]", "pred")


def _elected(X: Batch, mask: Mask | None, members: Words) -> tuple[Words, Mask]:
    """(the lane that is elected, whether that is the lane itself), for each lane."""
    leaders = X.members.elected(mask, members)
    return leaders, X.lanes.thread % 32 == leaders
