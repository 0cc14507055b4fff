// One problem, one distribution of inputs: run it, and say whether the result is right.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "compare.cuh"
#include "error.cuh"
#include "operands.cuh"
#include "record.cuh"
#include "reference.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// Runs a call on a stream; throws Failure when it is refused.
using Runner = std::function<void(Call const&)>;

struct Outcome {
  Disposition disposition = Disposition::kPassed;
  std::string reason;
  Findings findings;
  bool compared = false;
};

/// Throws what a status of the C ABI means for a call that is legal.
template <class Subject>
void check_status(int status) {
  if (status == kSuccess) { return; }
  std::string reason =
      std::string(Subject::kName) + "_run returned " + std::to_string(status) + ", \"" + Subject::status_text(status) + "\"";
  cudaError_t const error = status == kCudaError ? cudaGetLastError() : cudaSuccess;
  if (error != cudaSuccess) { reason += std::string("; CUDA says ") + cudaGetErrorString(error); }
  bool const unsupported =
      status == kNotSupported || (error != cudaSuccess && disposition_of(error) == Disposition::kNotSupported);
  throw Failure{unsupported ? Disposition::kNotSupported : Disposition::kFailed, reason};
}

inline std::string describe(Findings const& one, Problem const& problem) {
  long long const m = one.first / problem.n % problem.m;
  long long const b = one.first / problem.n / problem.m;
  return "(" + std::to_string(b) + "," + std::to_string(m) + "," + std::to_string(one.first % problem.n) + ") got " +
         number_text(one.first_got, 9) + " expected " + number_text(one.first_expected, 9) + " +- " +
         number_text(one.first_bound, 3);
}

/// Compares D with the reference, every batch and every element.
template <class Subject>
void compare_output(Problem const& problem, ErrorModel const& model, Call const& call, Matrix const& c, char const* pass,
                    Outcome* outcome, cudaStream_t stream) {
  using A = typename Subject::A;
  using B = typename Subject::B;
  ReferenceSlab slab(problem.m, problem.n);
  Comparison comparison;
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (int64_t row0 = 0; row0 < problem.m; row0 += slab.rows()) {
      int64_t const rows = std::min(slab.rows(), problem.m - row0);
      slab.template compute<A, B>(call.a, call.b, b, row0, rows, stream);
      comparison.template add<typename Subject::Out>(call.d, c, model, b, row0, rows, slab.sum(), slab.magnitude(), stream);
    }
  }
  merge(outcome->findings, comparison.total());
  outcome->compared = true;
  if (comparison.total().incorrect == 0) { return; }
  outcome->disposition = Disposition::kIncorrect;
  outcome->reason += std::to_string(comparison.total().incorrect) + " of " + std::to_string(call.d.elements()) +
                     " elements wrong" + pass + "; at (batch,m,n): ";
  for (std::size_t i = 0; i < comparison.examples().size(); ++i) {
    outcome->reason += (i == 0 ? "" : ", ") + describe(comparison.examples()[i], problem);
  }
  outcome->reason += ". ";
}

template <class Subject>
void judge_pass(Problem const& problem, ErrorModel const& model, Operands<Subject> const& operands, Runner const& runner,
                InPlace in_place, Outcome* outcome, cudaStream_t stream) {
  char const* const pass = in_place == InPlace::kYes ? " with C and D the same matrix" : "";
  operands.prepare_output(in_place, stream);
  Call const call = operands.call(in_place);
  uint64_t const before = operands.inputs_checksum(stream);
  runner(call);
  check(cudaGetLastError(), "launching the kernel");
  check(cudaStreamSynchronize(stream), "running the kernel");
  int64_t const strays = operands.d().strays(stream);
  if (strays != 0) {
    outcome->disposition = Disposition::kIncorrect;
    outcome->reason += std::to_string(strays) + " elements outside of D were written" + pass + ". ";
  }
  if (operands.inputs_checksum(stream) != before) {
    outcome->disposition = Disposition::kIncorrect;
    outcome->reason += std::string("A, B or C was written") + pass + ". ";
  }
  compare_output<Subject>(problem, model, call, operands.c(), pass, outcome, stream);
}

