// SPDX-License-Identifier: MIT-0
// Matrices in device memory with poisoned guard bands, which detect stray writes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// A batch of matrices. One mode is contiguous, `ld` is the stride of the other; all strides in elements.
struct Matrix {
  void* data = nullptr;
  int64_t rows = 0, cols = 0, batch = 0;
  int64_t ld = 0, batch_stride = 0;
  bool cols_contiguous = true;
  int element_bytes = 0;

  __host__ __device__ int64_t offset(int64_t row, int64_t col, int64_t b) const {
    return b * batch_stride + (cols_contiguous ? row * ld + col : col * ld + row);
  }
  __host__ __device__ int64_t inner() const { return cols_contiguous ? cols : rows; }
  __host__ __device__ int64_t outer() const { return cols_contiguous ? rows : cols; }
  __host__ __device__ int64_t elements() const { return rows * cols * batch; }
  double bytes() const { return static_cast<double>(elements()) * element_bytes; }
};

inline constexpr int kThreads = 256;

inline unsigned blocks_for(int64_t work) {
  return static_cast<unsigned>(std::min<int64_t>((work + kThreads - 1) / kThreads, 16384));
}

__host__ __device__ inline uint64_t splitmix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Counts the elements of an allocation that are not the matrix's own and no longer hold the poison: guard bands, the
/// gap before a misaligned matrix, the gaps between rows and between batches.
/// allocation: (units), element (row,col,b) of the matrix at unit `front` + matrix.offset(row,col,b).
static __global__ void count_strays_kernel(unsigned char const* allocation, int64_t units, int64_t front, Matrix matrix,
                                           unsigned char poison, unsigned long long* strays) {
  unsigned long long mine = 0;
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t unit = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; unit < units; unit += stride) {
    int64_t const at = unit - front;
    int64_t const step = matrix.batch_stride == 0 ? units : matrix.batch_stride;  // one matrix, where all share it
    if (at >= 0 && at < matrix.batch * step) {
      int64_t const in_batch = at % step;
      if (in_batch / matrix.ld < matrix.outer() && in_batch % matrix.ld < matrix.inner()) { continue; }
    }
    bool clean = true;
    for (int byte = 0; byte < matrix.element_bytes; ++byte) {
      clean = clean && allocation[unit * matrix.element_bytes + byte] == poison;
    }
    mine += clean ? 0 : 1;
  }
  if (mine != 0) { atomicAdd(strays, mine); }
}

/// A sum over (word, position) that changes when any word does. words: (count)
static __global__ void checksum_kernel(uint32_t const* words, int64_t count, unsigned long long* sum) {
  unsigned long long mine = 0;
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    mine += splitmix64(static_cast<uint64_t>(i) << 32 ^ words[i]);
  }
  atomicAdd(sum, mine);
}

/// Device memory, freed by the destructor.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&data_, bytes), "cudaMalloc of " + std::to_string(bytes) + " bytes");
  }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  // An error here is an earlier one, which has been reported; a destructor cannot throw.
  ~DeviceMemory() { cudaFree(data_); }

  void* get() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  /// Every byte becomes `value`, `what` says why. Ends when it is done, as does copy_from(): both run on the default stream,
  /// for which the streams of kernels do not wait.
  void fill(int value, char const* what) const {
    check(cudaMemset(data_, value, bytes_), what);
    check(cudaDeviceSynchronize(), what);
  }
  /// Copies as many bytes from the host as this memory has.
  void copy_from(void const* host, char const* what) const {
    check(cudaMemcpy(data_, host, bytes_, cudaMemcpyHostToDevice), what);
    check(cudaDeviceSynchronize(), what);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A matrix between guard bands. A kernel that reads past its operands reads NaN (a large integer), one that writes
/// past its output changes the poison.
class GuardedMatrix {
 public:
  static constexpr int64_t kGuardBytes = 256 * 1024;

  GuardedMatrix() = default;

  /// `shape` has rows, cols, batch, cols_contiguous and element_bytes set; the rest is filled in here. batch_stride: in
  /// elements, -1 for matrices one behind the other with a gap: if lines are whole vectors of 16 bytes, it is too, since some
  /// kernels take no others.
  GuardedMatrix(Matrix shape, unsigned char poison, int64_t ld_pad, int64_t offset, int64_t batch_stride = -1)
      : matrix_(shape), poison_(poison) {
    int64_t const size = shape.element_bytes;
    matrix_.ld = matrix_.inner() + ld_pad;
    int64_t const vector = size < 16 ? 16 / size : 1;
    int64_t const one = matrix_.outer() * matrix_.ld + (ld_pad + vector - 1) / vector * vector;
    matrix_.batch_stride = batch_stride < 0 ? one : batch_stride;
    front_ = kGuardBytes / size + offset;
    int64_t const units = front_ + (matrix_.batch - 1) * matrix_.batch_stride + one + kGuardBytes / size;
    memory_ = DeviceMemory(static_cast<std::size_t>((units * size + 15) / 16 * 16));
    counter_ = DeviceMemory(sizeof(unsigned long long));
    matrix_.data = static_cast<unsigned char*>(memory_.get()) + front_ * size;
  }

  Matrix const& matrix() const { return matrix_; }

  void poison(cudaStream_t stream) const {
    check(cudaMemsetAsync(memory_.get(), poison_, memory_.bytes(), stream), "poisoning a buffer");
  }

  /// Elements around and between the matrix's own that were written since poison().
  int64_t strays(cudaStream_t stream) const {
    check(cudaMemsetAsync(counter_.get(), 0, sizeof(unsigned long long), stream), "clearing a counter");
    int64_t const units = static_cast<int64_t>(memory_.bytes()) / matrix_.element_bytes;
    count_strays_kernel<<<blocks_for(units), kThreads, 0, stream>>>(static_cast<unsigned char const*>(memory_.get()), units,
                                                                    front_, matrix_, poison_,
                                                                    static_cast<unsigned long long*>(counter_.get()));
    check(cudaGetLastError(), "launching count_strays_kernel");
    return static_cast<int64_t>(read_counter(stream));
  }

  uint64_t checksum(cudaStream_t stream) const {
    check(cudaMemsetAsync(counter_.get(), 0, sizeof(unsigned long long), stream), "clearing a counter");
    int64_t const words = static_cast<int64_t>(memory_.bytes() / sizeof(uint32_t));
    checksum_kernel<<<blocks_for(words), kThreads, 0, stream>>>(static_cast<uint32_t const*>(memory_.get()), words,
                                                                static_cast<unsigned long long*>(counter_.get()));
    check(cudaGetLastError(), "launching checksum_kernel");
    return read_counter(stream);
  }

 private:
  unsigned long long read_counter(cudaStream_t stream) const {
    unsigned long long count = 0;
    check(cudaMemcpyAsync(&count, counter_.get(), sizeof count, cudaMemcpyDeviceToHost, stream), "reading a counter");
    check(cudaStreamSynchronize(stream), "checking a buffer");
    return count;
  }

  Matrix matrix_;
  unsigned char poison_ = 0;
  int64_t front_ = 0;  ///< elements before the matrix
  DeviceMemory memory_, counter_;
};

}  // namespace v0_1
}  // namespace mmagen::test
