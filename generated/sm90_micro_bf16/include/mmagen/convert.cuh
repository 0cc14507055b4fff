// SPDX-License-Identifier: MIT-0
// Conversion from the type in which alpha and beta are computed to the type of D: one rounding, to nearest even.
#pragma once

#include <cuda/std/cstdint>
#include <cuda/std/type_traits>
#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {

/// Floating-point targets round as their constructors do (fp8 saturates to the largest finite value); integers of fewer
/// than 32 bits saturate.
template <class To, class From>
CUTE_DEVICE To convert(From x) {
  using cuda::std::is_same_v;
  if constexpr (is_same_v<To, From>) {
    return x;
  } else if constexpr (is_same_v<From, float> && is_same_v<To, int8_t>) {
    int32_t y;
    asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(y) : "f"(x));
    return static_cast<int8_t>(y);
  } else if constexpr (is_same_v<From, float> && is_same_v<To, uint8_t>) {
    uint32_t y;
    asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(y) : "f"(x));
    return static_cast<uint8_t>(y);
  } else {
    return static_cast<To>(x);
  }
}

/// Saturates two integers to 8 bits. The results are those of convert<To>(float(x)).
template <class To>
CUTE_DEVICE void saturate_pair(To* to, int32_t first, int32_t second) {
  uint32_t pair;
  if constexpr (cuda::std::is_same_v<To, int8_t>) {
    asm("cvt.pack.sat.s8.s32.b32 %0, %1, %2, 0;" : "=r"(pair) : "r"(second), "r"(first));
  } else {
    static_assert(cuda::std::is_same_v<To, uint8_t>, "s8 or u8");
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, 0;" : "=r"(pair) : "r"(second), "r"(first));
  }
  to[0] = static_cast<To>(pair);
  to[1] = static_cast<To>(pair >> 8);
}

}  // namespace v0_1
}  // namespace mmagen
