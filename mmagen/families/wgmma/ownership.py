"""`kernel: ownership` of wgmma atoms: the elements in the registers of each thread, and where the others lie in shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mmagen.core.errors import Fault, SpecFaults
from mmagen.families import ownership
from mmagen.families.wgmma import decisions, one_tile
from mmagen.families.wgmma.page import panels
from mmagen.families.wgmma.rules import micro_faults
from mmagen.mma.atoms import Atom, find_atom
from mmagen.plan import pages, rules, tiling
from mmagen.plan.maps import tables
from mmagen.plan.model import Operand, TiledMma
from mmagen.plan.plans import OwnershipPlan
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family


class _WgmmaOwnership(ownership.Ownership):
    header = "sm90_ownership_kernel"

    def builds(self, atom: str) -> bool:
        found = find_atom(atom)
        return found is not None and found.wgmma

    def plan(self, spec: Spec, sha: str) -> OwnershipPlan:
        atom = rules.atom_for(spec)
        faults = [
            *rules.arch_faults(spec, atom),
            *rules.type_faults(spec, atom),
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
        staged = _staged(spec, atom, tile)
        return OwnershipPlan(
            family=__name__,
            spec=spec,
            spec_sha=sha,
            arch=rules.compiled_for(spec, atom),
            text=self.text(atom, tile),
            problems=problems,
            atom=atom,
            tiled_mma=mma,
            tile=tile,
            threads=mma.threads,
            ownership=tables(atom, mma, tile, staged),
            staged=staged,
            smem_bytes=one_tile.smem_bytes(*staged),
        )

    def parts(self, plan: OwnershipPlan) -> tuple[str, ...]:
        return "common", "package", "ownership", "ownership_wgmma"

    def page(self, plan: OwnershipPlan) -> list[pages.Section]:
        staged: list[pages.Section] = [(pages.operand_title(one), [pages.typed(one), panels(one)]) for one in plan.staged]
        return [*super().page(plan), *staged]

    def first_keys(self, atom: Atom) -> Iterator[Mapping[str, Any]]:
        yield {}


FAMILY: Family[OwnershipPlan] = _WgmmaOwnership()


def _staged(spec: Spec, atom: Atom, tile: tiling.Tile) -> tuple[Operand, ...]:
    """The operands that the instruction reads from shared memory."""
    letters = "B" if atom.a_in_registers else "AB"
    return tuple(decisions.operand(letter, spec, atom, tile) for letter in letters)


def _tile_faults(spec: Spec, atom: Atom, mma: TiledMma, tile: tiling.Tile) -> Iterator[Fault]:
    if unfit := [*one_tile.tile_faults(mma, tile)]:
        yield from unfit
        return

    def too_much(of: tiling.Tile) -> list[Fault]:
        smem = one_tile.smem_bytes(*_staged(spec, atom, of))
        return [*one_tile.smem_fault(smem), *ownership.stamp_faults(mma, of)]

    if faults := too_much(tile):
        change = one_tile.smaller_tile(tile, mma, lambda smaller: not too_much(smaller))
        yield from (replace(fault, change=change) for fault in faults)
