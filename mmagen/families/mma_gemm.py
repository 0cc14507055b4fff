"""`kernel: gemm` of atoms with operands in registers: mma.sync and scalar FMA."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mmagen import families
from mmagen.core.errors import Fault, SpecFaults
from mmagen.core.targets import capability
from mmagen.families import launches, library, mma_pieces, mma_shapes, sparse
from mmagen.families.mma_alternatives import alternatives
from mmagen.families.units import units
from mmagen.mma.atoms import Atom, ElementType
from mmagen.mma.pieces import SplitAtom, described
from mmagen.plan import budgets, complex_rules, mma_sync, operations, pages, registers, rules, sentences, tiling
from mmagen.plan.devices import Device
from mmagen.plan.launch import Numbers
from mmagen.plan.maps import Map
from mmagen.plan.model import Epilogue, Mainloop, TiledMma, TileScheduler
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.plan.pipeline import Pipeline, by_all_warps
from mmagen.plan.plans import GemmPlan
from mmagen.plan.policies import SINGLE_TILE, Policies, Policy, functor
from mmagen.plan.problems import default_problems
from mmagen.plan.project import Text
from mmagen.plan.reach import Paths, chosen
from mmagen.plan.trials import Trials, of_product
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family

MULTISTAGE = ("MainloopMultistage", "mainloop_multistage")
REGISTER_STAGED = ("MainloopRegisterStaged", "mainloop_register_staged")
_MAINLOOPS = {
    "mainloop_multistage": "cp.async into kStages stages, fragments, mma.sync",
    "mainloop_register_staged": "copies through registers into two stages, fragments, mma.sync; for sm_75 and older",
    "mainloop_pieces": "mainloop_multistage.cuh, with f32 fragments that are split into bf16 pieces",
    "mainloop_packed": "mainloop_multistage.cuh, of bytes that have two elements each",
    "mainloop_sparse_multistage": "cp.async of A, its metadata and B into kStages stages, fragments, mma.sp",
}


class MmaGemm:
    """The family; `name` is its registered module."""

    tile_rate = 2.4e6  # wgmma's, less by the ratio of the measured peaks (docs/results/h200-peaks.md)
    cutlass = "CUTLASS"

    def __init__(self, name: str):
        self.name = name

    def builds(self, atom: str) -> bool:
        return mma_sync.builds_from(atom)

    def plan(self, spec: Spec, sha: str) -> GemmPlan:
        if spec.configs:
            return library.plan(spec, sha, families.plan)
        atom = mma_pieces.operation(spec)
        wrong_arch = [*rules.arch_faults(spec, atom)]
        wrong_type = [*rules.type_faults(spec, atom)]
        own = ("sparse", *(mma_pieces.KEYS if spec.split else ()))
        unknown = [fault for fault in rules.wgmma_key_faults(spec, atom) if fault.key[0] not in own]
        faults = [*wrong_arch, *unknown, *sparse.key_faults(spec.sparse, atom), *mma_pieces.faults(spec), *wrong_type]
        faults += complex_rules.faults(spec, atom)
        problems = spec.problems or operations.as_applied(spec, default_problems())
        if not wrong_type:
            scalar = budgets.scalar_type(atom, rules.out_type(spec, atom))
            faults += [*rules.problem_faults(spec, scalar, problems), *operations.faults(spec, scalar, problems)]
        if unfit := [*tiling.faults(spec, atom), *_warp_faults(spec, atom), *self.shape_faults(spec, atom)]:
            raise SpecFaults((*faults, *unfit))
        mma = tiling.tiled_mma(spec, atom)
        assert spec.tile
        if unfit := [*tiling.extent_faults(mma, spec.tile, vectors(spec, atom))]:
            raise SpecFaults((*faults, *unfit))
        if wrong_arch or wrong_type:
            raise SpecFaults(tuple(faults))
        return self._fitted(spec, sha, atom, mma, problems, faults)

    def _fitted(
        self, spec: Spec, sha: str, atom: Atom, mma: TiledMma, problems: tuple[Problem, ...], faults: list[Fault]
    ) -> GemmPlan:
        """Check shared memory, registers and threads. Raises SpecFaults with `faults` and those found."""
        assert spec.tile
        tile, arch = spec.tile, rules.compiled_for(spec, atom)
        a, b = mma_sync.operands(spec, atom, mma, tile)
        staged = budgets.epilogue(spec, atom, mma, tile)
        accumulators, fragments = budgets.registers(atom, mma, tile)
        smem, unfit = _budgets(spec, atom, mma, tile)
        unfit += budgets.thread_faults(spec, mma.threads, arch)
        if faults := [*faults, *(_with_tile(fault, spec, atom, mma, self.units(spec, atom, mma)) for fault in unfit)]:
            raise SpecFaults(tuple(faults))
        mainloop = Mainloop(*self.mainloop(spec, atom), smem.stages)
        return GemmPlan(
            family=self.name,
            spec=spec,
            spec_sha=sha,
            arch=arch,
            text=_text(_sentences(spec, atom, tile, staged), _policies(mainloop, staged, atom.type_d, spec.name)),
            problems=problems,
            arguments=operations.arguments(staged.operations, staged.major),
            atom=atom,
            tiled_mma=mma,
            tile=tile,
            threads=mma.threads,
            operands=(a, b),
            epilogue=staged,
            smem_bytes=smem.bytes,
            smem_limit=budgets.smem_limit(arch),
            accumulator_registers=accumulators,
            fragment_registers=fragments,
            mainloop=mainloop,
            scheduler=TileScheduler(spec.raster or budgets.RASTER_GROUP),
            ctas_per_sm=spec.ctas_per_sm or 1,
        )

    def mainloop(self, spec: Spec, atom: Atom) -> tuple[str, str]:
        """The mainloop's class and header."""
        if isinstance(atom, SplitAtom):
            return mma_pieces.MAINLOOP
        return MULTISTAGE if _has_cp_async(spec, atom) else REGISTER_STAGED

    def shape_faults(self, spec: Spec, atom: Atom) -> Iterator[Fault]:
        """Faults of tile, atoms_layout and permutation beyond those of every kernel."""
        yield from ()

    def units(self, spec: Spec, atom: Atom, mma: TiledMma) -> tiling.Tile:
        """What the extents of a tile are multiples of."""
        m, n, k = tiling.units(mma, vectors(spec, atom))
        return m, n, math.lcm(k, 2 * mma.extent[2])

    def problem_faults(self, plan: GemmPlan, problems: Sequence[Problem]) -> Iterator[Fault]:
        yield from rules.problem_faults(plan.spec, plan.epilogue.scalar, problems)
        yield from operations.scalar_faults(plan.spec, problems)

    def parts(self, plan: GemmPlan) -> tuple[str, ...]:
        return ("common", "package", "product", "gemm", *library.parts(plan))

    def context(self, plan: GemmPlan, config: str) -> Mapping[str, Any]:
        return {
            **library.context(plan, config),
            "launch": "gemm",
            "unaligned": False,
            "definition_files": (),
            "partials": ("gemm/include/NAME/_pieces.cuh.j2",) if isinstance(plan.atom, SplitAtom) else (),
            "units": units(plan),
            "policies": _policies(plan.mainloop, plan.epilogue, plan.atom.type_d, plan.name),
        }

    def alternatives(self, spec: Spec) -> Iterator[Mapping[str, Any]]:
        atom = mma_pieces.operation(spec)
        yield from alternatives(atom, _has_cp_async(spec, atom))
        if atom.threads > 1:
            yield from mma_shapes.of_gemm(atom)

    def trials(self, plan: GemmPlan) -> Trials:
        m, n, _ = plan.tile
        # Sums so long that pieces rounded toward zero exceed their bound.
        long = (Problem(shape=(m, n, mma_pieces.LONG), beta=1.0),) if isinstance(plan.atom, SplitAtom) else ()
        return of_product(plan, (*long, *chosen(Paths.of(plan))))

    def page(self, plan: GemmPlan) -> list[pages.Section]:
        return library.page(plan, _sections, ())

    def numbers(self, plan: GemmPlan, device: Device, ptxas: Mapping[str, int]) -> list[Numbers]:
        return launches.numbers(plan, device, ptxas, _registers)

    def maps(self, plan: GemmPlan) -> list[Map]:
        return library.maps(plan)

    def pipeline(self, plan: GemmPlan) -> Pipeline:
        return by_all_warps(plan, plan.mainloop.header == REGISTER_STAGED[1])

    def first_keys(self, atom: Atom) -> Iterator[Mapping[str, Any]]:
        yield from alternatives(atom, cp_async=False)  # with as many stages as mmagen chooses
        yield from mma_shapes.of_gemm(atom)


