"""Calls of cublasLtMatmul as its log prints them (CUBLASLT_LOG_LEVEL=5), as answers of `mmagen new`.

    [cublasLt][42][Trace][cublasLtMatmul] A=0x7f... Adesc=[type=R_16BF rows=8192 cols=1024 ld=8192] ...
        computeDesc=[computeType=COMPUTE_32F scaleType=R_32F transa=OP_T]

All matrices are column-major, unless an order is given. A column-major D of A * B is, in memory, the row-major one of the
transposed product: B's transpose is A here, and A's transpose is B.
"""

from __future__ import annotations

import re
from typing import Any

from mmagen.core.errors import UsageError
from mmagen.suggest.product import Product, letters

_TYPES = {"R_16F": "f16", "R_16BF": "bf16", "R_32F": "f32", "R_64F": "f64", "R_8I": "s8", "R_8U": "u8", "R_32I": "s32"}
_TYPES |= {"R_8F_E4M3": "e4m3", "R_8F_E5M2": "e5m2", "C_64F": "c64"}
_SUMS = {"16F": "f16", "32F": "f32", "64F": "f64", "32I": "s32"}
# What a call allows of f32 matrices, which tf32 reads as well and rounds no more.
_LESS_EXACT = {
    "16BF": "COMPUTE_32F_FAST_16BF lets cuBLASLt round f32 to bf16, 8 bits: tf32 reads f32 too and rounds to 11 bits",
    "16F": "COMPUTE_32F_FAST_16F lets cuBLASLt round f32 to f16, 11 bits: tf32 reads f32 too, rounds to as many and has its range",
}
# In the order in which cuBLASLt applies them; its gelu is the form with tanh.
_OPERATIONS: dict[str, Any] = {"BIAS": {"bias": "column"}, "RELU": "relu", "GELU": {"gelu": "tanh"}}
_NINE = "of nine products of bf16 pieces, split: bf16x6 leaves out three, together at most one unit in the last place of f32"
_FORM = "a line with Adesc=[...], Bdesc=[...], Ddesc=[...] and computeDesc=[...], as CUBLASLT_LOG_LEVEL=5 prints it"


def product(line: str) -> Product:
    """What the call computes. Raises UsageError."""
    a, b, d, compute = (_descriptor(line, name) for name in ("Adesc", "Bdesc", "Ddesc", "computeDesc"))
    for one in (a, b, d):
        if one.get("order", "ORDER_COL") != "ORDER_COL":
            raise UsageError(f"--cublaslt: order={one['order']}: only column-major matrices (ORDER_COL) are read")
    operations = _operations(compute.get("epilogue", "EPILOGUE_DEFAULT"), line)
    for key, value in compute.items():
        if key.endswith("scalepointer") and value.strip("(nil)0x"):
            raise UsageError(f"--cublaslt: {key}={value}: remove it, and add `scale` to the spec, whose A is B of the call")
    if "OP_C" in (compute.get("transa"), compute.get("transb")) and _type(d) == "c64":
        raise UsageError("--cublaslt: OP_C: matrices are not conjugated; OP_N and OP_T are read")
    a_transposed, b_transposed = (compute.get(name, "OP_N") in ("OP_T", "OP_C") for name in ("transa", "transb"))
    m, k = _extents(a)[::-1] if a_transposed else _extents(a)
    of_b, n = _extents(b)[::-1] if b_transposed else _extents(b)
    if of_b != k or _extents(d) != (m, n):
        raise UsageError(
            f"--cublaslt: op(A) is {m} x {k}, op(B) {of_b} x {n} and D {' x '.join(map(str, _extents(d)))}: no product"
        )
    sums = _SUMS.get(compute.get("computetype", "").split("_")[1] if "_" in compute.get("computetype", "") else "")
    if sums is None:
        raise UsageError(f"--cublaslt: computeType is {compute.get('computetype', 'missing')}; there are {', '.join(_SUMS)}")
    sums = "c64" if _type(d) == "c64" else sums
    how = compute["computetype"].partition("_FAST_")[2] if {_type(a), _type(b)} == {"f32"} else ""
    types = ("tf32", "tf32") if how in ("TF32", *_LESS_EXACT) else (_type(b), _type(a))
    pieces = {"split": "bf16x6"} if "EMULATED_16BFX9" in compute["computetype"] and types == ("f32", "f32") else {}
    remark = _LESS_EXACT.get(how, _NINE if pieces else "")
    batches = {name: one["batchcount"] for name, one in (("A", a), ("B", b), ("D", d)) if "batchcount" in one}
    if len(set(batches.values())) > 1:
        said = ", ".join(f"{count} of {name}" for name, count in batches.items())
        raise UsageError(f"--cublaslt: batchCount is {said}; all matrices of a call have the same")
    batch = d.get("batchcount", "1")
    if not batch.isdecimal() or int(batch) < 1:
        raise UsageError(f"--cublaslt: batchCount={batch} is no number of matrices")
    layout, shape = letters(not b_transposed, a_transposed), (n, m, k, int(batch))
    return Product(types, sums, _type(d), layout, shape, operations, pieces, remark)


def _operations(epilogue: str, line: str) -> tuple[Any, ...]:
    """Of the spec's epilogue. cuBLASLt's bias has an element for each row of its D, which is a column of the row-major one."""
    if epilogue == "EPILOGUE_DEFAULT":
        return ()
    words = epilogue.removeprefix("EPILOGUE_").split("_")
    if unknown := [word for word in words if word not in _OPERATIONS]:
        raise UsageError(
            f"--cublaslt: {epilogue}: {', '.join(unknown)} is not read; remove it, and add the operation to the spec's `epilogue`"
        )
    no_c = re.search(r"\bbeta=0(\.0*)?(\s|$)", line)
    return ("alpha", *(() if no_c else ("beta_c",)), *(operation for word, operation in _OPERATIONS.items() if word in words))


def _descriptor(line: str, name: str) -> dict[str, str]:
    """Keys in lower case: versions differ."""
    found = re.search(rf"\b{name}=\[([^\]]*)\]", line)
    if found is None:
        raise UsageError(f"--cublaslt: {name} is missing; pass {_FORM}")
    return {key.lower(): value for key, _, value in (part.partition("=") for part in found[1].split())}


def _extents(of: dict[str, str]) -> tuple[int, int]:
    try:
        rows, columns = int(of["rows"]), int(of["cols"])
    except (KeyError, ValueError):
        raise UsageError(f"--cublaslt: a matrix without rows= and cols=; pass {_FORM}") from None
    return rows, columns


def _type(of: dict[str, str]) -> str:
    if of.get("type") == "C_32F":
        raise UsageError(
            "--cublaslt: type=C_32F: complex numbers are pairs of f64 (C_64F), of which tensor cores have operations"
        )
    if of.get("type") not in _TYPES:
        raise UsageError(f"--cublaslt: type={of.get('type')}; there are {', '.join(_TYPES)}")
    return _TYPES[of["type"]]
