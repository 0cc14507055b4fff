"""Rules of wgmma kernels of sm_90a, each with the nearest legal spec as the remedy.

A rule yields a `Breach`: what is wrong, what is legal, and candidate changes to the spec, nearest first. A change is
recommended only after it has been tried: the changed spec satisfies all rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice, tee
from math import log2

from mmagen.core.errors import Fault, Key
from mmagen.core.layout_text import LayoutText
from mmagen.families.wgmma import decisions
from mmagen.families.wgmma.changes import Change, spelled, written
from mmagen.families.wgmma.tiles import smaller_tiles
from mmagen.mma.atoms import Atom
from mmagen.plan import budgets, tiling
from mmagen.plan import rules as shared
from mmagen.plan.model import TiledMma
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.spec.model import Layout, Spec

MOST_CONSUMERS = {"warpgroup": 4, "cooperative": 3}
MOST_TRIES = 64
_POWERS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Breach:
    """A broken rule. rule: what is legal; tries: candidate changes, nearest first."""

    key: Key
    what: str
    rule: str
    tries: Iterable[Change] = ()


def faults(spec: Spec) -> list[Fault]:
    """All faults of the spec of a wgmma kernel, except those of arch, types and problems."""
    computed = decisions.as_computed(spec)
    found = [_fault(computed, one) for one in breaches(computed)]
    return [_of_call(one, spec) for one in found] if decisions.swapped(spec) else found


def _of_call(fault: Fault, spec: Spec) -> Fault:
    """The fault of a swapped kernel with a change of the spec as it is written: D has the call's contiguous mode."""
    epilogue = fault.change.get(("epilogue",))
    if not isinstance(epilogue, Mapping):
        return fault
    return replace(fault, change={**fault.change, ("epilogue",): {**epilogue, "major": spec.epilogue.major}})


def micro_faults(spec: Spec) -> list[Fault]:
    """Faults of the spec of a one-tile kernel, except those of the tile: rules that hold for every wgmma."""
    atom = shared.atom_for(spec)
    found = [*_layout(spec, atom), *_permutation(spec), *_atoms_layout(spec, tiling.tiled_mma(spec, atom))]
    return [Fault(one.key, one.what, one.rule, written(next(iter(one.tries), {}))) for one in found]


def breaches(spec: Spec) -> list[Breach]:
    """The rules that the spec breaks; a rule that depends on another is checked only if that one holds."""
    atom = shared.atom_for(spec)
    mma = tiling.tiled_mma(spec, atom)
    shape = [*_layout(spec, atom), *_permutation(spec), *_atoms_layout(spec, mma)]
    roles = [
        *_warpgroups(spec, mma),
        *_cluster(spec, mma),
        *_split_k(spec, atom, mma),
        *_stream_k(spec, atom, mma),
        *_accumulation(spec, atom),
    ]
    assert spec.tile
    extents = [] if shape else [*_extents(mma, spec.tile)]
    if found := [*shape, *roles, *extents]:
        return found
    return [
        *_shares(spec, spec.tile),
        *_slice(spec, atom, mma, spec.tile),
        *_split_slices(spec, atom, mma, spec.tile),
        *_promoted(spec, spec.tile),
        *_threads(spec, mma),
        *_registers(spec, atom, mma, spec.tile),
        *_smem(spec, atom, mma, spec.tile),
    ]


def nearest(spec: Spec, breach: Breach) -> Change | None:
    """The first of the breach's tries that fixes it and breaks no other rule."""
    others = {one.key for one in breaches(spec)} - {breach.key}
    return next(
        (
            change
            for change in islice(breach.tries, MOST_TRIES)
            if {one.key for one in breaches(spec.model_copy(update=change))} <= others
        ),
        None,
    )


def _fault(spec: Spec, breach: Breach) -> Fault:
    tries, again = tee(breach.tries)
    change = nearest(spec, replace(breach, tries=tries))
    if change is None:  # other faults hide whether it suffices, or a further change is needed
        return Fault(breach.key, breach.what, breach.rule, written(next(again, {})))
    nearest_legal = " with ".join(spelled(key, value) for key, value in change.items())
    return Fault(breach.key, breach.what, f"{breach.rule}: the nearest legal is {nearest_legal}", written(change))


# --- Rules independent of the tile -----------------------------------------------------------------------------------


def _layout(spec: Spec, atom: Atom) -> Iterator[Breach]:
    if not atom.takes_majors and spec.layout.letters != "TN":
        which = [
            f"{letter} is {major} contiguous"
            for letter, major in (("A", spec.layout.a_major), ("B", spec.layout.b_major))
            if major != "K"
        ]
        yield Breach(
            ("layout",),
            f"wgmma reads {atom.type_a.word} K contiguous only, and {' and '.join(which)}",
            "TN, or an operation of 16-bit types",
            ({"layout": Layout(a="K", b="K")},),
        )


