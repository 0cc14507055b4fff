// SPDX-License-Identifier: MIT-0
// Element types that only single instructions have, beside those of types.cuh; host code.
//
// A tag T offers what a tag of types.cuh does. Elements of the types here are kept one by one in a byte; how many share a
// byte in the kernel's memory is decided where matrices are packed. Complex numbers are several parts of one tag.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

template <int kBits, bool kSigned_>
struct NarrowInteger {
  using Storage = uint8_t;
  static constexpr bool kInteger = true;
  static constexpr bool kSigned = kSigned_;
  static constexpr double kSmallest = kSigned ? -(1 << (kBits - 1)) : 0;
  static constexpr double kLargest = (1 << (kSigned ? kBits - 1 : kBits)) - 1;

  static double load(Storage code) { return code > kLargest ? code - (1 << kBits) : code; }
  static Storage store(double x) { return static_cast<Storage>(static_cast<int>(x) & ((1 << kBits) - 1)); }
};

/// A signed float of less than 8 bits, every code a number.
template <int kExponentBits, int kMantissaBits>
struct TinyFloat {
  using Storage = uint8_t;
  static constexpr bool kInteger = false;
  static constexpr bool kSigned = true;
  static constexpr int kMagnitudes = 1 << (kExponentBits + kMantissaBits);

  static double load(Storage code) {
    int const magnitude = code % kMagnitudes;
    int const exponent = magnitude >> kMantissaBits;
    int const fraction = magnitude & ((1 << kMantissaBits) - 1);
    int const bias = (1 << (kExponentBits - 1)) - 1;
    double const value = exponent == 0 ? std::ldexp(fraction, 1 - bias - kMantissaBits)
                                       : std::ldexp(fraction + (1 << kMantissaBits), exponent - bias - kMantissaBits);
    return code / kMagnitudes % 2 != 0 ? -value : value;
  }
  /// The nearest value, the smaller magnitude of two.
  static Storage store(double x) {
    int nearest = 0;
    for (int code = 1; code < kMagnitudes; ++code) {
      double const old = std::fabs(load(static_cast<Storage>(nearest)) - std::fabs(x));
      if (std::fabs(load(static_cast<Storage>(code)) - std::fabs(x)) < old) { nearest = code; }
    }
    return static_cast<Storage>(nearest + (x < 0 ? kMagnitudes : 0));
  }
};

struct s4 : NarrowInteger<4, true> {
  static constexpr char const* kWord = "s4";
};
struct u4 : NarrowInteger<4, false> {
  static constexpr char const* kWord = "u4";
};
struct u1 : NarrowInteger<1, false> {
  static constexpr char const* kWord = "u1";
};
struct e2m1 : TinyFloat<2, 1> {
  static constexpr char const* kWord = "e2m1";
};
struct e2m3 : TinyFloat<2, 3> {
  static constexpr char const* kWord = "e2m3";
};
struct e3m2 : TinyFloat<3, 2> {
  static constexpr char const* kWord = "e3m2";
};
/// Scale factors: positive, and then the same codes.
struct ue4m3 : e4m3 {
  static constexpr char const* kWord = "ue4m3";
};
struct ue8m0 {
  using Storage = uint8_t;
  static constexpr char const* kWord = "ue8m0";
  static double load(Storage code) { return std::ldexp(1.0, code - 127); }
  static Storage store(double x) { return static_cast<Storage>(std::lrint(std::log2(x)) + 127); }
};
/// Gauss's three products: of the real parts, of the imaginary parts, of the sums of both.
struct gc64 : f64 {
  static constexpr char const* kWord = "gc64";
};

template <>
inline constexpr int kPartsOf<gc64> = 3;

/// What memory holds of a real number, which each part of a complex one is.
template <class T>
using StoredPart = decltype(T::store(0.0));

template <>
inline constexpr bool is_fp8<e2m1> = true;  // the same unit of the tensor core
template <>
inline constexpr bool is_fp8<e2m3> = true;
template <>
inline constexpr bool is_fp8<e3m2> = true;

}  // namespace v0_1
}  // namespace mmagen::test
