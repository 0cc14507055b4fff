"""L2 cache policies: createpolicy, the operands of .L2::cache_hint, and prefetches. They change no values.

A policy is opaque in PTX: it has to come from createpolicy (PTX ISA 9.7.9.19). Kernels also use constants that createpolicy
is known to give, as CUTLASS's CacheHintSm90 does: 0x1000000000000000 (evict_normal), 0x12f0000000000000 (evict_first) and
0x14f0000000000000 (evict_last). They are words of the two layouts that libcu++'s cuda::access_property has for sm_80 and
later, and a word of neither is a finding:

    bits 59-60    2: a fraction of all addresses, 3: blocks of a range
    bits 57-58    priority: 0 normal, 1 first, 2 last, 3 unchanged (libcu++: normal, demoted)
    bit 56        priority of all other addresses: 0 unchanged, 1 first
    bits 52-55    2: sixteenths of the addresses less one; 3: binary logarithm of a block's size in 4 KiB, up to 13
    bits 37-50    3: number of blocks (7 bits), first block (7 bits)
    others        0
"""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arrays import Events, Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.ops.access import keep_aligned, split
from mmagen.emulate.ops.emit import Emitter, op
from mmagen.emulate.ops.memory import native_address
from mmagen.emulate.ptx.model import Address, Instruction, Vector, elements_of

_PRIORITIES = {"evict_normal": 0, "evict_first": 1, "evict_last": 2, "evict_unchanged": 3}
_FRACTION, _BLOCKS = 2, 3
_BLOCK = 4096
_LARGEST_BLOCK = 13


def is_policy(word: int) -> bool:
    """Whether a 64-bit word is a cache policy."""
    mode, size = word >> 59 & 3, word >> 52 & 15
    if word >> 61:
        return False
    if mode == _FRACTION:
        return word & ((1 << 52) - 1) == 0
    return mode == _BLOCKS and size <= _LARGEST_BLOCK and word & ((1 << 37) - 1) == 0 and not word >> 51 & 1


def check_policy(e: Emitter, i: Instruction) -> None:
    """Emits a check of the policy of an instruction with .L2::cache_hint, which is its last operand."""
    if i.has("L2::cache_hint"):
        e.line(f"{e.bind(_check)}(X, {e.mask}, {e.bind(i)}, {e.source(i.operands[-1], 'u64')})")


def _check(X: Batch, mask: Mask | None, i: Instruction, policy: Events) -> None:
    if len(policy) == 1 and is_policy(int(policy[0])):
        return
    lanes = X.lanes.of(mask)
    words, first = np.unique(X.lanes.spread(policy)[lanes], return_index=True)
    for word, n in zip(words.tolist(), first.tolist(), strict=True):
        if not is_policy(word):
            text = f"has the cache policy {word:#018x}, which createpolicy does not make"
            X.findings.add("cache_policy", i, 1, int(lanes[n]), text)


@op("createpolicy")
def _createpolicy(e: Emitter, i: Instruction) -> None:
    """.fractional, .range and .cvt.L2."""
    target, *operands = i.operands
    if i.has("cvt"):
        e.write(target, e.source(operands[0], "u64"), "u64")
        return
    words = [m.split("::")[1] for m in i.modifiers if m.startswith("L2::")]
    first, other = _PRIORITIES[words[0]], int(words[1:] == ["evict_first"])
    priorities = first << 57 | other << 56
    if i.has("fractional"):
        fraction = e.source(operands[0], "f32") if operands else e.constant(1.0, "f4")
        e.line(f"t = {e.bind(_fractional)}(X, {e.mask}, {e.bind(i)}, {fraction}, {priorities})")
    else:
        address, (hit, total) = native_address(e, operands[0]), (e.source(x, "u32") for x in operands[1:3])
        e.line(f"t = {e.bind(_range)}(X, {e.mask}, {e.bind(i)}, {address}, {hit}, {total}, {priorities})")
    e.write(target, "t", "u64")


def _fractional(X: Batch, mask: Mask | None, i: Instruction, fraction: Values, priorities: int) -> Events:
    lanes = X.lanes.of(mask)
    wrong = ~((fraction > 0) & (fraction <= 1))
    bad = lanes[X.lanes.spread(wrong)[lanes]]
    if len(bad):
        X.findings.add("cache_policy", i, len(bad), int(bad[0]), "makes a policy for a fraction that is not in (0, 1]")
    sixteenths = np.clip(np.ceil(np.where(wrong, 1, fraction) * 16), 1, 16).astype(np.uint64) - np.uint64(1)
    policy: Events = np.uint64(_FRACTION << 59 | priorities) | (sixteenths << np.uint64(52))
    return policy


