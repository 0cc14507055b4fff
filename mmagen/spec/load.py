"""YAML text to `Spec`: all faults of a file are found in one run, each with line and column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from mmagen.core.errors import ABSENT, Diagnostic, Fault, Key, SpecError
from mmagen.core.instead import did_you_mean, instead
from mmagen.spec.legal_values import legal_value, near_keys, near_words, without_unknown
from mmagen.spec.model import Spec, grouped_keys
from mmagen.spec.syntax import Place
from mmagen.spec.values import REFUSED
from mmagen.spec.yaml_text import Document, decode, show

_ATOMS = ("atoms_layout",)
_NOT = {
    "int_type": "is not an integer",
    "float_type": "is not a number",
    "finite_number": "is not finite",
    "string_type": "is not text",
    "string_pattern_mismatch": "has the wrong form",
    "tuple_type": "is not a list",
    "permutation_type": "is neither an integer, null nor a layout",
}


@dataclass(frozen=True)
class Source:
    """The text of a spec file and the location of every value.

    marks: key path -> (line, column) of the value, both counted from 1; () is the document.
    """

    file: str
    text: str = field(repr=False)
    marks: dict[Key, Place] = field(repr=False)

    def place(self, key: Key) -> Place:
        """(line, column) of the value at `key`, or of its nearest ancestor in the file."""
        while key and key not in self.marks:
            key = key[:-1]
        return self.marks.get(key, (1, 1))

    def locate(self, faults: Iterable[Fault]) -> tuple[Diagnostic, ...]:
        """The faults with their locations, in file order."""
        found = [Diagnostic(self.file, *self.place(f.key), f.key, f.what, f.remedy, f.change) for f in faults]
        return tuple(sorted(found, key=lambda d: (d.line, d.column)))


@dataclass(frozen=True)
class Loaded:
    """A spec and its source."""

    spec: Spec
    source: Source


class UnreadableSpec(SpecError):
    """A spec with invalid keys or values.

    rest: the spec without them, to be checked further; None if required keys are missing. atom: its atom's name, or "".
    """

    def __init__(self, diagnostics: tuple[Diagnostic, ...], source: Source, rest: Spec | None, atom: str):
        super().__init__(diagnostics)
        self.source, self.rest, self.atom = source, rest, atom


def load(data: bytes | str, file: str) -> Loaded:
    """Read one spec. data: content of the file (bytes are UTF-8, with or without BOM); file: a label for messages.

    Raises UnreadableSpec with all faults, each with line and column.
    """
    text = decode(data, file)
    document = Document(file)
    document.read(text)
    source = Source(file, text, document.marks)
    diagnostics = document.diagnostics
    if not document.broken:
        try:
            spec = Spec.model_validate(document.value)
        except ValidationError as error:
            diagnostics += _translate(error, document, source)
        else:
            if not diagnostics:
                return Loaded(spec, source)
    rest = None if document.broken else _rest(document.value, diagnostics)
    atom = document.value.get("atom") if isinstance(document.value, dict) else None
    ordered = tuple(sorted(diagnostics, key=lambda d: (d.line, d.column)))
    raise UnreadableSpec(ordered, source, rest, atom if isinstance(atom, str) else "")


def _rest(value: Any, wrong: Sequence[Diagnostic]) -> Spec | None:
    """The spec without its invalid keys; required keys that do not affect the kernel get placeholders. The atoms are those that
    were probably meant: without them, other keys would be faults of a single warp."""
    if not isinstance(value, dict):
        return None
    value = deepcopy(value)
    for one in wrong:
        _leave_out(value, one.key)
    for one in wrong:
        if one.key[:1] == _ATOMS and one.change.get(_ATOMS, ABSENT) is ABSENT:
            return None
        value |= {str(key[0]): mended for key, mended in one.change.items() if key == _ATOMS}
    try:
        return Spec.model_validate({"mmagen": 1, "name": "unnamed", **value})
    except ValidationError:
        return None


def _leave_out(value: Any, key: Key) -> None:
    """Remove the innermost mapping entry on the path `key`: for `tile[1]`, the tile."""
    entry: tuple[dict[Any, Any], str | int] | None = None
    for part in key:
        if isinstance(value, dict) and part in value:
            entry = value, part
        elif not (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            break
        value = value[part]
    if entry:
        entry[0].pop(entry[1])


def _translate(error: ValidationError, document: Document, source: Source) -> list[Diagnostic]:
    diagnostics = []
    for entry in error.errors(include_url=False):
        key = _as_written(document.value, entry["loc"])
        reading = document.readings.get(key)
        if reading == "" and entry["type"] != "extra_forbidden":
            continue
        if entry["type"] == "extra_forbidden":
            place = document.key_marks[key]
            what, remedy = "unknown key", _known_keys(entry["loc"])
            known = list(_fields(entry["loc"][:-1])[0])
            change = without_unknown(key, entry["input"], known, document.value)
        else:
            place = source.place(key)
            context = entry.get("ctx", {})
            what = reading or _what(entry["type"], entry["input"], context)
            remedy = context.get("remedy") or _described(entry)
            change = legal_value(key, entry["type"], entry["input"], context, document.value)
        diagnostics.append(Diagnostic(source.file, *place, key, what, remedy, change))
    return diagnostics


def _as_written(value: Any, loc: Key) -> Key:
    """The path in the file for a path in the model: `problems[0].shape[2]` of `[M, N, K]` is `problems[0][2]`, and
    `epilogue.operations[1]` of a list `epilogue[1]`."""
    key: Key = ()
    for part in loc:
        if isinstance(value, list) and part in ("shape", "rows", "operations"):
            continue
        if isinstance(value, list) and part == "batch":
            part = 3
        key = (*key, part)
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            value = None
    return key


def _fields(loc: Key) -> tuple[dict[str, str], str]:
    """Keys and descriptions of the model that `loc` ends in, and the description of the last field on the way."""
    descriptions: dict[str, str] = {}
    last = ""
    model: type[BaseModel] = Spec
    for part in (None, *loc):
        if isinstance(part, str):
            last = descriptions.get(part, last)
            model = _models().get(part, model)
        descriptions = {f.alias or name: f.description or "" for name, f in model.model_fields.items()}
    return descriptions, last


@cache
def _models() -> dict[str, type[BaseModel]]:
    """The models of mappings below a spec, by the key that they are the value of."""
    found: dict[str, type[BaseModel]] = {}
    seen: list[type[BaseModel]] = [Spec]
    for model in seen:
        for name, field_ in model.model_fields.items():
            below = list(_below(field_.annotation))
            found |= dict.fromkeys([name], below[0]) if below else {}
            seen += [one for one in below if one not in seen]
    return found


def _below(annotation: Any) -> Iterable[type[BaseModel]]:
    """The models in the type of a field."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    return (model for part in get_args(annotation) for model in _below(part))


