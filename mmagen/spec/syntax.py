"""What is wrong with a text that is no YAML, and how to write it: the parser notices mistakes late, and names its own states."""

from __future__ import annotations

import re

import yaml

Place = tuple[int, int]

_UNSPACED = re.compile(r"( *)([A-Za-z_]\w*):([^ \t\r\n].*)")
_CHECK = "check the indentation, colons, brackets and quotes here and on the line before"
_CLOSING = {"[": "]", "{": "}"}


def explained(error: yaml.YAMLError, text: str) -> tuple[Place, str, str]:
    """(place, what, remedy) of an error of the parser."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = (getattr(error, "problem", None) or "it cannot be read").replace("\t", "tab")
    context = getattr(error, "context", None)
    what = f"not YAML: {problem}" + (f" ({context})" if context else "")
    lines = text.split("\n")
    line = lines[place[0] - 1] if place[0] <= len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return place, "not YAML: a tab indents the line", "indent with spaces; YAML allows no tabs there"
    return _unspaced(lines, place) or _open(error, lines) or _indented(lines, place, what) or (place, what, _CHECK)


def _unspaced(lines: list[str], place: Place) -> tuple[Place, str, str] | None:
    """The last key up to the place of the error that has no space behind its colon."""
    for number in range(min(place[0], len(lines)), 0, -1):
        if found := _UNSPACED.fullmatch(lines[number - 1].rstrip("\r")):
            indent, key, rest = found.groups()
            what = "a no-break space" if rest[0] == "\u00a0" else "no space"
            at = (number, len(indent) + len(key) + 2)
            return at, f"not YAML: {what} follows the colon of {key}", f"write `{key}: {_short(rest)}`"
    return None


def _open(error: yaml.YAMLError, lines: list[str]) -> tuple[Place, str, str] | None:
    """The list or mapping in brackets in which the error is, unless it ends."""
    mark = getattr(error, "context_mark", None)
    if not mark or mark.line >= len(lines) or "flow" not in (getattr(error, "context", None) or ""):
        return None
    begun = lines[mark.line].rstrip("\r")[mark.column :]
    closing = _CLOSING.get(begun[:1], "")
    missing = begun.count(begun[:1]) - begun.count(closing)
    if not closing or missing < 1:
        return None
    what = f"not YAML: the {begun[0]} is not closed on its line"
    return (mark.line + 1, mark.column + 1), what, f"write `{_short(begun).rstrip(',')}{closing * missing}`"


def _indented(lines: list[str], place: Place, what: str) -> tuple[Place, str, str] | None:
    """A key that begins further right than the one before, which has a value already."""
    line = lines[place[0] - 1] if place[0] <= len(lines) else ""
    before = next((one for one in reversed(lines[: place[0] - 1]) if one.strip() and not one.lstrip().startswith("#")), "")
    less, more = (len(one) - len(one.lstrip(" ")) for one in (before, line))
    if more <= less or not re.match(r" *\w+: +[^\s#]", before) or not re.match(r" *\w+:( |$)", line):
        return None
    return place, what, f"write `{_short(line)}` in column {less + 1}, as the line before, or {_CHECK}"


def _short(text: str) -> str:
    """Without the spaces around it."""
    return text.strip()[:60]
