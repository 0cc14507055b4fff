"""Rows of `mmagen inspect` about wgmma kernels."""

from __future__ import annotations

from mmagen.families.wgmma import decisions, grouped
from mmagen.families.wgmma.mixed import WeightLayout
from mmagen.families.wgmma.model import WgmmaGemmPlan
from mmagen.families.wgmma.pieces import Pieces
from mmagen.plan import copies, pages
from mmagen.plan.model import Epilogue, LaunchShape, Operand
from mmagen.spec.model import Problem

WARPGROUPS = {
    "warpgroup": "share a tile; one of their threads is also the producer",
    "cooperative": "consumers share a tile; 1 producer loads",
    "pingpong": "consumers with a tile each, in turns; 1 producer loads",
}
_SWAPPED = "swapped: computes the transpose of D; A and B below are B and A of a call"


def sections(plan: WgmmaGemmPlan) -> list[pages.Section]:
    """The costs of one kernel."""
    return [
        pages.tiled_mma(plan),
        ("Schedule", _schedule(plan)),
        *((pages.operand_title(one), _tma_operand(plan, one)) for one in plan.operands),
        *([("Scales", _scales(plan))] if plan.mainloop.scales else []),
        *([("Pieces of f32", _pieces(plan, plan.mainloop.pieces))] if plan.mainloop.pieces else []),
        *([("Weights", _weights(plan.mainloop.weights))] if plan.mainloop.weights else []),
        ("Registers per thread", _registers(plan)),
        ("Shared memory per CTA", _shared_memory(plan)),
        ("Epilogue", _epilogue(plan)),
        ("Traffic per CTA tile", _traffic(plan)),
    ]


def ways(plan: WgmmaGemmPlan) -> pages.Section:
    """How each problem of verify is loaded and stored."""
    return ("Loads and stores of each problem", [(problem.text, _way(plan, problem)) for problem in plan.problems])


def _way(plan: WgmmaGemmPlan, problem: Problem) -> str:
    a, b, out = plan.operand("A"), plan.operand("B"), plan.epilogue
    by_threads = [one.letter for one in (a, b) if not _reachable(one.letter, one.major, one.element.bytes, problem)]
    parts = ["A and B by TMA"]
    if by_threads:
        copied = ", or by TMA from copies in the workspace" if plan.copies_operands else ""
        threads = "the kernel for few rows" if copies.takes_few_rows(plan, problem) else "threads"
        parts = [f"{' and '.join(by_threads)} unaligned: A and B by {threads}{copied}"]
    if not _reachable("D", out.major, out.out.bytes, problem):
        parts.append("D by threads")
    return "; ".join(parts)


def _reachable(letter: str, major: str, element_bytes: int, problem: Problem) -> bool:
    """Can TMA address a matrix of the problem? Pointer, leading dimension and batch stride are multiples of 16 bytes."""
    extent = dict(zip("MNK", problem.shape, strict=True))[major]
    stride = getattr(problem, f"batch_stride_{letter.lower()}") or 0 if problem.batch > 1 else 0
    return all(count * element_bytes % 16 == 0 for count in (problem.offset, extent + problem.ld_pad, stride))


def _schedule(plan: WgmmaGemmPlan) -> list[pages.Row]:
    roles, scheduler, prefetch = plan.roles, plan.scheduler, plan.mainloop.prefetch
    m = scheduler.cluster[0]
    which = " that is less than two thirds full" if scheduler.stream_k == "last_wave" else ""
    shared = f"all CTAs share the tiles of a partial last wave{which}; fixup in a fixed order"
    return [
        ("schedule", roles.schedule),
        ("warpgroups", f"{roles.consumers} {WARPGROUPS[roles.schedule]}"),
        ("operands", _SWAPPED if plan.swapped else "A and B of a call"),
        ("cluster", _cluster(plan)),
        ("split_k", _split_k(plan)),
        ("stream_k", shared if scheduler.shares_last_wave else "no"),
        *grouped.rows_of_page(plan),
        (
            "prefetch",
            f"{pages.count(prefetch, 'stage')} into L2 while the previous kernel still runs" if prefetch else "none",
        ),
        (
            "grid",
            "persistent: as many clusters as are resident, each computes several tiles"
            if scheduler.persistent
            else "one cluster per tile",
        ),
        ("raster order", pages.raster(scheduler.raster_group * m)),
    ]


def _cluster(plan: WgmmaGemmPlan) -> str:
    scheduler = plan.scheduler
    shape = pages.extents(scheduler.cluster)
    if len(scheduler.launches) > 1 or scheduler.several_widths:
        each = (f"{one.m} x {one.n} CTAs{_columns(one, plan.tile[1])}" for one in scheduler.launches)
        return f"set at launch: {', '.join(each)}; boxes and traffic are those of {shape} CTAs"
    return f"{shape} CTAs share operands by multicast" if scheduler.cluster_ctas > scheduler.split_k else "none"


