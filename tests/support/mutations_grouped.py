"""Planted faults of grouped kernels: the problems that verify chooses for them must catch them.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, and what goes wrong.
"""

from __future__ import annotations

_SCHEDULER = "sm90_tile_scheduler_grouped"
_CONTIGUOUS, _MASKED = "groups", "groups_masked"
_BLOCKS, _ROWS, _SWAPPED = "groups_blocks", "groups_rows", "groups_swapped"

FAULTS = (
    (
        "grouped_offset_of_the_next_group",
        _CONTIGUOUS,
        _SCHEDULER,
        "next_size = load_size(params, 0);",
        "next_size = load_size(params, 1);",
        "every group has the rows of the next one",
    ),
    (
        "grouped_first_row_is_0",
        _CONTIGUOUS,
        _SCHEDULER,
        "previous = kStacked && params.first != nullptr ? *params.first : 0;",
        "previous = 0;",
        "the first group begins at row 0, wherever its offset says",
    ),
    (
        "grouped_b_of_the_neighbour",
        _CONTIGUOUS,
        "sm90_tma_load",
        "b(tile.first_n(B::kTileMn), k_tile, tile.batch_ab() * params.batch_step_b)",
        "b(tile.first_n(B::kTileMn), k_tile, (tile.batch_ab() + 1) * params.batch_step_b)",
        "every group multiplies the B of the next one",
    ),
    (
        "grouped_tma_stores_past_the_end",
        _CONTIGUOUS,
        "sm90_epilogue_tma",
        "bool const whole = Tile::kAlongN ? n + kSliceD <= bounds.n : m + kRows <= bounds.m;",
        "bool const whole = true;",
        "the last slice of a group overwrites rows of the next one",
    ),
    (
        "grouped_vectors_past_the_end",
        _CONTIGUOUS,
        "sm90_staged_slice",
        """      if (first.m + row >= end.m || first.n + column >= end.n) { continue; }
      *reinterpret_cast""",
        """      if (first.n + column >= end.n) { continue; }
      *reinterpret_cast""",
        "threads store the rows behind the group too",
    ),
    (
        "grouped_empty_group_has_the_tile",
        _CONTIGUOUS,
        _SCHEDULER,
        "__ballot_sync(detail::kAllLanes, tile < tiles_to_end)",
        "__ballot_sync(detail::kAllLanes, tile <= tiles_to_end)",
        "the first tile of a group goes to the one before, also to one without rows",
    ),
    (
        "grouped_prefix_sum_without_the_group",
        _CONTIGUOUS,
        _SCHEDULER,
        "tiles_to_end = detail::prefix_sum(tiles_sized * params.tiles_other, lane);",
        "tiles_to_end = detail::prefix_sum(tiles_sized * params.tiles_other, lane) - tiles_sized * params.tiles_other;",
        "tiles of a group go to the next one, those of the last one to none",
    ),
    (
        "grouped_prefix_sum_of_half_a_warp",
        _MASKED,
        "warp_scan",
        """CUTE_DEVICE unsigned prefix_sum(unsigned value, int lane) {
  CUTE_UNROLL
  for (int step = 1; step < 32; step *= 2) {""",
        """CUTE_DEVICE unsigned prefix_sum(unsigned value, int lane) {
  CUTE_UNROLL
  for (int step = 1; step < 16; step *= 2) {""",
        "groups from the 17th of a window on count the tiles of 16 groups alone",
    ),
    (
        "grouped_index_from_the_window",
        _CONTIGUOUS,
        _SCHEDULER,
        "index = tile - (holder > 0 ? before : 0);",
        "index = tile;",
        "tiles of a group are counted from the first group on",
    ),
    (
        "grouped_window_keeps_the_tile",
        _MASKED,
        _SCHEDULER,
        "      tile -= __shfl_sync(detail::kAllLanes, tiles_to_end, 31);\n",
        "",
        "tiles of the second window are skipped",
    ),
    (
        "grouped_sizes_of_the_next_window",
        _MASKED,
        _SCHEDULER,
        "next_size = load_size(params, first_group + 32);",
        "next_size = load_size(params, first_group + 31);",
        "groups of the second window have the rows of the one before",
    ),
    (
        "grouped_begin_of_a_window",
        _CONTIGUOUS,
        _SCHEDULER,
        "previous = __shfl_sync(detail::kAllLanes, size, 31);",
        "previous = __shfl_sync(detail::kAllLanes, size, 0);",
        "the first group of a window begins where that of the window before ends",
    ),
    (
        "grouped_rows_from_the_first",
        _CONTIGUOUS,
        "sm90_group_tile",
        "return m * tile_m + (kAlongN ? 0 : begin);",
        "return m * tile_m;",
        "all groups multiply and store the rows of the first",
    ),
    (
        "grouped_d_of_each_group",
        _CONTIGUOUS,
        "sm90_group_tile",
        "return kStacked ? 0 : batch;",
        "return batch;",
        "TMA drops what is stored to the second matrix of a D that is one",
    ),
    (
        "grouped_one_d_for_all",
        _MASKED,
        "sm90_group_tile",
        "return kStacked ? 0 : batch;",
        "return 0;",
        "all groups write the D of the first",
    ),
    (
        "grouped_sizes_before_the_wait",
        _MASKED,
        "sm90_pingpong",
        """      wait_on_dependent_grids();
      TileScheduler scheduler(params.scheduler, cluster);
""",
        """      TileScheduler scheduler(params.scheduler, cluster);
      wait_on_dependent_grids();
""",
        "sizes are read while the kernel that writes them may still run",
    ),
    (
        "grouped_other_warpgroups_tile",
        _MASKED,
        "sm90_pingpong",
        "pipe.advance(scheduler.skip(params.scheduler, Config::kConsumers - 1));",
        "scheduler.skip(params.scheduler, Config::kConsumers - 1);",
        "a warpgroup takes the stages of the other one's tile",
    ),
    (
        "grouped_last_band_as_high_as_the_others",
        _CONTIGUOUS,
        _SCHEDULER,
        "unsigned const n = within / rows;",
        "unsigned const n = within / unsigned(Config::kRasterGroup);",
        "tiles of a group with few rows are computed in another order, some twice and some never",
    ),
    (
        "grouped_scales_of_the_first_group",
        _BLOCKS,
        "sm90_mainloop_scaled",
        "tile.first_n(Config::kTileN), k, tile.batch, lane);",
        "tile.first_n(Config::kTileN), k, 0, lane);",
        "all groups have the scales of the first group's B",
    ),
    (
        "grouped_scales_from_row_0",
        _BLOCKS,
        "sm90_mainloop_scaled",
        "tile.first_m(Config::kTileM), k, tile.batch, lane);",
        "tile.m * Config::kTileM, k, tile.batch, lane);",
        "the rows of each group have the scales of the first group's rows",
    ),
    (
        "grouped_scales_of_a_tile_from_row_0",
        _SWAPPED,
        "sm90_mainloop_tile_scaled",
        "first_n = tile.first_n(Config::kTileN);",
        "first_n = tile.n * Config::kTileN;",
        "the rows of each group have the scales of the first group's rows",
    ),
    (
        "grouped_scale_of_the_first_matrix",
        _SWAPPED,
        "sm90_mainloop_tile_scaled",
        "first_m + lines.row_of_lane, tile.batch);",
        "first_m + lines.row_of_lane, 0);",
        "all groups have the scale of the first one's B",
    ),
    (
        "grouped_amax_of_rows_behind_the_group",
        _SWAPPED,
        "sm90_slice_beside",
        "    columns_left = end.n - (first.n + lane % 4 * 2);",
        "    columns_left = kSliceN;",
        "products of the next group's rows with this group's B count as well",
    ),
    (
        "grouped_bias_of_the_first_group",
        _BLOCKS,
        "sm90_epilogue_tma",
        "row_of, column_of, tile.batch, mine.lane);",
        "row_of, column_of, 0, mine.lane);",
        "all groups have the bias of the first",
    ),
    (
        "grouped_columns_read_as_blocks",
        _ROWS,
        "sm90_mainloop_scaled",
        "kOfLines = kUsed && Layout::kGranule == 1;",
        "kOfLines = Layout::kGranule == 1;",
        "scales of columns are looked up among those of k tiles, where there are none",
    ),
    (
        "grouped_negative_size",
        "groups_masked",
        "sm90_tile_scheduler_grouped",
        "      if (size < 0) {",
        "      if (false) {",
        "a negative number of rows is reported as computed",
    ),
    (
        "grouped_rows_behind_the_last",
        "groups",
        "sm90_tile_scheduler_grouped",
        "if (lane_end > params.rows) {",
        "if (false) {",
        "a group that reaches behind the last row of all is computed",
    ),
    (
        "grouped_overlap_of_windows",
        "groups",
        "sm90_tile_scheduler_grouped",
        "lane == 0 || ends_before < reached",
        "lane == 0",
        "a group that overlaps one of an earlier window of 32 is computed",
    ),
    (
        "grouped_status_of_the_first_window",
        "groups",
        "sm90_tile_scheduler_grouped",
        "params.status[first_group + lane] = int(status);",
        "params.status[lane] = int(status);",
        "groups of the second window have no status",
    ),
)
