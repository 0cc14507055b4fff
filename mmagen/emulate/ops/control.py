"""Warp-wide communication: shfl, vote, match, activemask, redux, elect, and the warp barrier."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Mask, Values, Words
from mmagen.emulate.batch import Batch
from mmagen.emulate.ops.emit import Emitter, dtype_of, op
from mmagen.emulate.ops.integers import is_integer
from mmagen.emulate.ptx.model import Instruction, Pair


@op("bar", "barrier")
def _warp_barrier(e: Emitter, i: Instruction) -> None:
    """bar.warp.sync; barriers of a CTA end their block and are executed by the scheduler."""
    e.line(f"X.hazards.pass_warp_barrier({e.mask})")


def _active(X: Batch, mask: Mask | None) -> Mask:
    """bool[warps, 32]: the active lanes."""
    return np.ones((X.lanes.size // 32, 32), dtype=bool) if mask is None else mask.reshape(-1, 32)


@op("shfl", warp_wide=True)
def _shfl(e: Emitter, i: Instruction) -> None:
    mode = next(m for m in i.modifiers if m in ("up", "down", "bfly", "idx"))
    target = i.operands[0]
    a, b, c = (e.source(x, "u32") for x in i.operands[1:4])
    e.line(f"t = {e.bind(_shuffle)}(X, {e.mask}, {mode!r}, {a}, {b}, {c})")
    first = target.first if isinstance(target, Pair) else target
    e.write(first, "t[0]", "u32")
    if isinstance(target, Pair):
        e.write(target.second, "t[1]", "pred")


def _shuffle(X: Batch, mask: Mask | None, mode: str, a: Words, b: Words, c: Words) -> tuple[Words, Mask]:
    """(values uint32[lanes], whether each lane's source was in its segment)."""
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
    return np.take_along_axis(values, chosen, axis=1).reshape(-1), inside.reshape(-1)


@op("vote", warp_wide=True)
def _vote(e: Emitter, i: Instruction) -> None:
    mode = next(m for m in i.modifiers if m in ("all", "any", "uni", "ballot"))
    p = e.source(i.operands[1], "pred")
    e.line(f"t = {e.bind(_votes)}(X, {e.mask}, {mode!r}, {p})")
    e.write(i.operands[0], "t", "u32" if mode == "ballot" else "pred")


def _votes(X: Batch, mask: Mask | None, mode: str, p: Mask) -> Values:
    active = _active(X, mask)
    holds = X.lanes.spread(p).reshape(-1, 32) & active
    if mode == "ballot":
        return np.repeat(_bits(holds), 32)
    every = (holds == active).all(axis=1)
    some = holds.any(axis=1)
    result = {"all": every, "any": some, "uni": every | ~some}[mode]
    return np.repeat(result, 32)


def _bits(flags: Mask) -> Words:
    """uint32[warps]: one bit per lane."""
    bits: Words = (flags.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
    return bits


@op("activemask")
def _activemask(e: Emitter, i: Instruction) -> None:
    e.write(i.operands[0], f"{e.bind(lambda X, m: np.repeat(_bits(_active(X, m)), 32))}(X, {e.mask})", "u32")


@op("match", warp_wide=True)
def _match(e: Emitter, i: Instruction) -> None:
    kind = i.type.replace("b", "u")
    e.line(f"t = {e.bind(_matches)}(X, {e.mask}, {e.source(i.operands[1], kind)}, {i.has('all')})")
    target = i.operands[0]
    e.write(target.first if isinstance(target, Pair) else target, "t[0]", "u32")
    if isinstance(target, Pair):
        e.write(target.second, "t[1]", "pred")


def _matches(X: Batch, mask: Mask | None, a: Values, whole: bool) -> tuple[Words, Mask]:
    active = _active(X, mask)
    values = X.lanes.spread(a).reshape(-1, 32)
    equal = (values[:, :, None] == values[:, None, :]) & active[:, None, :]
    bits = (equal.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
    every = bits == _bits(active)[:, None]
    return (np.where(every, bits, np.uint32(0)) if whole else bits).reshape(-1), every.reshape(-1)


@op("redux", warp_wide=True)
def _redux(e: Emitter, i: Instruction) -> None:
    kind = i.type
    operation = next(m for m in i.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    if not is_integer(kind):
        raise e.unsupported("redux on floats is not supported")
    function = {"add": np.add, "min": np.minimum, "max": np.maximum}.get(operation) or getattr(np, f"bitwise_{operation}")

    def reduce(X: Batch, mask: Mask | None, a: Values) -> Values:
        values, active = X.lanes.spread(a).reshape(-1, 32), _active(X, mask)
        # Lanes that do not take part repeat one that does, or nothing for sums.
        first = np.take_along_axis(values, active.argmax(axis=1)[:, None], axis=1)
        neutral = 0 if operation in ("add", "xor") else first
        return np.repeat(function.reduce(np.where(active, values, neutral).astype(values.dtype), axis=1), 32)

    e.write(i.operands[0], f"{e.bind(reduce)}(X, {e.mask}, {e.source(i.operands[1], kind)}).astype({dtype_of(kind)})", kind)


@op("elect", warp_wide=True)
def _elect(e: Emitter, i: Instruction) -> None:
    def elect(X: Batch, mask: Mask | None) -> tuple[Words, Mask]:
        leader = _active(X, mask).argmax(axis=1)
        return np.repeat(leader, 32).astype(np.uint32), X.lanes.thread % 32 == np.repeat(leader, 32)

    e.line(f"t = {e.bind(elect)}(X, {e.mask})")
    target = i.operands[0]
    if isinstance(target, Pair):
        e.write(target.first, "t[0]", "u32")
        e.write(target.second, "t[1]", "pred")
