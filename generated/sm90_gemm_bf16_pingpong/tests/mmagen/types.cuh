// SPDX-License-Identifier: MIT-0
// The element types: how each is stored, read and rounded. One tag for each type of the spec.
//
// A tag T offers
//   T::Storage                 what one element is in memory
//   T::load(Storage) -> double exact for every type (no integer type here is wider than 32 bits)
//   T::store(double) -> Storage  rounded once, to nearest even
//   T::round(double) -> double   the value store() would leave in memory
// and constants; of a complex type load, store and round are those of a part (kPartsOf, part_of). Rounding goes straight from
// double: by way of float it would round twice, and the comparison of exact problems would then reject a correct kernel.
// Written from the definitions of the formats, without cuda_fp16.h and similar headers: the comparison shares no code with the
// kernel under test.
//
// Overflow: f16, bf16, tf32 and f32 go to infinity; integers, e4m3 and e5m2 saturate to the largest finite value
// (cvt.satfinite). NaN stays NaN, in an integer it becomes 0.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mmagen::test {
inline namespace v0_1 {

__host__ __device__ inline double double_from_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

__host__ __device__ inline uint64_t bits_from_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// 2^n for -1022 <= n <= 1023.
__host__ __device__ inline double power_of_two(int n) { return double_from_bits(static_cast<uint64_t>(n + 1023) << 52); }

/// Rounds to nearest even on the grid of a binary format with `mantissa_bits` stored bits and smallest normal
/// exponent `min_exponent`; the caller handles the largest exponent. Scaling by a power of two is exact, so the
/// only rounding is rint's.
__host__ __device__ inline double round_to_format(double x, int mantissa_bits, int min_exponent) {
  int const exponent = static_cast<int>((bits_from_double(x) >> 52) & 0x7ff) - 1023;
  if (exponent == 1024) {
    return x;  // infinity or NaN
  }
  int const quantum = (exponent > min_exponent ? exponent : min_exponent) - mantissa_bits;
  return rint(x * power_of_two(-quantum)) * power_of_two(quantum);
}

/// How a format overflows.
enum class Top {
  kInfinity,          ///< IEEE: infinities and NaNs; overflow rounds to infinity
  kSaturateIeee,      ///< IEEE encoding, but conversions saturate (e5m2)
  kSaturateExtended,  ///< the top exponent holds numbers, only all ones is NaN (e4m3)
};

/// A float of less than 32 bits, kept as its bits.
template <class Bits, int kExponentBits, int kMantissaBits, Top kTop>
struct SmallFloat {
  using Storage = Bits;
  static constexpr bool kInteger = false;
  static constexpr bool kSigned = true;
  static constexpr unsigned char kPoisonByte = 0xff;  // all ones is NaN in every float format
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kMinExponent = 1 - kBias;
  static constexpr int kTopExponent = (1 << kExponentBits) - 1;
  static constexpr int kMantissaMask = (1 << kMantissaBits) - 1;
  static constexpr int kSignShift = kExponentBits + kMantissaBits;
  static constexpr double kUnitRoundoff = 1.0 / (1 << (kMantissaBits + 1));
  static constexpr double kExactIntegerLimit = 1 << (kMantissaBits + 1);

  __host__ __device__ static double largest() {
    return kTop == Top::kSaturateExtended ? (2.0 - 2.0 / (1 << kMantissaBits)) * power_of_two(kTopExponent - kBias)
                                          : (2.0 - 1.0 / (1 << kMantissaBits)) * power_of_two(kTopExponent - 1 - kBias);
  }

  __host__ __device__ static double load(Storage bits) {
    int const exponent = (bits >> kMantissaBits) & kTopExponent;
    int const mantissa = bits & kMantissaMask;
    uint64_t const sign = static_cast<uint64_t>((bits >> kSignShift) & 1) << 63;
    bool const extended = kTop == Top::kSaturateExtended;
    if (exponent == kTopExponent && (!extended || mantissa == kMantissaMask)) {
      bool const nan = extended || mantissa != 0;
      return double_from_bits(sign | (nan ? 0x7ff8000000000000ull : 0x7ff0000000000000ull));
    }
    if (exponent == 0) {
      double const magnitude = mantissa * power_of_two(kMinExponent - kMantissaBits);
      return sign ? -magnitude : magnitude;
    }
    return double_from_bits(sign | static_cast<uint64_t>(exponent - kBias + 1023) << 52 |
                            static_cast<uint64_t>(mantissa) << (52 - kMantissaBits));
  }

  __host__ __device__ static double round(double x) {
    double const rounded = round_to_format(x, kMantissaBits, kMinExponent);
    if (!(fabs(rounded) > largest())) {
      return rounded;  // NaN returns here
    }
    double const top = kTop == Top::kInfinity ? double_from_bits(0x7ff0000000000000ull) : largest();
    return x < 0 ? -top : top;
  }

  __host__ __device__ static Storage store(double x) {
    double const value = round(x);
    uint64_t const wide = bits_from_double(value);
    int const sign = static_cast<int>(wide >> 63) << kSignShift;
    int const exponent = static_cast<int>((wide >> 52) & 0x7ff) - 1023;
    if (value != value) { return static_cast<Storage>(kTopExponent << kMantissaBits | kMantissaMask); }
    if (exponent == 1024) { return static_cast<Storage>(sign | kTopExponent << kMantissaBits); }
    if (exponent < kMinExponent) {
      return static_cast<Storage>(sign | static_cast<int>(fabs(value) * power_of_two(kMantissaBits - kMinExponent)));
    }
    int const mantissa = static_cast<int>(wide >> (52 - kMantissaBits)) & kMantissaMask;
    return static_cast<Storage>(sign | (exponent + kBias) << kMantissaBits | mantissa);
  }
};

/// kBits_: of a type that fills its storage in part, fewer than that has.
template <class Int, int kBits_ = 8 * sizeof(Int)>
struct Integer {
  using Storage = Int;
  static constexpr bool kInteger = true;
  static constexpr bool kSigned = std::is_signed<Int>::value;
  static constexpr unsigned char kPoisonByte = 0xa5;
  static constexpr int kBits = kBits_;
  static constexpr double kSmallest = kSigned ? -static_cast<double>(1ull << (kBits - 1)) : 0.0;
  static constexpr double kLargest = static_cast<double>((1ull << (kSigned ? kBits - 1 : kBits)) - 1);
  static constexpr double kUnitRoundoff = 0.0;
  static constexpr double kExactIntegerLimit = kLargest;

  __host__ __device__ static double load(Storage value) { return static_cast<double>(value); }
  __host__ __device__ static double round(double x) {
    if (x != x) { return 0.0; }
    double const nearest = rint(x);
    return nearest < kSmallest ? kSmallest : nearest > kLargest ? kLargest : nearest;
  }
  __host__ __device__ static Storage store(double x) { return static_cast<Storage>(round(x)); }
};

struct f16 : SmallFloat<uint16_t, 5, 10, Top::kInfinity> {
  static constexpr char const* kWord = "f16";
};
struct bf16 : SmallFloat<uint16_t, 8, 7, Top::kInfinity> {
  static constexpr char const* kWord = "bf16";
};
struct e4m3 : SmallFloat<uint8_t, 4, 3, Top::kSaturateExtended> {
  static constexpr char const* kWord = "e4m3";
};
struct e5m2 : SmallFloat<uint8_t, 5, 2, Top::kSaturateIeee> {
  static constexpr char const* kWord = "e5m2";
};

struct f32 {
  using Storage = float;
  static constexpr char const* kWord = "f32";
  static constexpr bool kInteger = false;
  static constexpr bool kSigned = true;
  static constexpr unsigned char kPoisonByte = 0xff;
  static constexpr double kUnitRoundoff = 1.0 / (1 << 24);
  static constexpr double kExactIntegerLimit = 1 << 24;
  __host__ __device__ static double load(Storage value) { return value; }
  __host__ __device__ static double round(double x) { return static_cast<float>(x); }
  __host__ __device__ static Storage store(double x) { return static_cast<float>(x); }
};

/// Kept in a float whose low 13 mantissa bits are zero: the tensor core ignores those bits, a reference does not.
struct tf32 : f32 {
  static constexpr char const* kWord = "tf32";
  static constexpr double kUnitRoundoff = 1.0 / (1 << 11);
  static constexpr double kExactIntegerLimit = 1 << 11;
  __host__ __device__ static double round(double x) {
    return static_cast<float>(round_to_format(x, 10, -126));  // exact, or overflow to infinity
  }
  __host__ __device__ static Storage store(double x) { return static_cast<float>(round(x)); }
};

struct f64 {
  using Storage = double;
  static constexpr char const* kWord = "f64";
  static constexpr bool kInteger = false;
  static constexpr bool kSigned = true;
  static constexpr unsigned char kPoisonByte = 0xff;
  static constexpr double kUnitRoundoff = 1.0 / (1ull << 53);
  static constexpr double kExactIntegerLimit = 1ull << 53;
  __host__ __device__ static double load(Storage value) { return value; }
  __host__ __device__ static double round(double x) { return x; }
  __host__ __device__ static Storage store(double x) { return x; }
};

/// complex<double>: two f64, the real part first. What f64 has is that of a part.
struct c64 : f64 {
  struct Storage {
    double part[2];
  };
  static constexpr char const* kWord = "c64";
};

struct s8 : Integer<int8_t> {
  static constexpr char const* kWord = "s8";
};
struct u8 : Integer<uint8_t> {
  static constexpr char const* kWord = "u8";
};
struct s16 : Integer<int16_t> {
  static constexpr char const* kWord = "s16";
};
struct u16 : Integer<uint16_t> {
  static constexpr char const* kWord = "u16";
};
struct s32 : Integer<int32_t> {
  static constexpr char const* kWord = "s32";
};

/// Real numbers of an element.
template <class T>
inline constexpr int kPartsOf = 1;
template <>
inline constexpr int kPartsOf<c64> = 2;

/// One of them; 0 is the real part.
template <class T>
__host__ __device__ double part_of(typename T::Storage const& element, int64_t part) {
  if constexpr (kPartsOf<T> == 1) {
    return T::load(element);
  } else {
    return element.part[part];
  }
}

template <class T>
inline constexpr bool is_fp8 = std::is_same<T, e4m3>::value || std::is_same<T, e5m2>::value;

}  // namespace v0_1
}  // namespace mmagen::test
