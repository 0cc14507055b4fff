// SPDX-License-Identifier: MIT-0
// The groups of a problem of a grouped kernel: how their rows lie, their sizes in device memory, rows of no group.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

#include "buffers.cuh"
#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// kContiguous: the rows of all groups follow each other in one A, C and D. kMasked: each group has the first rows of its own.
/// kPointers: each group has matrices of its own, anywhere.
enum class GroupRows { kNone, kContiguous, kMasked, kPointers };

/// How a Subject's kernel takes groups: its kGroupRows, kNone where it has none.
template <class Subject, class = void>
inline constexpr GroupRows kGroupRowsOf = GroupRows::kNone;
template <class Subject>
inline constexpr GroupRows kGroupRowsOf<Subject, std::void_t<decltype(Subject::kGroupRows)>> = Subject::kGroupRows;

/// Rows `begin` .. `end` of D belong to the group, or to the matrix of a batch.
struct RowSpan {
  int64_t begin, end;
};

/// Rows of A, of all groups or of all matrices of a batch.
inline int64_t rows_together(Problem const& problem) {
  return problem.groups.empty() ? problem.m * problem.batch
                                : std::accumulate(problem.groups.begin(), problem.groups.end(), int64_t{0});
}

/// kContiguous: where the first group begins. Half of the rows of no group lie before it.
inline int64_t first_row(Problem const& problem) { return (problem.m - rows_together(problem)) / 2; }

template <class Subject>
RowSpan rows_of(Problem const& problem, int64_t group) {
  if (problem.groups.empty()) { return {0, problem.m}; }
  auto const first = problem.groups.begin();
  int64_t const rows = problem.groups[static_cast<std::size_t>(group)];
  bool const contiguous = kGroupRowsOf<Subject> == GroupRows::kContiguous;
  int64_t const begin = contiguous ? std::accumulate(first, first + group, first_row(problem)) : 0;
  return {begin, begin + rows};
}

/// The batch stride of an operand (0: A, 1: B, 2: C, 3: D) as the problem has it; 0 where there is one for all groups.
template <class Subject>
int64_t stride_of(Problem const& problem, int operand) {
  return kGroupRowsOf<Subject> == GroupRows::kContiguous && operand != 1 ? 0 : problem.batch_strides[operand];
}

/// What a call passes besides the matrices.
struct GroupArguments {
  int32_t const* sizes = nullptr;  ///< kContiguous: an offset for each group, and the end; kMasked: rows of each
  int32_t* status = nullptr;       ///< a word for each group
};

/// Sizes, and the rows of each matrix of D that belong to groups, in device memory.
class GroupMemory {
 public:
  template <class Subject>
  void make(Problem const& problem) {
    constexpr GroupRows kRows = kGroupRowsOf<Subject>;
    if (kRows == GroupRows::kNone || kRows == GroupRows::kPointers || problem.groups.empty()) { return; }
    groups_ = problem.groups.size();
    std::vector<int32_t> words(problem.groups);
    if (kRows == GroupRows::kContiguous) {
      words.assign(1, static_cast<int32_t>(first_row(problem)));
      for (int32_t const rows : problem.groups) { words.push_back(words.back() + rows); }
    }
    status_at_ = words.size();
    words.insert(words.end(), groups_, -1);
    used_at_ = words.size();
    if (kRows == GroupRows::kContiguous) {
      words.insert(words.end(), {words[0], words[groups_]});
    } else {
      for (int32_t const rows : problem.groups) { words.insert(words.end(), {0, rows}); }
    }
    memory_ = DeviceMemory(words.size() * sizeof(int32_t));
    memory_.copy_from(words.data(), "copying the sizes of groups");
    sum_ = DeviceMemory(sizeof(unsigned long long));
  }

  bool empty() const { return groups_ == 0; }
  GroupArguments arguments() const { return empty() ? GroupArguments{} : GroupArguments{words(), words() + status_at_}; }
  /// The first and the end of the rows of each matrix of D that belong to groups.
  int32_t const* used() const { return words() + used_at_; }
  unsigned long long* sum() const { return static_cast<unsigned long long*>(sum_.get()); }

  /// Groups that the kernel did not report as computed, after a call.
  int64_t reported(cudaStream_t stream) const {
    std::vector<int32_t> status(groups_);
    check(cudaMemcpyAsync(status.data(), words() + status_at_, groups_ * sizeof(int32_t), cudaMemcpyDeviceToHost, stream),
          "reading the status of groups");
    check(cudaStreamSynchronize(stream), "reading the status of groups");
    return static_cast<int64_t>(groups_) - std::count(status.begin(), status.end(), 0);
  }

 private:
  int32_t* words() const { return static_cast<int32_t*>(memory_.get()); }

  DeviceMemory memory_, sum_;
  std::size_t groups_ = 0, status_at_ = 0, used_at_ = 0;
};

/// A sum over the rows of D that belong to no group, which changes when any element there does. used: see GroupMemory.
static __global__ void rest_kernel(Matrix matrix, int64_t matrices, int32_t const* used, unsigned long long* sum) {
  auto const* const data = static_cast<unsigned char const*>(matrix.data);
  unsigned long long mine = 0;
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  int64_t const each = matrix.rows * matrix.cols;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < each * matrices; i += stride) {
    int64_t const row = i % each / matrix.cols;
    if (row >= used[2 * (i / each)] && row < used[2 * (i / each) + 1]) { continue; }
    int64_t const at = matrix.offset(row, i % matrix.cols, i / each) * matrix.element_bytes;
    uint64_t value = 0;
    for (int byte = 0; byte < matrix.element_bytes; ++byte) { value = value << 8 | data[at + byte]; }
    mine += splitmix64(static_cast<uint64_t>(i) << 32 ^ splitmix64(value));
  }
  atomicAdd(sum, mine);
}

/// The checksum of the rows of D that belong to no group, 0 for a problem without groups.
inline uint64_t rest_of(Matrix const& d, GroupMemory const& groups, cudaStream_t stream) {
  if (groups.empty()) { return 0; }
  check(cudaMemsetAsync(groups.sum(), 0, sizeof(unsigned long long), stream), "clearing a counter");
  int64_t const matrices = d.batch_stride == 0 ? 1 : d.batch;
  rest_kernel<<<blocks_for(d.rows * d.cols * matrices), kThreads, 0, stream>>>(d, matrices, groups.used(), groups.sum());
  check(cudaGetLastError(), "launching rest_kernel");
  unsigned long long sum = 0;
  check(cudaMemcpyAsync(&sum, groups.sum(), sizeof sum, cudaMemcpyDeviceToHost, stream), "reading a counter");
  check(cudaStreamSynchronize(stream), "checking rows of no group");
  return sum;
}

}  // namespace v0_1
}  // namespace mmagen::test