def _range(X: Batch, mask: Mask | None, i: Instruction, address: Values, hit: Values, total: Values, priorities: int) -> Events:
    lanes = X.lanes.of(mask)
    bad = lanes[X.lanes.spread(hit > total)[lanes]]
    if len(bad):
        X.findings.add("cache_policy", i, len(bad), int(bad[0]), "makes a policy whose primary size exceeds its total size")
    # Blocks so large that at most 127 of them cover the primary size.
    size = np.clip(np.ceil(np.log2(np.maximum(hit, 1) / (127 * _BLOCK))), 0, _LARGEST_BLOCK).astype(np.uint64)
    blocks = np.minimum(hit // (_BLOCK << size), 127).astype(np.uint64)
    start = (address.astype(np.uint64) >> (np.uint64(12) + size)) & np.uint64(127)
    policy: Events = (
        np.uint64(_BLOCKS << 59 | priorities) | (size << np.uint64(52)) | (start << np.uint64(44)) | (blocks << np.uint64(37))
    )
    return policy


@op("prefetch", "prefetchu")
def _prefetch(e: Emitter, i: Instruction) -> None:
    """Of a tensor map it must be one; other prefetches are hints, of any address."""
    if i.has("tensormap"):
        e.line(f"{e.bind(_tensor_maps)}(X, {e.mask}, {e.bind(i)}, {native_address(e, i.operands[0])})")


def _tensor_maps(X: Batch, mask: Mask | None, i: Instruction, address: Values) -> None:
    lanes, where = split(X, mask, address)
    places, first = np.unique(where, return_index=True)
    for place, lane in zip(places.tolist(), lanes[first].tolist(), strict=True):
        X.bulk.tensor(i, lane, place)


def build_bulk_prefetch(e: Emitter, i: Instruction) -> None:
    """cp.async.bulk.prefetch: [address], bytes, or .tensor: [map, {coordinates}]."""
    place = i.operands[0]
    if isinstance(place, Vector):
        refuse_other_modes(e, i)
        e.line(f"{e.bind(_boxes)}(X, {e.mask}, {e.bind(i)}, {tensor_place(e, place)})")
    else:
        run, size = e.bind(_bulk_prefetch), e.source(i.operands[1], "u32")
        e.line(f"{run}(X, {e.mask}, {e.bind(i)}, {native_address(e, place)}, {size})")


def refuse_other_modes(e: Emitter, i: Instruction) -> None:
    """Raises EmulationError for copies of boxes that are not tiled."""
    if other := next((m for m in i.modifiers if m.startswith(("im2col", "tile::", "cta_group"))), None):
        raise e.unsupported(f"copies with .{other} are not emulated, only tiled ones")


def tensor_place(e: Emitter, place: Vector) -> str:
    """The arguments of [map, {coordinates}]: the map's address and a list of coordinates."""
    tensor, coordinates = place.elements
    where = native_address(e, tensor) if isinstance(tensor, Address) else e.source(tensor, "u64")
    return f"{where}, [{', '.join(e.source(x, 's32') for x in elements_of(coordinates))}]"


def coordinates_of(at: list[Values], lane: int) -> tuple[int, ...]:
    """The coordinates of one lane."""
    return tuple(int(values[0] if len(values) == 1 else values[lane]) for values in at)


def _boxes(X: Batch, mask: Mask | None, i: Instruction, maps: Values, at: list[Values]) -> None:
    lanes, where = split(X, mask, maps)
    for lane, place in zip(lanes.tolist(), where.tolist(), strict=True):
        X.bulk.tensor(i, lane, place)
        X.prefetches.prefetch(i, (place, coordinates_of(at, lane)))


def _bulk_prefetch(X: Batch, mask: Mask | None, i: Instruction, address: Values, size: Values) -> None:
    lanes, where = split(X, mask, address)
    keep_aligned(X, i, lanes, where, 16)
    sizes = X.lanes.spread(size)[lanes]
    odd = np.flatnonzero(sizes % 16)
    if len(odd):
        text = f"prefetches {int(sizes[odd[0]])} bytes, which is not a multiple of 16"
        X.findings.add("misaligned", i, len(odd), int(lanes[odd[0]]), text)