def _described(entry: Any) -> str:
    """The description of what a refused value belongs to, and first the word that was probably meant."""
    near = near_words(entry["input"], entry["ctx"])[1] if entry["type"] == "literal_error" else ()
    return " ".join(part for part in (did_you_mean(near), _fields(entry["loc"])[1]) if part)


def _known_keys(loc: Key) -> str:
    if loc[0] == "configs" and loc[-1] in Spec.model_fields:
        return f"{loc[-1]} is the same for all configs: set it in the spec itself"
    known = list(_fields(loc[:-1])[0])
    of_kernel = len(loc) == 1 or (loc[0] == "configs" and len(loc) == 3)  # smaller mappings have few keys, which are listed
    elsewhere = sorted(where for where, model in _models().items() if loc[-1] in model.model_fields)
    if of_kernel and elsewhere:
        return f"{loc[-1]} belongs in {' or '.join(elsewhere)}"
    return instead(near_keys(str(loc[-1]), known), grouped_keys(known), "the known keys are", "mmagen schema")


def _what(kind: str, value: Any, context: dict[str, Any]) -> str:
    if kind == REFUSED:
        return str(context["what"])
    if kind == "missing":
        return "missing"
    if kind == "float_type" and isinstance(value, int):
        return f"{show(value)} is too large"
    if kind == "greater_than_equal":
        return f"{show(value)} is too small, the minimum is {context['ge']}"
    if kind == "less_than_equal":
        return f"{show(value)} is too large, the maximum is {context['le']}"
    if kind == "literal_error":
        return f"{show(value)} is not a legal value"
    return f"{show(value)} {_NOT.get(kind, 'is not valid here')}"
