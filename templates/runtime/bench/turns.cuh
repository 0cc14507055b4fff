// Candidates that are timed together: their order, and which is the fastest. Host only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

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

/// Medians of `rounds` samples of each candidate, one in each round. sample_ms(i) measures candidate i.
template <class Sample>
std::vector<double> medians_in_turns(std::size_t count, int rounds, uint64_t seed, Sample const& sample_ms) {
  Shuffler shuffler(seed);
  std::vector<std::vector<double>> samples(count);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t const i : shuffler.order(count)) { samples[i].push_back(sample_ms(i)); }
  }
  std::vector<double> medians;
  for (std::vector<double>& of : samples) {
    std::sort(of.begin(), of.end());
    medians.push_back((of[(of.size() - 1) / 2] + of[of.size() / 2]) / 2);
  }
  return medians;
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
