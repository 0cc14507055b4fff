// SPDX-License-Identifier: MIT-0
// What a right epilogue of operations may make of a sum: intervals in double, by the rules of docs/epilogue.md of mmagen.
// Written from the definitions of the functions; it shares no code with the kernel's epilogue_operations.cuh.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "compare.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

inline constexpr double kUnbounded = __builtin_huge_val();
inline constexpr double kReferenceError = 1.0 / (1ull << 50);                // relative, of a function in double
inline constexpr double kSmallestFloat = 1.0 / (1ull << 63) / (1ull << 63);  // 2^-126: what a flush to zero may lose

/// A value, and what a right kernel that computes in Scalar may have instead.
template <class Scalar>
struct Range {
  double low, expected, high;

  __host__ __device__ double size() const { return fmax(fabs(low), fabs(high)); }

  /// Widens by so many roundings; a value that is exact and needs none stays exact. more: magnitude of other terms.
  __host__ __device__ void round(double roundings, double more = 0.0) {
    if (Scalar::kInteger) {
      low = expected = high = wrapped_s32(static_cast<uint64_t>(static_cast<int64_t>(expected)));
      return;
    }
    if (low == high && Scalar::kUnitRoundoff > kRoundoffF64 && Scalar::round(expected) == expected) { return; }
    double const step = growth(Scalar::kUnitRoundoff, roundings) + kRoundoffF64 * 2;
    double const slack = step * (size() + more) + kSmallestFloat;
    low -= slack;
    high += slack;
  }
  __host__ __device__ void scale(double factor) {
    double const x = low * factor;
    double const y = high * factor;
    *this = {fmin(x, y), expected * factor, fmax(x, y)};
    round(1);
  }
  __host__ __device__ void add(double other, double roundings = 1) {
    *this = {low + other, expected + other, high + other};
    round(roundings, roundings > 1 ? fabs(other) : 0.0);
  }
  __host__ __device__ void clamp(double least, double most) {
    auto const within = [=](double x) { return x < least ? least : x > most ? most : x; };
    *this = {within(low), within(expected), within(high)};
  }
};

namespace model {

template <class T>
__host__ __device__ double element(Matrix const& matrix, int64_t row, int64_t col, int64_t batch) {
  return T::load(static_cast<typename T::Storage const*>(matrix.data)[matrix.offset(row, col, batch)]);
}

__host__ __device__ inline double sigmoid(double x) {
  double const power = exp(-fabs(x));
  return (x >= 0 ? 1.0 : power) / (1.0 + power);
}

struct Alpha {
  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const& at) {
    x.scale(at.alpha);
  }
};

struct BetaC {
  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const& at) {
    if (at.beta != 0.0) { x.add(at.beta * at.c, 2); }
  }
};

/// kRow: a value for each row of D, else for each column. kWhich: of the further tensors.
template <class T, int kWhich, bool kRow>
struct Bias {
  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const& at) {
    x.add(element<T>(at.further[kWhich], 0, kRow ? at.row : at.col, at.batch));
  }
};

template <class T, int kWhich>
struct Add {
  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const& at) {
    x.add(element<T>(at.further[kWhich], at.row, at.col, at.batch));
  }
};

template <class T, int kWhich>
struct Multiply {
  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const& at) {
    x.scale(element<T>(at.further[kWhich], at.row, at.col, at.batch));
  }
};

/// Bits of numbers without sign are in the order of the numbers.
template <int kWhich>
struct Amax {
  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const& at) {
#if defined(__CUDA_ARCH__)
    double const sizes[] = {fmax(fmax(x.low, -x.high), 0.0), fabs(x.expected), x.size()};
    for (int i = 0; i < 3; ++i) { atomicMax(at.gathered + 3 * kWhich + i, bits_from_double(sizes[i])); }
#endif
  }
};

/// Of rows of the sums of products, else of columns. Terms that are multiples of 1/16 are exact while their sum is small.
template <int kWhich, bool kRow>
struct Sums {
  static constexpr unsigned kLineSums = 1u << kWhich;

  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const& at) {
#if defined(__CUDA_ARCH__)
    Matrix const& lines = at.further[kWhich];
    int64_t const batch = lines.batch > 1 ? at.batch : 0;
    LineSum& line = at.line_sums[kWhich][batch * lines.cols + (kRow ? at.row : at.col)];
    atomicAdd(&line.low, x.low);
    atomicAdd(&line.expected, x.expected);
    atomicAdd(&line.high, x.high);
    atomicAdd(&line.magnitude, x.size());
    bool const exact = x.low == x.high && rint(16 * x.expected) == 16 * x.expected;
    atomicAdd(&line.inexact, exact ? 0.0 : 1.0);
#endif
  }
};

/// The bits of the tensors that an operation adds to.
template <class Operation, class = void>
inline constexpr unsigned kLineSumsOf = 0u;
template <class Operation>
inline constexpr unsigned kLineSumsOf<Operation, std::void_t<decltype(Operation::kLineSums)>> = Operation::kLineSums;

struct Relu {
  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const&) {
    x.clamp(0.0, kUnbounded);
  }
};

template <class Limits>
struct Clamp {
  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const&) {
    x.clamp(Scalar::round(Limits::kLeast), Scalar::round(Limits::kMost));
  }
};

/// The largest finite value of D's type Out.
template <class Out>
struct Saturate {
  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const&) {
    double const most = std::is_same_v<Out, f16>
                            ? 65504.0
                            : (2.0 - (std::is_same_v<Out, bf16> ? 1.0 / 128 : 1.0 / (1 << 23))) * power_of_two(127);
    x.clamp(-most, most);
  }
};

