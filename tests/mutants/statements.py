"""Operators of mutation testing: the mistakes in the order of statements, and in what decides whether they are executed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from tree_sitter import Node

from tests.mutants.edits import Edit, replaced, synchronizes
from tests.mutants.syntax import nodes, text_of

# Calls of which two are not the same as one.
_COUNTED = re.compile(r"(?i)(arrive|expect|commit|release|acquire|advance|launch_dependents)\w*(<[^<>]*>)?\(")
_LOOPS = {"for_statement", "while_statement", "for_range_loop"}


def dropped(root: Node) -> Iterator[Edit]:
    """A statement is missing: a fence, a barrier, a wait, an arrival; a copy, a sum, a step of a counter; a jump."""
    for node in nodes(root):
        if node.type == "expression_statement":
            kind = "drop synchronization" if synchronizes(node) else "drop statement"
            yield replaced(kind, node, ";")
        elif node.type in {"break_statement", "continue_statement"} or text_of(node) == "return;":
            yield replaced("drop jump", node, ";")


def repeated(root: Node) -> Iterator[Edit]:
    """An arrival, a commit or a step of a counter happens twice."""
    for node in nodes(root):
        statement = text_of(node)
        if node.type != "expression_statement" or "\n" in statement:
            continue
        counts = any(
            child.type == "update_expression" or (child.type == "assignment_expression" and child.children[1].type != "=")
            for child in node.named_children
        )
        if counts or _COUNTED.search(statement):
            yield replaced("repeat statement", node, f"{{ {statement} {statement} }}")


def moved(root: Node) -> Iterator[Edit]:
    """A synchronization comes one statement too late or too early."""
    for block in nodes(root):
        if block.type != "compound_statement":
            continue
        # A declaration cannot be moved past what uses it: that would not compile.
        for one, two in pairwise(_statements(block)):
            if synchronizes(one) or synchronizes(two):
                between = text_of(block)[one.end_byte - block.start_byte : two.start_byte - block.start_byte]
                exchanged = text_of(two) + between + text_of(one)
                yield Edit("move synchronization", one.start_byte, two.end_byte, exchanged)


def hoisted(root: Node) -> Iterator[Edit]:
    """A synchronization at the begin or at the end of a loop or of a guarded block is outside: once, or for all threads."""
    for node in nodes(root):
        body = node.child_by_field_name("consequence" if node.type == "if_statement" else "body")
        guarded = node.type == "if_statement" and node.child_by_field_name("alternative") is None
        if not (guarded or node.type in _LOOPS) or body is None or body.type != "compound_statement":
            continue
        inner, whole = _statements(body), text_of(node)
        if not inner:
            continue
        first, last = inner[0], inner[-1]
        if synchronizes(first) and "\n" not in text_of(first):
            before, behind = whole[: first.start_byte - node.start_byte], whole[first.end_byte - node.start_byte :]
            yield Edit("hoist synchronization", node.start_byte, node.end_byte, f"{text_of(first)} {before}{behind}")
        if synchronizes(last) and "\n" not in text_of(last):
            before, behind = whole[: last.start_byte - node.start_byte], whole[last.end_byte - node.start_byte :]
            yield Edit("hoist synchronization", node.start_byte, node.end_byte, f"{before}{behind} {text_of(last)}")


def guards(root: Node) -> Iterator[Edit]:
    """What one thread, or a part of the tiles, is to do is done by all; a loop, e.g. of a wait, is left out."""
    for node in nodes(root):
        condition = node.child_by_field_name("condition")
        value = condition.child_by_field_name("value") if condition is not None else None
        if value is None or value.type == "declaration":
            continue
        if node.type == "if_statement" and not any(child.type == "constexpr" for child in node.children):
            yield replaced("no guard", value, "true")
        elif node.type == "while_statement":
            yield replaced("no loop", value, "false")


def _statements(block: Node) -> list[Node]:
    return [child for child in block.named_children if child.type != "comment"]
