// cuBLASLt as a candidate: its first heuristic and the fastest of its first eight, checked like a kernel.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "cublaslt.cuh"
#include "judge.cuh"
#include "operands.cuh"
#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

template <class Subject>
LtTypes lt_types() {
  using A = typename Subject::Scales::OfA;
  using B = typename Subject::Scales::OfB;
  return {Subject::A::kWord,
          Subject::B::kWord,
          Subject::Out::kWord,
          Subject::Acc::kWord,
          Subject::Scalar::kWord,
          {A::kWhich, A::kLines, A::kAlongK},
          {B::kWhich, B::kLines, B::kAlongK}};
}

/// Checks that cuBLASLt computes the same product from operands that were filled with `distribution`.
template <class Subject>
Outcome judge_baseline(LtMatmul const& lt, int heuristic, Problem const& problem, Distribution distribution,
                       Operands<Subject> const& operands, cudaStream_t stream) {
  Outcome outcome;
  // Who adds in which order, and how often sums are promoted, is not known: the loosest bound of the same arithmetic.
  Accumulation of = Subject::kAccumulation;
  of.chunk = std::min(of.chunk, 4);
  of.promoted = 0;
  of.turns = 2;
  of.shuffled = true;
  Expectation const expected = expectation<Subject>(problem, draw_of<Subject>(problem, distribution), of);
  Runner const runner = [&](Call const& call) { lt.run(call, heuristic, stream); };
  judge_pass<Subject, false>(problem, expected, operands, runner, InPlace::kNo, &outcome, stream);
  return outcome;
}

}  // namespace v0_1
}  // namespace mmagen::test
