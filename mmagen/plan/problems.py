"""The default problems of verify."""

from __future__ import annotations

from functools import cache

from mmagen.spec.model import Problem


@cache
def default_problems() -> tuple[Problem, ...]:
    """Shapes that expose faults of a GEMM: smaller than a tile, residues in all modes, no residue, a batch, padded and odd
    leading dimensions, rows that end within 16 bytes, misaligned pointers, alpha and beta; and two sizes that fill a GPU."""
    return (
        Problem(shape=(1, 1, 1)),
        Problem(shape=(17, 33, 65)),
        Problem(shape=(256, 256, 128)),
        Problem(shape=(300, 200, 136), batch=3, alpha=2.0, beta=-1.0),
        Problem(shape=(264, 520, 72), ld_pad=8, beta=1.0),
        Problem(shape=(129, 257, 100), ld_pad=3, batch=3),
        Problem(shape=(91, 91, 91), ld_pad=5),
        Problem(shape=(256, 136, 200), offset=1, alpha=-1.0, beta=2.0),
        Problem(shape=(1000, 1000, 1000)),
        Problem(shape=(4104, 4104, 4104)),
        Problem(shape=(8192, 8192, 8192)),
    )
