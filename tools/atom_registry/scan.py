"""The MMA operation structs of cute/arch/mma_sm*.hpp, read as text: templates, constraints and PTX opcodes.

What counts as an operation: a struct that defines `static void fma(...)` itself. Not counted are, of 4.2.0, the helper
`SM80_8x8x4_GC64C64C64GC64_TN::GaussComplex` and the six primary templates of SM120 whose body is a failing
static_assert: their specialisations are the operations. Templates over majors, scales or tile extents count once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_STRING = re.compile(r'"(?:[^"\\\n]|\\.|\\\n)*"')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPENING = re.compile(
    r"\bnamespace\s+(?P<namespace>[\w:]+)\s*\{"
    r"|(?:\btemplate\s*<(?P<template>[^<>{};]*)>\s*)?\bstruct\s+(?P<struct>\w+)\s*(?:<(?P<arguments>[^{};]*)>)?\s*\{"
    r"|(?P<open>\{)|(?P<close>\})"
)
_FMA = re.compile(r"\bstatic\s+void\s+fma\s*\(")
_CALLEE = re.compile(r"([\w:]+)::fma\s*\(")
_OPCODE = re.compile(r"\b(?:mma|wgmma\.mma_async|tcgen05\.mma|dp[24]a|fma)\.[\w.:]+")
_ASSERTION = re.compile(r'\bstatic_assert\s*\((.*?),\s*""|\bCUTE_STATIC_ASSERT\s*\((.*?),\s*""', re.DOTALL)


def matched(pattern: str, text: str) -> re.Match[str]:
    """The first match. Raises ValueError if there is none, that is, if the headers are not as expected."""
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"{text}: nothing matches {pattern}")
    return found


@dataclass(frozen=True)
class Parameter:
    """A template parameter: `class a_type`, `int M`, `GMMA::ScaleIn scaleA = GMMA::ScaleIn::One`; default is C++ text."""

    type: str
    name: str
    default: str | None


@dataclass(frozen=True)
class Struct:
    """One operation struct. header: relative to the include folder. name: qualified, without cute::.

    arguments: those of a specialisation, () for anything else. requires: its static_asserts, as C++ conditions.
    opcodes: of its asm statements, those for CUDA 12.9 and later, in order of appearance, each once.
    """

    header: str
    name: str
    parameters: tuple[Parameter, ...]
    arguments: tuple[str, ...]
    requires: tuple[str, ...]
    opcodes: tuple[str, ...]


def scan(include: Path) -> list[Struct]:
    """Every operation struct below `include`/cute/arch, in the order of file names and of the files."""
    found = []
    for path in sorted((include / "cute" / "arch").glob("mma_sm*.hpp")):
        found += scan_header(path, include)
    return found


def scan_header(path: Path, include: Path) -> list[Struct]:
    """The operation structs of one header."""
    text = _newest_branch(_COMMENT.sub(" ", path.read_text("utf-8")))
    header = path.relative_to(include).as_posix()
    bodies = list(_structs(text))
    opcodes: dict[str, tuple[str, ...]] = {"cute": _float2_fma(include)}
    structs = []
    for namespace, match, body in bodies:
        if not _FMA.search(_own(body)):
            continue
        found = _opcodes(body, opcodes)
        opcodes[match["struct"]] = found
        name = "::".join([*namespace, match["struct"]])
        structs.append(
            Struct(header, name, _parameters(match["template"]), _split(match["arguments"] or ""), _requires(body), found)
        )
    return structs


def _newest_branch(text: str) -> str:
    """`text` without the #else branches of conditions on the CUDA version: they spell opcodes as older compilers do."""
    return re.sub(r"(#if[^\n]*__CUDACC_VER_MAJOR__[^\n]*\n.*?)#else.*?(?=#endif)", r"\1", text, flags=re.DOTALL)


def _structs(text: str) -> Iterator[tuple[list[str], re.Match[str], str]]:
    """(namespaces within cute, match of the opening, body) of each struct, from outside in.

    Braces are counted in a copy whose string literals are blank: asm text is full of them.
    """
    blank = _STRING.sub(lambda m: '"' + " " * (len(m[0]) - 2) + '"', text)
    stack: list[tuple[str, re.Match[str], int]] = []
    for match in _OPENING.finditer(blank):
        if match["close"]:
            kind, opened, start = stack.pop()
            if kind == "struct":
                namespaces = [m["namespace"] for k, m, _ in stack if k == "namespace" and m["namespace"] != "cute"]
                yield namespaces, opened, text[start : match.start()]
        else:
            kind = "namespace" if match["namespace"] else "struct" if match["struct"] else "block"
            stack.append((kind, match, match.end()))


def _own(body: str) -> str:
    """A struct's body without the structs inside it."""
    return re.sub(r"\bstruct\s+\w+\s*\{.*?\n  \};", " ", body, flags=re.DOTALL)


def _opcodes(body: str, known: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    text = " ".join(string[1:-1] for string in _STRING.findall(body))
    found = _OPCODE.findall(text.replace("\\n", " ").replace("\\t", " "))
    for callee in () if found else _CALLEE.findall(body):
        found += known[callee]
    return tuple(dict.fromkeys(found))


def _float2_fma(include: Path) -> tuple[str, ...]:
    """What cute::fma of float2 is, which SM100's packed FMA calls."""
    path = include / "cute" / "arch" / "simd_sm100.hpp"
    found = _OPCODE.findall(path.read_text("utf-8")) if path.exists() else []
    return tuple(opcode for opcode in found if opcode.startswith("fma.") and "f32x2" in opcode)


def _parameters(template: str | None) -> tuple[Parameter, ...]:
    parameters = []
    for text in _split(template or ""):
        declared, _, default = (part.strip() for part in text.partition("="))
        kind, name = declared.rsplit(maxsplit=1)
        parameters.append(Parameter(kind, name, default or None))
    return tuple(parameters)


def _requires(body: str) -> tuple[str, ...]:
    blank = _STRING.sub('""', body)
    found = [first or second for first, second in _ASSERTION.findall(blank)]
    return tuple(dict.fromkeys(" ".join(condition.split()) for condition in found))


def _split(text: str) -> tuple[str, ...]:
    """At top-level commas; in these headers nothing nests."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
