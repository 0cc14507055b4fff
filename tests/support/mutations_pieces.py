"""Planted faults in kernels that multiply bf16 pieces of f32: which products are computed, how elements are split, and where
pieces lie.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, its problem and what goes wrong. X6
computes six products of three pieces and promotes the sums of k tiles, X3 three products of two pieces; MMA_X6 and MMA_X3 are the
same of mma.sync, which splits in registers.
"""

from __future__ import annotations

X6 = "pc1_x6"
X3 = "pc2_x3"
MMA_X6 = "pc4_mma_x6"
MMA_X3 = "pc5_mma_x3"
_LONG = "128,64,1024"
_BLOCKS = "for (int block = 0; block < kBlocks; ++block) { visit("
_WITHOUT = "for (int block = decltype(product)::value == {} ? kBlocks : 0; block < kBlocks; ++block) {{ visit("
_WORDS = "    uint32_t words[kVector / 2][kPieces];\n"
_PROMOTED = "mma_promoted(stage_mma, stage, tCrC, stage_issued, [&] { release(stage); }, addend_of(stage));"
_EACH_N = "for (int n = 0; n < size<1>(tCrB); ++n) { gemm("
_SHORT = "100,60,170"

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
        "bf16_pieces",
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
        "bf16_pieces",
        "if (!is_finite) { pieces[kPieces - 1]",
        "if (false) { pieces[kPieces - 1]",
        "100,60,70,2",
        "infinities and NaNs are 1",
    ),
    (
        "large_numbers_to_infinity",
        X6,
        "bf16_pieces",
        "is_finite ? kLargest : kOne",
        "is_finite ? 0x7f80 : kOne",
        "100,60,70,2",
        "a number whose nearest bf16 is infinity becomes infinity",
    ),
    (
        "mma_without_the_third_piece_of_b",
        MMA_X6,
        "mainloop_pieces",
        _EACH_N,
        _EACH_N.replace("n = 0", "n = decltype(product)::value == 1 ? size<1>(tCrB) : 0"),
        _SHORT,
        "the product of A's first piece and B's third is missing",
    ),
    (
        "mma_without_both_second_pieces",
        MMA_X6,
        "mainloop_pieces",
        _EACH_N,
        _EACH_N.replace("n = 0", "n = decltype(product)::value == 2 ? size<1>(tCrB) : 0"),
        _SHORT,
        "the product of both second pieces is missing",
    ),
    (
        "mma_pieces_exchanged",
        MMA_X6,
        "mainloop_pieces",
        "pieces_b(_, n, kB)",
        "pieces_b(_, n, kA)",
        _SHORT,
        "pieces of B are multiplied with those of A that do not belong to them",
    ),
    (
        "mma_pieces_toward_zero",
        MMA_X3,
        "bf16_pieces",
        "cvt.rn.bf16x2.f32",
        "cvt.rz.bf16x2.f32",
        "64,48,512",
        "pieces are rounded toward zero: what is left out has the sign of the element",
    ),
    (
        "mma_neighbours_exchanged",
        MMA_X6,
        "mainloop_pieces",
        "    auto const pieces_b = split(tCrB);",
        "    auto exchanged = make_fragment_like(tCrB);\n    for (int i = 0; i < size(tCrB); ++i) { exchanged(i) = tCrB(i ^ 1); }\n"
        "    auto const pieces_b = split(exchanged);",
        _SHORT,
        "neighbours along K in fragments of B are exchanged",
    ),
    (
        "mma_fragment_of_the_atom_before",
        MMA_X6,
        "mainloop_pieces",
        "split(tCrA(_, m))",
        "split(tCrA(_, m > 0 ? m - 1 : 0))",
        _SHORT,
        "the second atom along M multiplies the first one's rows of A",
    ),
    (
        "mma_sums_not_cleared",
        MMA_X3,
        "mainloop_pieces",
        "      clear(sums);\n",
        "      if (m == 0) { clear(sums); }\n",
        _SHORT,
        "the sums of one atom along M are added to those of the next",
    ),
    (
        "mma_sums_not_added",
        MMA_X3,
        "mainloop_pieces",
        "tCrC(_, m, _)(i) += sums(i);",
        "tCrC(_, m, _)(i) = sums(i);",
        _SHORT,
        "the sums of the last k block alone are left",
    ),
    (
        "mma_stage_not_awaited",
        MMA_X6,
        "mainloop_multistage",
        "    auto await_next_k_tile = [&] {\n      cp_async_wait<kStages - 2>();\n",
        "    auto await_next_k_tile = [&] {\n",
        _SHORT,
        "f32 fragments are read from a stage before it arrives",
    ),
)