FAMILY: Family[GemmPlan] = MmaGemm(__name__)


def vectors(spec: Spec, atom: Atom) -> dict[str, list[tuple[str, str, int]]]:
    """For each mode, the operands that are contiguous along it and copied in 16-byte vectors."""
    found: dict[str, list[tuple[str, str, int]]] = {}
    for letter, element, major in (
        ("A", atom.stored_type("A"), spec.layout.a_major),
        ("B", atom.stored_type("B"), spec.layout.b_major),
    ):
        (group, kept), stored = atom.stored(letter), atom.stored_major(letter, major)
        elements = VECTOR_BYTES // element.bytes * group // kept
        found.setdefault(stored, []).append((letter, atom.multiplied(letter).word, elements))
    return found


def _has_cp_async(spec: Spec, atom: Atom) -> bool:
    """Do all targets have cp.async?"""
    return atom.min_arch >= 80 or all(capability(name) >= 80 for name in rules.compiled_for(spec, atom))


def _budgets(spec: Spec, atom: Atom, mma: TiledMma, tile: tiling.Tile) -> tuple[budgets.Smem, list[Fault]]:
    """Shared memory, and the faults of it and of registers."""
    arch = rules.compiled_for(spec, atom)
    operands = mma_sync.operands(spec, atom, mma, tile)
    smem, unfit = budgets.gemm_smem(spec, *operands, budgets.epilogue(spec, atom, mma, tile), arch, _has_cp_async(spec, atom))
    accumulators, fragments = budgets.registers(atom, mma, tile)
    return smem, [*unfit, *budgets.register_faults(spec, mma, accumulators, fragments + 2 * _piece_registers(atom, mma, tile))]


