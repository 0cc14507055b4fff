"""The problems that verify emulates without a GPU: small ones that exercise the same code paths as large ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from mmagen.plan.operations import as_applied
from mmagen.plan.plans import ProductPlan
from mmagen.plan.reach import FAR
from mmagen.plan.tiling import Tile
from mmagen.spec.model import Problem
from mmagen.spec.scale import BLOCK


@dataclass(frozen=True, kw_only=True)
class Trials:
    """judge: the module of verify/emulated/judges that draws inputs and judges results.

    cases: (problem, distribution of its inputs). without_workspace: problems whose call gets none though it could use one.
    types, majors: for records: types of the operands, contiguous modes of A, B and D. smem_bytes: per CTA. refusal: why it
    cannot be emulated, or "".
    """

    judge: str = ""
    cases: tuple[tuple[Problem, str], ...] = ()
    without_workspace: frozenset[Problem] = frozenset()
    types: str = ""
    majors: tuple[str, str, str] = ("K", "K", "N")
    smem_bytes: int = 0
    refusal: str = ""

    def with_problems(self, problems: Sequence[Problem]) -> tuple[tuple[Problem, str], ...]:
        """The given problems instead: each with the most frequent distribution, the largest with the others too."""
        usual = self.cases[0][1]
        largest = max(problems, key=products)
        others = dict.fromkeys(name for _, name in self.cases if name != usual)
        return (*((problem, usual) for problem in problems), *((largest, name) for name in others))


def as_written(plan: ProductPlan, problems: Sequence[Problem], cases: Sequence[tuple[Problem, str]]) -> list[Problem]:
    """Those of a spec's own problems that are small enough to be emulated besides `cases`: the smallest first, together half
    their products, but one in any case that is no larger than the largest of them. Products of whole tiles count."""
    m_tile, n_tile, k_tile = plan.tile

    def cost(problem: Problem) -> int:
        tiles = -(-problem.m // m_tile) * -(-problem.n // n_tile) * -(-problem.k // k_tile)
        return tiles * problem.batch

    costs = [cost(problem) for problem, _ in cases]
    done = {problem for problem, _ in cases}
    left = sum(costs) // 2
    chosen: list[Problem] = []
    for problem in sorted(dict.fromkeys(problem for problem in problems if problem not in done), key=cost):
        if cost(problem) > left and (chosen or cost(problem) > max(costs)):
            break
        chosen.append(problem)
        left -= cost(problem)
    return chosen


def one_tile(plan: ProductPlan) -> Trials:
    """Trials of a kernel that computes one tile."""
    return of_product(plan, (Problem(shape=plan.tile),))


def of_product(plan: ProductPlan, problems: tuple[Problem, ...], uniform: Problem | None = None) -> Trials:
    """Trials of a GEMM: small integers, which are exact, for every problem, and uniform inputs for one of them: `uniform`, or the
    smallest of those with long sums: more than half as long as the longest ones, of those that are aligned and read a source where
    there are any."""
    problems = as_applied(plan.spec, problems)
    aligned = [one for one in problems if one.offset == 0 and (one.k + one.ld_pad) % 2 == 0 and one.ld_pad < FAR]
    sums = [one for one in aligned if one.beta != 0] or problems
    long = [one for one in sums if 2 * one.k > max(other.k for other in sums)]
    (chosen,) = as_applied(plan.spec, (uniform,)) if uniform else (min(long, key=products),)
    return Trials(
        judge="product",
        cases=(*((problem, "small_int") for problem in problems), (chosen, "uniform")),
        types=plan.types,
        majors=plan.majors,
        smem_bytes=plan.smem_bytes,
    )


def products(problem: Problem) -> int:
    """Number of multiply-adds of one problem."""
    return problem.m * problem.n * problem.k * problem.batch


WAVE = 3  # clusters that the emulated device runs at once if calls select widths by waves
_MOST_PARTS = 65  # k tiles, of a problem for parts of K
_MOST_FAR = 2**40  # elements from first to last lines: what is known of each takes 32 bytes of addresses in f32
_FEW_LINES = 8  # of which the last begins before 2**32 if they lie FAR apart


def split_k_problems(tile: Tile, cluster: tuple[int, int], element_bytes: int, splits: int) -> tuple[Problem, ...]:
    """Sums so long that the K of a tile is split for three clusters: of whole tiles, of tiles with residues in a batch, and of such
    with a C that is added in single elements beside a D of vectors. Lines of the last lie so far apart that offsets of 32 bits
    wrap around in D, unless K is so long that its lines are not to be emulated; a batch shares the A and the B, whose matrices may
    be larger than the strides of a tensor map reach.

    splits: the number of parts, 0 for as many as fit the problem. These are several where a tile takes more than about 13,000
    cycles, or 29,000 each of two tiles (sm90_tile_scheduler_split_k_workspace.cuh). In a cycle a CTA loads 56 bytes and
    multiplies 4096 bytes of A, each by one element of B.
    """
    m, n, _ = tile
    long_enough = partial(_long_enough, tile, cluster, element_bytes, splits)
    whole = Problem(shape=(m * cluster[0], n * cluster[1], long_enough(16_000, n)))
    rows = m * cluster[0] - 3
    ragged = Problem(shape=(rows, 37, long_enough(36_000, 37) + 5), batch=2, ld_pad=11, alpha=-1.0, beta=2.0)

    def far_apart(columns: int) -> tuple[int, int]:
        """K, and the padding in elements with which the last line of D begins at 2**32 or later, for so many columns of D."""
        last_line = max(min(rows, columns) - 1, 1)  # of D, whichever its contiguous mode is
        return long_enough(36_000, columns) + 5, -(-(2**32) // (64 * last_line)) * 64

    emulated = next((columns for columns in (21, 37) if prod(far_apart(columns)) <= _MOST_FAR), None)
    columns = emulated or 21
    long, far = far_apart(columns)
    pad = 11 + (far if emulated else 0)
    odd = Problem(
        shape=(rows, columns, long),
        batch=2,
        ld_pad=pad,
        batch_stride_a=0,
        batch_stride_b=0,
        batch_stride_c=64 * (rows + 64) * (pad // 16 + 1) + 1,
        beta=1.0,
    )
    return whole, ragged, odd


def narrow_split_problems(
    tile: Tile, cluster: tuple[int, int], element_bytes: int, splits: int, along_m: bool
) -> tuple[Problem, ...]:
    """For a launch with tile_n: two cluster tiles side by side along the mode of D that tile_n shortens, with several parts of K.
    Partial sums of a whole tile would overwrite those of the next tile. tile: as the launch computes it. along_m: with swapped
    operands tile_n shortens M."""
    m, n, k = tile[0] * cluster[0], tile[1] * cluster[1], _long_enough(tile, cluster, element_bytes, splits, 36_000, tile[1])
    return (Problem(shape=(2 * m, n, k) if along_m else (m, 2 * n, k)),)


def fitted_problems(
    tile: Tile, cluster: tuple[int, int], widths: Sequence[tuple[int, int]], tiles: int, along_m: bool, k_tiles: int = 2
) -> tuple[Problem, ...]:
    """For a launch with a list of widths: for each of `widths`, a problem whose call selects it with WAVE clusters at once.

    widths: each with the next narrower one, 0 for none. tile: whole. tiles: along that mode, WAVE if waves decide, else 1. along_m:
    with swapped operands, widths are along M. k_tiles: of each tile of D.
    """
    m, n, k = tile[0] * cluster[0], tile[1] * cluster[1], k_tiles * tile[2] - 16
    found = []
    for width, narrower in widths:
        most, least = (one * cluster[0 if along_m else 1] * tiles for one in (width, narrower))
        extent = most - 8 if most - 8 > least else most
        found.append(Problem(shape=(extent, n - 8, k) if along_m else (m - 8, extent, k)))
    return tuple(found)


def _long_enough(tile: Tile, cluster: tuple[int, int], element_bytes: int, splits: int, cycles: int, columns: int) -> int:
    """A K that is split if a tile of so many columns must take so many cycles for that: see split_k_problems()."""
    m, n, k = tile
    if splits:
        return k * min(2 * splits + 1, _MOST_PARTS)
    loaded = (m / cluster[1] + min(n, columns) / cluster[0]) * k * element_bytes / 56
    return k * (int(cycles / max(loaded, m * n * k * element_bytes / 4096)) + 1)


def copied_problems(tile: Tile, element_bytes: int, majors: tuple[str, str, str]) -> tuple[Problem, ...]:
    """A sum of operands that TMA cannot address, so long that their copy to a workspace pays. Their lines end after the first
    element of a vector, of which each other one is then a zero; along K these are the last of nine k tiles, so that copies have no
    padding. Lines lie far apart, and of a B that a batch shares there is one copy. Then a B that alone is copied."""
    m, n, k = tile
    shape = (max(m - 15, 1), max(n - 15, 1), 9 * k - 16 // element_bytes + 1)
    alone = 9 * k * n + 8 // element_bytes
    return (
        Problem(shape=shape, batch=2, batch_stride_b=0, ld_pad=_far_apart(shape, majors), offset=1, beta=1.0),
        Problem(shape=(16, n, 9 * k), batch=2, batch_stride_b=alone),
    )


def _far_apart(shape: Tile, majors: tuple[str, str, str]) -> int:
    """Elements between lines, so that offsets of 32 bits wrap around in each of A, B and D of more than a few lines. As many as
    elsewhere (FAR), unless matrices of a batch of two with so many lines are not to be emulated."""
    m, n, k = shape
    lines = (m if majors[0] == "K" else k, n if majors[1] == "K" else k, m if majors[2] == "N" else n)
    if 2 * sum(lines) * FAR <= _MOST_FAR:
        return FAR
    return -(-(2**32) // (64 * (min(one for one in lines if one > _FEW_LINES) - 1))) * 64


def few_rows_problems(element_bytes: int) -> tuple[Problem, ...]:
    """For the kernel of few rows or columns of operands that TMA cannot address: all places where rows may begin between multiples
    of 16 bytes, rows shorter than a vector, chunks that lie inside of their rows or not; the K of a CTA in one slab and in several,
    divided by as many warps as there are and by two, which load once and several times; lines so far apart that offsets of 32 bits
    wrap around. element_bytes: of A and of B; vectors, chunks, slabs and loads are of as many bytes for all types."""

    def k(size: int) -> int:
        """An odd number of elements, which are about so many bytes."""
        return size // element_bytes | 1

    return (
        Problem(shape=(1, 45, k(74)), beta=1.0),
        Problem(shape=(16, 150 // element_bytes, k(578)), offset=1, alpha=-1.0, beta=2.0),
        Problem(shape=(5, 9, k(14)), batch=2, offset=3),
        Problem(shape=(5, 9, k(6)), offset=1),  # the first row lies inside of one aligned vector of 16 bytes
        # Copies would be faster for fewer matrices with elements of one byte.
        Problem(shape=(40, 16, k(2602)), batch=17 if element_bytes == 1 else 2, ld_pad=6, alpha=2.0, beta=-1.0),
        Problem(shape=(21, 11, k(90)), ld_pad=FAR, batch=2, batch_stride_b=0, beta=1.0),
        Problem(shape=(3, 20, k(4806)), batch=2, batch_stride_c=0, beta=1.0),
        Problem(shape=(2, 8400, k(82))),
    )


def scale_problems() -> tuple[Problem, ...]:
    """Lines of scales along K so far apart that offsets of 32 bits wrap around."""
    return (Problem(shape=(16, 16, 9 * BLOCK), ld_pad=FAR, beta=1.0),)


def block_problems() -> tuple[Problem, ...]:
    """Operands that TMA cannot address, with the ends of blocks of scales inside of M, of N and of K."""
    return (Problem(shape=(BLOCK + 9, BLOCK + 10, BLOCK + 1), beta=1.0),)  # an even N: columns may be gated in pairs


def unaligned_problems(tile: Tile, major: str) -> tuple[Problem, ...]:
    """Lines of A or B that TMA cannot address, beside a C and a D that it can: where C is read, and where it is not. tile: of D;
    major: the contiguous mode of D."""
    m, n, k = tile
    rows, columns = (max(m - 15, 1), n) if major == "N" else (m, max(n - 14, 2))  # an even N: columns may be gated in pairs
    return tuple(Problem(shape=(rows, columns, k + 1), beta=beta) for beta in (1.0, 0.0))


def cluster_problems(tile: Tile, cluster: tuple[int, int], stages: int) -> tuple[Problem, ...]:
    """For clusters along M and N: a part of one tile, so that some CTAs load nothing of an operand and others nothing at all; so
    many k tiles that stages are used again."""
    if min(cluster) == 1:
        return ()
    m, n = (max(16, extent // 2 // 16 * 16) for extent in tile[:2])
    return (Problem(shape=(m, n, (stages + 2) * tile[2])),)


def stream_k_problems(tile: Tile, cluster: tuple[int, int]) -> tuple[Problem, ...]:
    """Two waves and one cluster tile for four clusters: they share five tiles, such that a range ends one k tile before the end of
    its tile, and compute four more on their own; of the last CTA in a cluster 16 rows are inside. Then a single tile for all."""
    m, n, k = tile[0] * cluster[0], tile[1] * cluster[1], tile[2]
    return Problem(shape=(m - max(tile[0] - 16, 0), 9 * n, 7 * k), beta=1.0), Problem(shape=(m, n, 32 * k))
