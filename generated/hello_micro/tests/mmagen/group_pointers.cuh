// SPDX-License-Identifier: MIT-0
// Groups with matrices of their own: the arrays in device memory that a call passes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "buffers.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// Of a matrix of a group: null where the group has none.
struct PointerAndPitch {
  void* data = nullptr;
  int64_t ld = 0;
};

/// A, B, C and D of one group, and its further tensors; none of them for a group without elements.
struct GroupMatricesOf {
  int64_t m, n, k;
  PointerAndPitch matrices[4];
  std::vector<PointerAndPitch> further = {};
};

/// Of one further tensor, for all groups.
struct FurtherArrays {
  void* pointers;
  int32_t const* lds;
};

/// What a call passes: pointers to device memory.
struct PointerArguments {
  void const* a = nullptr;
  void const* b = nullptr;
  void const* c = nullptr;
  void* d = nullptr;
  int32_t const* m = nullptr;
  int32_t const* n = nullptr;
  int32_t const* k = nullptr;
  int32_t const* lda = nullptr;
  int32_t const* ldb = nullptr;
  int32_t const* ldc = nullptr;
  int32_t const* ldd = nullptr;
  int32_t* status = nullptr;
  std::vector<FurtherArrays> further = {};  // in the order of Subject::further()
};

/// The arrays of all groups.
class PointerMemory {
 public:
  PointerMemory() = default;

  /// further: how many further tensors a group has.
  PointerMemory(std::vector<GroupMatricesOf> const& groups, std::size_t further) : groups_(groups.size()), further_(further) {
    std::vector<uint64_t> pointers((kPointerArrays + further_) * groups_);
    std::vector<int32_t> numbers((kNumberArrays + further_) * groups_, -1);
    for (std::size_t i = 0; i < groups_; ++i) {
      GroupMatricesOf const& one = groups[i];
      int64_t const extents[] = {one.m, one.n, one.k};
      for (std::size_t mode = 0; mode < 3; ++mode) { numbers[mode * groups_ + i] = static_cast<int32_t>(extents[mode]); }
      for (std::size_t matrix = 0; matrix < 4; ++matrix) {
        pointers[matrix * groups_ + i] = reinterpret_cast<uint64_t>(one.matrices[matrix].data);
        numbers[(3 + matrix) * groups_ + i] = static_cast<int32_t>(one.matrices[matrix].ld);
      }
      for (std::size_t j = 0; j < one.further.size(); ++j) {
        pointers[(kPointerArrays + j) * groups_ + i] = reinterpret_cast<uint64_t>(one.further[j].data);
        numbers[(kNumberArrays + j) * groups_ + i] = static_cast<int32_t>(one.further[j].ld);
      }
    }
    pointers_ = DeviceMemory(pointers.size() * sizeof(uint64_t));
    pointers_.copy_from(pointers.data(), "copying the pointers of groups");
    numbers_ = DeviceMemory(numbers.size() * sizeof(int32_t));
    numbers_.copy_from(numbers.data(), "copying the sizes of groups");
  }

  /// in_place: C is D.
  PointerArguments arguments(bool in_place) const {
    auto const pointers = [this](std::size_t which) { return static_cast<uint64_t*>(pointers_.get()) + which * groups_; };
    auto const numbers = [this](std::size_t which) { return static_cast<int32_t*>(numbers_.get()) + which * groups_; };
    std::size_t const c = in_place ? 3 : 2;
    PointerArguments found = {pointers(0), pointers(1), pointers(c), pointers(3),    numbers(0), numbers(1),
                              numbers(2),  numbers(3),  numbers(4),  numbers(3 + c), numbers(6), numbers(7)};
    for (std::size_t j = 0; j < further_; ++j) {
      found.further.push_back({pointers(kPointerArrays + j), numbers(kNumberArrays + j)});
    }
    return found;
  }

  /// Groups that the kernel did not report as computed, after a call.
  int64_t reported(cudaStream_t stream) const {
    std::vector<int32_t> status(groups_);
    check(cudaMemcpyAsync(status.data(), arguments(false).status, groups_ * sizeof(int32_t), cudaMemcpyDeviceToHost, stream),
          "reading the status of groups");
    check(cudaStreamSynchronize(stream), "reading the status of groups");
    return static_cast<int64_t>(groups_) - std::count(status.begin(), status.end(), 0);
  }

 private:
  static constexpr std::size_t kPointerArrays = 4, kNumberArrays = 8;  // the last: a status

  std::size_t groups_ = 0, further_ = 0;
  DeviceMemory pointers_, numbers_;
};

}  // namespace v0_1
}  // namespace mmagen::test
