"""What torch's functions that put the dimensions of a tensor into another order do to the last two."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

FUNCTIONS = ("t", "transpose", "swapaxes", "swapdims", "permute")
_NAMED = {"transpose": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1"), "swapdims": ("dim0", "dim1"), "permute": ("dims",)}
_UNFIT = "only the last two dimensions of a tensor can be exchanged"


def exchanged(name: str, rank: int, given: Sequence[ast.expr], named: Mapping[str | None, ast.expr]) -> bool:
    """Are they exchanged? False if all dimensions stay where they are. name: one of FUNCTIONS, or T; rank: of the tensor; given,
    named: the arguments besides it. Raises ValueError for any other order."""
    if name in ("t", "T"):
        if rank != 2:
            instead = f"{rank} dimensions; .mT exchanges the last two" if rank > 2 else "fewer dimensions"
            raise ValueError(f"{name} needs a matrix, and this tensor has {instead}")
        return True
    parts = [*given, *(named[word] for word in _NAMED[name] if word in named)]
    if name == "permute" and len(parts) == 1 and isinstance(parts[0], ast.Tuple | ast.List):
        parts = parts[0].elts
    found = [_dimension(one, rank) for one in parts]
    if name != "permute":
        if len(found) != 2:
            raise ValueError(f"{name} needs two dimensions, e.g. {name}(-2, -1)")
        first, second = found
        found = [{first: second, second: first}.get(at, at) for at in range(rank)]
    if found not in ([*range(rank)], [*range(rank - 2), rank - 1, rank - 2]):
        raise ValueError(_UNFIT)
    return found != [*range(rank)]


def _dimension(node: ast.expr, rank: int) -> int:
    """From 0, of a number that may count from the end."""
    try:
        at = ast.literal_eval(node)
    except (ValueError, TypeError):  # TypeError: a literal that Python cannot make, as a set of lists
        raise ValueError(_UNFIT) from None
    if type(at) is not int or not -rank <= at < rank:
        raise ValueError(_UNFIT)
    return int(at % rank)
