// Runs the kernel on one problem with one distribution of inputs, and compares it with a reference.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>

#include "buffers.cuh"
#include "compare.cuh"
#include "error_bound.cuh"
#include "groups.cuh"
#include "line_sums.cuh"
#include "operands.cuh"
#include "record.cuh"
#include "reference.cuh"
#include "scales.cuh"
#include "types.cuh"

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

/// Throws a Failure if a legal call returned an error status.
template <class Subject>
void check_status(int status) {
  if (status == kSuccess) { return; }
  std::string const reason =
      std::string(Subject::kName) + "_run returned " + std::to_string(status) + ", \"" + Subject::error_text() + "\"";
  cudaError_t const error = status == kCudaError ? cudaGetLastError() : cudaSuccess;
  bool const unsupported =
      is_about_device(status) || (error != cudaSuccess && disposition_of(error) == Disposition::kNotSupported);
  throw Failure{unsupported ? Disposition::kNotSupported : Disposition::kFailed, reason};
}

/// parts: real numbers of an element.
inline std::string describe(Findings const& one, Matrix const& d, int parts) {
  long long const element = one.first / parts;
  long long const m = element / d.cols % d.rows;
  long long const b = element / d.cols / d.rows;
  char const* const part = parts == 1 ? "" : one.first % parts == 0 ? " real part" : " imaginary part";
  return "(" + std::to_string(b) + "," + std::to_string(m) + "," + std::to_string(element % d.cols) + ")" + part + " got " +
         number_text(one.first_got, 9) + " expected " + number_text(one.first_expected, 9) + " +- " +
         number_text(one.first_bound, 3);
}

/// What is compared: the inputs, and what the kernel keeps of its sums.
struct Expectation {
  Draw draw;
  Accumulation accumulation;
  ErrorModel model;
};

/// What numbers of type f32 or f64 may be raised to, by their places among the further tensors.
class Raised {
 public:
  /// gathered: of a product, in device memory, as ModelPlace has it.
  void add(std::size_t place, unsigned long long const* gathered) {
    unsigned long long bits[3] = {};
    check(cudaMemcpy(bits, gathered + 3 * place, sizeof bits, cudaMemcpyDeviceToHost), "reading what is gathered");
    for (std::size_t i = 0; i < 3; ++i) { bits_[place][i] = std::max(bits_[place][i], bits[i]); }
  }

  /// What is wrong with the number that began as zero, "" if nothing is.
  std::string wrong(std::size_t place, Matrix const& matrix) const {
    bool const of_double = matrix.element_bytes == sizeof(double);
    double got = 0;
    float got_float = 0;
    void* const to = of_double ? static_cast<void*>(&got) : &got_float;
    std::size_t const bytes = static_cast<std::size_t>(matrix.element_bytes);
    check(cudaMemcpy(to, matrix.data, bytes, cudaMemcpyDeviceToHost), "reading what the kernel has gathered");
    if (!of_double) { got = got_float; }
    auto const stored = [of_double](double x) { return of_double ? x : f32::round(x); };
    double const low = stored(double_from_bits(bits_[place][0]));
    double const high = stored(double_from_bits(bits_[place][2]));
    if (low <= got && got <= high) { return ""; }
    return "argument " + std::to_string(place) + " behind C is " + number_text(got, 9) + ", expected " + number_text(low, 9) +
           " to " + number_text(high, 9) + ". ";
  }

 private:
  unsigned long long bits_[FurtherMatrices::kMost][3] = {};
};

/// What is wrong with the tensors that the call has updated, which began as zeros, and with what lies around them: sums of
/// lines, and numbers of type f32 or f64 that are raised. products: elements of D, or of what its pairs are made of, in one
/// matrix. raised: where groups share what is raised, what it may be so far; it is judged by wrong_raised().
template <class Subject, class Epilogue>
std::string wrong_gathered(Operands<Subject> const& operands, unsigned long long const* gathered, LineSums const& sums,
                           int64_t products, Raised* raised, cudaStream_t stream) {
  std::string wrong;
  for (auto const& [place, memory] : operands.updated()) {
    if (raised != nullptr && operands.is_shared(place)) {
      raised->add(place, gathered);
      continue;
    }
    if (memory->strays(stream) != 0) { wrong += "memory around argument " + std::to_string(place) + " was written. "; }
    if ((Epilogue::kLineSums >> place & 1u) != 0) {
      wrong += sums.wrong<typename Subject::Scalar>(place, memory->matrix(), products);
      continue;
    }
    Raised of_one;
    of_one.add(place, gathered);
    wrong += of_one.wrong(place, memory->matrix());
  }
  return wrong;
}

