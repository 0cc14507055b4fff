"""inspect: every number that follows from a spec, as text: tiling, copies, conflicts, budgets, traffic."""

from __future__ import annotations

from textwrap import indent

from tabulate import tabulate

from mmagen.families.instruction.model import Fragment, InstructionPlan
from mmagen.families.library import choose
from mmagen.families.wgmma.decisions import EPILOGUE_ROWS, REGISTERS_BESIDES
from mmagen.plan import bank_conflicts as conflicts
from mmagen.plan import budgets
from mmagen.plan import cxx as cute
from mmagen.plan.model import Hopper, Operand, Plan

Row = tuple[str, ...]
Section = tuple[str, list[Row]]


def inspect(plan: Plan) -> str:
    """The decisions of a plan and what they cost, in sections."""
    if plan.kernel == "peak":
        from mmagen.families.peak.family import describe

        return describe(plan)
    if isinstance(plan, InstructionPlan):
        sections = _instruction(plan)
    else:
        sections = _library_sections(plan) if plan.configs else [*_sections(plan), *_problems(plan)]
    head = f"{plan.name}: {plan.text.title}"
    body = [f"{title}\n{indent(tabulate(rows, tablefmt='plain', disable_numparse=True), '  ')}" for title, rows in sections]
    return "\n\n".join([head, *body]) + "\n"


def _instruction(plan: InstructionPlan) -> list[Section]:
    """One instruction: where its operands lie, in memory and for the instruction."""
    operation = plan.operation
    what = [
        ("atom", f"{operation.name}, {_triple(operation.shape)}, {_count(operation.threads, 'thread')}"),
        ("instruction", operation.opcode),
        ("compiled for", ", ".join(plan.arch)),
    ]
    if plan.mended:
        what.append(("mended", plan.mended))
    operands = [
        (
            one.name,
            f"{one.rows} x {one.columns}",
            one.about,
            str(one.layout) if isinstance(one, Fragment) else f"{one.rows * one.row_bytes} B of shared memory, core matrices",
        )
        for one in plan.operands
    ]
    return [("Instruction", what), ("Operands: in memory, and (thread, value) to row + rows * column", operands)]


