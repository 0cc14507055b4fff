"""Products as PyTorch writes them, e.g. `F.linear(bf16[4096, 8192], bf16[1024, 8192])`, as answers of `mmagen new`.

A tensor is written as type[shape], row-major, or made by a function of torch (`torch.randn(4096, 8192, dtype=torch.bfloat16)`). The
expression is read, not run.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mmagen.core.errors import UsageError
from mmagen.suggest import einsum, reordered
from mmagen.suggest.product import Product, letters

_WORDS = {"f16": "f16", "bf16": "bf16", "tf32": "tf32", "f32": "f32", "f64": "f64", "s8": "s8", "u8": "u8", "e4m3": "e4m3"}
_WORDS |= {
    "e5m2": "e5m2",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float": "f32",
    "float64": "f64",
}
_WORDS |= {"double": "f64", "complex128": "c64", "int8": "s8", "uint8": "u8", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
_STORED = {"tf32": "f32", "e4m3": "bf16", "e5m2": "bf16", "s8": "s32", "u8": "s32"}  # D where torch is not asked for a type
_MADE = ("empty", "ones", "rand", "randn", "zeros")
_PRODUCTS = ("_int_mm", "_scaled_mm", "bmm", "matmul", "mm")
_SUMS_OF_C = ("addmm", "baddbmm")  # a further first argument, C
_A_NAMES, _B_NAMES = ("mat1", "batch1", "input", "self"), ("mat2", "batch2", "other")  # torch's names of the arguments
_ACTIVATIONS = ("gelu", "relu", "sigmoid", "silu")
_INSTEAD = {
    "_grouped_mm": "write the product of one group, and add `grouped` to the spec (docs/grouped.md)",
    "scaled_mm": "write it as torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=...)",
    "mv": "write the vector as a matrix of one column, e.g. bf16[256, 1]",
}
_CASTS = ("bfloat16", "double", "float", "half")
_NO_MATTER = ("cuda", "detach")


@dataclass(frozen=True)
class _Tensor:
    """shape: as the expression sees it. transposed: the last two dimensions are exchanged in memory."""

    word: str
    shape: tuple[int, ...]
    transposed: bool = False

    @property
    def mt(self) -> _Tensor:
        if len(self.shape) < 2:
            raise UsageError(f"a tensor of shape {self.shape} has no transpose")
        return _Tensor(self.word, (*self.shape[:-2], self.shape[-1], self.shape[-2]), not self.transposed)


def product(text: str) -> Product:
    """What an expression computes. Raises UsageError with the part that is not understood."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
        found = _value(tree.body)
    except (SyntaxError, ValueError, RecursionError) as error:
        what = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UsageError(f"--torch: {text!r} is not a Python expression: {what}") from None
    if not isinstance(found, Product):
        raise UsageError(f"--torch: {text!r} is a tensor; write a product, e.g. bf16[4096, 8192] @ bf16[8192, 1024]")
    return replace(found, operations=()) if _of("alpha", "beta_c", found) else found  # as without a list


def _refused(node: ast.expr, why: str) -> UsageError:
    return UsageError(f"--torch: {ast.unparse(node)}: {why}")


