"""Syntax trees of CUDA headers, by tree-sitter."""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

_PARSER = Parser(Language(tree_sitter_cuda.language()))

# What the grammar does not know, as something of the same length that it does: CuTe's macros of function specifiers and
# loops, alignments, and `typename` in front of a name that the grammar takes for a type anyway.
_SPECIFIER = re.compile(rb"\bCUTE_(?:HOST_)?DEVICE\b")
_BLANK = re.compile(
    rb"\bCUTE_HOST\b|\bCUTE_(?:NO_)?UNROLL\b|\balignas\(\d+\)|\b__align__\(\d+\)|\btypename(?=\s+\w+(?:<[^<>]*>)?::)"
)

# Nothing that is executed: what these contain cannot be a fault of a kernel that compiles.
_SKIPPED = {
    *("comment", "static_assert_declaration", "template_parameter_list", "friend_declaration"),
    *("preproc_include", "preproc_def", "preproc_call", "preproc_if", "preproc_ifdef", "preproc_function_def"),
}


def parse(text: bytes) -> Node:
    """The root of the tree of a header; positions are those of `text`."""
    known = _SPECIFIER.sub(lambda match: b"__device__".ljust(len(match[0])), text)
    return _PARSER.parse(_BLANK.sub(lambda match: b" " * len(match[0]), known)).root_node


def nodes(root: Node) -> Iterator[Node]:
    """All nodes of code that is executed or that decides about it, parents first."""
    if root.type in _SKIPPED or root.type == "ERROR":
        return
    yield root
    for child in root.children:
        yield from nodes(child)


def errors(root: Node) -> list[str]:
    """The first line of each part that the grammar does not understand."""
    if root.type == "ERROR" or root.is_missing:
        return [f"{root.start_point[0] + 1}: {text_of(root).splitlines()[0] if text_of(root) else ''}"]
    return [line for child in root.children for line in errors(child)]


def text_of(node: Node) -> str:
    """The source of a node."""
    return (node.text or b"").decode()


def inside(node: Node, kinds: set[str]) -> bool:
    """Whether an ancestor of the node is of one of these types."""
    parent = node.parent
    while parent is not None:
        if parent.type in kinds:
            return True
        parent = parent.parent
    return False