def _count(number: int, noun: str, plural: str = "") -> str:
    """`1 vector`, `2 vectors`, `2 passes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _triple(value: tuple[int, ...]) -> str:
    return " x ".join(map(str, value))


def _tiled_mma(plan: Plan) -> list[Row]:
    atom, mma = plan.atom, plan.tiled_mma
    rests = tuple(t // e for t, e in zip(plan.tile, mma.extent, strict=True))
    return [
        (
            "atom",
            f"{atom.name}, {_triple((atom.m, atom.n, atom.k))}, {_count(atom.threads, 'thread')}, "
            f"{atom.default_arch} {'alone' if atom.wgmma else 'and later'}",
        ),
        ("atoms_layout", f"{mma.atoms_layout}: {_triple(mma.atoms)} atoms, {mma.threads} threads"),
        ("permutation", ", ".join("_" if p is None else str(p) for p in mma.permutation)),
        ("follows: extent", f"{_triple(mma.extent)} covered by all threads at once"),
        ("CTA tile", f"{_triple(plan.tile)} = {_triple(rests)} extents"),
        ("compiled for", ", ".join(plan.arch)),
    ]


def _sections(plan: Plan) -> list[Section]:
    """What one kernel costs."""
    return [("TiledMMA", _tiled_mma(plan)), *_kernel_sections(plan)]


def _problems(plan: Plan) -> list[Section]:
    """What verify runs, and which kernel of a library takes it."""
    if plan.kernel != "gemm":
        return []
    return [
        (
            "Problems of verify",
            [(f"{i}", p.text, *((choose(plan, p).name,) if plan.configs else ())) for i, p in enumerate(plan.problems)],
        )
    ]


def _kernel_sections(plan: Plan) -> list[Section]:
    if plan.kernel == "ownership":
        return [
            (
                "Ownership",
                [
                    (
                        f"{t.matrix} {t.rows} x {t.columns}",
                        f"{_count(len(t.elements[0]), 'value')} a thread, {_count(len(t.owners()[0]), 'owner')} an element",
                    )
                    for t in plan.ownership
                ],
            )
        ]
    if plan.hopper:
        return _hopper_sections(plan, plan.hopper)
    rows = _wgmma_operand if plan.atom.wgmma else _operand
    sections = [(f"Operand {o.letter} ({o.mode},K)", rows(plan, o)) for o in (plan.a, plan.b)]
    sections.append(("Registers of a thread", _registers(plan)))
    sections.append(("Shared memory of a CTA", _shared_memory(plan)))
    if plan.kernel == "gemm":
        sections.append(("Epilogue", _epilogue(plan)))
        sections.append(("Traffic of a CTA tile", _traffic(plan)))
    return sections


def _operand(plan: Plan, operand: Operand) -> list[Row]:
    swizzle = operand.swizzle
    rows = [
        ("type", f"{operand.element.word}, {operand.major} contiguous"),
        (
            "shared memory",
            f"lines of {operand.line} elements ({operand.line * operand.element.bytes} B) x {operand.lines}, "
            + (f"Swizzle<{swizzle.bits},{swizzle.base},{swizzle.shift}>" if swizzle.bits else "no swizzle"),
        ),
    ]
    fills = operand.fills if plan.kernel == "gemm" else (("Narrow", operand.fill_narrow),)  # micro has no other
    for name, by in fills:
        vectors = operand.extent_mn * operand.extent_k // by.vector
        rows.append(
            (
                f"fill, {name.lower()}",
                f"{by.threads} of {plan.threads} threads x {_count(vectors // by.threads, 'vector')} of "
                f"{_count(by.vector, 'element')}; {_conflicts(conflicts.fill(operand, by), 'a warp and vector')}",
            )
        )
    rows.append(("load", f"{_load(operand)}; {_conflicts(conflicts.load(plan, operand), 'a warp and k block')}"))
    return rows


def _conflicts(passes: conflicts.Passes, of: str) -> str:
    verdict = "no bank conflicts" if passes.taken == passes.ideal else f"{passes.ways:.3g}-way bank conflicts"
    return f"{_count(passes.taken, 'pass', 'passes')} {of}, {verdict}"


def _registers(plan: Plan) -> list[Row]:
    if plan.atom.wgmma:
        fragments, which = plan.fragment_registers, "A of the whole tile" if plan.fragment_registers else "none in registers"
    elif plan.kernel == "micro":
        blocks = plan.tile[2] // plan.tiled_mma.extent[2]
        fragments, which = plan.fragment_registers // 2 * blocks, "A and B of the whole tile"
    else:
        fragments, which = plan.fragment_registers, "two k blocks of A and B"
    most = min(budgets.REGISTERS_PER_THREAD, budgets.REGISTERS_PER_SM // (plan.threads * plan.ctas_per_sm))
    return [
        ("accumulators", str(plan.accumulator_registers)),
        ("fragments", f"{fragments}, {which}"),
        (
            "together",
            f"{plan.accumulator_registers + fragments} of {most} at {plan.ctas_per_sm} x {plan.threads} threads an SM; "
            "addresses and loop state come on top",
        ),
    ]


def _shared_memory(plan: Plan) -> list[Row]:
    rows = [_one_stage(plan)]
    if plan.kernel == "gemm":
        rows.append(("stages", f"{plan.stages}"))
        rows.append(("epilogue slice", f"{plan.epilogue.smem_bytes:,} B, in the same bytes"))
    return [*rows, _smem_together(plan)]


def _stage_bytes(plan: Plan) -> int:
    return plan.a.bytes_per_stage + plan.b.bytes_per_stage


def _one_stage(plan: Plan) -> Row:
    return ("one stage", f"{_stage_bytes(plan):,} B: A {plan.a.bytes_per_stage:,} + B {plan.b.bytes_per_stage:,}")


def _smem_together(plan: Plan, of_it: str = "") -> Row:
    fit = budgets.ctas_that_fit(plan.arch, plan.smem_bytes, plan.threads)
    return ("together", f"{plan.smem_bytes:,} B of {plan.smem_limit:,}{of_it}; an SM has room for {_count(fit, 'CTA')}")


def _d(plan: Plan) -> Row:
    staged = plan.epilogue
    return ("D", f"{staged.out.word}, {staged.major} contiguous; alpha and beta are {staged.scalar.word}")


def _epilogue(plan: Plan) -> list[Row]:
    staged = plan.epilogue
    slices = (plan.tile[0] if staged.row_major else plan.tile[1]) // staged.slice
    return [
        _d(plan),
        (
            "staged",
            f"{_count(slices, 'slice')} of {_count(staged.slice, 'row' if staged.row_major else 'column')}, padded by "
            f"{staged.pad} elements",
        ),
        ("store", f"{_count(staged.vector, 'element')}, {staged.vector * staged.out.bytes} B at a time"),
    ]


def _traffic(plan: Plan) -> list[Row]:
    warps = plan.threads // 32
    loaded = plan.fragment_registers // 2 * 4 * 32 * warps * (plan.tile[2] // plan.tiled_mma.extent[2])
    return [
        *_intensity(plan, _stage_bytes(plan), loaded),
        ("order of tiles", f"in bands of {_count(plan.raster_group, 'row')}, which share B's columns in L2"),
    ]


def _intensity(plan: Plan, fetched: int, read: int) -> list[Row]:
    """Work for each byte; fetched, read: bytes of a stage from global and from shared memory."""
    m, n, k = plan.tile
    flop, written = 2 * m * n * k, _stage_bytes(plan)
    return [
        ("from global memory", f"{fetched:,} B a stage for {flop:,} flop: {flop / fetched:.4g} flop/B"),
        ("shared memory", f"{written:,} B written, {read:,} B read a stage: {flop / (written + read):.4g} flop/B"),
    ]


# --- wgmma -----------------------------------------------------------------------------------------------------------


def _hopper_sections(plan: Plan, hopper: Hopper) -> list[Section]:
    return [
        ("Schedule", _schedule(plan, hopper)),
        *((f"Operand {o.letter} ({o.mode},K)", _tma_operand(hopper, o)) for o in (plan.a, plan.b)),
        ("Registers of a thread", _role_registers(plan, hopper)),
        ("Shared memory of a CTA", _hopper_smem(plan)),
        ("Epilogue", _hopper_epilogue(plan, hopper)),
        ("Traffic of a CTA tile", _multicast_traffic(plan, hopper)),
    ]


def _schedule(plan: Plan, hopper: Hopper) -> list[Row]:
    m, n = hopper.cluster
    ctas = m * n * hopper.split_k
    return [
        ("schedule", hopper.schedule),
        ("warpgroups", f"{hopper.consumers} {plan.text.roles}"),
        ("cluster", f"{m} x {n} CTAs share operands by multicast" if m * n > 1 else "none: every CTA loads for itself"),
        (
            "split_k",
            f"{hopper.split_k} CTAs share the K of a tile and add up in a fixed order, {_count(ctas, 'CTA')} a cluster"
            if hopper.split_k > 1
            else "1",
        ),
        (
            "stream_k",
            "all CTAs share the tiles of a last wave that is less than two thirds full, and add up in a fixed order"
            if hopper.stream_k
            else "no",
        ),
        (
            "prefetch",
            f"{_count(hopper.prefetch, 'stage')} into L2 while the kernel before still runs" if hopper.prefetch else "none",
        ),
        (
            "grid",
            "as many clusters as run at once, each walks over several tiles"
            if hopper.persistent
            else "a cluster for each tile",
        ),
        ("order of tiles", f"in bands of {_count(plan.raster_group * m, 'row')}, which share B's columns in L2"),
    ]


def _wgmma_operand(plan: Plan, operand: Operand) -> list[Row]:
    """Of a micro kernel, whose threads fill what wgmma reads."""
    by = operand.fill_narrow
    assert operand.tma and by
    each = operand.extent_mn * operand.extent_k // by.threads
    return [
        ("type", f"{operand.element.word}, {operand.major} contiguous"),
        _panels(operand),
        ("fill", f"{by.threads} of {plan.threads} threads x {_count(each, 'element')}, one by one"),
        ("load", _load(operand)),
    ]


def _panels(operand: Operand) -> Row:
    tma = operand.tma
    assert tma
    swizzle = f"swizzled over {tma.swizzle_bytes} B" if tma.swizzle_bytes > 16 else "no swizzle"
    return (
        "shared memory",
        f"{_count(tma.panels, 'panel')} of {operand.extent_across} lines of {_count(operand.line, 'element')} "
        f"({operand.line * operand.element.bits // 8} B), {swizzle}",
    )


def _load(operand: Operand) -> str:
    return cute.smem_copy(operand).removeprefix("cute::") if operand.smem_copy else "none: wgmma reads shared memory"


def _tma_operand(hopper: Hopper, operand: Operand) -> list[Row]:
    tma = operand.tma
    assert tma
    ctas = hopper.cluster["BA".index(operand.letter)]
    return [
        ("type", f"{operand.element.word}, {operand.major} contiguous"),
        _panels(operand),
        (
            "fill",
            f"TMA, {_count(tma.panels * tma.boxes, 'box', 'boxes')} of {operand.line} x {tma.box_across} a stage"
            + (f", each for {ctas} CTAs" if ctas > 1 else ""),
        ),
        ("load", _load(operand)),
    ]


def _role_registers(plan: Plan, hopper: Hopper) -> list[Row]:
    sums = plan.accumulator_registers
    rows = [("accumulators", f"{sums}" + (", half of them for the sum of one k tile" if hopper.promote else ""))]
    if plan.fragment_registers:
        rows.append(("fragments", f"{plan.fragment_registers}, one k tile of A"))
    rows.append(
        (
            "together",
            f"{sums + plan.fragment_registers} of {hopper.usable_registers} at {plan.ctas_per_sm} x "
            f"{plan.threads} threads an SM; about {REGISTERS_BESIDES} come on top",
        )
    )
    if hopper.consumer_registers:
        rows.append(
            ("by role", f"{hopper.producer_registers} for those that load, {hopper.consumer_registers} for those that multiply")
        )
    return rows


def _hopper_smem(plan: Plan) -> list[Row]:
    return [
        _one_stage(plan),
        ("stages", f"{plan.stages}, {plan.stages * _stage_bytes(plan):,} B"),
        ("epilogue slices", f"{plan.epilogue.smem_bytes:,} B"),
        _smem_together(plan, ", barriers included"),
    ]


def _hopper_epilogue(plan: Plan, hopper: Hopper) -> list[Row]:
    staged = plan.epilogue
    slices = plan.tile[0] * plan.tile[1] // plan.tiled_mma.threads * 2 // staged.slice
    return [
        _d(plan),
        (
            "staged",
            f"{_count(slices, 'slice')} a warp, of {EPILOGUE_ROWS} rows x {staged.slice} columns, "
            f"{_count(hopper.epilogue_buffers, 'buffer')}",
        ),
        ("store", f"TMA, {EPILOGUE_ROWS * staged.slice * staged.out.bytes:,} B at a time"),
    ]


def _multicast_traffic(plan: Plan, hopper: Hopper) -> list[Row]:
    m, n, _ = plan.tile
    fetched = plan.a.bytes_per_stage // hopper.cluster[1] + plan.b.bytes_per_stage // hopper.cluster[0]
    # Every wgmma reads all of its A and B; an A in registers was loaded once by each warpgroup that has it.
    times_a = plan.tiled_mma.atoms[1] if plan.atom.a_in_registers else n // plan.atom.n
    read = plan.a.bytes_per_stage * times_a + plan.b.bytes_per_stage * (m // plan.atom.m)
    return _intensity(plan, fetched, read)


# --- Libraries -------------------------------------------------------------------------------------------------------


def _library_sections(plan: Plan) -> list[Section]:
    """The rule of choice, the problems that it is tried on, and each kernel."""
    each = [(f"{config.name}: {title}", rows) for config in plan.configs for title, rows in _sections(config.plan)]
    return [("Choice, the first that holds", _choice(plan)), *_problems(plan), *each]


def _choice(plan: Plan) -> list[Row]:
    rows: list[Row] = [
        ("when", "config", "atom", "CTA tile", "stages", *(("schedule", "cluster", "split_k") if plan.hopper else ()))
    ]
    for config in plan.configs:
        one, hopper = config.plan, config.plan.hopper
        how = (hopper.schedule, _triple(hopper.cluster), str(hopper.split_k)) if hopper else ()
        rows.append(
            (
                config.when.text if config.when else "otherwise",
                config.name,
                one.atom.name,
                _triple(one.tile),
                str(one.stages),
                *how,
            )
        )
    return rows
