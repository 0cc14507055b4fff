"""Planted faults of large problems: coordinates of 16 bits, divisions that are exact for small numbers alone, stages that are
confused after some rounds, and offsets of 32 bits in partial sums. The call that executes only the last tile must catch the first
three, the call whose partial sums lie far apart the last.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, and what goes wrong.
"""

from __future__ import annotations

FAULTS: tuple[tuple[str, str, str, str, str, str], ...] = (
    (
        "rows_of_16_bits",
        "sm80_gemm_classic",
        "epilogue_staged",
        "int const m_origin = tile.m * Config::kTileM;",
        "int const m_origin = uint16_t(tile.m * Config::kTileM);",
        "rows behind the first 65,536 are stored over the first ones",
    ),
    (
        "division_of_small_numbers",
        "sm80_gemm_classic",
        "tile_raster",
        "__umulhi(dividend, multiplier) >> (shift - 1);",
        "unsigned((uint64_t(dividend) * ((uint64_t(multiplier) + 2047) >> 11)) >> (20 + shift));",
        "the quotient of a dividend above 2^20 may be one too large",
    ),
    (
        "stage_repeated_after_three_rounds",
        "sm80_gemm_classic",
        "mainloop_multistage",
        "auto commit_copies = [&] {\n      cp_async_fence();\n      pipe_write = ",
        "int commits = 0;\n    auto commit_copies = [&] {\n      cp_async_fence();\n"
        "      if (++commits != 3 * kStages) pipe_write = ",
        "after three rounds of the stages a k tile is copied over the one before",
    ),
    (
        "tma_columns_of_16_bits",
        "sm90_gemm_bf16_tn",
        "sm90_epilogue_tma",
        "begin_n = tile.first_n(tile_n);",
        "begin_n = uint16_t(tile.first_n(tile_n));",
        "columns behind the first 65,536 are stored over the first ones",
    ),
    (
        "unaligned_rows_of_16_bits",
        "sm90_gemm_bf16_tn",
        "sm90_unaligned",
        "int(A::kContiguousK ? args.m : args.k), tile.m * Config::kTileM),",
        "int(A::kContiguousK ? args.m : args.k), uint16_t(tile.m * Config::kTileM)),",
        "for rows behind the first 65,536 the first ones are loaded",
    ),
    (
        "phase_that_stays_after_three_rounds",
        "sm90_gemm_bf16_tn",
        "sm90_pipeline",
        "  uint32_t phase = 0;\n\n  CUTE_DEVICE void operator++() {\n    if (++stage == this->stages()) {\n"
        "      stage = 0;\n      phase ^= 1;",
        "  uint32_t phase = 0;\n  int rounds = 0;\n\n  CUTE_DEVICE void operator++() {\n    if (++stage == this->stages()) {\n"
        "      stage = 0;\n      phase ^= ++rounds != 3;",
        "producer and consumers wait for the wrong phases after three rounds of the stages",
    ),
    (
        "parts_of_k_within_32_bits",
        "sm90_gemm_splitk_auto",
        "sm90_tile_scheduler_split_k_workspace",
        "params.sums.data + split * params.sums.split_stride + ",
        "params.sums.data + int(split * params.sums.split_stride) + ",
        "the sums of a part of K are stored over those of another",
    ),
    (
        "lines_of_sums_within_32_bits",
        "sm90_gemm_splitk_auto",
        "sm90_tile_scheduler_split_k_workspace",
        "__stcg(reinterpret_cast<uint2*>(matrix + m * params.sums.pitch + n)",
        "__stcg(reinterpret_cast<uint2*>(matrix + unsigned(m * params.sums.pitch) + n)",
        "sums of far rows are stored over those of near ones",
    ),
    (
        "added_lines_of_sums_within_32_bits",
        "sm90_gemm_bf16_amax",
        "split_k_reduction",
        "params.sums.data + line * params.sums.pitch + along",
        "params.sums.data + unsigned(line * params.sums.pitch) + along",
        "the sums of other rows are added",
    ),
    (
        "added_parts_of_k_within_32_bits",
        "sm90_gemm_bf16_amax",
        "split_k_reduction",
        "from + (first + i) * params.sums.split_stride",
        "from + int((first + i) * params.sums.split_stride)",
        "the sums of the first part of K are added several times",
    ),
)
