// Compares D with the reference. Every element has its own bound, derived from the arithmetic.
//
// The kernel computes  d = round_out(alpha * acc + beta * c)  where acc is within `drift` (error_bound.cuh) of the exact
// sum. The epilogue rounds three times in the scalar's format: (1 + u_s)^3 - 1 times |alpha| * (|sum| + drift) + |beta * c|.
//
// Rounding is monotone, so every value within +-slack of the exact one rounds into
// [round_out(exact - slack), round_out(exact + slack)], half an ulp, overflow and saturation included. That interval is
// the test; it passes only when `low <= got && got <= high`, which NaN does not. Reported: err = |got - expected| and
// bound = the interval's reach on got's side. Exact problems (operands.cuh, zeros, integer arithmetic) have slack 0.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "buffers.cuh"
#include "error_bound.cuh"
#include "record.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

struct ErrorModel {
  double alpha = 1.0, beta = 0.0;    ///< as the scalar type holds them
  double epilogue = 0.0;             ///< of |alpha| * (|sum| + drift) + |beta * c|
  bool exact_sums = false;           ///< drift is 0, whatever the reference says
  bool integer_accumulator = false;  ///< wraps modulo 2^32, as mma does without .satfinite
  bool integer_scalar = false;       ///< alpha * acc + beta * c in int32, wrapping
};

/// exact_sums: of integers. exact: alpha * sum + beta * c is, too.
template <class Subject>
ErrorModel error_model(double alpha, double beta, bool exact_sums, bool exact) {
  ErrorModel model;
  model.alpha = Subject::Scalar::round(alpha);
  model.beta = Subject::Scalar::round(beta);
  model.exact_sums = exact_sums || exact;
  model.integer_accumulator = Subject::Acc::kInteger;
  model.integer_scalar = Subject::Scalar::kInteger;
  if (!exact) { model.epilogue = growth(Subject::Scalar::kUnitRoundoff, 3) + growth(kRoundoffF64, 4); }
  return model;
}

struct Interval {
  double low, expected, high;
};

__host__ __device__ inline double wrapped_s32(uint64_t value) {
  return static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(value)));
}

template <class Out>
__host__ __device__ Interval allowed(ErrorModel const& model, double sum, double drift, double c) {
  if (model.integer_accumulator) { sum = wrapped_s32(static_cast<uint64_t>(static_cast<int64_t>(sum))); }
  if (model.integer_scalar) {
    auto const wide = [](double x) { return static_cast<uint64_t>(static_cast<int64_t>(x)); };
    double const value = Out::round(wrapped_s32(wide(model.alpha) * wide(sum) + wide(model.beta) * wide(c)));
    return {value, value, value};
  }
  double const exact = model.alpha * sum + model.beta * c;
  double const far = model.exact_sums ? 0.0 : fabs(model.alpha) * drift;
  double const slack = far + model.epilogue * (fabs(model.alpha * sum) + far + fabs(model.beta * c));
  return {Out::round(exact - slack), Out::round(exact), Out::round(exact + slack)};
}

/// The sum of a row or column: what it may be, the magnitudes of its terms, and how many terms are not exact.
struct LineSum {
  double low, expected, high, magnitude, inexact;
};

/// Where an element of D lies, and what the epilogue reads there: alpha, beta and C as the kernel has them; the call's further
/// tensors.
struct ModelPlace {
  int64_t row, col, batch;
  double alpha, beta, c;
  Matrix const* further;
  unsigned long long* gathered;  // (kMost, 3): the bits of what tensors are raised to: least, expected, most
  LineSum* const* line_sums;     // (kMost): of tensors that gain the sums of rows or columns, each element's
};

/// What D may be for a kernel without operations of its own.
struct LinearCombinationModel {
  static constexpr int kSumsOfElement = 1;
  static constexpr bool kAlpha = true;       // does a call have one?
  static constexpr unsigned kLineSums = 0u;  // bits of the further tensors that gain sums of rows or columns

