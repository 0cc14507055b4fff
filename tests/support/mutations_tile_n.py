"""Planted faults of kernels whose launches compute a part of the columns of a tile.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, and what goes wrong.
"""

from __future__ import annotations

_SPEC = "tile_n"

# Of the host's code: the whole project is compiled for them.
HOST_FAULTS = (
    (
        "as_many_stages_as_the_narrowest",
        _SPEC,
        "sm90_stages",
        "return fit < Config::kStages ? fit : Config::kStages;",
        "return Config::kStages;",
        "the last stages lie behind the ring, in the slices of the epilogue",
    ),
    (
        "grid_of_whole_tiles",
        _SPEC,
        "sm90_cluster",
        "cluster.tile_n * cluster.n, Config::kTileK, group",
        "Config::kTileN * cluster.n, Config::kTileK, group",
        "there are fewer tiles than the columns need",
    ),
    (
        "stages_beside_one_buffer",
        _SPEC,
        "sm90_stages",
        "LaunchedStages{tile_n, beside_two, 2}",
        "LaunchedStages{tile_n, most, 2}",
        "the last stage of B lies in the buffers of the epilogue",
    ),
    (
        "tiles_of_d_as_wide_as_those_of_the_kernel",
        _SPEC,
        "sm90_maps_of_d",
        "Config::kDRowMajor ? of_tile : of_tile * d.ld}",
        "Config::kDRowMajor ? Config::kTileN / kPair : Config::kTileN / kPair * d.ld}",
        "the second tile of D is stored where the second whole tile would begin",
    ),
    (
        "shares_of_whole_tiles",
        _SPEC,
        "sm90_tma_load",
        "(Config::kTileNAtLaunch ? cluster.tile_n : kLines<B>) / cluster.m",
        "kLines<B> / cluster.m",
        "the boxes of the CTAs leave rows of a stage of B between them",
    ),
)
FAULTS = (
    (
        "next_stage_of_whole_tiles",
        _SPEC,
        "sm90_mainloop_tile_n",
        "Sm90Stages<Config>::elements_b(kColumns) *",
        "Sm90Stages<Config>::elements_b(Config::kTileN) *",
        "wgmma reads columns of B from where a stage of a whole tile would begin",
    ),
    (
        "first_stage_behind_those_of_the_narrowest",
        _SPEC,
        "sm90_stages",
        "ring + params.stages * kBytesA)",
        "ring + Config::kStages * kBytesA)",
        "the last stages of B lie behind the ring, in the slices of the epilogue",
    ),
    (
        "first_column_of_whole_tiles",
        _SPEC,
        "sm90_tma_load",
        "                        tile.first_n(launched_tile_n<Config>(params)));",
        "                        tile.first_n(B::kTileMn));",
        "the second tile has columns of B that lie too far behind",
    ),
    (
        "stores_to_the_next_tile",
        _SPEC,
        "sm90_epilogue_tma",
        "bounds.n = min(bounds.n, begin_n + tile_n);",
        "bounds.n = min(bounds.n, begin_n + Config::kTileN);",
        "columns that were not computed are stored over those of the next tile",
    ),
    (
        "slices_that_end_inside_stored_whole",
        _SPEC,
        "sm90_maps_of_d",
        "if (ends_inside(tile_n, n - begin)) {",
        "if (false) {",
        "a slice that ends beyond the columns of its tile is stored over those of the next one",
    ),
    (
        "last_tile_of_a_row_clipped_as_others",
        _SPEC,
        "sm90_maps_of_d",
        "ends_inside(tile_n, n - begin)",
        "ends_inside(tile_n, n)",
        "the last tile of a row is none of the tiles of the map, and is not stored if it is narrower than others",
    ),
    (
        "all_tiles_stored_to_the_first",
        _SPEC,
        "sm90_maps_of_d",
        "tile.n, tile.batch_d());",
        "0, tile.batch_d());",
        "every tile is stored to the columns of the first one",
    ),
    (
        "one_buffer_used_as_two",
        _SPEC,
        "sm90_epilogue_tma",
        "if (count == 1) {",
        "if (count == 0) {",
        "a slice is written over the one before, which TMA may still be reading",
    ),
    (
        "two_buffers_in_the_place_of_one",
        _SPEC,
        "sm90_epilogue_tma",
        "buffers(storage.d - (count - kBuffers) * Config::kEpilogueBytes",
        "buffers(storage.d",
        "the second buffers lie behind the epilogue's shared memory, in the barriers",
    ),
    (
        "another_width",
        _SPEC,
        "sm90_mainloop_tile_n",
        "tile_n == Sm90NarrowStageMma<Config, Op, StageMma>::kColumns",
        "tile_n + 8 >= Sm90NarrowStageMma<Config, Op, StageMma>::kColumns && tile_n != Config::kTileN",
        "another wgmma is taken than that of the launch",
    ),
    (
        "partial_sums_of_the_next_tile",
        _SPEC,
        "sm90_tile_scheduler_split_k_workspace",
        "min(params.n, (tile.n + 1) * tile_n) : params.n;",
        "min(params.n, tile.n * tile_n + Config::kTileN) : params.n;",
        "sums of columns that were not computed are written over those of the next tile",
    ),
    (
        "accumulators_not_moved",
        _SPEC,
        "sm90_mainloop_tile_n",
        "i < size(to); ++i",
        "i < size(to) - 4; ++i",
        "the last accumulators of a thread stay zero",
    ),
)