def _columns(launch: LaunchShape, all_columns: int) -> str:
    if launch.widths:
        *narrower, whole = map(str, launch.columns(all_columns))
        return f" with {', '.join(narrower)} or {whole} columns of a tile, selected by each call"
    return f" with {launch.tile_n} columns of a tile" if launch.tile_n else ""


def _split_k(plan: WgmmaGemmPlan) -> str:
    scheduler = plan.scheduler
    if scheduler.workspace_splits is not None:
        parts = str(scheduler.workspace_splits or "as many as fit the problem")
        return f"{parts}; a second kernel adds up their sums through a workspace, in a fixed order"
    if scheduler.split_k == 1:
        return "1"
    ctas = pages.count(scheduler.cluster_ctas, "CTA")
    return f"{scheduler.split_k} CTAs split the K of a tile; fixup in a fixed order, {ctas} per cluster"


def panels(operand: Operand) -> pages.Row:
    """The shared-memory layout that TMA and wgmma agree on."""
    tma = operand.tma
    assert tma
    swizzle = f"swizzled over {tma.swizzle_bytes} B" if tma.swizzle_bytes > 16 else "no swizzle"
    line = f"{pages.count(operand.line, 'element')} ({operand.line * operand.element.bits // 8} B)"
    return ("shared memory", f"{pages.count(tma.panels, 'panel')} of {operand.extent_across} lines of {line}, {swizzle}")


def _tma_operand(plan: WgmmaGemmPlan, operand: Operand) -> list[pages.Row]:
    tma = operand.tma
    assert tma
    ctas = plan.scheduler.cluster["BA".index(operand.letter)]
    of_a = plan.mainloop.weights if operand.letter == "A" else None
    weights = _packed(of_a.word, operand.element.word) if of_a else None
    boxes = f"TMA, {pages.count(tma.panels * tma.boxes, 'box', 'boxes')} of {operand.line} x {tma.box_across} per stage"
    return [
        pages.typed(operand) if weights is None else ("type", f"{weights}, {operand.major} contiguous"),
        panels(operand),
        ("copy", boxes + (f", each multicast to {ctas} CTAs" if ctas > 1 else "")),
        ("load", _load(plan, operand)),
    ]


def _packed(word: str, stored: str) -> str:
    """Weights as memory has them."""
    return f"{word}, two in a byte, which is an element below" if word != stored and word.endswith("4") else word


def _load(plan: WgmmaGemmPlan, operand: Operand) -> str:
    if plan.mainloop.weights is not None and operand.letter == "A":
        return "vectors of 4 or 16 bytes, converted in registers"
    return pages.load(operand)


def _weights(weights: WeightLayout) -> list[pages.Row]:
    of = f"{weights.group} columns of a row" if weights.group else "a row"
    contiguous = "K" if weights.contiguous_k else "rows"
    rows: list[pages.Row] = [
        ("type", f"{weights.word}, converted in registers"),
        ("scales", f"one {weights.scale.word} for {of}, {contiguous} contiguous; multiply the sum of each chunk"),
        ("zero points", "u8, one for each scale" if weights.zeros else "none"),
        ("chunk", f"{weights.chunk} columns, whose sum is multiplied by a scale"),
        ("parts of K", f"{weights.parts} groups of warpgroups take k tiles in turn" if weights.parts > 1 else "one"),
    ]
    return rows


def _pieces(plan: WgmmaGemmPlan, split: Pieces) -> list[pages.Row]:
    order = ", ".join(f"{a}*{b}" for a, b in split.products)
    layouts = ", ".join(f"{letter} {major} contiguous" for letter, major in (("A", split.a_major), ("B", split.b_major)))
    return [
        ("of a call", f"f32, {layouts}, any alignment; split by a preceding kernel, to the workspace"),
        ("pieces", f"{split.count} bf16 of each element; of a k tile the columns of piece 0, then of the next"),
        ("products", f"{order}, in this order: piece of A times piece of B"),
        ("sums", "of a k tile in the tensor core, then added in f32" if plan.mainloop.promote else "in the tensor core"),
        ("left out", f"at most {split.left_out:.1e} of a product"),
    ]