def _value(node: ast.expr) -> _Tensor | Product:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return _multiplied(node, _tensor(node.left), _tensor(node.right), None)
    if isinstance(node, ast.Subscript):
        return _Tensor(_word(node.value), _shape(node.slice))
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        return _tensor(node.value).mt
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return _reordered(node, "T", _tensor(node.value))
    if isinstance(node, ast.BinOp | ast.UnaryOp) and (found := _combined(node)):
        return found
    if isinstance(node, ast.BinOp | ast.UnaryOp):
        raise _refused(
            node,
            "this is not a product of matrices; write only the product, and add the operations on its result to the spec's "
            "`epilogue`",
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
        return _called(node, node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id)
    hint = (
        "write a tensor as type[shape], e.g. bf16[4096, 8192]"
        if isinstance(node, ast.Name)
        else "this is not a product of matrices"
    )
    raise _refused(node, hint)


def _tensor(node: ast.expr) -> _Tensor:
    found = _value(node)
    if isinstance(found, Product):
        raise _refused(node, "a product within another; a kernel computes one product: ask for each")
    return found


def _called(node: ast.Call, name: str) -> _Tensor | Product:
    """A call of a function of torch, or of a method of a tensor."""
    named = {one.arg: one.value for one in node.keywords}
    if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value):
        return _method(node, name, _value(node.func.value), named)
    if name in _MADE:
        shape = node.args[0] if len(node.args) == 1 else ast.Tuple([*node.args])
        return _Tensor(_word(named["dtype"]) if "dtype" in named else "f32", _shape(shape))
    if name in reordered.FUNCTIONS and node.args:
        return _reordered(node, name, _tensor(node.args[0]), node.args[1:], named)
    if name in _INSTEAD:
        raise _refused(node, _INSTEAD[name])
    if "sparse" in ast.unparse(node.func).split("."):
        raise _refused(node, "a sparse A is 2:4: write a product of dense matrices, and take a sparse atom (docs/sparse.md)")
    if name in ("linear", "inner"):
        a, b = (_argument(node, named, i, one) for i, one in enumerate(("input", "weight" if name == "linear" else "other")))
        if not (a and b):
            raise _refused(node, "it needs two matrices")
        bias = _argument(node, named, 2, "bias") if name == "linear" else None
        found = _multiplied(node, _tensor(a), _tensor(b).mt, named.get("out_dtype"))
        return _added(node, found, _tensor(bias)) if bias else found
    if name == "einsum":
        return _einsum(node)
    if (of := _argument(node, named, 0, "input")) and (operation := _operation(name, named)) is not None:
        return _applied(node, _value(of), operation)
    if name in (*_PRODUCTS, *_SUMS_OF_C):
        factors = node.args[name in _SUMS_OF_C :]
        for names in (_A_NAMES, _B_NAMES):
            factors = factors + [named[one] for one in names if one in named and (one != "input" or name in _PRODUCTS)]
        if len(factors) < 2:
            raise _refused(node, "it needs two matrices")
        out = named.get("out_dtype", node.args[6] if name == "_scaled_mm" and len(node.args) > 6 else None)
        found = _multiplied(node, _tensor(factors[0]), _tensor(factors[1]), out)
        if name == "_scaled_mm":
            bias = _argument(node, named, 4, "bias")
            found = _scaled(node, found, [_argument(node, named, 2 + i, f"scale_{letter}") for i, letter in enumerate("ab")])
            return _added(node, found, _tensor(bias)) if bias else found
        if name in _SUMS_OF_C:
            return _with_c(node, found, named)
        return found
    raise _refused(node, f"{name} is not known here; an operation after the product is one of the spec's `epilogue`")


def _argument(node: ast.Call, named: Mapping[str | None, ast.expr], place: int, name: str) -> ast.expr | None:
    """None where it is not given, or is None."""
    found = named.get(name, node.args[place] if len(node.args) > place else None)
    return None if isinstance(found, ast.Constant) and found.value is None else found


# --- What is done with a product --------------------------------------------------------------------------------------


def _operation(name: str, named: Mapping[str | None, ast.expr]) -> Any:
    """An activation as the spec's epilogue has it; None for other functions."""
    how = named.get("approximate")
    if name == "gelu" and isinstance(how, ast.Constant) and how.value == "tanh":
        return {"gelu": "tanh"}
    return name if name in _ACTIVATIONS else None


def _of(first: str, second: str, product: Product) -> bool:
    """Are these all of its operations?"""
    return all(one in (first, second) for one in product.operations)


def _applied(node: ast.expr, of: _Tensor | Product, operation: Any) -> Product:
    if not isinstance(of, Product):
        raise _refused(node, "an operation on A or B before they are multiplied is a kernel of its own")
    return replace(of, operations=(*of.operations, operation))