/// The same of what all groups with matrices of their own raise.
template <class Subject>
std::string wrong_raised(Operands<Subject> const& operands, Raised const& raised, cudaStream_t stream) {
  std::string wrong;
  for (auto const& [place, memory] : operands.updated()) {
    if (memory->strays(stream) != 0) { wrong += "memory around argument " + std::to_string(place) + " was written. "; }
    wrong += raised.wrong(place, memory->matrix());
  }
  return wrong;
}

/// Compares D with the reference, every batch and every element. Epilogue: the model of what made D. raised: see
/// wrong_gathered().
template <class Subject, bool kPromoted, class Epilogue>
void compare_output(Problem const& problem, Expectation const& expected, Operands<Subject> const& operands, Call const& call,
                    Matrix const& c, char const* pass, Outcome* outcome, Raised* raised, cudaStream_t stream) {
  using A = typename Subject::A;
  using B = typename Subject::B;
  constexpr int kParts = kPartsOf<typename Subject::Out>;
  ReferenceSlab slab(problem.m, problem.n * kPartsOf<B>);
  Comparison comparison;
  FurtherMatrices further;
  std::copy(call.further.begin(), call.further.end(), further.at);
  further.gathered = comparison.gathered();
  LineSums const sums(Epilogue::kLineSums, further);
  for (int64_t b = 0; b < problem.batch; ++b) {
    RowSpan const span = rows_of<Subject>(problem, b);
    for (int64_t row0 = span.begin; row0 < span.end; row0 += slab.rows()) {
      int64_t const rows = std::min(slab.rows(), span.end - row0);
      slab.template compute<A, B, kPromoted>(call.a, call.b, Subject::Scales::of(further), expected.accumulation,
                                             expected.draw.positive, b, row0, rows, stream);
      comparison.template add<typename Subject::Out, Epilogue>(call.d, c, further, expected.model, b, row0, rows, slab.sum(),
                                                               slab.magnitude(), slab.drift(), stream);
    }
  }
  merge(outcome->findings, comparison.total());
  outcome->compared = true;
  std::string const gathered =
      wrong_gathered<Subject, Epilogue>(operands, comparison.gathered(), sums, problem.m * problem.n, raised, stream);
  if (!gathered.empty()) {
    outcome->disposition = Disposition::kIncorrect;
    outcome->reason += gathered;
  }
  if (comparison.total().incorrect == 0) { return; }
  outcome->disposition = Disposition::kIncorrect;
  outcome->reason += std::to_string(comparison.total().incorrect) + " of " + std::to_string(call.d.elements() * kParts) +
                     (kParts == 1 ? " elements wrong" : " real and imaginary parts wrong") + pass + "; at (batch,m,n): ";
  for (std::size_t i = 0; i < comparison.examples().size(); ++i) {
    outcome->reason += (i == 0 ? "" : ", ") + describe(comparison.examples()[i], call.d, kParts);
  }
  outcome->reason += ". ";
}

template <class Subject, bool kPromoted = Subject::kAccumulation.promoted != 0, class Epilogue = typename Subject::Epilogue>
void judge_pass(Problem const& problem, Expectation const& expected, Operands<Subject> const& operands, Runner const& runner,
                InPlace in_place, Outcome* outcome, cudaStream_t stream) {
  char const* const pass = in_place == InPlace::kYes ? " with C and D the same matrix" : "";
  operands.prepare_output(in_place, stream);
  Call const call = operands.call(in_place);
  uint64_t const before = operands.inputs_checksum(stream);
  uint64_t const rest = rest_of(call.d, operands.groups(), stream);
  runner(call);
  check(cudaGetLastError(), "launching the kernel");
  check(cudaStreamSynchronize(stream), "running the kernel");
  int64_t const strays = operands.strays(stream);
  if (strays != 0) {
    outcome->disposition = Disposition::kIncorrect;
    outcome->reason += std::to_string(strays) + " elements outside of D were written" + pass + ". ";
  }
  if (rest_of(call.d, operands.groups(), stream) != rest) {
    outcome->disposition = Disposition::kIncorrect;
    outcome->reason += std::string("rows of D that belong to no group were written") + pass + ". ";
  }
  if (operands.skipped_groups(stream) != 0) {
    outcome->disposition = Disposition::kIncorrect;
    outcome->reason += std::string("group_status says that groups were skipped") + pass + ". ";
  }
  if (operands.inputs_checksum(stream) != before) {
    outcome->disposition = Disposition::kIncorrect;
    outcome->reason += std::string("A, B, C or another input was written") + pass + ". ";
  }
  if constexpr (kGroupRowsOf<Subject> == GroupRows::kPointers) {
    outcome->compared = true;  // also where no group has elements
    Raised raised;
    for (std::size_t group = 0; group < call.each.size(); ++group) {
      if (call.each[group].d.data == nullptr) { continue; }
      Problem const own = operands.of_group(group).problem();
      Expectation of_own = expected;
      of_own.draw = draw_of<Subject>(own, expected.draw.distribution);
      of_own.model = error_model<Subject>(problem.alpha, problem.beta, of_own.draw.distribution != Distribution::kUniform,
                                          of_own.draw.exact);
      std::string const which = " of group " + std::to_string(group) + pass;
      compare_output<Subject, kPromoted, Epilogue>(own, of_own, operands.of_group(group), call.each[group],
                                                   operands.of_group(group).c(), which.c_str(), outcome, &raised, stream);
    }
    std::string const wrong = wrong_raised(operands, raised, stream);
    if (!wrong.empty()) {
      outcome->disposition = Disposition::kIncorrect;
      outcome->reason += wrong;
    }
  } else {
    compare_output<Subject, kPromoted, Epilogue>(problem, expected, operands, call, operands.c(), pass, outcome, nullptr,
                                                 stream);
  }
}

