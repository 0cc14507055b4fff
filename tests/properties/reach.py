"""Which keys and values of the spec's schema a document sets, which there are, and the same document in other words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from mmagen.spec.epilogue import GATHERS, WORDS
from mmagen.spec.model import json_schema

# Keys whose values are names or are checked elsewhere.
_NAMES = ("name", "mmagen")


def settings(document: Any, path: str = "") -> Iterator[str]:
    """`stages`, `schedule=pingpong`, `problems[].groups[][]`: a path that is set, with its value where that is a word or null."""
    if isinstance(document, dict):
        for key, value in document.items():
            below = f"{path}.{key}" if path else str(key)
            yield below
            yield from settings(value, below)
    elif isinstance(document, list):
        for value in document:
            yield f"{path}[]"
            yield from settings(value, f"{path}[]")
    elif document is None or isinstance(document, str):
        yield f"{path}={'null' if document is None else document}"


def possible(schema: dict[str, Any]) -> frozenset[str]:
    """All settings that the JSON Schema of a spec names: each key of each mapping, each word, each null and each list."""
    return frozenset(_possible(schema, schema, ""))


def _possible(part: dict[str, Any], whole: dict[str, Any], path: str) -> Iterator[str]:
    if reference := part.get("$ref"):
        yield from _possible(whole["$defs"][reference.removeprefix("#/$defs/")], whole, path)
        return
    for one in part.get("anyOf", ()):
        yield from _possible(one, whole, path)
    for key, value in part.get("properties", {}).items():
        if key not in _NAMES:
            below = f"{path}.{key}" if path else key
            yield below
            yield from _possible(value, whole, below)
    for item in (*part.get("prefixItems", ()), *([part["items"]] if "items" in part else [])):
        yield f"{path}[]"
        yield from _possible(item, whole, f"{path}[]")
    words = [*part.get("enum", ()), *([part["const"]] if "const" in part else ())]
    yield from (f"{path}={word}" for word in words if isinstance(word, str))
    if part.get("type") == "null":
        yield f"{path}=null"


# --- Other spellings -------------------------------------------------------------------------------------------------


def respelled(dice: random.Random, document: Any, often: float, path: str = "") -> Any:
    """The document with nulls for some of the keys that it lacks, and words of the epilogue as mappings or the reverse. often: the
    part of what could be changed that is."""
    if isinstance(document, list):
        return [respelled(dice, value, often, f"{path}[]") for value in document]
    if path == "epilogue[]" and dice.random() < often:
        document = _other_form(document)
    if not isinstance(document, dict):
        return document
    found = {key: respelled(dice, value, often, f"{path}.{key}" if path else key) for key, value in document.items()}
    lacking = [key for key in _nullable().get(path, ()) if key not in found and dice.random() < often]
    return found | dict.fromkeys(lacking)


def _other_form(entry: Any) -> Any:
    """`relu` for {relu: true} and the reverse; `amax` for {amax: NAME}."""
    if isinstance(entry, str):
        return {entry: True} if entry in WORDS else entry
    return next((word for word in (*WORDS, *GATHERS) if isinstance(entry, dict) and word in entry), entry)


@cache
def _nullable() -> dict[str, tuple[str, ...]]:
    """By the path of a mapping: the keys that may be null."""
    found: dict[str, list[str]] = {}
    for one in sorted(possible(json_schema())):
        if one.endswith("=null") and not one.endswith("[]=null"):
            mapping, _, key = one.removesuffix("=null").rpartition(".")
            found.setdefault(mapping, []).append(key)
    return {mapping: tuple(keys) for mapping, keys in found.items()}