  /// sum, drift: of an element of D, kSumsOfElement of each.
  template <class Out>
  __host__ __device__ static Interval interval(ErrorModel const& model, double const* sum, double const* drift,
                                               ModelPlace const& at) {
    return allowed<Out>(model, *sum, *drift, at.c);
  }
  /// What errors are relative to.
  __host__ __device__ static double size(ErrorModel const& model, double magnitude, double c, Interval const&) {
    return fabs(model.alpha) * magnitude + fabs(model.beta * c);
  }
};

/// The further tensors of a call, by value for a kernel.
struct FurtherMatrices {
  static constexpr int kMost = 16;
  Matrix at[kMost];
  unsigned long long* gathered = nullptr;
  LineSum* line_sums[kMost] = {};
};

/// Findings on a set of elements; merging is associative.
struct Findings {
  unsigned long long incorrect = 0;
  double max_abs_err = 0.0;  ///< among the incorrect elements, if there are any; NaN counts as infinite
  double bound = 0.0;        ///< at that element; of several with that error, the largest
  double max_rel_err = 0.0;  ///< largest |got - expected| / (|alpha| * S + |beta * c|)
  long long first = -1;      ///< the first incorrect element: ((batch * M) + m) * N + n; N of parts where they are complex
  double first_got = 0.0, first_expected = 0.0, first_bound = 0.0;
};

__host__ __device__ inline void merge(Findings& into, Findings const& other) {
  bool const worse_kind = other.incorrect != 0 && into.incorrect == 0;
  bool const same_kind = (other.incorrect != 0) == (into.incorrect != 0);
  bool const larger =
      other.max_abs_err > into.max_abs_err || (other.max_abs_err == into.max_abs_err && other.bound > into.bound);
  if (worse_kind || (same_kind && larger)) {
    into.max_abs_err = other.max_abs_err;
    into.bound = other.bound;
  }
  if (other.max_rel_err > into.max_rel_err) { into.max_rel_err = other.max_rel_err; }
  if (other.first >= 0 && (into.first < 0 || other.first < into.first)) {
    into.first = other.first;
    into.first_got = other.first_got;
    into.first_expected = other.first_expected;
    into.first_bound = other.first_bound;
  }
  into.incorrect += other.incorrect;
}

__host__ __device__ inline Findings judge_element(Interval const& may, double got, double size, long long index) {
  double const infinity = double_from_bits(0x7ff0000000000000ull);
  Findings one;
  one.max_abs_err = got == may.expected ? 0.0 : fabs(got - may.expected);
  if (one.max_abs_err != one.max_abs_err) { one.max_abs_err = infinity; }
  double const reach = got < may.expected ? may.low : may.high;
  one.bound = reach == may.expected ? 0.0 : fabs(reach - may.expected);
  bool const right = may.low <= got && got <= may.high;
  // One of infinity and the largest finite value where the other was expected, and both are allowed: no distance.
  if (right && one.max_abs_err == infinity) { one.max_abs_err = one.bound = 0.0; }
  one.max_rel_err = one.max_abs_err == 0.0 ? 0.0 : one.max_abs_err / size;
  if (!right) {
    one.incorrect = 1;
    one.first = index;
    one.first_got = got;
    one.first_expected = may.expected;
    one.first_bound = one.bound;
  }
  return one;
}

