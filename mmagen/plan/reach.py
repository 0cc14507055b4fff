"""Chooses the problems of a GEMM that verify emulates: few and small, and together with all that makes a kernel take another
path. The features of a problem follow from the plan; what is then reached in the PTX, the emulator reports (verify -v)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache

from mmagen.mma.atoms import ElementType
from mmagen.plan.plans import GemmPlan
from mmagen.plan.tiling import Tile
from mmagen.spec.model import Problem

_VECTOR_BYTES = 16
_ALIGNED = 16  # elements: a multiple of every vector
_RAGGED = 5
_ROUNDS = 257  # more than a counter of 8 bits holds
_LINES = 13  # of a small problem that is not aligned
FAR = 2**29  # elements: the ninth of the lines that lie so far apart begins at 2**32
_MOST_RESULTS = 2**20  # of a problem, residues of tiles included: a second of emulation
_MOST_PRODUCTS = 2**24  # of a tile with _ROUNDS k tiles


@dataclass(frozen=True)
class Paths:
    """What the paths of a kernel depend on.

    operands, result: the modes along which A and B lie in memory, and that of D. vector: elements of 16 bytes, of the smallest
    type. group: rows of tiles, of clusters, in a band. splits: CTAs that share the K of a tile. tma: operands are loaded by TMA
    where they are aligned. turns: consumer warpgroups that compute a tile each; 1 where they share it. persistent: a CTA
    computes several tiles. halves: elements of A, B and D in 8 bytes, 0 where one takes 16.
    """

    tile: Tile
    stages: int
    operands: frozenset[str]
    result: str
    vector: int
    group: int
    cluster: tuple[int, int] = (1, 1)
    splits: int = 1
    tma: bool = False
    turns: int = 1
    persistent: bool = False
    halves: tuple[int, int, int] = (0, 0, 0)

    @classmethod
    def of(cls, plan: GemmPlan, *, tma: bool = False, turns: int = 1) -> Paths:
        """Those of a plan's kernels."""
        smallest = min(plan.epilogue.out.bytes, *(one.element.bytes for one in plan.operands))
        scheduler = plan.scheduler
        return cls(
            tile=plan.tile_of_d,
            stages=plan.most_stages,
            operands=frozenset(plan.majors[:2]),
            result=plan.majors[2],
            vector=_VECTOR_BYTES // smallest,
            group=scheduler.raster_group,
            cluster=plan.cluster_of_d,
            splits=scheduler.split_k,
            tma=tma,
            turns=turns,
            persistent=scheduler.persistent,
            halves=(_half(plan.operand("A").element), _half(plan.operand("B").element), _half(plan.epilogue.out)),
        )

    def tiles(self, problem: Problem) -> tuple[int, int, int]:
        """Tiles of the clusters along M and N, and k tiles."""
        m, n, k = problem.shape
        m_tile, n_tile, k_tile = self.tile
        return -(-m // (m_tile * self.cluster[0])), -(-n // (n_tile * self.cluster[1])), -(-k // k_tile)

    def is_aligned(self, problem: Problem) -> bool:
        """Does the kernel for aligned rows compute it? Those of A and B alone count."""
        return self._in_vectors(problem, self.operands) and not any(self.begins_between(problem, name) for name in "ab")

    def begins_between(self, problem: Problem, matrix: str) -> bool:
        """Do some matrices of "a" or "b" in a batch begin between multiples of 16 bytes because of their batch stride?"""
        half = self.halves["ab".index(matrix)]
        stride = getattr(problem, f"batch_stride_{matrix}") or 0
        return problem.batch > 1 and half > 0 and stride % (2 * half) != 0

    def stores_vectors(self, problem: Problem) -> bool:
        """Do all rows of D begin at 16-byte boundaries?"""
        return self.in_vectors(problem, "d")

    def in_vectors(self, problem: Problem, matrix: str) -> bool:
        """Do all rows of "c" or "d" begin at 16-byte boundaries? C's are longer than D's by as many bytes as keep that."""
        stride = getattr(problem, f"batch_stride_{matrix}")
        every = problem.batch == 1 or (stride or 0) % self.vector == 0
        return every and self._in_vectors(problem, {self.result})

    def loads_source_in_vectors(self, problem: Problem) -> bool:
        """Is C added, and do all rows of C and D begin at 16-byte boundaries? TMA loads C to buffers from which D is stored."""
        return problem.beta != 0 and self.in_vectors(problem, "c") and self.stores_vectors(problem)

    def _in_vectors(self, problem: Problem, modes: Collection[str]) -> bool:
        extents = dict(zip("MNK", problem.shape, strict=True))
        return problem.offset == 0 and all((extents[mode] + problem.ld_pad) % self.vector == 0 for mode in modes)

    def results(self, problem: Problem) -> int:
        """Elements of all CTA tiles."""
        rows, columns, _ = self.tiles(problem)
        return rows * columns * problem.batch * self.tile[0] * self.tile[1] * math.prod(self.cluster) * self.splits


def features(paths: Paths, problem: Problem) -> frozenset[str]:
    """What a problem makes a kernel do, as words that are equal where the path is. Problems that are aligned and those that are
    not are computed by different kernels."""
    if problem.ld_pad >= FAR:  # so few elements stand for nothing else
        return frozenset({f"{'aligned' if paths.is_aligned(problem) else 'unaligned'}: offsets of more than 32 bits"})
    rows, columns, k_tiles = paths.tiles(problem)
    whole = [extent % of_tile == 0 for extent, of_tile in zip(problem.shape, paths.tile, strict=True)]
    own = {f"{name} {'whole' if is_whole else 'with a residue'}" for name, is_whole in zip("MNK", whole, strict=True)}
    own |= {
        f"{count} {what}" for what, n in (("rows", rows), ("columns", columns), ("batches", problem.batch)) for count in _few(n)
    }
    own |= {f"{count} k tiles" for count in _few(k_tiles)}
    of_last = (extent % of_tile for extent, of_tile in zip(problem.shape, paths.tile, strict=True))
    own |= {
        f"a single element along {name} in the last of several tiles"
        for name, left in zip("MN", of_last, strict=False)
        if left == 1
    }
    if whole[0] and not whole[2] and k_tiles > 1:
        own.add("whole tiles of rows, the last of several k tiles with a residue")
    if k_tiles // paths.splits > paths.stages:
        own.add("more k tiles than stages")
    if rows > paths.group and rows % paths.group and columns > 1 and problem.batch > 1:
        own.add("bands of tile rows, the last one smaller, in batches")
    if paths.persistent and rows * columns * problem.batch > 2 and k_tiles > 1:
        own.add("several tiles of a CTA, each with several k tiles")
    if paths.persistent and rows * columns * problem.batch > max(3, paths.turns) and paths.loads_source_in_vectors(problem):
        own.add("several tiles of a CTA, or of each warpgroup, with a source in vectors")
    if k_tiles >= _ROUNDS:
        own.add("more k tiles than 8 bits count")
    if paths.turns > 1 and rows * columns > paths.turns and k_tiles > 2 * paths.stages and k_tiles % paths.stages:
        own.add("turns, each with more than two rounds of the stages")
    if paths.splits > 1:
        own.add("fewer k tiles than splits" if k_tiles < paths.splits else "k tiles for every split")
    if problem.m < 64 and problem.n < 64:
        own.add("fewer rows than a box")
    source = "no source" if problem.beta == 0 else "a source"
    stored = f"D in {'vectors' if paths.stores_vectors(problem) else 'single elements'}"
    own |= {source, stored, f"{source}, {stored}"}
    if problem.beta != 0 and paths.stores_vectors(problem) and not paths.in_vectors(problem, "c"):
        own.add("a source, C in single elements, D in vectors")
    if problem.batch > 1 and problem.batch_stride_a == problem.batch_stride_b == 0:
        own.add("A and B of a whole batch")
    is_aligned = paths.is_aligned(problem)
    if not is_aligned and k_tiles > 2:
        own.add("k tiles between the first and the last")
    if not is_aligned and k_tiles > 1:
        for mode, extent, of_tile in zip("MN", problem.shape, paths.tile, strict=False):
            if mode in paths.operands and extent >= 2 * of_tile + _ALIGNED:
                own.add(f"tiles between the first and the last along {mode}")
        if all(f"tiles between the first and the last along {mode}" in own for mode in "MN") and not whole[2]:
            own.add("tiles between the first and the last along both, K with a residue")
    own |= {f"{name.upper()} alone unaligned, by 8 bytes" for name in "ab" if paths.begins_between(problem, name)}
    if problem.alpha != 1:
        own.add("alpha")
    if problem.offset:
        own.add("pointers to single elements")
    if problem.ld_pad:
        own.add("rows that end within 16 bytes")
    if half := paths.halves[2]:
        along = problem.m if paths.result == "M" else problem.n
        own |= {"rows of D that end at 8 bytes"} if along % (2 * half) == half else set()
    return frozenset(f"{'aligned' if is_aligned else 'unaligned'}: {feature}" for feature in own)


def _half(element: ElementType) -> int:
    return _VECTOR_BYTES // 2 // element.bytes


def _few(count: int) -> Iterator[str]:
    yield "one" if count == 1 else "several"


def candidates(paths: Paths) -> Iterator[Problem]:
    """Problems that differ in what they make a kernel do, from which `chosen` chooses; the first is always chosen."""
    m, n, k = paths.tile
    m_cluster, n_cluster = m * paths.cluster[0], n * paths.cluster[1]
    residue = paths.vector if k > paths.vector else 0  # along K, and rows stay aligned
    many_k = k * (paths.stages + 1) * paths.splits + residue
    # Without TMA, tiles inside the matrices and others have loops of their own: one of each.
    boundary = 0 if paths.tma else _ALIGNED
    yield Problem(shape=(m_cluster, n_cluster + boundary, many_k), alpha=-1.0, beta=2.0)
    yield Problem(shape=(m, n, k * paths.splits))
    yield Problem(shape=(_next(m), _next(n), _next(2 * k) + _ALIGNED), batch=2, ld_pad=_ALIGNED - _RAGGED, alpha=-1.0, beta=2.0)
    rows = min(m_cluster * paths.group, _MOST_RESULTS)  # of a band; more are not emulated
    if paths.tma:
        # Threads store the last slice of rows that are not multiples of 16 bytes, which takes long in many tiles: those of few do.
        more = _ALIGNED if "M" in paths.operands | {paths.result} else 1  # the last tile has one row, unless rows are not lines
        yield Problem(shape=(rows + more, n_cluster + _ALIGNED, k), batch=2)
        if more == 1:
            yield Problem(shape=(m + 1, _ALIGNED, k))
        # An odd extent along which D alone lies, in several tiles, the last of which has so few rows that some threads store none;
        # and one along which A or B does, in one.
        for mode in sorted(paths.operands ^ {paths.result}):
            several = {"M": m + more, "N": n_cluster + _ALIGNED, "K": 2 * k}
            extents = several if mode == paths.result else {"M": max(m - _ALIGNED, _ALIGNED), "N": n, "K": k}
            odd = extents | {mode: extents[mode] - (_ALIGNED - 1 if mode == paths.result else _RAGGED)}
            yield Problem(shape=(odd["M"], odd["N"], odd["K"]), beta=2.0 if mode == paths.result else 0.0)
        # All extents odd; of both halves of a wgmma's rows some are outside. A k tile has neither the begin nor the end of K.
        yield Problem(shape=(_less(m), _less(n), 3 * k - _RAGGED), beta=2.0)
        # An operand whose lines have neither their begin nor their end in the second of three tiles, with a whole k tile.
        for mode in sorted(paths.operands - {"K"}):
            inner = {"M": m - 1, "N": n - 1, mode: 2 * (m if mode == "M" else n) + _ALIGNED + 1}
            yield Problem(shape=(inner["M"], inner["N"], k + 1))
        if paths.operands == {"M", "N"}:  # of both: of a k tile that lacks a line neither may bring another one
            yield Problem(shape=(2 * m + _ALIGNED + 1, 2 * n + _ALIGNED + 1, 2 * k - 1))
        # M and N differ, and with them the batch strides of A and B.
        yield Problem(shape=(43, 27, 43), batch=3, ld_pad=_RAGGED, alpha=-1.0, beta=2.0)
    else:
        yield Problem(shape=(_next(rows), _next(n), _RAGGED), batch=2, ld_pad=_ALIGNED - _RAGGED, alpha=-1.0, beta=2.0)
    if paths.turns > 1:
        yield Problem(shape=(m_cluster, n_cluster * (paths.turns + 1), k * (2 * paths.stages + 1)))
    if paths.persistent:  # C is loaded to the buffers from which the tile before is stored
        yield Problem(shape=(m_cluster, n_cluster * max(4, paths.turns + 1), k), beta=1.0)
    if m * n * k * _ROUNDS <= _MOST_PRODUCTS:
        yield Problem(shape=(m_cluster, n_cluster * paths.turns, k * _ROUNDS))
    if paths.tma:
        # All elements of one tile; of 1 x 1 x 1 none but one. Only the pointers are not aligned: every line ends with all but one
        # of the elements of a vector.
        yield Problem(shape=(m, n, k + _ALIGNED), offset=_ALIGNED - 1, beta=1.0)
    else:
        yield Problem(shape=(_ALIGNED, _ALIGNED, _ALIGNED), offset=1, beta=1.0)
        # Aligned operands with a D that is not, and the reverse.
        yield Problem(shape=(m, n, k), batch=2, batch_stride_d=m * n + max(paths.halves[2], 1), beta=1.0)
        yield Problem(shape=(m, n + 1, k + 1) if paths.result == "M" else (m + 1, n, k + 1), beta=1.0)
    # One A and one B for a whole batch, and a C whose matrices begin anywhere beside a D of vectors: the reverse is above.
    odd_stride = (m + _ALIGNED) * (n + _ALIGNED) + 1
    yield Problem(shape=(m, n, k), batch=2, batch_stride_a=0, batch_stride_b=0, batch_stride_c=odd_stride, beta=1.0)
    # Lines and matrices so far apart that offsets of 32 bits wrap around.
    for shape in ((_ALIGNED,) * 3, (_LINES, _LINES - 2, _LINES)):
        yield Problem(shape=shape, batch=3, ld_pad=FAR, beta=1.0)
    # One operand aligned to 8 bytes beside one aligned to 16: each is to be asked for, and for no less. Lines end at 8 bytes too.
    half = paths.halves[2]
    for name, of_operand in zip("ab", paths.halves, strict=False):
        if of_operand:
            alone = Problem(shape=(_ALIGNED + half,) * 3, batch=2, ld_pad=(_ALIGNED - half) % _ALIGNED)
            yield alone.model_copy(update={f"batch_stride_{name}": 8 * _ALIGNED**2 + of_operand})
    yield Problem(shape=(1, 1, 1))


@cache
def chosen(paths: Paths) -> tuple[Problem, ...]:
    """Some of the candidates, in their order, that together have the features of all that are quickly emulated.

    Greedy: that with most of the missing features for its cost comes first; at last those go that the others make superfluous,
    the most costly first.
    """
    pool = {p: features(paths, p) for p in candidates(paths) if _is_quick(paths, p)}
    first = next(iter(pool))
    missing = frozenset().union(*pool.values()) - pool[first]
    found = {first}
    while missing:
        best = max(pool, key=lambda p: len(pool[p] & missing) / _cost(paths, p))
        found.add(best)
        missing -= pool[best]
    for problem in sorted(found - {first}, key=lambda p: -_cost(paths, p)):
        if pool[problem] <= frozenset().union(*(pool[other] for other in found if other != problem)):
            found.remove(problem)
    return tuple(problem for problem in pool if problem in found)


def _is_quick(paths: Paths, problem: Problem) -> bool:
    """Is a problem emulated in about a second? Two tiles in each mode and two batches are in any case."""
    results, tile = paths.results(problem), paths.tile[0] * paths.tile[1] * math.prod(paths.cluster) * paths.splits
    if not paths.tma:
        return results <= max(_MOST_RESULTS, 8 * tile)
    if not paths.is_aligned(problem):
        ctas = math.prod(-(-extent // of_tile) for extent, of_tile in zip(problem.shape[:2], paths.tile[:2], strict=True))
        return ctas <= 3 or (ctas == 9 and problem.batch == 1) or ctas * paths.tile[0] * paths.tile[1] <= _MOST_RESULTS // 64
    return results <= max(_MOST_RESULTS // 2, 8 * tile)


def _cost(paths: Paths, problem: Problem) -> float:
    """About proportional to the time of emulation: results, more of them where a source is read, and products."""
    k = -(-problem.k // paths.tile[2]) * paths.tile[2] / paths.splits
    own = 1.0 if paths.is_aligned(problem) else 2.0
    return 2**14 + own * paths.results(problem) * (2 + (problem.beta != 0) + k / 64)


def _less(extent: int) -> int:
    """An odd extent of most of a tile: it ends in the first half of 16 rows."""
    return extent - _ALIGNED + 3 if extent > _ALIGNED else extent - _RAGGED


def _next(extent: int) -> int:
    """The next extent that is 5 above a multiple of 16: ragged, but aligned with 11 elements of padding."""
    return extent + 1 + (_RAGGED - extent - 1) % _ALIGNED
