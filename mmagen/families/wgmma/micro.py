"""One tile by wgmma and nothing around it: what a micro kernel of a warpgroup decides, and what it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mmagen.core.errors import Fault
from mmagen.families.wgmma import decisions as hopper
from mmagen.mma.atoms import Atom
from mmagen.plan import budgets, tiling
from mmagen.plan.model import Epilogue, Kernel, Operand, TiledMma
from mmagen.plan.operands import fill
from mmagen.spec.model import WGMMA_KEYS, Spec


def faults(spec: Spec, atom: Atom, mma: TiledMma, tile: hopper.Tile) -> Iterator[Fault]:
    """What is wrong with the tile and the keys of a spec whose layout and atoms_layout are right."""
    for key in WGMMA_KEYS:
        if getattr(spec, key) is not None:
            yield Fault(
                (key,), f"kernel micro is one CTA with one tile and has no {key}", "leave it out, or make it kernel: gemm"
            )
    for i, (extent, covered) in enumerate(zip(tile, mma.extent, strict=True)):
        if extent % covered:
            yield Fault(
                ("tile", i),
                f"{extent} is no multiple of the {covered} that the TiledMMA covers along {tiling.MODES[i]}",
                f"atom x atoms_layout covers {list(mma.extent)}: {max(extent // covered, 1) * covered}",
            )
            return
    if mma.threads > budgets.REGISTERS_PER_SM // 64:
        yield Fault(
            ("atoms_layout",),
            f"{mma.threads // hopper.WARPGROUP} warpgroups are {mma.threads} threads",
            "at most 1024: 8 atoms",
        )
        return
    accumulators, fragments = hopper.registers(spec, atom, mma, tile)
    usable = min(budgets.REGISTERS_PER_SM // mma.threads // 8 * 8, budgets.REGISTERS_PER_THREAD)
    if accumulators + fragments + hopper.REGISTERS_BESIDES > usable:
        yield Fault(
            ("tile",),
            f"accumulators and fragments of the whole tile take {accumulators + fragments} registers a thread, of {usable}",
            "make the tile smaller or give it more warpgroups with atoms_layout",
        )
    total = _smem_bytes(*(operand(letter, spec, atom, mma, tile) for letter in "AB"))
    limit = budgets.smem_limit(hopper.ARCH)
    if total > limit:
        yield Fault(
            ("tile",),
            f"the tile needs {total:,} B of shared memory, a CTA may have {limit:,} B",
            "make it smaller: A and B take (M + N) x K elements",
        )


def operand(letter: str, spec: Spec, atom: Atom, mma: TiledMma, tile: hopper.Tile) -> Operand:
    """As TMA would leave it in shared memory, but filled by the threads, element by element."""
    made = hopper.operand(letter, spec, atom, mma, tile)
    return replace(made, fill_narrow=fill(made.extent_along, made.extent_across, 1, mma.threads))


def _smem_bytes(*operands: Operand) -> int:
    """Of both tiles, each where the widest swizzle may begin."""
    return sum(-(-one.bytes_per_stage // hopper.SMEM_ALIGNMENT) * hopper.SMEM_ALIGNMENT for one in operands)


def kernel(spec: Spec, atom: Atom, mma: TiledMma, tile: hopper.Tile) -> Kernel:
    """The decisions for a spec in which `faults` finds none."""
    a, b = (operand(letter, spec, atom, mma, tile) for letter in "AB")
    out = hopper.out_type(spec, atom)
    accumulators, fragments = hopper.registers(spec, atom, mma, tile)
    return Kernel(
        a=a,
        b=b,
        epilogue=Epilogue(out, spec.epilogue.major, budgets.scalar_type(atom, out), 0, 0, 1, 0),
        stages=1,
        smem_bytes=_smem_bytes(a, b),
        accumulator_registers=accumulators,
        fragment_registers=fragments,
        raster_group=spec.raster or budgets.RASTER_GROUP,
        mainloop=None,
    )
