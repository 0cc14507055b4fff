// SPDX-License-Identifier: MIT-0
// Seeded random and exact inputs: how large they may be, and their values.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "buffers.cuh"
#include "error_bound.cuh"
#include "record.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

// --- ranges ---
// How large random inputs may be. Host only.
//
// Small integers: a correct kernel has no rounding error before its last step. Every partial sum, in whatever order the
// kernel adds, is an integer of magnitude at most sum|a||b|. If that stays within what the accumulator holds exactly, and
// alpha*sum + beta*c within what the scalar type holds exactly, the only rounding left is the one to the output type, and
// the comparison can ask for equality. A single missing or doubled product is then detected. Odd rows of A and B are
// positive: where both meet, sums are as long as they may be, and an accumulator of fewer bits is detected.
//
// Uniform: within 1 or a type's whole range, or less where results would leave the output type's range.

struct SmallIntRule {
  int range_a = 1, range_b = 1;  ///< entries of A and B are non-zero, -range .. range (1 .. range where unsigned)
  int64_t group = 1;             ///< A has one non-zero entry in every `group` neighbours along K; 1: no zeros at all
  int c_range = 4;               ///< entries of C, likewise
  bool exact = true;             ///< false: alpha and beta make exact arithmetic impossible, use the bound
};

struct UniformRule {
  double reach = 1.0;  ///< entries are within +-reach, an integer where they are, or 0 .. reach
  int64_t group = 1;   ///< as SmallIntRule's
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

inline double mean_square(int range) { return (range + 1) * (2 * range + 1) / 6.0; }

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

  // Larger entries detect more faults, as long as a typical sum (a random walk of K steps) keeps its last
  // integer digit in the output type.
  constexpr int kPairs[][2] = {{4, 4}, {3, 3}, {2, 2}, {2, 1}, {1, 1}};
  for (auto const& [range_a, range_b] : kPairs) {
    rule.range_a = range_a;
    rule.range_b = range_b;
    double const typical = std::sqrt(static_cast<double>(k) * mean_square(range_a) * mean_square(range_b));
    bool const fits =
        static_cast<double>(k) * range_a * range_b <= limit && typical * std::max(std::abs(alpha), 1.0) <= limits.out / 2;
    // Ones alone would make all sums of positive entries equal, which hides roundings: rather leave out entries.
    if (fits || (range_a == 2 && range_b == 1 && limit >= 2.0)) { break; }
  }
  double const products = std::floor(limit / (rule.range_a * rule.range_b));
  rule.group = std::max<int64_t>(1, static_cast<int64_t>(std::ceil(k / products)));
  return rule;
}

/// The largest magnitude that is not infinite, or infinity for types that hold whatever a problem makes.
template <class T>
double largest_value() {
  if constexpr (T::kInteger) {
    return T::kLargest;
  } else if constexpr (std::is_same_v<T, f16> || is_fp8<T>) {
    return T::largest();
  } else {
    return INFINITY;
  }
}

/// positive: odd rows of A and B are.
template <class A, class B, class Out>
UniformRule uniform_rule(int64_t k, double alpha, bool positive) {
  UniformRule rule;
  double const length = static_cast<double>(k);
  bool const one_sign = positive || (!A::kSigned && !B::kSigned);
  double const typical = std::abs(alpha) * (one_sign ? length / 4 : 2 * std::sqrt(length));
  double const room = typical == 0.0 ? INFINITY : std::sqrt(largest_value<Out>() / 2 / typical);
  if constexpr (A::kInteger) {
    rule.reach = std::max(1.0, std::floor(std::min(room, std::min(largest_value<A>(), largest_value<B>()))));
    if (room < 1.0) { rule.group = static_cast<int64_t>(std::ceil(1 / (room * room))); }
  } else if (std::isfinite(room)) {
    rule.reach = std::exp2(std::min(0.0, std::floor(std::log2(room))));
  }
  return rule;
}

/// The inputs of a problem.
struct Draw {
  Distribution distribution = Distribution::kZeros;
  double reach_a = 1.0, reach_b = 1.0;  ///< the largest magnitudes of A and B
  double reach_c = 4.0;
  int64_t group = 1;
  bool positive = false;  ///< odd rows of A and B have no negative entries
  bool exact = true;      ///< results must be equal
  double scale = 1.0;     ///< the largest scale, a power of two, of operands of small integers that have scales
};

/// The largest power of two up to 4 by which both operands of small integers may be scaled: every sum stays exact, and within
/// what D holds.
template <class Subject>
double exact_scale(Problem const& problem, SmallIntRule const& rule) {
  double const alpha = std::abs(Subject::Scalar::round(problem.alpha));
  double const beta = std::abs(Subject::Scalar::round(problem.beta));
  double const unit = std::exp2(std::max(std::max(fraction_bits(alpha), fraction_bits(beta)), 0));
  ExactLimits const limits = exact_limits<Subject>();
  double const largest = std::min(static_cast<double>(problem.k) * rule.range_a * rule.range_b, limits.accumulator);
  for (double scale = 4.0; scale > 1.0; scale /= 2) {
    double const sums = scale * scale * largest;
    double const result = sums * alpha + beta * rule.c_range;
    if (result * unit <= limits.scalar && result <= largest_value<typename Subject::Out>() && sums <= f32::kExactIntegerLimit) {
      return scale;
    }
  }
  return 1.0;
}