/// Elements row0 .. row0+rows of batch `batch` of d: (M,N,batch) against sum, magnitude, drift: (rows,N), of which
/// D may have half the columns; of a complex D each part, and N counts parts. c: (M,N,batch), not read when beta is 0. Each
/// block takes one run of neighbouring elements and leaves one entry in findings: (blocks).
template <class Out, class Epilogue>
__global__ void __launch_bounds__(kThreads)
    compare_kernel(Matrix d, Matrix c, FurtherMatrices further, ErrorModel model, int64_t batch, int64_t row0, int64_t rows,
                   double const* sum, double const* magnitude, double const* drift, Findings* findings) {
  auto const* const got_data = static_cast<typename Out::Storage const*>(d.data);
  auto const* const c_data = static_cast<typename Out::Storage const*>(c.data);
  constexpr int kParts = kPartsOf<Out>;
  int64_t const columns = d.cols * kParts;
  int64_t const total = rows * columns;
  int64_t const run = (total + gridDim.x - 1) / gridDim.x;
  int64_t const begin = run * blockIdx.x;
  int64_t const end = begin + run < total ? begin + run : total;
  Findings mine;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    int64_t const row = row0 + i / columns;
    int64_t const part = i % kParts;
    int64_t const col = i % columns / kParts;
    double const c_value = model.beta == 0.0 ? 0.0 : part_of<Out>(c_data[c.offset(row, col, batch)], part);
    ModelPlace const at = {row, col, batch, model.alpha, model.beta, c_value, further.at, further.gathered, further.line_sums};
    int64_t const first = i * Epilogue::kSumsOfElement;
    Interval const may = Epilogue::template interval<Out>(model, sum + first, drift + first, at);
    double const size = Epilogue::size(model, magnitude[first], c_value, may);
    double const got = part_of<Out>(got_data[d.offset(row, col, batch)], part);
    merge(mine, judge_element(may, got, size, (batch * d.rows + row) * columns + i % columns));
  }
  // Raw bytes: a __shared__ array of a type with member initialisers is not allowed.
  __shared__ __align__(16) unsigned char shared[kThreads * sizeof(Findings)];
  auto* const all = reinterpret_cast<Findings*>(shared);  // (kThreads)
  all[threadIdx.x] = mine;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half) { merge(all[threadIdx.x], all[threadIdx.x + half]); }
    __syncthreads();
  }
  if (threadIdx.x == 0) { findings[blockIdx.x] = all[0]; }
}

/// Gathers the findings of all slabs and batches, and a few wrong elements from different places.
class Comparison {
 public:
  static constexpr int kBlocks = 1024;
  static constexpr std::size_t kExamples = 4;

  Comparison()
      : device_(kBlocks * sizeof(Findings)),
        host_(kBlocks),
        gathered_(3 * FurtherMatrices::kMost * sizeof(unsigned long long)) {
    gathered_.fill(0, "clearing what is gathered");
  }

  /// (kMost, 3): see ModelPlace.
  unsigned long long* gathered() const { return static_cast<unsigned long long*>(gathered_.get()); }

  Findings const& total() const { return total_; }
  /// In order; the first is the first wrong element of all, the others are the first of their runs.
  std::vector<Findings> const& examples() const { return examples_; }

  template <class Out, class Epilogue>
  void add(Matrix const& d, Matrix const& c, FurtherMatrices const& further, ErrorModel const& model, int64_t batch,
           int64_t row0, int64_t rows, double const* sum, double const* magnitude, double const* drift, cudaStream_t stream) {
    int64_t const blocks = std::min<int64_t>(kBlocks, (rows * d.cols * kPartsOf<Out> + kThreads - 1) / kThreads);
    compare_kernel<Out, Epilogue><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        d, c, further, model, batch, row0, rows, sum, magnitude, drift, static_cast<Findings*>(device_.get()));
    check(cudaGetLastError(), "launching compare_kernel");
    check(cudaMemcpyAsync(host_.data(), device_.get(), static_cast<std::size_t>(blocks) * sizeof(Findings),
                          cudaMemcpyDeviceToHost, stream),
          "reading the findings");
    check(cudaStreamSynchronize(stream), "comparing with the reference");
    for (int64_t i = 0; i < blocks; ++i) {
      Findings const& one = host_[static_cast<std::size_t>(i)];
      merge(total_, one);
      if (one.incorrect != 0 && examples_.size() < kExamples) { examples_.push_back(one); }
    }
  }

 private:
  DeviceMemory device_;
  std::vector<Findings> host_;
  DeviceMemory gathered_;
  Findings total_;
  std::vector<Findings> examples_;
};

}  // namespace v0_1
}  // namespace mmagen::test
