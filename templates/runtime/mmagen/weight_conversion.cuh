// Converts narrow integers and 8-bit floats to bf16 and f16, exactly, in registers, two neighbours at a time.
//
// Integers are converted without cvt: 0x4300 is 128 in bf16 and 0x6400 is 1024 in f16, and the last bit of either has the value
// 1. The bits of an integer, inserted there, make 128 + value (1024 + value); one subtraction yields the value.
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

/// A multiplication rather than a shift and an addition: its unit is less busy.
CUTE_DEVICE uint32_t times_0x1001(uint32_t a) {
  uint32_t result;
  asm("mul.lo.u32 %0, %1, 0x1001;" : "=r"(result) : "r"(a));
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

  /// Which bytes of a word have the pair of columns 2 * quarter and 2 * quarter + 1 of eight, for prmt. For 8-bit types the
  /// word is that of columns 4 * (quarter / 2) and following.
  CUTE_DEVICE static uint32_t selector(int quarter) {
    if constexpr (kPacked) {
      return 0x4440 | quarter;  // with zeros above it
    } else {
      uint32_t const first = quarter % 2 * 2;
      return kType == WeightType::kE4m3 ? (first | (first + 1) << 4 | 0x4400) : (first * 0x0011 | (first + 1) * 0x1100);
    }
  }

  /// The pair that `selector` takes out of `word`. zero: zero_of() the zero point; of u4 only.
  CUTE_DEVICE static uint32_t pair(uint32_t word, uint32_t selector, uint32_t zero) {
    uint32_t const bytes = __byte_perm(word, 0, selector);
    if constexpr (kPacked) {
      uint32_t const apart = detail::times_0x1001(bytes);  // the high half of the byte begins at bit 16
      if constexpr (kType == WeightType::kS4) {
        // The sign bit counts 8 instead of -8 once it is flipped: 8 more than the value.
        constexpr uint32_t kEight = kMagic | 0x00080008;
        return detail::subtract_pairs<Element>(detail::masked_xor<0x000f000f, kEight>(apart), kEight);
      } else {
        return detail::subtract_pairs<Element>(detail::masked_xor<0x000f000f, kMagic>(apart), zero);
      }
    } else if constexpr (kType == WeightType::kE4m3) {
      return detail::pair_of_e4m3<Element>(bytes);
    } else if constexpr (cute::is_same_v<Element, cute::bfloat16_t>) {  // of s8 each of the two is there twice
      // bf16 has 7 bits below its leading one: 128 + the low 7 bits, less 128 or, of negative values, 256.
      return detail::subtract_pairs<Element>(detail::masked_xor<0x007f007f, kMagic>(bytes),
                                             detail::masked_xor<0x00800080, kMagic>(bytes));
    } else {
      constexpr uint32_t kHalf = kMagic | 0x00800080;
      return detail::subtract_pairs<Element>(detail::masked_xor<0x00ff00ff, kHalf>(bytes), kHalf);
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
