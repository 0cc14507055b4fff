// SPDX-License-Identifier: MIT-0
// Sets of operands that launches use in turn, so that none finds its own in the L2 cache.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "device.cuh"
#include "operands.cuh"

namespace mmagen::test {
inline namespace v0_1 {

namespace detail {

/// How many sets there are, for a round of launches to move 200 MB. moved: bytes of a launch; taken: bytes of memory of a set.
inline int sets_of_rotation(double moved, double taken) {
  constexpr double kRotatedBytes = 2e8, kMostSets = 256, kMostOfFree = 0.75;
  std::size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  double const affordable = std::floor(kMostOfFree * static_cast<double>(free_bytes) / taken);
  return static_cast<int>(std::max(1.0, std::min({kMostSets, std::ceil(kRotatedBytes / moved), affordable})));
}

}  // namespace detail

/// Sets that lie in one allocation for each matrix, 256-byte aligned. Further tensors are those of the first operands.
template <class Subject>
class RotatingOperands {
 public:
  RotatingOperands(Problem const& problem, Operands<Subject> const& like) : problem_(problem), call_(like.call(InPlace::kNo)) {
    double const bytes = call_.a.bytes() + call_.b.bytes() + call_.d.bytes();
    count_ = detail::sets_of_rotation(bytes, bytes);
    a_ = allocated(call_.a);
    b_ = allocated(call_.b);
    d_ = allocated(call_.d);
  }

  void fill(Draw const& draw, uint64_t seed, cudaStream_t stream) const {
    for (int set = 0; set < count_; ++set) {
      Call const one = call(set);
      auto const fill = [&](double reach, int64_t group, uint64_t tag) {
        return Fill{draw.distribution, reach, group, draw.positive, splitmix64(seed + static_cast<uint64_t>(set) ^ tag << 60)};
      };
      fill_matrix<typename Subject::A>(one.a, fill(draw.reach_a, draw.group, 0xa), stream);
      fill_matrix<typename Subject::B>(one.b, fill(draw.reach_b, 1, 0xb), stream);
    }
    check(cudaStreamSynchronize(stream), "filling the input sets");
  }

  int count() const { return count_; }

  Call call(int set) const {
    Call one = call_;
    one.a.data = at(a_, call_.a, set);
    one.b.data = at(b_, call_.b, set);
    one.d.data = at(d_, call_.d, set);
    return one;
  }

 private:
  static std::size_t set_bytes(Matrix const& matrix) {
    int64_t const elements = (matrix.batch - 1) * matrix.batch_stride + matrix.outer() * matrix.ld;
    return static_cast<std::size_t>((elements * matrix.element_bytes + 255) / 256 * 256);
  }
  DeviceMemory allocated(Matrix const& matrix) const {
    return DeviceMemory(set_bytes(matrix) * static_cast<std::size_t>(count_));
  }
  static void* at(DeviceMemory const& memory, Matrix const& matrix, int set) {
    return static_cast<unsigned char*>(memory.get()) + set_bytes(matrix) * static_cast<std::size_t>(set);
  }

  Problem problem_;
  Call call_;
  int count_ = 1;
  DeviceMemory a_, b_, d_;
};

/// Sets that are each prepared as for verify, since a Subject that compresses A or packs B finds the result by the address.
/// Unlike those of OperandSets, none is the first operands, which are filled again while baselines are checked.
template <class Subject>
class PreparedOperands {
 public:
  PreparedOperands(Problem const& problem, Operands<Subject> const& like) {
    Call const call = like.call(InPlace::kNo);
    // Also what A is compressed to, what B is packed to, and a B of the type of A for cuBLASLt.
    double const of_b = PreparesB<Subject>::value ? 2.0 + sizeof(typename Subject::A::Storage) : 1.0;
    double taken = 2 * call.a.bytes() + of_b * call.b.bytes() + call.c.bytes() + call.d.bytes();
    for (Matrix const& one : call.further) { taken += one.bytes(); }
    taken += 2.0 * GuardedMatrix::kGuardBytes * static_cast<double>(4 + call.further.size());
    int const count = detail::sets_of_rotation(like.bytes(), taken);
    for (int set = 0; set < count; ++set) { sets_.emplace_back(problem); }
  }

  ~PreparedOperands() {
    for (Operands<Subject> const& one : sets_) {
      [[maybe_unused]] Call const call = one.call(InPlace::kNo);
      if constexpr (PreparesA<Subject>::value) { Subject::forget_a(call.a); }
      if constexpr (PreparesB<Subject>::value) { Subject::forget_b(call.b); }
    }
  }
  PreparedOperands(PreparedOperands const&) = delete;
  PreparedOperands& operator=(PreparedOperands const&) = delete;

  void fill(Draw const& draw, uint64_t seed, cudaStream_t stream) {
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      sets_[set].fill_inputs(draw, splitmix64(seed + set), stream);
      sets_[set].prepare_output(InPlace::kNo, stream);
    }
    check(cudaStreamSynchronize(stream), "filling the input sets");
  }

  int count() const { return static_cast<int>(sets_.size()); }

  Call call(int set) const { return sets_[static_cast<std::size_t>(set)].call(InPlace::kNo); }

 private:
  std::vector<Operands<Subject>> sets_;
};

template <class Subject>
using RotatingOperandsOf = std::conditional_t<PreparesA<Subject>::value || PreparesB<Subject>::value, PreparedOperands<Subject>,
                                              RotatingOperands<Subject>>;

}  // namespace v0_1
}  // namespace mmagen::test