/// Whether equality can be asked for.
inline bool is_exact(Distribution distribution, SmallIntRule const& rule) {
  return distribution == Distribution::kZeros || (distribution == Distribution::kSmallInt && rule.exact);
}

/// Fills the operands, runs once and, when C is read, once more in place, and compares.
template <class Subject>
Outcome judge(Problem const& problem, Distribution distribution, uint64_t seed, Operands<Subject>* operands,
              Runner const& runner, cudaStream_t stream) {
  Outcome outcome;
  try {
    SmallIntRule const rule = small_int_rule(problem.k, problem.alpha, problem.beta, exact_limits<Subject>());
    ErrorModel const model = error_model<Subject>(problem.k, problem.alpha, problem.beta, is_exact(distribution, rule));
    operands->fill_inputs(distribution, rule, seed, stream);
    judge_pass<Subject>(problem, model, *operands, runner, InPlace::kNo, &outcome, stream);
    if (operands->has_c()) { judge_pass<Subject>(problem, model, *operands, runner, InPlace::kYes, &outcome, stream); }
  } catch (Failure const& failure) {
    // A wrong result stays the worst news, whatever came after it.
    if (outcome.disposition != Disposition::kIncorrect) { outcome.disposition = failure.disposition; }
    outcome.reason += failure.reason;
  }
  return outcome;
}

/// A leading dimension shorter than the row must be refused, and D left alone. Returns what went wrong, if anything.
template <class Subject>
std::string negative_check(Problem problem, cudaStream_t stream) {
  problem.batch = 1;
  Operands<Subject> operands(problem);
  operands.fill_inputs(Distribution::kZeros, {}, 0, stream);
  operands.prepare_output(InPlace::kNo, stream);
  Call call = operands.call(InPlace::kNo);
  call.a.ld = call.a.inner() - 1;
  uint64_t const before = operands.d().checksum(stream);
  int const status = Subject::run(call, stream);
  check(cudaStreamSynchronize(stream), "refusing a short leading dimension");
  std::string fault;
  if (status != kInvalidArgument) {
    fault = std::string("lda one short of the row was answered ") + std::to_string(status) + ", \"" +
            Subject::status_text(status) + "\", not 1. ";
  }
  if (operands.d().checksum(stream) != before) { fault += "D was written although lda was one short of the row."; }
  return fault;
}

template <class Subject>
Record new_record(Problem const& problem, uint64_t seed) {
  Record record;
  record.name = Subject::kName;
  record.problem = text(problem);
  record.layout = std::string(Subject::kLayoutLetters) + " (A: " + Subject::kAMajor + " contiguous, B: " + Subject::kBMajor +
                  " contiguous, D: " + Subject::kDMajor + " contiguous)";
  record.types =
      std::string(Subject::A::kWord) + " x " + Subject::B::kWord + " + " + Subject::Acc::kWord + " -> " + Subject::Out::kWord;
  record.mmagen = Subject::kMmagenVersion;
  record.spec_sha = Subject::kSpecSha;
  record.seed = seed;
#if defined(MMAGEN_CUTLASS_VERSION)
  record.cutlass = MMAGEN_CUTLASS_VERSION;
#endif
  return record;
}

inline void put(Outcome const& outcome, Record* record) {
  record->disposition = outcome.disposition;
  record->reason = outcome.reason;
  if (!outcome.compared) { return; }
  record->max_abs_err = outcome.findings.max_abs_err;
  record->max_rel_err = outcome.findings.max_rel_err;
  record->bound = outcome.findings.bound;
}

/// 2*M*N*K per batch, the textbook count.
inline double flop(Problem const& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(p.batch);
}

}  // namespace v0_1
}  // namespace mmagen::test
