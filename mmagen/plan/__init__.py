"""plan: every decision between a spec and its project, each legality rule a small function that explains itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mmagen.atoms import TYPES, Atom, find_atom
from mmagen.errors import Fault, SpecFaults
from mmagen.plan import budgets, files, tiling
from mmagen.plan.model import Epilogue, Fill, Operand, Plan, Swizzle, TiledMma
from mmagen.plan.operands import VECTOR_BYTES, operand
from mmagen.plan.problems import default_problems
from mmagen.plan.text import reading, text
from mmagen.spec import Problem, Spec

if TYPE_CHECKING:
    from mmagen.layouts import Ownership

__all__ = ["Epilogue", "Fill", "Operand", "Plan", "Swizzle", "TiledMma", "plan"]

# The oldest architecture that nvcc 13 compiles for; older atoms run on it through their PTX.
OLDEST_ARCH = 75
OUT_TYPES = {
    "f32": ("f32", "f16", "bf16", "e4m3", "e5m2"),
    "f16": ("f16", "f32", "bf16", "e4m3", "e5m2"),
    "f64": ("f64", "f32"),
    "s32": ("s32", "s8", "u8", "f32", "f16", "bf16"),
}
MOST_STAMPS = 65536
RASTER_GROUP = 8

def plan(spec: Spec) -> Plan:
    """All decisions for one spec. Raises SpecFaults with everything that is wrong with it."""
    atom = find_atom(spec.atom)
    faults = [*_arch_faults(spec, atom), *tiling.faults(spec, atom), *_type_faults(spec, atom), *_kernel_faults(spec)]
    if faults:
        raise SpecFaults(tuple(faults))

    mma = tiling.tiled_mma(spec, atom)
    tile = spec.tile or mma.extent
    if faults := [*_tile_faults(spec, atom, mma, tile)]:
        raise SpecFaults(tuple(faults))

    arch = spec.arch or (f"sm_{max(atom.min_arch, OLDEST_ARCH)}",)
    limit = budgets.smem_limit(arch)
    a = operand("A", atom, mma, tile[0], tile[2], spec.layout.a_major)
    b = operand("B", atom, mma, tile[1], tile[2], spec.layout.b_major)
    staged = budgets.epilogue(spec, atom, mma, tile)
    accumulators, fragments = budgets.registers(atom, mma, tile)
    cp_async = atom.min_arch >= 80 or all(budgets.capability(name) >= 80 for name in arch)

    if spec.kernel == "gemm":
        smem, faults = budgets.gemm_smem(spec, a, b, staged, limit, cp_async)
        mainloop = "mainloop_multistage" if cp_async else "mainloop_register_staged"
        faults += budgets.register_faults(spec, mma, accumulators, fragments)
    else:
        smem, faults = _single_tile_smem(spec, atom, mma, tile, a, b, limit)
        mainloop = None
    problems = spec.problems or (default_problems() if spec.kernel == "gemm" else (Problem(shape=tile),))
    faults += _problem_faults(spec, staged, tile, problems)
    if faults:
        raise SpecFaults(tuple(faults))
    return Plan(
        spec=spec, spec_sha=spec_sha(spec), atom=atom, tiled_mma=mma, tile=tile, a=a, b=b, epilogue=staged,
        stages=smem.stages, ctas_per_sm=spec.ctas_per_sm or 1, mainloop=mainloop, smem_bytes=smem.bytes,
        smem_limit=limit, accumulator_registers=accumulators, fragment_registers=fragments,
        raster_group=RASTER_GROUP, arch=arch, problems=problems, runtime=files.runtime(spec.kernel, mainloop),
        test_runtime=files.test_runtime(spec.kernel), ownership=_ownership(spec, atom, mma, tile),
        reading=reading(spec.kernel, mainloop), text=text(spec, atom, tile, staged),
    )


def spec_sha(spec: Spec) -> str:
    """Identity of a spec's meaning: the same for two files that differ in comments or order of keys only."""
    return hashlib.sha256(spec.model_dump_json().encode()).hexdigest()[:16]


def _ownership(spec: Spec, atom: Atom, mma: TiledMma, tile: tuple[int, int, int]) -> tuple[Ownership, ...]:
    if spec.kernel != "ownership":
        return ()
    from mmagen.layouts import ownership  # takes long to import, and no other kernel needs it

    return ownership(atom, mma.atoms_layout, mma.permutation, tile)


def _arch_faults(spec: Spec, atom: Atom) -> Iterator[Fault]:
    for i, name in enumerate(spec.arch or ()):
        if budgets.capability(name) < atom.min_arch:
            yield Fault(("arch", i), f"{name} does not have {atom.name}",
                        f"the atom begins with sm_{atom.min_arch}: that or later")