def _combined(node: ast.BinOp | ast.UnaryOp) -> Product | None:
    """A product with a sign, times or divided by a number, or plus or minus a tensor; None for anything else. The numbers are
    alpha and beta of a call."""
    if isinstance(node, ast.UnaryOp):
        return _times(node.operand, isinstance(node.op, ast.USub)) if isinstance(node.op, ast.USub | ast.UAdd) else None
    left, right = node.left, node.right
    if isinstance(node.op, ast.Mult) and (_is_number(left) or _is_number(right)):
        return _times(right if _is_number(left) else left, True)
    if isinstance(node.op, ast.Div) and _is_number(right):
        return _times(left, True)
    if not isinstance(node.op, ast.Add | ast.Sub) or _is_number(left) or _is_number(right):
        return None
    first, second, is_difference = _value(left), _value(right), isinstance(node.op, ast.Sub)
    if isinstance(first, _Tensor) and isinstance(second, Product):
        of = _with_alpha(second) if is_difference else second
        return _added(node, of, first) if of else None
    if not (isinstance(first, Product) and isinstance(second, _Tensor)):
        return None
    of = _added(node, first, second)
    if is_difference and "beta_c" not in of.operations:
        raise _refused(node, "a bias is added, not subtracted; write the sum, and negate the bias")
    return of


def _times(node: ast.expr, alpha: bool) -> Product | None:
    """The product of an expression, times an alpha if there is one; None where it is no product or alpha would come too late."""
    of = _value(node)
    if not isinstance(of, Product):
        return None
    return _with_alpha(of) if alpha else of


def _with_alpha(of: Product) -> Product | None:
    """A product times alpha; None after another operation."""
    return replace(of, operations=("alpha",)) if _of("alpha", "", of) else None


def _is_number(node: ast.expr) -> bool:
    """Is it a literal, perhaps with a sign?"""
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _added(node: ast.expr, of: Product, other: _Tensor) -> Product:
    """A bias of each column, or C."""
    m, n, _, batch = of.shape
    *others, last = other.shape
    if last == n and math.prod(others) == 1:
        return replace(of, operations=(*of.operations, {"bias": "column"}))
    if last == n and math.prod(others) == m * batch and not other.transposed and _of("alpha", "", of):
        return replace(of, operations=("alpha", "beta_c"))
    raise _refused(node, f"{other.shape} is neither a bias of {n} columns nor C; add it to the spec's `epilogue`")


def _with_c(node: ast.Call, of: Product, named: Mapping[str | None, ast.expr]) -> Product:
    """beta * C + alpha * A * B, whose C may be a bias."""
    c = _argument(node, named, 0, "input")
    if c is None:
        raise _refused(node, "the matrix that is added is missing")
    if "alpha" in named:
        of = replace(of, operations=("alpha",))
    found = _added(node, of, _tensor(c))
    if "beta" in named and "beta_c" not in found.operations:
        raise _refused(node, "a bias times beta: multiply the bias by it beforehand")
    return found


def _scaled(node: ast.Call, of: Product, scales: Sequence[ast.expr | None]) -> Product:
    """With factors of the whole matrix, of each row of A or of each column of B."""
    m, n, _, _ = of.shape
    keys = {}
    for letter, given, whole, word in zip("ab", scales, ((m, 1), (1, n)), ("row", "column"), strict=True):
        if given is None:
            continue
        shape = _tensor(given).shape
        if math.prod(shape) != 1 and shape != whole:
            raise _refused(node, f"scales of shape {shape}: for blocks write it without, and add `scale` (docs/scaling.md)")
        keys[letter] = "tensor" if math.prod(shape) == 1 else word
    return replace(of, keys={"scale": keys}) if keys else of


