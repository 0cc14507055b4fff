"""PTX text, without comments, -> statements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from mmagen.emulate.errors import EmulationError

LABEL = re.compile(r"([$\w%]+)\s*:(?!:)")
_MARK = re.compile(r"[;{}]")
# Directives that end with their line, some of them with a ";".
_LINES = (".loc", ".file", ".pragma", ".version", ".target", ".address_size")


def statements_of(text: str, fail: Callable[[int, str, str], EmulationError]) -> Iterator[tuple[int, str, str]]:
    """Yields (line, kind, statement): kind "{" with the header before it, "}" or ";" for anything else.

    Braces inside a statement (vectors, initialisers) belong to it; directives that end with their line have no ";".
    """
    pending, start, depth = "", 0, 0
    for number, line in enumerate(text.split("\n"), 1):
        rest = line.strip()
        if rest.startswith(".section"):
            break  # debug information follows to the end
        if not pending and rest.startswith(".") and rest.split(None, 1)[0] in _LINES:
            yield number, ";", rest.rstrip(";").strip()
            continue
        while rest:
            if not pending:
                start = number
                if rest[0] in "{}":
                    yield number, rest[0], ""
                    rest = rest[1:].lstrip()
                    continue
                if found := LABEL.match(rest):
                    yield number, ";", found.group(0).strip()
                    rest = rest[found.end() :].lstrip()
                    continue
            cut = _MARK.search(rest)
            if cut is None:
                pending, rest = f"{pending}{rest} ", ""
                continue
            piece, mark, rest = rest[: cut.start()], cut.group(0), rest[cut.end() :].lstrip()
            pending += piece
            if mark == "{":
                if depth == 0 and re.search(r"\.(entry|func)\b", pending):
                    yield start, "{", pending.strip()
                    pending = ""
                else:
                    pending, depth = pending + "{", depth + 1
            elif mark == "}":
                if depth == 0:
                    raise fail(start, pending, "no ';' before '}'")
                pending, depth = pending + "} ", depth - 1
            else:
                if depth:
                    raise fail(start, pending, "an unclosed '{'")
                if pending.strip():
                    yield start, ";", pending.strip()
                pending = ""
    if pending.strip():
        raise fail(start, pending, "the text ends in the middle of a statement")
