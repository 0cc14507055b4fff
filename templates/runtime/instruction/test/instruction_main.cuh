// The program that checks a kernel of one instruction: random matrices of several kinds, a reference on the host, a bound
// for every element of D.
//
// A Subject, spelled in the project's tests/subject.cuh, is what is tested:
//   types A, B, Acc, Scale                  tags of types.cuh and instruction_types.cuh; Scale: of scale factors, or void
//   kName, kSpecSha, kMmagenVersion, kAtom  texts for the record
//   kM, kN, kK                              the instruction's shape
//   kBitsA, kBitsB                          of one element in memory; kShiftA, kShiftB: where its code begins in them
//   kGroup                                  of a sparse A: neighbours of which half are kept; 1 for a dense one
//   kVector                                 elements that share one scale factor, 0 without any
//   kCount                                  of single bits: 'x' counts those that differ, 'a' those that are both set; else ' '
//   kAccumulation                           what the instruction keeps of its sums
//   kSaturate                               sums stop at the ends of s32 instead of wrapping around
//   run(InstructionCall, stream), query(KernelFacts*), error_text()   the C ABI
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <type_traits>
#include <vector>

#include "compare.cuh"
#include "instruction_matrices.cuh"
#include "session.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// Matrices in device memory as the C ABI takes them; e, sfa, sfb null where the instruction takes none.
struct InstructionCall {
  void const *a, *b, *c, *e, *sfa, *sfb;
  void* d;
};

/// Bytes in device memory between guard bands.
class GuardedBytes {
 public:
  GuardedBytes() = default;
  explicit GuardedBytes(std::size_t bytes) : matrix_(shape(bytes), f32::kPoisonByte, 0, 0) {}
  GuardedBytes(std::vector<unsigned char> const& content, cudaStream_t stream) : GuardedBytes(content.size()) {
    matrix_.poison(stream);
    check(cudaMemcpyAsync(data(), content.data(), content.size(), cudaMemcpyHostToDevice, stream), "copying an input");
    check(cudaStreamSynchronize(stream), "copying an input");
  }
  void* data() const { return matrix_.matrix().data; }
  GuardedMatrix const& guarded() const { return matrix_; }

 private:
  static Matrix shape(std::size_t bytes) {
    Matrix matrix;
    matrix.rows = matrix.batch = 1;
    matrix.cols = static_cast<int64_t>(bytes);
    matrix.element_bytes = 1;
    return matrix;
  }
  GuardedMatrix matrix_;
};

template <class Subject>
Record instruction_record(uint64_t seed) {
  Record record;
  record.name = Subject::kName;
  record.problem = std::to_string(Subject::kM) + "," + std::to_string(Subject::kN) + "," + std::to_string(Subject::kK);
  record.layout = "TN (A: K contiguous, B: K contiguous, D: N contiguous)";
  record.types = std::string(Subject::A::kWord) + " x " + Subject::B::kWord + " + " + Subject::Acc::kWord;
  record.mmagen = Subject::kMmagenVersion;
  record.spec_sha = Subject::kSpecSha;
  record.seed = seed;
#if defined(MMAGEN_CUTLASS_VERSION)
  record.cutlass = MMAGEN_CUTLASS_VERSION;
#endif
  return record;
}

/// The allowed interval of one element of D without an epilogue: no partial sum exceeds the sum of all magnitudes.
/// A complex product is four real ones for each addend.
template <class Subject>
Interval allowed_of_instruction(bool exact, double sum, double magnitude) {
  ErrorModel model;
  model.exact_sums = exact;
  model.integer_accumulator = Subject::Acc::kInteger;
  int64_t const products = Subject::kK * (kPartsOf<typename Subject::A> == 2 ? 4 : 1);
  return allowed<typename Subject::Acc>(model, sum, drift_within(Subject::kAccumulation, products, magnitude, magnitude, true),
                                        0.0);
}