def _einsum(node: ast.Call) -> Product:
    """Of two tensors that have one index in common which the result has not."""
    if len(node.args) != 3 or not (isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)):
        raise _refused(node, "an einsum of two tensors, 'mk,kn->mn', is a product")
    tensors = [_tensor(one) for one in node.args[1:]]
    try:
        found = einsum.factors(node.args[0].value, [(one.shape, one.transposed) for one in tensors])
    except ValueError as error:
        raise _refused(node, str(error)) from None
    a, b = (_Tensor(tensors[one.number].word, one.shape, one.transposed) for one in found)
    return _multiplied(node, a, b, None)


def _is_module(node: ast.expr) -> bool:
    """torch, F, torch.nn.functional: a name of no type."""
    inner = node
    while isinstance(inner, ast.Attribute) and inner.attr not in ("T", "mT"):
        inner = inner.value
    return isinstance(inner, ast.Name) and inner.id not in _WORDS


def _method(node: ast.Call, name: str, of: _Tensor | Product, named: dict[str | None, ast.expr]) -> _Tensor | Product:
    if name in _NO_MATTER:
        return of
    if name in _CASTS:
        return _cast(of, _WORDS[name])
    if name in ("to", "type"):
        types = [
            one for one in [*node.args, *([named["dtype"]] if "dtype" in named else [])] if not isinstance(one, ast.Constant)
        ]
        return _cast(of, _word(types[0])) if types else of
    if isinstance(of, _Tensor) and name in reordered.FUNCTIONS:
        return _reordered(node, name, of, node.args, named)
    if isinstance(of, _Tensor) and name == "contiguous":
        return replace(of, transposed=False)
    if isinstance(of, Product) and (operation := _operation(name, named)) is not None:
        return _applied(node, of, operation)
    if name in _PRODUCTS and isinstance(of, _Tensor) and node.args:
        return _multiplied(node, of, _tensor(node.args[0]), None)
    raise _refused(node, f"{name} is not known here; an operation after the product is one of the spec's `epilogue`")


def _reordered(
    node: ast.expr, name: str, of: _Tensor, given: Sequence[ast.expr] = (), named: Mapping[str | None, ast.expr] | None = None
) -> _Tensor:
    """With its dimensions in another order; given, named: the arguments besides the tensor."""
    try:
        return of.mt if reordered.exchanged(name, len(of.shape), given, named or {}) else of
    except ValueError as error:
        raise _refused(node, str(error)) from None


def _cast(of: _Tensor | Product, word: str) -> _Tensor | Product:
    return replace(of, out=word) if isinstance(of, Product) else replace(of, word=word)


def _multiplied(node: ast.expr, a: _Tensor, b: _Tensor, out: ast.expr | None) -> Product:
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise _refused(node, f"shapes {a.shape} and {b.shape} are no (..., M, K) and (..., K, N)")
    (*batches, m, k), (*of_b, _, n) = a.shape, b.shape
    if of_b:
        batch, count = math.prod(batches), math.prod(of_b)
        same = batch == count if len(of_b) == 1 else batches == of_b
        # A matrix that all batches share has stride 0; one that some of them share has no stride.
        if not (same or 1 in (batch, count)):
            raise _refused(node, f"batches of {' x '.join(map(str, batches))} and {' x '.join(map(str, of_b))} matrices")
        batch = max(batch, count)
    else:  # the rows of all batches are one matrix, unless each is transposed
        batch, m = (math.prod(batches), m) if a.transposed else (1, m * math.prod(batches))
    stored = _word(out) if out is not None else _STORED.get(a.word, a.word)
    return Product((a.word, b.word), None, stored, letters(not a.transposed, b.transposed), (m, n, k, batch))


def _word(node: ast.expr) -> str:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if name not in _WORDS:
        raise _refused(node, f"no type of elements; there are {', '.join(dict.fromkeys(_WORDS.values()))}, and torch's names")
    return _WORDS[name]


def _shape(node: ast.expr) -> tuple[int, ...]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    extents = [part.value for part in parts if isinstance(part, ast.Constant) and type(part.value) is int and part.value > 0]
    if len(extents) != len(parts):
        raise _refused(node, "a shape is positive integers, e.g. [4096, 8192]")
    return tuple(map(int, extents))
