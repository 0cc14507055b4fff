"""Sentences about a plan that its project carries."""

from __future__ import annotations

from dataclasses import replace

from mmagen.mma.atoms import Atom, ElementType
from mmagen.plan.model import Kernel, Text
from mmagen.spec.model import Spec

_ROLES = {
    "gemm": ("gemm_kernel", "the kernel: one CTA, one tile of D"),
    "mainloop_multistage": ("mainloop_multistage", "fill, load and multiply over K, kStages tiles in flight"),
    "mainloop_register_staged": ("mainloop_register_staged", "fill, load and multiply over K, before cp.async"),
    "epilogue": ("epilogue_staged", "store: D = alpha * acc + beta * C through shared memory"),
    "micro": ("micro_kernel", "the kernel: fill, load, multiply, store"),
    "sm90_micro": ("sm90_micro_kernel", "the kernel: fill, load, multiply, store"),
    "sm90_warpgroup": ("sm90_warpgroup", "the kernel: every warpgroup multiplies, one thread of them also loads"),
    "sm90_cooperative": ("sm90_cooperative", "the kernel: a producer warp loads, the math warpgroups share a tile of D"),
    "sm90_pingpong": ("sm90_pingpong", "the kernel: a producer warp loads, the math warpgroups take turns, a tile of D each"),
    "sm90_producer": ("sm90_producer", "fill: TMA, global memory to kStages tiles of shared memory"),
    "sm90_multiply": ("sm90_multiply", "multiply: wgmma over K"),
    "sm90_split_k": ("sm90_split_k", "CTAs that share the K of a tile add up, always in the same order"),
    "sm90_stream_k": ("sm90_stream_k", "CTAs that share a tile of the last wave add up, always in the same order"),
    "sm90_epilogue": ("sm90_epilogue", "store: D = alpha * acc + beta * C, through shared memory by TMA"),
    "sm90_unaligned": ("sm90_unaligned", "the way without TMA, for rows that do not begin at 16 bytes"),
    "ownership": ("ownership_kernel", "the kernel: every thread stamps what it owns"),
}


def reading(kind: str, kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """The headers worth reading, in order, each with what it does."""
    names = ["sm90_micro" if kind == "micro" and kernel.a.tma else kind] + (
        [kernel.mainloop, "epilogue"] if kernel.mainloop else []
    )
    if kernel.hopper:
        split = ["sm90_split_k"] if kernel.hopper.split_k > 1 else ["sm90_stream_k"] if kernel.hopper.stream_k else []
        names = [f"sm90_{kernel.hopper.schedule}", "sm90_producer", "sm90_multiply", *split, "sm90_epilogue", "sm90_unaligned"]
    return tuple((f"include/mmagen/{_ROLES[name][0]}.cuh", _ROLES[name][1]) for name in names)


_WARPGROUPS = {
    "warpgroup": "for one tile; one of their threads also loads",
    "cooperative": "for one tile, and 1 that loads",
    "pingpong": "that take turns, a tile each, and 1 that loads",
}


def text(spec: Spec, atom: Atom, tile: tuple[int, int, int], kernel: Kernel) -> Text:
    """The sentences for one kernel."""
    staged = kernel.epilogue
    size = "x".join(map(str, tile))
    what = _what(spec, atom, staged.out)
    tf32 = "tf32" in (atom.type_a.word, atom.type_b.word)
    storage = "\n * tf32 is stored as float; the tensor core ignores the low 13 bits of the mantissa." if tf32 else ""
    if spec.kernel == "ownership":
        return Text(f"who owns what in a TiledMMA of {atom.name}, tile {size}", "", "", "", "")
    if spec.kernel == "micro":
        return Text(
            f"one {size} tile, {what}",
            f"D = A * B for M, N, K = {', '.join(map(str, tile))}, batch = 1, alpha = 1, beta = 0.",
            storage,
            f"fixed shape: this kernel computes m, n, k = {', '.join(map(str, tile))} with batch 1, alpha 1, beta 0",
            "this kernel computes one tile and nothing else",
        )
    return Text(
        f"GEMM, {what}, CTA tile {size}",
        "D = alpha * A * B + beta * C for each matrix of the batch; any m, n, k, any alignment.",
        storage,
        "fixed shape: not a status of this kernel",
        "never from this kernel",
        _WARPGROUPS[kernel.hopper.schedule] if kernel.hopper else "",
        "shared-memory" if kernel.hopper else "register",
    )


def library_text(of_one: Text, spec: Spec, atom: Atom, out: ElementType, configs: int) -> Text:
    """The sentences for a library of several kernels, from those of one."""
    return replace(of_one, title=f"GEMM, {_what(spec, atom, out)}, {configs} kernels to choose from")


def _what(spec: Spec, atom: Atom, out: ElementType) -> str:
    """Types and layout."""
    layout = spec.layout
    return (
        f"{atom.type_a.word} x {atom.type_b.word} + {atom.type_d.word} -> {out.word}, "
        f"{layout.letters}: A {layout.a_major} contiguous, B {layout.b_major} contiguous"
    )
