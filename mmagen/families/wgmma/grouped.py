"""`grouped:` of wgmma kernels: many problems in one launch, whose rows are known on the device alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from mmagen.core.errors import Fault
from mmagen.families.wgmma import decisions, pointers
from mmagen.families.wgmma.breach import Breach
from mmagen.mma.atoms import TYPES
from mmagen.plan import pages
from mmagen.plan.arguments import NO_ARGUMENTS, Argument, Arguments, Extent, Tensor
from mmagen.plan.model import TiledMma
from mmagen.plan.plans import GemmPlan
from mmagen.plan.project import Text
from mmagen.plan.reach import FAR
from mmagen.spec.groups import Groups
from mmagen.spec.model import Problem, Spec

_VECTOR_BYTES = 16
_ALIGNED = 16  # elements: a multiple of 16 bytes for every type
_LANES = 32  # groups in a window of the tile scheduler
SIZES = {
    "contiguous": "the rows of all groups follow each other in A, C and D; offsets in device memory",
    "masked": "matrices A, C and D for each group, whose first rows are used; their number in device memory",
    "pointers": pointers.SIZES,
}
LAUNCHES = {"": "sm90", "contiguous": "sm90_grouped", "masked": "sm90_grouped", "pointers": "sm90_pointers"}
WORKSPACES = {"": "sm90", "contiguous": "", "masked": "", "pointers": "sm90_pointers"}


def breaches(spec: Spec, mma: TiledMma) -> Iterator[Breach]:
    """What a grouped kernel does not have."""
    if not spec.grouped:
        return
    if decisions.schedule(spec, mma) == "warpgroup":
        yield Breach(
            ("schedule",),
            "schedule warpgroup computes one tile for each CTA, and the host does not know how many tiles the groups have",
            "cooperative or pingpong",
            ({"schedule": "cooperative"}, {"schedule": "pingpong"}),
        )
    for key, none, why in (
        ("split_k", 1, "the parts of K are fixed on the host, which does not know the groups"),
        ("stream_k", "never", "the tiles of the last wave are chosen on the host, which does not know the groups"),
        ("prefetch", 0, "a tile is known only after the previous kernel has written the sizes of the groups"),
    ):
        value = getattr(spec, key)
        if value not in (None, none):
            yield Breach((key,), f"{why}: {key} {value} does not go with grouped", f"omit {key}, or grouped", ({key: None},))
    of_call = spec.scale and (spec.scale.mirrored if decisions.swapped(spec) else spec.scale)
    if of_call and of_call.a == "128x128" and _stacked(spec):
        yield Breach(
            ("scale",),
            "scales of 128 rows of A begin at multiples of 128, and groups that follow each other begin at any row",
            "scale.a 1x128, or grouped masked",
            ({"grouped": "masked"},),
        )


def problem_faults(spec: Spec, a_bytes: int, b_bytes: int, problems: Sequence[Problem]) -> Iterator[Fault]:
    """Faults of the problems of a grouped kernel. a_bytes, b_bytes: of an element of a call's A and B."""
    if not spec.grouped:
        return
    if spec.grouped == "pointers":
        yield from pointers.problem_faults(problems)
        return
    for i, problem in enumerate(problems):
        key, written = ("problems", i), problem.model_dump(mode="json")
        if problem.groups and problem.groups.extents is not None:
            yield Fault(
                key,
                f"{problem.text}: the groups have a single N and K, and lists of [M, N, K] are for grouped: pointers",
                f"the rows of each group, e.g. {list(problem.groups.sizes)}",
                {key: {**written, "groups": list(problem.groups.sizes)}},
            )
            continue
        if not problem.groups:
            sizes = [problem.m // 2, problem.m - problem.m // 2]
            yield Fault(
                key,
                f"{problem.text} has no groups",
                f"e.g. groups: {sizes}, the rows of each group",
                {key: {**written, "batch": 2, "groups": sizes}},
            )
            continue
        rows = problem.groups.sizes
        most, what = (sum(rows), "together have") if spec.grouped == "contiguous" else (max(rows), "have at most")
        if most > problem.m:
            yield Fault(
                key,
                f"the groups {what} {most} rows, and shape has room for {problem.m}",
                f"the first entry of shape is at least {most}",
                {key: {**written, "shape": [most, problem.n, problem.k]}},
            )
        elif strides := [f"batch_stride_{x}" for x in "acd" if written.get(f"batch_stride_{x}") is not None and _stacked(spec)]:
            yield Fault(
                key,
                f"{' and '.join(strides)}: with grouped: contiguous, A, C and D are one matrix each",
                f"omit {'it' if len(strides) == 1 else 'them'}",
                {key: {name: value for name, value in written.items() if name not in strides}},
            )
        elif not _for_tma(spec, a_bytes, b_bytes, problem):
            aligned = [-(-extent // _ALIGNED) * _ALIGNED for extent in problem.shape]
            pad = -(-problem.ld_pad // _ALIGNED) * _ALIGNED
            yield Fault(
                key,
                f"rows of A or B of {problem.text} do not begin at multiples of 16 bytes, and grouped kernels load only by TMA",
                f"e.g. shape {aligned} with ld_pad {pad}, offset 0 and multiples of 16 bytes as strides",
                {key: _aligned(written, aligned, pad)},
            )


def _aligned(written: dict[str, object], shape: list[int], pad: int) -> dict[str, object]:
    return {name: value for name, value in written.items() if not name.startswith("batch_stride")} | {
        "shape": shape,
        "ld_pad": pad,
        "offset": 0,
    }


def _stacked(spec: Spec) -> bool:
    return spec.grouped == "contiguous"


def _for_tma(spec: Spec, a_bytes: int, b_bytes: int, problem: Problem) -> bool:
    """Can TMA address A and B? Pointers, leading dimensions and batch strides are multiples of 16 bytes."""
    extents = dict(zip("MNK", problem.shape, strict=True))
    for size, mode, stride in (
        (a_bytes, spec.layout.a_major, problem.batch_stride_a),
        (b_bytes, spec.layout.b_major, problem.batch_stride_b),
    ):
        if any(count * size % _VECTOR_BYTES for count in (problem.offset, extents[mode] + problem.ld_pad, stride or 0)):
            return False
    return True


_SENTENCES = {
    "group_offsets": "batch + 1 int32: group g has rows group_offsets[g] to group_offsets[g + 1]. NULL if group_ends is given",
    "group_ends": "batch int32: the same without the first offset, which is then 0. NULL if group_offsets is given",
    "group_m": "batch int32: the rows of each group, 0 to m",
    "group_status": "NULL, or batch int32 that the kernel writes: 0, or why a group was skipped: 1 its end lies before its begin, "
    "2 there are no such rows, 3 rows of an earlier group",
}


def arguments(grouped: str, others: Arguments) -> Arguments:
    """The arguments of a call for the sizes of the groups, none for a kernel without groups. They are optional where there are
    two ways to give them. others: those of other parts of the kernel, as `of_rows` has them."""
    if not grouped:
        return NO_ARGUMENTS
    if grouped == "pointers":
        return pointers.arguments(others)
    sizes = {"contiguous": ("group_offsets", "group_ends"), "masked": ("group_m",)}[grouped]
    return Arguments(tuple(_vector(name) for name in (*sizes, "group_status")))


def of_rows(spec: Spec, others: Arguments) -> Arguments:
    """The arguments of other parts of a kernel. Where the rows of all groups lie in one matrix, so do those of tensors that have
    something for each row; all others have a matrix for each group."""
    if spec.grouped == "pointers":
        return pointers.of_groups(others)
    if not spec.grouped or not _stacked(spec):
        return others
    return Arguments(tuple(_of_all_groups(one) for one in others.all))


def _of_all_groups(one: Argument) -> Argument:
    if isinstance(one, Tensor) and "m" in (one.rows.of, one.columns.of):
        return replace(one, batched=False)
    return one


def _vector(name: str) -> Tensor:
    return Tensor(
        name=name,
        element=TYPES["s32"],
        part="group",
        rows=Extent(),
        columns=Extent("batch", plus=1 if name == "group_offsets" else 0),
        sentence=_SENTENCES[name],
        batched=False,
        access="write" if name == "group_status" else "read",
        required=name == "group_m",
    )


# --- Problems --------------------------------------------------------------------------------------------------------


@cache
def default_problems(grouped: str) -> tuple[Problem, ...]:
    """Groups with and without rows, smaller and larger than a tile, ending anywhere, more than a window of them; one group;
    rows of no group; and sizes by Zipf's law that fill a GPU."""
    if grouped == "pointers":
        return pointers.default_problems()
    small: tuple[tuple[tuple[int, ...], tuple[int, int], dict[str, Any]], ...] = (
        ((70, 0, 1, 129, 64), (272, 144), {"alpha": 2.0, "beta": -1.0}),
        ((0, 0, 300), (208, 80), {"beta": 1.0}),
        ((256,), (256, 128), {}),
        ((5, 0, 0, 17) * 20, (144, 208), {"ld_pad": 16}),
        ((0, 0), (64, 64), {}),
    )
    room = (lambda rows: sum(rows) + 16) if grouped == "contiguous" else (lambda rows: max(rows) + 16)

    def of(groups: Groups, n: int, k: int, **more: Any) -> Problem:
        most = -(-room(groups.sizes) // _ALIGNED) * _ALIGNED
        return Problem.model_validate({"shape": (most, n, k), "groups": groups, **more})

    zipf = ((8, 4096, 14336, 4096), (64, 8192, 2048, 7168), (256, 8192, 4096, 7168))
    return (
        *(of(Groups(rows=rows), n, k, **more) for rows, (n, k), more in small),
        *(of(Groups(experts=experts, tokens=tokens), n, k) for experts, tokens, n, k in zipf),
    )


def trial_problems(plan: GemmPlan) -> tuple[Problem, ...]:
    """The problems that verify emulates: groups smaller and larger than a tile, without rows, in several windows of the tile
    scheduler and several bands; D in vectors and in single elements; rows of no group behind the last one and, where offsets are
    given, before the first; lines so far apart that offsets of 32 bits wrap around. An odd number of groups is given by offsets, an
    even one by ends."""
    grouped = plan.scheduler.grouped
    m, n, k = plan.tile_of_d
    across, along = plan.cluster_of_d
    rows_of_cluster, residue = m * across, _ALIGNED if k > _ALIGNED else 0
    long = k * (plan.stages + 1) + residue
    band = plan.scheduler.raster_group

    def of(rows: tuple[int, ...], n: int, k: int, **more: Any) -> Problem:
        most = sum(rows) if grouped == "contiguous" else max(rows)
        room = -(-(most + 5) // _ALIGNED) * _ALIGNED
        return Problem.model_validate({"shape": (room, n, k), "groups": list(rows), **more})

    found = [
        of((m + 5, 0, 1, rows_of_cluster, 37), n + _ALIGNED, long, alpha=-1.0, beta=2.0, ld_pad=_ALIGNED),
        of((0, 3, *(0,) * 30, m - 1, *(0,) * 31, 7, 2), n * along, k),
        of((0, 0, 0), _ALIGNED, k),
        of((2 * m, 9), n, 2 * k + residue, batch_stride_b=0),
        of((9, 12), _ALIGNED, _ALIGNED, ld_pad=FAR, beta=1.0),
    ]
    if rows_of_cluster * (band + 1) * n * along * 2 <= 2**19:
        found.append(of((11, rows_of_cluster * band + 3), n * along + _ALIGNED, k))
    if plan.majors[2] == "N" and plan.majors[1] == "K":  # of rows of D alone, 16 bytes are not a divisor
        found.append(of((m + 3, 20), n - 5, k, beta=1.0))
    return tuple(found)


# --- Sentences and inspect --------------------------------------------------------------------------------------------


_FORMULAS = {
    "contiguous": "D = alpha * A * B + beta * C for each of `batch` groups: group g has rows group_offsets[g] to "
    "group_offsets[g + 1] of A, C\n * and D, which have m rows together, and the matrix g of B. Rows of no group are not written.",
    "masked": "D = alpha * A * B + beta * C for each of `batch` groups: group g has the first group_m[g] rows, m at most, of "
    "the\n * matrices g of A, C and D, and the matrix g of B. The other rows of D are not written.",
}


def text(grouped: str, of_gemm: Text) -> Text:
    """The sentences of a grouped kernel, from those of one without groups."""
    if grouped == "pointers":
        return pointers.text(of_gemm)
    return replace(of_gemm, title=f"grouped {of_gemm.title}", formula=_FORMULAS[grouped])


def rows_of_page(plan: GemmPlan) -> list[pages.Row]:
    """Rows of the section about the schedule."""
    if not plan.scheduler.grouped:
        return []
    if plan.scheduler.describes_groups:
        return pointers.rows_of_page()
    return [
        ("groups", SIZES[plan.scheduler.grouped]),
        ("work tiles", f"found on the device, by prefix sums over windows of {_LANES} groups; none for a group without rows"),
        ("ends of groups", "slices of 64 rows that end beyond a group are stored by threads, all others by TMA"),
    ]
