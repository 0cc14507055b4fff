"""Rows of `mmagen inspect` shared by several kernel families: the decisions of a plan and their costs, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mmagen.plan import budgets, cxx
from mmagen.plan.model import Operand, TiledMma
from mmagen.plan.plans import ProductPlan, TilePlan

if TYPE_CHECKING:
    from mmagen.plan.bank_conflicts import Passes

Row = tuple[str, ...]
Section = tuple[str, list[Row]]


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 vector`, `2 vectors`, `2 passes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def extents(value: tuple[int, ...]) -> str:
    """`128 x 128 x 32`."""
    return " x ".join(map(str, value))


def tiled_mma(plan: TilePlan) -> Section:
    """The atom, the TiledMMA and the CTA tile."""
    atom, mma = plan.atom, plan.tiled_mma
    rests = tuple(t // e for t, e in zip(plan.tile, mma.extent, strict=True))
    return (
        "TiledMMA",
        [
            (
                "atom",
                f"{atom.name}, {extents((atom.m, atom.n, atom.k))}, {count(atom.threads, 'thread')}, "
                f"{atom.default_arch} {'alone' if atom.arch_specific else 'and later'}",
            ),
            ("atoms_layout", f"{mma.atoms_layout}: {extents(mma.atoms)} atoms, {mma.threads} threads"),
            ("permutation", _permutation(mma)),
            ("TiledMMA covers", extents(mma.extent)),
            ("CTA tile", f"{extents(plan.tile)} = {extents(rests)} of the TiledMMA"),
            ("k blocks", f"{rests[2]} per CTA tile, {mma.extent[2]} elements of K each: what the TiledMMA multiplies at once"),
            ("compiled for", ", ".join(plan.arch)),
        ],
    )


def _permutation(mma: TiledMma) -> str:
    if mma.permutation == (None, None, None):
        return "none"
    return ", ".join("_" if one is None else str(one) for one in mma.permutation)


def operand_title(operand: Operand) -> str:
    """`Operand A (M,K)`."""
    return f"Operand {operand.letter} ({operand.mode},K)"


def copied_operand(plan: ProductPlan, operand: Operand) -> list[Row]:
    """An operand copied by threads from global to shared memory and loaded into fragments from there."""
    from mmagen.plan import bank_conflicts  # imports the layout algebra, which is slow

    swizzle = operand.swizzle
    spelled = f"Swizzle<{swizzle.bits},{swizzle.base},{swizzle.shift}>" if swizzle.bits else "no swizzle"
    line = f"lines of {operand.line * operand.packed} elements ({operand.line * operand.element.bytes} B) x {operand.lines}"
    rows: list[Row] = [typed(operand), ("shared memory", f"{line}, {spelled}")]
    for name, by in operand.gmem_copies:
        vectors = operand.extent_mn * operand.extent_k // by.vector
        each = f"{count(vectors // by.threads, 'vector')} of {count(by.vector * operand.packed, 'element')}"
        stored = conflicts(bank_conflicts.copy(operand, by), "per warp and vector")
        rows.append((f"copy, {name.lower()}", f"{by.threads} of {plan.threads} threads x {each}; {stored}"))
    rows.append(("load", f"{load(operand)}; {conflicts(bank_conflicts.load(plan, operand), 'per warp and k block')}"))
    return rows


def typed(operand: Operand) -> Row:
    """The type and contiguous mode of an operand."""
    elements = operand.element.word if operand.packed == 1 else f"{operand.multiplied}, {operand.packed} in each byte"
    return ("type", f"{elements}, {operand.major} contiguous")


def load(operand: Operand) -> str:
    """The CuTe operation that loads fragments."""
    return cxx.smem_copy(operand).removeprefix("cute::") if operand.smem_copy else "none; wgmma reads shared memory"


def conflicts(passes: Passes, of: str) -> str:
    """How many wavefronts, as Nsight Compute calls passes through the banks, and how many of them are conflicts. of: per what."""
    more = passes.taken - passes.ideal
    verdict = f"{passes.ways:.3g}-way bank conflicts: {more:,} more than without" if more else "no bank conflicts"
    return f"{count(passes.taken, 'wavefront')} {of}, {verdict}"


def registers(plan: ProductPlan, fragments: int, which: str, ctas_per_sm: int) -> list[Row]:
    """32-bit registers per thread. which: what the fragments hold."""
    most = min(budgets.REGISTERS_PER_THREAD, budgets.REGISTERS_PER_SM // (plan.threads * ctas_per_sm))
    return [
        ("accumulators", str(plan.accumulator_registers)),
        ("fragments", f"{fragments}, {which}"),
        (
            "together",
            f"{plan.accumulator_registers + fragments} of {most} at {ctas_per_sm} x {plan.threads} threads per SM; "
            "excluding addresses and loop state",
        ),
    ]


def one_stage(plan: ProductPlan) -> Row:
    """Bytes of shared memory of one stage."""
    each = " + ".join(f"{one.letter} {one.bytes_per_stage:,}" for one in plan.operands)
    return ("one stage", f"{plan.stage_bytes:,} B: {each}")


def smem_together(plan: ProductPlan, of_it: str = "") -> Row:
    """Bytes of shared memory per CTA, and how many such CTAs fit on an SM."""
    fit = budgets.ctas_that_fit(plan.arch, plan.smem_bytes, plan.threads)
    return ("total", f"{plan.smem_bytes:,} B of {plan.smem_limit:,}{of_it}; {count(fit, 'CTA')} per SM")


def output(plan: ProductPlan) -> list[Row]:
    """The type of D, that of alpha and beta, and the operations with what they read."""
    staged = plan.epilogue
    read = {one.name: f"{one.name} is {one.shape_text} of {one.element.word}" for one in plan.arguments.tensors}
    steps = [("x becomes", one.text, read.get(one.tensor, "")) for one in staged.operations]
    return [
        ("D", f"{staged.out.word}, {staged.major} contiguous; alpha and beta are {staged.scalar.word}"),
        *((what, f"{step}; {tensor}" if tensor else step) for what, step, tensor in steps),
    ]


def raster(rows: int) -> str:
    """The raster order of work tiles."""
    return f"bands of {count(rows, 'row')}, which reuse columns of B in L2"


def intensity(plan: ProductPlan, fetched: int, read: int) -> list[Row]:
    """Operations per byte; fetched, read: bytes of a stage from global and from shared memory."""
    m, n, k = plan.tile
    flop, written = 2 * m * n * k * plan.atom.real_products, plan.stage_bytes
    return [
        ("from global memory", f"{fetched:,} B per stage for {flop:,} flop: {flop / fetched:.4g} flop/B"),
        ("shared memory", f"{written:,} B written, {read:,} B read per stage: {flop / (written + read):.4g} flop/B"),
    ]
