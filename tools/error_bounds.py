"""What each error bound detects: `python -m tools.error_bounds [--k 4096] [--markdown FILE]`.

For every type of sums, the judge's inputs are multiplied by the emulator's arithmetic, and D is compared as `mmagen verify`
compares it: as a right kernel leaves it, with sums of zero, with one k tile left out, and with sums of another kind.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tabulate import tabulate

from mmagen.emulate.arithmetic import mma, numerics, wgmma
from mmagen.families import plan as planned
from mmagen.mma.pieces import PRODUCTS, pieces_of
from mmagen.mma.sparse_atoms import SparseAtom
from mmagen.plan.plans import GemmPlan
from mmagen.spec.load import load
from mmagen.spec.model import Problem
from mmagen.spec.scale import BLOCK
from mmagen.verify.emulated.compare import Comparison, compare
from mmagen.verify.emulated.formats import encode
from mmagen.verify.emulated.matrices import draw_of, operands
from mmagen.verify.emulated.matrix import Operands, values
from mmagen.verify.emulated.parts import Call, parts_of
from mmagen.verify.emulated.weights import LARGEST as LARGEST_WEIGHT

Array = npt.NDArray[Any]
Step = Callable[[Array, Array, Array], Array]  # (A [m, k], B [n, k], sums before [m, n]) -> sums, all float64
Factor = Callable[[int], Array]  # of the sums [m, n] of the k tile that begins at an element of K
ROWS = 64  # of A and of B

WGMMA = "tile: [64, 64, {k}]"
MMA = "atoms_layout: [2, 2, 1], tile: [64, 64, {k}]"
SCALED = ", scale: {a: 1x128, b: 128x128}, schedule: cooperative"
WEIGHTS = ", operands: swapped, schedule: cooperative, weights: {{type: {}}}"
SPARSE = "SM90::GMMA::SPARSE::GMMA_64x64x"
# Atom, its kind of spec, elements of K in a tile of 128 bytes, and what else the spec says.
SPECS = {
    "f16 + f32, wgmma": ("SM90_64x64x16_F32F16F16_SS", WGMMA, 64, ""),
    "f16 + f16, wgmma": ("SM90_64x64x16_F16F16F16_SS", WGMMA, 64, ""),
    "bf16 + f32, wgmma": ("SM90_64x64x16_F32BF16BF16_SS", WGMMA, 64, ""),
    "tf32 + f32, wgmma": ("SM90_64x64x8_F32TF32TF32_SS_TN", WGMMA, 32, ""),
    "e4m3 + f32, wgmma, fast": ("SM90_64x64x32_F32E4M3E4M3_SS_TN", WGMMA, 128, ""),
    "e4m3 + f32, wgmma, precise": ("SM90_64x64x32_F32E4M3E4M3_SS_TN", WGMMA, 128, ", accumulation: precise"),
    "e5m2 + f32, wgmma, fast": ("SM90_64x64x32_F32E5M2E5M2_SS_TN", WGMMA, 128, ""),
    "e5m2 + f32, wgmma, precise": ("SM90_64x64x32_F32E5M2E5M2_SS_TN", WGMMA, 128, ", accumulation: precise"),
    "e4m3 + f32, wgmma, scaled": ("SM90_64x64x32_F32E4M3E4M3_SS_TN", WGMMA, 128, SCALED),
    "bf16 + f32, sparse wgmma": (f"{SPARSE}32_F32BF16BF16_SS", WGMMA, 128, ""),
    "tf32 + f32, sparse wgmma": (f"{SPARSE}16_F32TF32TF32_SS_TN", WGMMA, 64, ""),
    "e4m3 + f32, sparse wgmma": (f"{SPARSE}64_F32E4M3E4M3_SS_TN", WGMMA, 256, ""),
    "s8 + s32, sparse wgmma": (f"{SPARSE}64_S32S8S8_SS_TN", WGMMA, 256, ""),
    "f32 in 2 bf16 pieces, wgmma": ("SM90_64x64x16_F32BF16BF16_SS", WGMMA, 64, ", split: bf16x3, schedule: cooperative"),
    "f32 in 3 bf16 pieces, wgmma": ("SM90_64x64x16_F32BF16BF16_SS", WGMMA, 32, ", split: bf16x6, schedule: cooperative"),
    "bf16 x s4 + f32, wgmma": ("SM90_64x64x16_F32BF16BF16_RS", WGMMA, 128, WEIGHTS.format("s4, group: 128, scale: bf16")),
    "f16 x u4 + f32, wgmma": ("SM90_64x64x16_F32F16F16_RS", WGMMA, 128, WEIGHTS.format("u4, group: 64, scale: f32, zero: u8")),
    "bf16 x s8 + f32, wgmma": ("SM90_64x64x16_F32BF16BF16_RS", WGMMA, 128, WEIGHTS.format("s8, group: 128")),
    "f16 x e4m3 + f32, wgmma": ("SM90_64x64x16_F32F16F16_RS", WGMMA, 128, WEIGHTS.format("e4m3, group: 128")),
    "e4m3 + f16, wgmma": ("SM90_64x64x32_F16E4M3E4M3_SS_TN", WGMMA, 128, ""),
    "s8 + s32, wgmma": ("SM90_64x64x32_S32S8S8_SS_TN", WGMMA, 128, ""),
    "u8 + s32, wgmma": ("SM90_64x64x32_S32U8U8_SS_TN", WGMMA, 128, ""),
    "f16 + f32, mma of sm_70": ("SM70_8x8x4_F32F16F16F32_TN", MMA, 64, ""),
    "f16 + f16, mma of sm_70": ("SM70_8x8x4_F16F16F16F16_TN", MMA, 64, ""),
    "f16 + f32, mma of sm_75": ("SM75_16x8x8_F32F16F16F32_TN", MMA, 64, ""),
    "f16 + f32, mma": ("SM80_16x8x16_F32F16F16F32_TN", MMA, 64, ""),
    "f16 + f16, mma": ("SM80_16x8x16_F16F16F16F16_TN", MMA, 64, ""),
    "bf16 + f32, mma": ("SM80_16x8x16_F32BF16BF16F32_TN", MMA, 64, ""),
    "tf32 + f32, mma": ("SM80_16x8x8_F32TF32TF32F32_TN", MMA, 32, ""),
    "e4m3 + f32, mma": ("SM89_16x8x32_F32E4M3E4M3F32_TN", MMA, 128, ""),
    "e5m2 + f32, mma": ("SM89_16x8x32_F32E5M2E5M2F32_TN", MMA, 128, ""),
    "s8 + s32, mma": ("SM80_16x8x32_S32S8S8S32_TN", MMA, 128, ""),
    "u8 + s32, mma": ("SM80_16x8x32_S32U8U8S32_TN", MMA, 128, ""),
    "f32 in 2 bf16 pieces, mma": ("SM80_16x8x16_F32BF16BF16F32_TN", MMA, 32, ", split: bf16x3"),
    "f32 in 3 bf16 pieces, mma": ("SM80_16x8x16_F32BF16BF16F32_TN", MMA, 32, ", split: bf16x6"),
    "bf16 + f32, sparse mma": ("SM80_SPARSE_16x8x32_F32BF16BF16F32_TN", MMA, 128, ", sparse: '2:4'"),
    "tf32 + f32, sparse mma": ("SM80_SPARSE_16x8x16_F32TF32TF32F32_TN", MMA, 64, ", sparse: '1:2'"),
    "e4m3 + f32, sparse mma": ("SM89_SPARSE_16x8x64_F32E4M3E4M3F32_TN", MMA, 256, ", sparse: '2:4'"),
    "s8 + s32, sparse mma": ("SM80_SPARSE_16x8x64_S32S8S8S32_TN", MMA, 256, ", sparse: '2:4'"),
    "f64 + f64, mma": ("SM80_8x8x4_F64F64F64F64_TN", MMA, 16, ""),
    "f32 + f32, fma": ("UniversalFMA<float,float,float,float>", "atoms_layout: [16, 16, 1], tile: [64, 64, {k}]", 32, ""),
}


@dataclass(frozen=True)
class Row:
    """One type with one distribution of inputs. other: what the other kind of sums is."""

    name: str
    distribution: str
    k: int
    right: Comparison
    zero: Comparison
    missing: Comparison
    other_name: str
    other: Comparison


def plan_of(name: str, out: str = "", called: str = "bounds") -> GemmPlan:
    """The plan of a kernel with these sums. out: D's type, by default that of the sums."""
    atom, more, k, rest = SPECS[name]
    body = f"mmagen: 1, name: {called}, kernel: gemm, atom: '{atom}', layout: TN, {more.format(k=k)}{rest}"
    text = f"{{{body}, epilogue: {{{f'out: {out}' if out else ''}}}}}"
    one = planned(load(text, "bounds.yaml").spec)
    assert isinstance(one, GemmPlan)
    return one


