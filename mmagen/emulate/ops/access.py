"""Loads and stores of all lanes at once: bounds, alignment, what was written before, and the counts of traffic."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmagen.emulate.arrays import Indices, Mask, Values
from mmagen.emulate.batch import Batch
from mmagen.emulate.lanes.cluster_addresses import RANK_SHIFT, owners
from mmagen.emulate.memory.global_memory import ALLOCATED, INITIALISED, POISON, WRITABLE
from mmagen.emulate.memory.spaces import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    PARAM_WINDOW,
    SHARED_WINDOW,
    UNSIGNED,
    WINDOW_SIZE,
)
from mmagen.emulate.ptx.facts import is_strong
from mmagen.emulate.ptx.model import Instruction


def split(X: Batch, mask: Mask | None, address: Values) -> tuple[Indices, Indices]:
    """(lanes, addresses): int64[n] each, of the active lanes."""
    lanes, spread = X.lanes.of(mask), X.lanes.spread(address)
    return lanes, (spread if mask is None else spread[lanes]).astype(np.int64)


def keep_aligned(X: Batch, i: Instruction, lanes: Indices, address: Indices, size: int) -> Mask | None:
    """bool[n] of the lanes whose address is a multiple of `size`, None where all are; others are a finding."""
    odd = address & (size - 1)
    if not odd.any():
        return None
    bad = np.flatnonzero(odd)
    first = bad[0]
    text = f"accesses {size} bytes at {int(address[first]) & 0xFFFFFFFFFFFFFFFF:#x}, which is not a multiple of {size}"
    X.findings.add("misaligned", i, len(bad), int(lanes[first]), text)
    aligned: Mask = odd == 0
    return aligned


Part = tuple[str, Indices, Indices]


Located = tuple[Mask | None, Indices]
"""(bool[n] of the lanes to serve, None for all; byte positions int64 of those in the space's memory)."""


class Access:
    """One memory instruction: `count` elements of `width` bytes per lane."""

    def __init__(self, i: Instruction, width: int, count: int, atomic: bool = False, counted: bool = True):
        self.i, self.width, self.count, self.atomic, self.counted = i, width, count, atomic, counted
        self.size = width * count
        self.strong = is_strong(i)

    def parts(self, X: Batch, space: str, mask: Mask | None, address: Values) -> list[Part]:
        """The active lanes by the space of their addresses: (space, lanes int64[n], addresses in it int64[n])."""
        lanes, where = split(X, mask, address)
        if space != "generic":
            return [(space, lanes, where)]
        return [(part, lanes[chosen], local) for part, chosen, local in _windows(where)]

    def load(self, X: Batch, space: str, mask: Mask | None, address: Values) -> Values:
        """[count, lanes] unsigned integers of `width` bytes; 0 in lanes that are not active, poison where the address is wrong. Of
        parameters that are the same for all, [count, 1]."""
        if space == "param" and len(address) == 1:
            return np.ascontiguousarray(self._params(X, address.astype(np.int64)).T)
        result: Values | None = None
        for part, lanes, where in self.parts(X, space, mask, address):
            values = self.gather(X, part, lanes, where)
            if len(lanes) == X.lanes.size:
                return np.ascontiguousarray(values.T)
            if result is None:
                result = np.zeros((self.count, X.lanes.size), dtype=UNSIGNED[self.width])
            result[:, lanes] = values.T
        return np.zeros((self.count, X.lanes.size), dtype=UNSIGNED[self.width]) if result is None else result

    def store(self, X: Batch, space: str, mask: Mask | None, address: Values, values: list[Values]) -> None:
        """Writes values[element][lanes]; stores to wrong addresses are left out."""
        data = np.stack([X.lanes.spread(v) for v in values], axis=1)
        for part, lanes, where in self.parts(X, space, mask, address):
            self.scatter(X, part, lanes, where, data if len(lanes) == X.lanes.size else data[lanes])

    def gather(self, X: Batch, space: str, lanes: Indices, where: Indices) -> Values:
        """[n, count] elements from addresses int64[n] in one space; where an address is wrong, poison."""
        if space == "param":
            return self._params(X, where)
        keep, index = self.locate(X, space, lanes, where, writing=False)
        if space in ("global", "const"):
            if X.trace and self.i.base == "ld":
                X.trace.by_warp("read", lanes if keep is None else lanes[keep])
            source = X.memory.device.data(self.width, self.count)[index // self.size]
            if self.strong and X.hazards.cross_cta is not None:
                X.hazards.cross_cta.strong_read(self.i, index, lanes if keep is None else lanes[keep], source)
        else:
            if X.trace and space == "shared":
                X.trace.by_warp("fetch", lanes if keep is None else lanes[keep], places=index)
            source = (X.memory.shared if space == "shared" else X.memory.local).gather(index, self.width, self.count)
        if keep is None:
            return source
        values = np.full((len(lanes), self.count), _pattern(POISON, self.width), dtype=UNSIGNED[self.width])
        values[keep] = source
        return values

    def scatter(self, X: Batch, space: str, lanes: Indices, where: Indices, data: Values) -> None:
        """Writes [n, count] elements to addresses int64[n] in one space."""
        keep, index = self.locate(X, space, lanes, where, writing=True)
        data = data if keep is None else data[keep]
        if space not in ("global", "const"):
            if X.trace and space == "shared":
                X.trace.by_warp("put", lanes if keep is None else lanes[keep], places=index)
            (X.memory.shared if space == "shared" else X.memory.local).scatter(index, data)
            return
        memory = X.memory.device
        memory.writes += 1
        memory.data(self.width, self.count)[index // self.size] = data
        memory.state(self.width, self.count)[index // self.size] |= _pattern(INITIALISED, self.width)

    def forget(self, X: Batch, mask: Mask | None, address: Values) -> None:
        """The elements in global memory hold poison, as where nothing has been written."""
        for space, lanes, where in self.parts(X, "global", mask, address):
            index = self.locate(X, space, lanes, where, writing=True)[1]
            memory, places = X.memory.device, index // self.size
            memory.writes += 1
            memory.data(self.width, self.count)[places] = _pattern(POISON, self.width)
            memory.state(self.width, self.count)[places] &= ~_pattern(INITIALISED, self.width)

    def locate(self, X: Batch, space: str, lanes: Indices, where: Indices, writing: bool) -> Located:
        """(bool[n] of the lanes to serve, None for all; byte positions int64 of those in the space's memory)."""
        if space in ("global", "const"):
            return self._global(X, lanes, where, writing)
        return self._owned(X, space, lanes, where, writing)

    def _params(self, X: Batch, where: Indices) -> Values:
        raw = np.frombuffer(X.memory.params.ljust(16, b"\0"), dtype=np.uint8)
        reach = where[:, None] + np.arange(self.size)
        outside = (reach < 0) | (reach >= len(raw))
        data = np.ascontiguousarray(raw[np.where(outside, 0, reach)])
        return data.view(UNSIGNED[self.width])

    # Global memory

    def _global(self, X: Batch, lanes: Indices, where: Indices, writing: bool) -> Located:
        memory = X.memory.device
        index = where - GLOBAL_BASE
        keep = keep_aligned(X, self.i, lanes, where, self.size)
        inside = (index >= 0) & (index <= memory.size - self.size)
        if not inside.all() or keep is not None:
            keep = inside if keep is None else keep & inside
            self._outside(X, lanes, where, ~inside)
            lanes, where, index = lanes[keep], where[keep], index[keep]
        if not len(index):
            return keep, index
        state = memory.state(self.width, self.count)[index // self.size]
        wanted = ALLOCATED | (WRITABLE if writing else INITIALISED) | (INITIALISED if self.atomic else 0)
        if not ((state & _pattern(wanted, self.width)) == _pattern(wanted, self.width)).all():
            good = self._examine(X, lanes, where, state, writing)
            if not good.all():
                keep = _narrow(keep, good)
                lanes, where, index = lanes[good], where[good], index[good]
        if X.hazards.checks and len(index):
            X.hazards.global_access(self.i, index, self.size, lanes, writing, self.atomic)
            self.count_warps(X, "global", lanes, where)
        return keep, index

    def _outside(self, X: Batch, lanes: Indices, where: Indices, bad: Mask) -> None:
        if not bad.any():
            return
        first = int(np.flatnonzero(bad)[0])
        text = f"accesses {self.size} bytes at {X.memory.device.describe(int(where[first]), self.size)}"
        X.findings.add("global_out_of_bounds", self.i, int(bad.sum()), int(lanes[first]), text)

    def _examine(self, X: Batch, lanes: Indices, where: Indices, state: Values, writing: bool) -> Mask:
        """bool[n]: which lanes may go on; reading what nothing wrote is a finding, but goes on."""
        flags = np.ascontiguousarray(state).view(np.uint8).reshape(len(lanes), -1)
        allocated: Mask = (flags & ALLOCATED != 0).all(axis=1)
        self._outside(X, lanes, where, ~allocated)
        memory = X.memory.device
        if writing:
            locked = allocated & (flags & WRITABLE == 0).any(axis=1)
            if locked.any():
                first = int(np.flatnonzero(locked)[0])
                text = f"writes to {memory.describe(int(where[first]))}, which is read-only"
                X.findings.add("read_only", self.i, int(locked.sum()), int(lanes[first]), text)
            allocated &= ~locked
        if writing and not self.atomic:
            return allocated
        fresh = allocated & (flags & INITIALISED == 0).any(axis=1)
        if fresh.any():
            first = int(np.flatnonzero(fresh)[0])
            text = f"reads {memory.describe(int(where[first]))}, which nothing wrote"
            X.findings.add("uninitialised_global", self.i, int(fresh.sum()), int(lanes[first]), text)
        return allocated

    # Shared and local memory

    def _owned(self, X: Batch, space: str, lanes: Indices, where: Indices, writing: bool) -> Located:
        block = X.memory.shared if space == "shared" else X.memory.local
        base = block.base[lanes]
        inside = (where >= 0) & (where <= block.size - self.size)
        if space == "shared" and not inside.all() and (where >> RANK_SHIFT).any():
            # Addresses of mapa name a CTA, also where a cluster has one alone.
            base, where = self._elsewhere(X, lanes, where)
            inside = (where >= 0) & (where <= block.size - self.size)
        keep = keep_aligned(X, self.i, lanes, where, self.size)
        if not inside.all():
            bad = np.flatnonzero(~inside)
            offset = int(where[bad[0]])
            text = f"accesses {self.size} bytes at {space} byte {offset}; there are {block.size}"
            X.findings.add(f"{space}_out_of_bounds", self.i, len(bad), int(lanes[bad[0]]), text)
            keep = inside if keep is None else keep & inside
        if keep is not None:
            lanes, where, base = lanes[keep], where[keep], base[keep]
        index = base + where
        if X.hazards.shadow is not None and space == "shared" and len(index):
            if self.atomic:
                X.hazards.shadow.atomic(self.i, index, self.size, lanes)
            elif writing:
                X.hazards.shadow.write(self.i, index, self.size, lanes)
            else:
                unwritten = X.hazards.shadow.read(self.i, index, self.size, lanes)
                if unwritten is not None:
                    X.undefined.read(self.i, lanes, unwritten)
            self.count_warps(X, "shared", lanes, where)
        return keep, index

    def _elsewhere(self, X: Batch, lanes: Indices, where: Indices) -> tuple[Indices, Indices]:
        """(where the memory begins, the place in it) of shared addresses that name CTAs of the cluster."""
        ctas, offsets = owners(X.lanes, lanes, where)
        away = np.flatnonzero(ctas != X.lanes.cta[lanes])
        if self.i.base != "ld" and len(away):
            # One of each warp stands for all: they have one clock.
            pairs = np.unique(np.stack((lanes[away] // 32, ctas[away])), axis=1, return_index=True)[1]
            for n in away[pairs].tolist():
                X.exits.remote_write(self.i, int(lanes[n]), int(ctas[n]))
        return ctas * X.memory.shared.stride, offsets

    def count_warps(self, X: Batch, space: str, lanes: Indices, where: Indices) -> None:
        """Counts the traffic of these lanes, warp by warp; not where the caller does it (`counted`)."""
        if not self.counted:
            return
        active: Mask | None = None
        table: Indices = where
        if len(lanes) != X.lanes.size:
            # Lanes that do not take part repeat the address of one that does.
            table, active = np.full(X.lanes.size, where[0], dtype=np.int64), np.zeros(X.lanes.size, dtype=bool)
            table[lanes], active[lanes] = where, True
            active = active.reshape(-1, 32)
        count = X.traffic.count_shared if space == "shared" else X.traffic.count_global
        count(self.i, table.reshape(-1, 32), active, self.size)


def _pattern(flags: int, width: int) -> np.unsignedinteger[Any]:
    """One flag byte repeated over an element."""
    return UNSIGNED[width](int.from_bytes(bytes([flags]) * width, "little"))


def _narrow(keep: Mask | None, good: Mask) -> Mask:
    """`keep` with the lanes taken out that are not good; good is over the lanes kept so far."""
    if keep is None:
        return good
    narrowed = keep.copy()
    narrowed[np.flatnonzero(keep)] = good
    return narrowed


def _windows(where: Indices) -> list[tuple[str, Mask, Indices]]:
    """(space, which lanes, their addresses in it) of generic addresses."""
    result = []
    rest = np.ones(len(where), dtype=bool)
    for space, start in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW), ("param", PARAM_WINDOW)):
        chosen = (where >= start) & (where < start + WINDOW_SIZE)
        if chosen.any():
            result.append((space, chosen, where[chosen] - start))
            rest &= ~chosen
    if rest.any():
        result.append(("global", rest, where[rest]))
    return result
