"""The C++ policies of a wgmma GEMM: kernel by schedule, mainloop by operand A and promotion, tile scheduler, epilogue."""

from __future__ import annotations

from dataclasses import replace

from mmagen.families.wgmma.model import TILE_N, WgmmaMainloop
from mmagen.plan.model import TileScheduler
from mmagen.plan.policies import SINGLE_TILE, Policies, Policy

_KERNELS = {
    "warpgroup": Policy(
        "mmagen::Sm90Warpgroup<Config>",
        "sm90_warpgroup",
        "the kernel: all warpgroups compute one tile, one of their threads also loads",
    ),
    "cooperative": Policy(
        "mmagen::Sm90Cooperative<Config>",
        "sm90_cooperative",
        "the kernel: a producer warp loads, the consumer warpgroups share a tile of D",
    ),
    "pingpong": Policy(
        "mmagen::Sm90Pingpong<Config>",
        "sm90_pingpong",
        "the kernel: a producer warp loads, the consumer warpgroups take turns, a tile of D each",
    ),
}
_SS = Policy("mmagen::Sm90MainloopSs<Config>", "sm90_mainloop_ss", "wgmma on stages of shared memory that TMA loads")
_RS = Policy("mmagen::Sm90MainloopRs<Config>", "sm90_mainloop_rs", "wgmma with A in registers, on stages that TMA loads")
_SPARSE = Policy(
    "mmagen::Sm90MainloopSparse<Config>",
    "sm90_mainloop_sparse",
    "sparse wgmma: TMA loads A's values, its metadata and B to stages of shared memory",
)
_MIXED = Policy(
    "mmagen::Sm90MainloopMixed<Config>",
    "sm90_mainloop_mixed",
    "converts narrow weights to fragments of A in registers; each chunk's sum is scaled and added in f32 registers",
)
_PIECES = Policy(
    "mmagen::Sm90MainloopPieces<Config>",
    "sm90_mainloop_pieces",
    "wgmma on pairs of bf16 pieces of f32 operands, the smallest products first",
)
_MAINLOOPS = {"shared memory": _SS, "registers": _RS, "compressed": _SPARSE}


# Mainloops that derive from another one.
_PROMOTED = Policy(
    "mmagen::Sm90MainloopPromoted<Config, {base}>",
    "sm90_mainloop_promoted",
    "adds each k tile's sum to accumulators in f32 registers",
)
_SCALED = Policy(
    "mmagen::Sm90MainloopScaled<Config, {base}>",
    "sm90_mainloop_scaled",
    "multiplies each k tile's sum by its scales and adds it to accumulators in f32 registers",
)
_TILE_SCALED = Policy(
    "mmagen::Sm90MainloopTileScaled<Config, {base}>",
    "sm90_mainloop_tile_scaled",
    "multiplies the sums of a finished tile by their scales",
)


def policies(schedule: str, reads_a: str, mainloop: WgmmaMainloop, scheduler: TileScheduler, made_by: Policy) -> Policies:
    """Those of one kernel. reads_a: an atom's. Of the mainloop what is known before its policy counts. made_by: the functor that
    makes elements of D."""
    dense = TILE_N if scheduler.several_widths else _MAINLOOPS[reads_a]
    layers = [_MIXED if mainloop.weights else _PIECES if mainloop.pieces else dense]
    if mainloop.scales_k:
        layers.append(_SCALED)
    elif mainloop.promote:
        layers.append(_PROMOTED)
    if mainloop.scales_tile:
        layers.append(_TILE_SCALED)
    cxx = layers[0].cxx
    for layer in layers[1:]:
        cxx = layer.cxx.format(base=cxx)
    *bases, last = layers
    epilogue = Policy(
        f"mmagen::Sm90EpilogueTma<Config, {made_by.cxx}>",
        "sm90_epilogue_tma",
        "accumulators -> functor -> shared memory -> TMA -> D",
    )
    return Policies(_KERNELS[schedule], replace(last, cxx=cxx), _scheduler(scheduler), epilogue, tuple(bases), made_by)


_SIZES = {"contiguous": "kStacked", "masked": "kMasked"}  # mmagen::GroupSizes


def _scheduler(scheduler: TileScheduler) -> Policy:
    if scheduler.describes_groups:
        return Policy(
            "mmagen::PointerTileScheduler<Config>",
            "sm90_tile_scheduler_pointers",
            "persistent; finds the tiles of groups of separate matrices",
        )
    if scheduler.grouped:
        return Policy(
            f"mmagen::GroupedTileScheduler<Config, mmagen::GroupSizes::{_SIZES[scheduler.grouped]}>",
            "sm90_tile_scheduler_grouped",
            "persistent; finds the tiles of groups whose sizes are in device memory",
        )
    if scheduler.shares_last_wave:
        always = "true" if scheduler.stream_k == "always" else "false"
        return Policy(
            f"mmagen::StreamKTileScheduler<Config, {always}>",
            "sm90_tile_scheduler_stream_k",
            "persistent; clusters share the output tiles of the last wave",
        )
    if scheduler.split_k > 1:
        return Policy(
            f"mmagen::SplitKTileScheduler<Config, {scheduler.split_k}>",
            "sm90_tile_scheduler_split_k",
            "CTAs of a cluster share the K of an output tile",
        )
    if scheduler.workspace_splits is not None:
        return Policy(
            f"mmagen::SplitKWorkspaceTileScheduler<Config, {scheduler.workspace_splits}>",
            "sm90_tile_scheduler_split_k_workspace",
            "persistent; a work tile is a part of the K of an output tile, and a second kernel adds up the partial sums",
        )
    if scheduler.persistent:
        return Policy(
            "mmagen::PersistentTileScheduler<Config>",
            "sm90_tile_scheduler_persistent",
            "each cluster computes several output tiles",
        )
    return SINGLE_TILE
