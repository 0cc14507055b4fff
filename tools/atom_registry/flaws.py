"""Flaws of the CUTLASS headers, found by comparison with the PTX ISA and corrected if a layout suffices.

A warp-wide mma.sync has fragments that one formula describes (PTX ISA, "Matrix Fragments for mma"): rows go to groups
of four lanes, and each register holds consecutive elements along K.
"""

from __future__ import annotations

import re

from tools.atom_registry.oracle import Facts
from tools.atom_registry.scan import Struct

_BITS = {
    "u1": 1,
    "s4": 4,
    "u4": 4,
    "s8": 8,
    "u8": 8,
    "e4m3": 8,
    "e5m2": 8,
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f64": 64,
    "c64": 64,
}


def of(struct: Struct, found: Facts, types: list[str | None]) -> list[tuple[str, str, str | None]]:
    """(operand, what is wrong, right layout) of each flaw; operand "" for one of the operation as a whole."""
    wrong: list[tuple[str, str, str | None]] = []
    if re.match(r"dp2a\.(?!lo|hi)", struct.opcodes[0]):
        wrong.append(
            (
                "",
                f"{struct.opcodes[0]} is no PTX: dp2a takes .lo or .hi, and four bytes of B of which it uses "
                "two; it does not assemble",
                None,
            )
        )
    if struct.opcodes[0].startswith("mma.sync") and found.layouts["ThrID"] == "32:1":
        for operand, right in fragments(struct, found.shape, types).items():
            if (upstream := found.layouts[operand]) != right and not same(upstream, right):
                wrong.append((operand, f"CUTLASS has {upstream}, {_why(upstream)}", right))
    return wrong


def _why(upstream: str) -> str:
    shape, stride = (re.sub(r"\d+", "", part) for part in upstream.split(":"))
    if shape != stride:
        return "whose stride does not nest as its shape does: what uses it does not compile"
    return "which leaves elements out, as the PTX ISA does not; NVIDIA/cutlass pull request 3140 mends it"


def fragments(struct: Struct, shape: tuple[int, ...], types: list[str | None]) -> dict[str, str]:
    """Layouts of A, B and C of a warp-wide mma.sync after the PTX ISA, in CuTe's order of values."""
    m, n, k = shape
    # Containers of SM120's kind::f8f6f4 have 8 bits whatever the type; sparse A stores half of K's elements.
    bits = [8 if "f8f6f4" in struct.opcodes[0] else _BITS.get(word or "", 4) for word in types[1:3]]
    run_a, run_b = (max(1, 32 // width) for width in bits)
    if ".sp" in struct.opcodes[0]:
        run_a *= 2
    return {
        "A": _spelled(m, (run_a, 1), (2 if m == 16 else 1, 8), (k // (4 * run_a), 4 * run_a * m)),
        "B": _spelled(n, (run_b, 1), (1, 0), (k // (4 * run_b), 4 * run_b * n)),
        "C": _spelled(m, (2, 1), (2 if m == 16 else 1, 8), (1, 0)),
    }


def _spelled(rows: int, run: tuple[int, int], eights: tuple[int, int], repeats: tuple[int, int]) -> str:
    """Threads (4,8): consecutive runs of columns, then rows. Values: along the run, rows + 8, repeats of four runs."""
    length = run[0]
    modes = [(length, rows), eights, repeats]
    modes = [mode for mode in modes if mode[0] > 1] or [(1, 0)]
    extents, strides = zip(*modes, strict=True)
    values = (
        (f"({','.join(map(str, extents))})", f"({','.join(map(str, strides))})")
        if len(modes) > 1
        else (str(extents[0]), str(strides[0]))
    )
    return f"((4,8),{values[0]}):(({length * rows},1),{values[1]})"


def same(one: str, other: str) -> bool:
    """Are two layouts the same mapping? False if strides and shape are not congruent."""
    from mmagen.mma.operation import ThreadValueLayout

    try:
        return ThreadValueLayout(one, 0, 0, 0).table() == ThreadValueLayout(other, 0, 0, 0).table()
    except ValueError:
        return False
