"""The TiledMMA of atom, atoms_layout and permutation, and the rules for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

from mmagen.core.errors import ABSENT, Change, Fault
from mmagen.core.layout_text import IntTuple, LayoutText
from mmagen.mma.atoms import Atom
from mmagen.plan.model import TiledMma
from mmagen.spec.model import Spec

Tile = tuple[int, int, int]  # M, N, K
Steps = tuple[tuple[int, int], ...]  # (extent, stride)
MODES = "MNK"
# No CTA has enough registers or shared memory for more along one mode.
LARGEST_EXTENT = 16384
QUAD_PAIRS = 4  # of a warp
_MOST_TRIED = 512  # of an extent, when a smaller tile is looked for


def _flat(value: IntTuple) -> list[int]:
    return [value] if isinstance(value, int) else [x for part in value for x in _flat(part)]


def is_permutation(layout: LayoutText) -> bool:
    """Is the layout a bijection onto 0 .. size-1? (Sorted by stride, each mode must step over the previous one.)"""
    reach = 1
    for extent, stride in sorted(zip(_flat(layout.shape), _flat(layout.stride), strict=True), key=lambda mode: mode[1]):
        if extent == 1:
            continue
        if stride != reach:
            return False
        reach *= extent
    return True


def stride_one_run(layout: LayoutText) -> int:
    """Length of the first contiguous run of the layout."""
    run = 1
    for extent, stride in zip(_flat(layout.shape), _flat(layout.stride), strict=True):
        if stride != run:
            break
        run *= extent
    return run


def atoms_per_mode(atoms_layout: LayoutText) -> tuple[int, int, int]:
    """Atoms along M, N and K."""
    m, n, k = (mode.size for mode in atoms_layout.modes)
    return m, n, k


def tiled_mma(spec: Spec, atom: Atom) -> TiledMma:
    """The TiledMMA of a spec without faults (see `faults`)."""
    atoms = atoms_per_mode(spec.atoms_layout)
    natural = (atom.m * atoms[0], atom.n * atoms[1], atom.k * atoms[2])
    m, n, k = (
        size if entry is None else entry if isinstance(entry, int) else entry.size
        for entry, size in zip(spec.permutation, natural, strict=True)
    )
    extent = (m, n, k)
    # CuTe composes with the modes as they are written, and fails to compile for modes that the fewest would do for.
    permutation = (_fewest_modes(spec.permutation[0]), _fewest_modes(spec.permutation[1]), _fewest_modes(spec.permutation[2]))
    return TiledMma(spec.atoms_layout, atoms, permutation, extent, atom.threads * spec.atoms_layout.size)


def _fewest_modes(entry: int | LayoutText | None) -> int | LayoutText | None:
    """The same permutation with the fewest modes; an extent where it changes nothing."""
    if not isinstance(entry, LayoutText):
        return entry
    modes = _coalesced(entry)
    if len(modes) <= 1:
        return entry.size
    return LayoutText(tuple(extent for extent, _ in modes), tuple(stride for _, stride in modes))


def numbering_faults(spec: Spec) -> Iterator[Fault]:
    """Fault for an atoms_layout that is not a bijection."""
    if not is_permutation(spec.atoms_layout):
        yield Fault(
            ("atoms_layout",),
            f"{spec.atoms_layout} is not a bijection onto atoms 0 .. {spec.atoms_layout.size - 1}",
            f"every thread must belong to one atom, e.g. {LayoutText.compact(spec.atoms_layout.shape)}",
            {("atoms_layout",): str(LayoutText.compact(spec.atoms_layout.shape))},
        )


def faults(spec: Spec, atom: Atom) -> Iterator[Fault]:
    """Faults of atoms_layout and permutation with this atom."""
    yield from numbering_faults(spec)
    atoms = atoms_per_mode(spec.atoms_layout)
    threads = atom.threads * spec.atoms_layout.size
    if threads > 1024:
        yield Fault(
            ("atoms_layout",),
            f"{spec.atoms_layout.size} atoms of {atom.threads} threads are {threads} threads",
            f"a CTA has at most 1024: at most {1024 // atom.threads} atoms",
            {("atoms_layout",): fewer_atoms(atoms, 1024 // atom.threads)},
        )
    if atom.threads == 8:
        yield from _quad_pair_faults(spec.atoms_layout, atom.name)
    natural = (atom.m * atoms[0], atom.n * atoms[1], atom.k * atoms[2])
    for i, (entry, least) in enumerate(zip(spec.permutation, natural, strict=True)):
        yield from _permutation_faults(i, entry, least)
        if isinstance(entry, LayoutText) and entry.size % least == 0:
            yield from _split_faults(i, entry, (least // atoms[i], atoms[i]), atoms_steps(spec.atoms_layout, i))


def _quad_pair_faults(layout: LayoutText, name: str) -> Iterator[Fault]:
    """Four quad pairs make a warp: CuTe numbers threads only if atoms come in blocks of four."""
    if layout.size % QUAD_PAIRS:
        yield Fault(
            ("atoms_layout",),
            f"{layout.size} quad pairs do not fill a warp",
            f"{name} runs on 8 threads and a warp has 32: make the number of atoms a multiple of 4, e.g. [2, 2, 1]",
            {("atoms_layout",): str(_in_fours(whole_warps(atoms_per_mode(layout), QUAD_PAIRS)))},
        )
    elif not nests(QUAD_PAIRS, tuple(zip(_flat(layout.shape), _flat(layout.stride), strict=True))):
        yield Fault(
            ("atoms_layout",),
            f"{layout} does not number the quad pairs of a warp one after another",
            f"{name} runs on 8 threads and a warp has 32: use {_in_fours(atoms_per_mode(layout))}",
            {("atoms_layout",): str(_in_fours(atoms_per_mode(layout)))},
        )


def _in_fours(counts: Sequence[int]) -> LayoutText:
    """A bijection with as many atoms along each mode whose first four atoms are a power of two along every mode."""
    first: list[int] = []
    for count in counts:
        first.append(math.gcd(count, QUAD_PAIRS // math.prod(first)))
    shapes: list[IntTuple] = []
    strides: list[IntTuple] = []
    inner, outer = 1, QUAD_PAIRS
    for count, low in zip(counts, first, strict=True):
        high = count // low
        modes = [(low, inner)] * (low > 1) + [(high, outer)] * (high > 1) or [(1, 0)]
        shapes.append(modes[0][0] if len(modes) == 1 else tuple(extent for extent, _ in modes))
        strides.append(modes[0][1] if len(modes) == 1 else tuple(stride for _, stride in modes))
        inner, outer = inner * low, outer * high
    return LayoutText(tuple(shapes), tuple(strides))


def _permutation_faults(i: int, entry: int | LayoutText | None, least: int) -> Iterator[Fault]:
    if entry is None:
        return
    extent = entry if isinstance(entry, int) else entry.size
    if extent % least:
        size = "is smaller than" if extent < least else "is not a multiple of"
        right = least * max(1, extent // least)
        yield Fault(
            ("permutation", i),
            f"{entry} {size} the {least} elements that the atoms cover along {MODES[i]}",
            f"atom x atoms_layout covers {least} along {MODES[i]}: {right}, another multiple, or null",
            {("permutation", i): right},
        )
    elif extent > LARGEST_EXTENT:
        yield Fault(
            ("permutation", i),
            f"{entry} makes the TiledMMA cover {extent} elements along {MODES[i]}",
            f"no CTA tile is that large; at most {LARGEST_EXTENT // least * least}",
            {("permutation", i): None},
        )
    if isinstance(entry, LayoutText) and not is_permutation(entry):
        yield Fault(
            ("permutation", i),
            f"{entry} is not a bijection onto 0 .. {entry.size - 1}",
            f"a permutation of {entry.size} elements, e.g. {LayoutText.compact(entry.shape)}",
            {("permutation", i): str(LayoutText.compact(entry.shape)) if extent % least == 0 else None},
        )


def atoms_steps(atoms_layout: LayoutText, i: int) -> list[int]:
    """Into which factors the threads divide the atoms along mode i, from the fastest: one, unless the mode is nested and threads
    go through it in another order."""
    return _coalesced_extents(atoms_layout.modes[i])


def _split_faults(i: int, entry: LayoutText, units: tuple[int, int], among: Sequence[int]) -> Iterator[Fault]:
    """A layout whose extents CuTe cannot split into atoms, and these among the threads. among: the factors of the second
    unit."""
    extents = _coalesced_extents(entry)
    for unit in (units[0], *among):
        left = unit
        while left > 1:
            extent = extents.pop(0)
            if extent % left == 0:
                extents.insert(0, extent // left)
            elif left % extent:
                yield Fault(
                    ("permutation", i),
                    f"{entry} cannot be split into atoms: its extent {extent} and {left} do not divide one another",
                    f"{units[1]} atoms of {units[0]} come first along {MODES[i]}: reorder the extents, or {entry.size}",
                    {("permutation", i): entry.size},
                )
                return
            left = left // extent if left % extent == 0 else 1


def _coalesced_extents(layout: LayoutText) -> list[int]:
    """Extents of the fewest modes that make the same layout."""
    return [extent for extent, _ in _coalesced(layout)]


def _coalesced(layout: LayoutText) -> list[tuple[int, int]]:
    """The fewest modes (extent, stride) that make the same layout."""
    modes: list[tuple[int, int]] = []
    for extent, stride in zip(_flat(layout.shape), _flat(layout.stride), strict=True):
        if extent == 1:
            continue
        if modes and stride == modes[-1][0] * modes[-1][1]:
            modes[-1] = (modes[-1][0] * extent, modes[-1][1])
        else:
            modes.append((extent, stride))
    return modes


def steps(mma: TiledMma, i: int, unit: int, extent: int) -> Steps:
    """(extent, stride) of the modes into which fragments divide `extent` elements of a CTA tile along mode i.

    These are the elements of an atom (`unit` of them), the atoms, their repeats within the TiledMMA, and its repeats.
    """
    entry, covered = mma.permutation[i], mma.extent[i]
    modes = _coalesced(entry) if isinstance(entry, LayoutText) else [(covered, 1)]
    divided: list[tuple[int, int]] = []
    for count in (unit, *atoms_steps(mma.atoms_layout, i)):
        while count > 1:
            size, stride = modes.pop(0)
            taken = min(size, count)
            divided.append((taken, stride))
            if size > taken:
                modes.insert(0, (size // taken, stride * taken))
            count //= taken
    return (*divided, *modes, (extent // covered, covered))


def nests(unit: int, divided: Steps) -> bool:
    """Can CuTe divide a mode whose elements come in blocks of `unit` into these steps? Each of them must stay within a block, or
    consist of whole blocks."""
    return all(
        size == 1 or stride % unit == 0 or (unit % stride == 0 and (size % (unit // stride) == 0 or unit // stride % size == 0))
        for size, stride in divided
    )


def extent_faults(mma: TiledMma, tile: Tile, vectors: Mapping[str, Sequence[tuple[str, str, int]]]) -> Iterator[Fault]:
    """Faults for tile extents that are not multiples of what the TiledMMA covers, too large, or not whole vectors.

    vectors: mode M, N or K -> (operand, type, elements of 16 bytes) of the operands that are contiguous along it and copied in
    vectors. Remedies satisfy all rules.
    """
    for i, (extent, unit) in enumerate(zip(tile, units(mma, vectors), strict=True)):
        mode, covered = MODES[i], mma.extent[i]
        whole = vectors.get(mode, ())
        nearest = _nearest(extent, unit)
        if extent > LARGEST_EXTENT:
            most = LARGEST_EXTENT // unit * unit
            yield Fault(
                ("tile", i), f"{extent} along {mode} exceeds what any CTA can hold", f"at most {most}", {("tile", i): most}
            )
        elif extent % covered:
            yield Fault(
                ("tile", i),
                f"{extent} is not a multiple of the {covered} that the TiledMMA covers along {mode}",
                f"atom x atoms_layout x permutation covers {mma.extent}: the nearest legal is {' or '.join(map(str, nearest))}",
                {("tile", i): nearest[0]},
            )
        else:
            for letter, word, elements in whole:
                if extent % elements:
                    yield Fault(
                        ("tile", i),
                        f"{extent} {word} of {letter} are not a whole number of 16-byte vectors",
                        f"{letter} is {mode} contiguous, and the TiledMMA covers {covered}: the nearest legal is "
                        f"{' or '.join(map(str, nearest))}",
                        {("tile", i): nearest[0]},
                    )


def units(mma: TiledMma, vectors: Mapping[str, Sequence[tuple[str, str, int]]]) -> Tile:
    """What the extents of a tile are multiples of. vectors: as of `extent_faults`."""
    m, n, k = (
        math.lcm(covered, *(elements for _, _, elements in vectors.get(mode, ())))
        for mode, covered in zip(MODES, mma.extent, strict=True)
    )
    return m, n, k


def _nearest(extent: int, unit: int) -> list[int]:
    """The nearest multiples of `unit` below and above `extent`."""
    return sorted({max(n, 1) * unit for n in (extent // unit, extent // unit + 1)})


def smaller(tile: Tile, units: Tile, fits: Callable[[Tile], bool]) -> Change:
    """The largest tile that fits, of multiples of `units` made by halving extents; else the smallest, not permuted and with
    the CTA alone on its SM."""
    m, n, k = (_halved(min(extent, max(unit, _MOST_TRIED)), unit) for extent, unit in zip(tile, units, strict=True))
    tiles = sorted(product(m, n, k), key=lambda one: (-one[0] * one[1], -one[2], abs(one[0] - one[1])))
    found = next((one for one in tiles if fits(one)), None)
    return {("tile",): list(found)} if found else {("tile",): list(units), ("permutation",): ABSENT, ("ctas_per_sm",): ABSENT}


def _halved(extent: int, unit: int) -> list[int]:
    """extent, then half and so on, each rounded down to a multiple of unit."""
    found = []
    while extent >= unit:
        found.append(extent // unit * unit)
        extent //= 2
    return found or [unit]


def fewer_atoms(atoms: Tile, most: int) -> list[int]:
    """At most so many atoms: the largest extents halved."""
    counts = list(atoms)
    while math.prod(counts) > most:
        largest = counts.index(max(counts))
        counts[largest] = (counts[largest] + 1) // 2
    return counts


def whole_warps(atoms: Tile, unit: int) -> list[int]:
    """As many atoms along N and K, and more along M, so that their number is a multiple of `unit`."""
    m, n, k = atoms
    step = unit // math.gcd(n * k, unit)
    return [-(-m // step) * step, n, k]
