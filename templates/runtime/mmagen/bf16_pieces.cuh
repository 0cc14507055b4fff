// f32 as a sum of bf16 pieces: each piece is the bf16 nearest to the remainder that the previous pieces leave. The sum of three
// pieces is exact; the sum of two has a relative error of at most 2^-16. Exception: if pieces are subnormal, bits below 2^-134
// are lost.
//
// Infinities and NaNs are stored in the last piece, which takes part in only one product: with the first piece of the other
// operand. The first piece is then 1 with the sign of the number, and the others are 0. So infinity times a finite number has
// no product of infinity and a zero piece, which would be NaN, and infinity times infinity is infinity.
#pragma once

#include <cstdint>

#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// Rounds two f32 to the nearest bf16; the first is in the low half.
CUTE_DEVICE uint32_t bf16_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// The bits of the pieces of a number that is not finite, or so large that the nearest bf16 is infinity.
template <int kPieces>
CUTE_DEVICE void split_rare(float x, uint16_t (&pieces)[kPieces]) {
  constexpr uint32_t kOne = 0x3f80, kLargest = 0x7f7f, kQuiet = 0x40;
  uint32_t const bits = __float_as_uint(x);
  uint32_t const sign = bits >> 16 & 0x8000;
  bool const is_finite = (bits & 0x7f800000) != 0x7f800000;
  bool const is_nan = !is_finite && (bits & 0x7fffff) != 0;
  pieces[0] = uint16_t(sign | (is_finite ? kLargest : kOne));
  float rest = is_finite ? x - __uint_as_float(uint32_t(pieces[0]) << 16) : 0.0f;
  CUTE_UNROLL
  for (int i = 1; i < kPieces; ++i) {
    pieces[i] = uint16_t(bf16_pair(rest, 0.0f));
    rest -= __uint_as_float(uint32_t(pieces[i]) << 16);
  }
  if (!is_finite) { pieces[kPieces - 1] = uint16_t(bits >> 16 | (is_nan ? kQuiet : 0)); }
}

/// Pairs of bf16: the pieces of two numbers.
template <int kPieces>
CUTE_DEVICE void split_pair(float low, float high, uint32_t (&pieces)[kPieces]) {
  float rest_low = low, rest_high = high;
  CUTE_UNROLL
  for (int i = 0; i < kPieces; ++i) {
    pieces[i] = bf16_pair(rest_low, rest_high);
    rest_low -= __uint_as_float(pieces[i] << 16);
    rest_high -= __uint_as_float(pieces[i] & 0xffff0000);
  }
  constexpr uint32_t kExponents = 0x7f807f80;
  uint32_t const exponents = pieces[0] & kExponents;
  if ((exponents & 0xffff) == (kExponents & 0xffff) || exponents >> 16 == kExponents >> 16) {
    uint16_t of_low[kPieces], of_high[kPieces];
    split_rare(low, of_low);
    split_rare(high, of_high);
    bool const low_is_rare = (exponents & 0xffff) == (kExponents & 0xffff);
    bool const high_is_rare = exponents >> 16 == kExponents >> 16;
    CUTE_UNROLL
    for (int i = 0; i < kPieces; ++i) {
      if (low_is_rare) { pieces[i] = (pieces[i] & 0xffff0000) | of_low[i]; }
      if (high_is_rare) { pieces[i] = (pieces[i] & 0xffff) | uint32_t(of_high[i]) << 16; }
    }
  }
}

}  // namespace detail

}  // namespace v0_1
}  // namespace mmagen
