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
      if (span.begin == span.end || problem.n_of(static_cast<std::size_t>(group)) == 0) { continue; }
      each_.push_back({group, std::make_unique<LtMatmul>(lt_types<Subject>(), of_group(call, group))});
    }
  }

  /// Call once for each set of operands, before it is multiplied.
  void prepare(Call const& call, cudaStream_t stream) const {
    for (One const& one : each_) { one.matmul->prepare(of_group(call, one.group), stream); }
  }

  void run(Call const& call, cudaStream_t stream) const {
    for (One const& one : each_) { one.matmul->run(of_group(call, one.group), 0, stream); }
  }

  /// A dense product of as many rows as the groups have together, with the B of the first group: not what the kernel computes,
  /// but as many operations. A without rows where they do not follow each other in memory.
  static Call dense(Problem const& problem, Call call) {
    bool const one_a = call.a.batch_stride == 0;
    bool const follow = one_a || (!Subject::Scales::kAny && call.a.cols_contiguous && call.d.cols_contiguous);
    int64_t const rows = follow && call.each.empty() ? rows_together(problem) : 0;
    take_scales(lt_types<Subject>().scale_a, call, 0, rows, 0);
    take_scales(lt_types<Subject>().scale_b, call, 0, call.n, 0);
    call.m = call.a.rows = call.c.rows = call.d.rows = rows;
    call.batch = call.a.batch = call.b.batch = call.c.batch = call.d.batch = 1;
    return call;
  }

 private:
  struct One {
    int64_t group;
    std::unique_ptr<LtMatmul> matmul;
  };

  /// The matrix that begins at this place.
  static void move_to(Matrix& matrix, int64_t row, int64_t col, int64_t batch) {
    if (matrix.data == nullptr) { return; }
    matrix.data = static_cast<unsigned char*>(matrix.data) + matrix.offset(row, col, batch) * matrix.element_bytes;
    matrix.batch = 1;
  }

  /// The scales of `count` lines of an operand, from line `first` on, which is the first of a block.
  static void take_scales(LtScale const& of, Call& call, int64_t first, int64_t count, int64_t batch) {
    if (!of.exist()) { return; }
    Matrix& scales = call.further[static_cast<std::size_t>(of.which)];
    bool const along_k = of.along_k > 0;
    int64_t const lines = of.lines > 0 ? of.lines : 1;
    move_to(scales, along_k ? first / lines : 0, along_k || of.lines == 0 ? 0 : first, batch);
    if (along_k) {
      scales.rows = ceil_div(count, lines);
    } else if (of.lines > 0) {
      scales.cols = count;
    }
  }

  /// The call of one group.
  Call of_group(Call call, int64_t group) const {
    if (!call.each.empty()) { return call.each[static_cast<std::size_t>(group)]; }
    RowSpan const span = rows_of<Subject>(problem_, group);
    for (Matrix* const one : {&call.a, &call.c, &call.d}) {
      move_to(*one, span.begin, 0, group);
      one->rows = span.end - span.begin;
    }
    move_to(call.b, 0, 0, group);
    LtTypes const types = lt_types<Subject>();
    take_scales(types.scale_a, call, span.begin, span.end - span.begin, group);
    take_scales(types.scale_b, call, 0, call.n, group);
    if (types.epilogue.bias >= 0) {
      Matrix& bias = call.further[static_cast<std::size_t>(types.epilogue.bias)];
      move_to(bias, 0, types.epilogue.bias_of_rows ? span.begin : 0, group);
    }
    call.m = span.end - span.begin;
    call.batch = 1;
    return call;
  }

  Problem problem_;
  std::vector<One> each_;
};

}  // namespace v0_1
}  // namespace mmagen::test
