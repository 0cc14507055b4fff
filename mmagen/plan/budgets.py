"""Budgets: shared memory and registers, and how many stages fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mmagen.core.errors import ABSENT, Fault
from mmagen.core.targets import capability
from mmagen.mma.atoms import TYPES, Atom, ElementType
from mmagen.plan.model import Epilogue, Operand, TiledMma
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.plan.operations import columns_of_element, operations
from mmagen.spec.model import Spec

# The oldest architecture that nvcc 13 compiles for; older atoms run on it through their PTX.
OLDEST_ARCH = 75
# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": maximum shared memory per block,
# and per SM (which reserves 1 KiB for each resident block), in bytes.
SMEM_PER_BLOCK = {
    60: 49152,
    61: 49152,
    62: 49152,
    70: 98304,
    72: 98304,
    75: 65536,
    80: 166912,
    86: 101376,
    87: 166912,
    88: 101376,
    89: 101376,
    90: 232448,
    100: 232448,
    101: 232448,
    103: 232448,
    110: 232448,
    120: 101376,
    121: 101376,
}
# Maximum resident threads per SM, by the same table; 2048 if not listed.
THREADS_PER_SM = {75: 1024, 86: 1536, 87: 1536, 88: 1536, 89: 1536, 110: 1536, 120: 1536, 121: 1536}
# Maximum resident blocks per SM, by the same table and by cuda_occupancy.h; 32 if not listed.
CTAS_PER_SM = {75: 16, 86: 16, 87: 16, 88: 16, 89: 24, 101: 24, 110: 24, 120: 24, 121: 24}
REGISTERS_PER_SM = 65536
REGISTERS_PER_THREAD = 255
# Registers for addresses, loop state and predicates of the mainloop: a low estimate of what ptxas needs.
REGISTERS_BESIDES = 22
ALIGNMENT = 128
MOST_DEFAULT_STAGES = 4
RASTER_GROUP = 8  # default number of tile rows in a band


def smem_limit(arch: tuple[str, ...]) -> int:
    """Shared memory that a CTA may use on every architecture of the list, in bytes."""
    return min(SMEM_PER_BLOCK[capability(a)] for a in arch)


def align(size: int) -> int:
    """Round up to the alignment of shared-memory members."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def epilogue(spec: Spec, atom: Atom, mma: TiledMma, tile: tuple[int, int, int]) -> Epilogue:
    """Slices as large as the TiledMMA covers; rows padded by 8 elements, which maps the 8 rows of a fragment to distinct
    banks, of complex elements by one, which 16 bytes of two rows need."""
    out = TYPES[spec.epilogue.out] if spec.epilogue.out else atom.type_d
    row_major, scalar = spec.epilogue.major == "N", scalar_type(atom, out)
    found = operations(spec.epilogue, out, scalar)
    along, piece = (tile[1], mma.extent[0]) if row_major else (tile[0], mma.extent[1])
    pad = 8 if atom.type_d.parts == 1 else 1
    vector = VECTOR_BYTES // out.bytes
    while along // columns_of_element(found) % vector:
        vector //= 2
    smem_bytes = align(piece * (along + pad) * atom.type_d.bytes)
    return Epilogue(out, spec.epilogue.major, scalar, piece, pad, vector, smem_bytes, operations=found)


def scalar_type(atom: Atom, out: ElementType) -> ElementType:
    """The type of alpha, beta and the epilogue's arithmetic: s32 if accumulators and D are s32, else floating point."""
    if atom.type_d.word == "s32" and out.word == "s32":
        return TYPES["s32"]
    return TYPES["f64"] if atom.type_d.word in ("f64", "c64") else TYPES["f32"]


@dataclass(frozen=True)
class Smem:
    """Stages and bytes of shared memory of one CTA."""

    stages: int
    bytes: int


def reserved_smem(arch: tuple[str, ...]) -> int:
    """Bytes that an SM reserves per resident CTA, which is also its shared memory beyond the maximum per CTA; sm_80 and
    later."""
    return 1024 if all(capability(a) >= 80 for a in arch) else 0


