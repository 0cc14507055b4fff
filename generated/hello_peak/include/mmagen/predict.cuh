// SPDX-License-Identifier: MIT-0
// Predicts what a loop leaves in its accumulators, and checks it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "measure.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace peak {

/// The words that repeat in a thread's accumulators when all elements are `value`.
inline std::vector<uint32_t> words_of_constant(Element accumulator, uint32_t value) {
  uint32_t const exponent = value == 0 ? 0 : 31 - __builtin_clz(value);
  uint32_t const half = value == 0 ? 0 : (exponent + 15) << 10 | ((value << 10 >> exponent) & 0x3ff);
  float const single = float(value);
  double const twice = double(value);
  uint32_t word = value, words[2];
  std::memcpy(words, &twice, sizeof twice);
  switch (accumulator) {
    case Element::kF16: return {half * 0x10001u};
    case Element::kF32: std::memcpy(&word, &single, sizeof word); return {word};
    case Element::kF64: return {words[0], words[1]};
    case Element::kC64: return {words[0], words[1], 0, 0};  // inputs without imaginary parts
    case Element::kGauss: return {words[0], words[1], 0, 0, words[0], words[1]};
    default: return {value};
  }
}

inline uint32_t digest_of_constant(Entry const& entry, int accumulators, uint32_t value) {
  std::vector<uint32_t> const words = words_of_constant(entry.accumulator, value);
  uint32_t digest = 0;
  for (uint32_t i = 0; i < uint32_t(accumulators * entry.accumulator_words); ++i) {
    digest += words[i % words.size()] * (2 * i + 1);
  }
  return digest;
}

/// Two blocks of ones: every element must be the number of products added to it.
inline std::string check_ones(Runner const& runner, Configuration const& c) {
  Entry const& entry = runner.entry();
  constexpr int kBlocks = 2;
  runner.fill(c, {false, 1, 1}, {false, 1, entry.exclusive_or ? 0 : 1}, false);
  runner.run(c, runner.arguments(kBlocks), 1);
  uint32_t const wanted = digest_of_constant(entry, c.accumulators, uint32_t(entry.products) * c.steps * kBlocks);
  std::vector<uint32_t> const found = runner.digests(c);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != wanted) {
      return "with ones, thread " + std::to_string(i) + " has other sums than " +
             std::to_string(entry.products * c.steps * kBlocks);
    }
  }
  return "";
}

/// What a warp, or the threads of a wgmma, that has a multiprocessor for itself waits for one instruction, in cycles: until
/// its sums can be read, or the next one that adds to them begins; and until another one begins.
struct Single {
  double latency = NAN, interval = NAN;
};

/// Measures both on ones, and checks the sums of wgmma, whose loop is another one then.
inline Single single(Runner const& runner) {
  constexpr int kAlone = 128, kBlocks = 257;  // multiples of products up to 128 times are exact in every accumulator
  Entry const& entry = runner.entry();
  auto const cycles = [&](Configuration const& c, LoopArguments const& arguments) {
    runner.run(c, arguments, 1);  // loads the instructions
    return runner.run(c, arguments, 1).cycles;
  };
  Single found;
  for (Variant const& variant : entry.variants) {
    Configuration const c{std::max(1, entry.threads / 32), variant.accumulators, variant.steps, variant.kernel};
    runner.fill(c, {false, 1, 1}, {false, 1, entry.exclusive_or ? 0 : 1}, false);
    double const each = cycles(c, runner.arguments(kBlocks)) / (double(kBlocks) * c.steps * c.accumulators);
    found.interval = std::fmin(found.interval, each);
    if (c.accumulators > 1) { continue; }
    found.latency = each;
    if (entry.words_b > 0) { continue; }
    LoopArguments alone = runner.arguments(kAlone);
    alone.alone = 1;
    found.latency = cycles(c, alone) / kAlone;
    std::vector<uint32_t> const sums = runner.digests(c);
    uint32_t const wanted = digest_of_constant(entry, 1, uint32_t(entry.products) * kAlone);
    if (std::any_of(sums.begin(), sums.end(), [&](uint32_t sum) { return sum != wanted; })) {
      throw test::Failure{test::Disposition::kIncorrect, "one instruction after the other has wrong sums"};
    }
  }
  return found;
}

/// Sums of one block of the operands as they are, for `check_sums`.
inline std::vector<uint32_t> sums_of_one_block(Runner const& runner, Configuration const& c) {
  runner.run(c, runner.arguments(1), 1);
  return runner.digests(c);
}

/// After `blocks` blocks, an odd number: the sums of one block, `blocks` times them where sums grow, or the largest integer
/// where they saturate.
inline std::string check_sums(Runner const& runner, Configuration const& c, Inputs const& inputs,
                              std::vector<uint32_t> const& of_one, uint32_t blocks) {
  Entry const& entry = runner.entry();
  bool const zeros = !inputs.fill.random && inputs.fill.constant == 0;
  std::vector<uint32_t> const found = runner.digests(c);
  bool const saturates = entry.sums == Sums::kSaturate && (!inputs.fill.random || blocks > runner.exact_blocks(c));
  uint32_t any = 0;
  double const square = double(inputs.fill.constant) * inputs.fill.constant, most = 2147483647.0;
  uint32_t const saturated = uint32_t(inputs.fill.random ? most : std::min(most, square * entry.products * c.steps * blocks));
  for (std::size_t i = 0; i < found.size(); ++i) {
    any |= of_one[i];
    uint32_t wanted = of_one[i];
    if (entry.sums != Sums::kReturn) { wanted *= blocks; }
    if (saturates) { wanted = digest_of_constant(entry, c.accumulators, saturated); }
    if (found[i] != wanted) {
      return "after " + std::to_string(blocks) + " blocks the sums of thread " + std::to_string(i) +
             " are not those that one block predicts";
    }
  }
  return any == 0 && !zeros ? "all sums are zero" : "";
}

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
