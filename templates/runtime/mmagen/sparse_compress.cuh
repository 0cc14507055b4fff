// Prunes and compresses matrices for the sparse kernels, and checks metadata: on the device and, with the same rules, on the
// host.
//
// sparse_format.cuh describes the format. A thread makes a word of metadata from runs of 32 bytes of A, which the threads of a
// quad read side by side, and stores 16 bytes of values for each run.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "gemm_arguments.cuh"
#include "sparse_format.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

/// A batch of matrices to compress; strides in elements, that of metadata in words. k_contiguous: the contiguous mode of
/// `dense` and `pruned`, M or K. violation: the least position (batch * m + row) * k + column of the first element of a group
/// with more nonzeros than are kept, or the least index of a word of illegal metadata; untouched where there is none. Null: not
/// asked for.
template <class Storage>
struct SparseMatrices {
  int64_t m, k, batch;
  Storage const* dense;
  int64_t ld_dense, batch_stride_dense;
  Storage* pruned;
  int64_t ld_pruned, batch_stride_pruned;
  Storage* values;
  int64_t ld_values, batch_stride_values;
  uint32_t* metadata;
  int64_t batch_stride_metadata;
  unsigned long long* violation;
  bool k_contiguous;
  bool dense_is_aligned, pruned_is_aligned;  // rows begin at 16-byte boundaries, and K is contiguous
};

/// Sizes of one compressed matrix.
template <class Format>
struct CompressedSize {
  static int64_t columns(int64_t k) { return detail::ceil_div(k, Format::kGroup) * Format::kKept; }
  /// The least leading dimension of the values: rows begin at 16-byte boundaries.
  static int64_t ld(int64_t k) {
    constexpr int64_t kVector = 16 / int64_t(sizeof(typename Format::Storage));
    return detail::ceil_div(columns(k), kVector) * kVector;
  }
  static int64_t metadata_words(int64_t m, int64_t k) {
    return detail::ceil_div(m, kMetadataRows) * metadata_blocks<Format::kBlockK>(k) * kMetadataWords;
  }
};

namespace detail {

/// 16 bytes.
struct alignas(16) SparseVector {
  uint32_t words[4];
};

__host__ __device__ inline void note_violation(unsigned long long* violation, int64_t at) {
  if (violation == nullptr) { return; }
#if defined(__CUDA_ARCH__)
  atomicMin(violation, static_cast<unsigned long long>(at));
#else
  if (static_cast<unsigned long long>(at) < *violation) { *violation = static_cast<unsigned long long>(at); }
#endif
}

/// A run of kRun elements of a row along K; zeros beyond the matrix.
template <class Format>
struct Run {
  using Storage = typename Format::Storage;
  union {
    Storage elements[Format::kRun];
    SparseVector vectors[2];
  };

  __host__ __device__ void load(Storage const* matrix, int64_t ld, bool k_contiguous, bool aligned, int64_t row, int64_t column,
                                int64_t m, int64_t k) {
    vectors[0] = vectors[1] = SparseVector{};
    if (row >= m || column >= k) { return; }
    if (aligned && column + Format::kRun <= k) {
      auto const* const from = reinterpret_cast<SparseVector const*>(matrix + row * ld + column);
      vectors[0] = from[0];
      vectors[1] = from[1];
      return;
    }
#pragma unroll
    for (int i = 0; i < Format::kRun; ++i) {
      if (column + i < k) { elements[i] = k_contiguous ? matrix[row * ld + column + i] : matrix[(column + i) * ld + row]; }
    }
  }

