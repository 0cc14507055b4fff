"""plan: every decision between a spec and its project, each legality rule a small function that explains itself."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mmagen.core.errors import Fault, SpecFaults
from mmagen.core.targets import capability
from mmagen.families import library
from mmagen.families.wgmma import decisions as hopper
from mmagen.families.wgmma import micro as hopper_micro
from mmagen.families.wgmma import rules as hopper_rules
from mmagen.mma.atoms import TYPES, Atom, find_atom, only_an_instruction
from mmagen.plan import budgets, files, tiling
from mmagen.plan.model import Config, Epilogue, Fill, Hopper, Kernel, Operand, Plan, Swizzle, TiledMma
from mmagen.plan.operands import VECTOR_BYTES, operand
from mmagen.plan.problems import default_problems
from mmagen.plan.text import reading, text
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.mma.ownership import Ownership

__all__ = ["Config", "Epilogue", "Fill", "Hopper", "Operand", "Plan", "Swizzle", "TiledMma", "plan", "problem_faults"]

OUT_TYPES = {
    "f32": ("f32", "f16", "bf16", "e4m3", "e5m2"),
    "f16": ("f16", "f32", "bf16", "e4m3", "e5m2"),
    "f64": ("f64", "f32"),
    "s32": ("s32", "s8", "u8", "f32", "f16", "bf16"),
}
LARGEST_SCALAR = {"f32": 3.4e38, "f64": math.inf, "s32": 2**31 - 1}
MOST_STAMPS = 4_194_304


def plan(spec: Spec) -> Plan:
    """All decisions for one spec. Raises SpecFaults with everything that is wrong with it."""
    if spec.kernel == "peak":
        from mmagen.families.peak.family import (
            plan as peak,  # it needs the registry of all operations, which nothing else here does
        )

        return peak(spec, spec_sha(spec))
    if spec.kernel == "micro" and only_an_instruction(spec.atom):
        from mmagen.families.instruction.family import plan as instruction

        return instruction(spec, spec_sha(spec))
    return library.plan(spec, spec_sha(spec), _one) if spec.configs else _one(spec)


def _one(spec: Spec) -> Plan:
    """All decisions for a spec of one kernel."""
    atom = find_atom(spec.atom).in_layout(spec.layout.letters)
    arch = spec.arch or (f"sm_{budgets.OLDEST_ARCH}" if atom.min_arch < budgets.OLDEST_ARCH else atom.default_arch,)
    if faults := [*_arch_faults(spec, atom), *_family_faults(spec, atom), *_type_faults(spec, atom), *_kernel_faults(spec)]:
        raise SpecFaults(tuple(faults))

    mma = tiling.tiled_mma(spec, atom)
    tile = spec.tile or mma.extent
    if atom.wgmma and spec.kernel == "micro":
        if faults := [*hopper_micro.faults(spec, atom, mma, tile)]:
            raise SpecFaults(tuple(faults))
        kernel = hopper_micro.kernel(spec, atom, mma, tile)
    elif atom.wgmma:
        kernel, faults = hopper.kernel(spec, atom, mma, tile), []
    else:
        if faults := [*_tile_faults(spec, atom, mma, tile)]:
            raise SpecFaults(tuple(faults))
        kernel, faults = _warp_kernel(spec, atom, mma, tile, arch)
    problems = spec.problems or (default_problems() if spec.kernel == "gemm" else (Problem(shape=tile),))
    faults += problem_faults(spec, kernel.epilogue, tile, problems)
    if faults:
        raise SpecFaults(tuple(faults))
    return Plan(
        spec=spec,
        spec_sha=spec_sha(spec),
        atom=atom,
        tiled_mma=mma,
        tile=tile,
        a=kernel.a,
        b=kernel.b,
        epilogue=kernel.epilogue,
        stages=kernel.stages,
        ctas_per_sm=spec.ctas_per_sm or 1,
        mainloop=kernel.mainloop,
        smem_bytes=kernel.smem_bytes,
        smem_limit=budgets.smem_limit(arch),
        accumulator_registers=kernel.accumulator_registers,
        fragment_registers=kernel.fragment_registers,
        raster_group=kernel.raster_group,
        arch=arch,
        problems=problems,
        runtime=files.runtime(spec.kernel, kernel),
        test_runtime=files.test_runtime(spec.kernel, kernel),
        ownership=_ownership(spec, atom, mma, tile),
        reading=reading(spec.kernel, kernel),
        text=text(spec, atom, tile, kernel),
        hopper=kernel.hopper,
    )


def _family_faults(spec: Spec, atom: Atom) -> list[Fault]:
    """What the atom's family forbids."""
    if atom.wgmma:
        return hopper_rules.micro_faults(spec) if spec.kernel == "micro" else hopper_rules.faults(spec)
    return [*tiling.faults(spec, atom), *hopper_rules.foreign_key_faults(spec, atom)]


