// SPDX-License-Identifier: MIT-0
// The order of candidates that are timed together. Host only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace mmagen::test {
inline namespace v0_1 {

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

}  // namespace v0_1
}  // namespace mmagen::test
