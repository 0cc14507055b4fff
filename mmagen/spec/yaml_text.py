"""YAML text to plain data, with the location of every value; YAML features that no spec may use are refused.

The text is read as a stream of parser events, not as a node graph: duplicate keys, tags and aliases are refused where they
occur, and no file can cause recursion or expansion.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from mmagen.core.errors import Diagnostic, Key, SpecError
from mmagen.spec.syntax import Place, explained

MAX_BYTES = 256 * 1024
MAX_DEPTH = 16
_TOO_DEEP = f"lists and mappings nest deeper than {MAX_DEPTH}"
_DEEPEST = "no part of a spec nests deeper than 3"
MAX_NUMBER = 400  # characters
MAX_KEY = 128  # characters
# libyaml's binding parses about ten times faster than the Python code; both give the same events.
Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_PLAIN_VALUES = "write plain numbers, words, lists and mappings only"
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Numbers in other YAML versions, text in YAML 1.1.
_NUMBER_LIKE = re.compile(r"[-+]?([0-9]*\.?[0-9]+|[0-9]+\.)[eE][-+]?[0-9]+|[-+]\.[0-9]+|0o[0-7]+")


# The key whose value is a ratio such as 2:4, which YAML 1.1 reads as a number of base 60; other YAML versions read text.
_RATIO_KEY = "sparse"
_RATIO = re.compile(r"[1-9]:[1-9]")


class _Opaque:
    """Placeholder for a value that YAML reads in a surprising way, or that was already refused; valid for no field."""


_OPAQUE = _Opaque()


@dataclass
class _Frame:
    """A list or mapping that is still open."""

    value: list[Any] | dict[str, Any]
    path: Key
    kept: bool  # False inside a refused value: checked for faults, but discarded
    in_key: bool = False  # True for `? [a, b]`, a list or mapping used as a key
    first: dict[str, Place] = field(default_factory=dict)  # mapping: location of each key
    key: tuple[str, bool] | None = None  # mapping: the key whose value comes next, and whether it is kept


class Document:
    """One pass over the events: plain data, its locations, and the faults found.

    readings: key path -> YAML's reading of a value that looks like something else; empty if a fault was recorded. broken: there
    is no mapping to validate.
    """

    def __init__(self, file: str):
        self.file = file
        self.value: Any = None
        self.marks: dict[Key, Place] = {}
        self.key_marks: dict[Key, Place] = {}
        self.readings: dict[Key, str] = {}
        self.diagnostics: list[Diagnostic] = []
        self.broken = False
        self._stack: list[_Frame] = []
        self._anchors: dict[str, list[Place]] = {}  # each with the places of its aliases
        self._anchored: dict[str, tuple[Place, Key]] = {}  # where each stands

    def read(self, text: str) -> None:
        """Parse `text` into `value`; faults are added to `diagnostics`."""
        loader = Loader(text)
        documents = 0
        try:
            while loader.check_event() and not self.broken:
                event = loader.get_event()
                if isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        self._break(_place(event.start_mark), "a second document begins", "write one spec per file")
                else:
                    self._take(event, loader)
        except yaml.YAMLError as error:
            self._break(*(_too_deep(error) or explained(error, text)))
        finally:
            loader.dispose()
        self._refuse_anchors()
        remedy = "a spec is a mapping and begins with `mmagen: 1`"
        if self.broken:
            return
        if self.value is None or not documents:
            self._break(self.marks.get((), (1, 1)), "the file is empty", remedy)
        elif not isinstance(self.value, dict):
            kind = "a list" if isinstance(self.value, list) else "a single value"
            self._break(self.marks[()], f"the document is {kind}", remedy)

    def _break(self, place: Place, what: str, remedy: str) -> None:
        self.broken = True
        self._refuse(place, (), what, remedy)

    def _refuse(self, place: Place, key: Key, what: str, remedy: str) -> None:
        self.diagnostics.append(Diagnostic(self.file, *place, key, what, remedy))

    def _refuse_anchors(self) -> None:
        """Once for each anchor, with its aliases: a file that uses one has it in many places."""
        for name, aliases in self._anchors.items():
            place, path = self._anchored[name]
            more = f", nor are its {len(aliases)} aliases, the first at line {aliases[0][0]}" if len(aliases) > 1 else ""
            more = f", nor is its alias at line {aliases[0][0]}" if len(aliases) == 1 else more
            remedy = "write the value out in each place" if aliases else f"omit it; {_PLAIN_VALUES}"
            self._refuse(place, path, f"the anchor &{name} is not allowed{more}", remedy)

    def _take(self, event: Any, loader: Any) -> None:
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            frame = self._stack.pop()
            if not frame.in_key:
                self._put(frame.value)
            return
        if not isinstance(event, yaml.NodeEvent):
            return
        place = _place(event.start_mark)
        parent = self._stack[-1] if self._stack else None
        if parent and isinstance(parent.value, dict) and parent.key is None:
            self._take_key(parent, event, place, loader)
            return
        path, kept = self._next(parent)
        if kept:
            self.marks[path] = place
        if self._check_extras(event, place, path) and kept:
            self.readings[path] = ""
        if isinstance(event, yaml.ScalarEvent):
            value, reading = _scalar(event, loader, path[-1:] == (_RATIO_KEY,))
            if kept and reading:
                self.readings[path] = reading
            self._put(value)
        elif isinstance(event, yaml.AliasEvent):
            self._put(_OPAQUE)
        else:
            self._open(event, _Frame([] if isinstance(event, yaml.SequenceStartEvent) else {}, path, kept))

    def _next(self, frame: _Frame | None) -> tuple[Key, bool]:
        """Path of the next value, and whether it is kept."""
        if frame is None:
            return (), True
        if isinstance(frame.value, list):
            return (*frame.path, len(frame.value)), frame.kept
        assert frame.key is not None
        return (*frame.path, frame.key[0]), frame.kept and frame.key[1]

    def _open(self, event: Any, frame: _Frame) -> None:
        if len(self._stack) == MAX_DEPTH:
            self._break(_place(event.start_mark), _TOO_DEEP, _DEEPEST)
            return
        self._stack.append(frame)

    def _put(self, value: Any) -> None:
        if not self._stack:
            self.value = value
            return
        frame = self._stack[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is not None:
            name, kept = frame.key
            frame.key = None
            if kept:
                frame.value[name] = value

    def _take_key(self, frame: _Frame, event: Any, place: Place, loader: Any) -> None:
        frame.key = ("?", False)
        if not isinstance(event, yaml.ScalarEvent):
            self._check_extras(event, place, frame.path)
            if not isinstance(event, yaml.AliasEvent):
                self._refuse(place, frame.path, "a list or mapping is used as a key", "keys are plain words")
                container: list[Any] | dict[str, Any] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
                self._open(event, _Frame(container, frame.path, kept=False, in_key=True))
            return
        name = event.value
        if len(name) > MAX_KEY or not name.isprintable():
            self._refuse(place, frame.path, f"{show(name)} is not a key of a spec", "keys are plain words")
            return
        path = (*frame.path, name)
        self._check_extras(event, place, path)
        tag = _tag(event, loader)
        if tag == "merge":
            self._refuse(place, path, "merge keys are not allowed", "write out the merged keys")
        elif tag != "str":
            what = f"YAML reads the key {name or 'that is missing here'} as {_noun(tag, name)}, but keys are words"
            self._refuse(place, path, what, "quote it, or use one of the known keys")
        elif name in frame.first:
            line, column = frame.first[name]
            what = f"the key is a duplicate, first at line {line}, column {column}"
            self._refuse(place, path, what, "remove one of the two")
        else:
            frame.key = (name, True)
            frame.first[name] = place
            if frame.kept:
                self.key_marks[path] = place
            return
        frame.key = (name, False)

    def _check_extras(self, event: Any, place: Place, path: Key) -> bool:
        """Refuse tags, anchors and aliases, which no spec needs and which make YAML files unsafe. True for an alias or a tag,
        whose value cannot be checked further."""
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in self._anchors:
                self._anchors[event.anchor].append(place)
            else:
                self._refuse(place, path, f"the alias *{event.anchor} is not allowed", "write the value out")
            return True
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!", 1)[:80]
            self._refuse(place, path, f"the tag {tag} is not allowed", f"omit it; {_PLAIN_VALUES}")
        if event.anchor is not None:
            self._anchors.setdefault(event.anchor, [])
            self._anchored.setdefault(event.anchor, (place, path))
        return event.tag is not None


def _too_deep(error: yaml.YAMLError) -> tuple[Place, str, str] | None:
    """libyaml reads ahead, and from 0.2.6 on refuses a depth of 1000 before it says that the first list begins."""
    if isinstance(error, yaml.MarkedYAMLError) and "nesting depth" in (error.problem or ""):
        return _place(error.problem_mark), _TOO_DEEP, _DEEPEST
    return None


def _place(mark: Any) -> Place:
    return mark.line + 1, mark.column + 1


def _tag(event: Any, loader: Any) -> str:
    """The implicit YAML type of an untagged scalar: str, int, bool, null, timestamp, …"""
    if event.tag is not None:
        return "str"
    tag = loader.resolve(yaml.ScalarNode, event.value, event.implicit).rpartition(":")[2]
    return "str" if tag == "value" else tag  # a lone `=`


def _noun(tag: str, text: str) -> str:
    """How YAML 1.1 reads an unquoted `text`."""
    digits = text.lstrip("+-").replace("_", "")
    if tag == "int":
        if len(text) > MAX_NUMBER:
            return f"a number of {len(digits)} digits"
        if ":" in digits:
            parts = [int(part) for part in digits.split(":")]
            return f"the base 60 number {sum(part * 60**i for i, part in enumerate(reversed(parts)))}"
        if digits.startswith("0b"):
            return f"the binary number {int(digits, 2)}"
        if len(digits) > 1 and digits[0] == "0" and digits.isdecimal():
            return f"the octal number {int(digits, 8)}"
        return f"the number {digits}"
    if tag == "bool":
        return f"the truth value {'true' if text.lower() in ('yes', 'true', 'on') else 'false'}"
    nouns = {"float": "a number", "timestamp": "a date", "null": "nothing", "merge": "a merge key"}
    return nouns.get(tag, "text, not as a number")


def _surprising(tag: str, text: str) -> bool:
    """Would the writer of an unquoted `text`, or another YAML tool, read it differently?"""
    if tag == "int":
        odd = "_" in text or ":" in text or re.match(r"[-+]?0[0-7b]", text)
        return bool(odd) or len(text) > MAX_NUMBER
    if tag == "float":
        return "_" in text or ":" in text
    if tag == "str":
        return _NUMBER_LIKE.fullmatch(text) is not None
    return tag in ("bool", "timestamp", "merge")


def _scalar(event: Any, loader: Any, ratio: bool) -> tuple[Any, str]:
    """The value, and YAML's reading of it if that is surprising. ratio: a value such as 2:4 is text."""
    text = event.value
    if event.tag is not None:
        return _OPAQUE, ""
    tag = _tag(event, loader)
    if ratio and event.implicit[0] and _RATIO.fullmatch(text):
        return text, ""
    if event.implicit[0] and _surprising(tag, text):
        if text in ("true", "false"):
            return _OPAQUE, f"{text} is a truth value"
        return _OPAQUE, f"YAML reads the unquoted {text[:60]} as {_noun(tag, text)}"
    if tag == "null":
        return None, ""
    if tag == "int":
        return int(text, 0), ""
    if tag == "float":
        return float(re.sub(r"\.(inf|nan)", r"\1", text.lower())), ""
    return text, ""