def _warp_kernel(
    spec: Spec, atom: Atom, mma: TiledMma, tile: tuple[int, int, int], arch: tuple[str, ...]
) -> tuple[Kernel, list[Fault]]:
    """The decisions for operations whose operands are fragments in registers, and what does not fit."""
    a = operand("A", atom, mma, tile[0], tile[2], spec.layout.a_major)
    b = operand("B", atom, mma, tile[1], tile[2], spec.layout.b_major)
    staged = budgets.epilogue(spec, atom, mma, tile)
    accumulators, fragments = budgets.registers(atom, mma, tile)
    mainloop = None
    if spec.kernel == "gemm":
        cp_async = atom.min_arch >= 80 or all(capability(name) >= 80 for name in arch)
        mainloop = "mainloop_multistage" if cp_async else "mainloop_register_staged"
        smem, faults = budgets.gemm_smem(spec, a, b, staged, arch, cp_async)
        faults += budgets.register_faults(spec, mma, accumulators, fragments)
        faults += budgets.thread_faults(spec, mma.threads, arch)
    else:
        smem, faults = _single_tile_smem(spec, atom, mma, tile, a, b, budgets.smem_limit(arch))
    return Kernel(
        a=a,
        b=b,
        epilogue=staged,
        stages=smem.stages,
        smem_bytes=smem.bytes,
        accumulator_registers=accumulators,
        fragment_registers=fragments,
        raster_group=spec.raster or budgets.RASTER_GROUP,
        mainloop=mainloop,
    ), faults


def spec_sha(spec: Spec) -> str:
    """Identity of a spec's meaning: the same for two files that differ in comments or order of keys only."""
    return hashlib.sha256(spec.model_dump_json().encode()).hexdigest()[:16]


def _ownership(spec: Spec, atom: Atom, mma: TiledMma, tile: tuple[int, int, int]) -> tuple[Ownership, ...]:
    if spec.kernel != "ownership":
        return ()
    from mmagen.mma.ownership import ownership  # takes long to import, and no other kernel needs it

    return ownership(atom, mma.atoms_layout, mma.permutation, tile)


def _arch_faults(spec: Spec, atom: Atom) -> Iterator[Fault]:
    for i, name in enumerate(spec.arch or ()):
        if capability(name) not in budgets.SMEM_PER_BLOCK:
            yield Fault(
                ("arch", i),
                f"there is no {name}",
                f"one of {', '.join(f'sm_{known}' for known in budgets.SMEM_PER_BLOCK)}, with a or f where it has one",
            )
        elif atom.wgmma and name != atom.default_arch:
            yield Fault(("arch", i), f"{name} does not have wgmma", f"wgmma needs {atom.default_arch}, and no other has it")
        elif capability(name) < atom.min_arch:
            yield Fault(
                ("arch", i), f"{name} does not have {atom.name}", f"the atom begins with sm_{atom.min_arch}: that or later"
            )


def _type_faults(spec: Spec, atom: Atom) -> Iterator[Fault]:
    out, legal = spec.epilogue.out, OUT_TYPES[atom.type_d.word]
    if out and out not in legal:
        yield Fault(
            ("epilogue", "out"), f"{out} cannot be made from {atom.type_d.word} accumulators", f"one of {', '.join(legal)}"
        )


def _kernel_faults(spec: Spec) -> Iterator[Fault]:
    if spec.kernel == "gemm":
        return
    for key in ("stages", "ctas_per_sm", "raster"):
        if getattr(spec, key) is not None:
            yield Fault(
                (key,),
                f"kernel {spec.kernel} is one CTA with one tile and has no {key}",
                "leave it out, or make it kernel: gemm",
            )


def _tile_faults(spec: Spec, atom: Atom, mma: TiledMma, tile: tuple[int, int, int]) -> Iterator[Fault]:
    for i, extent in enumerate(tile):
        yield from _extent_faults(spec, atom, mma, i, extent)
    if spec.kernel == "ownership":
        stamps = mma.threads * max(tile[0] * tile[2], tile[1] * tile[2], tile[0] * tile[1])
        if stamps > MOST_STAMPS:
            whole = tile == mma.extent
            yield Fault(
                ("atoms_layout",) if whole else ("tile",),
                f"{mma.threads} threads x a tile of {tile} are {stamps:,} stamps, at most {MOST_STAMPS:,} are compared",
                "make atoms_layout or permutation smaller"
                if whole
                else f"the TiledMMA repeats after {mma.extent}: leave tile out",
            )


