"""Planted faults in kernels of 4-bit operands: the order and the sign of the elements of a byte, and the last byte of an odd K.

Rows of tests.support.mutations.Mutation: name, spec, header, text, what replaces it, its problem and what goes wrong.
"""

from __future__ import annotations

S4, U4 = "sm80_gemm_s4", "sm80_gemm_u4"
_LOOP = "mainloop_packed"
_SWAPPED = """struct PackedProducts : PlainProducts {
  template <class TiledMma, class TensorRA, class TensorRB, class TensorRC>
  CUTE_DEVICE static void multiply(TiledMma const& mma, TensorRA const& tCrA, TensorRB const& tCrB, TensorRC& tCrC) {
    auto swapped = cute::make_fragment_like(tCrA);
    CUTE_UNROLL
    for (int i = 0; i < cute::size(swapped); ++i) { swapped(i) = uint8_t(tCrA(i) << 4 | tCrA(i) >> 4); }
    cute::gemm(mma, swapped, tCrB, tCrC);
  }
"""

FAULTS: tuple[tuple[str, str, str, str, str, str, str], ...] = (
    (
        "nibbles_swapped",
        U4,
        _LOOP,
        "struct PackedProducts : PlainProducts {\n",
        _SWAPPED,
        "128,128,128",
        "elements of even k of A meet those of odd k of B",
    ),
    (
        "signed_u4",
        U4,
        "config",
        "cute::SM80_16x8x32_S32U4S4S32_TN_SATURATE {}",
        "cute::SM80_16x8x32_S32S4S4S32_TN_SATURATE {}",
        "128,128,128",
        "elements of A above 7 are 16 too small",
    ),
    (
        "unsigned_s4",
        S4,
        "config",
        "cute::SM80_16x8x64_S32S4S4S32_TN {}",
        "cute::SM80_16x8x64_S32S4U4S32_TN {}",
        "256,128,256",
        "negative elements of B are 16 too large",
    ),
    (
        "tail_not_masked",
        S4,
        _LOOP,
        "if (k % Config::A::kGroup == 0) { return; }",
        "if (k % Config::A::kGroup != 2) { return; }",
        "256,128,127",
        "the half of the last byte that no element has is multiplied",
    ),
    (
        "other_half_masked",
        U4,
        _LOOP,
        "&= 0x0f;",
        "&= 0xf0;",
        "128,128,127",
        "the last element is dropped, and what is none is multiplied",
    ),
    (
        "byte_before_masked",
        U4,
        _LOOP,
        "sA(row, k_left - 1)",
        "sA(row, k_left - 2)",
        "128,128,127",
        "an element is dropped, and what is none is multiplied",
    ),
    (
        "masked_in_whole_tiles",
        S4,
        "mainloop_multistage",
        "k, k_extent - (k_tiles - 1) * A::kTileK);",
        "k, k_extent < A::kTileK ? k_extent : A::kTileK);",
        "256,128,383",
        "of several k tiles, what lies behind K in the last one is zeroed in place of its last element",
    ),
    (
        "first_rows_masked",
        S4,
        _LOOP,
        "row < Config::A::kTileMn;",
        "row < Config::A::kTileMn / 2;",
        "256,128,127",
        "the other rows of a tile keep what is no element",
    ),
    (
        "even_k_masked",
        U4,
        _LOOP,
        "if (k % Config::A::kGroup == 0) { return; }\n",
        "",
        "128,128,128",
        "the last element of an even K is dropped",
    ),
    (
        "fragments_before_the_mask",
        U4,
        _LOOP,
        "    __syncthreads();  // fragments",
        "    // fragments",
        "128,128,127",
        "warps load a byte that another one masks",
    ),
    (
        "lines_as_long_as_k",
        U4,
        "mainloop_params",
        "return int(detail::stored_k<B>(k));",
        "return k;",
        "128,128,64",
        "what lies behind a row is multiplied",
    ),
    (
        "pitch_in_elements",
        S4,
        "mainloop_params",
        "make_shape(m, stored_k()), A::gmem_stride(lda)",
        "make_shape(m, stored_k()), A::gmem_stride(lda / 2)",
        "256,128,256",
        "rows of A begin in the middle of others",
    ),
    (
        "batch_in_elements",
        S4,
        "mainloop_params",
        "a + batch * batch_stride_a",
        "a + batch * batch_stride_a / 2",
        "256,128,256,2",
        "the second matrix of A begins in the middle of the first",
    ),
    (
        "k_rounded_down",
        U4,
        "gemm_arguments",
        "(k + Operand::kGroup - 1) / Operand::kGroup",
        "k / Operand::kGroup",
        "128,128,127",
        "the last element of an odd K is left out",
    ),
    (
        "mask_of_another_stage",
        S4,
        "mainloop_multistage",
        "finish_last_tile<Config>(sA(_, _, 0)",
        "finish_last_tile<Config>(sA(_, _, 1)",
        "256,128,127",
        "the last k tile keeps what lies behind K",
    ),
)
