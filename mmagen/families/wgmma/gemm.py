"""`kernel: gemm` of wgmma atoms: TMA to shared memory, wgmma, and TMA back to global memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from mmagen import families
from mmagen.core.errors import Fault, SpecFaults
from mmagen.families import launches, library, sparse
from mmagen.families.units import units
from mmagen.families.wgmma import decisions, grid, grouped, mixed, mixed_gemm, pieces, pieces_gemm, pointers, scaling
from mmagen.families.wgmma import rules as wgmma_rules
from mmagen.families.wgmma.alternatives import EVERY, NARROWER, USUAL, alternatives, several_widths, with_parts_of_k
from mmagen.families.wgmma.model import WarpgroupRoles, WgmmaGemmPlan, WgmmaMainloop
from mmagen.families.wgmma.page import WARPGROUPS, sections, ways
from mmagen.families.wgmma.policies import policies
from mmagen.families.wgmma.roles import pipeline
from mmagen.families.wgmma.trials import schedule_problems
from mmagen.mma.atoms import Atom, find_atom
from mmagen.plan import budgets, copies, operations, pages, registers, rules, sentences, tiling
from mmagen.plan.devices import Device
from mmagen.plan.launch import Numbers
from mmagen.plan.maps import Map
from mmagen.plan.model import TiledMma, TileScheduler
from mmagen.plan.operations import as_applied
from mmagen.plan.pipeline import Pipeline
from mmagen.plan.plans import GemmPlan
from mmagen.plan.policies import Policies, functor
from mmagen.plan.problems import default_problems
from mmagen.plan.project import Text
from mmagen.plan.reach import Paths, chosen
from mmagen.plan.trials import (
    Trials,
    block_problems,
    copied_problems,
    of_product,
    scale_problems,
    unaligned_problems,
)
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family

PROMOTED_K = 2048
FEW_ROWS = (sentences.header("sm90_few_rows"), "the kernel for few rows or columns of such operands, each element read once")


class WgmmaGemm:
    """GEMM of dense wgmma. Families of other wgmma GEMMs derive from it."""

    module = __name__
    tile_rate = 3.5e6
    cutlass = "CUTLASS3"

    def builds(self, atom: str) -> bool:
        found = find_atom(atom)
        return found is not None and found.wgmma

    def plan(self, spec: Spec, sha: str) -> WgmmaGemmPlan:
        if spec.configs:
            # Configs that all name atoms of another family make that family's plan, and then `family_of` finds it.
            made = cast(WgmmaGemmPlan, library.plan(spec, sha, families.plan))
            if made.few_rows:
                made = replace(made, text=replace(made.text, reading=(*made.text.reading, FEW_ROWS)))
            return replace(made, text=pieces_gemm.text_of_library(spec, made.text)) if spec.split else made
        computed = decisions.as_computed(spec)
        atom = rules.atom_for(computed)
        wrong_type = [*rules.type_faults(spec, atom)]
        faults = [*rules.arch_faults(spec, atom), *wrong_type, *sparse.key_faults(spec.sparse, atom)]
        default = grouped.default_problems(spec.grouped) if spec.grouped else default_problems()
        problems = spec.problems or operations.as_applied(spec, mixed_gemm.addressable(spec, default))
        if wrong_type:  # the rules of the epilogue hold for a type that accumulators are converted to
            usable = spec.model_copy(update={"epilogue": spec.epilogue.without_out()})
            raise SpecFaults((*faults, *wgmma_rules.faults(usable)))
        scalar = budgets.scalar_type(atom, rules.out_type(spec, atom))
        faults += [*rules.problem_faults(spec, scalar, problems), *operations.faults(spec, scalar, problems)]
        faults += _group_faults(spec, atom, problems)
        faults += mixed_gemm.problem_faults(spec, problems)
        faults += wgmma_rules.faults(spec)
        if faults:
            raise SpecFaults(tuple(faults))
        made = planned(self.module, spec, sha, atom, tiling.tiled_mma(computed, atom), problems)
        if too_many := tuple(grid.faults(made, problems)):
            raise SpecFaults(too_many)
        return made

    def problem_faults(self, plan: WgmmaGemmPlan, problems: Sequence[Problem]) -> Iterator[Fault]:
        yield from rules.problem_faults(plan.spec, plan.epilogue.scalar, problems)
        yield from operations.scalar_faults(plan.spec, problems)
        yield from _group_faults(plan.spec, plan.atom, problems)
        yield from mixed_gemm.problem_faults(plan.spec, problems)
        yield from grid.faults(plan, problems)

    def parts(self, plan: WgmmaGemmPlan) -> tuple[str, ...]:
        without = plan.scheduler.grouped or plan.mainloop.pieces  # a kernel for operands that TMA cannot address
        library_of_dense = ("hopper_dense_library",) if plan.configs else ()
        host = ("mixed",) if plan.mainloop.weights else () if without else ("hopper_dense", *library_of_dense)
        return ("common", "package", "product", "gemm", "hopper", *host, *library.parts(plan))

    def context(self, plan: WgmmaGemmPlan, config: str) -> Mapping[str, Any]:
        by_threads = plan.configs[copies.by_threads(plan.kernels)].kernel if plan.configs else ""
        own = {**mixed_gemm.context(plan), **pieces_gemm.context(plan)}
        return {
            **library.context(plan, config),
            "launch": grouped.LAUNCHES[plan.scheduler.grouped],
            "workspace": grouped.WORKSPACES[plan.scheduler.grouped],
            "unaligned": not plan.scheduler.grouped,
            "units": units(plan, *([] if plan.scheduler.grouped else [f"{plan.name}_unaligned"])),
            "warpgroups": f"{plan.roles.consumers} {WARPGROUPS[plan.roles.schedule]}",
            "policies": policies_of(plan),
            "partials": (),
            "by_threads": by_threads or "config",
            "type_by_threads": f"{by_threads}::Config" if by_threads else "Config",
            **own,
        }

    def trials(self, plan: WgmmaGemmPlan) -> Trials:
        scheduler = plan.scheduler
        if scheduler.describes_groups:
            return replace(of_product(plan, pointers.trial_problems(plan)), judge="pointers")
        if scheduler.grouped:
            return of_product(plan, grouped.trial_problems(plan))
        if plan.mainloop.weights:
            return mixed_gemm.trials(plan)
        if plan.mainloop.pieces:
            return pieces_gemm.trials(plan)
        shared = schedule_problems(plan)
        promoted = Problem(shape=(*plan.tile_of_d[:2], PROMOTED_K), beta=1.0) if plan.mainloop.promote else None
        if promoted:  # so long that uniform sums that stay in the tensor core exceed their bound
            shared = (*shared, promoted)
        if plan.spec.scale:
            shared = (*shared, *scale_problems())
        turns = plan.roles.consumers if plan.roles.schedule == "pingpong" else 1
        paths = Paths.of(plan, tma=True, turns=turns)
        problems = (*chosen(paths), *unaligned_problems(plan.tile_of_d, plan.majors[2]))
        problems += block_problems() if plan.spec.scale and plan.spec.scale.along_k else ()
        copied = copied_problems(plan.tile_of_d, plan.operands[0].element.bytes, plan.majors)
        trials = of_product(plan, (*shared, *copied, *problems), promoted)
        # Copies to a workspace nearly always pay: without one the kernel that loads unaligned operands itself runs.
        unaligned = as_applied(plan.spec, [problem for problem in problems if not paths.is_aligned(problem)])
        return replace(trials, without_workspace=frozenset(unaligned))

    def alternatives(self, spec: Spec) -> Iterator[Mapping[str, Any]]:
        yield from alternatives(spec.atom, EVERY, decisions.promoted(spec))
        if spec.weights:
            yield from with_parts_of_k(spec.atom, mixed.depths(spec), mixed.MOST_WARPGROUPS)
        yield from several_widths(spec.atom, NARROWER)

    def pipeline(self, plan: WgmmaGemmPlan) -> Pipeline:
        return pipeline(plan)

    def first_keys(self, atom: Atom) -> Iterator[Mapping[str, Any]]:
        return alternatives(atom.name, USUAL)

    def page(self, plan: WgmmaGemmPlan) -> list[pages.Section]:
        columns = (
            ("schedule", lambda one: one.roles.schedule),
            ("cluster", lambda one: pages.extents(one.scheduler.cluster)),
            ("split_k", lambda one: str(one.spec.split_k or 1)),
        )
        return [
            *library.page(plan, sections, columns),
            *([] if plan.mainloop.weights or plan.mainloop.pieces else [ways(plan)]),
        ]

    def numbers(self, plan: WgmmaGemmPlan, device: Device, ptxas: Mapping[str, int]) -> list[Numbers]:
        return launches.numbers(plan, device, ptxas, _registers)

    def maps(self, plan: WgmmaGemmPlan) -> list[Map]:
        return library.maps(plan)


FAMILY: Family[WgmmaGemmPlan] = WgmmaGemm()


def _group_faults(spec: Spec, atom: Atom, problems: Sequence[Problem]) -> Iterator[Fault]:
    sizes = (atom.type_b, atom.type_a) if decisions.swapped(spec) else (atom.type_a, atom.type_b)
    return grouped.problem_faults(spec, sizes[0].bytes, sizes[1].bytes, problems)


def _registers(plan: GemmPlan) -> int:
    """Per thread at launch: where setmaxnreg moves registers between roles, those that the launch bounds allow; elsewhere what
    ptxas needs, an estimate."""
    most = decisions.launch_registers(plan.spec, plan.tiled_mma)
    if decisions.role_registers(plan.spec, plan.tiled_mma)[1]:
        return most
    return min(most, registers.estimated(plan, plan.fragment_registers))


def policies_of(plan: WgmmaGemmPlan) -> Policies:
    """The C++ policies of a plan."""
    made_by = functor(plan.epilogue.operations, plan.atom.type_d, plan.name, plan.d_row_major, plan.swapped)
    return policies(plan.roles.schedule, plan.atom.reads_a, plan.mainloop, plan.scheduler, made_by)


def planned(family: str, spec: Spec, sha: str, atom: Atom, mma: TiledMma, problems: tuple[Problem, ...]) -> WgmmaGemmPlan:
    """The decisions for a spec without faults. family: the registered module."""
    assert spec.tile
    tile, computed = spec.tile, decisions.as_computed(spec)
    a, b = (decisions.operand(letter, computed, atom, tile) for letter in "AB")
    staged = decisions.epilogue(computed, atom, mma, tile)
    stages = decisions.stages(computed, mma, a, b, staged)
    accumulators, fragments = decisions.registers(computed, atom, mma, tile)
    cluster, roles = decisions.cluster(spec), _roles(spec, mma)
    scheduler = TileScheduler(
        raster_group=max(1, (spec.raster or budgets.RASTER_GROUP) // cluster[0]),
        raster=spec.raster or budgets.RASTER_GROUP,
        cluster=cluster,
        split_k=decisions.split_k(spec),
        workspace_splits=decisions.workspace_splits(spec),
        persistent=decisions.persistent(spec, mma),
        stream_k=decisions.stream_k(spec),
        grouped=spec.grouped or "",
        describes_groups=spec.grouped == "pointers",
    )
    mainloop = replace(_mainloop(computed, stages, atom, mma, tile), pieces=pieces.layout(spec))
    made_by = functor(staged.operations, atom.type_d, spec.name, staged.row_major, decisions.swapped(spec))
    further = grouped.of_rows(spec, operations.arguments(staged.operations, spec.epilogue.major) + scaling.arguments(spec))
    chosen = policies(roles.schedule, atom.reads_a, mainloop, scheduler, made_by)
    return WgmmaGemmPlan(
        family=family,
        spec=spec,
        spec_sha=sha,
        arch=rules.compiled_for(spec, atom),
        text=_text(spec, sentences.of_gemm(spec, atom, tile, staged), chosen),
        problems=problems,
        arguments=further + grouped.arguments(spec.grouped or "", further) + mixed.arguments(spec),
        atom=atom,
        tiled_mma=mma,
        tile=tile,
        threads=decisions.threads(spec, mma),
        operands=(a, b),
        epilogue=replace(staged, major=spec.epilogue.major),
        smem_bytes=decisions.smem_bytes(computed, mma, stages, a, b, staged),
        smem_limit=budgets.smem_limit(decisions.ARCH),
        accumulator_registers=accumulators,
        fragment_registers=fragments,
        mainloop=replace(mainloop, cxx=chosen.mainloop.cxx, header=chosen.mainloop.header),
        roles=roles,
        swapped=decisions.swapped(spec),
        scheduler=scheduler,
        ctas_per_sm=spec.ctas_per_sm or 1,
    )


def _mainloop(computed: Spec, stages: int, atom: Atom, mma: TiledMma, tile: tuple[int, int, int]) -> WgmmaMainloop:
    """The decisions about the mainloop, all but its policy, which follows from them."""
    return WgmmaMainloop(
        cxx="",
        header="",
        stages=stages,
        promote=decisions.promoted(computed),
        prefetch=computed.prefetch or 0,
        scales=tuple(scaling.layout(letter, computed, tile) for letter in "AB") if computed.scale else (),
        scale_bytes=stages * scaling.bytes_of_stage(computed, tile),
        partial_registers=decisions.partial_registers(computed, atom, mma, tile),
        weights=mixed.layout(computed, mma),
    )


def _roles(spec: Spec, mma: TiledMma) -> WarpgroupRoles:
    schedule = decisions.schedule(spec, mma)
    producer, consumer, usable = decisions.role_registers(spec, mma)
    return WarpgroupRoles(
        schedule=schedule,
        consumers=decisions.consumers(spec, mma),
        producer_registers=producer,
        consumer_registers=consumer,
        usable_registers=usable,
    )


def _text(spec: Spec, of_gemm: Text, chosen: Policies) -> Text:
    kernel, *others = chosen.reading
    by_threads = ("sm90_unaligned", "the kernel without TMA loads, for operands whose rows do not begin at 16-byte boundaries")
    reading = (
        (kernel.header, kernel.what),
        ("sm90_tma_load", "the producer: TMA, global memory to the stages in shared memory"),
        *((policy.header, policy.what) for policy in others),
        *(pieces_gemm.READING if spec.split else () if spec.grouped or spec.weights else (by_threads,)),
    )
    if spec.weights:
        of_gemm = mixed_gemm.text(spec, of_gemm)
    if spec.split:
        of_gemm = pieces_gemm.text(spec, of_gemm)
    if spec.grouped:
        of_gemm = grouped.text(spec.grouped, of_gemm)
    return replace(
        of_gemm, peak_operands="shared-memory", reading=tuple((sentences.header(name), role) for name, role in reading)
    )