/// A function that decreases up to Function::kLeast, if that is one, and increases from there. own: how far a kernel's value
/// for an exact argument may be from it.
template <class Function>
struct Apply {
  template <class Scalar>
  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const&) {
    double const first = Function::of(x.low);
    double const last = Function::of(x.high);
    double low = fmin(first, last);
    double const high = fmax(first, last);
    if (x.low < Function::kLeast && Function::kLeast < x.high) { low = Function::of(Function::kLeast); }
    double const size = x.size();
    double const largest = fmax(fabs(low), fabs(high));
    double const slack = Function::own(size, largest, Scalar::kUnitRoundoff) + kReferenceError * size;
    x = {low - slack, Function::of(x.expected), high + slack};
  }
};

/// exp in float: the rounding of its argument grows with it, up to where exp is infinite or zero.
__host__ __device__ inline double of_exp(double argument, double x, double value, double roundoff) {
  return value * (4 * fmin(argument, 128.0) + 24) * roundoff + kSmallestFloat * (1 + x);
}

struct SigmoidFunction {
  static constexpr double kLeast = -kUnbounded;
  __host__ __device__ static double of(double x) { return sigmoid(x); }
  __host__ __device__ static double own(double x, double value, double roundoff) { return of_exp(x, x, value, roundoff); }
};

struct SiluFunction {
  static constexpr double kLeast = -1.2784645428;
  __host__ __device__ static double of(double x) { return x * sigmoid(x); }
  __host__ __device__ static double own(double x, double value, double roundoff) { return of_exp(x, x, value, roundoff); }
};

/// kDegree: of the kernel's polynomial, 6 where D needs the precision of float.
template <int kDegree>
struct GeluErfFunction {
  static constexpr double kLeast = -0.7517916243;
  __host__ __device__ static double of(double x) { return 0.5 * x * erfc(-x / 1.4142135623730951); }
  __host__ __device__ static double own(double x, double value, double roundoff) {
    double const of_value = kDegree == 4 ? 6.5e-4 : kDegree == 5 ? 6e-5 : 0.0;
    double const of_argument = kDegree == 4 ? 1.0 / (1 << 24) : kDegree == 5 ? 1.0 / (1 << 28) : 0.0;
    return of_value * value + (of_argument + 6 * roundoff) * x + kSmallestFloat;
  }
};

struct GeluTanhFunction {
  static constexpr double kLeast = -0.7524614221;
  __host__ __device__ static double of(double x) { return x * sigmoid(2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)); }
  __host__ __device__ static double own(double x, double value, double roundoff) {
    return of_exp(1.6 * x * (1 + 0.08 * x * x), x, value, roundoff);
  }
};

using Sigmoid = Apply<SigmoidFunction>;
using Silu = Apply<SiluFunction>;
template <int kDegree>
using GeluErf = Apply<GeluErfFunction<kDegree>>;
using GeluTanh = Apply<GeluTanhFunction>;

}  // namespace model

/// D = the operations on a sum, in order; in the place of LinearCombinationModel.
template <class Scalar_, class... Operations>
struct OperationsModel {
  using Scalar = Scalar_;
  static constexpr int kSumsOfElement = 1;
  static constexpr bool kAlpha = (std::is_same_v<Operations, model::Alpha> || ...);
  static constexpr unsigned kLineSums = (model::kLineSumsOf<Operations> | ... | 0u);

  __host__ __device__ static void apply(Range<Scalar>& x, ModelPlace const& at) { (Operations::apply(x, at), ...); }

  /// Of one sum.
  __host__ __device__ static Range<Scalar> range(ErrorModel const& model, double sum, double drift, ModelPlace const& at) {
    if (model.integer_accumulator) { sum = wrapped_s32(static_cast<uint64_t>(static_cast<int64_t>(sum))); }
    double const far = model.exact_sums ? 0.0 : drift;
    Range<Scalar> x = {sum - far, sum, sum + far};
    if (model.integer_accumulator) { x.round(1); }  // to a float
    apply(x, at);
    return x;
  }
  template <class Out>
  __host__ __device__ static Interval interval(ErrorModel const& model, double const* sum, double const* drift,
                                               ModelPlace const& at) {
    Range<Scalar> const x = range(model, *sum, *drift, at);
    return {Out::round(x.low), Out::round(x.expected), Out::round(x.high)};
  }
  /// What errors are relative to.
  __host__ __device__ static double size(ErrorModel const&, double, double, Interval const& may) {
    return fmax(fabs(may.low), fabs(may.high));
  }
};

/// D = Behind(Gate(x) * y) of x in an even column and y in the next one, each what Before makes of its sum.
template <class Gate, class Behind, class Before>
struct GatedModel : Before {
  using Scalar = typename Before::Scalar;
  static constexpr int kSumsOfElement = 2;

  template <class Out>
  __host__ __device__ static Interval interval(ErrorModel const& model, double const* sum, double const* drift, ModelPlace at) {
    at.col *= 2;
    Range<Scalar> x = Before::range(model, sum[0], drift[0], at);
    ++at.col;
    Range<Scalar> const y = Before::range(model, sum[1], drift[1], at);
    Gate::apply(x, at);
    double const ends[] = {x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high};
    Range<Scalar> z = {fmin(fmin(ends[0], ends[1]), fmin(ends[2], ends[3])), x.expected * y.expected,
                       fmax(fmax(ends[0], ends[1]), fmax(ends[2], ends[3]))};
    z.round(1);
    Behind::apply(z, at);
    return {Out::round(z.low), Out::round(z.expected), Out::round(z.high)};
  }
};

}  // namespace v0_1
}  // namespace mmagen::test
