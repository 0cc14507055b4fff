// SPDX-License-Identifier: MIT-0
// Another library's product, checked like a kernel's.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "judge.cuh"
#include "operands.cuh"
#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// Checks that another library computes the same product from operands that were filled with `distribution`.
template <class Subject, class Epilogue = typename Subject::Epilogue>
Outcome judge_baseline(Runner const& runner, Problem const& problem, Distribution distribution,
                       Operands<Subject> const& operands, cudaStream_t stream) {
  Outcome outcome;
  // Who adds in which order, and how often sums are promoted, is not known: the loosest bound of the same arithmetic.
  Accumulation of = Subject::kAccumulation;
  of.chunk = std::min(of.chunk, 4);
  of.promoted = 0;
  of.turns = 2;
  of.shuffled = true;
  Expectation const expected = expectation<Subject>(problem, draw_of<Subject>(problem, distribution), of);
  judge_pass<Subject, false, Epilogue>(problem, expected, operands, runner, InPlace::kNo, &outcome, stream);
  return outcome;
}

}  // namespace v0_1
}  // namespace mmagen::test