def _permutation(spec: Spec) -> Iterator[Breach]:
    for i, entry in enumerate(spec.permutation):
        if entry is not None:
            yield Breach(
                ("permutation", i),
                f"{entry} permutes operands, which wgmma reads from shared memory as they are",
                "null",
                ({"permutation": (None, None, None)},),
            )


def _atoms_layout(spec: Spec, mma: TiledMma) -> Iterator[Breach]:
    m, n, k = mma.atoms
    compact = {"atoms_layout": LayoutText.compact(mma.atoms)}
    yield from (Breach(fault.key, fault.what, fault.remedy, (compact,)) for fault in tiling.numbering_faults(spec))
    if k > 1:
        yield Breach(
            ("atoms_layout",),
            f"{k} atoms along K would leave {k} partial sums per element to reduce",
            "1 along K; use split_k to split K among CTAs",
            _layouts(spec, mma, (m, n, 1), (1, 1, 1)),
        )


def _layouts(spec: Spec, mma: TiledMma, *shapes: tuple[int, int, int]) -> Iterator[Change]:
    """Each shape with the spec's tile, then with the part of it that one warpgroup computes now."""
    m, n, k = spec.tile or mma.extent
    each_m, each_n = max(m // mma.atoms[0], 1), max(n // mma.atoms[1], 1)
    for shape in shapes:
        layout = LayoutText.compact(shape)
        yield {"atoms_layout": layout}
        yield {"atoms_layout": layout, "tile": (each_m * shape[0], each_n * shape[1], k)}


def _warpgroups(spec: Spec, mma: TiledMma) -> Iterator[Breach]:
    """The number of consumer warpgroups."""
    schedule, size = decisions.schedule(spec, mma), mma.atoms[0] * mma.atoms[1]
    if schedule != "pingpong":
        if spec.warpgroups is not None:
            yield Breach(
                ("warpgroups",),
                f"warpgroups requires schedule pingpong; the schedule is {schedule}",
                "omit it, or use schedule: pingpong",
                ({"warpgroups": None},),
            )
        most = MOST_CONSUMERS[schedule]
        if size > most:
            yield Breach(
                ("atoms_layout",),
                f"{size} atoms are {size} warpgroups; schedule {schedule} allows at most {most}",
                f"1 to {most}",
                _layouts(spec, mma, *((n, 1, 1) for n in range(most, 0, -1)), (1, 2, 1)),
            )
        return
    count = decisions.consumers(spec, mma)
    if not 2 <= count <= 3:
        yield Breach(
            ("warpgroups",),
            "pingpong needs at least two consumer warpgroups"
            if count == 1
            else f"{count} consumer warpgroups and the producer have too few registers each",
            "2 or 3",
            ({"warpgroups": n} for n in ((2, 3) if count == 1 else (3, 2))),
        )
    if size > 1:
        yield Breach(
            ("atoms_layout",),
            f"{size} atoms are {size} warpgroups for one tile; with schedule pingpong each has its own tile",
            "[1, 1, 1], or schedule: cooperative",
            [*_layouts(spec, mma, (1, 1, 1)), {"schedule": "cooperative"}],
        )


def _cluster(spec: Spec, mma: TiledMma) -> Iterator[Breach]:
    m, n = decisions.cluster(spec)
    if decisions.schedule(spec, mma) == "warpgroup" and m * n > 1:
        yield Breach(
            ("cluster",),
            f"[{m}, {n}]: schedule warpgroup does not support clusters",
            "[1, 1], or another schedule",
            ({"cluster": (1, 1)},),
        )
    elif m not in _POWERS or n not in _POWERS:
        yield Breach(
            ("cluster",),
            f"[{m}, {n}] has an extent that is not a power of two up to {decisions.MOST_CLUSTER_CTAS}",
            "each is 1, 2, 4, 8 or 16",
            _clusters(spec),
        )
    elif m * n > decisions.MOST_CLUSTER_CTAS:
        yield Breach(
            ("cluster",),
            f"[{m}, {n}] are {m * n} CTAs",
            f"at most {decisions.MOST_CLUSTER_CTAS}, including split_k",
            _clusters(spec),
        )


def _clusters(spec: Spec) -> list[Change]:
    """All clusters, those most like the spec's first, the larger of two."""
    m, n = map(log2, decisions.cluster(spec))
    near = sorted((abs(log2(i) - m) + abs(log2(j) - n), -i * j, (i, j)) for i in _POWERS for j in _POWERS)
    return [{"cluster": cluster} for *_, cluster in near]


def _split_k(spec: Spec, atom: Atom, mma: TiledMma) -> Iterator[Breach]:
    split, schedule = spec.split_k or 1, decisions.schedule(spec, mma)
    none = {"split_k": 1}
    if split == 1:
        return
    if schedule != "cooperative":
        yield Breach(("split_k",), f"schedule {schedule} does not support split_k", "1, or schedule: cooperative", [none])
    elif atom.type_d.bits != 32:
        yield Breach(
            ("split_k",),
            f"{atom.type_d.word} partial sums would be rounded once more for each part of K",
            "1, or an atom with 32-bit accumulators",
            [none],
        )


def _stream_k(spec: Spec, atom: Atom, mma: TiledMma) -> Iterator[Breach]:
    if decisions.stream_k(spec) == "never":
        return
    schedule, split = decisions.schedule(spec, mma), spec.split_k or 1
    if schedule != "cooperative":
        yield Breach(
            ("stream_k",),
            f"schedule {schedule} does not support stream_k",
            "never, or schedule: cooperative",
            ({"stream_k": None},),
        )
    elif split != 1:
        yield Breach(
            ("stream_k",),
            f"split_k {split} already splits every tile",
            "use one of the two",
            ({"stream_k": None}, {"split_k": 1}),
        )
    elif atom.type_d.bits != 32:
        yield Breach(
            ("stream_k",),
            f"{atom.type_d.word} partial sums would be rounded once more for each CTA that shares a tile",
            "never, or an atom with 32-bit accumulators",
            ({"stream_k": None},),
        )


def _accumulation(spec: Spec, atom: Atom) -> Iterator[Breach]:
    if spec.accumulation is None:
        return
    if atom.type_a.word not in ("e4m3", "e5m2"):
        yield Breach(
            ("accumulation",),
            f"{atom.type_a.word} products lose no precision in the tensor core",
            "omit it: accumulation requires e4m3 or e5m2",
            ({"accumulation": None},),
        )
    elif decisions.precise(spec) and atom.type_d.word != "f32":
        name = atom.name.replace("F16E", "F32E")
        yield Breach(
            ("accumulation",),
            f"precise requires f32 accumulators; those of {atom.name} are f16",
            "fast, or an atom with f32 accumulators",
            ({"atom": name}, {"accumulation": "fast"}),
        )


# --- The tile --------------------------------------------------------------------------------------------------------


def _extents(mma: TiledMma, tile: decisions.Tile) -> Iterator[Breach]:
    for i, (extent, covered) in enumerate(zip(tile, mma.extent, strict=True)):
        mode = tiling.MODES[i]
        below = min(extent, tiling.LARGEST_EXTENT) // covered * covered
        tries = [
            {"tile": (*tile[:i], n, *tile[i + 1 :])}
            for n in sorted((below, below + covered), key=lambda n: abs(n - extent))
            if 0 < n <= tiling.LARGEST_EXTENT
        ]
        if extent % covered:
            yield Breach(
                ("tile", i),
                f"{extent} is not a multiple of the {covered} that the TiledMMA covers along {mode}",
                f"atom x atoms_layout covers {list(mma.extent)}",
                tries,
            )
        elif extent > tiling.LARGEST_EXTENT:
            yield Breach(
                ("tile", i),
                f"{extent} along {mode} exceeds what any CTA can hold",
                f"at most {tiling.LARGEST_EXTENT // covered * covered}",
                tries,
            )


def _shares(spec: Spec, tile: decisions.Tile) -> Iterator[Breach]:
    for letter, major, extent in (("A", spec.layout.a_major, tile[0]), ("B", spec.layout.b_major, tile[1])):
        across = extent if major == "K" else tile[2]
        ctas = decisions.share(letter, spec)
        if across % (ctas * decisions.SWIZZLE_LINES):
            yield Breach(
                ("cluster",),
                f"{ctas} CTAs share a tile of {letter} with only {across} lines",
                f"each CTA must load a multiple of {decisions.SWIZZLE_LINES} lines",
                _clusters(spec),
            )


def _slice(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> Iterator[Breach]:
    out, columns, least = shared.out_type(spec, atom), decisions.slice_n(spec, atom, mma, tile), VECTOR_BYTES
    other = "N" if decisions.swapped(spec) else "M"  # as the spec has it
    if spec.epilogue.major == "N" and columns * out.bytes < least:
        yield Breach(
            ("epilogue",),
            f"a warp stores {columns} {out.word} of a row of D, which are {columns * out.bytes} B, and TMA "
            f"stores at least {least}",
            f"an atom whose N is a multiple of {least // out.bytes}, a wider epilogue.out, or epilogue.major {other}",
            ({"epilogue": spec.epilogue.model_copy(update={"out": None})},),
        )


def _split_slices(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> Iterator[Breach]:
    split = decisions.split_k(spec)
    slices = decisions.atoms_of_a_warpgroup(mma, tile) * atom.n // decisions.slice_n(spec, atom, mma, tile)
    fewer = [{"split_k": power} for power in reversed(_POWERS) if power < split]
    if slices % split:
        yield Breach(
            ("split_k",),
            f"{split} CTAs cannot share equally the {slices} slices of D that a warp stores",
            f"a divisor of {slices}",
            fewer,
        )
        return
    a, b = (decisions.operand(letter, spec, atom, mma, tile) for letter in "AB")
    stages = decisions.stages(spec, mma, a, b, decisions.epilogue(spec, atom, mma, tile))
    sums = tile[0] * tile[1] * atom.type_d.bytes // split * (split - 1)
    per_stage = a.bytes_per_stage + b.bytes_per_stage
    if split > 1 and sums > stages * per_stage:
        yield Breach(
            ("split_k",),
            f"partial sums of the other CTAs take {sums:,} B, but {stages} stages have {stages * per_stage:,} B",
            "fewer CTAs, or more stages",
            [{"stages": -(-sums // per_stage)}, *fewer],
        )


def _promoted(spec: Spec, tile: decisions.Tile) -> Iterator[Breach]:
    most = decisions.MOST_PROMOTED_K
    if decisions.precise(spec) and tile[2] > most:
        yield Breach(
            ("tile", 2),
            f"{tile[2]} products would be summed inside the tensor core before they reach f32 registers",
            f"accumulation: precise allows {most}",
            ({"tile": (tile[0], tile[1], most)},),
        )


# --- Budgets ---------------------------------------------------------------------------------------------------------


def _threads(spec: Spec, mma: TiledMma) -> Iterator[Breach]:
    count = decisions.threads(spec, mma)
    for fault in budgets.thread_faults(spec, count, decisions.ARCH):
        fewer = _fewer_ctas(spec, lambda changed: not list(budgets.thread_faults(changed, count, decisions.ARCH)))
        yield Breach(fault.key, fault.what, fault.remedy, fewer)


def _fewer_ctas(spec: Spec, suffice: Callable[[Spec], bool]) -> Iterator[Change]:
    """So many CTAs per SM that a rule is kept, which `suffice` says of a changed spec."""
    fewer = ({"ctas_per_sm": n} for n in range((spec.ctas_per_sm or 1) - 1, 0, -1))
    return (change for change in fewer if suffice(spec.model_copy(update=change)))


def _registers(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> Iterator[Breach]:
    def fit(changed: Spec) -> bool:
        return decisions.registers_fit(changed, atom, mma, tile)

    if fit(spec):
        return
    accumulators, fragments = decisions.registers(spec, atom, mma, tile)
    usable = decisions.role_registers(spec, mma)[2]
    if accumulators + fragments + decisions.REGISTERS_BESIDES <= usable:
        usable = decisions.launch_registers(spec, mma)
    kept = (
        f"{accumulators} registers per thread for accumulators"
        + (" and their partial sums" if decisions.precise(spec) else "")
        + (f", {fragments} for fragments of A" if fragments else "")
    )
    what = (
        f"{kept} and about {decisions.REGISTERS_BESIDES} for the rest exceed the {usable} of a thread in a consumer warpgroup"
    )
    if fit(spec.model_copy(update={"ctas_per_sm": 1})):
        yield Breach(("ctas_per_sm",), what, "lower ctas_per_sm", _fewer_ctas(spec, fit))
    else:
        yield Breach(
            ("tile",), what, "make M x N smaller, or spread it over more warpgroups", smaller_tiles(spec, atom, mma, tile)
        )


def _smem(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> Iterator[Breach]:
    a, b = (decisions.operand(letter, spec, atom, mma, tile) for letter in "AB")
    staged = decisions.epilogue(spec, atom, mma, tile)
    most, each = decisions.most_stages(spec, mma, a, b, staged), decisions.smem_share(spec)
    has = f"the maximum per CTA is {each:,} B" + (
        f" with {spec.ctas_per_sm} CTAs per SM" if (spec.ctas_per_sm or 1) > 1 else ""
    )
    if most < 2:
        yield Breach(
            ("tile",),
            f"two stages of this tile and the epilogue need {decisions.smem_bytes(2, a, b, staged):,} B of shared memory, {has}",
            "make the tile smaller" + (", or lower ctas_per_sm" if spec.ctas_per_sm else ""),
            chain(
                smaller_tiles(spec, atom, mma, tile),
                _fewer_ctas(spec, lambda changed: decisions.most_stages(changed, mma, a, b, staged) >= 2),
            ),
        )
    elif spec.stages and spec.stages > most:
        need = f"{spec.stages} need {decisions.smem_bytes(spec.stages, a, b, staged):,} B of shared memory, {has}"
        if decisions.smem_bytes(spec.stages, a, b, staged) <= each:
            need = f"{spec.stages} need two mbarriers each, and there is room for those of {most}"
        yield Breach(("stages",), need, f"at most {most}", ({"stages": most},))