def _piece_registers(atom: Atom, mma: TiledMma, tile: tiling.Tile) -> int:
    """Registers per thread of the pieces that are multiplied at a time, and of their sums."""
    return atom.piece_registers(tile[1] // (atom.n * mma.atoms[1])) if isinstance(atom, SplitAtom) else 0


def _sentences(spec: Spec, atom: Atom, tile: tiling.Tile, staged: Epilogue) -> Text:
    one = sentences.of_gemm(spec, atom, tile, staged)
    if spec.split is None:
        return one
    return replace(
        one, formula=one.formula.replace("any alignment", f"any alignment; products of f32 as {described(spec.split)}")
    )


def _with_tile(fault: Fault, spec: Spec, atom: Atom, mma: TiledMma, units: tiling.Tile) -> Fault:
    """A fault of the tile with fewer CTAs per SM where that suffices, else with the largest tile of such units that fits,
    or with half as many atoms where none does."""
    if fault.key != ("tile",) or not spec.tile:
        return fault

    def fits(tile: tiling.Tile, ctas_per_sm: int | None = spec.ctas_per_sm) -> bool:
        tried = spec.model_copy(update={"ctas_per_sm": ctas_per_sm})
        return all(one.key != ("tile",) for one in _budgets(tried, atom, mma, tile)[1])

    fewer = next((n for n in range((spec.ctas_per_sm or 1) - 1, 0, -1) if fits(spec.tile, n)), None)
    if fewer:
        return replace(fault, change={("ctas_per_sm",): fewer})
    if not fits(units, 1) and all(entry is None for entry in spec.permutation):  # not even the smallest tile of these atoms
        m, n, k = tiling.fewer_atoms(mma.atoms, math.prod(mma.atoms) // 2)
        return replace(fault, change={("atoms_layout",): tiling.whole_warps((m, n, k), max(32 // atom.threads, 1))})
    return replace(fault, change=tiling.smaller(spec.tile, units, fits))


def _warp_faults(spec: Spec, atom: Atom) -> Iterator[Fault]:
    threads = atom.threads * spec.atoms_layout.size
    if threads % 32:
        yield Fault(
            ("atoms_layout",),
            f"{threads} threads are not a whole number of warps",
            f"make the number of atoms a multiple of {32 // atom.threads}, e.g. [16, 16, 1]",
            {("atoms_layout",): tiling.whole_warps(tiling.atoms_per_mode(spec.atoms_layout), 32 // atom.threads)},
        )


def _policies(mainloop: Mainloop, staged: Epilogue, sums: ElementType, project: str) -> Policies:
    policy = Policy(f"mmagen::{mainloop.cxx}<Config>", mainloop.header, _MAINLOOPS[mainloop.header])
    made_by = functor(staged.operations, sums, project, staged.row_major)
    epilogue = Policy(
        f"mmagen::EpilogueStaged<Config, {made_by.cxx}>", "epilogue_staged", "accumulators -> shared memory -> functor -> D"
    )
    return Policies(None, policy, SINGLE_TILE, epilogue, functor=made_by)


def _text(of_gemm: Text, chosen: Policies) -> Text:
    return replace(
        of_gemm,
        peak_operands="register",
        reading=(
            (sentences.header("gemm_kernel"), "the kernel: one CTA, one tile of D"),
            *((sentences.header(policy.header), policy.what) for policy in chosen.reading),
        ),
    )


def _sections(plan: GemmPlan) -> list[pages.Section]:
    """The costs of one kernel."""
    return [
        pages.tiled_mma(plan),
        *((pages.operand_title(one), pages.copied_operand(plan, one)) for one in plan.operands),
        (
            "Registers per thread",
            pages.registers(plan, *_fragments(plan), plan.ctas_per_sm),
        ),
        (
            "Shared memory per CTA",
            [
                pages.one_stage(plan),
                ("stages", f"{plan.stages}"),
                ("epilogue slice", f"{plan.epilogue.smem_bytes:,} B, reusing the stages"),
                pages.smem_together(plan),
            ],
        ),
        *((mma_pieces.section(plan.atom),) if isinstance(plan.atom, SplitAtom) else ()),
        ("Epilogue", _epilogue(plan)),
        ("Traffic per CTA tile", _traffic(plan)),
    ]


def _registers(plan: GemmPlan) -> int:
    """Per thread, an estimate: accumulators, fragments, and what ptxas takes besides."""
    return registers.estimated(plan, _fragments(plan)[0])


def _fragments(plan: GemmPlan) -> tuple[int, str]:
    """Registers per thread that fragments take, and what is held in them."""
    pieces = _piece_registers(plan.atom, plan.tiled_mma, plan.tile)
    beside = ", and the pieces that are multiplied with their sums" if pieces else ""
    if plan.tile[2] == plan.tiled_mma.extent[2]:
        return plan.fragment_registers // 2 + pieces, f"the only k block of A and B{beside}"
    what = "two k blocks of A and B: one is multiplied while the next is loaded"
    return plan.fragment_registers + pieces, f"{what}{beside}"


def _epilogue(plan: GemmPlan) -> list[pages.Row]:
    from mmagen.plan.epilogue_conflicts import staging  # imports the layout algebra, which is slow

    staged, counted = plan.epilogue, staging(plan)
    slices = (plan.tile[0] if staged.row_major else plan.tile[1]) // staged.slice
    rows = pages.count(staged.slice, "row" if staged.row_major else "column")
    return [
        *pages.output(plan),
        ("staged", f"{pages.count(slices, 'slice')} of {rows}, padded by {pages.count(staged.pad, 'element')}"),
        ("to shared memory", pages.conflicts(counted.stores, "per CTA tile")),
        ("from shared memory", pages.conflicts(counted.loads, "per CTA tile")),
        ("store", f"{pages.count(staged.vector, 'element')}, {staged.vector * staged.out.bytes} B at a time"),
    ]


def _traffic(plan: GemmPlan) -> list[pages.Row]:
    warps = plan.threads // 32
    loaded = plan.fragment_registers // 2 * 4 * 32 * warps * (plan.tile[2] // plan.tiled_mma.extent[2])
    return [
        *pages.intensity(plan, plan.stage_bytes, loaded),
        ("raster order", pages.raster(plan.scheduler.raster_group)),
    ]
