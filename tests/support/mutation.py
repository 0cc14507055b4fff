"""One planted fault: edits of the files of a generated project, the problems that are run, and how the fault shows."""

from __future__ import annotations

from dataclasses import dataclass

GPU, EMULATOR = "gpu", "emulator"


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs `count` times in `file` of the project; "{name}" in it is the project's name."""

    file: str
    old: str
    new: str
    count: int = 1


@dataclass(frozen=True)
class Mutation:
    """problems: as verify takes them after --problem, none for a kernel of fixed shape. seen: how the fault shows.
    where: who is asked, the GPU or the emulator."""

    name: str
    spec: str
    edits: tuple[Edit, ...]
    problems: tuple[str, ...]
    seen: str
    where: tuple[str, ...] = (GPU, EMULATOR)


def one(
    name: str,
    spec: str,
    header: str,
    old: str,
    new: str,
    problem: str,
    seen: str,
    count: int = 1,
    where: tuple[str, ...] = (GPU, EMULATOR),
) -> Mutation:
    """One edit of a header, `config` or one of mmagen's, seen on one problem ("" for a kernel of fixed shape)."""
    file = "include/{name}/config.cuh" if header == "config" else f"include/mmagen/{header}.cuh"
    return Mutation(name, spec, (Edit(file, old, new, count),), (problem,) if problem else (), seen, where)


def hopper(name: str, spec: str, header: str, old: str, new: str, problem: str, seen: str, where: str = GPU) -> Mutation:
    """The same of a wgmma kernel: sm90_gemm_<spec>."""
    return one(f"hopper_{name}", f"sm90_gemm_{spec}", header, old, new, problem, seen, where=(where,))
