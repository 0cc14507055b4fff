// SPDX-License-Identifier: MIT-0
// What several samples of a time come to. Host only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace mmagen::test {
inline namespace v0_1 {

struct Timing {
  double ms_median = NAN, ms_min = NAN, ms_max = NAN;
};

inline Timing summarize(std::vector<double> samples) {
  if (samples.empty()) { return {}; }
  std::sort(samples.begin(), samples.end());
  std::size_t const half = samples.size() / 2;
  double const median = samples.size() % 2 == 1 ? samples[half] : 0.5 * (samples[half - 1] + samples[half]);
  return {median, samples.front(), samples.back()};
}

}  // namespace v0_1
}  // namespace mmagen::test
