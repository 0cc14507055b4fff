// SPDX-License-Identifier: MIT-0
// How narrow the tiles of a launch can be so that they fill waves better.
#pragma once

#include <cstdint>

namespace mmagen {
inline namespace v0_1 {

namespace detail {

// Without a call into libm, of which the choice of a kernel would make hundreds; numbers that are so large are whole.
constexpr double whole_down(double x) { return x < 4e15 ? double(int64_t(x)) : x; }  // x >= 0
constexpr double whole_up(double x) {
  double const down = whole_down(x);
  return down < x ? down + 1 : down;
}

/// With more waves, narrower tiles save too little of the last one.
inline constexpr double kMostNarrowedWaves = 16;

}  // namespace detail

/// Narrower tiles may replace `across` x `along` whole ones without a further wave if no more than this many lie along the mode
/// in which they are narrower. resident: tiles that are computed at once. All are whole numbers from 1; doubles, so that no
/// product overflows.
constexpr double most_tiles_along(double across, double along, double resident) {
  double const waves = detail::whole_up(across * along / resident);
  return waves > detail::kMostNarrowedWaves ? along : detail::whole_down(waves * resident / across);
}

}  // namespace v0_1
}  // namespace mmagen