/// For integers: uniform entries of C, which may be wider than A and B, stay away from overflow.
template <class Out>
double reach_of_c() {
  return Out::kInteger ? std::min(largest_value<Out>(), 1048576.0) : 1.0;
}

/// The inputs of a problem. Uniform ones are positive in part where sums are promoted: sums that are not lose more then.
template <class Subject>
Draw draw_of(Problem const& problem, Distribution distribution) {
  Draw draw;
  draw.distribution = distribution;
  if (distribution == Distribution::kZeros) { return draw; }
  int64_t const products = problem.k * kPartsOf<typename Subject::A>;  // of a sum of real numbers
  if (distribution == Distribution::kSmallInt) {
    SmallIntRule const rule = small_int_rule(products, Subject::Scalar::round(problem.alpha),
                                             Subject::Scalar::round(problem.beta), exact_limits<Subject>());
    draw.reach_a = rule.range_a;
    draw.reach_b = rule.range_b;
    draw.reach_c = rule.c_range;
    draw.group = rule.group;
    draw.positive = true;
    draw.exact = rule.exact;
    draw.scale = exact_scale<Subject>(problem, rule);
    return draw;
  }
  draw.positive = Subject::kAccumulation.promoted != 0;
  UniformRule const rule = uniform_rule<typename Subject::A, typename Subject::B, typename Subject::Out>(
      products, Subject::Scalar::round(problem.alpha), draw.positive);
  draw.reach_a = draw.reach_b = rule.reach;
  draw.reach_c = reach_of_c<typename Subject::Out>();
  draw.group = rule.group;
  draw.exact = false;
  return draw;
}

// --- values ---
// Random inputs, made on the device. An element's value depends on (seed, tensor, row, column, batch) only, not on
// its address: the same problem in another layout or with other leading dimensions has the same numbers.

struct Fill {
  Distribution distribution = Distribution::kUniform;
  double reach = 1.0;     ///< the largest magnitude
  int64_t group = 1;      ///< one non-zero entry in so many; along the columns, so for A it is along K
  bool positive = false;  ///< odd rows have no negative entries
  uint64_t seed = 0;      ///< differs for A, B and C
};

/// Floats in [-reach, reach]; integers -reach .. reach or, unsigned, 0 .. reach.
template <class T>
__host__ __device__ double uniform(uint64_t random, double reach) {
  if constexpr (T::kInteger) {
    uint64_t const numbers = static_cast<uint64_t>(T::kSigned ? 2 * reach + 1 : reach + 1);
    return static_cast<double>((random >> 32) % numbers) - (T::kSigned ? reach : 0.0);
  } else {
    int64_t const steps = static_cast<int64_t>(random >> 10) - (int64_t{1} << 53);
    return static_cast<double>(steps) * power_of_two(-53) * reach;
  }
}

/// Never zero, except where the fill's group asks for it.
template <class T>
__host__ __device__ double small_int(uint64_t random, int range) {
  int const draw = static_cast<int>((random >> 32) % static_cast<uint64_t>(T::kSigned ? 2 * range : range));
  return T::kSigned && draw < range ? draw - range : (T::kSigned ? draw - range : draw) + 1;
}

template <class T>
__host__ __device__ double draw(Fill const& fill, Matrix const& matrix, int64_t row, int64_t col, int64_t b) {
  if (fill.distribution == Distribution::kZeros) { return 0.0; }
  uint64_t const line = splitmix64(fill.seed + static_cast<uint64_t>(b * matrix.rows + row));
  uint64_t const random = splitmix64(line + static_cast<uint64_t>(col));
  if (fill.group > 1) {
    uint64_t const chosen = splitmix64(~line + static_cast<uint64_t>(col / fill.group));
    if (col % fill.group != static_cast<int64_t>(chosen % static_cast<uint64_t>(fill.group))) { return 0.0; }
  }
  double const value = fill.distribution == Distribution::kUniform ? uniform<T>(random, fill.reach)
                                                                   : small_int<T>(random, static_cast<int>(fill.reach));
  return fill.positive && row % 2 != 0 ? fabs(value) : value;
}

/// matrix: (rows,cols,batch); memory between its rows is not written.
template <class T>
__global__ void fill_kernel(Matrix matrix, Fill fill) {
  auto* const data = static_cast<typename T::Storage*>(matrix.data);
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < matrix.elements(); i += stride) {
    int64_t const inner = i % matrix.inner();
    int64_t const outer = i / matrix.inner() % matrix.outer();
    // Of a matrix that all batches share, every one writes the same.
    int64_t const b = matrix.batch_stride == 0 ? 0 : i / (matrix.inner() * matrix.outer());
    int64_t const row = matrix.cols_contiguous ? outer : inner;
    int64_t const col = matrix.cols_contiguous ? inner : outer;
    typename T::Storage& element = data[matrix.offset(row, col, b)];
    if constexpr (kPartsOf<T> == 1) {
      element = T::store(draw<T>(fill, matrix, row, col, b));
    } else {
      for (int part = 0; part < kPartsOf<T>; ++part) {
        element.part[part] = draw<T>(fill, matrix, row, col * kPartsOf<T> + part, b);
      }
    }
  }
}

template <class T>
void fill_matrix(Matrix const& matrix, Fill const& fill, cudaStream_t stream) {
  fill_kernel<T><<<blocks_for(matrix.elements()), kThreads, 0, stream>>>(matrix, fill);
  check(cudaGetLastError(), "launching fill_kernel");
}

}  // namespace v0_1
}  // namespace mmagen::test
