// SPDX-License-Identifier: MIT-0
// The types of operands, and the values they are filled with.
#pragma once

#include <cstdint>

namespace mmagen {
inline namespace v0_1 {
namespace peak {

/// kE3M2, kE2M3, kE2M1: floats of 6 and 4 bits in a byte each, as kind::f8f6f4 has them; kE2M1Packed: two in a byte. kGauss:
/// accumulators of a complex product made of three real ones. kPairs, kOneOfTwo: which elements a sparse operand keeps, two of
/// four or one of two.
enum class Element {
  kF16,
  kBf16,
  kTf32,
  kE4M3,
  kE5M2,
  kE3M2,
  kE2M3,
  kE2M1,
  kE2M1Packed,
  kF32,
  kF64,
  kC64,
  kGauss,
  kS32,
  kS8,
  kU8,
  kS4,
  kU4,
  kU1,
  kPairs,
  kOneOfTwo
};

/// The values of one operand: random integers from -limit to limit (from 0 when unsigned), or `constant` everywhere.
struct Fill {
  bool random;
  int32_t limit;
  int32_t constant;
};

constexpr int bits_of(Element e) {
  switch (e) {
    case Element::kU1: return 1;
    case Element::kS4:
    case Element::kU4:
    case Element::kE2M1Packed: return 4;
    case Element::kE4M3:
    case Element::kE5M2:
    case Element::kE3M2:
    case Element::kE2M3:
    case Element::kE2M1:
    case Element::kS8:
    case Element::kU8: return 8;
    case Element::kF16:
    case Element::kBf16: return 16;
    default: return 32;
  }
}

constexpr bool is_signed(Element e) { return e != Element::kU8 && e != Element::kU4 && e != Element::kU1; }

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
