// SPDX-License-Identifier: MIT-0
// Shared by verify and bench: arguments, a stream, sets of operands, facts about the kernel for records.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "device.cuh"
#include "record.cuh"
#include "judge.cuh"
#include "operands.cuh"
#include "options.cuh"

namespace mmagen::test {
inline namespace v0_1 {

inline constexpr int kExitUsage = 2;

/// Empty, or why the kernel does not support this.
template <class Subject>
std::string unaskable(Problem const& p) {
  using Scalar = typename Subject::Scalar;
  if (Scalar::kInteger && (p.alpha != Scalar::round(p.alpha) || p.beta != Scalar::round(p.beta))) {
    return "alpha and beta are integers for this kernel";
  }
  if (Subject::kFixedShape && (p.m != Subject::kTileM || p.n != Subject::kTileN || p.k != Subject::kTileK || p.batch != 1 ||
                               p.alpha != 1.0 || p.beta != 0.0)) {
    return "this kernel does its tile only: " + std::to_string(Subject::kTileM) + "," + std::to_string(Subject::kTileN) + "," +
           std::to_string(Subject::kTileK) + " with alpha 1 and beta 0";
  }
  return "";
}

template <class Subject>
std::vector<Problem> built_in_problems() {
  if (!Subject::kFixedShape) { return Subject::problems(); }
  Problem tile;
  tile.m = Subject::kTileM;
  tile.n = Subject::kTileN;
  tile.k = Subject::kTileK;
  return {tile};
}

/// Parses the arguments; returns an exit code if the program is done, else -1.
template <class Subject>
int start(Program program, int argc, char** argv, Options* options, std::vector<Problem>* problems) {
  std::string const fault = parse_options(program, {argv + 1, argv + std::max(argc, 1)}, options);
  if (!fault.empty()) {
    std::cerr << argv[0] << ": " << fault << '\n';
    return kExitUsage;
  }
  if (options->help) {
    std::cout << usage(program);
    return 0;
  }
  *problems = options->from_stdin ? options->problems : chosen_problems(*options, built_in_problems<Subject>());
  for (Problem const& problem : *problems) {
    std::string const why = unaskable<Subject>(problem);
    if (why.empty()) { continue; }
    std::cerr << argv[0] << ": " << text(problem) << ": " << why << '\n';
    return kExitUsage;
  }
  if (problems->empty() && !options->from_stdin) {
    std::cerr << argv[0] << ": --max-dim leaves no problem to run\n";
    return kExitUsage;
  }
  return -1;
}

inline std::size_t widest(std::vector<Problem> const& problems) {
  std::size_t width = 0;
  for (Problem const& problem : problems) { width = std::max(width, text(problem).size()); }
  return width;
}

/// Fills in the facts about the device and the kernel.
template <class Subject>
void describe_run(DeviceFacts const& device, Record* record) {
  record->device = device.name;
  record->driver = device.driver;
  record->cuda = device.cuda;
  KernelFacts facts;
  if (!device.missing.empty() || Subject::query(&facts) != kSuccess) {
    cudaGetLastError();  // the run will report it; cleared here, so that it is not reported as the run's own error
    return;
  }
  record->registers = facts.registers;
  record->spill_bytes = facts.local_bytes;
  record->smem_bytes = facts.smem_bytes;
}

/// A stream other than the default one: kernels that ignore their stream argument cause races, which are detected.
class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Several sets of the same operands, each with its own values.
template <class Subject>
class OperandSets {
 public:
  OperandSets(Problem const& problem, Operands<Subject> const* first, int count) : first_(first) {
    for (int i = 1; i < count; ++i) { more_.emplace_back(problem); }
  }
  void fill(Problem const& problem, Distribution distribution, uint64_t seed, cudaStream_t stream) {
    Draw const draw = draw_of<Subject>(problem, distribution);
    for (std::size_t i = 0; i < more_.size(); ++i) {
      more_[i].fill_inputs(draw, splitmix64(seed + i), stream);
      more_[i].prepare_output(InPlace::kNo, stream);
    }
    check(cudaStreamSynchronize(stream), "filling the input sets");
  }
  int count() const { return static_cast<int>(more_.size()) + 1; }
  Call call(int set) const {
    return set == 0 ? first_->call(InPlace::kNo) : more_[static_cast<std::size_t>(set - 1)].call(InPlace::kNo);
  }

 private:
  Operands<Subject> const* first_;
  std::vector<Operands<Subject>> more_;
};

}  // namespace v0_1
}  // namespace mmagen::test
