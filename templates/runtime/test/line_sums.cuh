// Sums of rows and columns of a result, of kernels that gather them: what they may be, in any order of the additions.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "buffers.cuh"
#include "compare.cuh"
#include "operands.cuh"
#include "record.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// Terms that are all multiples of 1/16 are added without rounding up to this sum of magnitudes.
template <class Scalar>
bool sums_are_exact(LineSum const& sum) {
  return sum.inexact == 0.0 && 16 * sum.magnitude <= Scalar::kExactIntegerLimit;
}

template <class Scalar>
Interval interval_of(LineSum const& sum, int64_t terms) {
  if (Scalar::kInteger) {
    double const wrapped = wrapped_s32(static_cast<uint64_t>(static_cast<int64_t>(sum.expected)));
    return {wrapped, wrapped, wrapped};
  }
  double const count = static_cast<double>(terms);
  double const rounded = sums_are_exact<Scalar>(sum) ? 0.0 : growth(Scalar::kUnitRoundoff, count);
  double const slack = (rounded + (rounded == 0.0 ? 0.0 : 2 * growth(kRoundoffF64, count))) * sum.magnitude;
  return {Scalar::round(sum.low - slack), Scalar::round(sum.expected), Scalar::round(sum.high + slack)};
}

/// Memory for the expected sums of the tensors that gain them: those with their bit in kLineSums of the model of the epilogue.
class LineSums {
 public:
  /// further: where the model finds the memory.
  LineSums(unsigned which, FurtherMatrices& further) : memory_(FurtherMatrices::kMost) {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      if ((which >> i & 1u) == 0) { continue; }
      Matrix const& of = further.at[i];
      memory_[i] = DeviceMemory(static_cast<std::size_t>(of.batch * of.cols) * sizeof(LineSum));
      memory_[i].fill(0, "clearing the sums of lines");
      further.line_sums[i] = static_cast<LineSum*>(memory_[i].get());
    }
  }

  /// What is wrong with tensor i, which began as zeros, of a product of so many terms in all. "" if nothing is.
  template <class Scalar>
  std::string wrong(std::size_t i, Matrix const& of, int64_t products) const {
    using Storage = typename Scalar::Storage;
    std::size_t const lines = static_cast<std::size_t>(of.cols);
    std::size_t const batch = static_cast<std::size_t>(of.batch);
    std::vector<LineSum> expected(lines * batch);
    std::vector<Storage> got(lines * batch);
    check(cudaMemcpy(expected.data(), memory_[i].get(), memory_[i].bytes(), cudaMemcpyDeviceToHost), "reading sums of lines");
    for (std::size_t b = 0; b < batch; ++b) {
      auto const* const from = static_cast<Storage const*>(of.data) + of.offset(0, 0, static_cast<int64_t>(b));
      check(cudaMemcpy(&got[b * lines], from, lines * sizeof(Storage), cudaMemcpyDeviceToHost),
            "reading the sums of lines that the kernel has gathered");
    }
    std::size_t wrong = 0;
    std::string first;
    for (std::size_t at = 0; at < got.size(); ++at) {
      Interval const may = interval_of<Scalar>(expected[at], products / of.cols);
      double const value = Scalar::load(got[at]);
      if (may.low <= value && value <= may.high) { continue; }
      if (wrong++ == 0) {
        first = "(" + std::to_string(at / lines) + "," + std::to_string(at % lines) + ") got " + number_text(value, 9) +
                " expected " + number_text(may.low, 9) + " to " + number_text(may.high, 9);
      }
    }
    if (wrong == 0) { return ""; }
    return std::to_string(wrong) + " of " + std::to_string(got.size()) + " elements of argument " + std::to_string(i) +
           " behind C wrong; at (batch,line): " + first + ". ";
  }

 private:
  std::vector<DeviceMemory> memory_;
};

}  // namespace v0_1
}  // namespace mmagen::test
