// SPDX-License-Identifier: MIT-0
// The reference matrix product: in double (64-bit integers for integers), on the device, from the same memory as the
// kernel under test, so that a wrong layout is detected. Plain shared-memory tiling, no tensor cores, no CuTe.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "buffers.cuh"
#include "error_bound.cuh"
#include "real_view.cuh"
#include "record.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

inline constexpr int kRefTile = 64;             // of M and of N, per block
inline constexpr int kRefTileK = 16;            // of K, per step
inline constexpr int kRefThread = 4;            // of M and of N, per thread
inline constexpr int kRefPitch = kRefTile + 2;  // keeps rows 16-byte aligned and the banks apart
static_assert(kRefTile / kRefThread * (kRefTile / kRefThread) == kThreads);

/// One (TILE,TILE_K) piece of a (rows,K) matrix into shared memory as (TILE_K,TILE), zeros beyond the edges; of a complex one
/// as real_view.cuh has it.
template <class T, Operand kOperand, class Wide>
__device__ void load_reference_tile(Matrix const& matrix, int64_t b, int64_t row0, int64_t row_end, int64_t k0,
                                    Wide (*tile)[kRefPitch]) {
  auto const* const data = static_cast<typename T::Storage const*>(matrix.data);
  for (int i = static_cast<int>(threadIdx.x); i < kRefTile * kRefTileK; i += kThreads) {
    // Neighbouring threads take neighbouring addresses.
    int const k = matrix.cols_contiguous ? i % kRefTileK : i / kRefTile;
    int const row = matrix.cols_contiguous ? i / kRefTileK : i % kRefTile;
    bool const inside = row0 + row < row_end && k0 + k < matrix.cols * kPartsOf<T>;
    tile[k][row] = inside ? static_cast<Wide>(real_entry<T, kOperand>(matrix, data, row0 + row, k0 + k, b)) : Wide(0);
  }
}

/// a: (M,K,batch), b: (N,K,batch), real or complex: then M, N, K are those of real_view.cuh. sum, magnitude, drift: (rows,N), N
/// contiguous: for batch `batch` and rows row0 ..
/// row0+rows of A, sum = sum_k a*b, magnitude = sum_k |a*b|, and drift as error_bound.cuh has it. Integers are exact and
/// have magnitude = |sum|. positive: odd rows of A and B have no negative entries, so that products of both have one sign.
/// scales: by which the products are multiplied, of elements of K or of the finished sum.
template <class A, class B, bool kPromoted, class Scales>
__global__ void __launch_bounds__(kThreads)
    reference_kernel(Matrix a, Matrix b, Scales scales, Accumulation of, bool positive, int64_t batch, int64_t row0,
                     int64_t rows, double* sum, double* magnitude, double* drift) {
  constexpr bool kInteger = A::kInteger;
  using Wide = std::conditional_t<kInteger, int, double>;
  using Sum = std::conditional_t<kInteger, long long, double>;
  __shared__ __align__(16) Wide tile_a[kRefTileK][kRefPitch];  // (TILE_K,TILE_M)
  __shared__ __align__(16) Wide tile_b[kRefTileK][kRefPitch];  // (TILE_K,TILE_N)

  int64_t const columns = b.rows * kPartsOf<B>;
  int64_t const depth = a.cols * kPartsOf<A>;
  int64_t const tiles_n = (columns + kRefTile - 1) / kRefTile;
  int64_t const m0 = row0 + static_cast<int64_t>(blockIdx.x) / tiles_n * kRefTile;
  int64_t const n0 = static_cast<int64_t>(blockIdx.x) % tiles_n * kRefTile;
  int const thread_m = static_cast<int>(threadIdx.x) / (kRefTile / kRefThread) * kRefThread;
  int const thread_n = static_cast<int>(threadIdx.x) % (kRefTile / kRefThread) * kRefThread;

  Sum sums[kRefThread][kRefThread] = {};           // (THREAD_M,THREAD_N)
  double magnitudes[kRefThread][kRefThread] = {};  // (THREAD_M,THREAD_N)
  Path paths[kRefThread][kRefThread];              // (THREAD_M,THREAD_N)
  double factors[kRefThread][kRefThread];          // (THREAD_M,THREAD_N): of the present block of K
  auto const each = [&](auto const& act) {
#pragma unroll
    for (int i = 0; i < kRefThread; ++i) {
#pragma unroll
      for (int j = 0; j < kRefThread; ++j) {
        act(paths[i][j], static_cast<double>(sums[i][j]), magnitudes[i][j], factors[i][j]);
      }
    }
  };
  auto const factor_at = [&](int i, int j, int64_t k) {
    int64_t const m = m0 + thread_m + i;
    int64_t const n = n0 + thread_n + j;
    return m < row0 + rows && n < columns ? scales.factor(m, n, k, batch) : 1.0;
  };
  int const path_block = of.of_pieces() ? of.chunk : kPathBlock;
  for (int64_t k0 = 0; k0 < depth; k0 += kRefTileK) {
    if constexpr (Scales::kAlongK) {
      if (k0 % kPathBlock == 0) {
#pragma unroll
        for (int i = 0; i < kRefThread; ++i) {
#pragma unroll
          for (int j = 0; j < kRefThread; ++j) { factors[i][j] = factor_at(i, j, k0); }
        }
      }
    }
    if (!kInteger && k0 % path_block == 0) {
      each([&](Path& path, double so_far, double, double factor) {
        path.template open<kPromoted>(of, k0, so_far, Scales::kAlongK ? static_cast<float>(factor) : 1.0f);
      });
    }
    load_reference_tile<A, Operand::kA>(a, batch, m0, row0 + rows, k0, tile_a);
    load_reference_tile<B, Operand::kB>(b, batch, n0, columns, k0, tile_b);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kRefTileK; ++k) {
      if constexpr (kPromoted) {
        if (k == kRefTileK / 2 && path_block == kRefTileK / 2) {
          each([&](Path& path, double so_far, double size, double) {
            path.template close<kPromoted>(of, k0 + k, false, so_far, size);
            path.template open<kPromoted>(of, k0 + k, so_far);
          });
        }
      }
#pragma unroll
      for (int i = 0; i < kRefThread; ++i) {
#pragma unroll
        for (int j = 0; j < kRefThread; ++j) {
          Wide const x = tile_a[k][thread_m + i];
          Wide const y = tile_b[k][thread_n + j];
          if constexpr (kInteger) {
            sums[i][j] += static_cast<Sum>(x) * y;
          } else if constexpr (Scales::kAlongK) {  // the product of two 8-bit floats is exact
            sums[i][j] = fma(x * y, factors[i][j], sums[i][j]);
            magnitudes[i][j] = fma(fabs(x * y), fabs(factors[i][j]), magnitudes[i][j]);
          } else {
            sums[i][j] = fma(x, y, sums[i][j]);
            magnitudes[i][j] = fma(fabs(x), fabs(y), magnitudes[i][j]);
          }
        }
      }
    }
    bool const is_last = k0 + kRefTileK >= depth;
    if (!kInteger && ((k0 + kRefTileK) % path_block == 0 || is_last)) {
      each([&](Path& path, double so_far, double size, double) {
        path.template close<kPromoted>(of, k0 + kRefTileK, is_last, so_far, size);
      });
    }
    __syncthreads();  // before the next tile overwrites this one
  }
