"""Planted faults in kernels that multiply bf16 pieces of f32: which products are computed, how elements are split, and where
pieces lie.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, its problem and what goes wrong. X6
computes six products of three pieces and promotes the sums of k tiles, X3 three products of two pieces.
"""

from __future__ import annotations

X6 = "pc1_x6"
X3 = "pc2_x3"
_LONG = "128,64,1024"
_BLOCKS = "for (int block = 0; block < kBlocks; ++block) { visit("
_WITHOUT = "for (int block = decltype(product)::value == {} ? kBlocks : 0; block < kBlocks; ++block) {{ visit("
_WORDS = "    uint32_t words[kVector / 2][kPieces];\n"
_PROMOTED = "mma_promoted(stage_mma, stage, tCrC, stage_issued, [&] { release(stage); }, addend_of(stage));"

FAULTS = (
    (
        "without_the_third_piece_of_a",
        X6,
        "sm90_mainloop_pieces",
        _BLOCKS,
        _WITHOUT.format(0),
        _LONG,
        "the product of A's third piece and B's first is missing",
    ),
    (
        "without_both_second_pieces",
        X6,
        "sm90_mainloop_pieces",
        _BLOCKS,
        _WITHOUT.format(2),
        _LONG,
        "the product of both second pieces is missing",
    ),
    (
        "without_the_second_piece_of_b",
        X3,
        "sm90_mainloop_pieces",
        _BLOCKS,
        _WITHOUT.format(1),
        "64,64,1024",
        "the product of A's first piece and B's second is missing",
    ),
    (
        "sums_not_added",
        X6,
        "sm90_mainloop_promoted",
        "      add(sums, tCrC(_, kM, kN));\n",
        "",
        _LONG,
        "no sum of a k tile is added: all of them are zero",
    ),
    (
        "not_promoted",
        X6,
        "sm90_mainloop_promoted",
        _PROMOTED,
        "stage_mma(tCrC, stage, i == 0 ? GMMA::ScaleOut::Zero : GMMA::ScaleOut::One); stage_issued(); "
        "warpgroup_wait<0>(); warpgroup_fence_operand(tCrC); release(stage);",
        _LONG,
        "the tensor core sums all of K, and rounds toward zero at each step",
    ),
    (
        "second_k_tile_of_zeros",
        X6,
        "f32_pieces",
        _WORDS,
        "    if (k / kTileK == 1) {\n      for (float& value : values[step]) { value = 0.0f; }\n    }\n" + _WORDS,
        _LONG,
        "the pieces of one k tile are zeros",
    ),
    (
        "pieces_exchanged",
        X6,
        "f32_pieces",
        "(at + piece * kTileK) =",
        "(at + (kPieces - 1 - piece) * kTileK) =",
        _LONG,
        "the first piece lies where the last should",
    ),
    (
        "rest_of_one_half",
        X6,
        "f32_pieces",
        "    rest_high -= __uint_as_float(pieces[i] & 0xffff0000);\n",
        "",
        _LONG,
        "all pieces of every second element are the first one",
    ),
    (
        "columns_behind_k",
        X6,
        "f32_pieces",
        "bool const inside = own < operand.lines && k < operand.k;",
        "bool const inside = own < operand.lines && k <= operand.k;",
        "100,60,70,2",
        "a column behind the matrix is read",
    ),
    (
        "first_matrix_twice",
        X6,
        "f32_pieces",
        "operand.to + (int64_t(matrix) * operand.lines + line) * operand.pitch",
        "operand.to + line * operand.pitch",
        "100,60,70,2",
        "the pieces of all matrices of a batch are written to those of the first",
    ),
    (
        "tile_not_complete",
        X6,
        "f32_pieces",
        "    __syncthreads();\n    CUTE_UNROLL\n    for (int step",
        "    CUTE_UNROLL\n    for (int step",
        "100,60,70,2",
        "a thread reads columns that others have not stored yet",
    ),
    (
        "split_before_the_grid_before",
        X3,
        "f32_pieces",
        "  launch_dependent_grids();\n  wait_on_dependent_grids();\n  if (blockIdx.x < params.blocks_a)",
        "  launch_dependent_grids();\n  if (blockIdx.x < params.blocks_a)",
        "64,64,1024",
        "operands are read while the kernel before may still write them",
    ),
    (
        "infinities_in_the_first_piece_alone",
        X6,
        "f32_pieces",
        "if (!is_finite) { pieces[kPieces - 1]",
        "if (false) { pieces[kPieces - 1]",
        "100,60,70,2",
        "infinities and NaNs are 1",
    ),
    (
        "large_numbers_to_infinity",
        X6,
        "f32_pieces",
        "is_finite ? kLargest : kOne",
        "is_finite ? 0x7f80 : kOne",
        "100,60,70,2",
        "a number whose nearest bf16 is infinity becomes infinity",
    ),
)
