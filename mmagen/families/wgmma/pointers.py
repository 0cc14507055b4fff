"""`grouped: pointers` of wgmma kernels: many problems in one launch, each with M, N, K and matrices of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from mmagen.core.errors import Fault
from mmagen.mma.atoms import TYPES
from mmagen.plan import pages
from mmagen.plan.arguments import Argument, Arguments, Extent, Tensor
from mmagen.plan.plans import GemmPlan
from mmagen.plan.project import Text
from mmagen.plan.reach import FAR
from mmagen.spec.model import Problem

SIZES = "M, N, K, pointers and leading dimensions of each group, in device memory"


def problem_faults(problems: Sequence[Problem]) -> Iterator[Fault]:
    """Faults of problems: each has groups, none of them larger than the shape."""
    for i, problem in enumerate(problems):
        key, written = ("problems", i), problem.model_dump(mode="json")
        if not problem.groups:
            yield Fault(
                key,
                f"{problem.text} has no groups",
                f"e.g. groups: [{list(problem.shape)}], [M, N, K] of each group",
                {key: {**written, "batch": 1, "groups": [list(problem.shape)]}},
            )
            continue
        shapes = problem.groups.shapes(problem.n, problem.k)
        most = [max(1, *(one[mode] for one in shapes)) for mode in range(3)]
        if any(group > whole for group, whole in zip(most, problem.shape, strict=True)):
            least = [max(group, whole) for group, whole in zip(most, problem.shape, strict=True)]
            yield Fault(
                key,
                f"the groups have up to {'x'.join(map(str, most))}, and shape, the largest M, N and K, is "
                f"{'x'.join(map(str, problem.shape))}",
                f"shape {least}",
                {key: {**written, "shape": least}},
            )
        elif problem.offset:
            yield Fault(
                key,
                f"offset {problem.offset}: A and B of each group begin at multiples of 16 bytes",
                "omit it; with ld_pad, C and D of every other group begin anywhere",
                {key: {**written, "offset": 0}},
            )
        elif strides := [name for name in written if name.startswith("batch_stride") and written[name] is not None]:
            yield Fault(
                key,
                f"{' and '.join(strides)}: with grouped: pointers, each group has matrices anywhere",
                f"omit {'it' if len(strides) == 1 else 'them'}",
                {key: {name: value for name, value in written.items() if name not in strides}},
            )


_OF_EACH = (
    ("group_m", "rows of D of each group, at most m, or NULL: m for all"),
    ("group_n", "columns of D of each group, at most n, or NULL: n for all"),
    ("group_k", "the K of each group, at most k, or NULL: k for all"),
    ("group_lda", "the leading dimension of each A in elements, or NULL: lda for all"),
    ("group_ldb", "the leading dimension of each B, or NULL: ldb for all"),
    ("group_ldc", "the leading dimension of each C, or NULL: ldc for all"),
    ("group_ldd", "the leading dimension of each D, or NULL: ldd for all"),
    (
        "group_status",
        "NULL, or batch int32 that the kernel writes: 0, or why a group was skipped: 1 a negative size, 2 one above that of the "
        "call, 4 a pointer or leading dimension is misaligned, 5 a leading dimension is shorter than a line, 6 a NULL pointer, 7 "
        "an odd n of pairs of columns",
    ),
)


def arguments(others: Arguments) -> Arguments:
    """The arguments of a call for the groups, behind those of other parts of the kernel; a, b, c and d are arrays of pointers."""
    pitches = [
        (f"group_ld_{one.name}", f"the leading dimension of each {one.name}, or NULL: ld_{one.name} for all")
        for one in others.of_groups
        if one.pitched
    ]
    return Arguments(tuple(_vector(name, sentence) for name, sentence in (*_OF_EACH, *pitches)))


def of_groups(others: Arguments) -> Arguments:
    """The arguments of other parts of a kernel: arrays of pointers of what a batch has for each matrix; the others are one for
    all groups."""
    return Arguments(tuple(_of_groups(one) for one in others.all))


def _of_groups(one: Argument) -> Argument:
    if not isinstance(one, Tensor) or not one.batched:
        return one
    return replace(
        one, of_groups=True, batched=False, sentence=f"batch pointers in device memory, one for each group: {one.sentence}"
    )


def _vector(name: str, sentence: str) -> Tensor:
    return Tensor(
        name=name,
        element=TYPES["s32"],
        part="group",
        rows=Extent(),
        columns=Extent("batch"),
        sentence=sentence if name == "group_status" else f"batch int32: {sentence}",
        batched=False,
        access="write" if name == "group_status" else "read",
        required=False,
    )


# --- Problems --------------------------------------------------------------------------------------------------------


def _of(shapes: Sequence[tuple[int, int, int]], **more: Any) -> Problem:
    most = tuple(max(1, *(one[mode] for one in shapes)) for mode in range(3))
    return Problem.model_validate({"shape": most, "groups": [list(one) for one in shapes], **more})


@cache
def default_problems() -> tuple[Problem, ...]:
    """Groups of any size, without rows, columns or a K, more than a window of them; and sizes that fill a GPU."""
    return (
        _of(
            ((70, 272, 144), (0, 64, 64), (129, 33, 80), (64, 0, 16), (200, 100, 0), (1, 1, 1)), alpha=2.0, beta=-1.0, ld_pad=8
        ),
        _of(((17, 40, 200), (300, 264, 72)) * 20, beta=1.0, ld_pad=5),
        _of(((0, 16, 16),)),
        _of(tuple((128 << i % 4, 4096, 512 << i % 3) for i in range(24))),
        _of(tuple((4096 - 256 * i, 2048 + 128 * i, 4096) for i in range(8))),
        _of(((256, 512, 1024),) * 128),
    )


def trial_problems(plan: GemmPlan) -> tuple[Problem, ...]:
    """The problems that verify emulates: extents that differ in every mode, empty ones among them, C and D that TMA can and
    cannot address, in several windows of the tile scheduler and several bands."""
    m, n, k = plan.tile_of_d
    across, along = plan.cluster_of_d
    rows, columns, long = m * across, n * along, k * (plan.stages + 1)
    found = [
        _of(
            ((m + 5, n + 3, long), (0, n, k), (37, 21, k + 7), (m, 0, k), (rows, columns + 16, 2 * k), (19, 40, 0), (1, 1, 1)),
            alpha=-1.0,
            beta=2.0,
            ld_pad=3,
        ),
        _of(((3, 8, k), *((0, 8, 8),) * 32, (m - 1, n, 3 * k), *((8, 0, 8),) * 30, (7, 24, 16), (2, n - 8, k))),
        _of(((0, 8, 8), (8, 0, 8))),
        _of(((16, 16, 8), (13, 12, 8)), ld_pad=FAR, beta=1.0),
        _of(tuple((17 + i, 20 + 2 * i, k) for i in range(8)), beta=1.0, ld_pad=3),  # one for each placement of C and D
    ]
    if rows * (plan.scheduler.raster_group + 1) * columns * 2 <= 2**19:
        found.append(_of(((rows * plan.scheduler.raster_group + 3, columns + 16, k), (11, n, 2 * k))))
    return tuple(found)


# --- Sentences and inspect --------------------------------------------------------------------------------------------


def text(of_gemm: Text) -> Text:
    """The sentences of a kernel of groups with matrices of their own, from those of one without groups."""
    return replace(
        of_gemm,
        title=f"grouped {of_gemm.title}",
        formula="D = alpha * A * B + beta * C for each of `batch` groups, each with M, N and K of its own: a, b, c and d are\n"
        " * arrays of `batch` pointers in device memory, and m, n and k are the largest of any group. A and B of each begin at\n"
        " * multiples of 16 bytes, and so do their lines. Of a group with K = 0 D is beta * C; one without rows or columns is not\n"
        " * written.",
    )


def rows_of_page() -> list[pages.Row]:
    """Rows of the section about the schedule."""
    return [
        ("groups", SIZES),
        (
            "tensor maps",
            "a preceding kernel replaces pointer, extents and stride in copies of the four maps, one set for each group",
        ),
        (
            "work tiles",
            "found on the device, by prefix sums over windows of 32 groups; none for a group without rows or columns",
        ),
    ]
