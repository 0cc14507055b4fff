"""`kernel: ownership` of atoms with operands in registers: every thread marks the elements of A, B and C that it owns, on the
device. What the same kernel of wgmma atoms shares with it is public here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mmagen.core.errors import ABSENT, Fault, SpecFaults
from mmagen.mma.atoms import Atom, find_atom
from mmagen.plan import pages, rules, tiling
from mmagen.plan.devices import Device
from mmagen.plan.launch import Numbers
from mmagen.plan.maps import Map, of_tile, read, tables
from mmagen.plan.mma_sync import GENERATIONS
from mmagen.plan.model import TiledMma
from mmagen.plan.plans import OwnershipPlan
from mmagen.plan.project import Text
from mmagen.plan.trials import Trials
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family

MOST_STAMPS = 16_777_216  # maximum number of (thread, element) pairs


class Ownership:
    """The family; that of wgmma atoms derives from it. header: of the kernel."""

    header = "ownership_kernel"

    def builds(self, atom: str) -> bool:
        found = find_atom(atom)
        return found is not None and not found.wgmma and found.generation in (*GENERATIONS, "SM90")

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
        faults += _tile_faults(mma, tile)
        problems = spec.problems or (Problem(shape=tile),)
        faults += rules.one_tile_problem_faults(spec, tile, problems)
        if faults:
            raise SpecFaults(tuple(faults))
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
            ownership=tables(atom, mma, tile, ()),
        )

    def problem_faults(self, plan: OwnershipPlan, problems: Sequence[Problem]) -> Iterator[Fault]:
        return rules.one_tile_problem_faults(plan.spec, plan.tile, problems)

    def parts(self, plan: OwnershipPlan) -> tuple[str, ...]:
        return "common", "package", "ownership"

    def context(self, plan: OwnershipPlan, config: str) -> Mapping[str, Any]:
        return {
            "decisions": "instruction and TiledMMA",
            "units": [[plan.name]],
            "usable": False,
            "kernel_header": self.header,
            "run": f"run_{self.header.removesuffix('_kernel')}",
        }

    def trials(self, plan: OwnershipPlan) -> Trials:
        atom, layout = plan.atom, plan.spec.layout
        return Trials(
            judge="ownership",
            cases=((Problem(shape=plan.tile), "stamps"),),
            types=f"{atom.type_a.word} x {atom.type_b.word} + {atom.type_d.word} -> {rules.out_type(plan.spec, atom).word}",
            majors=(layout.a_major, layout.b_major, plan.spec.epilogue.major),
            smem_bytes=plan.smem_bytes,
        )

    def page(self, plan: OwnershipPlan) -> list[pages.Section]:
        rows: list[pages.Row] = [
            (
                f"{table.matrix} {table.rows} x {table.columns}",
                "read from shared memory: no thread owns it"
                if table.stage
                else f"{pages.count(len(table.elements[0]), 'value')} per thread, "
                f"{pages.count(len(table.owners()[0]), 'owner')} per element",
            )
            for table in plan.ownership
        ]
        return [pages.tiled_mma(plan), ("Ownership", rows)]

    def numbers(self, plan: OwnershipPlan, device: Device, ptxas: Mapping[str, int]) -> list[Numbers]:
        return []

    def maps(self, plan: OwnershipPlan) -> list[Map]:
        found = of_tile(plan.atom, plan.tiled_mma, plan.tile, plan.ownership)
        return [*found[:-1], replace(found[-1], stored=read(plan.atom, plan.tiled_mma, plan.tile, plan.staged))]

    def text(self, atom: Atom, tile: tiling.Tile) -> Text:
        """Sentences of the project."""
        return Text(
            title=f"ownership of A, B and C in a TiledMMA of {atom.name}, tile {'x'.join(map(str, tile))}",
            reading=((f"include/mmagen/{self.header}.cuh", "the kernel: every thread marks the elements that it owns"),),
        )

    def first_keys(self, atom: Atom) -> Iterator[Mapping[str, Any]]:
        yield {}
        yield {"atoms_layout": [2, 2, 1]}  # quad pairs: four of them fill a warp


FAMILY: Family[OwnershipPlan] = Ownership()


def stamp_faults(mma: TiledMma, tile: tiling.Tile) -> Iterator[Fault]:
    """Fault for more (thread, element) pairs than the device marks."""
    stamps = mma.threads * max(tile[0] * tile[2], tile[1] * tile[2], tile[0] * tile[1])
    if stamps > MOST_STAMPS:
        whole = tile == mma.extent
        yield Fault(
            ("atoms_layout",) if whole else ("tile",),
            f"{mma.threads} threads x a tile of {tile} are {stamps:,} (thread, element) pairs, the maximum is {MOST_STAMPS:,}",
            "make atoms_layout or permutation smaller" if whole else f"omit tile: the TiledMMA covers {mma.extent} and repeats",
            {("atoms_layout",): [1, 1, 1], ("permutation",): ABSENT, ("tile",): ABSENT} if whole else {("tile",): ABSENT},
        )


def _tile_faults(mma: TiledMma, tile: tiling.Tile) -> Iterator[Fault]:
    if unfit := [*tiling.extent_faults(mma, tile, {})]:
        yield from unfit
    else:
        yield from stamp_faults(mma, tile)
