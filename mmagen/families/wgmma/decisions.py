"""Decisions for wgmma kernels of sm_90a: roles of warpgroups, registers, TMA boxes, shared memory, the epilogue's slice.

Every function is a small rule of its own, defined for illegal specs too, so that `rules` can ask the same ones.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from mmagen.families.wgmma import mixed, pieces, scaling
from mmagen.mma.atoms import Atom
from mmagen.mma.sparse_atoms import SparseAtom
from mmagen.plan import budgets, rules
from mmagen.plan.model import MOST_BOX_LINES, Epilogue, Operand, SmemCopy, Swizzle, TiledMma, Tma
from mmagen.plan.operands import VECTOR_BYTES, power_of_two_divisor
from mmagen.plan.operations import columns_of_element, halves_columns, operations
from mmagen.spec.model import Layout, Spec

ARCH = ("sm_90a",)  # the only one that has wgmma
WARPGROUP = 128
EPILOGUE_BUFFERS = 2  # of a warpgroup
FEWEST_BUFFERS = 1  # where more stages fit then, and are wanted
SHORT_K = 1.5  # k tiles for each stage, up to which a second buffer gains more than the stages in whose place it is
EPILOGUE_ROWS = 64  # of a wgmma, which one warpgroup holds
SMEM_ALIGNMENT = 1024  # TMA's widest swizzle counts address bits up to there
BARRIER_BYTES = 1024
MOST_DEFAULT_STAGES = 12
SWIZZLE_LINES = 8  # after which every swizzle repeats
# setmaxnreg; a thread that keeps this many would gain nothing by taking more.
MOST_REGISTERS = 240
ENOUGH_REGISTERS = 232
# Addresses, descriptors, loop state and the epilogue's temporaries: an estimate, on the low side of what ptxas needs.
REGISTERS_BESIDES = 30
# The same where accumulators and REGISTERS_OF_WGMMA exceed the registers at launch. Of the 232 registers of a consumer, 192
# accumulators leave 40: with nvcc 13.0 kernels spill little, and more than a kilobyte with 200 accumulators.
REGISTERS_BESIDES_MANY = 40
# What ptxas wants at launch beside the sums of one wgmma (seen with nvcc 13.0: 128 sums, "154 or higher").
REGISTERS_OF_WGMMA = 26
MOST_CLUSTER_CTAS = 16  # of sm_90; more than 8 need cudaFuncAttributeNonPortableClusterSizeAllowed
CLUSTER_SPLITS = (2, 4, 8)  # into which the CTAs of a cluster can split K
MOST_PROMOTED_K = 128  # elements of K whose sum `accumulation: precise` leaves to the tensor core

_HINTS = {"normal": "kNormal", "evict_first": "kEvictFirst", "evict_last": "kEvictLast"}  # mmagen::CacheHint

Tile = tuple[int, int, int]


def swapped(spec: Spec) -> bool:
    """Does the kernel compute the transpose of D?"""
    return spec.operands == "swapped"


def as_computed(spec: Spec) -> Spec:
    """The spec of the product that the kernel computes: with swapped operands that of the transposes, B times A; of pieces."""
    spec = pieces.as_computed(spec)
    if not swapped(spec):
        return spec
    layout = Layout(a="K" if spec.layout.b_major == "K" else "M", b="K" if spec.layout.a_major == "K" else "N")
    cache = spec.cache and spec.cache.model_copy(update={"a": spec.cache.b, "b": spec.cache.a})
    epilogue = spec.epilogue.model_copy(update={"major": "M" if spec.epilogue.major == "N" else "N"})
    scale = spec.scale and spec.scale.mirrored
    return spec.model_copy(update={"layout": layout, "cache": cache, "epilogue": epilogue, "scale": scale})


# --- Roles of warpgroups ---------------------------------------------------------------------------------------------


def schedule(spec: Spec, mma: TiledMma) -> str:
    """The spec's schedule, or the default for the number of warpgroups along M. Scales that change along K take a warp of the
    producer, and groups need a persistent schedule."""
    warp_specialized = mma.atoms[0] >= 2 or scaling.along_k(spec) or spec.grouped or spec.weights
    return spec.schedule or ("cooperative" if warp_specialized else "warpgroup")


def consumers(spec: Spec, mma: TiledMma) -> int:
    """Consumer warpgroups: those of the TiledMMA, as often as there are parts of K, or with pingpong the spec's."""
    return (spec.warpgroups or 2) if spec.schedule == "pingpong" else mma.threads // WARPGROUP * mixed.parts(spec, mma)


