// Prefix sums and maxima over the lanes of a warp.
#pragma once

#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {
namespace detail {

inline constexpr unsigned kAllLanes = 0xffffffff;

/// The sum of `value` over this lane and those before it.
CUTE_DEVICE unsigned prefix_sum(unsigned value, int lane) {
  CUTE_UNROLL
  for (int step = 1; step < 32; step *= 2) {
    unsigned const before = __shfl_up_sync(kAllLanes, value, unsigned(step));
    if (lane >= step) { value += before; }
  }
  return value;
}

/// The maximum of `value` over this lane and those before it.
CUTE_DEVICE int prefix_max(int value, int lane) {
  CUTE_UNROLL
  for (int step = 1; step < 32; step *= 2) {
    int const before = __shfl_up_sync(kAllLanes, value, unsigned(step));
    if (lane >= step && before > value) { value = before; }
  }
  return value;
}

}  // namespace detail
}  // namespace v0_1
}  // namespace mmagen
