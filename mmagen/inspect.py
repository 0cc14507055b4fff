"""inspect: every number that follows from a spec, as text: tiling, copies, conflicts, budgets, traffic."""

from __future__ import annotations

from textwrap import indent

from tabulate import tabulate

from mmagen import conflicts
from mmagen.plan import budgets
from mmagen.plan.model import Operand, Plan

Row = tuple[str, str]


def inspect(plan: Plan) -> str:
    """The decisions of a plan and what they cost, in sections."""
    sections = [("TiledMMA", _tiled_mma(plan)), *_kernel_sections(plan)]
    head = f"{plan.name}: {plan.text.title}"
    body = [f"{title}\n{indent(tabulate(rows, tablefmt='plain', disable_numparse=True), '  ')}" for title, rows in sections]
    return "\n\n".join([head, *body]) + "\n"


def _count(number: int, noun: str, plural: str = "") -> str:
    """`1 vector`, `2 vectors`, `2 passes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _triple(value: tuple[int, ...]) -> str:
    return " x ".join(map(str, value))


def _tiled_mma(plan: Plan) -> list[Row]:
    atom, mma = plan.atom, plan.tiled_mma
    rests = tuple(t // e for t, e in zip(plan.tile, mma.extent, strict=True))
    return [
        ("atom", f"{atom.name}, {_triple((atom.m, atom.n, atom.k))}, {_count(atom.threads, 'thread')}, sm_{atom.min_arch} and later"),
        ("atoms_layout", f"{mma.atoms_layout}: {_triple(mma.atoms)} atoms, {mma.threads} threads"),
        ("permutation", ", ".join("_" if p is None else str(p) for p in mma.permutation)),
        ("follows: extent", f"{_triple(mma.extent)} covered by all threads at once"),
        ("CTA tile", f"{_triple(plan.tile)} = {_triple(rests)} extents"),
        ("compiled for", ", ".join(plan.arch)),
    ]


def _kernel_sections(plan: Plan) -> list[tuple[str, list[Row]]]:
    if plan.kernel == "ownership":
        return [("Ownership", [(f"{t.matrix} {t.rows} x {t.columns}", f"{_count(len(t.elements[0]), 'value')} a thread, "
                                f"{_count(len(t.owners()[0]), 'owner')} an element") for t in plan.ownership])]
    sections = [(f"Operand {o.letter} ({o.mode},K)", _operand(plan, o)) for o in (plan.a, plan.b)]
    sections.append(("Registers of a thread", _registers(plan)))
    sections.append(("Shared memory of a CTA", _shared_memory(plan)))
    if plan.kernel == "gemm":
        sections.append(("Epilogue", _epilogue(plan)))
        sections.append(("Traffic of a CTA tile", _traffic(plan)))
        sections.append(("Problems of verify", [(f"{i}", p.text) for i, p in enumerate(plan.problems)]))
    return sections


def _operand(plan: Plan, operand: Operand) -> list[Row]:
    swizzle = operand.swizzle
    rows = [
        ("type", f"{operand.element.word}, {operand.major} contiguous"),
        ("shared memory", f"lines of {operand.line} elements ({operand.line * operand.element.bytes} B) x {operand.lines}, " +
         (f"Swizzle<{swizzle.bits},{swizzle.base},{swizzle.shift}>" if swizzle.bits else "no swizzle")),
    ]
    fills = operand.fills if plan.kernel == "gemm" else (("Narrow", operand.fill_narrow),)  # micro has no other
    for name, by in fills:
        vectors = operand.extent_mn * operand.extent_k // by.vector
        rows.append((f"fill, {name.lower()}", f"{by.threads} of {plan.threads} threads x {_count(vectors // by.threads, 'vector')} of "
                     f"{_count(by.vector, 'element')}; {_conflicts(conflicts.fill(plan, operand, by), 'a warp and vector')}"))
    rows.append(("load", f"{operand.smem_copy.removeprefix('cute::')}; "
                 f"{_conflicts(conflicts.load(plan, operand), 'a warp and k block')}"))
    return rows


def _conflicts(passes: conflicts.Passes, of: str) -> str:
    verdict = "no bank conflicts" if passes.taken == passes.ideal else f"{passes.ways:.3g}-way bank conflicts"
    return f"{_count(passes.taken, 'pass', 'passes')} {of}, {verdict}"


def _registers(plan: Plan) -> list[Row]:
    if plan.kernel == "micro":
        blocks = plan.tile[2] // plan.tiled_mma.extent[2]
        fragments, which = plan.fragment_registers // 2 * blocks, "A and B of the whole tile"
    else:
        fragments, which = plan.fragment_registers, "two k blocks of A and B"
    most = min(budgets.REGISTERS_PER_THREAD, budgets.REGISTERS_PER_SM // (plan.threads * plan.ctas_per_sm))
    return [
        ("accumulators", str(plan.accumulator_registers)),
        ("fragments", f"{fragments}, {which}"),
        ("together", f"{plan.accumulator_registers + fragments} of {most} at {plan.ctas_per_sm} x {plan.threads} threads an SM; "
                     "addresses and loop state come on top"),
    ]


def _shared_memory(plan: Plan) -> list[Row]:
    per_stage = plan.a.bytes_per_stage + plan.b.bytes_per_stage
    rows = [("one stage", f"{per_stage:,} B: A {plan.a.bytes_per_stage:,} + B {plan.b.bytes_per_stage:,}")]
    if plan.kernel == "gemm":
        rows.append(("stages", f"{plan.stages}"))
        rows.append(("epilogue slice", f"{plan.epilogue.smem_bytes:,} B, in the same bytes"))
    fit = budgets.ctas_that_fit(plan.arch, plan.smem_bytes, plan.threads)
    rows.append(("together", f"{plan.smem_bytes:,} B of {plan.smem_limit:,}; an SM has room for {_count(fit, 'CTA')}"))
    return rows


def _epilogue(plan: Plan) -> list[Row]:
    staged = plan.epilogue
    slices = (plan.tile[0] if staged.row_major else plan.tile[1]) // staged.slice
    return [
        ("D", f"{staged.out.word}, {staged.major} contiguous; alpha and beta are {staged.scalar.word}"),
        ("staged", f"{_count(slices, 'slice')} of {_count(staged.slice, 'row' if staged.row_major else 'column')}, padded by "
                   f"{staged.pad} elements"),
        ("store", f"{_count(staged.vector, 'element')}, {staged.vector * staged.out.bytes} B at a time"),
    ]


def _traffic(plan: Plan) -> list[Row]:
    m, n, k = plan.tile
    flop = 2 * m * n * k
    stage = plan.a.bytes_per_stage + plan.b.bytes_per_stage
    warps = plan.threads // 32
    loaded = plan.fragment_registers // 2 * 4 * 32 * warps * (k // plan.tiled_mma.extent[2])
    return [
        ("from global memory", f"{stage:,} B a stage for {flop:,} flop: {flop / stage:.4g} flop/B"),
        ("shared memory", f"{stage:,} B written, {loaded:,} B read a stage: {flop / (stage + loaded):.4g} flop/B"),
        ("order of tiles", f"in bands of {_count(plan.raster_group, 'row')}, which share B's columns in L2"),
    ]