def storing(spec: Spec, mma: TiledMma) -> int:
    """Consumer warpgroups that store: of several parts of K, those of the first, which has the sums of all."""
    return consumers(spec, mma) // mixed.parts(spec, mma)


def threads(spec: Spec, mma: TiledMma) -> int:
    """Of a CTA, the producer's warpgroup included."""
    loads = 0 if schedule(spec, mma) == "warpgroup" else 1
    return WARPGROUP * (consumers(spec, mma) + loads)


def cluster(spec: Spec) -> tuple[int, int]:
    """CTAs along M and N that share operands."""
    return spec.cluster or (1, 1)


def split_k(spec: Spec) -> int:
    """CTAs of a cluster that split the K of a tile."""
    return 1 if workspace_splits(spec) is not None else int(spec.split_k or 1)


def workspace_splits(spec: Spec) -> int | None:
    """Parts of K whose sums are added through a workspace, 0 for as many as fit the problem. None: K is not split, or by the
    CTAs of a cluster, which is faster where so many fit one."""
    if spec.split_k == "auto":
        return 0
    m, n = cluster(spec)
    count = spec.split_k or 1
    return None if count == 1 or (count in CLUSTER_SPLITS and m * n * count <= MOST_CLUSTER_CTAS) else count


def persistent(spec: Spec, mma: TiledMma) -> bool:
    """Does a CTA compute several tiles? Then the stores of one overlap the loads of the next."""
    return schedule(spec, mma) != "warpgroup" and split_k(spec) == 1


def stream_k(spec: Spec) -> str:
    """Which last waves all CTAs share: "never", "last_wave" (less than two thirds full) or "always" (any partial one)."""
    return spec.stream_k or "never"


def precise(spec: Spec) -> bool:
    """Are the sums of whole k tiles added to accumulators of the same size in f32 registers?"""
    default = "precise" if spec.split else "fast"
    return (spec.accumulation or default) == "precise" and not scaling.along_k(spec)


def promoted(spec: Spec) -> bool:
    """Does the tensor core sum one k tile at a time?"""
    return precise(spec) or scaling.along_k(spec)


def partial_registers(spec: Spec, atom: Atom, mma: TiledMma, tile: Tile) -> int:
    """Registers per thread for sums of a k tile that are still to be added up: of a unit, which is 64 rows by the atom's columns.
    Sparse wgmmas, and those of converted weights, are issued for a whole tile."""
    if not promoted(spec) and not spec.weights:
        return 0
    whole = isinstance(atom, SparseAtom) or spec.weights
    return tile[0] * tile[1] // mma.threads if whole else atom.m * atom.n // WARPGROUP


# --- Registers -------------------------------------------------------------------------------------------------------