def rows(name: str, k: int, out: str = "", seed: int = 1) -> Iterator[Row]:
    """Of one type, for uniform and small_int inputs."""
    plan = plan_of(name, out)
    step, promoted = instruction(plan), plan.accumulation.promoted
    depth = promoted if plan.accumulation.of_pieces else plan.atom.k
    other_name, other_step = another(plan, step)
    kept = np.arange(k) // plan.tile[2] != k // plan.tile[2] // 2
    for distribution in ("uniform", "small_int"):
        problem = Problem(shape=(ROWS, ROWS, k))
        data = operands(plan, problem, distribution, seed)
        a, b = factors(plan, problem, data, distribution)
        right, zero, missing, other = (
            judged(plan, problem, data, sums, distribution)
            for sums in (
                multiply(step, depth, a, b, promoted, scales(plan, data)),
                np.zeros((ROWS, ROWS)),
                multiply(step, depth, a[:, kept], b[:, kept], promoted, scales(plan, data, kept=kept)),
                multiply(step, depth, a, b, promoted, scales(plan, data, behind=1))
                if plan.spec.scale
                else multiply(other_step, depth, a, b, promoted if plan.spec.weights else 0, scales(plan, data)),
            )
        )
        yield Row(name, distribution, k, right, zero, missing, other_name, other)


