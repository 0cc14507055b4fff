// Narrow integers and 8-bit floats to bf16 and f16, exactly, in registers. A pair of results comes from the same place of two
// neighbouring runs of four elements (see sm90_mainloop_mixed.cuh).
//
// Integers are converted without cvt: 0x4300 is 128 in bf16 and its last bit counts 1, 0x6400 is 1024 in f16 and its last bit
// counts 1 too. The bits of an integer, put into such a number, make 128 + value (1024 + value); one subtraction is left.
#pragma once

#include <cute/config.hpp>
#include <cute/numeric/numeric_types.hpp>

namespace mmagen {
inline namespace v0_1 {

enum class WeightType { kS4, kU4, kS8, kE4m3 };

namespace detail {

/// Element-wise a - b of two pairs.
template <class Element>
CUTE_DEVICE uint32_t subtract_pairs(uint32_t a, uint32_t b) {
  uint32_t difference;
  if constexpr (cute::is_same_v<Element, cute::bfloat16_t>) {
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
  } else {
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
  }
  return difference;
}

/// (a & kMask) ^ kFlipped, one instruction: a compiler that splits it finds no operation with two constants.
template <uint32_t kMask, uint32_t kFlipped>
CUTE_DEVICE uint32_t masked_xor(uint32_t a) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(a), "n"(kMask), "n"(kFlipped));
  return result;
}

/// Two e4m3 in the low half, to a pair.
template <class Element>
CUTE_DEVICE uint32_t pair_of_e4m3(uint32_t two) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(uint16_t(two)));
  if constexpr (cute::is_same_v<Element, cute::bfloat16_t>) {
    float low, high;
    asm("{ .reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h; }" : "=f"(low), "=f"(high) : "r"(halves));
    return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);  // exact: 4 significant bits
  } else {
    return halves;
  }
}

}  // namespace detail

/// kType to Element, cute::bfloat16_t or cute::half_t.
template <WeightType kType, class Element>
struct WeightConversion {
  static constexpr bool kPacked = kType == WeightType::kS4 || kType == WeightType::kU4;  // two to a byte
  static constexpr int kBits = kPacked ? 4 : 8;
  static constexpr int kWords = kBits / 4;  // that 8 elements take
  /// A number whose last bit counts 1, in either half.
  static constexpr uint32_t kMagic = cute::is_same_v<Element, cute::bfloat16_t> ? 0x43004300 : 0x64006400;

  /// What is subtracted from both numbers of a pair: kMagic, and the zero point of u4.
  CUTE_DEVICE static uint32_t zero_of(uint32_t zero) { return kMagic + zero * 0x00010001; }

  /// Elements i and i + 4 of 8 that lie in kWords words. zero: zero_of() the zero point; of u4 only.
  template <int i>
  CUTE_DEVICE static uint32_t pair(uint32_t const* words, uint32_t zero) {
    if constexpr (kType == WeightType::kS4) {
      // The sign bit counts 8 instead of -8 once it is flipped: 8 more than the value.
      constexpr uint32_t kEight = kMagic | 0x00080008;
      return detail::subtract_pairs<Element>(detail::masked_xor<0x000f000f, kEight>(words[0] >> (4 * i)), kEight);
    } else if constexpr (kType == WeightType::kU4) {
      return detail::subtract_pairs<Element>(detail::masked_xor<0x000f000f, kMagic>(words[0] >> (4 * i)), zero);
    } else if constexpr (kType == WeightType::kE4m3) {
      return detail::pair_of_e4m3<Element>(__byte_perm(words[0], words[1], i | (4 + i) << 4));
    } else {
      uint32_t const bytes = __byte_perm(words[0], words[1], i * 0x0011 | (4 + i) * 0x1100);  // each of the two twice
      if constexpr (cute::is_same_v<Element, cute::bfloat16_t>) {
        // bf16 has 7 bits below its leading one: 128 + the low 7 bits, less 128 or, of negative values, 256.
        return detail::subtract_pairs<Element>(detail::masked_xor<0x007f007f, kMagic>(bytes),
                                               detail::masked_xor<0x00800080, kMagic>(bytes));
      } else {
        constexpr uint32_t kHalf = kMagic | 0x00800080;
        return detail::subtract_pairs<Element>(detail::masked_xor<0x00ff00ff, kHalf>(bytes), kHalf);
      }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
