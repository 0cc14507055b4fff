"""Operators of mutation testing: the small mistakes that a kernel engineer could make in a CUDA header.

An operator maps a syntax tree to edits. Each edit leaves the number of lines as it is, so that the line information of the
PTX stays comparable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from tree_sitter import Node

from tests.mutants.syntax import inside, nodes, text_of

# Calls that order threads, memory accesses or asynchronous copies.
_SYNCHRONIZES = re.compile(
    r"(?i)(?<![a-z])(\w*(sync|fence|barrier|wait|commit|arrive|release|acquire|expect|griddep|dependent_grids|setmaxnreg)\w*)"
)
_SWAPS = (
    *(("m", "n"), ("a", "b"), ("read", "write"), ("full", "empty"), ("row", "column"), ("rows", "columns")),
    *(("begin", "end"), ("first", "last"), ("across", "along"), ("width", "height"), ("producer", "consumer"), ("x", "y")),
)
_COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_COMPUTED = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|"}
_CONNECTED = {"&&", "||"}
# In PTX: a narrower scope, no order, another state space, a different group count.
_PTX = (
    *((r"\.cluster\.global", ".cta.global"), (r"\.gpu\b", ".cta"), (r"\.acquire\b", ".relaxed"), (r"\.release\b", ".relaxed")),
    *((r"\.shared::cta\b", ".shared::cluster"), (r"\.acq_rel\b", ".relaxed"), (r"\.read\b", ""), (r"\.noinc\b", "")),
    *((r"\.multicast::cluster\b", ""), (r"\.parity\b", ""), (r"\.add\b", ".max"), (r"\.async\.shared::cta", ".async.global")),
)
_TYPES = {"type_identifier", "primitive_type", "template_type", "qualified_identifier", "type_descriptor"}


@dataclass(frozen=True)
class Edit:
    """Bytes [begin, end) of a header become `new`. operator: the kind of mistake."""

    operator: str
    begin: int
    end: int
    new: str


def edits(root: Node) -> list[Edit]:
    """All edits that the operators propose for a header, without repetition, in the order of their places."""
    found = {edit: None for operator in _OPERATORS for edit in operator(root)}
    return sorted(found, key=lambda edit: (edit.begin, edit.end, edit.operator, edit.new))


def _replace(operator: str, node: Node, new: str) -> Edit:
    lost = text_of(node).count("\n") - new.count("\n")
    return Edit(operator, node.start_byte, node.end_byte, new + "\n" * max(lost, 0))


def _runs(node: Node) -> bool:
    """Whether the node is part of a function's body, or the value of a constant: no type, no declaration of a parameter."""
    return not inside(node, {"template_parameter_list", "parameter_list", "static_assert_declaration", "alias_declaration"})


def _dropped(root: Node) -> Iterator[Edit]:
    """A statement is missing: a fence, a barrier, a wait, an arrival; a copy, a sum, a step of a counter."""
    for node in nodes(root):
        if node.type == "expression_statement":
            kind = "drop synchronization" if _SYNCHRONIZES.search(text_of(node)) else "drop statement"
            yield _replace(kind, node, ";")


def _moved(root: Node) -> Iterator[Edit]:
    """A synchronization comes one statement too late or too early."""
    for block in nodes(root):
        if block.type != "compound_statement":
            continue
        # A declaration cannot be moved past what uses it: that would not compile.
        statements = [child for child in block.named_children if child.type != "comment"]
        for one, two in pairwise(statements):
            if any(node.type == "expression_statement" and _SYNCHRONIZES.search(text_of(node)) for node in (one, two)):
                between = text_of(block)[one.end_byte - block.start_byte : two.start_byte - block.start_byte]
                swapped = text_of(two) + between + text_of(one)
                yield Edit("move synchronization", one.start_byte, two.end_byte, swapped)


