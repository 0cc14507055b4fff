"""The directives between the parameters of an entry and its body."""

from __future__ import annotations

import re

from mmagen.emulate.ptx.model import Limits

_DIRECTIVE = re.compile(r"\.(maxntid|reqntid|maxnreg|minnctapersm|reqnctapercluster|maxclusterrank)\s+([\d\s,]+)")


def limits_of(header: str) -> Limits:
    """What the text before an entry's body says of its launches. Extents that are not given are 1."""
    given = {name: tuple(map(int, re.findall(r"\d+", values))) for name, values in _DIRECTIVE.findall(header)}

    def extents(name: str) -> tuple[int, ...]:
        return (*given[name], 1, 1)[:3] if name in given else ()

    def first(name: str) -> int:
        return given.get(name, (0,))[0]

    largest = (*extents("maxntid"), 0)
    return Limits(
        max_threads=largest[0] * largest[1] * largest[2] if "maxntid" in given else 0,
        threads=extents("reqntid"),
        cluster=extents("reqnctapercluster"),
        explicit_cluster=".explicitcluster" in header,
        max_cluster=first("maxclusterrank"),
        max_registers=first("maxnreg"),
        min_ctas=first("minnctapersm"),
    )
