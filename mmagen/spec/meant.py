"""What a value of the wrong form was probably meant to be: numbers in other notations, lists without their brackets."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from mmagen.core.errors import Key
from mmagen.core.layout_text import MAX_TEXT, LayoutText

_NUMBERS = re.compile(r"[0-9]+(?:\s*[x,;*/\s]\s*[0-9]+)*")  # 128x128x32, (128, 128, 32)
# What a list of M and N alone lacks.
_LAST = {"tile": 32, "atoms_layout": 1, "permutation": None}
_LENGTHS = {"tile": (3,), "atoms_layout": (3,), "permutation": (3,), "cluster": (2,), "shape": (3,), "problems": (3, 4)}
_MOST_DIGITS = 9
_MOST_CHARACTERS = 64


def meant(key: Key, value: Any) -> Any:
    """A value of the right form; None where nothing suggests one. key: of the value. It may break other rules."""
    name = next((part for part in reversed(key) if isinstance(part, str)), "")
    if isinstance(key[-1] if key else None, int) and name != "problems":
        return _architecture(value) if name == "arch" else _integer(value)
    if name == "arch":
        found = _architecture(value)
        return [found] if found else None
    if name == "epilogue" and isinstance(value, str):
        return {"out": value} if re.fullmatch(r"[a-z]+[0-9]+[a-z0-9]*", value) else None
    if name not in _LENGTHS:
        return _integer(value)
    if isinstance(value, list):
        whole = [_integer(entry) for entry in value]
        return [*whole, _LAST[name]] if len(value) == 2 and None not in whole and name in _LAST else None
    numbers = _integers(value)
    return numbers if numbers and len(numbers) in _LENGTHS[name] else None


def problem_of(value: Any) -> list[list[int]] | None:
    """The problems of `problems: [M, N, K]`, which lacks a pair of brackets."""
    numbers = [_integer(entry) for entry in value] if isinstance(value, list) else []
    return [[n for n in numbers if n is not None]] if len(numbers) in (3, 4) and None not in numbers else None


def layout_of(text: str) -> str:
    """A CuTe layout with the parentheses that it lacks at the end of shape and stride, "" where that makes none."""
    if len(text) > MAX_TEXT:
        return ""
    closed = ":".join(part + ")" * (part.count("(") - part.count(")")) for part in text.split(":"))
    try:
        LayoutText.parse(closed)
    except ValueError:
        return ""
    return closed


def name_of(text: str) -> str:
    """A C identifier that resembles the text, "" if too little of it is left."""
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode()
    words = re.sub(r"[^A-Za-z0-9]+", "_", plain).strip("_").lstrip("0123456789_")
    return words[:_MOST_CHARACTERS]


def _integer(value: Any) -> int | None:
    """Of 128.0, "128" and digits of other scripts."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 10**_MOST_DIGITS:
        return int(value)
    text = value.strip() if isinstance(value, str) else ""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _integers(value: Any) -> list[int]:
    """Of numbers in one text."""
    text = value.strip().strip("()[]{}").strip().lower().replace("\u00d7", "x") if isinstance(value, str) else ""
    if len(text) > _MOST_CHARACTERS or not _NUMBERS.fullmatch(text):
        return []
    return [int(digits[:_MOST_DIGITS]) for digits in re.findall(r"[0-9]+", text)]


def _architecture(value: Any) -> str:
    """sm_80 of sm80, SM80, compute_80, 80 and "8.0"."""
    found = re.fullmatch(r"(?:sm|compute)?[_ ]?([0-9]{1,2})\.?([0-9])([af]?)", str(value).lower())
    return f"sm_{found[1]}{found[2]}{found[3]}" if found else ""
