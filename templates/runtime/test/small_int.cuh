// Inputs for which a correct kernel has no rounding error before its last step: small integers, with a rule that
// says how small. Host only.
//
// Every partial sum, in whatever order the kernel adds, is an integer of magnitude at most sum|a||b|. If that stays
// within what the accumulator holds exactly, and alpha*sum + beta*c within what the scalar type holds exactly, the
// only rounding left is the one to the output type, and the comparison can ask for equality. A single missing or
// doubled product then shows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

struct SmallIntRule {
  int range = 1;      ///< entries of A and B are non-zero, -range .. range (1 .. range where unsigned)
  int64_t group = 1;  ///< A has one non-zero entry in every `group` neighbours along K; 1: no zeros at all
  int c_range = 4;    ///< entries of C, as `range`
  bool exact = true;  ///< false: alpha and beta leave no exact arithmetic, judge by the bound
};

/// Up to these magnitudes every integer is exact.
struct ExactLimits {
  double accumulator, scalar, out;
};

/// Hopper's fp8 tensor cores align the addends of an instruction to the largest and keep 13 bits below its leading
/// one, although the accumulator is an f32.
inline constexpr double kFp8AlignmentBits = 13;

template <class A, class B, class Acc>
double exact_accumulator_limit() {
  double const limit = Acc::kExactIntegerLimit;
  return is_fp8<A> || is_fp8<B> ? std::min(limit, std::exp2(kFp8AlignmentBits)) : limit;
}

template <class Subject>
ExactLimits exact_limits() {
  return {exact_accumulator_limit<typename Subject::A, typename Subject::B, typename Subject::Acc>(),
          Subject::Scalar::kExactIntegerLimit, Subject::Out::kExactIntegerLimit};
}

/// The smallest q <= 10 for which x * 2^q is an integer; -1 if there is none.
inline int fraction_bits(double x) {
  for (int q = 0; q <= 10; ++q) {
    double const scaled = std::ldexp(x, q);
    if (scaled == std::floor(scaled)) { return q; }
  }
  return -1;
}

inline SmallIntRule small_int_rule(int64_t k, double alpha, double beta, ExactLimits const& limits) {
  SmallIntRule rule;
  int const alpha_bits = fraction_bits(alpha);
  int const beta_bits = fraction_bits(beta);
  double const unit = std::exp2(std::max(std::max(alpha_bits, beta_bits), 0));  // alpha, beta: multiples of 1/unit
  double const room = limits.scalar - std::abs(beta) * unit * rule.c_range;     // for alpha * sum * unit
  double limit = limits.accumulator;
  if (alpha != 0.0) { limit = std::min(limit, std::floor(room / (std::abs(alpha) * unit))); }
  rule.exact = alpha_bits >= 0 && beta_bits >= 0 && room >= 0.0 && limit >= 1.0;
  if (!rule.exact) { limit = limits.accumulator; }

  // Larger entries tell more mistakes apart, as long as a typical sum (a random walk of K steps) keeps its last
  // integer digit in the output type.
  for (rule.range = 4; rule.range > 1; --rule.range) {
    double const r = rule.range;
    double const typical = std::sqrt(static_cast<double>(k)) * (r + 1) * (2 * r + 1) / 6;
    if (k * r * r <= limit && typical * std::max(std::abs(alpha), 1.0) <= limits.out / 2) { break; }
  }
  double const products = std::floor(limit / (rule.range * rule.range));
  rule.group = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(k / products)));
  return rule;
}

}  // namespace v0_1
}  // namespace mmagen::test
