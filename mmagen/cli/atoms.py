"""`mmagen atoms`: lists the MMA operations, or describes one in full."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from mmagen.cli.outputs import line_width
from mmagen.core.errors import ExitCode, UsageError
from mmagen.core.instead import instead, like_type
from mmagen.mma.catalogue import called, choose_operations, operations

_MOST_PAGES = 4  # of a pattern with more operations, a table


def atoms(
    names: Sequence[str],
    *,
    target: str | None,
    type: str | None,
    shape: str | None,
    kind: str | None,
    family: str | None,
    sparse: bool | None,
    block_scaled: bool | None,
    json: bool,
    full: bool,
) -> ExitCode:
    """Print a page for each operation in `names` (names, patterns, PTX instructions); a table of many, and of those that match the
    filters.

    Raises UsageError for an unknown name, and for filters that match nothing.
    """
    from mmagen.inspect import operations as show

    filters = {
        "target": target,
        "type": type,
        "shape": shape,
        "kind": kind,
        "family": family,
        "sparse": sparse,
        "block_scaled": block_scaled,
    }
    _refuse_unknown_types(type)
    found = list(dict.fromkeys(choose_operations(names, filters, called)))
    if json:
        click.echo("\n".join(map(show.to_json, found)))
    elif names and len(found) <= max(_MOST_PAGES, len(names)):
        click.echo("\n\n\n".join(show.page(operation, full, line_width()) for operation in found))
    else:
        click.echo(show.table(found, line_width()))
    return ExitCode.OK


def _refuse_unknown_types(type: str | None) -> None:
    known = {
        word
        for operation in operations()
        for word in (operation.type_a, operation.type_b, operation.type_d, operation.type_sf)
        if word
    }
    for word in type.split(",") if type else ():
        if word not in known:
            remedy = instead(like_type(word, known), _types_by_kind(sorted(known)), "there are")
            raise UsageError(f"--type {word}: no operation has it; {remedy}")


def _types_by_kind(words: Sequence[str]) -> dict[str, list[str]]:
    kinds = {"scale factors": r"ue.*", "integers": r"[su]\d+", "complex numbers": r".*c\d+", "floating point": r".*"}
    groups: dict[str, list[str]] = {}
    for word in words:
        kind = next(name for name, pattern in kinds.items() if re.fullmatch(pattern, word))
        groups.setdefault(kind, []).append(word)
    return groups
