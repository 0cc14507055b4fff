"""Operands: shared-memory layouts of A and B, their copies from global memory, and loads into fragments."""

from __future__ import annotations

from mmagen.core.layout_text import LayoutText
from mmagen.mma.atoms import Atom, ElementType
from mmagen.mma.pieces import SplitAtom
from mmagen.plan.model import GmemCopy, Operand, SmemCopy, Swizzle, TiledMma
from mmagen.plan.tiling import Steps, nests, steps, stride_one_run

VECTOR_BYTES = 16  # the widest access of cp.async, ld.global and st.global on all supported devices
BANK_ROW_BYTES = 128  # 32 banks of 4 bytes


def power_of_two_divisor(value: int, most: int) -> int:
    """The largest power of two up to `most` that divides `value`."""
    return min(value & -value, most)


def smem_layout(
    atom: Atom, element: ElementType, along: int, across: int, contiguous_k: bool, steps_along: Steps, steps_across: Steps
) -> tuple[Swizzle, int, int]:
    """Swizzle, line and lines of the shared-memory layout atom for a tile of `along` contiguous by `across` elements.

    steps_along, steps_across: how fragments divide the two modes (`tiling.steps`). CuTe can partition only lines that nest
    with all of them: odd numbers of atoms shorten the line, or leave one line without a swizzle.

    Bank conflicts decide the rest, that is, which lane bits step along a line and which across lines.
    - ldmatrix reads 8 lines x 16 bytes: 16-byte chunks are spread by the line number.
    - tf32 across K and f64 either way read single elements, 8 (4) neighbours along x 4 across: the lowest two bits of
      the line number choose the 32-byte chunk.
    - complex types of 16 bytes along K: two lines at a time; the lowest bit of the line number chooses the half of the line.
      Across K they are read as f64 is.
    - f32 that is split has the fragments of bf16. Along K a thread reads two elements at a time, 4 pairs of each of 4 lines: the
      lowest two bits of the line number choose the 32-byte chunk. Across K it reads 8 neighbours of every second line: bits 1
      and 2 choose the chunk.
    - 8-bit types across K read single bytes from every fourth line: bits 2 and 3 of the line number choose the chunk.
    """
    line_bytes = power_of_two_divisor(along * element.bytes, BANK_ROW_BYTES)
    while line_bytes >= VECTOR_BYTES and not nests(line_bytes // element.bytes, steps_along):
        line_bytes //= 2
    if line_bytes < VECTOR_BYTES:
        return Swizzle(0, 4, 3), along, 1
    line = line_bytes // element.bytes
    log_line = line_bytes.bit_length() - 1
    log_element = element.bytes.bit_length() - 1
    if isinstance(atom, SplitAtom):
        swizzle = Swizzle(max(0, log_line - 5), 5 - log_element, 2 if contiguous_k else 3)
        lines = 4 if contiguous_k else 8
    elif atom.ldmatrix and not contiguous_k and element.bits == 8:
        swizzle, lines = Swizzle(2, 4, log_line - 2), 16
    elif element.bits == 128 and contiguous_k:
        swizzle, lines = Swizzle(max(0, log_line - 6), 6 - log_element, 1), 2
    elif element.bits >= 64 or (atom.ldmatrix and not contiguous_k and element.bits == 32):
        swizzle, lines = Swizzle(max(0, log_line - 5), 5 - log_element, 2), 4
    else:
        swizzle, lines = Swizzle(log_line - 4, 4 - log_element, 3), 8
    if across % lines or not nests(lines, steps_across):
        return Swizzle(0, 4, 3), line, 1
    return swizzle, line, lines


def gmem_copy(along: int, across: int, vector: int, threads: int, line: int, lines: int) -> GmemCopy:
    """The partition that uses the most threads, then the longest rows; its tile divides the operand's.

    line, lines: extents of the shared-memory layout atom. CuTe can partition it only if the tile of the threads divides it or
    is a multiple of it.
    """
    best = max(
        (
            (length, [n for n in _divisors(across, threads // length) if _nests(n, lines)][-1])
            for length in _divisors(along // vector, threads)
            if _nests(length * vector, line)
        ),
        key=lambda pair: (pair[0] * pair[1], pair[0]),
    )
    return GmemCopy(best[0], best[1], vector)


def _nests(extent: int, unit: int) -> bool:
    """Does one of them divide the other?"""
    return extent % unit == 0 or unit % extent == 0


def _divisors(value: int, most: int) -> list[int]:
    """Divisors of `value` up to `most`, in order."""
    return [d for d in range(1, min(value, most) + 1) if value % d == 0]


def smem_copy(atom: Atom, element: ElementType, mma: TiledMma, mode: int, contiguous_k: bool) -> SmemCopy:
    """The widest copy of this operand from shared memory to fragments.

    mode: 0 for A (M), 1 for B (N). ldmatrix if fragments have its shape: plain if K is contiguous, otherwise transposed for
    16-bit types.
    """
    matrices = _matrices(atom, element, mma, mode)
    if atom.ldmatrix and matrices:
        if contiguous_k and _keeps_runs(mma.permutation[2], VECTOR_BYTES // element.bytes):
            return SmemCopy(matrices)
        if (
            not contiguous_k
            and element.bits == 16
            and _keeps_runs(mma.permutation[mode], 8)
            and not isinstance(mma.permutation[2], LayoutText)
        ):
            return SmemCopy(matrices, transposed=True)
    run = _fragment_run(atom, mode, contiguous_k)
    return SmemCopy(elements=run if _keeps_runs(mma.permutation[2 if contiguous_k else mode], run) else 1)


def _matrices(atom: Atom, element: ElementType, mma: TiledMma, mode: int) -> int:
    """8x8 matrices of one ldmatrix, at most 4: a register each. Its registers must be those of whole repeats of an atom, first
    along M (N), then along K; 0 if a fragment is no whole number of registers."""
    unit_mn, unit_k = (atom.m, atom.n)[mode], atom.k
    fragment = unit_mn * unit_k // atom.threads * element.bits // 32
    repeats = (mma.extent[mode] // (unit_mn * mma.atoms[mode]), mma.extent[2] // (unit_k * mma.atoms[2]))
    matrices = power_of_two_divisor(fragment, 4) if fragment else 0
    whole = fragment
    for repeat in repeats:
        if matrices != whole:
            break
        matrices *= power_of_two_divisor(repeat, max(1, 4 // matrices))
        whole *= repeat
    return matrices


def _keeps_runs(permutation: int | LayoutText | None, run: int) -> bool:
    return not isinstance(permutation, LayoutText) or stride_one_run(permutation) % run == 0


def _fragment_run(atom: Atom, mode: int, contiguous_k: bool) -> int:
    """Elements of a one-thread or quad-pair fragment that are contiguous in shared memory (CuTe's MMA_Traits)."""
    if isinstance(atom, SplitAtom):
        return 2 if contiguous_k else 1
    if atom.generation == "SM61":
        return atom.k if contiguous_k else 1
    if atom.generation == "SM70":
        fragment_along_k = (atom.majors[0] == "T") if mode == 0 else (atom.majors[1] == "N")
        return 4 if fragment_along_k == contiguous_k else 1
    return 1


def operand(letter: str, atom: Atom, mma: TiledMma, extent_mn: int, extent_k: int, major: str) -> Operand:
    """The plan of A or B for a CTA tile of extent_mn x extent_k elements."""
    mode = "AB".index(letter)
    element = (atom.type_a, atom.type_b)[mode]
    contiguous_k = major == "K"
    along, across = (extent_k, extent_mn) if contiguous_k else (extent_mn, extent_k)
    steps_mn, steps_k = steps(mma, mode, (atom.m, atom.n)[mode], extent_mn), steps(mma, 2, atom.k, extent_k)
    steps_along, steps_across = (steps_k, steps_mn) if contiguous_k else (steps_mn, steps_k)
    swizzle, line, lines = smem_layout(atom, element, along, across, contiguous_k, steps_along, steps_across)
    vector = VECTOR_BYTES // element.bytes
    return Operand(
        letter=letter,
        element=element,
        major=major,
        extent_mn=extent_mn,
        extent_k=extent_k,
        swizzle=swizzle,
        line=line,
        lines=lines,
        copy_wide=gmem_copy(along, across, vector, mma.threads, line, lines) if along % vector == 0 else None,
        copy_narrow=gmem_copy(along, across, 1, mma.threads, line, lines),
        smem_copy=smem_copy(atom, element, mma, mode, contiguous_k),
        bytes_per_stage=extent_mn * extent_k * element.bytes,
    )