def _conditions(root: Node) -> Iterator[Edit]:
    """A comparison is off by one, a condition is the opposite, or a part of it is missing."""
    for node in nodes(root):
        if node.type == "binary_expression":
            left, operator, right = node.children[0], node.children[1], node.children[2]
            if operator.type in _COMPARED:
                yield _replace("comparison", operator, _COMPARED[operator.type])
            elif operator.type in _CONNECTED:
                yield _replace("part of a condition", node, text_of(left))
                yield _replace("part of a condition", node, text_of(right))
        elif node.type == "condition_clause":
            value = node.child_by_field_name("value")
            if value is not None and value.type != "init_statement":
                yield _replace("negated condition", value, f"!({text_of(value)})")
        elif node.type == "conditional_expression":
            one, two = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
            if one is not None and two is not None:
                yield _replace("one case only", node, text_of(one))
                yield _replace("one case only", node, text_of(two))


def _numbers(root: Node) -> Iterator[Edit]:
    """A number is off by one: a stage, a phase, a count, a bound, a shift."""
    for node in nodes(root):
        text = text_of(node)
        if node.type != "number_literal" or not _runs(node) or not re.fullmatch(r"(0x[0-9a-fA-F]+|[0-9]+)[uUlL]*", text):
            continue
        digits = text.rstrip("uUlL")
        suffix, value = text[len(digits) :], int(digits, 0)
        for other in {value + 1, max(value - 1, 0)} - {value}:
            yield _replace("off by one", node, f"{hex(other) if digits.startswith('0x') else other}{suffix}")


def _constants(root: Node) -> Iterator[Edit]:
    """A named constant is off by one, e.g. kStages - 1."""
    for node in nodes(root):
        named = node.type == "identifier" and re.fullmatch(r"k[A-Z]\w*", text_of(node)) and _runs(node)
        parent = node.parent
        if not named or parent is None:
            continue
        if parent.type == "qualified_identifier":
            node, parent = parent, parent.parent
        if parent is not None and parent.type in {"binary_expression", "argument_list", "conditional_expression"}:
            yield _replace("constant off by one", node, f"({text_of(node)} - 1)")


def _arithmetic(root: Node) -> Iterator[Edit]:
    """Another operator: a wrong stride, offset or mask."""
    for node in nodes(root):
        if node.type == "binary_expression" and node.children[1].type in _COMPUTED and _runs(node):
            yield _replace("arithmetic", node.children[1], _COMPUTED[node.children[1].type])
        elif node.type == "assignment_expression" and node.children[1].type in {"+=", "^=", "|=", "-="}:
            yield _replace("arithmetic", node.children[1], "=")


def _operands(root: Node) -> Iterator[Edit]:
    """Another operand of a similar name: M for N, A for B, the stage to read for the one to write."""
    known = {text_of(node) for node in nodes(root) if node.type in {"identifier", "field_identifier"}}
    for node in nodes(root):
        if node.type in {"identifier", "field_identifier"} and _runs(node) and not _declares(node):
            for other in _similar(text_of(node)):
                if other in known:
                    yield _replace("similar operand", node, other)


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
        if node.type == "argument_list" and _runs(node):
            given = [child for child in node.named_children if child.type != "comment"]
            for one, two in pairwise(given):
                if one.type == two.type and text_of(one) != text_of(two):
                    between = text_of(node)[one.end_byte - node.start_byte : two.start_byte - node.start_byte]
                    yield Edit("exchanged arguments", one.start_byte, two.end_byte, text_of(two) + between + text_of(one))


def _ptx(root: Node) -> Iterator[Edit]:
    """An instruction in inline PTX has a wrong qualifier, or a wait another count."""
    for node in nodes(root):
        if node.type == "string_content" and inside(node, {"gnu_asm_expression"}):
            text = text_of(node)
            for pattern, new in _PTX:
                for match in re.finditer(pattern, text):
                    changed = text[: match.start()] + new + text[match.end() :]
                    yield _replace("PTX qualifier", node, changed)


_OPERATORS: tuple[Callable[[Node], Iterator[Edit]], ...] = (
    *(_dropped, _moved, _conditions, _numbers, _constants, _arithmetic, _operands, _arguments, _ptx),
)
