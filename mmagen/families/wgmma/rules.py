"""Rules of wgmma kernels of sm_90a, each with the nearest legal spec as the remedy.

A rule yields a `Breach`: what is wrong, what is legal, and candidate changes to the spec, nearest first. A change is
recommended only after it has been tried: the changed spec satisfies all rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice, tee

from mmagen.core.errors import Fault
from mmagen.core.layout_text import LayoutText
from mmagen.families.wgmma import decisions, grouped, mixed_rules, pieces_rules, scaling
from mmagen.families.wgmma.breach import POWERS, Breach, clusters
from mmagen.families.wgmma.changes import Change, spelled, written
from mmagen.families.wgmma.tile_rules import breaches_of_tile, extents
from mmagen.mma.atoms import Atom
from mmagen.plan import rules as shared
from mmagen.plan import tiling
from mmagen.plan.model import TiledMma
from mmagen.spec.model import Spec

MOST_CONSUMERS = {"warpgroup": 4, "cooperative": 3}
MOST_TRIES = 64


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
        *_scale(spec, atom, mma),
        *grouped.breaches(spec, mma),
        *mixed_rules.breaches(spec, atom, mma),
        *pieces_rules.breaches(spec, atom),
    ]
    assert spec.tile
    of_tile = [] if shape else [*extents(mma, spec.tile)]
    if found := [*shape, *roles, *of_tile]:
        return found
    return breaches_of_tile(spec, atom, mma, spec.tile)


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
    majors = {"A": spec.layout.a_major, "B": spec.layout.b_major}
    wrong = [letter for letter in atom.k_only if majors[letter] != "K"]
    if wrong:
        k_contiguous = {{"A": "a_major", "B": "b_major"}[letter]: "K" for letter in wrong}
        legal = spec.layout.model_copy(update=k_contiguous)
        yield Breach(
            ("layout",),
            f"wgmma reads {atom.type_a.word} K contiguous only, and "
            f"{' and '.join(f'{letter} is {majors[letter]} contiguous' for letter in wrong)}",
            f"{legal.letters}, or an operation of 16-bit types",
            ({"layout": legal},),
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
    if spec.weights and schedule == "cooperative":
        yield from mixed_rules.warpgroup_breaches(spec, size, _layouts(spec, mma, *((n, 1, 1) for n in range(size, 0, -1))))
        return
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
    elif m not in POWERS or n not in POWERS:
        yield Breach(
            ("cluster",),
            f"[{m}, {n}] has an extent that is not a power of two up to {decisions.MOST_CLUSTER_CTAS}",
            "each is 1, 2, 4, 8 or 16",
            clusters(spec),
        )
    elif m * n > decisions.MOST_CLUSTER_CTAS:
        yield Breach(
            ("cluster",),
            f"[{m}, {n}] are {m * n} CTAs",
            f"at most {decisions.MOST_CLUSTER_CTAS}, including split_k",
            clusters(spec),
        )


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
    if spec.accumulation is None or spec.split:
        return
    if atom.type_a.word not in ("e4m3", "e5m2"):
        yield Breach(
            ("accumulation",),
            f"{atom.type_a.word} products lose no precision in the tensor core",
            "omit it: accumulation requires e4m3, e5m2 or split",
            ({"accumulation": None},),
        )
    elif spec.accumulation == "precise" and atom.type_d.word != "f32":
        name = atom.name.replace("F16E", "F32E")
        yield Breach(
            ("accumulation",),
            f"precise requires f32 accumulators; those of {atom.name} are f16",
            "fast, or an atom with f32 accumulators",
            ({"atom": name}, {"accumulation": "fast"}),
        )


def _scale(spec: Spec, atom: Atom, mma: TiledMma) -> Iterator[Breach]:
    if spec.scale is None:
        return
    if atom.type_a.word not in ("e4m3", "e5m2"):
        yield Breach(
            ("scale",),
            f"{atom.type_a.word} operands take no scales",
            "omit it: scale requires e4m3 or e5m2",
            ({"scale": None},),
        )
        return
    if atom.type_d.word != "f32":
        yield Breach(
            ("scale",),
            f"scaled sums are f32; those of {atom.name} are {atom.type_d.word}",
            "an atom with f32 accumulators",
            ({"atom": atom.name.replace("F16E", "F32E")}, {"scale": None}),
        )
    if not scaling.along_k(spec):
        return
    if decisions.schedule(spec, mma) == "warpgroup":
        yield Breach(
            ("schedule",),
            "scales that change along K are copied by a warp of the producer, which schedule warpgroup does not have",
            "cooperative or pingpong",
            ({"schedule": "cooperative"},),
        )
    if spec.accumulation == "fast":
        yield Breach(
            ("accumulation",),
            "the sums of k tiles with different scales are added in f32 registers, never inside the tensor core",
            "precise, or omit it",
            ({"accumulation": None},),
        )