  __host__ __device__ void store(Storage* matrix, int64_t ld, bool k_contiguous, bool aligned, int64_t row, int64_t column,
                                 int64_t k) const {
    if (aligned && column + Format::kRun <= k) {
      auto* const to = reinterpret_cast<SparseVector*>(matrix + row * ld + column);
      to[0] = vectors[0];
      to[1] = vectors[1];
      return;
    }
#pragma unroll
    for (int i = 0; i < Format::kRun; ++i) {
      if (column + i < k) { (k_contiguous ? matrix[row * ld + column + i] : matrix[(column + i) * ld + row]) = elements[i]; }
    }
  }
};

/// The word of metadata with that index among those of all matrices, and the values that it describes.
template <class Format>
__host__ __device__ void compress_word(SparseMatrices<typename Format::Storage> const& matrices, int64_t index) {
  using Storage = typename Format::Storage;
  int64_t const blocks = metadata_blocks<Format::kBlockK>(matrices.k);
  int64_t const words = (matrices.m + kMetadataRows - 1) / kMetadataRows * blocks * kMetadataWords;
  int64_t const batch = index / words, in_matrix = index % words;
  int const word = int(in_matrix % kMetadataWords);
  int64_t const block = in_matrix / kMetadataWords % blocks, rows = in_matrix / kMetadataWords / blocks;
  int64_t const column = block * Format::kBlockK + Format::column_of(word);
  uint32_t made = Format::kNothing;
#pragma unroll
  for (int r = 0; r < Format::kRuns; ++r) {
    int64_t const row = rows * kMetadataRows + Format::row_of(word, r);
    if (row >= matrices.m || column >= matrices.k) { continue; }
    Run<Format> run;
    run.load(matrices.dense + batch * matrices.batch_stride_dense, matrices.ld_dense, matrices.k_contiguous,
             matrices.dense_is_aligned, row, column, matrices.m, matrices.k);
    union {
      Storage values[Format::kRun / 2];
      SparseVector vector;
    } stored;
    uint32_t bits = 0;
#pragma unroll
    for (int group = 0; group < Format::kRun / Format::kGroup; ++group) {
      Storage const* const of = run.elements + group * Format::kGroup;
      unsigned const kept = Format::kept_of(of);
      uint32_t const metadata = Format::metadata_of(kept);
      bits |= metadata << 4 * group;
      if constexpr (Format::kGroup == 2) {
        stored.values[group] = (kept & 1) != 0 ? of[0] : of[1];
      } else {  // selected, not indexed: the group stays in registers
        stored.values[2 * group] = (kept & 1) != 0 ? of[0] : (kept & 2) != 0 ? of[1] : of[2];
        stored.values[2 * group + 1] = (kept & 8) != 0 ? of[3] : (kept & 4) != 0 ? of[2] : of[1];
      }
      if (Format::overfull(of)) {
        note_violation(matrices.violation, (batch * matrices.m + row) * matrices.k + column + group * Format::kGroup);
      }
    }
    Storage* const to = matrices.values + batch * matrices.batch_stride_values + row * matrices.ld_values + column / 2;
    *reinterpret_cast<SparseVector*>(to) = stored.vector;
    constexpr uint32_t kMask = Format::kRunBits == 32 ? 0xffffffffu : 0xffffu;
    int const shift = r * Format::kRunBits % 32;
    made = (made & ~(kMask << shift)) | bits << shift;
  }
  matrices.metadata[batch * matrices.batch_stride_metadata + in_matrix] = made;
}

/// Runs of all rows of all matrices, those of a row one after another where K is contiguous, else those of a column.
template <class Format>
__host__ __device__ void prune_run(SparseMatrices<typename Format::Storage> const& matrices, int64_t index) {
  int64_t const runs = (matrices.k + Format::kRun - 1) / Format::kRun;
  int64_t const batch = index / (runs * matrices.m), in_matrix = index % (runs * matrices.m);
  int64_t const row = matrices.k_contiguous ? in_matrix / runs : in_matrix % matrices.m;
  int64_t const column = (matrices.k_contiguous ? in_matrix % runs : in_matrix / matrices.m) * Format::kRun;
  Run<Format> run;
  run.load(matrices.dense + batch * matrices.batch_stride_dense, matrices.ld_dense, matrices.k_contiguous,
           matrices.dense_is_aligned, row, column, matrices.m, matrices.k);
#pragma unroll
  for (int group = 0; group < Format::kRun / Format::kGroup; ++group) {
    auto* const of = run.elements + group * Format::kGroup;
    unsigned const kept = Format::kept_of(of);
#pragma unroll
    for (int i = 0; i < Format::kGroup; ++i) {
      if ((kept >> i & 1) == 0) { of[i] = 0; }
    }
  }
  run.store(matrices.pruned + batch * matrices.batch_stride_pruned, matrices.ld_pruned, matrices.k_contiguous,
            matrices.pruned_is_aligned, row, column, matrices.k);
}

/// Checks one word of metadata, that of the padding included.
template <class Format>
__host__ __device__ void check_word(SparseMatrices<typename Format::Storage> const& matrices, int64_t index) {
  int64_t const words =
      (matrices.m + kMetadataRows - 1) / kMetadataRows * metadata_blocks<Format::kBlockK>(matrices.k) * kMetadataWords;
  int64_t const at = index / words * matrices.batch_stride_metadata + index % words;
  uint32_t const word = matrices.metadata[at];
  bool legal = true;
#pragma unroll
  for (int i = 0; i < 8; ++i) { legal = legal && Format::is_legal(word >> 4 * i & 15); }
  if (!legal) { note_violation(matrices.violation, at); }
}

enum class SparseTask { kCompress, kPrune, kCheck };

template <class Format, SparseTask kTask>
__host__ __device__ void do_sparse_task(SparseMatrices<typename Format::Storage> const& matrices, int64_t index) {
  if constexpr (kTask == SparseTask::kCompress) {
    compress_word<Format>(matrices, index);
  } else if constexpr (kTask == SparseTask::kPrune) {
    prune_run<Format>(matrices, index);
  } else {
    check_word<Format>(matrices, index);
  }
}

/// How many indices do_sparse_task() has.
template <class Format, SparseTask kTask>
int64_t sparse_task_count(SparseMatrices<typename Format::Storage> const& matrices) {
  if (kTask == SparseTask::kPrune) { return matrices.batch * matrices.m * ceil_div(matrices.k, Format::kRun); }
  return matrices.batch * CompressedSize<Format>::metadata_words(matrices.m, matrices.k);
}

}  // namespace detail