def _type_faults(spec: Spec, atom: Atom) -> Iterator[Fault]:
    out, legal = spec.epilogue.out, OUT_TYPES[atom.type_d.word]
    if out and out not in legal:
        yield Fault(("epilogue", "out"), f"{out} cannot be made from {atom.type_d.word} accumulators",
                    f"one of {', '.join(legal)}")


def _kernel_faults(spec: Spec) -> Iterator[Fault]:
    if spec.kernel == "gemm":
        return
    for key in ("stages", "ctas_per_sm"):
        if getattr(spec, key) is not None:
            yield Fault((key,), f"kernel {spec.kernel} is one CTA with one tile and has no {key}",
                        "leave it out, or make it kernel: gemm")


def _tile_faults(spec: Spec, atom: Atom, mma: TiledMma, tile: tuple[int, int, int]) -> Iterator[Fault]:
    for i, (extent, unit) in enumerate(zip(tile, mma.extent, strict=True)):
        if extent % unit:
            near = " or ".join(str(n) for n in sorted({extent // unit * unit, (extent // unit + 1) * unit}) if n)
            yield Fault(("tile", i), f"{extent} is no multiple of the {unit} that the TiledMMA covers along {'MNK'[i]}",
                        f"atom x atoms_layout x permutation covers {mma.extent}: the nearest legal is {near}")
    if spec.kernel == "ownership":
        stamps = mma.threads * max(tile[0] * tile[2], tile[1] * tile[2], tile[0] * tile[1])
        if stamps > MOST_STAMPS * 64:
            yield Fault(("tile",), f"{mma.threads} threads x a tile of {tile} are too many stamps to print and compare",
                        f"the TiledMMA repeats after {mma.extent}: leave tile out")
    if spec.kernel != "gemm":
        return
    if tile[2] % mma.extent[2] == 0 and tile[2] < 2 * mma.extent[2]:
        yield Fault(("tile", 2), f"{tile[2]} is a single k block of {mma.extent[2]}",
                    f"the next k block is loaded while one is multiplied: at least {2 * mma.extent[2]}")
    for letter, element, i, major in (("A", atom.type_a, 0, spec.layout.a_major), ("B", atom.type_b, 1, spec.layout.b_major)):
        mode = 2 if major == "K" else i
        vector = VECTOR_BYTES // element.bytes
        if tile[mode] % vector:
            yield Fault(("tile", mode), f"{tile[mode]} {element.word} of {letter} are no whole number of 16-byte vectors",
                        f"{letter} is {major} contiguous: a multiple of {vector}")


def _single_tile_smem(spec: Spec, atom: Atom, mma: TiledMma, tile: tuple[int, int, int], a: Operand, b: Operand,
                      limit: int) -> tuple[budgets.Smem, list[Fault]]:
    if spec.kernel == "ownership":
        return budgets.Smem(1, 0), []
    operands = budgets.align(a.bytes_per_stage) + budgets.align(b.bytes_per_stage)
    sums = tile[0] * tile[1] * atom.type_d.bytes if mma.atoms[2] > 1 else 0
    total = max(operands, budgets.align(sums))
    accumulators, fragments = budgets.registers(atom, mma, tile)
    faults = []
    if total > limit:
        faults.append(Fault(("tile",), f"the tile needs {total:,} B of shared memory, a CTA may have {limit:,} B",
                            "make it smaller: A and B take (M + N) x K elements"))
    loaded = fragments // 2 * (tile[2] // mma.extent[2])
    if accumulators + loaded + budgets.REGISTERS_BESIDES > budgets.REGISTERS_PER_THREAD:
        faults.append(Fault(("tile",), f"accumulators and fragments of the whole tile take {accumulators + loaded} "
                                       "registers a thread, of 255",
                            "make the tile smaller or give it more warps with atoms_layout"))
    return budgets.Smem(1, total), faults


def _problem_faults(spec: Spec, staged: Epilogue, tile: tuple[int, int, int], problems: tuple[Problem, ...]) -> Iterator[Fault]:
    for i, problem in enumerate(problems):
        if spec.kernel != "gemm" and (problem.shape != tile or problem.batch != 1 or problem.alpha != 1 or problem.beta != 0):
            yield Fault(("problems", i), f"{problem.text} is not the one tile that kernel {spec.kernel} computes",
                        f"leave problems out: it is {list(tile)}")
        if staged.scalar == TYPES["s32"] and (problem.alpha % 1 or problem.beta % 1):
            yield Fault(("problems", i), f"alpha {problem.alpha} and beta {problem.beta} are not both integers",
                        "s32 results are exact: integers, or a floating-point epilogue.out")
