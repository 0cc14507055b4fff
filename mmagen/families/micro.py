"""`kernel: micro` of atoms with operands in registers: one CTA, one tile; copy, load fragments, mma, store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mmagen.core.errors import Fault, SpecFaults
from mmagen.families import mma_shapes
from mmagen.mma.atoms import Atom
from mmagen.plan import budgets, mma_sync, pages, rules, sentences, tiling
from mmagen.plan.devices import Device
from mmagen.plan.launch import Numbers
from mmagen.plan.maps import Map, of_product
from mmagen.plan.model import TiledMma
from mmagen.plan.plans import MicroPlan
from mmagen.plan.trials import Trials, one_tile
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family


class Micro:
    """The family; that of wgmma atoms derives from it."""

    def builds(self, atom: str) -> bool:
        # The store of a complex atom is that of its own project, of the family `instruction`.
        return mma_sync.builds_from(atom) and not mma_sync.is_complex(atom)

    def plan(self, spec: Spec, sha: str) -> MicroPlan:
        atom = rules.atom_for(spec)
        wrong_arch = [*rules.arch_faults(spec, atom)]
        wrong_type = [*rules.type_faults(spec, atom)]
        faults = [*wrong_arch, *rules.wgmma_key_faults(spec, atom), *wrong_type, *rules.one_tile_faults(spec)]
        if unfit := [*tiling.faults(spec, atom)]:
            raise SpecFaults((*faults, *unfit))
        mma = tiling.tiled_mma(spec, atom)
        tile = spec.tile or mma.extent
        problems = spec.problems or (Problem(shape=tile),)
        faults += rules.one_tile_problem_faults(spec, tile, problems)
        if unfit := [*tiling.extent_faults(mma, tile, {})]:
            raise SpecFaults((*faults, *unfit))
        if wrong_arch or wrong_type:
            raise SpecFaults(tuple(faults))
        arch = rules.compiled_for(spec, atom)
        # A single copy, of any alignment.
        a, b = (replace(one, copy_wide=None) for one in mma_sync.operands(spec, atom, mma, tile))
        staged = budgets.epilogue(spec, atom, mma, tile)
        smem_bytes, unfit = mma_sync.one_tile_budget(atom, mma, tile, a, b, budgets.smem_limit(arch))
        if unfit:
            change = tiling.smaller(tile, mma.extent, lambda smaller: _fits(spec, atom, mma, smaller))
            faults += [replace(fault, change=change) for fault in unfit]
        if faults:
            raise SpecFaults(tuple(faults))
        accumulators, fragments = budgets.registers(atom, mma, tile)
        return MicroPlan(
            family=__name__,
            spec=spec,
            spec_sha=sha,
            arch=arch,
            text=sentences.of_one_tile(spec, atom, tile, staged.out, "micro_kernel"),
            problems=problems,
            atom=atom,
            tiled_mma=mma,
            tile=tile,
            threads=mma.threads,
            operands=(a, b),
            epilogue=staged,
            smem_bytes=smem_bytes,
            smem_limit=budgets.smem_limit(arch),
            accumulator_registers=accumulators,
            fragment_registers=fragments,
        )

    def problem_faults(self, plan: MicroPlan, problems: Sequence[Problem]) -> Iterator[Fault]:
        return rules.one_tile_problem_faults(plan.spec, plan.tile, problems)

    def parts(self, plan: MicroPlan) -> tuple[str, ...]:
        return "common", "package", "product", "micro"

    def context(self, plan: MicroPlan, config: str) -> Mapping[str, Any]:
        return {"decisions": sentences.DECISIONS, "launch": "micro", "units": [[plan.name]]}

    def trials(self, plan: MicroPlan) -> Trials:
        return one_tile(plan)

    def page(self, plan: MicroPlan) -> list[pages.Section]:
        blocks = plan.tile[2] // plan.tiled_mma.extent[2]
        loaded = (plan.fragment_registers // 2 * blocks, "A and B of the whole tile")
        return [
            pages.tiled_mma(plan),
            *((pages.operand_title(one), pages.copied_operand(plan, one)) for one in plan.operands),
            ("Registers per thread", pages.registers(plan, *loaded, ctas_per_sm=1)),
            ("Shared memory per CTA", [pages.one_stage(plan), pages.smem_together(plan)]),
        ]

    def numbers(self, plan: MicroPlan, device: Device, ptxas: Mapping[str, int]) -> list[Numbers]:
        return []

    def maps(self, plan: MicroPlan) -> list[Map]:
        return of_product(plan)

    def first_keys(self, atom: Atom) -> Iterator[Mapping[str, Any]]:
        return mma_shapes.of_one_tile(atom)


FAMILY: Family[MicroPlan] = Micro()


def _fits(spec: Spec, atom: Atom, mma: TiledMma, tile: tiling.Tile) -> bool:
    operands = mma_sync.operands(spec, atom, mma, tile)
    limit = budgets.smem_limit(rules.compiled_for(spec, atom))
    return not mma_sync.one_tile_budget(atom, mma, tile, *operands, limit)[1]
