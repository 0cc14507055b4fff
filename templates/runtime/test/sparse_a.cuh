// A sparse A under test: pruned here, by the rule that the library documents, and compressed by the library, whose own pruning
// and checks of metadata are tested on the way. Knows nothing of the library's headers but its C interface.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>

#include "buffers.cuh"
#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// What the compressed form of one matrix takes, as the library says.
struct CompressedSize {
  int64_t columns = 0, ld_values = 0, values_bytes = 0, metadata_words = 0;
};

/// Sets all but `kept` of each `group` neighbours along the columns to zero: those of largest magnitude stay, of equal ones the
/// first.
template <class T>
__global__ void prune_kernel(Matrix matrix, int group, int kept) {
  auto* const data = static_cast<typename T::Storage*>(matrix.data);
  int64_t const groups = (matrix.cols + group - 1) / group;
  int64_t const batch = matrix.batch_stride == 0 ? 1 : matrix.batch;
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < groups * matrix.rows * batch; i += stride) {
    int64_t const first = i % groups * group, row = i / groups % matrix.rows, b = i / groups / matrix.rows;
    int64_t const last = first + group < matrix.cols ? first + group : matrix.cols;
    for (int64_t drop = last - first - kept; drop > 0; --drop) {
      int64_t least = -1;  // the last of those with the smallest magnitude that are still there
      for (int64_t col = first; col < last; ++col) {
        double const size = fabs(T::load(data[matrix.offset(row, col, b)]));
        if (size != 0 && (least < 0 || size <= fabs(T::load(data[matrix.offset(row, least, b)])))) { least = col; }
      }
      int nonzeros = 0;
      for (int64_t col = first; col < last; ++col) { nonzeros += T::load(data[matrix.offset(row, col, b)]) != 0 ? 1 : 0; }
      if (nonzeros <= kept) { break; }
      data[matrix.offset(row, least, b)] = T::store(0.0);
    }
  }
}

/// Counts the elements in which two matrices of the same layout differ.
template <class T>
__global__ void count_differences_kernel(Matrix a, Matrix b, unsigned long long* differences) {
  auto const* const mine = static_cast<typename T::Storage const*>(a.data);
  auto const* const other = static_cast<typename T::Storage const*>(b.data);
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.elements(); i += stride) {
    int64_t const row = i / a.cols % a.rows, col = i % a.cols, batch = i / a.cols / a.rows;
    bool const same = T::load(mine[a.offset(row, col, batch)]) == T::load(other[b.offset(row, col, batch)]);
    if (!same) { atomicAdd(differences, 1ull); }
  }
}

/// The compressed form of the matrices A of a program, by the address of A.
template <class Subject>
class CompressedA {
 public:
  /// Prunes A and compresses it.
  static void prepare(Matrix const& a, cudaStream_t stream) {
    CompressedA& mine = all()[a.data];
    mine.size_ = Subject::compressed_size(a.rows, a.cols);
    mine.batch_ = a.batch_stride == 0 ? 1 : a.batch;
    mine.values_ = DeviceMemory(static_cast<std::size_t>(mine.size_.values_bytes * mine.batch_ + 16));
    mine.metadata_ = DeviceMemory(static_cast<std::size_t>(4 * mine.size_.metadata_words * mine.batch_ + 16));
    DeviceMemory violation(sizeof(int64_t));
    Matrix one = a;
    one.batch = mine.batch_;

    // The library's pruning of a copy, and ours in place.
    int64_t const elements = one.batch_stride * (one.batch - 1) + (one.outer() - 1) * one.ld + one.inner();
    DeviceMemory copied(static_cast<std::size_t>(elements * one.element_bytes));
    check(cudaMemcpyAsync(copied.get(), a.data, copied.bytes(), cudaMemcpyDeviceToDevice, stream), "copying A");
    Matrix copy = one;
    copy.data = copied.get();
    succeed(Subject::prune(copy, stream), "prune");
    using T = typename Subject::A;
    prune_kernel<T><<<blocks_for(a.elements()), kThreads, 0, stream>>>(one, Subject::kGroupA, Subject::kKeptA);
    check(cudaGetLastError(), "launching prune_kernel");
    DeviceMemory differences(sizeof(unsigned long long));
    check(cudaMemsetAsync(differences.get(), 0, differences.bytes(), stream), "counting differences");
    count_differences_kernel<T>
        <<<blocks_for(one.elements()), kThreads, 0, stream>>>(one, copy, static_cast<unsigned long long*>(differences.get()));
    check(cudaGetLastError(), "launching count_differences_kernel");
    expect(differences, 0, "elements of A that the library prunes in another way", stream);

    auto* const found = static_cast<int64_t*>(violation.get());
    succeed(Subject::compress(one, mine.values_.get(), mine.size_, mine.metadata_.get(), found, stream), "compress");
    expect(violation, -1, "the position where a pruned A is not sparse", stream);
    succeed(Subject::check_metadata(one, mine.size_, mine.metadata_.get(), found, stream), "check_metadata");
    expect(violation, -1, "the word of metadata that is not legal", stream);
  }

  /// The compressed form of A.
  static CompressedA const& of(Matrix const& a) { return all().at(a.data); }

  /// Frees what was made of this A.
  static void forget(Matrix const& a) { all().erase(a.data); }

  CompressedSize const& size() const { return size_; }
  void* values() const { return values_.get(); }
  void* metadata() const { return metadata_.get(); }
  int64_t values_stride() const { return batch_ == 1 ? 0 : size_.values_bytes / static_cast<int64_t>(sizeof(Storage)); }
  int64_t metadata_stride() const { return batch_ == 1 ? 0 : size_.metadata_words; }

 private:
  using Storage = typename Subject::A::Storage;

  static std::map<void const*, CompressedA>& all() {
    static auto* const made = new std::map<void const*, CompressedA>;  // outlives the runtime
    return *made;
  }

  static void succeed(int status, char const* call) {
    if (status != 0) { throw Failure{Disposition::kFailed, std::string(call) + ": " + Subject::error_text() + ". "}; }
  }

  static void expect(DeviceMemory const& memory, int64_t wanted, char const* what, cudaStream_t stream) {
    int64_t found = 0;
    check(cudaMemcpyAsync(&found, memory.get(), sizeof found, cudaMemcpyDeviceToHost, stream), "reading a result");
    check(cudaStreamSynchronize(stream), "compressing A");
    if (found != wanted) {
      throw Failure{Disposition::kIncorrect,
                    std::string(what) + ": " + std::to_string(found) + ", not " + std::to_string(wanted) + ". "};
    }
  }

  CompressedSize size_;
  int64_t batch_ = 1;
  DeviceMemory values_, metadata_;
};

}  // namespace v0_1
}  // namespace mmagen::test
