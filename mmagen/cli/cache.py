"""Implements `mmagen cache`; the work is done in mmagen.core.upkeep."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import click

from mmagen.cli.outputs import line_width, show
from mmagen.core.cache import cache_root
from mmagen.core.errors import ExitCode, UsageError
from mmagen.core.screen import table
from mmagen.core.upkeep import KINDS, Item, items
from mmagen.core.upkeep import clear as clear_all
from mmagen.core.upkeep import prune as prune_items

_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([kKMGT]?)i?B?$")
_UNITS = {"": 1, "k": 1024, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def info() -> ExitCode:
    """Print where the cache is, and for each kind of entry how many there are, their size, and when one was last used."""
    found = items(cache_root())
    rows = []
    for kind, what in KINDS.items():
        of_kind = [item for item in found if item.kind == kind]
        if of_kind:
            rows.append([kind, what, str(len(of_kind)), shown(sum(item.bytes for item in of_kind)), _ago(of_kind)])
    show(f"{cache_root()}\n")
    if cache_root().exists() and not cache_root().is_dir():
        show("no folder: nothing is kept; name one in MMAGEN_CACHE_DIR")
        return ExitCode.OK
    if not rows:
        show("empty")
        return ExitCode.OK
    heads = ("kind", "contents", "entries", "size", "last used")
    click.echo(table(heads, rows, line_width(), right=("entries", "size")))
    show(f"\n{shown(sum(item.bytes for item in found))} in {_entries(len(found))}")
    show("Keys: the content of every file that the compilers read, the compilers,\ntheir flags and environment")
    return ExitCode.OK


def prune(days: float | None, size: str | None) -> ExitCode:
    """Remove entries that were not used for long, or the longest unused above a size. Raises UsageError for a size that is none."""
    most = size_in_bytes(size) if size is not None else None
    if days is None and most is None:
        days = 30.0
    _report(prune_items(cache_root(), time.time(), days, most))
    return ExitCode.OK


def clear() -> ExitCode:
    """Remove all entries."""
    _report(clear_all(cache_root()))
    return ExitCode.OK


def size_in_bytes(text: str) -> int:
    """Of "500M" or "2 GiB". Raises UsageError."""
    match = _SIZE.match(text.strip())
    if not match:
        raise UsageError(f"--max-size {text!r} is not a size; write it like 500M or 2G")
    if match[0] == match[1] and 0 < float(match[1]) < _UNITS["M"]:  # of so few bytes nothing is left
        raise UsageError(f"--max-size {text} has no unit; write {text}M or {text}G")
    return int(float(match[1]) * _UNITS[match[2]])


def shown(size: int) -> str:
    """ "12.3 MB", in powers of 1024."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1024 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def _ago(of_kind: Sequence[Item]) -> str:
    days = (time.time() - max(item.used for item in of_kind)) / 86400
    return "today" if days < 1 else f"{days:.0f} day{'s' * (days >= 1.5)} ago"


def _report(removed: Sequence[Item]) -> None:
    show(f"{cache_root()}: removed {_entries(len(removed))}, {shown(sum(item.bytes for item in removed))}")


def _entries(count: int) -> str:
    return f"{count} entr{'y' if count == 1 else 'ies'}"
