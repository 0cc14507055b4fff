// SPDX-License-Identifier: MIT-0
// Complex matrices as real ones, so that a product of them is judged as a product of real numbers.
//
// A of (M,K) complex elements is read as (M,2K): real and imaginary parts side by side; so is D, as (M,2N). B, (N,K), becomes
// the (2N,2K) matrix by which that A gives that D:
//   row 2n   (the real part of D's column n)       Re b, -Im b of every k
//   row 2n+1 (the imaginary part of D's column n)  Im b,  Re b of every k
#pragma once

#include <cstdint>

#include "buffers.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

enum class Operand { kA, kB };

/// Entry (row, k) of batch `b` of the real matrix. data: of `matrix`, whose elements may be real as well.
template <class T, Operand kOperand>
__device__ double real_entry(Matrix const& matrix, typename T::Storage const* data, int64_t row, int64_t k, int64_t b) {
  if constexpr (kPartsOf<T> == 1) {
    return T::load(data[matrix.offset(row, k, b)]);
  } else if constexpr (kOperand == Operand::kA) {
    return part_of<T>(data[matrix.offset(row, k / 2, b)], k % 2);
  } else {
    int64_t const of_d = row % 2;
    int64_t const of_a = k % 2;
    double const value = part_of<T>(data[matrix.offset(row / 2, k / 2, b)], of_a != of_d);
    return of_a == 1 && of_d == 0 ? -value : value;
  }
}

}  // namespace v0_1
}  // namespace mmagen::test
