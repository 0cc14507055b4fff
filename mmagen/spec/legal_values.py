"""Legal values instead of keys and values that the spec format refuses."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from mmagen.core.errors import ABSENT, Change, Key

# Keys that have no default, with a value; what depends on the atom is mended by the rules of its family.
_REQUIRED = {
    "mmagen": 1,
    "name": "unnamed",
    "kernel": "gemm",
    "atom": "SM80_16x8x16_F32F16F16F32_TN",
    "tile": [128, 128, 32],
    "shape": [256, 256, 128],
}
_REQUIRED_BELOW = ("name", "shape")  # of a config and a problem


def without_unknown(key: Key, value: Any, known: Sequence[str], document: Any) -> Change:
    """The known key of that spelling, unless the spec has it; else none."""
    near = difflib.get_close_matches(str(key[-1]), known, n=1)
    around = document
    for part in key[:-1]:
        around = around[part]
    if near and near[0] not in around:
        return {key: ABSENT, (*key[:-1], near[0]): value}
    return {key: ABSENT}


def near_words(value: Any, context: dict[str, Any]) -> tuple[list[str], list[str]]:
    """All words that are legal, and those of nearly the same spelling."""
    words = re.findall(r"'([^']+)'", context["expected"])
    spellings = (str(value)[:60].lower(), str(value)[:60].upper())
    return words, [near for text in spellings for near in difflib.get_close_matches(text, words, n=1)]


def legal_value(key: Key, kind: str, value: Any, context: dict[str, Any]) -> Change:
    """A legal value for a refused one: the nearest, else none, which stands for the default. kind, context: pydantic's."""
    if kind == "greater_than_equal":
        return {key: context["ge"]}
    if kind == "less_than_equal":
        return {key: context["le"]}
    if kind == "literal_error":
        words, near = near_words(value, context)
        return {key: (near or words)[0]}
    named = [i for i, part in enumerate(key) if isinstance(part, str)]
    whole = key[: named[-1] + 1] if named else key  # of tile[1], the tile
    required = _REQUIRED_BELOW if len(whole) > 1 else tuple(_REQUIRED)
    if whole and whole[-1] in required:
        return {whole: _REQUIRED[str(whole[-1])]}
    return {whole[:-1] if kind == "missing" else whole: ABSENT}
