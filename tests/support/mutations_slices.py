"""Planted faults in the slices of D that a warpgroup stages for TMA.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, the problem, and what goes wrong.
"""

from __future__ import annotations

FAULTS = (
    (
        "slice_stored_before_it_is_written",
        "sm90_gemm_bf16_tn",
        "sm90_epilogue_tma",
        "      fence_view_async_shared();\n      mine.sync();\n",
        "      fence_view_async_shared();\n      __syncwarp();\n",
        "128,256,64",
        "TMA stores rows that other warps have not written to the buffer yet",
    ),
    (
        "slice_written_while_it_is_stored",
        "sm90_gemm_bf16_tn",
        "sm90_epilogue_tma",
        "        mine.sync();                                         // so have threads",
        "        __syncwarp();                                        // so have threads",
        "128,256,64",
        "a warp overwrites rows of a buffer that TMA still reads",
    ),
    (
        "boxes_of_a_slice_in_one_place",
        "f32_swapped",
        "sm90_epilogue_tma",
        "act(buffer + i * Slice::kBoxBytes, m + i * Slice::kBoxRows);",
        "act(buffer + i * Slice::kBoxBytes, m);",
        "32,128,64",
        "the second 32 rows of a slice are stored over the first",
    ),
    (
        "lines_of_the_first_box",
        "f32_swapped",
        "sm90_staged_slice",
        "return row / kBoxRows * kBoxBytes + cute",
        "return cute",
        "32,128,64",
        "rows 32 to 63 of a slice overwrite rows 0 to 31",
    ),
    (
        "c_of_half_a_slice",
        "f32_swapped",
        "sm90_epilogue_tma",
        "mine.barriers[buffer].arrive_and_expect(kSliceBytes);",
        "mine.barriers[buffer].arrive_and_expect(Slice::kBoxBytes);",
        "32,128,64:beta=1",
        "C is read before TMA has loaded its second box",
    ),
    (
        "plain_d_that_tma_cannot_address",
        "sm90_gemm_warpgroup",
        "sm90_epilogue_tma",
        "!functor.reads_source() && tile.outputs(params).tma_end == INT_MAX)",
        "!functor.reads_source())",
        "64,133,40",
        "slices are stored through a tensor map that was never encoded",
    ),
    (
        "saturated_pairs_exchanged",
        "sm90_gemm_sparse_s8",
        "convert",
        """cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(pair) : "r"(second), "r"(first)""",
        """cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(pair) : "r"(first), "r"(second)""",
        "64,64,256",
        "neighbouring columns of D are exchanged",
    ),
    (
        "sums_kept_whatever_alpha_is",
        "sm90_gemm_sparse_s8",
        "linear_combination",
        "return alpha == Scalar(1);",
        "return true;",
        "64,64,256:alpha=2",
        "D is not multiplied by alpha",
    ),
)