def _scales(plan: WgmmaGemmPlan) -> list[pages.Row]:
    """Those of the kernel's A and B."""
    mainloop = plan.mainloop
    rows: list[pages.Row] = [(one.letter, one.text) for one in mainloop.scales]
    if mainloop.scales_tile:
        rows.append(("of all of K", "multiply the finished tile, before the epilogue"))
    if mainloop.scales_k:
        slots = pages.count(sum(one.slots for one in mainloop.scales), "slot")
        rows += [
            ("of a part of K", "multiply the sum of each k tile, which is added to f32 registers"),
            ("copy", f"{slots} of shared memory per stage, by a warp of the producer (cp.async)"),
            (
                "partial sums",
                f"{mainloop.partial_registers} registers of a thread, of {plan.atom.m} rows x {plan.atom.n} columns",
            ),
        ]
    return rows


def _registers(plan: WgmmaGemmPlan) -> list[pages.Row]:
    sums, roles = plan.accumulator_registers, plan.roles
    partial, weights = plan.mainloop.partial_registers, plan.mainloop.weights
    of = "chunk" if weights else "k tile"
    of_partial = f", {partial} of them for sums of a {of} that are still to be added up" if partial else ""
    rows: list[pages.Row] = [("accumulators", f"{sums}{of_partial}")]
    if plan.fragment_registers:
        of_what = "A" if plan.atom.a_in_registers else "A's metadata"
        rows.append(("fragments", f"{plan.fragment_registers}, one {'chunk' if weights else 'k tile'} of {of_what}"))
    besides = decisions.registers_besides(plan.spec, plan.atom, plan.tiled_mma, plan.tile)
    rows.append(
        (
            "together",
            f"{sums + plan.fragment_registers} of {roles.usable_registers} at {plan.ctas_per_sm} x "
            f"{plan.threads} threads per SM; excluding about {besides} for addresses and loop state",
        )
    )
    if roles.consumer_registers:
        rows.append(
            ("by role", f"{roles.producer_registers} per producer thread, {roles.consumer_registers} per consumer thread")
        )
    return rows


def _shared_memory(plan: WgmmaGemmPlan) -> list[pages.Row]:
    title, each = pages.one_stage(plan)
    return [
        (title, f"{each}, of a whole tile" if plan.mainloop.ring_bytes else each),
        ("stages", _stages(plan)),
        *([("scales", f"{plan.mainloop.scale_bytes:,} B")] if plan.mainloop.scale_bytes else []),
        ("epilogue slices", f"{plan.epilogue.smem_bytes:,} B"),
        pages.smem_together(plan, ", barriers included"),
    ]


def _stages(plan: WgmmaGemmPlan) -> str:
    if not (ring := plan.mainloop.ring_bytes):
        return f"{plan.stages}, {plan.stages * plan.stage_bytes:,} B"
    of_widths: dict[int, list[int]] = {}
    for atom in plan.launched_atoms:
        of_widths.setdefault(plan.stages_of(atom.n), []).append(atom.n)
    each = (f"{stages} of {', '.join(map(str, sorted(widths)))} columns" for stages, widths in of_widths.items())
    return f"{'; '.join(each)}; together {ring:,} B"


def _epilogue(plan: WgmmaGemmPlan) -> list[pages.Row]:
    from mmagen.families.wgmma.epilogue_conflicts import staging  # imports the layout algebra, which is slow

    staged, rows = plan.epilogue, decisions.EPILOGUE_ROWS
    slices = plan.tile[0] * plan.tile[1] // plan.tiled_mma.threads * 2 // staged.slice
    return [
        *pages.output(plan),
        (
            "staged",
            f"{pages.count(slices, 'slice')} per warpgroup, of {rows} rows x {staged.slice} columns, {_buffers(staged)}",
        ),
        ("to shared memory", pages.conflicts(staging(plan), "per CTA tile")),
        ("store", f"TMA, {rows * staged.slice // plan.facts.columns_of_element * staged.out.bytes:,} B for a slice"),
    ]


def _buffers(staged: Epilogue) -> str:
    least = pages.count(staged.buffers, "buffer")
    if staged.most_buffers == staged.buffers:
        return least
    short = f"K has at most {decisions.SHORT_K} times as many k tiles as there are stages"
    return f"{least}; {staged.most_buffers} if as many stages fit, or {short}"


def _traffic(plan: WgmmaGemmPlan) -> list[pages.Row]:
    m, n, _ = plan.tile
    a, b = plan.operands
    fetched = a.bytes_per_stage // plan.scheduler.cluster[1] + b.bytes_per_stage // plan.scheduler.cluster[0]
    # Every wgmma reads all of its A and B; an A in registers was loaded once by each warpgroup that has it.
    times_a = plan.tiled_mma.atoms[1] if plan.atom.a_in_registers else n // plan.atom.n
    read = a.bytes_per_stage * times_a + b.bytes_per_stage * (m // plan.atom.m)
    split = plan.mainloop.pieces
    if split:  # each piece of a stage takes part in several products
        read = read * len(split.products) // split.count
    return pages.intensity(plan, fetched, read)
