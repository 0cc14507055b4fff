"""mbarrier, clusters and the fences of asynchronous kernels. Waiting for a phase ends a block: see exec/."""

from __future__ import annotations

import re

import numpy as np

from mmagen.emulate.arrays import Events, Indices, Mask, Registers, Values, Words
from mmagen.emulate.batch import Batch
from mmagen.emulate.errors import EmulationError
from mmagen.emulate.hazards.clocks import CLUSTER_SHARED, GLOBAL, OWN_SHARED, FenceSpace
from mmagen.emulate.lanes.cluster_addresses import OFFSET_MASK, RANK_SHIFT
from mmagen.emulate.memory.spaces import SHARED_WINDOW
from mmagen.emulate.ops.access import split
from mmagen.emulate.ops.emit import Emitter, literal, op
from mmagen.emulate.ops.memory import native_address
from mmagen.emulate.program.program import Program
from mmagen.emulate.ptx.model import Address, Instruction, Name, Register
from mmagen.emulate.ptx.scopes import CTA, scope_of

# The forms of PTX ISA 9.0, "membar/fence".
_RESTRICTED = r"(acquire\.sync_restrict::shared::cluster|release\.sync_restrict::shared::cta)\.cluster"
_FENCE = re.compile(
    r"((sc|acq_rel|acquire|release)\.)?(cta|cluster|gpu|sys)"
    rf"|(proxy\.async::generic\.)?{_RESTRICTED}|mbarrier_init\.release\.cluster"
    r"|proxy\.(alias|async(\.(global|shared::(cta|cluster)))?)"
    r"|proxy\.tensormap::generic\.(release|acquire)\.(cta|cluster|gpu|sys)"
)
_MEMBAR = re.compile(r"cta|gl|sys|proxy\.alias")
_FORMS = {"shared", "shared::cta", "shared::cluster", "b64", "release", "relaxed", "acquire", "cta", "cluster", "expect_tx"}


_NO_RANK = 200


def shared_address(where: Indices) -> Indices:
    """Offsets in shared memory of addresses that may be generic, as those of mbarriers."""
    return np.where(where >= SHARED_WINDOW, where - SHARED_WINDOW, where)


@op("mbarrier")
def _mbarrier(e: Emitter, i: Instruction) -> None:
    what = i.modifiers[0]
    if what in ("init", "inval"):
        count = e.source(i.operands[1], "u32") if what == "init" else "None"
        e.line(f"{e.bind(_initialise)}(X, {e.mask}, {e.bind(i)}, {native_address(e, i.operands[0])}, {count})")
    elif what in ("arrive", "expect_tx", "complete_tx"):
        _arrive(e, i)
    else:
        raise e.unsupported("this form of mbarrier is not supported")


def _initialise(X: Batch, mask: Mask | None, i: Instruction, address: Values, count: Values | None) -> None:
    lanes, where = split(X, mask, address)
    if count is None:
        X.mbarriers.invalidate(lanes, shared_address(where))
    else:
        X.mbarriers.init(i, lanes, shared_address(where), X.lanes.spread(count)[lanes])


def _arrive(e: Emitter, i: Instruction) -> None:
    """mbarrier.arrive{.expect_tx} state, [address]{, bytes or count}; mbarrier.expect_tx and .complete_tx [address], bytes."""
    if set(i.modifiers[1:]) - _FORMS:
        raise e.unsupported("this form of mbarrier is not supported")
    operands = list(i.operands)
    target = None if isinstance(operands[0], Address) else operands.pop(0)
    announces, releases = i.has("expect_tx") or i.modifiers[0] == "complete_tx", i.modifiers[0] == "arrive"
    extra = e.source(operands[1], "u32") if len(operands) > 1 else e.constant(1, "u4")
    count = e.constant(int(releases), "u4") if announces else extra
    announced = extra if announces else e.constant(0, "u4")
    if i.modifiers[0] == "complete_tx":
        announced = f"-({announced}).astype(i8)"
    arguments = f"{native_address(e, operands[0])}, {count}, {announced}, {releases}"
    e.line(f"t = {e.bind(_arrivals)}(X, {e.mask}, {e.bind(i)}, {arguments})")
    if target is not None and not (isinstance(target, Name) and target.name == "_"):
        e.write(target, "t", "u64")


def _arrivals(
    X: Batch, mask: Mask | None, i: Instruction, address: Values, count: Words, announced: Words | Indices, releases: bool
) -> Events:
    lanes, where = split(X, mask, address)
    phases = np.zeros(X.lanes.size, dtype=np.uint64)
    counts, sizes = (X.lanes.spread(v)[lanes] for v in (count, announced))
    phases[lanes] = X.mbarriers.arrive(i, lanes, shared_address(where), counts, sizes, releases)
    return phases


