"""Rules of wgmma kernels of sm_90a that depend on the tile: its extents, what a warp stores, and budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from mmagen.families.wgmma import decisions, mixed_rules, scaling
from mmagen.families.wgmma.breach import POWERS, Breach, clusters
from mmagen.families.wgmma.changes import Change
from mmagen.families.wgmma.tiles import smaller_tiles
from mmagen.mma.atoms import Atom
from mmagen.plan import budgets, tiling
from mmagen.plan import rules as shared
from mmagen.plan.model import TiledMma
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.plan.operations import halves_columns
from mmagen.spec.model import Spec
from mmagen.spec.scale import BLOCK


def breaches_of_tile(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> list[Breach]:
    """The rules that depend on the tile, of a tile that the TiledMMA divides."""
    return [
        *_shares(spec, tile),
        *_depth(atom, tile),
        *_slice(spec, atom, mma, tile),
        *_split_slices(spec, atom, mma, tile),
        *_promoted(spec, tile),
        *_scaled(spec, tile),
        *mixed_rules.tile_breaches(spec, atom, mma, tile),
        *_threads(spec, mma),
        *_registers(spec, atom, mma, tile),
        *_smem(spec, atom, mma, tile),
    ]


def extents(mma: TiledMma, tile: decisions.Tile) -> Iterator[Breach]:
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
                clusters(spec),
            )


def _depth(atom: Atom, tile: decisions.Tile) -> Iterator[Breach]:
    if atom.depths and tile[2] not in atom.depths:
        near = sorted(atom.depths, key=lambda k: abs(k - tile[2]))
        yield Breach(
            ("tile", 2),
            f"{tile[2]} columns are not what whole blocks of metadata describe",
            f"one of {', '.join(map(str, atom.depths))}",
            ({"tile": (tile[0], tile[1], k)} for k in near),
        )


def _slice(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> Iterator[Breach]:
    out, columns, least = shared.out_type(spec, atom), decisions.slice_n(spec, atom, mma, tile), VECTOR_BYTES
    other = "N" if decisions.swapped(spec) else "M"  # as the spec has it
    columns //= 2 if halves_columns(spec.epilogue) else 1
    if spec.epilogue.major == "N" and columns * out.bytes < least:
        yield Breach(
            ("epilogue",),
            f"a warpgroup stores {columns} {out.word} of a row of D, which are {columns * out.bytes} B, and TMA "
            f"stores at least {least}",
            f"an atom whose N is a multiple of {least // out.bytes}, a wider epilogue.out, or epilogue.major {other}",
            ({"epilogue": spec.epilogue.without_out()},),
        )


def _split_slices(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> Iterator[Breach]:
    split = decisions.split_k(spec)
    slices = decisions.atoms_of_a_warpgroup(mma, tile) * atom.n // decisions.slice_n(spec, atom, mma, tile)
    fewer = [{"split_k": power} for power in reversed(POWERS) if power < split]
    if slices % split:
        yield Breach(
            ("split_k",),
            f"{split} CTAs cannot share equally the {slices} slices of D that a warpgroup stores",
            f"a divisor of {slices}",
            fewer,
        )
        return
    a, b = (decisions.operand(letter, spec, atom, tile) for letter in "AB")
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


def _scaled(spec: Spec, tile: decisions.Tile) -> Iterator[Breach]:
    if scaling.along_k(spec) and BLOCK % tile[2]:
        divisors = sorted((k for k in (32, 64, BLOCK)), key=lambda k: (abs(k - tile[2]), -k))
        yield Breach(
            ("tile", 2),
            f"a k tile of {tile[2]} does not lie in one block of {BLOCK} of K, which has a scale of its own",
            f"a divisor of {BLOCK}",
            [{"tile": (tile[0], tile[1], k)} for k in divisors],
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
    _, moved, usable = decisions.role_registers(spec, mma)
    besides = decisions.registers_besides(spec, atom, mma, tile)
    of_wgmma, at_launch = decisions.wgmma_registers(atom), decisions.launch_registers(spec, mma)
    if moved and of_wgmma > at_launch:
        remedy = "an atom with a smaller N, or fewer warpgroups"
        what = (
            f"one {atom.m}x{atom.n}x{atom.k} wgmma needs {of_wgmma} registers per thread at launch, before setmaxnreg, but the "
            f"{decisions.threads(spec, mma) * (spec.ctas_per_sm or 1)} threads of an SM have {at_launch} each"
        )
    else:
        remedy = "make M x N smaller, or spread it over more warpgroups"
        what = (
            f"{accumulators} registers per thread for accumulators"
            + (" and their partial sums" if decisions.promoted(spec) or spec.weights else "")
            + (f", {fragments} for {atom.in_registers_of_a}" if fragments else "")
            + f" and about {besides} for the rest exceed the {usable} of a thread in a consumer warpgroup"
        )
    if fit(spec.model_copy(update={"ctas_per_sm": 1})):
        yield Breach(("ctas_per_sm",), what, "lower ctas_per_sm", _fewer_ctas(spec, fit))
    else:
        yield Breach(("tile",), what, remedy, smaller_tiles(spec, atom, mma, tile))


def _smem(spec: Spec, atom: Atom, mma: TiledMma, tile: decisions.Tile) -> Iterator[Breach]:
    a, b = (decisions.operand(letter, spec, atom, tile) for letter in "AB")
    staged = decisions.epilogue(spec, atom, mma, tile)
    most, each = decisions.most_stages(spec, mma, a, b, staged), decisions.smem_share(spec)

    def two_stages_fit(changed: Spec) -> bool:
        return decisions.most_stages(changed, mma, a, b, decisions.epilogue(changed, atom, mma, tile)) >= 2

    has = f"the maximum per CTA is {each:,} B" + (
        f" with {spec.ctas_per_sm} CTAs per SM" if (spec.ctas_per_sm or 1) > 1 else ""
    )
    if most < 2:
        yield Breach(
            ("tile",),
            f"two stages of this tile and the epilogue need {decisions.smem_bytes(spec, mma, 2, a, b, staged):,} B of shared "
            f"memory, {has}",
            "make the tile smaller" + (", or lower ctas_per_sm" if spec.ctas_per_sm else ""),
            chain(
                smaller_tiles(spec, atom, mma, tile),
                _fewer_ctas(spec, two_stages_fit),
            ),
        )
    elif spec.stages and spec.stages > most:
        # One buffer of the epilogue in place of two may leave room for more.
        staged = decisions.epilogue(spec.model_copy(update={"stages": most + 1}), atom, mma, tile)
        most = max(most, decisions.most_stages(spec, mma, a, b, staged))
        need = f"{spec.stages} need {decisions.smem_bytes(spec, mma, spec.stages, a, b, staged):,} B of shared memory, {has}"
        if decisions.smem_bytes(spec, mma, spec.stages, a, b, staged) <= each:
            need = f"{spec.stages} need two mbarriers each, and there is room for those of {most}"
        yield Breach(("stages",), need, f"at most {most}", ({"stages": most},))
