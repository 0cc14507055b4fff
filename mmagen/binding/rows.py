"""Groups whose rows lie in common matrices (`grouped: contiguous` and `masked`): how many a call has, by the sizes it passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmagen.binding.errors import ArgumentError
from mmagen.binding.further import check_names
from mmagen.binding.matrices import batch_of
from mmagen.plan.arguments import Arguments

TMA_ELEMENTS = 16  # a multiple of 16 bytes, of every type: lines of A and B begin there, which TMA alone loads
_STACKED, _MASKED = ("group_offsets", "group_ends"), ("group_m",)


@dataclass(frozen=True)
class Sizes:
    """The argument that has the sizes of the groups: one of `names`. stacked: A, C and D are one matrix each, for all groups;
    else each group has its own."""

    names: tuple[str, ...]

    @property
    def stacked(self) -> bool:
        return self.names == _STACKED

    def beside(self, name: str) -> int:
        """How many elements the one of this name has beside one for each group."""
        return int(name == "group_offsets")

    def given(self, further: Mapping[str, Any]) -> str:
        """The one of `names` that a call passes. Raises ArgumentError unless it is exactly one."""
        found = [name for name in self.names if further.get(name) is not None]
        if len(found) == 1:
            return found[0]
        both = "int32 group_offsets, groups + 1 of them, or group_ends, one for each group"
        wanted = both if self.stacked else "an int32 for each group, its rows"
        what = f"both it and {found[1]} are given; pass one" if found else f"it is missing; pass {wanted}"
        raise ArgumentError(self.names[0], what)

    def count(self, further: Mapping[str, Any], shape_of: Callable[[str, Any], tuple[int, ...]]) -> int:
        """The number of groups. Raises ArgumentError."""
        name = self.given(further)
        shape = shape_of(name, further[name])
        more = self.beside(name)
        if len(shape) != 1 or shape[0] < more:
            wanted = "(groups + 1,)" if more else "(groups,)"
            raise ArgumentError(name, f"shape {shape}; it is {wanted}")
        return shape[0] - more

    def batch(self, groups: int, counts: Sequence[tuple[str, int | None]], name: str) -> int | None:
        """The matrices of D, None for one. counts: those of a, b and c. name: of the argument that has the sizes.

        Raises ArgumentError where they are not those of so many groups."""
        for argument, count in counts:
            if self.stacked and argument != "b":
                if count is not None:
                    raise ArgumentError(
                        argument, f"{count} matrices; the rows of all groups lie in one, as {name} says: pass a single matrix"
                    )
            elif count not in (None, 1, groups):
                raise ArgumentError(
                    argument, f"{count} matrices, but by {name} there are {groups} groups; pass one for each, or one for all"
                )
        return None if self.stacked else groups


def sizes_of(further: Arguments) -> Sizes | None:
    """Of a kernel with these further arguments; None of one without such groups."""
    named = {one.name for one in further.tensors}
    if "group_lda" in named:  # groups with matrices of their own
        return None
    return next((Sizes(names) for names in (_STACKED, _MASKED) if names[0] in named), None)


def count_and_batch(
    sizes: Sizes | None,
    further: Arguments,
    given: Mapping[str, Any],
    counts: Sequence[tuple[str, int | None]],
    shape_of: Callable[[str, Any], tuple[int, ...]],
) -> tuple[int, int | None]:
    """(groups, or matrices, of a call; the matrices of D, None for one). counts: the matrices of a, b and c.

    Raises ArgumentError."""
    if sizes is None:
        batch = batch_of(counts)
        return (1 if batch is None else batch), batch
    check_names(further, given)
    count = sizes.count(given, shape_of)
    return count, sizes.batch(count, counts, sizes.given(given))
