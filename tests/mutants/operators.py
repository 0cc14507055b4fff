"""Operators of mutation testing: the small mistakes that a kernel engineer could make in a CUDA header.

An operator maps a syntax tree to edits. Those of expressions are here; `statements` has those of statements, `instructions`
those of inline PTX and intrinsic functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from tree_sitter import Node

from tests.mutants.edits import Edit, replaced, runs
from tests.mutants.instructions import functions, ptx
from tests.mutants.statements import dropped, guards, hoisted, moved, repeated
from tests.mutants.syntax import inside, nodes, text_of

_SWAPS = (
    *(("m", "n"), ("a", "b"), ("read", "write"), ("full", "empty"), ("row", "column"), ("rows", "columns")),
    *(("begin", "end"), ("first", "last"), ("across", "along"), ("width", "height"), ("producer", "consumer"), ("x", "y")),
    *(("m", "k"), ("n", "k"), ("c", "d"), ("stage", "phase"), ("inner", "outer"), ("lane", "warp"), ("thread", "warp")),
    *(("thread", "block"), ("tile", "block"), ("threads", "warps"), ("count", "index"), ("source", "destination")),
    *(("alpha", "beta"), ("low", "high"), ("bytes", "elements"), ("elements", "vectors"), ("stages", "tiles")),
    *(("global", "shared"), ("left", "right"), ("group", "tile"), ("scales", "zeros"), ("words", "bytes")),
)
_COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_COMPUTED = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|"}
_CONNECTED = {"&&", "||"}
_ASSIGNED = {"+=": ("=", "-="), "-=": ("=", "+="), "*=": ("=",), "/=": ("=",), "^=": ("=",), "|=": ("=",)}
# Where a constant is a value, and not a part of a type's name.
_WITH_VALUES = {
    *("binary_expression", "argument_list", "conditional_expression", "init_declarator", "return_statement"),
    *("assignment_expression", "subscript_argument_list", "initializer_list", "template_argument_list"),
}
_NARROW = {"int64_t": "int", "uint64_t": "unsigned", "size_t": "unsigned"}


def edits(root: Node) -> list[Edit]:
    """All edits that the operators propose for a header, without repetition, in the order of their places."""
    found = {edit: None for operator in _OPERATORS for edit in operator(root)}
    return sorted(found, key=lambda edit: (edit.begin, edit.end, edit.operator, edit.new))


def _conditions(root: Node) -> Iterator[Edit]:
    """A comparison is off by one, a condition is the opposite, or a part of it is missing."""
    for node in nodes(root):
        if node.type == "binary_expression":
            left, operator, right = node.children[0], node.children[1], node.children[2]
            if operator.type in _COMPARED:
                yield replaced("comparison", operator, _COMPARED[operator.type])
            elif operator.type in _CONNECTED:
                yield replaced("part of a condition", node, text_of(left))
                yield replaced("part of a condition", node, text_of(right))
        elif node.type == "condition_clause":
            value = node.child_by_field_name("value")
            if value is not None and value.type != "init_statement":
                yield replaced("negated condition", value, f"!({text_of(value)})")
        elif node.type == "conditional_expression":
            one, two = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
            if one is not None and two is not None:
                yield replaced("one case only", node, text_of(one))
                yield replaced("one case only", node, text_of(two))


def _numbers(root: Node) -> Iterator[Edit]:
    """A number is off by one: a stage, a phase, a count, a bound, a shift. A power of two is twice or half as large: a tile, a
    width, a mask's bit."""
    for node in nodes(root):
        text = text_of(node)
        if node.type != "number_literal" or not runs(node) or not re.fullmatch(r"(0x[0-9a-fA-F]+|[0-9]+)[uUlL]*", text):
            continue
        digits = text.rstrip("uUlL")
        suffix, value = text[len(digits) :], int(digits, 0)
        for other in {value + 1, max(value - 1, 0)} - {value}:
            yield replaced("off by one", node, f"{_like(digits, other)}{suffix}")
        if value > 2 and value & value - 1 == 0:
            for other in (value * 2, value // 2):
                yield replaced("doubled or halved", node, f"{_like(digits, other)}{suffix}")


def _like(digits: str, value: int) -> str:
    return hex(value) if digits.startswith("0x") else str(value)


def _booleans(root: Node) -> Iterator[Edit]:
    """The other of true and false, e.g. of a template's argument."""
    for node in nodes(root):
        if node.type in {"true", "false"} and runs(node):
            yield replaced("other boolean", node, "false" if node.type == "true" else "true")


def _constants(root: Node) -> Iterator[Edit]:
    """A named constant is off by one, e.g. kStages - 1."""
    for node in nodes(root):
        named = node.type == "identifier" and re.fullmatch(r"k[A-Z]\w*", text_of(node)) and runs(node)
        parent = node.parent
        if not named or parent is None:
            continue
        if parent.type == "qualified_identifier":
            node, parent = parent, parent.parent
        if parent is not None and parent.type in _WITH_VALUES:
            for step in ("- 1", "+ 1"):
                yield replaced("constant off by one", node, f"({text_of(node)} {step})")


def _arithmetic(root: Node) -> Iterator[Edit]:
    """Another operator: a wrong stride, offset or mask."""
    for node in nodes(root):
        if node.type == "binary_expression" and node.children[1].type in _COMPUTED and runs(node):
            yield replaced("arithmetic", node.children[1], _COMPUTED[node.children[1].type])
        elif node.type == "assignment_expression" and node.children[1].type in _ASSIGNED:
            for other in _ASSIGNED[node.children[1].type]:
                yield replaced("arithmetic", node.children[1], other)
        elif node.type == "unary_expression" and node.children[0].type in {"!", "~", "-"} and runs(node):
            if node.parent is not None and node.parent.type == "condition_clause":
                continue  # as a negated condition
            yield replaced("no sign", node, f"({text_of(node.children[1])})")


def _steps(root: Node) -> Iterator[Edit]:
    """A loop takes each second step, or its stride is one too small."""
    for node in nodes(root):
        update = node.child_by_field_name("update") if node.type == "for_statement" else None
        if update is None:
            continue
        if update.type == "update_expression" and "++" in text_of(update):
            yield replaced("step of a loop", update, f"{text_of(update).strip('+')} += 2")
        elif update.type == "assignment_expression" and update.children[1].type == "+=":
            yield replaced("step of a loop", update.children[2], f"({text_of(update.children[2])}) - 1")


def _narrowed(root: Node) -> Iterator[Edit]:
    """An offset or a number of elements has 32 bits."""
    for node in nodes(root):
        if node.type == "primitive_type" and text_of(node) in _NARROW and inside(node, {"compound_statement"}) and runs(node):
            yield replaced("narrow type", node, _NARROW[text_of(node)])


def _operands(root: Node) -> Iterator[Edit]:
    """Another operand of a similar name: M for N, A for B, the stage to read for the one to write."""
    known = {text_of(node) for node in nodes(root) if node.type in {"identifier", "field_identifier"}}
    for node in nodes(root):
        if node.type in {"identifier", "field_identifier"} and runs(node) and not _declares(node):
            for other in _similar(text_of(node)):
                if other in known:
                    yield replaced("similar operand", node, other)


def _declares(node: Node) -> bool:
    """Whether the node is the name that is being declared, or a part of a longer declarator."""
    parent = node.parent
    return parent is not None and parent.child_by_field_name("declarator") == node


def _similar(name: str) -> Iterator[str]:
    words = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])|_+", name)
    for i, word in enumerate(words):
        for pair in _SWAPS:
            for one, other in (pair, pair[::-1]):
                if word.lower() == one:
                    replaced = other.upper() if word.isupper() else other.capitalize() if word[0].isupper() else other
                    yield "".join([*words[:i], replaced, *words[i + 1 :]])


def _arguments(root: Node) -> Iterator[Edit]:
    """Two neighbouring arguments are exchanged."""
    for node in nodes(root):
        if node.type == "argument_list" and runs(node):
            given = [child for child in node.named_children if child.type != "comment"]
            for one, two in pairwise(given):
                if one.type == two.type and text_of(one) != text_of(two):
                    between = text_of(node)[one.end_byte - node.start_byte : two.start_byte - node.start_byte]
                    yield Edit("exchanged arguments", one.start_byte, two.end_byte, text_of(two) + between + text_of(one))


_OPERATORS: tuple[Callable[[Node], Iterator[Edit]], ...] = (
    *(dropped, repeated, moved, hoisted, guards, _conditions, _numbers, _booleans, _constants, _arithmetic, _steps, _narrowed),
    *(_operands, _arguments, ptx, functions),
)
