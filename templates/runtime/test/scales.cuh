// Scales of A and B, as a reference looks them up and as a test fills them.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "buffers.cuh"
#include "compare.cuh"
#include "operands.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// The scales of an operand. kWhich: of the call's further tensors, -1 for none. kLines: lines (rows of A, columns of B) that
/// share one, 0 for all. kAlongK: elements of K that share one, 0 for all.
template <int kWhich_, int kLines_, int kAlongK_>
struct ScalesOf {
  static constexpr int kWhich = kWhich_;
  static constexpr int kLines = kLines_;
  static constexpr int kAlongK = kAlongK_;

  __host__ __device__ static double get(Matrix const& matrix, int64_t line, int64_t k, int64_t batch) {
    if constexpr (kWhich < 0) {
      return 1.0;
    } else {
      // Those of lines are one line of memory.
      int64_t const row = kAlongK > 0 ? line / kLines : 0;
      int64_t const col = kAlongK > 0 ? k / kAlongK : kLines > 0 ? line : 0;
      return static_cast<float const*>(matrix.data)[matrix.offset(row, col, batch)];
    }
  }
};

/// Of a subject whose operands have no scales.
struct NoScales {
  using OfA = ScalesOf<-1, 0, 0>;
  using OfB = ScalesOf<-1, 0, 0>;
  static constexpr bool kAny = false;
  static constexpr bool kAlongK = false;
  static constexpr bool kOneSign = false;
  static NoScales of(FurtherMatrices const&) { return {}; }
  __host__ __device__ double factor(int64_t, int64_t, int64_t, int64_t) const { return 1.0; }
};

/// A, B: ScalesOf.
template <class A, class B>
struct Scales {
  using OfA = A;
  using OfB = B;
  static constexpr bool kAny = true;
  static constexpr bool kAlongK = A::kAlongK > 0 || B::kAlongK > 0;
  static constexpr bool kOneSign = false;  // whether B has no negative elements

  Matrix a, b;

  static Scales of(FurtherMatrices const& further) {
    return {further.at[A::kWhich < 0 ? 0 : A::kWhich], further.at[B::kWhich < 0 ? 0 : B::kWhich]};
  }
  /// By which a_mk * b_nk is multiplied; exact. Row m and column n exist.
  __host__ __device__ double factor(int64_t m, int64_t n, int64_t k, int64_t batch) const {
    return A::get(a, m, k, batch) * B::get(b, n, k, batch);
  }
  /// Of scales that change along K, relative to the sum: their product is rounded for each k tile, and again where a factor of
  /// the whole tile follows.
  __host__ __device__ static double rounding(bool) { return growth(kRoundoffF32, 3); }
};

/// -1 for a quarter of the lines of an operand, else 1. A line has one sign for all of K, so that its sums grow as without
/// signs.
__host__ __device__ inline float sign_of_line(uint64_t seed, int64_t line) {
  return splitmix64(splitmix64(~seed) + static_cast<uint64_t>(line)) >> 62 == 0 ? -1.0f : 1.0f;
}

/// Uniform: magnitudes of two binades up to 1, so that no result is larger than without. Else powers of two from 1 to `reach`.
/// Of: ScalesOf.
template <class Of>
__global__ void fill_scales_kernel(Matrix matrix, Fill fill) {
  auto* const data = static_cast<float*>(matrix.data);
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < matrix.elements(); i += stride) {
    int64_t const col = i % matrix.cols;
    int64_t const row = i / matrix.cols % matrix.rows;
    int64_t const b = i / (matrix.cols * matrix.rows);
    uint64_t const random =
        splitmix64(splitmix64(fill.seed + static_cast<uint64_t>(b * matrix.rows + row)) + static_cast<uint64_t>(col));
    float const part = static_cast<float>(random >> 40) / (1 << 24);  // 0 .. 1
    int const exponents = static_cast<int>(log2f(static_cast<float>(fill.reach))) + 1;
    bool const any = fill.distribution == Distribution::kUniform;
    float sign = 1.0f;
    if constexpr (Of::kLines > 0 || Of::kAlongK > 0) {
      sign = sign_of_line(fill.seed, Of::kAlongK > 0 ? b * matrix.rows + row : b * matrix.cols + col);
    } else if ((Of::kWhich % 2 != 0) != any) {  // A's with uniform inputs, B's with small integers
      sign = -1.0f;
    }
    float const exponent = any ? -2.0f * part : floorf(part * static_cast<float>(exponents));
    data[matrix.offset(row, col, b)] = sign * exp2f(exponent);
  }
}

template <class Of>
void fill_scales(Matrix const& matrix, Fill const& fill, cudaStream_t stream) {
  fill_scales_kernel<Of><<<blocks_for(matrix.elements()), kThreads, 0, stream>>>(matrix, fill);
  check(cudaGetLastError(), "launching fill_scales_kernel");
}

/// As further_tensor(), of scales. Of: ScalesOf.
template <class Of>
FurtherTensor scale_tensor(Problem const& problem, int place, int64_t rows, int64_t cols, bool cols_contiguous, bool pitched,
                           bool batched, bool updated) {
  FurtherTensor tensor = further_tensor<f32>(problem, place, rows, cols, cols_contiguous, pitched, batched, updated);
  tensor.fill = &fill_scales<Of>;
  tensor.scales = true;
  return tensor;
}

}  // namespace v0_1
}  // namespace mmagen::test