template <class Subject>
Expectation expectation(Problem const& problem, Draw const& draw, Accumulation const& of) {
  bool const exact_sums = draw.distribution != Distribution::kUniform;
  return {draw, of, error_model<Subject>(problem.alpha, problem.beta, exact_sums, draw.exact)};
}

/// Fills the operands, runs once and, when C is read, once more in place, and compares.
template <class Subject>
Outcome judge(Problem const& problem, Distribution distribution, uint64_t seed, Operands<Subject>* operands,
              Runner const& runner, cudaStream_t stream) {
  Outcome outcome;
  try {
    Expectation const expected = expectation<Subject>(problem, draw_of<Subject>(problem, distribution), Subject::kAccumulation);
    operands->fill_inputs(expected.draw, seed, stream);
    judge_pass<Subject>(problem, expected, *operands, runner, InPlace::kNo, &outcome, stream);
    // D cannot be a C that all batches share; groups share one as they share D.
    bool const one_for_all = kGroupRowsOf<Subject> == GroupRows::kNone || kGroupRowsOf<Subject> == GroupRows::kMasked;
    bool const shared = operands->c().batch_stride == 0 && one_for_all;
    if (operands->has_c() && !shared) {
      judge_pass<Subject>(problem, expected, *operands, runner, InPlace::kYes, &outcome, stream);
    }
  } catch (Failure const& failure) {
    // Incorrect outranks any later failure.
    if (outcome.disposition != Disposition::kIncorrect) { outcome.disposition = failure.disposition; }
    outcome.reason += failure.reason;
  }
  return outcome;
}

/// A leading dimension shorter than the row must be rejected without writing D. Returns the fault, or "".
template <class Subject>
std::string negative_check(Problem problem, cudaStream_t stream) {
  problem.batch = 1;
  problem.groups.resize(std::min<std::size_t>(problem.groups.size(), 1));
  if (kGroupRowsOf<Subject> == GroupRows::kPointers) {
    problem.groups.assign(1, static_cast<int32_t>(problem.m));
    problem.groups_nk.clear();
  }
  Operands<Subject> operands(problem);
  operands.fill_inputs(Draw{}, 0, stream);
  operands.prepare_output(InPlace::kNo, stream);
  Call call = operands.call(InPlace::kNo);
  call.a.ld = call.a.inner() - 1;
  call.pointers.lda = nullptr;  // the one of the call for all
  uint64_t const before = operands.output_checksum(stream);
  int const status = Subject::run(call, stream);
  std::string const said = Subject::error_text();
  check(cudaStreamSynchronize(stream), "refusing a short leading dimension");
  std::string fault;
  if (status != kShortLda) {
    fault = "lda one short of the row was answered " + std::to_string(status) + ", \"" + said + "\", not " +
            std::to_string(kShortLda) + ". ";
  }
  if (operands.output_checksum(stream) != before) { fault += "D was written although lda was one short of the row."; }
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

/// 2*M*N*K per batch, the textbook count; of groups, that of the rows that there are; of complex numbers four times that.
template <class Subject>
double flop(Problem const& p) {
  constexpr double kEach = 2.0 * kPartsOf<typename Subject::A> * kPartsOf<typename Subject::B>;
  if (!p.groups_nk.empty()) {
    double sum = 0;
    for (std::size_t i = 0; i < p.groups.size(); ++i) {
      sum += kEach * static_cast<double>(p.groups[i]) * static_cast<double>(p.n_of(i)) * static_cast<double>(p.k_of(i));
    }
    return sum;
  }
  return kEach * static_cast<double>(rows_together(p)) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

}  // namespace v0_1
}  // namespace mmagen::test
