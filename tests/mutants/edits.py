"""Edits of a header, and what the operators share: each edit leaves the number of lines as it is, so that the line information
of the PTX stays comparable."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Node

from tests.mutants.syntax import inside, text_of

# Calls that order threads, memory accesses or asynchronous copies.
_SYNCHRONIZES = re.compile(
    r"(?i)(?<![a-z])(\w*(sync|fence|barrier|wait|commit|arrive|release|acquire|expect|griddep|dependent_grids|setmaxnreg)\w*)"
)


@dataclass(frozen=True)
class Edit:
    """Bytes [begin, end) of a header become `new`. operator: the kind of mistake."""

    operator: str
    begin: int
    end: int
    new: str


def replaced(operator: str, node: Node, new: str) -> Edit:
    """The node's text becomes `new`, with blank lines behind it for those that it loses."""
    lost = text_of(node).count("\n") - new.count("\n")
    return Edit(operator, node.start_byte, node.end_byte, new + "\n" * max(lost, 0))


def synchronizes(node: Node) -> bool:
    """Whether the node is a statement that orders threads, memory accesses or asynchronous copies."""
    return node.type == "expression_statement" and bool(_SYNCHRONIZES.search(text_of(node)))


def runs(node: Node) -> bool:
    """Whether the node is part of a function's body, or the value of a constant: no type, no declaration of a parameter."""
    return not inside(node, {"template_parameter_list", "parameter_list", "static_assert_declaration", "alias_declaration"})
