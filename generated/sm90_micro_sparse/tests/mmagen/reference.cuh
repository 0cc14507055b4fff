// The reference matrix product: in double (64-bit integers for integers), on the device, from the very memory the
// kernel under test reads, so that a wrong layout shows. Plain shared-memory tiling, no tensor cores, no CuTe.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "buffers.cuh"
#include "error.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

inline constexpr int kRefTile = 64;             // of M and of N, per block
inline constexpr int kRefTileK = 16;            // of K, per step
inline constexpr int kRefThread = 4;            // of M and of N, per thread
inline constexpr int kRefPitch = kRefTile + 2;  // keeps rows 16-byte aligned and the banks apart
static_assert(kRefTile / kRefThread * (kRefTile / kRefThread) == kThreads);

/// One (TILE,TILE_K) piece of a (rows,K) matrix into shared memory as (TILE_K,TILE), zeros beyond the edges.
template <class T, class Wide>
__device__ void load_reference_tile(Matrix const& matrix, int64_t b, int64_t row0, int64_t row_end, int64_t k0,
                                    Wide (*tile)[kRefPitch]) {
  auto const* const data = static_cast<typename T::Storage const*>(matrix.data);
  for (int i = static_cast<int>(threadIdx.x); i < kRefTile * kRefTileK; i += kThreads) {
    // Neighbouring threads take neighbouring addresses.
    int const k = matrix.cols_contiguous ? i % kRefTileK : i / kRefTile;
    int const row = matrix.cols_contiguous ? i / kRefTileK : i % kRefTile;
    bool const inside = row0 + row < row_end && k0 + k < matrix.cols;
    tile[k][row] = inside ? static_cast<Wide>(T::load(data[matrix.offset(row0 + row, k0 + k, b)])) : Wide(0);
  }
}

/// a: (M,K,batch), b: (N,K,batch); sum, magnitude: (rows,N), N contiguous: for batch `batch` and rows row0 .. row0+rows
/// of A, sum = sum_k a*b and magnitude = sum_k |a*b|. Integers are exact and have magnitude = |sum|.
template <class A, class B>
__global__ void __launch_bounds__(kThreads)
    reference_kernel(Matrix a, Matrix b, int64_t batch, int64_t row0, int64_t rows, double* sum, double* magnitude) {
  constexpr bool kInteger = A::kInteger;
  using Wide = std::conditional_t<kInteger, int, double>;
  using Sum = std::conditional_t<kInteger, long long, double>;
  __shared__ __align__(16) Wide tile_a[kRefTileK][kRefPitch];  // (TILE_K,TILE_M)
  __shared__ __align__(16) Wide tile_b[kRefTileK][kRefPitch];  // (TILE_K,TILE_N)

  int64_t const tiles_n = (b.rows + kRefTile - 1) / kRefTile;
  int64_t const m0 = row0 + static_cast<int64_t>(blockIdx.x) / tiles_n * kRefTile;
  int64_t const n0 = static_cast<int64_t>(blockIdx.x) % tiles_n * kRefTile;
  int const thread_m = static_cast<int>(threadIdx.x) / (kRefTile / kRefThread) * kRefThread;
  int const thread_n = static_cast<int>(threadIdx.x) % (kRefTile / kRefThread) * kRefThread;

  Sum sums[kRefThread][kRefThread] = {};           // (THREAD_M,THREAD_N)
  double magnitudes[kRefThread][kRefThread] = {};  // (THREAD_M,THREAD_N)
  for (int64_t k0 = 0; k0 < a.cols; k0 += kRefTileK) {
    load_reference_tile<A>(a, batch, m0, row0 + rows, k0, tile_a);
    load_reference_tile<B>(b, batch, n0, b.rows, k0, tile_b);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kRefTileK; ++k) {
#pragma unroll
      for (int i = 0; i < kRefThread; ++i) {
#pragma unroll
        for (int j = 0; j < kRefThread; ++j) {
          Wide const x = tile_a[k][thread_m + i];
          Wide const y = tile_b[k][thread_n + j];
          if constexpr (kInteger) {
            sums[i][j] += static_cast<Sum>(x) * y;
          } else {
            sums[i][j] = fma(x, y, sums[i][j]);
            magnitudes[i][j] = fma(fabs(x), fabs(y), magnitudes[i][j]);
          }
        }
      }
    }
    __syncthreads();  // before the next tile overwrites this one
  }
  for (int i = 0; i < kRefThread; ++i) {
    for (int j = 0; j < kRefThread; ++j) {
      int64_t const m = m0 + thread_m + i;
      int64_t const n = n0 + thread_n + j;
      if (m >= row0 + rows || n >= b.rows) { continue; }
      double const value = static_cast<double>(sums[i][j]);
      sum[(m - row0) * b.rows + n] = value;
      magnitude[(m - row0) * b.rows + n] = kInteger ? fabs(value) : magnitudes[i][j];
    }
  }
}

/// Room for the reference of some rows of one batch; a large problem goes through it slab by slab.
class ReferenceSlab {
 public:
  static constexpr int64_t kElements = int64_t{1} << 25;  // 512 MiB for both arrays

  ReferenceSlab(int64_t m, int64_t n)
      : rows_(std::min(m, std::max<int64_t>(kRefTile, kElements / n / kRefTile * kRefTile))),
        sum_(static_cast<std::size_t>(rows_ * n) * sizeof(double)),
        magnitude_(static_cast<std::size_t>(rows_ * n) * sizeof(double)) {}

  int64_t rows() const { return rows_; }
  double const* sum() const { return static_cast<double const*>(sum_.get()); }              // (rows,N)
  double const* magnitude() const { return static_cast<double const*>(magnitude_.get()); }  // (rows,N)

  template <class A, class B>
  void compute(Matrix const& a, Matrix const& b, int64_t batch, int64_t row0, int64_t rows, cudaStream_t stream) {
    static_assert(A::kInteger == B::kInteger, "a product of an integer and a float has no reference");
    int64_t const blocks = ((rows + kRefTile - 1) / kRefTile) * ((b.rows + kRefTile - 1) / kRefTile);
    reference_kernel<A, B><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        a, b, batch, row0, rows, static_cast<double*>(sum_.get()), static_cast<double*>(magnitude_.get()));
    check(cudaGetLastError(), "launching reference_kernel");
  }

 private:
  int64_t rows_;
  DeviceMemory sum_, magnitude_;
};

}  // namespace v0_1
}  // namespace mmagen::test
