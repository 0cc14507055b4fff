// Random inputs, made on the device. An element's value depends on (seed, tensor, row, column, batch) only, never on
// where it lies: the same problem in another layout or with other leading dimensions has the same numbers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "buffers.cuh"
#include "error.cuh"
#include "problem.cuh"
#include "small_int.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

struct Fill {
  Distribution distribution = Distribution::kUniform;
  int range = 1;      ///< of SmallIntRule
  int64_t group = 1;  ///< of SmallIntRule; along the columns, so for A it is along K
  uint64_t seed = 0;  ///< differs for A, B and C
};

/// uniform: floats in [-1, 1]; 8- and 16-bit integers over their whole range; s32, which only C can be, within
/// +-2^20 so that alpha*sum + beta*C stays away from overflow.
template <class T>
__host__ __device__ double uniform(uint64_t random) {
  if constexpr (T::kInteger) {
    double const low = T::kSmallest < -1048576.0 ? -1048576.0 : T::kSmallest;
    double const high = T::kLargest > 1048576.0 ? 1048576.0 : T::kLargest;
    return low + static_cast<double>((random >> 32) % static_cast<uint64_t>(high - low + 1));
  } else {
    int64_t const steps = static_cast<int64_t>(random >> 10) - (int64_t{1} << 53);
    return static_cast<double>(steps) * power_of_two(-53);
  }
}

/// Never zero, except where the rule's group asks for it.
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
  if (fill.distribution == Distribution::kUniform) { return uniform<T>(random); }
  if (fill.group > 1) {
    uint64_t const chosen = splitmix64(~line + static_cast<uint64_t>(col / fill.group));
    if (col % fill.group != static_cast<int64_t>(chosen % static_cast<uint64_t>(fill.group))) { return 0.0; }
  }
  return small_int<T>(random, fill.range);
}

/// matrix: (rows,cols,batch); what lies between its rows is left alone.
template <class T>
__global__ void fill_kernel(Matrix matrix, Fill fill) {
  auto* const data = static_cast<typename T::Storage*>(matrix.data);
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < matrix.elements(); i += stride) {
    int64_t const inner = i % matrix.inner();
    int64_t const outer = i / matrix.inner() % matrix.outer();
    int64_t const b = i / (matrix.inner() * matrix.outer());
    int64_t const row = matrix.cols_contiguous ? outer : inner;
    int64_t const col = matrix.cols_contiguous ? inner : outer;
    data[matrix.offset(row, col, b)] = T::store(draw<T>(fill, matrix, row, col, b));
  }
}

template <class T>
void fill_matrix(Matrix const& matrix, Fill const& fill, cudaStream_t stream) {
  fill_kernel<T><<<blocks_for(matrix.elements()), kThreads, 0, stream>>>(matrix, fill);
  check(cudaGetLastError(), "launching fill_kernel");
}

}  // namespace v0_1
}  // namespace mmagen::test
