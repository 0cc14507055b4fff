"""Planted faults of scales, vectors, second matrices and sums of groups: the problems that verify chooses must catch them.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, and what goes wrong.
"""

from __future__ import annotations

_BLOCKS, _ROWS, _GATED = "pointers_blocks", "pointers_rows", "pointers_gated"
_ACCESS, _PREPARE, _SCALES = "further_access", "sm90_prepare_groups", "sm90_scales"
_EPILOGUE, _LAUNCH, _GATHERING = "sm90_epilogue_tma", "sm90_pointers_launch", "epilogue_gathering"

FAULTS = (
    (
        "pointers_tensor_of_the_neighbour",
        _BLOCKS,
        _ACCESS,
        "static_cast<Element*>(tensor.data[group])",
        "static_cast<Element*>(tensor.data[group > 0 ? group - 1 : 0])",
        "a group has the biases, second matrices, sums and scales of the one before",
    ),
    (
        "pointers_pitch_of_the_first_group",
        _BLOCKS,
        _ACCESS,
        "tensor.lds[group] : tensor.ld;",
        "tensor.lds[0] : tensor.ld;",
        "lines of scales are as far apart as those of the first group",
    ),
    (
        "pointers_scale_of_the_neighbour",
        _ROWS,
        _SCALES,
        "matrix_of<float const>(tensor, group)",
        "matrix_of<float const>(tensor, group > 0 ? group - 1 : 0)",
        "a group has the scales of the one before",
    ),
    (
        "pointers_scales_behind_the_end",
        _BLOCKS,
        _SCALES,
        "LayoutA::kExists ? tile.end_m(0) : 0",
        "LayoutA::kExists ? 0x7fffffff : 0",
        "scales of rows that the group does not have are read",
    ),
    (
        "pointers_columns_for_rows",
        _ROWS,
        _SCALES,
        "LayoutB::kExists ? tile.end_n(0) : 0",
        "LayoutB::kExists ? tile.end_m(0) : 0",
        "of the columns as many are scaled as there are rows, the others are 0",
    ),
    (
        "pointers_vectors_of_the_call",
        _BLOCKS,
        _EPILOGUE,
        "slices.beside.load(functor, mine.bounds,",
        "slices.beside.load(functor, {params.m, params.n},",
        "biases of rows and columns that the group does not have are read",
    ),
    (
        "pointers_sums_of_the_call",
        _BLOCKS,
        _EPILOGUE,
        "lines.finish(functor, mine.bounds,",
        "lines.finish(functor, {params.m, params.n},",
        "sums are written behind the last row and column of a group",
    ),
    (
        "pointers_second_matrix_has_the_lines_of_d",
        _BLOCKS,
        _LAUNCH,
        "source.lds,          sizes(args.group_ldd),",
        "sizes(args.group_ldd), sizes(args.group_ldd),",
        "TMA loads a second matrix whose lines are as far apart as those of D",
    ),
    (
        "pointers_second_matrix_is_d",
        _BLOCKS,
        _LAUNCH,
        "source.data,           static_cast<void* const*>(args.d),",
        "static_cast<void* const*>(args.d), static_cast<void* const*>(args.d),",
        "D is loaded in the place of the second matrix",
    ),
    (
        "pointers_odd_pairs",
        _GATED,
        _PREPARE,
        "Config::kDRowMajor ? n / kPair : m",
        "Config::kDRowMajor ? n : m",
        "D has as many columns as B, not half of them",
    ),
    (
        "pointers_tensor_not_aligned",
        _BLOCKS,
        _PREPARE,
        "reinterpret_cast<uintptr_t>(pointer) % unsigned(one.bytes) == 0 ?",
        "true ?",
        "a group whose bias is not aligned to an element is computed",
    ),
    (
        "pointers_tensor_null",
        _BLOCKS,
        _PREPARE,
        "  if (pointer == nullptr) { return PointerStatus::kNullPointer; }\n  if (one.pitched",
        "  if (one.pitched",
        "a group without a bias is computed",
    ),
    (
        "pointers_line_of_scales_too_short",
        _BLOCKS,
        _PREPARE,
        "(extent + int64_t(one.step) - 1) / one.step",
        "extent / one.step",
        "a group whose lines of scales lack the last, shorter block is computed",
    ),
    (
        "pointers_scales_without_k",
        _GATED,
        "sm90_pingpong",
        """          if constexpr (Mainloop::kScalesTile) { Mainloop::scale_tile(params.mainloop.tile_scales, tile, thread, tCrC); }
        }
""",
        """        }
        if constexpr (Mainloop::kScalesTile) { Mainloop::scale_tile(params.mainloop.tile_scales, tile, thread, tCrC); }
""",
        "scales are read of a group without a K, which has none",
    ),
    (
        "pointers_sums_twice",
        _ROWS,
        _GATHERING,
        "if (mine && line < end) { atomicAdd(to + line, values[i]); }",
        "if (line < end) { atomicAdd(to + line, values[i]); }",
        "every lane adds what one of them has added up",
    ),
    (
        "grouped_sums_of_the_next_group",
        "groups_blocks",
        _EPILOGUE,
        "    if (Called::kObserves && !beside.whole) {",
        "    if (false) {",
        "the columns of a group gain rows of the next one",
    ),
    (
        "grouped_column_sums_of_the_first",
        "groups_swapped",
        _GATHERING,
        "matrix_of<Scalar_>(tensor_, batch)",
        "matrix_of<Scalar_>(tensor_, 0)",
        "all groups add to the sums of the first one",
    ),
    (
        "grouped_sums_of_rows_in_the_group",
        "groups_swapped",
        "sm90_slice_beside",
        "first.n + i / 2 * 8 + lane % 4 * 2 + i % 2; };",
        "first.n % 16 + i / 2 * 8 + lane % 4 * 2 + i % 2; };",
        "rows are counted within the group, not in the matrix of all groups",
    ),
)
