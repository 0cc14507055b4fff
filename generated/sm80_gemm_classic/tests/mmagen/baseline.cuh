// SPDX-License-Identifier: MIT-0
// cuBLASLt as a candidate: its first heuristic and the fastest of its first eight.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "cublaslt.cuh"
#include "groups.cuh"
#include "judge_baseline.cuh"
#include "operands.cuh"
#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// The call with operands that cuBLASLt has types for: weights of few bits become a B of the type of A.
template <class Subject>
Call of_baseline(Call const& call) {
  if constexpr (PreparesB<Subject>::value) {
    return Subject::dequantized(call);
  } else {
    return call;
  }
}

template <class Subject>
LtTypes lt_types() {
  using A = typename Subject::Scales::OfA;
  using B = typename Subject::Scales::OfB;
  return {Subject::A::kWord,
          PreparesB<Subject>::value ? Subject::A::kWord : Subject::B::kWord,
          Subject::Out::kWord,
          Subject::Acc::kWord,
          Subject::Scalar::kWord,
          {A::kWhich, A::kLines, A::kAlongK},
          {B::kWhich, B::kLines, B::kAlongK},
          LtEpilogueOf<typename Subject::Epilogue>::make()};
}

/// What cuBLASLt makes of the sums with its own form of the epilogue.
template <class Subject>
using LtModel = typename LtEpilogueOf<typename Subject::Epilogue>::Model;

/// One call of cuBLASLt, with its first heuristic, for each group that has rows. They are planned once.
template <class Subject>
class LtOfGroups {
 public:
  LtOfGroups(Problem const& problem, Call const& call) : problem_(problem) {
    for (int64_t group = 0; group < problem.batch; ++group) {
      RowSpan const span = rows_of<Subject>(problem, group);
      if (span.begin == span.end) { continue; }
      each_.push_back({group, std::make_unique<LtMatmul>(lt_types<Subject>(), of_group(call, group))});
    }
  }

  void run(Call const& call, cudaStream_t stream) const {
    for (One const& one : each_) { one.matmul->run(of_group(call, one.group), 0, stream); }
  }

  /// A dense product of as many rows as the groups have together, with the B of the first group: not what the kernel computes,
  /// but as many operations. A without rows where they do not follow each other in memory.
  static Call dense(Problem const& problem, Call call) {
    bool const follow = call.a.batch_stride == 0 || (call.a.cols_contiguous && call.d.cols_contiguous);
    int64_t const rows = follow ? rows_together(problem) : 0;
    call.m = call.a.rows = call.c.rows = call.d.rows = rows;
    call.batch = call.a.batch = call.b.batch = call.c.batch = call.d.batch = 1;
    return call;
  }

 private:
  struct One {
    int64_t group;
    std::unique_ptr<LtMatmul> matmul;
  };

  /// The call of one group.
  Call of_group(Call call, int64_t group) const {
    RowSpan const span = rows_of<Subject>(problem_, group);
    auto const take = [&](Matrix& matrix, int64_t row) {
      if (matrix.data == nullptr) { return; }
      matrix.data = static_cast<unsigned char*>(matrix.data) + matrix.offset(row, 0, group) * matrix.element_bytes;
      matrix.batch = 1;
    };
    for (Matrix* const one : {&call.a, &call.c, &call.d}) {
      take(*one, span.begin);
      one->rows = span.end - span.begin;
    }
    take(call.b, 0);
    int const bias = lt_types<Subject>().epilogue.bias;
    if (bias >= 0) { take(call.further[static_cast<std::size_t>(bias)], 0); }
    call.m = span.end - span.begin;
    call.batch = 1;
    return call;
  }

  Problem problem_;
  std::vector<One> each_;
};

}  // namespace v0_1
}  // namespace mmagen::test
