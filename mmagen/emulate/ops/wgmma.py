"""wgmma: registers and descriptors to and from the functions that know layouts and arithmetic."""

from __future__ import annotations

import numpy as np

from mmagen.emulate.arithmetic import wgmma
from mmagen.emulate.arithmetic.mma import BITS
from mmagen.emulate.arithmetic.wgmma import WARPGROUP
from mmagen.emulate.arrays import Events, Indices, Mask, Registers, Values, Words
from mmagen.emulate.batch import Batch
from mmagen.emulate.memory.swizzle import CHUNK
from mmagen.emulate.ops.convergence import whole_warpgroups
from mmagen.emulate.ops.emit import Emitter, literal, op
from mmagen.emulate.ptx.model import Entry, Immediate, Instruction, Operand, Register, Vector, elements_of


@op("wgmma", warp_wide=True)
def _wgmma(e: Emitter, i: Instruction) -> None:
    what = i.modifiers[0]
    if what in ("fence", "commit_group", "wait_group"):
        e.line(f"X.wgmmas.execute({e.mask}, {e.bind(i)})")
    if what == "fence":
        e.line(f"X.wgmmas.fence(R, {e.mask})")
    elif what == "commit_group":
        e.line(f"X.wgmmas.commit({e.mask})")
    elif what == "wait_group":
        e.line(f"X.wgmmas.wait({e.mask}, {literal(i.operands[0])})")
    elif what == "mma_async":
        _multiply(e, i)
    else:
        raise e.unsupported("this form of wgmma is not supported")


