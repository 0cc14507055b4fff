"""Rules shared by several kernel families: architectures, types, keys that do not apply, problems."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from mmagen.core.errors import ABSENT, Change, Fault
from mmagen.core.targets import capability, exists, those_that_exist
from mmagen.mma.atoms import TYPES, Atom, ElementType, find_atom
from mmagen.mma.packed_atoms import find_packed
from mmagen.mma.sparse_atoms import find_sparse
from mmagen.plan import budgets, countable, tiling
from mmagen.spec.model import WGMMA_KEYS, Problem, Spec

OUT_TYPES = {
    "f32": ("f32", "f16", "bf16", "e4m3", "e5m2"),
    "f16": ("f16", "f32", "bf16", "e4m3", "e5m2"),
    "f64": ("f64", "f32"),
    "c64": ("c64",),
    "s32": ("s32", "s8", "u8", "f32", "f16", "bf16"),
}
# f32: times 2^24, the largest sum of a check with small integers, it is finite, and so is beta * C. Beyond that alpha * x and
# beta * C may be infinities of opposite signs, although D is finite.
LARGEST_SCALAR = {"f32": 1e31, "f64": math.inf, "s32": 2**31 - 1}
# Keys that apply only to kernels with several tiles.
_GEMM_KEYS = ("stages", "ctas_per_sm", "raster")


def atom_for(spec: Spec) -> Atom:
    """The spec's atom, for operands of its layout. spec.atom must name an atom."""
    atom = find_atom(spec.atom) or find_sparse(spec.atom) or find_packed(spec.atom)
    assert atom, spec.atom
    return atom.in_layout(spec.layout.letters)


def arch_faults(spec: Spec, atom: Atom) -> Iterator[Fault]:
    """Faults for unknown architectures, and for those without the atom."""
    change = legal_archs(
        spec, lambda name: name == atom.default_arch if atom.arch_specific else capability(name) >= atom.min_arch
    )
    for i, name in enumerate(spec.arch or ()):
        if not exists(name):
            yield _no_such_arch(i, name, change)
        elif atom.arch_specific and name != atom.default_arch:
            yield Fault(
                ("arch", i), f"{name} does not have {atom.kind}", f"{atom.kind} requires exactly {atom.default_arch}", change
            )
        elif capability(name) < atom.min_arch:
            yield Fault(
                ("arch", i),
                f"{name} does not have {atom.name}",
                f"the atom requires sm_{atom.min_arch} or later",
                change,
            )


def legal_archs(spec: Spec, legal: Callable[[str], bool]) -> Change:
    """The architectures of the spec that exist, if need be without their suffix, and are legal; none where there is none."""
    names = dict.fromkeys(name if exists(name) else name.rstrip("af") for name in spec.arch or ())
    return {("arch",): [name for name in names if exists(name) and legal(name)] or ABSENT}


def _no_such_arch(i: int, name: str, change: Change) -> Fault:
    return Fault(("arch", i), f"there is no {name}", those_that_exist(), change)


def compiled_for(spec: Spec, atom: Atom) -> tuple[str, ...]:
    """The spec's architectures, else the oldest with the atom that nvcc still supports."""
    return spec.arch or (f"sm_{budgets.OLDEST_ARCH}" if atom.min_arch < budgets.OLDEST_ARCH else atom.default_arch,)


def out_type(spec: Spec, atom: Atom) -> ElementType:
    """The type of C and D: the spec's, else that of the accumulators."""
    return TYPES[spec.epilogue.out] if spec.epilogue.out else atom.type_d


def type_faults(spec: Spec, atom: Atom) -> Iterator[Fault]:
    """Fault for a type of D to which accumulators cannot be converted."""
    out, legal = spec.epilogue.out, OUT_TYPES[atom.type_d.word]
    if out and out not in legal:
        yield Fault(
            ("epilogue", "out"),
            f"{out} cannot be converted from {atom.type_d.word} accumulators",
            f"one of {', '.join(legal)}",
            {("epilogue", "out"): legal[0]},
        )


def one_tile_faults(spec: Spec) -> Iterator[Fault]:
    """Faults for keys that do not apply to a kernel of one CTA with one tile."""
    for key in _GEMM_KEYS:
        if getattr(spec, key) is not None:
            yield _one_tile(spec, key)
    if spec.epilogue.operations is not None:
        yield Fault(
            ("epilogue",),
            f"kernel {spec.kernel} has no list of operations",
            "a mapping such as {out: f16}, or kernel: gemm",
            {("epilogue",): {"major": spec.epilogue.major} | ({"out": spec.epilogue.out} if spec.epilogue.out else {})},
        )
    if spec.configs:
        yield Fault(
            ("configs",),
            f"kernel {spec.kernel} has a fixed shape and cannot choose between configs",
            "omit it, or use kernel: gemm",
            {("configs",): ABSENT},
        )


