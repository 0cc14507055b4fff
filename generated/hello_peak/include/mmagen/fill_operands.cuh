// SPDX-License-Identifier: MIT-0
// The operands of a peak loop: small integers in every type, so that all sums are exact and can be predicted.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "element.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace peak {

__device__ inline uint32_t hash(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

__device__ inline int32_t draw(Fill fill, uint32_t code, bool with_sign, bool negative) {
  uint32_t const below = with_sign ? 2u * fill.limit + 1u : fill.limit + 1u;
  int32_t const value = fill.random ? int32_t(hash(code) % below) - (with_sign ? fill.limit : 0) : fill.constant;
  return negative ? -value : value;
}

/// An integer as a float of few bits that can hold it.
__device__ inline uint32_t small_float(int exponent_bits, int mantissa_bits, int32_t value) {
  if (value == 0) { return 0; }
  uint32_t const magnitude = value < 0 ? -value : value;
  int const exponent = 31 - __clz(magnitude);
  uint32_t const mantissa =
      exponent <= mantissa_bits ? magnitude << (mantissa_bits - exponent) : magnitude >> (exponent - mantissa_bits);
  uint32_t const bias = (1u << (exponent_bits - 1)) - 1;
  uint32_t const sign = value < 0 ? 1u << (exponent_bits + mantissa_bits) : 0;
  return sign | (exponent + bias) << mantissa_bits | (mantissa & ((1u << mantissa_bits) - 1));
}

__device__ inline uint32_t encode(Element element, int32_t value) {
  switch (element) {
    case Element::kF16: return small_float(5, 10, value);
    case Element::kBf16: return small_float(8, 7, value);
    case Element::kE4M3: return small_float(4, 3, value);
    case Element::kE5M2: return small_float(5, 2, value);
    case Element::kE3M2: return small_float(3, 2, value);
    case Element::kE2M3: return small_float(2, 3, value);
    case Element::kE2M1: return small_float(2, 1, value) << 2;  // PTX ISA, packing of kind::f8f6f4
    case Element::kE2M1Packed: return small_float(2, 1, value);
    case Element::kTf32:
    case Element::kF32: return __float_as_uint(float(value));
    default: return uint32_t(value) & ((1u << bits_of(element)) - 1);
  }
}

/// Half of a double, or of one of the two of a complex number; a constant has no imaginary part.
__device__ inline uint32_t half_of_double(Element element, Fill fill, uint32_t word, bool negative) {
  bool const imaginary = element == Element::kC64 && word % 4 >= 2;
  double const value = imaginary && !fill.random ? 0.0 : draw(fill, word / 2, true, negative);
  return word % 2 == 0 ? __double2loint(value) : __double2hiint(value);
}

/// Eight choices of four bits: two-bit indices of the elements kept, the smaller one first.
__device__ inline uint32_t metadata(bool pairs, Fill fill, uint32_t code) {
  // (0,1) (0,2) (0,3) (1,2) (1,3) (2,3); of one of two, elements as wide as a pair: (0,1) or (2,3).
  constexpr uint32_t kChoices = 0xed9c84;
  uint32_t word = 0;
  for (int i = 0; i < 8; ++i) {
    uint32_t const drawn = fill.random ? hash(code * 8 + i) : 0;
    word |= (kChoices >> 4 * (pairs ? drawn % 6 : drawn % 2 * 5) & 0xf) << 4 * i;
  }
  return word;
}

/// Fills `parts` parts of `words` words each. The second half of the parts repeats the first one, with the sign turned
/// where `turned`.
static __global__ void fill_kernel(Element element, Fill fill, uint32_t seed, int parts, int words, bool turned,
                                   uint32_t* out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < parts * words; i += gridDim.x * blockDim.x) {
    bool const again = i >= parts / 2 * words;
    uint32_t const code = seed + i - (again ? parts / 2 * words : 0);
    bool const negative = again && turned;
    uint32_t word = 0;
    if (element == Element::kF64 || element == Element::kC64) {
      word = half_of_double(element, fill, code, negative);
    } else if (element == Element::kPairs || element == Element::kOneOfTwo) {
      word = metadata(element == Element::kPairs, fill, code);
    } else if (element == Element::kU1) {
      word = fill.random ? hash(code) : -fill.constant;
    } else {
      int const bits = bits_of(element);
      for (int j = 0; j < 32 / bits; ++j) {
        word |= encode(element, draw(fill, code * 8 + j, is_signed(element), negative)) << j * bits;
      }
    }
    out[i] = word;
  }
}

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