def ctas_that_fit(arch: tuple[str, ...], smem_bytes: int, threads: int) -> int:
    """CTAs that fit on an SM by shared memory, threads and their number; registers are not considered."""
    reserved = reserved_smem(arch)
    by_smem = (smem_limit(arch) + reserved) // (smem_bytes + reserved)
    return min(resident_threads(arch) // threads, resident_ctas(arch), by_smem)


def resident_threads(arch: tuple[str, ...]) -> int:
    """Threads that an SM holds on every architecture of the list."""
    return min(THREADS_PER_SM.get(capability(name), 2048) for name in arch)


def resident_ctas(arch: tuple[str, ...]) -> int:
    """CTAs that an SM holds on every architecture of the list, however small they are."""
    return min(CTAS_PER_SM.get(capability(name), 32) for name in arch)


def gemm_smem(
    spec: Spec, a: Operand, b: Operand, staged: Epilogue, arch: tuple[str, ...], cp_async: bool
) -> tuple[Smem, list[Fault]]:
    """The requested stages, or as many as fit (at most 4; ctas_per_sm CTAs share the SM), and their faults."""
    limit, reserved = smem_limit(arch), reserved_smem(arch)
    per_stage = a.bytes_per_stage + b.bytes_per_stage
    faults: list[Fault] = []

    def operands(stages: int) -> int:
        return align(stages * a.bytes_per_stage) + align(stages * b.bytes_per_stage)

    each = limit if spec.ctas_per_sm in (None, 1) else (limit + reserved) // spec.ctas_per_sm - reserved
    most = max((n for n in range(1, each // per_stage + 1) if operands(n) <= each), default=0)
    if not cp_async and spec.stages not in (None, 2):
        faults.append(
            Fault(
                ("stages",),
                f"{spec.stages} stages require cp.async, which needs sm_80 or later",
                "before sm_80 copies go through registers into two stages: 2, or omit it",
                {("stages",): 2},
            )
        )
    stages = spec.stages or (min(most, MOST_DEFAULT_STAGES) if cp_async else 2)
    share = f"{limit:,} B" if each == limit else f"{each:,} B with {spec.ctas_per_sm} CTAs per SM"
    if most < 2:
        fit = (limit + reserved) // (operands(2) + reserved)  # CTAs per SM
        fewer = "lower ctas_per_sm, or " if fit else ""
        faults.append(
            Fault(
                ("tile",),
                f"two stages of this tile need {operands(2):,} B of shared memory, the maximum per CTA is {share}",
                f"{fewer}make the tile smaller: A and B of one stage take (M + N) x K elements",
                {("ctas_per_sm",): fit if fit > 1 else ABSENT} if fit else {},
            )
        )
    elif stages > most:
        faults.append(
            Fault(
                ("stages",),
                f"{stages} need {operands(stages):,} B of shared memory, the maximum per CTA is {share}",
                f"at most {most}",
                {("stages",): most},
            )
        )
    if staged.smem_bytes > each:
        lines = "rows" if staged.row_major else "columns"
        faults.append(
            Fault(
                ("tile",),
                f"the epilogue stages {staged.slice} {lines} of D, as many as the TiledMMA covers, in "
                f"{staged.smem_bytes:,} B of shared memory, the maximum per CTA is {share}",
                f"make the tile's {'N' if staged.row_major else 'M'} smaller, or the permutation's "
                f"{'M' if staged.row_major else 'N'}",
            )
        )
    return Smem(max(stages, 2), max(operands(max(stages, 2)), staged.smem_bytes)), faults


def registers(atom: Atom, mma: TiledMma, tile: tuple[int, int, int]) -> tuple[int, int]:
    """32-bit registers per thread for accumulators, and for two k blocks of fragments of A and B."""
    per_k_slice = mma.threads // mma.atoms[2]
    accumulators = tile[0] * tile[1] * atom.type_d.bits // 32 // per_k_slice
    fragments = 2 * sum(
        extent * (mma.extent[2] // group * kept) * element.bits // 32 // (atom.threads * mma.atoms[mode] * mma.atoms[2])
        for mode, extent, element, (group, kept) in (
            (0, tile[0], atom.stored_type("A"), atom.stored("A")),
            (1, tile[1], atom.stored_type("B"), atom.stored("B")),
        )
    )
    return accumulators, fragments


def register_faults(spec: Spec, mma: TiledMma, accumulators: int, fragments: int) -> Iterator[Fault]:
    """Accumulators, one k block of fragments and addresses must fit the registers of a thread, or the kernel spills."""
    ctas = spec.ctas_per_sm or 1
    budget = min(REGISTERS_PER_THREAD, REGISTERS_PER_SM // (mma.threads * ctas) // 8 * 8)
    needed = accumulators + fragments // 2 + REGISTERS_BESIDES
    if needed <= budget:
        return
    warps = mma.threads // 32
    most = REGISTERS_PER_SM // (mma.threads * -(-needed // 8) * 8)
    key = ("ctas_per_sm",) if ctas > 1 and needed <= min(REGISTERS_PER_THREAD, REGISTERS_PER_SM // mma.threads) else ("tile",)
    yield Fault(
        key,
        f"the accumulators take {accumulators} registers per thread, fragments {fragments // 2}, addresses and loop "
        f"state about {REGISTERS_BESIDES}, of {budget} available with {ctas} x {mma.threads} threads",
        "lower ctas_per_sm"
        if key == ("ctas_per_sm",)
        else "make the tile's M x N smaller"
        + (f", or spread it over more than {warps} warps with atoms_layout" if warps < 32 else ""),
        {("ctas_per_sm",): most or ABSENT} if key == ("ctas_per_sm",) else {},
    )


def thread_faults(spec: Spec, threads: int, arch: tuple[str, ...]) -> Iterator[Fault]:
    """ctas_per_sm CTAs must fit the threads of an SM; nvcc silently ignores an impossible minimum of __launch_bounds__."""
    limit = resident_threads(arch)
    if (spec.ctas_per_sm or 1) * threads > limit:
        yield Fault(
            ("ctas_per_sm",),
            f"{spec.ctas_per_sm} x {threads} threads exceed the {limit} of an SM",
            f"at most {limit // threads}",
            {("ctas_per_sm",): limit // threads or ABSENT},
        )