/// One launch on inputs of one kind.
template <class Subject>
void judge_instruction(Inputs inputs, uint64_t seed, Record* record, cudaStream_t stream) {
  using Acc = typename Subject::Acc;
  constexpr int kParts = kPartsOf<Acc>;
  InstructionMatrices const made = draw_operands<Subject>(inputs, seed);
  std::vector<GuardedBytes> held;
  held.reserve(6);
  auto const upload = [&](Codes const& codes, int bits, int shift) -> void const* {
    if (codes.codes.empty()) { return nullptr; }
    held.emplace_back(packed(codes, bits, shift), stream);
    return held.back().data();
  };
  constexpr int kAccBits = 8 * sizeof(StoredPart<Acc>);
  InstructionCall call = {};
  call.a = upload(made.a, Subject::kBitsA, Subject::kShiftA);
  call.b = upload(made.b, Subject::kBitsB, Subject::kShiftB);
  call.c = upload(made.c, kAccBits, 0);
  call.e = upload(made.e, 8, 0);
  call.sfa = upload(made.sfa, 8, 0);
  call.sfb = upload(made.sfb, 8, 0);
  std::vector<StoredPart<Acc>> got(made.c.codes.size());
  GuardedBytes const d(got.size() * sizeof got[0]);
  d.guarded().poison(stream);
  call.d = d.data();
  std::vector<uint64_t> before;
  for (GuardedBytes const& one : held) { before.push_back(one.guarded().checksum(stream)); }

  check_status<Subject>(Subject::run(call, stream));
  check(cudaGetLastError(), "launching the kernel");
  check(cudaStreamSynchronize(stream), "running the kernel");
  check(cudaMemcpyAsync(got.data(), d.data(), got.size() * sizeof got[0], cudaMemcpyDeviceToHost, stream), "reading D");
  check(cudaStreamSynchronize(stream), "reading D");

  Reference<Subject> const truth(made);
  Findings found;
  for (std::size_t i = 0; i < got.size(); ++i) {
    Interval const may = allowed_of_instruction<Subject>(inputs != Inputs::kUniform, truth.sum[i], truth.magnitude[i]);
    merge(found, judge_element(may, Acc::load(got[i]), truth.magnitude[i], static_cast<long long>(i)));
  }
  record->disposition = Disposition::kPassed;
  record->max_abs_err = found.max_abs_err;
  record->max_rel_err = found.max_rel_err;
  record->bound = found.bound;
  auto const blame = [&](std::string const& what) {
    record->disposition = Disposition::kIncorrect;
    record->reason += (record->reason.empty() ? "" : "; ") + what;
  };
  if (found.incorrect != 0) {
    long long const element = found.first / kParts;
    blame(std::to_string(found.incorrect) + " of " + std::to_string(got.size()) + " elements wrong; D(" +
          std::to_string(element / Subject::kN) + "," + std::to_string(element % Subject::kN) + ")" +
          (kParts > 1 ? " part " + std::to_string(found.first % kParts) : "") + " got " + number_text(found.first_got, 9) +
          " expected " + number_text(found.first_expected, 9) + " +- " + number_text(found.first_bound, 3));
  }
  if (d.guarded().strays(stream) != 0) { blame("written outside of D"); }
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i].guarded().checksum(stream) != before[i]) { blame("an input was changed"); }
  }
}

/// Calls that the C ABI must reject; returns the one that it accepted, or "".
template <class Subject>
std::string wrongly_taken(cudaStream_t stream) {
  GuardedBytes const memory(size_t{1} << 16);
  void* const data = memory.data();
  InstructionCall const good = {data, data, data, data, data, data, data};
  InstructionCall missing = good, crooked = good;
  missing.b = nullptr;
  crooked.a = static_cast<char const*>(data) + 1;
  if (Subject::run(missing, stream) != kNullB) { return "a null pointer was not refused"; }
  if (Subject::run(crooked, stream) != kMisalignedA) { return "a pointer off its 16-byte alignment was not refused"; }
  return "";
}

/// Without a choice on the command line all kinds; sums can overflow where they are integers.
inline std::vector<Inputs> chosen_inputs(Options const& options, bool integer) {
  if (!options.distribution) {
    std::vector<Inputs> all = {Inputs::kUniform, Inputs::kSmallInt};
    if (integer) { all.push_back(Inputs::kOverflow); }
    return all;
  }
  switch (*options.distribution) {
    case Distribution::kUniform: return {Inputs::kUniform};
    case Distribution::kSmallInt: return {Inputs::kSmallInt};
    default: return {Inputs::kZeros};
  }
}

template <class Subject>
int instruction_main(int argc, char** argv) {
  Options options;
  std::string const fault = parse_options(Program::kVerify, {argv + 1, argv + std::max(argc, 1)}, &options);
  bool const other = !options.problems.empty() &&
                     (options.problems.size() != 1 || text(options.problems[0]) != instruction_record<Subject>(0).problem);
  if (!fault.empty() || other) {
    std::cerr << argv[0] << ": "
              << (other ? "one instruction does " + instruction_record<Subject>(0).problem + " and nothing else" : fault)
              << '\n';
    return kExitUsage;
  }
  if (options.help) {
    std::cout << usage(Program::kVerify);
    return 0;
  }
  std::vector<Inputs> const kinds = chosen_inputs(options, Subject::Acc::kInteger);

  Nvml const nvml;
  DeviceFacts const device = find_device(nvml);
  Record const first = instruction_record<Subject>(options.seed);
  Report report(options.json, first.problem.size(), first.name.size());
  report.heading(first.name + ": " + Subject::kAtom + ", on " + (device.missing.empty() ? device.name : "no device"));
  std::string lost;
  for (Inputs const inputs : kinds) {
    Record record = first;
    record.input_dist = text(inputs);
    if (!device.missing.empty() || !lost.empty()) {
      record.disposition = lost.empty() ? Disposition::kNotSupported : Disposition::kNotRun;
      record.reason = lost.empty() ? device.missing : lost;
    } else {
      describe_run<Subject>(device, &record);
      try {
        Stream const stream;
        judge_instruction<Subject>(inputs, options.seed, &record, stream.get());
        std::string const taken = record.disposition == Disposition::kPassed ? wrongly_taken<Subject>(stream.get()) : "";
        if (!taken.empty()) {
          record.disposition = Disposition::kIncorrect;
          record.reason = taken;
        }
      } catch (Failure const& failure) {
        record.disposition = failure.disposition;
        record.reason = failure.reason;
      }
      if (context_is_lost()) { lost = "the CUDA context was lost in an earlier run: " + record.reason; }
    }
    report.add(record);
  }
  report.verdict();
  return report.exit_code();
}

}  // namespace v0_1
}  // namespace mmagen::test
