"""Planted faults that only problems of their own kind show: the problems that verify chooses (mmagen.plan.reach) must catch them.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, and what goes wrong.
"""

from __future__ import annotations

FAULTS = (
    (
        "reach_whole_rows_with_a_residue_of_k",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "int const k_left = k_extent - k_tile * A::kTileK;",
        "int const k_left = m_left == A::kTileMn ? A::kTileK : k_extent - k_tile * A::kTileK;",
        "the last k tile is not clipped where the rows of a tile end with the matrix",
    ),
    (
        "reach_last_band_as_high_as_the_others",
        "sm80_gemm_classic",
        "tile_raster",
        "bool const full = tiles_m - first >= group;",
        "bool const full = true;",
        "tiles of the last band of rows are computed in another order, some twice and some never",
    ),
    (
        "reach_batches_of_one_band",
        "sm80_gemm_classic",
        "tile_raster",
        "unsigned const tile = index - batch * per_batch.divisor;",
        "unsigned const tile = index - batch * band.divisor;",
        "the second batch of several bands begins at another tile",
    ),
    (
        "reach_stages_wrap_once_at_most",
        "sm90_gemm_bf16_pingpong",
        "sm90_pipeline",
        "phase ^= (to / all) & 1;",
        "phase ^= to >= all;",
        "the parity is wrong after a tile of the other warpgroup that takes two rounds of the stages",
    ),
    (
        "reach_rounds_of_8_bits",
        "pp8",
        "sm90_pipeline",
        "unsigned const to = unsigned(stage) + unsigned(count);",
        "unsigned const to = unsigned(stage) + unsigned(uint8_t(count));",
        "a warpgroup that skips more k tiles than 8 bits count waits for a wrong stage",
    ),
    (
        "reach_source_loaded_over_what_is_stored",
        "sm90_gemm_bf16_pingpong",
        "sm90_epilogue_tma",
        "{ tma_store_wait<0>(); }  // the stores of the tile before",
        "{ tma_store_wait<1>(); }  // the stores of the tile before",
        "C of a warpgroup's next tile is loaded to the buffer that the last slice of its tile before is still stored from",
    ),
    (
        "reach_parts_added_up_by_groups_of_threads",
        "sm90_gemm_splitk_auto",
        "split_k_reduction",
        "    of_groups[threadIdx.x] = total;\n    __syncthreads();\n",
        "    of_groups[threadIdx.x] = total;\n",
        "the sums of other groups are read before they have been written",
    ),
    (
        "reach_parts_of_k_behind_copied_operands",
        "sm90_gemm_splitk_auto",
        "operand_copies",
        "  args.workspace_bytes -= int64_t(to - begin);\n",
        "",
        "parts of K behind the copies of operands use as many bytes as if there were no copies",
    ),
)