inline constexpr int kSparseThreads = 256;

template <class Format, detail::SparseTask kTask>
__global__ void __launch_bounds__(kSparseThreads)
    sparse_task_kernel(SparseMatrices<typename Format::Storage> const matrices, int64_t count) {
  int64_t const stride = int64_t(gridDim.x) * kSparseThreads;
  for (int64_t i = int64_t(blockIdx.x) * kSparseThreads + threadIdx.x; i < count; i += stride) {
    detail::do_sparse_task<Format, kTask>(matrices, i);
  }
}

/// One thread: no violation yet.
template <class Number>
__global__ void sparse_begin_kernel(Number* violation) {
  *violation = ~Number(0);
}

/// Runs a task on the device: `*violation` is set to all ones first, if it is asked for.
template <class Format, detail::SparseTask kTask>
Status sparse_task(SparseMatrices<typename Format::Storage> const& matrices, cudaStream_t stream) {
  if (matrices.violation != nullptr) {
    Status const status =
        launch_kernel(&sparse_begin_kernel<unsigned long long>, 1u, 1, 0, stream, Launch::kYes, matrices.violation);
    if (status != Status::kSuccess) { return status; }
  }
  int64_t const count = detail::sparse_task_count<Format, kTask>(matrices);
  if (count == 0) { return Status::kSuccess; }
  constexpr int64_t kMostCtas = 1 << 16;
  int64_t const ctas = detail::ceil_div(count, kSparseThreads);
  return launch_kernel(&sparse_task_kernel<Format, kTask>, unsigned(ctas < kMostCtas ? ctas : kMostCtas), kSparseThreads, 0,
                       stream, Launch::kYes, matrices, count);
}

/// The same on the host, on memory of the host. Returns the violation, or -1.
template <class Format, detail::SparseTask kTask>
int64_t sparse_task_on_host(SparseMatrices<typename Format::Storage> matrices) {
  unsigned long long violation = ~0ull;
  matrices.violation = &violation;
  int64_t const count = detail::sparse_task_count<Format, kTask>(matrices);
  for (int64_t i = 0; i < count; ++i) { detail::do_sparse_task<Format, kTask>(matrices, i); }
  return int64_t(violation);
}

}  // namespace v0_1
}  // namespace mmagen