def factors(plan: GemmPlan, problem: Problem, data: Operands, distribution: str) -> tuple[Array, Array]:
    """A with the zeros of a sparse one, and B."""
    call = Call(plan, problem, draw_of(plan, problem, distribution), data)
    a, b = values(data.a), values(data.b)
    for part in parts_of(plan):
        a, b = part.factors(call, a, b)
    return a[0], b[0]


def scales(plan: GemmPlan, data: Operands, behind: int = 0, kept: npt.NDArray[np.bool_] | None = None) -> Factor:
    """The products of the scales of A and B, as the kernel rounds them, or the scales of weights. behind: takes those of A from so
    many blocks further. kept: which elements of K are multiplied."""
    if plan.spec.weights:
        group = plan.spec.weights.group or data.a.columns
        of_group = LARGEST_WEIGHT[plan.spec.weights.type] * values(data.further["scale_b"])[0]
        groups = np.arange(of_group.shape[1]) if kept is None else np.flatnonzero(kept[::group])
        return lambda first: np.broadcast_to(of_group[:, groups[first // group]], (ROWS, ROWS))
    if not plan.spec.scale:
        return lambda first: np.ones((ROWS, ROWS))
    of_a, of_b = values(data.further["scale_a"])[0], values(data.further["scale_b"])[0]
    blocks = np.arange(of_a.shape[1]) if kept is None else np.flatnonzero(kept[::BLOCK])
    return lambda first: as_format(
        of_a[:, (blocks[first // BLOCK] + behind) % of_a.shape[1], None] * of_b[0, blocks[first // BLOCK]], "f32"
    )


def multiply(step: Step, depth: int, a: Array, b: Array, promoted: int, factor: Factor) -> Array:
    """The sums of all of K. promoted: elements of K whose sum is added in f32 times a factor, or 0."""
    total = np.zeros((len(a), len(b)))
    partial = np.zeros_like(total)
    for first in range(0, a.shape[1], depth):
        part = slice(first, first + depth)
        partial = step(a[:, part], b[:, part], partial)
        if promoted and (part.stop % promoted == 0 or part.stop >= a.shape[1]):
            total = as_format(total + partial * factor((part.stop - 1) // promoted * promoted), "f32")
            partial = np.zeros_like(partial)
    return total if promoted else partial


def instruction(plan: GemmPlan) -> Step:
    """What the emulator computes for the plan's instruction."""
    atom = plan.atom
    d, a, b, c = (kind.word for kind in (atom.type_d, atom.type_a, atom.type_b, atom.type_c))
    if atom.kind == "fma":
        return lambda x, y, sums: as_format(x * y.T + sums, d)
    if plan.accumulation.of_pieces:
        return of_pieces(str(plan.spec.split), wgmma_step if atom.kind == "wgmma" else mma_step)
    if atom.kind == "wgmma":
        sparse = ("sp",) if isinstance(atom, SparseAtom) else ()
        kind = wgmma.parse(("mma_async", *sparse, "sync", "aligned", f"m64n{ROWS}k{atom.k}", d, a, b))
        return lambda x, y, sums: decoded(wgmma.multiply(kind, x[None], y[None], codes(sums, d)[None])[0], d)
    sparse = ("sp::ordered_metadata",) if isinstance(atom, SparseAtom) else ()
    form = mma.parse((*sparse, "sync", "aligned", f"m{atom.m}n{atom.n}k{atom.k}", "row", "col", d, a, b, c))
    if sparse:
        return lambda x, y, sums: decoded(mma.accumulate(form, *chosen(x, y), codes(sums, d)[None])[0], d)
    return lambda x, y, sums: decoded(mma.accumulate(form, x[None], y.T[None], codes(sums, d)[None])[0], d)


def chosen(x: Array, y: Array) -> tuple[Array, Array]:
    """What mma.sp multiplies, given A with its zeros and B: A's half, [1, m, 1, k/2], and B's for each row, [1, m, k/2, n]."""
    columns = np.argsort(x == 0, axis=1, kind="stable")[:, : x.shape[1] // 2]
    return np.take_along_axis(x, columns, axis=1)[None, :, None], y.T[columns][None]


def wgmma_step(x: Array, y: Array, sums: Array) -> Array:
    """A wgmma of bf16, 16 elements of K."""
    kind = wgmma.parse(("mma_async", "sync", "aligned", f"m64n{ROWS}k16", "f32", "bf16", "bf16"))
    return decoded(wgmma.multiply(kind, x[None], y[None], codes(sums, "f32")[None])[0], "f32")


def mma_step(x: Array, y: Array, sums: Array) -> Array:
    """The same of mma.sync."""
    form = mma.parse(("sync", "aligned", "m16n8k16", "row", "col", "f32", "bf16", "bf16", "f32"))
    return decoded(mma.accumulate(form, x[None], y.T[None], codes(sums, "f32")[None])[0], "f32")


def of_pieces(split: str, one: Step) -> Step:
    """The products of the bf16 pieces of f32 elements of a k tile, or of an mma.sync, in their order. one: of 16 elements of K."""

    def step(x: Array, y: Array, sums: Array) -> Array:
        of_x, of_y = pieces(x, pieces_of(split)), pieces(y, pieces_of(split))
        for left, right in PRODUCTS[split]:
            for first in range(0, x.shape[1], 16):
                part = slice(first, first + 16)
                sums = one(of_x[left][:, part], of_y[right][:, part], sums)
        return sums

    return step


def pieces(x: Array, count: int) -> list[Array]:
    """bf16 numbers whose sum is nearly x, the largest first."""
    found: list[Array] = []
    for _ in range(count):
        found.append(as_format(x - sum(found), "bf16"))
    return found


def another(plan: GemmPlan, step: Step) -> tuple[str, Step]:
    """The accumulation that could be mistaken for the plan's, less exact than it."""
    if plan.spec.scale:
        return "the next block's scales", step
    if plan.accumulation.promoted and not plan.spec.weights:
        return "fast", step
    d = plan.atom.type_d.word
    if plan.atom.kind == "fma" and d == "f32":
        return "tf32 operands", lambda x, y, sums: step(as_tf32(x), as_tf32(y), sums)
    narrower = {"f64": "f32", "f16": "bf16"}.get(d, "f16")
    return f"{narrower} sums", lambda x, y, sums: as_format(x @ y.T + sums, narrower)


def as_tf32(x: Array) -> Array:
    """x as the tensor core reads it."""
    return decoded(codes(x, "f32"), "tf32")


def codes(x: Array, word: str) -> Array:
    """The codes of values that are in the format; s32 as uint32."""
    return x.astype(np.int64).astype(np.int32).view(np.uint32) if word == "s32" else numerics.from_float64(x, word)


def decoded(x: Array, word: str) -> Array:
    """float64 from codes."""
    return x.view(np.int32).astype(np.float64) if word == "s32" else numerics.to_float64(x, word)


def as_format(x: Array, word: str) -> Array:
    """x rounded to nearest."""
    return numerics.to_float64(numerics.from_float64(x, word), word)


def judged(plan: GemmPlan, problem: Problem, data: Operands, sums: Array, distribution: str) -> Comparison:
    """How D compares where the accumulators hold these sums."""
    with np.errstate(over="ignore"):
        data.d.view[0] = encode(sums, plan.epilogue.out.word)
    return compare(plan, problem, data, np.ones(data.d.memory.shape, bool), distribution)


def _told(found: Comparison) -> str:
    share = found.incorrect / ROWS**2
    return f"{found.max_abs_err:.2g}" + (f" ({share:.0%} wrong)" if share >= 0.005 else f" ({found.incorrect} wrong)")


def table(found: list[Row], form: str = "simple") -> str:
    """The errors of all rows. The bound is that of the right kernel's worst element."""
    lines = [
        [
            row.name,
            row.distribution,
            f"{row.right.bound:.2g}",
            f"{row.right.max_abs_err:.2g}",
            _told(row.zero),
            _told(row.missing),
            _told(row.other),
            row.other_name,
        ]
        for row in found
    ]
    heads = ["types", "inputs", "bound", "right", "sums of zero", "a k tile missing", "other sums", "which are"]
    return tabulate(lines, heads, tablefmt=form, disable_numparse=True)


def page(found: list[Row], command: str) -> str:
    """The same as Markdown to commit."""
    words = (
        f"Made by `{command}`. {ROWS} x {ROWS} elements of D, of the sums' type unless said otherwise, with K = {found[0].k}; the "
        "arithmetic is the emulator's. Beside each error is how many elements are out of their own bounds; the bound shown is that "
        "of the right kernel's worst element. A k tile is 128 bytes of K, of a sparse A as stored. Of 8-bit floats, mma is "
        "emulated as an H200 executes it, while its bound is that of Ada, which keeps less. "
        "[error-bounds.md](../error-bounds.md) derives the bounds."
    )
    return f"# What the error bounds detect\n\n{textwrap.fill(words, 128)}\n\n{table(found, 'github')}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--k", type=int, default=4096, help="the depth of the sums")
    parser.add_argument("--out", default="", help="D's type, by default that of the sums")
    parser.add_argument("--only", default="", help="types whose name contains this")
    parser.add_argument("--markdown", type=Path, help="write a page instead of printing a table")
    options = parser.parse_args()
    found = [row for name in SPECS if options.only in name for row in rows(name, options.k, options.out)]
    if not found:
        parser.error(f"no type is called {options.only}; there are {'; '.join(SPECS)}")
    if options.markdown:
        options.markdown.write_text(page(found, f"python -m tools.error_bounds {shlex.join(sys.argv[1:])}"), "utf-8")
    else:
        print(table(found))


if __name__ == "__main__":
    main()
