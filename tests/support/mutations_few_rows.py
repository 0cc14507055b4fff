"""Planted faults in the kernel for few rows or columns of operands that TMA cannot address (sm90_few_rows.cuh).

Rows of tests.support.mutations.Mutation: name, text, what replaces it, the problem and what goes wrong.
"""

from __future__ import annotations

CHOSEN = "4096,4096,4104"  # too large to be emulated: those that verify chooses

FAULTS: tuple[tuple[str, str, str, str, str], ...] = (
    (
        "rows_not_shifted",
        "int const at = begin + column - shift;",
        "int const at = begin + column;",
        "5,45,37",
        "elements of K meet those of the other operand that lie up to 7 later",
    ),
    (
        "begin_of_rows_missing",
        "int const first_chunk = part == 0 && first_whole > 0 ? 0 : -1;",
        "int const first_chunk = -1;",
        "5,45,37",
        "the first elements of rows that begin beside a multiple of 16 bytes are not multiplied",
    ),
    (
        "end_of_rows_missing",
        "part == 1 && end_whole < chunks && chunks > first_whole ? chunks - 1 : first_chunk",
        "first_chunk",
        "5,45,68",
        "the last elements of K are not multiplied",
    ),
    (
        "only_chunk_twice",
        "end_whole < chunks && chunks > first_whole ?",
        "end_whole < chunks ?",
        "5,45,7",
        "K that is one chunk is multiplied by two warps",
    ),
    (
        "reads_before_the_row",
        "bool const inside = at >= 0 && at + kVector <= along;",
        "bool const inside = at + kVector <= along;",
        "5,45,37:offset=3",
        "what lies before a row is loaded and multiplied",
    ),
    (
        "reads_behind_the_row",
        "bool const inside = at >= 0 && at + kVector <= along;",
        "bool const inside = at >= 0 && at < along;",
        "5,45,37",
        "what lies behind a row is loaded",
    ),
    (
        "few_rows_behind_the_row",
        "before > 0 && high >= 0 && high + kVector <= params.k",
        "before > 0 && high >= 0 && high < params.k",
        "5,45,37",
        "a vector that ends behind a row is loaded",
    ),
    (
        "ends_of_few_rows_missing",
        "if (has_end) { to[row_of_end",
        "if (has_end && at_begin) { to[row_of_end",
        "5,45,37",
        "the last elements of the few rows count as zero",
    ),
    (
        "ends_in_another_slab",
        "column_of_end >= 0 &&",
        "",
        "16,40,1301:offset=3",
        "ends of an earlier slab are stored before shared memory, or over other rows",
    ),
    (
        "eight_few_rows",
        "if (row + 8 < few_rows) { high",
        "if (row + 8 < few_rows - 1) { high",
        "16,75,289",
        "the last of 16 rows counts as zero",
    ),
    (
        "row_behind_the_few",
        "if (row < few_rows) { low",
        "if (row <= few_rows) { low",
        "5,45,37",
        "shared memory that was never written is multiplied",
    ),
    (
        "second_load_of_a_warp",
        "chunk += k_warps * kAhead;",
        "chunk += k_warps * kAhead + 1;",
        "3,20,2403",
        "a warp that loads several times skips a chunk",
    ),
    (
        "one_warp_of_several",
        "for (int j = 0; j < k_warps; ++j) { sum +=",
        "for (int j = 1; j < k_warps; ++j) { sum +=",
        "5,45,300",
        "the sums of the first warp are left out",
    ),
    (
        "sums_not_waited_for",
        "  sums.store(storage.sums[warp]);\n  __syncthreads();\n",
        "  sums.store(storage.sums[warp]);\n",
        "5,45,300",
        "sums are added before all warps have stored theirs",
    ),
    (
        "slab_not_waited_for",
        "if (begin > 0) { __syncthreads(); }",
        "",
        "16,40,1301:offset=3",
        "the next columns overwrite those that other warps still read",
    ),
    (
        "ends_before_the_vectors",
        "  __syncthreads();\n  if (has_end)",
        "  if (has_end)",
        "5,45,37",
        "single elements are overwritten by vectors",
    ),
    (
        "read_before_the_grid_before",
        "  launch_dependent_grids();\n  wait_on_dependent_grids();\n",
        "  launch_dependent_grids();\n",
        "5,45,37",
        "operands are read while the kernel that makes them may still run",
    ),
    (
        "batches_of_one",
        "params.many + batch * params.batch_stride_many",
        "params.many",
        "5,9,7,2",
        "all matrices of a batch are multiplied by the first",
    ),
    (
        "offsets_of_32_bits",
        "row * params.ld_many;",
        "row * int(params.ld_many);",
        CHOSEN,
        "offsets of the many rows wrap around",
    ),
    (
        "few_offsets_of_32_bits",
        "Element const* const from = few + row * params.ld_few;",
        "Element const* const from = few + int(row) * int(params.ld_few);",
        CHOSEN,
        "offsets of the few rows wrap around",
    ),
    (
        "d_transposed",
        "return Config::kDRowMajor ? m * ld + n : n * ld + m;",
        "return Config::kDRowMajor ? n * ld + m : m * ld + n;",
        "5,9,7,2",
        "D is stored with its other mode contiguous",
    ),
    (
        "last_rows_stored",
        "of_many >= params.many_rows",
        "of_many > params.many_rows",
        "5,45,37",
        "a column behind the last one is stored",
    ),
    (
        "clamped_row_of_another_class",
        "{ row = in_class; }",
        "{ row = 0; }",
        "5,45,37",
        "rows that are not stored are read by misaligned vectors",
    ),
)