def one_tile_wgmma_faults(spec: Spec) -> Iterator[Fault]:
    """The same for wgmma's keys."""
    for key in WGMMA_KEYS:
        if getattr(spec, key) is not None:
            yield _one_tile(spec, key)


def _one_tile(spec: Spec, key: str) -> Fault:
    return Fault(
        (key,),
        f"kernel {spec.kernel} is one CTA with one tile and has no {key}",
        "omit it, or use kernel: gemm",
        {(key,): ABSENT},
    )


def wgmma_key_faults(spec: Spec, atom: Atom) -> Iterator[Fault]:
    """Faults for keys that require a wgmma atom."""
    for key in WGMMA_KEYS:
        if getattr(spec, key) is not None:
            yield Fault(
                (key,),
                f"{key} requires a wgmma atom; {atom.name} reads its operands from registers",
                "omit it, or use an SM90 wgmma atom, e.g. SM90_64x128x16_F32F16F16_SS",
                {(key,): ABSENT},
            )


def scalar_faults(scalar: ElementType, problems: Iterable[Problem]) -> Iterator[Fault]:
    """Faults for alpha and beta that their type cannot represent."""
    for i, problem in enumerate(problems):
        if scalar == TYPES["s32"] and (problem.alpha % 1 or problem.beta % 1):
            yield Fault(
                ("problems", i),
                f"alpha {problem.alpha} and beta {problem.beta} are not both integers",
                "s32 results are exact: use integers, or a floating-point epilogue.out",
                _scalars(i, problem, lambda value: float(round(value))),
            )
        most = LARGEST_SCALAR[scalar.word]
        if max(abs(problem.alpha), abs(problem.beta)) > most:
            yield Fault(
                ("problems", i),
                f"alpha {problem.alpha} or beta {problem.beta} is too large for {scalar.word}"
                + (", since a term of D may exceed it" if scalar == TYPES["f32"] else ""),
                f"the largest magnitude is {most:g}",
                _scalars(i, problem, partial(_bounded, most)),
            )


def problem_faults(spec: Spec, scalar: ElementType, problems: Iterable[Problem]) -> Iterator[Fault]:
    """Faults of the problems of a gemm: their extents, alpha and beta, and their groups."""
    problems = tuple(problems)
    yield from countable.extent_faults(spec, problems)
    yield from scalar_faults(scalar, problems)
    for i, problem in enumerate(problems):
        if problem.groups and not spec.grouped:
            yield Fault(
                ("problems", i),
                "the kernel computes no groups",
                "omit groups, or use grouped: contiguous, masked or pointers",
                {("problems", i): problem.model_dump(mode="json", exclude={"groups"})},
            )


def _bounded(most: float, value: float) -> float:
    return max(-most, min(most, value))


def _scalars(i: int, problem: Problem, legal: Callable[[float], float]) -> Change:
    """The problem with alpha and beta replaced."""
    values = {"alpha": legal(problem.alpha), "beta": legal(problem.beta)}
    return {("problems", i): problem.model_dump(mode="json") | values}


def one_tile_problem_faults(spec: Spec, tile: tuple[int, int, int], problems: Iterable[Problem]) -> Iterator[Fault]:
    """Faults for problems other than the one tile that the kernel computes."""
    for i, problem in enumerate(problems):
        if problem.shape != tile or problem.batch != 1 or problem.alpha != 1 or problem.beta != 0:
            yield Fault(
                ("problems", i),
                f"{problem.text} is not the one tile that kernel {spec.kernel} computes",
                f"omit problems, or use {list(tile)}",
                {("problems",): ABSENT},
            )


def faults_without_atom(spec: Spec) -> Iterator[Fault]:
    """Faults that can be found in a spec whose atom is invalid."""
    for i, name in enumerate(spec.arch or ()):
        if not exists(name):
            yield _no_such_arch(i, name, legal_archs(spec, lambda name: True))
    yield from tiling.numbering_faults(spec)
    for i, extent in enumerate(spec.tile or ()):
        if extent > tiling.LARGEST_EXTENT:
            yield Fault(
                ("tile", i),
                f"{extent} along {tiling.MODES[i]} exceeds what any CTA can hold",
                f"at most {tiling.LARGEST_EXTENT}",
                {("tile", i): tiling.LARGEST_EXTENT},
            )
