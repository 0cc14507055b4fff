"""inspect: every number that follows from a spec, as text: tiling, copies, conflicts, budgets, traffic."""

from __future__ import annotations

from tabulate import tabulate

from mmagen import conflicts
from mmagen.plan import budgets
from mmagen.plan.model import Operand, Plan

Row = tuple[str, str]


def inspect(plan: Plan) -> str:
    """The decisions of a plan and what they cost, in sections."""
    sections = [("TiledMMA", _tiled_mma(plan)), *_kernel_sections(plan)]
    head = f"{plan.name}: {plan.text.title}"
    body = [f"{title}\n{tabulate(rows, tablefmt='plain', disable_numparse=True)}" for title, rows in sections]
    return "\n\n".join([head, *body]) + "\n"


def _triple(value: tuple[int, ...]) -> str:
    return " x ".join(map(str, value))


def _tiled_mma(plan: Plan) -> list[Row]:
    atom, mma = plan.atom, plan.tiled_mma
    rests = tuple(t // e for t, e in zip(plan.tile, mma.extent, strict=True))
    return [
        ("  atom", f"{atom.name}, {_triple((atom.m, atom.n, atom.k))}, {atom.threads} threads, sm_{atom.min_arch} and later"),
        ("  atoms_layout", f"{mma.atoms_layout}: {_triple(mma.atoms)} atoms, {mma.threads} threads"),
        ("  permutation", ", ".join("_" if p is None else str(p) for p in mma.permutation)),
        ("  follows: extent", f"{_triple(mma.extent)} covered by all threads at once"),
        ("  CTA tile", f"{_triple(plan.tile)} = {_triple(rests)} extents"),
        ("  compiled for", ", ".join(plan.arch)),
    ]


def _kernel_sections(plan: Plan) -> list[tuple[str, list[Row]]]:
    if plan.kernel == "ownership":
        return [("Ownership", [(f"  {t.matrix} {t.rows} x {t.columns}", f"{len(t.elements[0])} values a thread, "
                                f"{len(t.owners()[0])} owners an element") for t in plan.ownership])]
    sections = [(f"Operand {o.letter} ({o.mode},K)", _operand(plan, o)) for o in (plan.a, plan.b)]
    sections.append(("Registers of a thread", _registers(plan)))
    sections.append(("Shared memory of a CTA", _shared_memory(plan)))
    if plan.kernel == "gemm":
        sections.append(("Epilogue", _epilogue(plan)))
        sections.append(("Traffic of a CTA tile", _traffic(plan)))
        sections.append(("Problems of verify", [(f"  {i}", p.text) for i, p in enumerate(plan.problems)]))
    return sections


def _operand(plan: Plan, operand: Operand) -> list[Row]:
    swizzle = operand.swizzle
    rows = [
        ("  type", f"{operand.element.word}, {operand.major} contiguous"),
        ("  shared memory", f"lines of {operand.line} elements ({operand.line * operand.element.bytes} B) x {operand.lines}, " +
         (f"Swizzle<{swizzle.bits},{swizzle.base},{swizzle.shift}>" if swizzle.bits else "no swizzle")),
    ]
    for name, by in operand.fills:
        vectors = operand.extent_mn * operand.extent_k // by.vector
        rows.append((f"  fill, {name.lower()}", f"{by.threads} of {plan.threads} threads x {vectors // by.threads} vectors of "
                     f"{by.vector} elements; {_conflicts(conflicts.fill(plan, operand, by))}"))
    rows.append(("  load", f"{operand.smem_copy.removeprefix('cute::')}; {_conflicts(conflicts.load(plan, operand))} a warp and k block"))
    return rows


def _conflicts(passes: conflicts.Passes) -> str:
    verdict = "no bank conflicts" if passes.taken == passes.ideal else f"{passes.ways:.3g}-way bank conflicts"
    return f"{passes.taken} passes, {verdict}"


def _registers(plan: Plan) -> list[Row]:
    together = plan.accumulator_registers + plan.fragment_registers
    return [
        ("  accumulators", str(plan.accumulator_registers)),
        ("  fragments", f"{plan.fragment_registers}, two k blocks of A and B"),
        ("  together", f"{together} of {min(budgets.REGISTERS_PER_THREAD, budgets.REGISTERS_PER_SM // (plan.threads * plan.ctas_per_sm))} "
                       f"at {plan.ctas_per_sm} x {plan.threads} threads an SM; addresses and loop state come on top"),
    ]


def _shared_memory(plan: Plan) -> list[Row]:
    per_stage = plan.a.bytes_per_stage + plan.b.bytes_per_stage
    rows = [("  one stage", f"{per_stage:,} B: A {plan.a.bytes_per_stage:,} + B {plan.b.bytes_per_stage:,}")]
    if plan.kernel == "gemm":
        rows.append(("  stages", f"{plan.stages}"))
        rows.append(("  epilogue slice", f"{plan.epilogue.smem_bytes:,} B, in the same bytes"))
    rows.append(("  together", f"{plan.smem_bytes:,} B of {plan.smem_limit:,}; {plan.smem_limit // max(1, plan.smem_bytes)} CTAs fit an SM"))
    return rows


def _epilogue(plan: Plan) -> list[Row]:
    staged = plan.epilogue
    slices = (plan.tile[0] if staged.row_major else plan.tile[1]) // staged.slice
    return [
        ("  D", f"{staged.out.word}, {staged.major} contiguous; alpha and beta are {staged.scalar.word}"),
        ("  staged", f"{slices} slices of {staged.slice} {'rows' if staged.row_major else 'columns'}, padded by {staged.pad} elements"),
        ("  store", f"{staged.vector} elements, {staged.vector * staged.out.bytes} B at a time"),
    ]


def _traffic(plan: Plan) -> list[Row]:
    m, n, k = plan.tile
    flop = 2 * m * n * k
    stage = plan.a.bytes_per_stage + plan.b.bytes_per_stage
    warps = plan.threads // 32
    loaded = plan.fragment_registers // 2 * 4 * 32 * warps * (k // plan.tiled_mma.extent[2])
    return [
        ("  from global memory", f"{stage:,} B a stage for {flop:,} flop: {flop / stage:.4g} flop/B"),
        ("  shared memory", f"{stage:,} B written, {loaded:,} B read a stage: {flop / (stage + loaded):.4g} flop/B"),
    ]
