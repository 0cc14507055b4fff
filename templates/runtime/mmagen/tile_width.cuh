// How many narrower tiles need no more waves than whole ones.
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

/// With more waves, tiles could be narrower by at most 1/16.
inline constexpr double kMostNarrowedWaves = 16;

}  // namespace detail

/// The most narrower tiles along their mode that need no more waves than `across` x `along` whole ones; `along` if these are
/// more than 16 waves. resident: tiles that are computed at once. All are integers from 1, as doubles so that no product
/// overflows.
constexpr double most_tiles_along(double across, double along, double resident) {
  double const waves = detail::whole_up(across * along / resident);
  return waves > detail::kMostNarrowedWaves ? along : detail::whole_down(waves * resident / across);
}

}  // namespace v0_1
}  // namespace mmagen