def role_registers(spec: Spec, mma: TiledMma) -> tuple[int, int, int]:
    """(per producer thread, per consumer thread, usable by a consumer). The first two are 0 without setmaxnreg."""
    count, ctas, each = threads(spec, mma), spec.ctas_per_sm or 1, launch_registers(spec, mma)
    if schedule(spec, mma) == "warpgroup" or each >= ENOUGH_REGISTERS:
        most = budgets.REGISTERS_PER_SM // ctas // count // 8 * 8
        return 0, 0, min(most, budgets.REGISTERS_PER_THREAD)
    readers = consumers(spec, mma)
    producer = mixed.PRODUCER_REGISTERS if spec.weights else 40 if readers <= 2 else 32
    consumer = min(MOST_REGISTERS, (each * count - WARPGROUP * producer) // (WARPGROUP * readers) // 8 * 8)
    return producer, consumer, consumer


def launch_registers(spec: Spec, mma: TiledMma) -> int:
    """Per thread at launch, before setmaxnreg; wgmma_registers must fit, or ptxas fails (C7602)."""
    each = budgets.REGISTERS_PER_SM // (spec.ctas_per_sm or 1) // threads(spec, mma)
    return min(each, budgets.REGISTERS_PER_THREAD) // 8 * 8


def registers(spec: Spec, atom: Atom, mma: TiledMma, tile: Tile) -> tuple[int, int]:
    """32-bit registers per thread for accumulators, partial sums included, and for fragments of A or its metadata."""
    sums = tile[0] * tile[1] * atom.type_d.bits // 32 // mma.threads
    sums += partial_registers(spec, atom, mma, tile)
    rows = tile[0] // mma.atoms[0]
    return sums, mixed.fragment_registers(spec, atom, rows) if spec.weights else atom.registers_of_a(rows, tile[2])


def registers_fit(spec: Spec, atom: Atom, mma: TiledMma, tile: Tile) -> bool:
    """Do the accumulators fit a consumer's registers, and one wgmma the registers at launch?"""
    accumulators, fragments = registers(spec, atom, mma, tile)
    needed = accumulators + fragments + registers_besides(spec, atom, mma, tile)
    return needed <= role_registers(spec, mma)[2] and wgmma_registers(atom) <= launch_registers(spec, mma)


def registers_besides(spec: Spec, atom: Atom, mma: TiledMma, tile: Tile) -> int:
    """About how many registers a thread needs beside accumulators and fragments."""
    sums = partial_registers(spec, atom, mma, tile) or registers(spec, atom, mma, tile)[0]
    return REGISTERS_BESIDES if sums + REGISTERS_OF_WGMMA <= launch_registers(spec, mma) else REGISTERS_BESIDES_MANY


def wgmma_registers(atom: Atom) -> int:
    """Registers per thread that ptxas requires at launch for one wgmma; setmaxnreg can add those for further accumulators."""
    return atom.m * atom.n * atom.type_d.bits // 32 // WARPGROUP + REGISTERS_OF_WGMMA


# --- Operands --------------------------------------------------------------------------------------------------------


def share(letter: str, spec: Spec) -> int:
    """CTAs of a cluster that need the same tile of A (those of a row) or B (those of a column)."""
    return cluster(spec)["BA".index(letter)]


def operand(letter: str, spec: Spec, atom: Atom, tile: Tile) -> Operand:
    """The plan of A or B: panels as wide as the swizzle, in boxes divided among the CTAs that share the tile."""
    mode = "AB".index(letter)
    element = (atom.type_a, atom.type_b)[mode]
    major = atom.stored_major(letter, (spec.layout.a_major, spec.layout.b_major)[mode])
    group, kept = atom.stored(letter)
    converted = letter == "A" and spec.weights is not None
    if converted:
        element, group, kept = mixed.stored(spec)
    if spec.split:
        group, kept = pieces.stored(spec.split, tile[2])
    contiguous_k, extent_k = major == "K", tile[2] // group * kept
    along, across = (extent_k, tile[mode]) if contiguous_k else (tile[mode], extent_k)
    # A wgmma reads whole lines: across K a line must not reach into the next atom.
    whole = along if contiguous_k else (atom.m, atom.n)[mode]
    swizzle_bytes = power_of_two_divisor(whole * element.bytes, 128)
    line = swizzle_bytes // element.bytes
    lines = max(across // share(letter, spec), 1)
    box = max((n for n in range(SWIZZLE_LINES, min(lines, MOST_BOX_LINES) + 1, SWIZZLE_LINES) if lines % n == 0), default=lines)
    return Operand(
        letter=letter,
        element=element,
        major=major,
        extent_mn=tile[mode],
        extent_k=extent_k,
        swizzle=Swizzle(swizzle_bytes.bit_length() - 5, 5 - element.bytes.bit_length(), 3),
        line=line,
        lines=SWIZZLE_LINES,
        copy_wide=None,
        copy_narrow=None,
        smem_copy=None if converted else _smem_copy(letter, atom, contiguous_k),
        bytes_per_stage=tile[mode] * extent_k * element.bytes + atom.metadata_bytes(letter, tile[mode], tile[2]),
        tma=Tma(swizzle_bytes, along // line, box, lines // box, _HINTS[getattr(spec.cache, letter.lower(), "normal")]),
        group=group,
        kept=kept,
    )


def _smem_copy(letter: str, atom: Atom, contiguous_k: bool) -> SmemCopy | None:
    """ldmatrix for an A in registers: 16 rows x 32 bytes per warp are four matrices."""
    if letter == "B" or not atom.a_in_registers:
        return None
    return SmemCopy(matrices=4, transposed=not contiguous_k)


# --- Epilogue --------------------------------------------------------------------------------------------------------


def atoms_of_a_warpgroup(mma: TiledMma, tile: Tile) -> int:
    """wgmmas along M and N that a warpgroup does for one k block of a CTA tile."""
    return (tile[0] // mma.extent[0]) * (tile[1] // mma.extent[1])


def slice_n(spec: Spec, atom: Atom, mma: TiledMma, tile: Tile) -> int:
    """Columns of D that a warpgroup stages at a time: at most a line of 128 bytes, and equal shares for CTAs that split K."""
    out, repeats = rules.out_type(spec, atom), atoms_of_a_warpgroup(mma, tile)
    pair = 2 if halves_columns(spec.epilogue) else 1
    columns = power_of_two_divisor(atom.n, pair * 128 // out.bytes if spec.epilogue.major == "N" else 64)
    while columns > 8 and repeats * (atom.n // columns) % split_k(spec):
        columns //= 2
    return columns


def epilogue(spec: Spec, atom: Atom, mma: TiledMma, tile: Tile) -> Epilogue:
    """Slices stored by TMA, two buffers per storing warpgroup. One buffer if the spec's stages, or two, fit only then, or if
    several parts of K share a tile of which a storing warpgroup has a single slice: the memory is then used for stages."""
    two, one = (_epilogue(spec, atom, mma, tile, buffers) for buffers in (EPILOGUE_BUFFERS, FEWEST_BUFFERS))
    a, b = (operand(letter, spec, atom, tile) for letter in "AB")

    def suffices(staged: Epilogue) -> bool:
        return most_stages(spec, mma, a, b, staged) >= (spec.stages or 2)

    single_slice = atoms_of_a_warpgroup(mma, tile) * (atom.n // one.slice) == 1
    if mixed.parts(spec, mma) > 1 and single_slice and suffices(one):
        return one
    return two if suffices(two) or not suffices(one) else one


def epilogue_of_widths(
    spec: Spec, atom: Atom, mma: TiledMma, tile: Tile, a: Operand, b: Operand, widths: Collection[int]
) -> Epilogue:
    """Of a kernel whose launches compute one of `widths` columns of a tile. There is room for one buffer of each warpgroup if a
    launch then has more stages; each call decides whether it has the second buffer or these stages (sm90_stages.cuh). With the
    spec's number of stages, there is one only if they do not fit beside two."""
    two, one = (_epilogue(spec, atom, mma, tile, buffers) for buffers in (EPILOGUE_BUFFERS, FEWEST_BUFFERS))
    if spec.stages:
        return two if most_stages(spec, mma, a, b, two) >= spec.stages else one
    one = replace(one, most_buffers=EPILOGUE_BUFFERS)

    def stages_of(staged: Epilogue) -> list[int]:
        ring = ring_bytes(spec, mma, a, b, staged)
        return [ring_stages(spec, mma, a, b, staged, ring, width) for width in widths]

    return two if most_stages(spec, mma, a, b, two) >= 2 and stages_of(one) == stages_of(two) else one


def _epilogue(spec: Spec, atom: Atom, mma: TiledMma, tile: Tile, buffers: int) -> Epilogue:
    out, columns = rules.out_type(spec, atom), slice_n(spec, atom, mma, tile)
    scalar = budgets.scalar_type(atom, out)
    found = operations(spec.epilogue, out, scalar)
    slice_bytes = EPILOGUE_ROWS * columns // columns_of_element(found) * out.bytes
    smem_bytes = storing(spec, mma) * buffers * slice_bytes
    vector = VECTOR_BYTES // out.bytes
    return Epilogue(out, spec.epilogue.major, scalar, columns, 0, vector, smem_bytes, buffers, buffers, found)


# --- Shared memory ---------------------------------------------------------------------------------------------------


def _align(size: int) -> int:
    return -(-size // SMEM_ALIGNMENT) * SMEM_ALIGNMENT


def smem_bytes(spec: Spec, mma: TiledMma, stages: int, a: Operand, b: Operand, staged: Epilogue) -> int:
    """Bytes per CTA: stages of A and B, sums of parts of K, epilogue slices, barriers, scales of the stages."""
    operands = _align(stages * a.bytes_per_stage) + _align(stages * b.bytes_per_stage)
    operands += _align(mixed.part_bytes(spec, mma, (a.extent_mn, b.extent_mn, a.extent_k)))
    return operands + _align(staged.smem_bytes) + _pipeline_bytes(spec, mma, stages, a, b, staged)


def _barriers_beside_stages(spec: Spec, mma: TiledMma, staged: Epilogue) -> int:
    """One for the turn of each consumer, and one for each epilogue buffer of a storing warpgroup, into which C is loaded."""
    return consumers(spec, mma) + storing(spec, mma) * staged.most_buffers


def _pipeline_bytes(spec: Spec, mma: TiledMma, stages: int, a: Operand, b: Operand, staged: Epilogue) -> int:
    """Barriers and, where they change along K, scales (Sm90ScaledPipeline)."""
    scales = stages * scaling.bytes_of_stage(spec, (a.extent_mn, b.extent_mn, a.extent_k))
    if not scales:
        return BARRIER_BYTES
    barriers = 8 * (2 * stages + _barriers_beside_stages(spec, mma, staged))
    return _align(barriers + -(-scales // 16) * 16)


def smem_share(spec: Spec) -> int:
    """Maximum bytes for each of ctas_per_sm CTAs."""
    reserved = budgets.reserved_smem(ARCH)
    return (budgets.smem_limit(ARCH) + reserved) // (spec.ctas_per_sm or 1) - reserved


def barrier_stages(spec: Spec, mma: TiledMma, staged: Epilogue) -> int:
    """Stages whose mbarriers fit BARRIER_BYTES: a full and an empty one for each."""
    return (BARRIER_BYTES // 8 - _barriers_beside_stages(spec, mma, staged)) // 2


def most_stages(spec: Spec, mma: TiledMma, a: Operand, b: Operand, staged: Epilogue) -> int:
    """Maximum number of stages, by bytes and by barriers; 0 if none fits."""
    each = smem_share(spec)
    fit = (each - smem_bytes(spec, mma, 0, a, b, staged)) // (a.bytes_per_stage + b.bytes_per_stage)
    return next(
        (
            n
            for n in range(min(fit, barrier_stages(spec, mma, staged)), 0, -1)
            if smem_bytes(spec, mma, n, a, b, staged) <= each
        ),
        0,
    )


def stages(spec: Spec, mma: TiledMma, a: Operand, b: Operand, staged: Epilogue) -> int:
    """The spec's stages, or as many as fit, up to the number beyond which latency is hidden; parts of K have equally many."""
    most = mixed.MOST_DEFAULT_STAGES if spec.weights else MOST_DEFAULT_STAGES
    fit, parts = min(most_stages(spec, mma, a, b, staged), most), mixed.parts(spec, mma)
    return spec.stages or (fit // parts * parts if fit > parts else fit)


def ring_bytes(spec: Spec, mma: TiledMma, a: Operand, b: Operand, staged: Epilogue) -> int:
    """Bytes of shared memory that launches of a kernel of several widths divide into stages: room for the spec's number of
    whole-tile stages, or all that the rest of the kernel leaves, up to the number beyond which latency is hidden."""
    whole = a.bytes_per_stage + b.bytes_per_stage
    left = (smem_share(spec) - smem_bytes(spec, mma, 0, a, b, staged)) // SMEM_ALIGNMENT * SMEM_ALIGNMENT
    return _align(spec.stages * whole) if spec.stages else min(left, _align(MOST_DEFAULT_STAGES * whole))


def ring_stages(spec: Spec, mma: TiledMma, a: Operand, b: Operand, staged: Epilogue, ring: int, columns: int) -> int:
    """Stages in `ring` bytes of a launch that computes `columns` columns of a tile. If a stage of B has several panels, its size
    does not depend on `columns`."""
    lines = columns if b.tma and b.tma.panels == 1 else b.extent_mn
    each = a.bytes_per_stage + b.bytes_per_stage * lines // b.extent_mn
    most = min(barrier_stages(spec, mma, staged), max(spec.stages or 0, MOST_DEFAULT_STAGES))
    return min(ring // each, most)


def stages_and_buffers(
    spec: Spec, mma: TiledMma, a: Operand, b: Operand, staged: Epilogue, ring: int, columns: int, k_tiles: int
) -> tuple[int, int]:
    """Of a launch that computes `columns` columns of a tile, as Sm90Stages::launched in sm90_stages.cuh has them: the second buffer
    of each warpgroup is taken from `ring` if that leaves as many stages, or if K is short."""
    most = ring_stages(spec, mma, a, b, staged, ring, columns)
    if staged.buffers == staged.most_buffers:
        return most, staged.buffers
    beside_two = ring_stages(spec, mma, a, b, staged, ring - staged.smem_bytes, columns)
    if beside_two == most or (beside_two >= 2 and k_tiles <= most_k_tiles_of_two_buffers(most)):
        return beside_two, staged.most_buffers
    return most, staged.buffers


def most_k_tiles_of_two_buffers(stages: int) -> int:
    """Most k tiles of a tile of D for which a launch takes a second buffer in place of some of its `stages`."""
    return int(SHORT_K * stages)
