"""Legal values instead of keys and values that the spec format refuses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from mmagen.core.errors import ABSENT, Change, Key
from mmagen.spec.meant import meant, problem_of

# Keys that have no default, with a value; what depends on the atom is mended by the rules of its family.
_REQUIRED = {
    "mmagen": 1,
    "name": "unnamed",
    "kernel": "gemm",
    "atom": "SM80_16x8x16_F32F16F16F32_TN",
    "tile": [128, 128, 32],
    "shape": [256, 256, 128],
}
# Keys by what CUTLASS, Triton and others call them.
_CALLED_ELSEWHERE = {
    "stages": ("pipeline", "pipeline_stages", "num_stages", "nstages", "stage_count", "depth"),
    "tile": ("cta_tile", "block_tile", "tile_shape", "threadblock", "threadblock_shape", "block", "block_shape", "blocktile"),
    "atom": ("mma", "mma_atom", "instruction", "op", "mma_op"),
    "atoms_layout": ("warps", "num_warps", "warp_layout", "warp_count", "atom_layout", "atom_layout_mnk"),
    "permutation": ("permutations", "permutation_mnk", "tiled_mma"),
    "cluster": ("cluster_shape", "cluster_size"),
    "raster": ("swizzle", "group_m", "group_size_m", "raster_order"),
    "schedule": ("kernel_schedule", "mainloop_schedule"),
    "split_k": ("splitk", "split_k_slices", "splits"),
    "problems": ("problem", "shapes", "sizes", "problem_size"),
    "arch": ("archs", "target", "targets", "sm", "compute_capability"),
    "layout": ("layouts", "transpose", "trans", "majors"),
    "epilogue": ("out", "output", "epilog"),
}
_REQUIRED_BELOW = ("name", "shape")  # of a config and a problem


def without_unknown(key: Key, value: Any, known: Sequence[str], document: Any) -> Change:
    """The known key of that spelling, unless the spec has it; else none."""
    near = near_keys(str(key[-1]), known)
    around = document
    for part in key[:-1]:
        around = around[part]
    if near and near[0] not in around and _fits(near[0], value):
        return {key: ABSENT, (*key[:-1], near[0]): value}
    return {key: ABSENT}


def near_keys(word: str, known: Sequence[str]) -> list[str]:
    """The known key that other tools call so, or of nearly the same spelling; [] if there is none."""
    plain = word.lower().replace("-", "_")
    meant = [key for key, words in _CALLED_ELSEWHERE.items() if plain in words and key in known]
    return meant or difflib.get_close_matches(plain, known, n=1)


def _fits(key: str, value: Any) -> bool:
    """Can a value that was given under another name be one of that key's?"""
    return not isinstance(value, dict) or key in ("layout", "epilogue", "cache")


def near_words(value: Any, context: dict[str, Any]) -> tuple[list[str], list[str]]:
    """All words that are legal, and those of nearly the same spelling."""
    words = re.findall(r"'([^']+)'", context["expected"])
    spellings = (str(value)[:60].lower(), str(value)[:60].upper())
    written = [word for word in words if word.lower() == str(value).lower()]
    return words, written or [near for text in spellings for near in difflib.get_close_matches(text, words, n=1)]


def legal_value(key: Key, kind: str, value: Any, context: dict[str, Any], document: Any) -> Change:
    """A legal value for a refused one: the nearest, else none, which stands for the default. kind, context: pydantic's. document:
    the whole spec."""
    if kind == "greater_than_equal":
        return {key: context["ge"]}
    if kind == "less_than_equal":
        return {key: context["le"]}
    if kind == "literal_error":
        words, near = near_words(value, context)
        return {key: (near or words)[0]}
    if context.get("meant"):
        return {key: context["meant"]}
    found = meant(key, value)
    if found is not None and (type(found), found) != (type(value), value):
        return {key: found}
    if key[:1] == ("problems",) and (problems := problem_of(document.get("problems"))):
        return {key[:1]: problems}
    if kind != "missing" and len(key) == 2 and key[0] == "epilogue" and isinstance(key[1], int):
        return {key: ABSENT}  # of a list of operations that one alone
    named = [i for i, part in enumerate(key) if isinstance(part, str)]
    whole = key[: named[-1] + 1] if named else key  # of tile[1], the tile
    required = _REQUIRED_BELOW if len(whole) > 1 else tuple(_REQUIRED)
    if whole and whole[-1] in required:
        return {whole: _REQUIRED[str(whole[-1])]}
    return {whole[:-1] if kind == "missing" else whole: ABSENT}
