"""Rules of design, checked on the syntax trees: what depends on the kind of kernel is decided in mmagen/families alone."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_PACKAGE = Path(__file__).resolve().parents[1] / "mmagen"
_EXEMPT = ("families", "emulate")  # emulate knows PTX and no kernels
_KINDS = ("fma", "mma.sync", "wgmma", "tcgen05")
_COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)


def _named(node: ast.expr) -> str:
    """`x.kernel`, `x["kernel"]` and `kernel` are all called kernel; "" for anything else, and for what is self's own."""
    if isinstance(node, ast.Attribute):
        return "" if isinstance(node.value, ast.Name) and node.value.id == "self" else node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.id if isinstance(node, ast.Name) else ""


def _holds_text(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node))


def _compared(node: ast.AST, name: str) -> bool:
    """Is what is called `name` compared with a text, or matched against one?"""
    if isinstance(node, ast.Match):
        return _named(node.subject) == name
    if not isinstance(node, ast.Compare) or not all(isinstance(operator, _COMPARISONS) for operator in node.ops):
        return False
    sides = [node.left, *node.comparators]
    return any(_named(side) == name for side in sides) and any(_holds_text(side) for side in sides)


def _kernel_compared(node: ast.AST) -> bool:
    """kernel == "gemm", or a table of kinds of kernels: _PARTS[plan.kernel]."""
    table = isinstance(node, ast.Subscript) and _named(node.slice) == "kernel" and not isinstance(node.slice, ast.Constant)
    return table or _compared(node, "kernel")


def _hopper_asked(node: ast.AST) -> bool:
    """plan.hopper or atom.wgmma read, of anything but self."""
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _named(node) in ("hopper", "wgmma")


def _plan_class_asked(node: ast.AST) -> bool:
    """isinstance(x, GemmPlan), or a case of it."""
    if isinstance(node, ast.MatchClass):
        return _named(node.cls).endswith("Plan")
    if not (isinstance(node, ast.Call) and _named(node.func) == "isinstance" and len(node.args) == 2):
        return False
    return any(_named(part).endswith("Plan") for part in ast.walk(node.args[1]) if isinstance(part, ast.expr))


def _kind_compared(node: ast.AST) -> bool:
    """operation.kind == "wgmma": an Operation has properties for what its callers want to know."""
    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return _compared(node, "kind") and any(text in _KINDS for text in texts)


RULES: dict[str, Callable[[ast.AST], bool]] = {
    "kernel kinds compared": _kernel_compared,
    "Hopper asked for": _hopper_asked,
    "isinstance of plans": _plan_class_asked,
    "operation kinds compared": _kind_compared,
}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(_PACKAGE.rglob("*.py")):
        name = path.relative_to(_PACKAGE).as_posix()
        if name.split("/")[0] not in _EXEMPT:
            yield name, ast.parse(path.read_text("utf-8"))


@pytest.mark.parametrize("rule", RULES)
def test_kinds_of_kernels_are_distinguished_in_families_alone(rule):
    found = Counter(name for name, tree in _modules() for node in ast.walk(tree) if RULES[rule](node))
    assert not found


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("kernel kinds compared", 'plan.kernel == "gemm"'),
        ("kernel kinds compared", '"gemm" != spec["kernel"]'),
        ("kernel kinds compared", 'kernel in ("gemm", "micro")'),
        ("kernel kinds compared", "_PARTS[plan.kernel]"),
        ("kernel kinds compared", "match spec.kernel:\n    case 'gemm': pass"),
        ("Hopper asked for", "x = 1 if plan.hopper else 2"),
        ("Hopper asked for", "wide = not atom.wgmma"),
        ("isinstance of plans", "isinstance(plan, GemmPlan)"),
        ("isinstance of plans", "isinstance(plan, model.GemmPlan | PeakPlan)"),
        ("isinstance of plans", "match plan:\n    case GemmPlan(): pass"),
        ("operation kinds compared", 'form.operation.kind in ("wgmma", "tcgen05")'),
    ],
)
def test_a_rule_sees_what_breaks_it(rule, text):
    assert sum(map(RULES[rule], ast.walk(ast.parse(text)))) == 1


def test_a_rule_leaves_alone_what_keeps_it():
    text = """self.kind == "wgmma"\nself.wgmma\nplan.kernel\nfacts["kernel"] = plan.kernel
kernel == other\nkind == "library"\nisinstance(x, int)
"""
    assert not any(rule(node) for rule in RULES.values() for node in ast.walk(ast.parse(text)))


def test_test_modules_outside_packages_have_names_of_their_own():
    """pytest imports a module of a folder without __init__.py by its name alone: of two with one name it collects one."""
    modules = [path for path in Path(__file__).parent.rglob("test_*.py") if not (path.parent / "__init__.py").is_file()]
    names = Counter(path.name for path in modules)
    assert {name for name, count in names.items() if count > 1} == set()
