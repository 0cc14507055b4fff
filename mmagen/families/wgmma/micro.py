"""`kernel: micro` of wgmma atoms: one tile, copied to shared memory by the warpgroups that multiply it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mmagen.core.errors import Fault, SpecFaults
from mmagen.families.micro import Micro
from mmagen.families.wgmma import decisions, one_tile
from mmagen.families.wgmma.page import panels
from mmagen.families.wgmma.rules import micro_faults
from mmagen.mma.atoms import Atom, find_atom
from mmagen.plan import budgets, pages, rules, sentences, tiling
from mmagen.plan.model import Epilogue, Operand, TiledMma
from mmagen.plan.operands import gmem_copy
from mmagen.plan.plans import MicroPlan
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family


class _WgmmaMicro(Micro):
    def builds(self, atom: str) -> bool:
        found = find_atom(atom)
        return found is not None and found.wgmma

    def plan(self, spec: Spec, sha: str) -> MicroPlan:
        atom = rules.atom_for(spec)
        wrong_type = [*rules.type_faults(spec, atom)]
        faults = [
            *rules.arch_faults(spec, atom),
            *wrong_type,
            *rules.one_tile_faults(spec),
            *rules.one_tile_wgmma_faults(spec),
        ]
        if unfit := micro_faults(spec):
            raise SpecFaults((*faults, *unfit))
        mma = tiling.tiled_mma(spec, atom)
        tile = spec.tile or mma.extent
        problems = spec.problems or (Problem(shape=tile),)
        faults += rules.one_tile_problem_faults(spec, tile, problems)
        faults += _tile_faults(spec, atom, mma, tile)
        if faults:
            raise SpecFaults(tuple(faults))
        a, b = (_operand(letter, spec, atom, mma, tile) for letter in "AB")
        out = rules.out_type(spec, atom)
        accumulators, fragments = decisions.registers(spec, atom, mma, tile)
        return MicroPlan(
            family=__name__,
            spec=spec,
            spec_sha=sha,
            arch=rules.compiled_for(spec, atom),
            text=sentences.of_one_tile(spec, atom, tile, out, "sm90_micro_kernel"),
            problems=problems,
            atom=atom,
            tiled_mma=mma,
            tile=tile,
            threads=mma.threads,
            operands=(a, b),
            epilogue=Epilogue(out, spec.epilogue.major, budgets.scalar_type(atom, out), 0, 0, 1, 0),
            smem_bytes=one_tile.smem_bytes(a, b),
            smem_limit=budgets.smem_limit(decisions.ARCH),
            accumulator_registers=accumulators,
            fragment_registers=fragments,
        )

    def parts(self, plan: MicroPlan) -> tuple[str, ...]:
        return "common", "package", "product", "micro", "micro_wgmma"

    def page(self, plan: MicroPlan) -> list[pages.Section]:
        which = "A of the whole tile" if plan.fragment_registers else "none in registers"
        return [
            pages.tiled_mma(plan),
            *((pages.operand_title(one), _copied(plan, one)) for one in plan.operands),
            ("Registers per thread", pages.registers(plan, plan.fragment_registers, which, ctas_per_sm=1)),
            ("Shared memory per CTA", [pages.one_stage(plan), pages.smem_together(plan)]),
        ]

    def first_keys(self, atom: Atom) -> Iterator[Mapping[str, Any]]:
        row = 1024 // atom.type_a.bits  # of 128 bytes, the widest swizzle
        yield {"tile": [atom.m, atom.n, max(row, atom.k)]}
        yield {"tile": [atom.m, atom.n, atom.k]}


FAMILY: Family[MicroPlan] = _WgmmaMicro()


def _tile_faults(spec: Spec, atom: Atom, mma: TiledMma, tile: tiling.Tile) -> Iterator[Fault]:
    """Faults of the tile of a spec whose layout and atoms_layout are legal."""
    if unfit := [*one_tile.tile_faults(mma, tile)]:
        yield from unfit
    elif faults := _budget_faults(spec, atom, mma, tile):
        change = one_tile.smaller_tile(tile, mma, lambda smaller: not _budget_faults(spec, atom, mma, smaller))
        yield from (replace(fault, change=change) for fault in faults)


def _budget_faults(spec: Spec, atom: Atom, mma: TiledMma, tile: tiling.Tile) -> list[Fault]:
    """Registers and shared memory."""
    faults = []
    accumulators, fragments = decisions.registers(spec, atom, mma, tile)
    usable = min(budgets.REGISTERS_PER_SM // mma.threads // 8 * 8, budgets.REGISTERS_PER_THREAD)
    if accumulators + fragments + decisions.REGISTERS_BESIDES > usable:
        faults.append(
            Fault(
                ("tile",),
                f"accumulators and fragments take {accumulators + fragments} registers per thread, the maximum is {usable}",
                "make the tile smaller, or use more warpgroups in atoms_layout",
            )
        )
    operands = (_operand(letter, spec, atom, mma, tile) for letter in "AB")
    return [*faults, *one_tile.smem_fault(one_tile.smem_bytes(*operands))]


def _operand(letter: str, spec: Spec, atom: Atom, mma: TiledMma, tile: tiling.Tile) -> Operand:
    """The shared-memory layout of TMA, but copied by threads, element by element."""
    made = decisions.operand(letter, spec, atom, tile)
    narrow = gmem_copy(made.extent_along, made.extent_across, 1, mma.threads, made.line, made.lines)
    return replace(made, copy_narrow=narrow)


def _copied(plan: MicroPlan, operand: Operand) -> list[pages.Row]:
    by = operand.copy_narrow
    assert by
    each = pages.count(operand.extent_mn * operand.extent_k // by.threads, "element")
    return [
        pages.typed(operand),
        panels(operand),
        ("copy", f"{by.threads} of {plan.threads} threads x {each}, one element at a time"),
        ("load", pages.load(operand)),
    ]
