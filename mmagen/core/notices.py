"""Remarks for the user that are no errors, e.g. that the cache is not used. The command line prints them, each once."""

from __future__ import annotations

_texts: dict[str, None] = {}


def notice(text: str) -> None:
    """Remember a remark; the same text again adds nothing."""
    _texts.setdefault(text)


def take_notices() -> list[str]:
    """The remarks so far, in their order, which are then forgotten."""
    texts = list(_texts)
    _texts.clear()
    return texts
