// SPDX-License-Identifier: MIT-0
// Candidates that are timed together: their order, and which is the fastest. Host only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "timing.cuh"

namespace mmagen::test {
inline namespace v0_1 {

inline constexpr char const* kLtFirst = "cublasLt_first";  ///< cuBLASLt with its first heuristic
inline constexpr char const* kLtBest = "cublasLt_best8";   ///< with the fastest of its first eight

/// A new order of the candidates each time: what runs after a light kernel gets a higher clock.
class Shuffler {
 public:
  explicit Shuffler(uint64_t seed) : random_(seed) {}
  std::vector<std::size_t> order(std::size_t count) {
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) { order[i] = i; }
    for (std::size_t i = count; i > 1; --i) { std::swap(order[i - 1], order[random_() % i]); }
    return order;
  }

 private:
  std::mt19937_64 random_;
};

/// Medians of `rounds` samples, at least 1, of each candidate, one in each round. sample_ms(i) measures candidate i.
template <class Sample>
std::vector<double> medians_in_turns(std::size_t count, int rounds, uint64_t seed, Sample const& sample_ms) {
  Shuffler shuffler(seed);
  std::vector<std::vector<double>> samples(count);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t const i : shuffler.order(count)) { samples[i].push_back(sample_ms(i)); }
  }
  std::vector<double> medians;
  for (std::vector<double> const& of : samples) { medians.push_back(summarize(of).ms_median); }
  return medians;
}

/// The candidate with the lowest median, of those that may win and were not given up: these have as many samples as any. -1
/// if there is none.
inline int fastest_of(std::vector<std::vector<double>> const& samples, std::vector<bool> const& may_win) {
  std::size_t most = 1;
  for (std::vector<double> const& of : samples) { most = std::max(most, of.size()); }
  int best = -1;
  double least = INFINITY;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!may_win[i] || samples[i].size() < most) { continue; }
    double const median = summarize(samples[i]).ms_median;
    if (median < least) { best = static_cast<int>(i), least = median; }
  }
  return best;
}

/// The indices of `ms` in ascending order of their times.
inline std::vector<int> fastest_first(std::vector<double> const& ms) {
  std::vector<int> order(ms.size());
  for (std::size_t i = 0; i < ms.size(); ++i) { order[i] = static_cast<int>(i); }
  std::stable_sort(order.begin(), order.end(),
                   [&](int x, int y) { return ms[static_cast<std::size_t>(x)] < ms[static_cast<std::size_t>(y)]; });
  return order;
}

}  // namespace v0_1
}  // namespace mmagen::test