def decode(data: bytes | str, file: str) -> str:
    """The text of a file, without its byte order mark. Raises SpecError if it is too large or not text."""

    def refuse(what: str, remedy: str, place: Place = (1, 1)) -> SpecError:
        return SpecError((Diagnostic(file, *place, (), what, remedy),))

    if len(data) > MAX_BYTES:
        raise refuse(f"the file is larger than {MAX_BYTES // 1024} KiB", "a spec is a page of YAML; is this the file?")
    if ("\0" if isinstance(data, str) else b"\0") in data:  # type: ignore[operator]
        raise refuse("this is a binary file or UTF-16", "a spec is YAML text in UTF-8")
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        text.encode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")  # type: ignore[union-attr]
        raise refuse(f"byte 0x{error.object[error.start]:02x} is not UTF-8", "save it as UTF-8", _end(before)) from None
    except UnicodeEncodeError as error:
        raise refuse("a lone surrogate is not a character", "save it as UTF-8", _end(text[: error.start])) from None
    text = text.removeprefix("\ufeff")
    odd = _UNPRINTABLE.search(text)
    if odd:
        what = f"the character U+{ord(odd[0]):04X} is not allowed in YAML"
        raise refuse(what, "remove it, or save the file as plain text", _end(text[: odd.start()]))
    return text


def _end(before: str) -> Place:
    """The location of the character that follows `before`."""
    lines = re.split("\r\n|\r|\n", before)
    return len(lines), len(lines[-1]) + 1


def show(value: Any) -> str:
    """A value for a message: one line, escaped, about 60 characters at most."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:50]}… ({len(text)} characters)"
