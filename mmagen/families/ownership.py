"""`kernel: ownership`: every thread marks the elements of A, B and C that it owns, on the device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mmagen.core.errors import ABSENT, Fault, SpecFaults
from mmagen.mma.atoms import Atom
from mmagen.plan import pages, rules, tiling
from mmagen.plan.mma_sync import builds_from
from mmagen.plan.model import TiledMma
from mmagen.plan.plans import OwnershipPlan, Text
from mmagen.plan.trials import Trials
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family

MOST_STAMPS = 4_194_304  # maximum number of (thread, element) pairs


class _Ownership:
    def builds(self, atom: str) -> bool:
        return builds_from(atom)

    def plan(self, spec: Spec, sha: str) -> OwnershipPlan:
        atom = rules.atom_for(spec)
        faults = [
            *rules.arch_faults(spec, atom),
            *rules.wgmma_key_faults(spec, atom),
            *rules.type_faults(spec, atom),
            *rules.one_tile_faults(spec),
        ]
        if unfit := [*tiling.faults(spec, atom)]:
            raise SpecFaults((*faults, *unfit))
        mma = tiling.tiled_mma(spec, atom)
        tile = spec.tile or mma.extent
        faults += _tile_faults(spec, mma, tile)
        problems = spec.problems or (Problem(shape=tile),)
        faults += rules.one_tile_problem_faults(spec, tile, problems)
        if faults:
            raise SpecFaults(tuple(faults))
        from mmagen.mma.ownership import ownership  # slow to import, and no other kernel needs it

        return OwnershipPlan(
            family=__name__,
            spec=spec,
            spec_sha=sha,
            arch=rules.compiled_for(spec, atom),
            text=_text(atom, tile),
            problems=problems,
            atom=atom,
            tiled_mma=mma,
            tile=tile,
            threads=mma.threads,
            ownership=ownership(atom, mma.atoms_layout, mma.permutation, tile),
        )

    def problem_faults(self, plan: OwnershipPlan, problems: Sequence[Problem]) -> Iterator[Fault]:
        return rules.one_tile_problem_faults(plan.spec, plan.tile, problems)

    def parts(self, plan: OwnershipPlan) -> tuple[str, ...]:
        return "common", "package", "ownership"

    def context(self, plan: OwnershipPlan, config: str) -> Mapping[str, Any]:
        return {"decisions": "instruction and TiledMMA", "sources": [plan.name], "usable": False}

    def trials(self, plan: OwnershipPlan) -> Trials:
        atom, layout = plan.atom, plan.spec.layout
        return Trials(
            judge="ownership",
            cases=((Problem(shape=plan.tile), "stamps"),),
            requires=atom.default_arch,
            types=f"{atom.type_a.word} x {atom.type_b.word} + {atom.type_d.word} -> {rules.out_type(plan.spec, atom).word}",
            majors=(layout.a_major, layout.b_major, plan.spec.epilogue.major),
        )

    def page(self, plan: OwnershipPlan) -> list[pages.Section]:
        rows: list[pages.Row] = [
            (
                f"{table.matrix} {table.rows} x {table.columns}",
                f"{pages.count(len(table.elements[0]), 'value')} per thread, "
                f"{pages.count(len(table.owners()[0]), 'owner')} per element",
            )
            for table in plan.ownership
        ]
        return [pages.tiled_mma(plan), ("Ownership", rows)]


FAMILY: Family[OwnershipPlan] = _Ownership()


def _tile_faults(spec: Spec, mma: TiledMma, tile: tiling.Tile) -> Iterator[Fault]:
    found = [*tiling.extent_faults(mma, tile, {})]
    yield from found
    stamps = mma.threads * max(tile[0] * tile[2], tile[1] * tile[2], tile[0] * tile[1])
    if stamps > MOST_STAMPS and not found:
        whole = tile == mma.extent
        yield Fault(
            ("atoms_layout",) if whole else ("tile",),
            f"{mma.threads} threads x a tile of {tile} are {stamps:,} (thread, element) pairs, the maximum is {MOST_STAMPS:,}",
            "make atoms_layout or permutation smaller" if whole else f"omit tile: the TiledMMA covers {mma.extent} and repeats",
            {("atoms_layout",): [1, 1, 1], ("permutation",): ABSENT, ("tile",): ABSENT} if whole else {("tile",): ABSENT},
        )


def _text(atom: Atom, tile: tiling.Tile) -> Text:
    return Text(
        title=f"ownership of A, B and C in a TiledMMA of {atom.name}, tile {'x'.join(map(str, tile))}",
        reading=(("include/mmagen/ownership_kernel.cuh", "the kernel: every thread marks the elements that it owns"),),
    )