def registers_of(i: Instruction) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(the registers of D, those of an A in registers, that of a sparse A's metadata) of a wgmma.mma_async."""
    target, a = i.operands[0], i.operands[1]
    fragments = _indices(a) if isinstance(a, Vector) else ()
    return _indices(target), fragments, _indices(i.operands[3]) if i.has("sp") else ()


def registers_in_flight(entry: Entry) -> frozenset[int]:
    """Registers that wgmmas of an entry use, and those that movs copy them to."""
    found: set[int] = set()
    for i in entry.instructions:
        if i.base == "wgmma" and i.has("mma_async"):
            found.update(*registers_of(i))
    moves = [(source, target) for source, target in map(move_of, entry.instructions) if source >= 0]
    before = -1
    while found and len(found) != before:
        before = len(found)
        found.update(target for source, target in moves if source in found)
    return frozenset(found)


def move_of(i: Instruction) -> tuple[int, int]:
    """(source, target) of a mov between registers; (-1, -1) for another instruction."""
    if i.base != "mov" or len(i.operands) != 2:
        return -1, -1
    target, source = i.operands
    return (source.index, target.index) if isinstance(target, Register) and isinstance(source, Register) else (-1, -1)


def watch_registers(e: Emitter, i: Instruction, in_flight: frozenset[int]) -> None:
    """Emits a check of an instruction that accesses registers which a wgmma may be changing at that time."""
    if i.base == "wgmma":
        return
    reads, writes = (tuple(x.index for x in registers if x.index in in_flight) for registers in i.registers)
    if not reads and not writes:
        return
    source, target = move_of(i)
    if target in in_flight:
        e.line(f"X.wgmmas.copy_register({e.mask}, {source}, {target}, {e.bind(i)})")
    else:
        e.line(f"X.wgmmas.access({e.mask}, {reads}, {writes}, {e.bind(i)})")


def _indices(operand: Operand) -> tuple[int, ...]:
    return tuple(x.index for x in elements_of(operand) if isinstance(x, Register))


def _multiply(e: Emitter, i: Instruction) -> None:
    form = wgmma.parse(i.modifiers)
    sums, fragments, described = registers_of(i)
    if len(sums) != form.accumulators:
        raise e.unsupported(f"D has {len(sums)} registers, not {form.accumulators}")
    if isinstance(i.operands[1], Vector) and len(fragments) != 4:
        raise e.unsupported("A in registers is four of them")
    # A sparse one has metadata and their selector between B and the predicate.
    metadata, selector = (i.operands[3], i.operands[4]) if form.sparse else (None, Immediate(0))
    scale, *literals = i.operands[5 if form.sparse else 3 :]
    rest = [int(x.value) for x in (selector, *literals) if isinstance(x, Immediate)]
    if len(rest) != 1 + len(literals):
        raise e.unsupported("scales, transpositions and the sparsity selector are literals")
    run = e.bind(_Multiply(i, form, sums, fragments, described, *rest))
    a = "None" if fragments else e.source(i.operands[1], "u64")
    scale_d = repr(bool(scale.value)) if isinstance(scale, Immediate) else e.source(scale, "pred")
    chosen = e.source(metadata, "u32") if metadata else "None"
    e.line(f"t = {run}.run(R, X, {e.mask}, {a}, {e.source(i.operands[2], 'u64')}, {chosen}, {scale_d})")
    for n, target in enumerate(elements_of(i.operands[0])):
        e.write(target, f"t[{n}]", "u32")
    e.line(f"X.wgmmas.mark_results(R, {e.mask}, {e.bind(sums)}, {(form.n, form.k)})")


class _Multiply:
    """One wgmma.mma_async, executed for all warpgroups that are at it."""

    def __init__(
        self,
        i: Instruction,
        form: wgmma.Form,
        sums: tuple[int, ...],
        fragments: tuple[int, ...],
        metadata: tuple[int, ...],
        selector: int,
        *rest: int,
    ):
        self.i, self.form, self.sums, self.fragments, self.selector = i, form, sums, fragments, selector
        self.reads = (*fragments, *metadata)
        # scale-a, scale-b, then trans-a where A is in shared memory, and trans-b; integers have none of them.
        scales, transposed = (rest[:2] or (1, 1)), rest[2:]
        self.scale_a, self.scale_b = scales
        self.a_mn_major = bool(transposed[0]) if len(transposed) == 2 else False
        self.b_mn_major = bool(transposed[-1]) if transposed else False

    def run(
        self,
        R: Registers,
        X: Batch,
        mask: Mask | None,
        a: Events | None,
        b: Events,
        metadata: Words | None,
        scale_d: Mask | bool,
    ) -> Words:
        """uint32[registers, lanes]: D, where warpgroups are active."""
        groups = whole_warpgroups(X, mask, self.i)
        result = np.zeros((len(self.sums), X.lanes.size), dtype=np.uint32)
        if not len(groups):
            return result
        first = np.array([X.wgmmas.first_lane(g) for g in groups.tolist()], dtype=np.int64)
        lanes = (first[:, None] + np.arange(WARPGROUP)).reshape(-1)
        X.wgmmas.check_together(groups)
        form = self.form
        for group in groups.tolist():
            X.wgmmas.check_operands(R, group, self.sums, self.fragments, (form.n, form.k), self.i)
        clocks = [X.wgmmas.start(group, self.sums, self.reads, form.sparse) for group in groups.tolist()]
        if a is None:
            registers = np.stack([_bits(X.lanes.spread(R[r])[lanes]) for r in self.fragments], axis=-1)
            left = wgmma.fragment_codes(registers.reshape(-1, 4, 32, 4), form)
        else:
            left = self._shared(X, groups, clocks, X.lanes.spread(a)[lanes], wgmma.M, form.a, self.a_mn_major)
        right = self._shared(X, groups, clocks, X.lanes.spread(b)[lanes], form.n, form.b, self.b_mn_major, form.depth_b)
        start = None
        keep = np.broadcast_to(scale_d, (X.lanes.size,))[lanes].reshape(-1, WARPGROUP)
        self._uniform(X, lanes, keep)
        if keep.any():
            before = np.stack([_bits(X.lanes.spread(R[r])[lanes]) for r in self.sums]).reshape(-1, len(groups), WARPGROUP)
            before = before if keep.all() else np.where(keep, before, np.uint32(0))
            start = wgmma.sums_codes(before, form)
        left_numbers = wgmma.numbers(left, form.a, self.scale_a)
        if metadata is not None:
            selected = _bits(X.lanes.spread(metadata)[lanes]).reshape(-1, WARPGROUP)
            left_numbers = wgmma.spread(left_numbers, form, selected, self.selector)
        codes = wgmma.multiply(form, left_numbers, wgmma.numbers(right, form.b, self.scale_b), start)
        result[:, lanes] = wgmma.sums_registers(codes, form).reshape(len(self.sums), -1)
        return result

    def _uniform(self, X: Batch, lanes: Indices, values: Values) -> None:
        """Descriptors and scales must be the same in all threads of a warpgroup."""
        table = values.reshape(-1, WARPGROUP)
        odd = (table != table[:, :1]).any(axis=1)
        if odd.any():
            lane = int(lanes[int(np.flatnonzero(odd)[0]) * WARPGROUP])
            X.findings.add(
                "warp_divergence", self.i, int(odd.sum()), lane, "multiplies with operands that differ within its warpgroup"
            )

    def _shared(
        self,
        X: Batch,
        groups: Indices,
        clocks: list[int],
        descriptors: Events,
        rows: int,
        kind: str,
        mn_major: bool,
        depth: int = wgmma.DEPTH_BYTES,
    ) -> Values:
        """Codes [g, rows, k] of an operand in shared memory. depth: bytes along K."""
        lanes = np.array([X.wgmmas.first_lane(g) for g in groups.tolist()], dtype=np.int64)
        table = descriptors.reshape(-1, WARPGROUP)
        self._uniform(X, np.repeat(lanes, WARPGROUP), table)
        size, shared = BITS[kind] // 8, X.memory.shared
        places = [wgmma.chunks(wgmma.descriptor(bits), rows, size, mn_major, depth) for bits in table[:, 0].tolist()]
        address = np.stack(places) if places else np.zeros((0, 1, 1), dtype=np.int64)
        outside = address >= shared.size
        if outside.any():
            lane = int(lanes[np.argwhere(outside)[0][0]])
            text = f"multiplies from shared byte {int(address[outside][0])}; there are {shared.size}"
            X.findings.add("shared_out_of_bounds", self.i, 1, lane, text)
            address = np.where(outside, 0, address)
        index = address + shared.base[lanes][:, None, None]
        if X.hazards.checks and address.size:
            rows_of_8 = address.reshape(len(address), -1, 8, address.shape[2])
            X.traffic.count_core_matrices(self.i, np.ascontiguousarray(rows_of_8.swapaxes(2, 3)).reshape(-1, 8))
        if X.hazards.clock_shadow is not None:
            for n, (group, clock) in enumerate(zip(groups.tolist(), clocks, strict=True)):
                warps = lanes[n] + np.arange(0, WARPGROUP, 32)
                within = group % X.wgmmas.of_cta
                X.hazards.clock_shadow.wgmma_read(self.i, index[n].reshape(-1), warps, within, clock)
        raw = shared.gather(index.reshape(-1), 8, 2).view(np.uint8).reshape(*index.shape, CHUNK)
        return wgmma.codes_of(raw, size, mn_major)


def _bits(values: Values) -> Words:
    return np.ascontiguousarray(values).view(np.uint32)