def address_operand(i: Instruction, registers: Registers, program: Program) -> Events:
    """The address that is the second operand of a load or a wait: uint64[lanes], or of length 1."""
    place = i.operands[1]
    if not isinstance(place, Address):
        raise EmulationError(f"line {i.line}: this form of {i.base} is not supported: {i.text}")
    if isinstance(place.base, Register):
        base = registers[place.base.index].astype(np.uint64)
    else:
        base = np.array([0 if place.base is None else program.places.place_of(place.base.name)], dtype=np.uint64)
    address: Events = base + np.uint64(place.offset % (1 << 64))
    return address


def phase_operands(i: Instruction, registers: Registers, program: Program) -> tuple[Events, Events]:
    """(address, parity or state) of mbarrier.try_wait and test_wait: uint64[lanes], or of length 1."""
    if i.has("relaxed"):
        raise EmulationError(f"line {i.line}: waits for an mbarrier without acquire are not supported: {i.text}")
    address, phase = address_operand(i, registers, program), i.operands[2]
    if isinstance(phase, Register):
        return address, registers[phase.index].astype(np.uint64)
    return address, np.array([int(getattr(phase, "value", 0))], dtype=np.uint64)


@op("fence", "membar")
def _fence(e: Emitter, i: Instruction) -> None:
    """Fences change what the clocks know; the accesses themselves are executed in order anyway."""
    if not (_FENCE if i.base == "fence" else _MEMBAR).fullmatch(".".join(i.modifiers)):
        raise e.unsupported(f"{i.base} has no such form")
    if i.has("mbarrier_init"):
        e.line(f"X.mbarriers.fence({e.mask})")
    elif i.modifiers[0] == "proxy":
        spaces = _fenced_spaces(i)
        if OWN_SHARED in spaces:
            e.line(f"X.mbarriers.fence({e.mask})")
        if spaces:
            e.line(f"X.hazards.proxy_fence({e.mask}, {spaces})")
        if any(m.startswith("tensormap") for m in i.modifiers) and i.has("acquire"):
            e.line(f"X.bulk.acquire_map({e.mask}, {native_address(e, i.operands[0])}, {scope_of(i)})")
    else:
        if scope_of(i) > CTA:
            e.line(f"X.mbarriers.fence({e.mask})")
        e.line(f"X.hazards.memory_fence({e.mask}, {scope_of(i)})")


def _fenced_spaces(i: Instruction) -> tuple[FenceSpace, ...]:
    """Between generic accesses to which spaces and the asynchronous proxy a fence is. That of .async::generic is one in the other
    direction alone: behind accesses by the asynchronous proxy."""
    if i.has("async::generic") or not any(m.split("::")[0] == "async" for m in i.modifiers):
        return ()
    if i.has("global"):
        return (GLOBAL,)
    if any("shared::cluster" in m for m in i.modifiers):
        return OWN_SHARED, CLUSTER_SHARED
    return (OWN_SHARED,) if any("shared::cta" in m for m in i.modifiers) else (OWN_SHARED, CLUSTER_SHARED, GLOBAL)


@op("mapa")
def _mapa(e: Emitter, i: Instruction) -> None:
    """The address of the same byte in the shared memory of another CTA of the cluster. For a CTA that
    does not exist the result is an address that must not be used."""
    a, rank = e.source(i.operands[1], "u64"), e.source(i.operands[2], "u32")
    e.write(i.operands[0], f"{e.bind(_map)}({a}, {rank})", "u64")


def _map(address: Events, rank: Words) -> Events:
    ranks = np.minimum(rank, _NO_RANK).astype(np.uint64) + np.uint64(1)
    mapped: Events = (address & ~np.uint64(0xFFFFFFFF - OFFSET_MASK)) | (ranks << np.uint64(RANK_SHIFT))
    return mapped


@op("getctarank")
def _rank(e: Emitter, i: Instruction) -> None:
    a = e.source(i.operands[1], "u64")

    def rank_of(X: Batch, a: Events) -> Indices:
        named = (a & np.uint64(0xFFFFFFFF)).astype(np.int64) >> RANK_SHIFT
        return np.where(named > 0, named - 1, X.lanes.cta % X.lanes.cluster)

    e.write(i.operands[0], f"{e.bind(rank_of)}(X, {a}).astype(u4)", "u32")


@op("setmaxnreg", warp_wide=True)
def _registers(e: Emitter, i: Instruction) -> None:
    """Registers are not limited, but counted."""
    e.line(f"X.register_pool.change({e.bind(i)}, {e.mask}, {literal(i.operands[0])})")
