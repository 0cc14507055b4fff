"""A launch against what the directives of its entry allow."""

from __future__ import annotations

from mmagen.emulate.errors import EmulationError
from mmagen.emulate.ptx.model import Entry

_Extents = tuple[int, int, int]


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
_LARGEST_CTA = (1024, 1024, 64)
_LARGEST_GRID = (2**31 - 1, 65535, 65535)


def launched_cluster(entry: Entry, grid: _Extents, block: _Extents, cluster: _Extents) -> _Extents:
    """The extents of a launch's clusters. grid, block, cluster: extents in x, y, z; a cluster of one CTA stands for a launch
    that names none.

    Raises EmulationError where a GPU refuses the launch: a CTA or a grid that no GPU has, another CTA than .reqntid says, more
    threads than .maxntid, another cluster than .reqnctapercluster, a larger one than .maxclusterrank, or none with
    .explicitcluster.
    """
    limits, threads = entry.limits, _product(block)

    def refuse(what: str) -> EmulationError:
        return EmulationError(f"{entry.name} (line {entry.line}) cannot be launched with {what}")

    if any(extent > most for extent, most in zip(block, _LARGEST_CTA, strict=True)):
        raise refuse(f"CTAs of {_text(block)} threads: {_text(_LARGEST_CTA)} are the largest extents")
    if any(extent > most for extent, most in zip(grid, _LARGEST_GRID, strict=True)):
        raise refuse(f"a grid of {_text(grid)} CTAs: {_text(_LARGEST_GRID)} are the largest extents")
    if limits.threads and block != limits.threads:
        raise refuse(f"CTAs of {_text(block)} threads: it is compiled for {_text(limits.threads)} (.reqntid)")
    if limits.max_threads and threads > limits.max_threads:
        raise refuse(f"CTAs of {threads} threads: it is compiled for at most {limits.max_threads} (.maxntid)")
    named = _product(cluster) > 1
    if limits.cluster and named and cluster != limits.cluster:
        raise refuse(f"clusters of {_text(cluster)} CTAs: it is compiled for {_text(limits.cluster)} (.reqnctapercluster)")
    if limits.cluster:
        cluster = (limits.cluster[0], limits.cluster[1], limits.cluster[2])
    elif limits.explicit_cluster and not named:
        raise refuse("no cluster: it requires one (.explicitcluster)")
    if limits.max_cluster and _product(cluster) > limits.max_cluster:
        raise refuse(f"clusters of {_product(cluster)} CTAs: it is compiled for at most {limits.max_cluster} (.maxclusterrank)")
    return cluster


def _product(extents: tuple[int, ...]) -> int:
    return extents[0] * extents[1] * extents[2]


def _text(extents: tuple[int, ...]) -> str:
    return " x ".join(map(str, extents))