#pragma unroll  // indexed by constants, the arrays stay in registers
  for (int i = 0; i < kRefThread; ++i) {
#pragma unroll
    for (int j = 0; j < kRefThread; ++j) {
      int64_t const m = m0 + thread_m + i;
      int64_t const n = n0 + thread_n + j;
      if (m >= row0 + rows || n >= columns) { continue; }
      bool const symmetric = !positive || m % 2 == 0 || (n % 2 == 0 && !Scales::kOneSign);
      double value = static_cast<double>(sums[i][j]);
      double size = kInteger ? fabs(value) : magnitudes[i][j];
      double far = kInteger ? 0.0 : paths[i][j].template drift<kPromoted>(of, depth, magnitudes[i][j], symmetric);
      if constexpr (Scales::kAlongK) {
        far += Scales::rounding(kPromoted) * (size + far);
      } else if constexpr (Scales::kAny) {  // a factor of the finished sum, a product that is rounded
        double const factor = factor_at(i, j, 0);
        value *= factor;
        size *= fabs(factor);
        far *= fabs(factor);
        far += growth(kRoundoffF32, 2) * (fabs(value) + far);
      }
      sum[(m - row0) * columns + n] = value;
      magnitude[(m - row0) * columns + n] = size;
      drift[(m - row0) * columns + n] = far;
    }
  }
}

/// Memory for the reference of some rows of one batch; large problems are compared slab by slab.
class ReferenceSlab {
 public:
  static constexpr int64_t kElements = int64_t{1} << 24;  // 384 MiB for all arrays

  ReferenceSlab(int64_t m, int64_t n)
      : rows_(std::min(m, std::max<int64_t>(kRefTile, kElements / n / kRefTile * kRefTile))),
        sum_(static_cast<std::size_t>(rows_ * n) * sizeof(double)),
        magnitude_(static_cast<std::size_t>(rows_ * n) * sizeof(double)),
        drift_(static_cast<std::size_t>(rows_ * n) * sizeof(double)) {}

  int64_t rows() const { return rows_; }
  double const* sum() const { return static_cast<double const*>(sum_.get()); }              // (rows,N)
  double const* magnitude() const { return static_cast<double const*>(magnitude_.get()); }  // (rows,N)
  double const* drift() const { return static_cast<double const*>(drift_.get()); }          // (rows,N)

  template <class A, class B, bool kPromoted, class Scales>
  void compute(Matrix const& a, Matrix const& b, Scales const& scales, Accumulation const& of, bool positive, int64_t batch,
               int64_t row0, int64_t rows, cudaStream_t stream) {
    static_assert(A::kInteger == B::kInteger, "a product of an integer and a float has no reference");
    int64_t const blocks = ((rows + kRefTile - 1) / kRefTile) * ((b.rows * kPartsOf<B> + kRefTile - 1) / kRefTile);
    reference_kernel<A, B, kPromoted, Scales><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        a, b, scales, of, positive, batch, row0, rows, static_cast<double*>(sum_.get()), static_cast<double*>(magnitude_.get()),
        static_cast<double*>(drift_.get()));
    check(cudaGetLastError(), "launching reference_kernel");
  }

 private:
  int64_t rows_;
  DeviceMemory sum_, magnitude_, drift_;
};

}  // namespace v0_1
}  // namespace mmagen::test