def _extent_faults(spec: Spec, atom: Atom, mma: TiledMma, i: int, extent: int) -> Iterator[Fault]:
    """Whether the CTA tile may have `extent` elements along mode i; the remedies name what every rule allows."""
    covered, mode = mma.extent[i], "MNK"[i]
    contiguous = [
        (letter, element)
        for letter, element, major in (("A", atom.type_a, spec.layout.a_major), ("B", atom.type_b, spec.layout.b_major))
        if major == mode and spec.kernel == "gemm"
    ]
    vectors = [VECTOR_BYTES // element.bytes for _, element in contiguous]
    unit, least = math.lcm(covered, *vectors), 2 * covered if spec.kernel == "gemm" and i == 2 else covered
    if extent > tiling.LARGEST_EXTENT:
        yield Fault(
            ("tile", i),
            f"{extent} along {mode} is more than any CTA can hold",
            f"at most {tiling.LARGEST_EXTENT // unit * unit}",
        )
    elif extent % covered:
        yield Fault(
            ("tile", i),
            f"{extent} is no multiple of the {covered} that the TiledMMA covers along {mode}",
            f"atom x atoms_layout x permutation covers {mma.extent}: the nearest legal is {_nearest(extent, unit, least)}",
        )
    elif extent < least:
        yield Fault(
            ("tile", i),
            f"{extent} is a single k block of {covered}",
            f"the next k block is loaded while one is multiplied: at least {_nearest(extent, unit, least)}",
        )
    else:
        for (letter, element), vector in zip(contiguous, vectors, strict=True):
            if extent % vector:
                yield Fault(
                    ("tile", i),
                    f"{extent} {element.word} of {letter} are no whole number of 16-byte vectors",
                    f"{letter} is {mode} contiguous, and the TiledMMA covers {covered}: the nearest legal is "
                    f"{_nearest(extent, unit, least)}",
                )


def _nearest(extent: int, unit: int, least: int) -> str:
    """The multiples of `unit` on both sides of `extent` that are not below `least`."""
    around = {max(n, -(-least // unit)) * unit for n in (extent // unit, extent // unit + 1)}
    return " or ".join(map(str, sorted(around)))


def _single_tile_smem(
    spec: Spec, atom: Atom, mma: TiledMma, tile: tuple[int, int, int], a: Operand, b: Operand, limit: int
) -> tuple[budgets.Smem, list[Fault]]:
    if spec.kernel == "ownership":
        return budgets.Smem(1, 0), []
    operands = budgets.align(a.bytes_per_stage) + budgets.align(b.bytes_per_stage)
    sums = tile[0] * tile[1] * atom.type_d.bytes if mma.atoms[2] > 1 else 0
    total = max(operands, budgets.align(sums))
    accumulators, fragments = budgets.registers(atom, mma, tile)
    faults = []
    if total > limit:
        faults.append(
            Fault(
                ("tile",),
                f"the tile needs {total:,} B of shared memory, a CTA may have {limit:,} B",
                "make it smaller: A and B take (M + N) x K elements",
            )
        )
    loaded = fragments // 2 * (tile[2] // mma.extent[2])
    if accumulators + loaded + budgets.REGISTERS_BESIDES > budgets.REGISTERS_PER_THREAD:
        faults.append(
            Fault(
                ("tile",),
                f"accumulators and fragments of the whole tile take {accumulators + loaded} registers a thread, of 255",
                "make the tile smaller or give it more warps with atoms_layout",
            )
        )
    return budgets.Smem(1, total), faults


def problem_faults(spec: Spec, staged: Epilogue, tile: tuple[int, int, int], problems: tuple[Problem, ...]) -> Iterator[Fault]:
    for i, problem in enumerate(problems):
        if spec.kernel != "gemm" and (problem.shape != tile or problem.batch != 1 or problem.alpha != 1 or problem.beta != 0):
            yield Fault(
                ("problems", i),
                f"{problem.text} is not the one tile that kernel {spec.kernel} computes",
                f"leave problems out: it is {list(tile)}",
            )
        if staged.scalar == TYPES["s32"] and (problem.alpha % 1 or problem.beta % 1):
            yield Fault(
                ("problems", i),
                f"alpha {problem.alpha} and beta {problem.beta} are not both integers",
                "s32 results are exact: integers, or a floating-point epilogue.out",
            )
        most = LARGEST_SCALAR[staged.scalar.word]
        if max(abs(problem.alpha), abs(problem.beta)) > most:
            yield Fault(
                ("problems", i),
                f"alpha {problem.alpha} or beta {problem.beta} is too large for {staged.scalar.word}",
                f"at most {most:g} either way",
            )
