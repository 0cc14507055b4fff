"""Device functions and calls of them: a call of a function with a body becomes a copy of that body (PTX ISA 9.7.12, "call").

Parameters of calls are variables of the local state space here, which the copy accesses under the names of the function's
own parameters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

Statement = tuple[int, str, str]
"""(line, kind, text): kind "{" with the header before it, "}" or ";" for anything else."""

_HEADER = re.compile(r"\.func\s*(\([^()]*\)\s*)?([$\w%]+)\s*(?:\((.*)\))?", re.S)
_PARAM = re.compile(r"\.param\b.*?([$\w%]+)\s*(?:\[\s*\w*\s*\]\s*)*$", re.S)
_CALL = re.compile(r"(?:\(([^()]*)\)\s*,\s*)?([$\w%]+)\s*(?:,\s*\(([^()]*)\)\s*)?(?:,\s*([$\w%]+)\s*)?$", re.S)
_RETURN = re.compile(r"((?:@\s*!?\s*[%$\w]+\s+)?)ret(?:\.uni)?$")

END = "$end_of_call"
"""The label behind the copy of a body, which its `ret` branches to."""


@dataclass(frozen=True)
class Function:
    """A .func with a body. results, params: the names of its parameters; statements: between its outermost braces."""

    name: str
    results: tuple[str, ...]
    params: tuple[str, ...]
    statements: tuple[Statement, ...]


@dataclass(frozen=True)
class Call:
    """The operands of a call: the name of the function, or of a register that holds its address."""

    name: str
    results: tuple[str, ...]
    arguments: tuple[str, ...]


def functions_of(statements: Sequence[Statement]) -> dict[str, Function]:
    """The functions that have a body, by name; those whose parameters are registers are left out."""
    found: dict[str, Function] = {}
    depth, begin, header = 0, 0, ""
    for n, (_, kind, text) in enumerate(statements):
        if kind == "{":
            if not depth:
                begin, header = n, text
            depth += 1
        elif kind == "}":
            depth -= 1
            matched = _HEADER.search(header) if not depth else None
            if matched:
                results, params = _names((matched.group(1) or "").strip()[1:-1]), _names(matched.group(3) or "")
                if results is not None and params is not None:
                    body = tuple(statements[begin + 1 : n])
                    found[matched.group(2)] = Function(matched.group(2), results, params, body)
    return found


def _names(text: str) -> tuple[str, ...] | None:
    """The names of parameters in the parameter space; None if one is of another space."""
    found = [_PARAM.search(part.strip()) for part in text.split(",") if part.strip()]
    return tuple(match.group(1) for match in found if match) if all(found) else None


def read_call(text: str) -> Call:
    """The operands of a call; raises ValueError for what is none."""
    found = _CALL.match(text.strip())
    if not found:
        raise ValueError("unreadable call")
    results, name, arguments, _ = found.groups()
    return Call(name, *(tuple(x.strip() for x in (part or "").split(",") if x.strip()) for part in (results, arguments)))


def without_return(text: str) -> str:
    """A statement of a body; a `ret` as a branch behind its copy."""
    found = _RETURN.match(text)
    return f"{found.group(1)}bra {END}" if found else text
