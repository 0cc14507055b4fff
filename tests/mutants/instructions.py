"""Operators of mutation testing: the mistakes in the instructions of inline PTX, and in the calls of intrinsic functions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from tests.mutants.edits import Edit, replaced, runs
from tests.mutants.syntax import inside, nodes, text_of

# In PTX: a narrower scope, no order, another state space, a different group count.
_QUALIFIERS = (
    *((r"\.cluster\.global", ".cta.global"), (r"\.gpu\b", ".cta"), (r"\.acquire\b", ".relaxed"), (r"\.release\b", ".relaxed")),
    *((r"\.shared::cta\b", ".shared::cluster"), (r"\.acq_rel\b", ".relaxed"), (r"\.read\b", ""), (r"\.noinc\b", "")),
    *((r"\.multicast::cluster\b", ""), (r"\.parity\b", ""), (r"\.add\b", ".max"), (r"\.async\.shared::cta", ".async.global")),
)
# A transposed fragment, another rounding, no saturation, the other half of a product, the opposite of an instruction.
_MODIFIERS = (
    *((r"\.trans\b", ""), (r"\.rn(?=\.)", ".rz"), (r"\.rni\b", ".rzi"), (r"\.sat\b", ""), (r"\.NaN\b", ""), (r"\.lo\b", ".hi")),
    *((r"\.eq\b", ".ne"), (r"\bmin\b", "max"), (r"\.s8\b", ".u8"), (r"\.u8\b", ".s8"), (r"\.e4m3x2\b", ".e5m2x2")),
    *((r"\bsetmaxnreg\.inc\b", "setmaxnreg.dec"), (r"\bsetmaxnreg\.dec\b", "setmaxnreg.inc")),
    *((r"\blaunch_dependents\b", "wait"), (r"griddepcontrol\.wait", "griddepcontrol.launch_dependents")),
    *((r"\bfence\.proxy\.async\.shared::cta", "fence.acq_rel.cta"), (r"\bbar\.sync(?= %0, )", "bar.arrive")),
)
# Functions that order or exchange less, and those that are taken for each other.
_FUNCTIONS = {
    "__syncthreads": ("narrower scope", "__syncwarp"),
    "sync_cluster": ("narrower scope", "sync_cluster_relaxed"),
    "memory_order_acquire": ("narrower scope", "memory_order_relaxed"),
    "memory_order_release": ("narrower scope", "memory_order_relaxed"),
    "__shfl_up_sync": ("other function", "__shfl_down_sync"),
    "__shfl_down_sync": ("other function", "__shfl_up_sync"),
    "__shfl_xor_sync": ("other function", "__shfl_up_sync"),
    "min": ("other function", "max"),
    "max": ("other function", "min"),
}


def ptx(root: Node) -> Iterator[Edit]:
    """An instruction in inline PTX has a wrong qualifier, an operand of another, or another number."""
    for node in nodes(root):
        if node.type != "string_content" or not inside(node, {"gnu_asm_expression"}):
            continue
        text = text_of(node)
        for operator, table in (("PTX qualifier", _QUALIFIERS), ("PTX modifier", _MODIFIERS)):
            for pattern, new in table:
                for match in re.finditer(pattern, text):
                    yield replaced(operator, node, text[: match.start()] + new + text[match.end() :])
        # Of a single result, %0, and an operand the exchange would not assemble.
        for match in re.finditer(r"((?<=\{)%\d+|%[1-9]\d*)(, )(%\d+)", text):
            exchanged = match[3] + match[2] + match[1]
            yield replaced("PTX operands", node, text[: match.start()] + exchanged + text[match.end() :])
        for match in re.finditer(r"(?<=[ ,])(0x[0-9a-f]+|\d+)(?=[,;])", text):
            for other in _numbers(match[0]):
                yield replaced("PTX number", node, text[: match.start()] + other + text[match.end() :])


def _numbers(digits: str) -> Iterator[str]:
    """A count is half as large, a bit of a mask or a table is another, an index is another."""
    value = int(digits, 0)
    if digits.startswith("0x"):
        yield hex(value ^ 1)
    else:
        yield str(value // 2 if value > 3 else value ^ 1)


def functions(root: Node) -> Iterator[Edit]:
    """A function that orders or exchanges less, or one of a similar name; a quotient that is rounded down."""
    for node in nodes(root):
        if node.type in {"identifier", "field_identifier"} and text_of(node) in _FUNCTIONS and runs(node):
            yield replaced(_FUNCTIONS[text_of(node)][0], node, _FUNCTIONS[text_of(node)][1])
        elif node.type == "call_expression":
            function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
            if function is None or arguments is None or not re.search(r"(^|::)ceil_div$", text_of(function)):
                continue
            given = [text_of(child) for child in arguments.named_children if child.type != "comment"]
            if len(given) == 2:
                yield replaced("rounded down", node, f"(({given[0]}) / ({given[1]}))")
