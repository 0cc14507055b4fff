// SPDX-License-Identifier: MIT-0
// A kernel, the peak rate of its instruction, and cuBLASLt or cuSPARSELt on one problem, measured in turns.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "device.cuh"
#include "judge.cuh"
#include "launch_graph.cuh"
#include "operands.cuh"
#include "options.cuh"
#include "record.cuh"
#include "session.cuh"
#include "turns.cuh"
#if defined(MMAGEN_WITH_CUBLASLT)
#include "baseline.cuh"
#if defined(MMAGEN_WITH_CUBLAS)
#include "cublas_grouped.cuh"
#endif
#endif

namespace mmagen::test {
inline namespace v0_1 {

// --- candidates ---
// Candidates are measured alternately, so that clock and temperature are the same for all.

struct Candidate {
  std::string name;
  TimedLaunch launch;
  int sets = 1;
  double flop = 0.0;     ///< of one launch
  int64_t launches = 1;  ///< of one sample
  int64_t captured = 1;  ///< launches of the kernel in one `launch`, more than one in a CUDA graph
  bool is_right = true;  ///< was its result checked, and right?

  /// Milliseconds of one launch of the kernel, of one sample.
  double sample_ms(EventTimer* timer) const {
    return timer->total_ms(launch, launches, sets) / static_cast<double>(launches * captured);
  }
};

struct Measurement {
  Timing timing;
  ClockReading clocks;
  double tflops(Candidate const& candidate) const { return candidate.flop / timing.ms_median * 1e-9; }
};

/// cuBLASLt's first heuristic is one of the eight: if it ran faster than the one chosen before, it is the best.
inline void settle_fastest(std::vector<Candidate> const& candidates, std::vector<Measurement>* measurements) {
  std::size_t first = candidates.size(), best = candidates.size();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].name == kLtFirst) { first = i; }
    if (candidates[i].name == kLtBest) { best = i; }
  }
  if (first == candidates.size() || best == candidates.size() || !candidates[first].is_right) { return; }
  if ((*measurements)[first].timing.ms_median < (*measurements)[best].timing.ms_median) {
    (*measurements)[best] = (*measurements)[first];
  }
}

/// `reps` rounds, in each of which every candidate gives one sample.
inline std::vector<Measurement> measure_in_turns(std::vector<Candidate> const& candidates, int reps, uint64_t seed,
                                                 Nvml const& nvml, cudaStream_t stream) {
  EventTimer timer(stream);
  Shuffler shuffler(seed);
  std::vector<Measurement> measurements(candidates.size());
  std::vector<std::vector<double>> samples(candidates.size());
  for (int rep = 0; rep < reps; ++rep) {
    for (std::size_t const i : shuffler.order(candidates.size())) {
      ClockSampler const sampler(nvml, &measurements[i].clocks);
      samples[i].push_back(candidates[i].sample_ms(&timer));
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) { measurements[i].timing = summarize(std::move(samples[i])); }
  settle_fastest(candidates, &measurements);
  return measurements;
}

/// Each candidate for `seconds` without a pause. In the first half clock and power settle, the second half is measured.
inline std::vector<Measurement> measure_sustained(std::vector<Candidate> const& candidates, double seconds, uint64_t seed,
                                                  Nvml const& nvml, cudaStream_t stream) {
  EventTimer timer(stream);
  std::vector<Measurement> measurements(candidates.size());
  for (std::size_t const i : Shuffler(seed).order(candidates.size())) {
    Candidate const& candidate = candidates[i];
    auto const run_for = [&](double span_s) {
      std::vector<double> samples;
      auto const start = std::chrono::steady_clock::now();
      do {
        samples.push_back(candidate.sample_ms(&timer));
      } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < span_s);
      return samples;
    };
    run_for(seconds / 2);
    ClockSampler const sampler(nvml, &measurements[i].clocks);
    measurements[i].timing = summarize(run_for(seconds / 2));
  }
  settle_fastest(candidates, &measurements);
  return measurements;
}

inline constexpr char const* kPlainProduct = "cublasLt_plain";

template <class Subject>
std::string peak_name() {
  return std::string(Subject::kAtom) + " " + Subject::kPeakOperands + " loop";
}

/// Does a Subject name what it is compared with, as a class `Baselines`? Others are compared with cuBLASLt.
template <class Subject, class = void>
struct HasBaselines : std::false_type {
  struct Type {};
};
template <class Subject>
struct HasBaselines<Subject, std::void_t<typename Subject::Baselines>> : std::true_type {
  using Type = typename Subject::Baselines;
};

/// The candidates for one problem. The kernel is the first; others may be missing, with a reason.
template <class Subject>
class Contest {
 public:
  Contest(Problem const& problem, Distribution distribution, Options const& options, cudaStream_t stream)
      : problem_(problem), distribution_(distribution), options_(options), stream_(stream), operands_(problem) {}

  /// Whether the kernel is correct; an incorrect one is not timed.
  Outcome judge_kernel() {
    Runner const runner = [this](Call const& call) { check_status<Subject>(Subject::run(call, stream_)); };
    return judge<Subject>(problem_, distribution_, options_.seed, &operands_, runner, stream_);
  }

  void gather() {
    sets_ = std::make_unique<OperandSets<Subject>>(
        problem_, &operands_, rotation_sets(operands_.bytes(), options_.graphs ? kMostSetsOfGraph : kMostSets));
    sets_->fill(problem_, distribution_, options_.seed, stream_);
    for (int i = 0; i < sets_->count(); ++i) { calls_.push_back(sets_->call(i)); }
    add(Subject::kName,
        [this](int set) { check_status<Subject>(Subject::run(calls_[static_cast<std::size_t>(set)], stream_)); });
    if constexpr (HasBaselines<Subject>::value) {
      auto const add_baseline = [this](char const* name, TimedLaunch launch) { add(name, std::move(launch)); };
      missing_ += baselines_.gather(problem_, distribution_, operands_, calls_, stream_, add_baseline);
    } else {
      add_baselines();
    }
    add_peak();
  }

  std::vector<Candidate> const& candidates() const { return candidates_; }
  double bytes() const { return operands_.bytes(); }
  std::string const& missing() const { return missing_; }

 private:
  void add(std::string const& name, TimedLaunch launch) { candidates_.push_back(prepared(name, std::move(launch))); }

  /// Warmed up, and captured with --graphs.
  Candidate prepared(std::string const& name, TimedLaunch launch) {
    Candidate candidate{name, std::move(launch), sets_->count(), flop<Subject>(problem_)};
    candidate.launches = EventTimer(stream_).launches_for(candidate.launch, candidate.sets, options_.sample_ms);
    if (options_.graphs) { capture(&candidate); }
    return candidate;
  }

  /// The launches of a sample as one CUDA graph. What cannot be captured stays as it is, and the record says so.
  void capture(Candidate* candidate) {
    try {
      int64_t const captured = std::max<int64_t>(std::min(candidate->launches, kMostCaptured), candidate->sets);
      auto const graph = std::make_shared<LaunchGraph>(candidate->launch, captured, candidate->sets, stream_);
      graph->enqueue(stream_);
      check(cudaStreamSynchronize(stream_), "running the graph");
      candidate->launch = [this, graph](int) { graph->enqueue(stream_); };
      candidate->captured = captured;
      candidate->launches = (candidate->launches + captured - 1) / captured;
    } catch (Failure const& failure) {
      if (context_is_lost()) { throw; }
      std::string const reason = candidate->name + " is not in a graph: " + failure.reason + ". ";
      if (missing_.find(reason) == std::string::npos) { missing_ += reason; }
    }
  }

  /// Iterations for which the cost of a launch is negligible.
  void add_peak() {
    double flop_per_launch = 0.0;
    int iterations = 256;
    EventTimer timer(stream_);
    TimedLaunch const launch = [this, &flop_per_launch, &iterations](int) {
      check_status<Subject>(Subject::peak_launch(iterations, &flop_per_launch, stream_));
    };
    try {
      timer.total_ms(launch, 1, 1);
      while (timer.total_ms(launch, 1, 1) < 2.0 && iterations < (1 << 28)) { iterations *= 2; }
    } catch (Failure const& failure) {
      if (context_is_lost()) { throw; }
      missing_ += "no peak: " + failure.reason + ". ";
      return;
    }
    int const chosen = iterations;
    Candidate candidate;
    candidate.name = peak_name<Subject>();
    candidate.launch = [this, chosen](int) {
      double ignored = 0.0;
      check_status<Subject>(Subject::peak_launch(chosen, &ignored, stream_));
    };
    candidate.flop = flop_per_launch;
    candidate.launches = timer.launches_for(candidate.launch, 1, options_.sample_ms);
    candidates_.push_back(std::move(candidate));
  }

#if defined(MMAGEN_WITH_CUBLASLT)
  /// The library's first choice, and the fastest of its first eight.
  void add_baselines() {
    using Known = LtEpilogueOf<typename Subject::Epilogue>;
    if (!Known::kExists) { return add_plain_product(); }
    if (!problem_.groups.empty()) { return add_baselines_of_groups(); }
    if (Known::kOther) { missing_ += "cuBLASLt's gelu is the form with tanh. "; }
    try {
      for (Call const& call : calls_) { lt_calls_.push_back(of_baseline<Subject>(call)); }
      int best = 0;
      Outcome outcome = judged_baseline(LtSums::kAny, &best);
      if (outcome.disposition != Disposition::kPassed) {
        outcome = judged_baseline(LtSums::kAccumulators, &best);
        if (outcome.disposition == Disposition::kPassed) {
          missing_ += "cuBLASLt may not round sums of parts of K to the type of D. ";
        }
      }
      if (outcome.disposition != Disposition::kPassed) {
        missing_ += "no baseline, cuBLASLt's result does not agree: " + outcome.reason;
        return;
      }
      add(kLtFirst, lt_launch(0));
      candidates_.back().is_right = best == 0 || is_right(0);
      add(kLtBest, lt_launch(best));
    } catch (Failure const& failure) {
      if (context_is_lost()) { throw; }
      missing_ += "no baseline: " + failure.reason + ". ";
    }
    if constexpr (Subject::kAccumulation.products > 1) {
      add_other_f32("cublasLt_tf32", LtF32::kTf32);
      add_other_f32("cublasLt_bf16x9", LtF32::kPieces);
    }
  }

  /// Another way of cuBLASLt to multiply f32, by its first heuristic. Not checked: it may keep fewer bits.
  void add_other_f32(char const* name, LtF32 how) {
    try {
      LtTypes types = lt_types<Subject>();
      types.f32 = how;
      LtMatmul const* const matmul = others_.emplace_back(std::make_unique<LtMatmul>(types, calls_[0])).get();
      TimedLaunch const launch = [this, matmul](int set) { matmul->run(calls_[static_cast<std::size_t>(set)], 0, stream_); };
      launch(0);
      add(name, launch);
    } catch (Failure const& failure) {
      if (context_is_lost()) { throw; }
      missing_ += std::string("no ") + name + ": " + failure.reason + ". ";
    }
  }

  /// For an epilogue that cuBLASLt does not have: the product alone, which is less than the kernel computes. Not checked.
  void add_plain_product() {
    missing_ += "no baseline: cuBLASLt does not have this epilogue. ";
    if (!problem_.groups.empty()) { return; }
    try {
      Matrix shape = calls_[0].d;
      shape.rows = problem_.m;
      shape.cols = problem_.n;
      plain_d_ = std::make_unique<GuardedMatrix>(shape, Subject::Out::kPoisonByte, problem_.ld_pad, problem_.offset);
      for (Call const& one : calls_) {
        Call& call = lt_calls_.emplace_back(of_baseline<Subject>(one));
        call.alpha = 1.0, call.beta = 0.0;
        call.c.data = nullptr;
        call.d = plain_d_->matrix();
      }
      lt_ = std::make_unique<LtMatmul>(lt_types<Subject>(), lt_calls_[0]);
      for (Call const& call : lt_calls_) { lt_->prepare(call, stream_); }
      add(kPlainProduct, lt_launch(best_heuristic()));
    } catch (Failure const& failure) {
      if (context_is_lost()) { throw; }
      missing_ += "No product to compare with: " + failure.reason + ". ";
    }
  }

  /// Whether the fastest heuristic computes what it should; *best: which one that is.
  Outcome judged_baseline(LtSums sums, int* best) {
    lt_ = std::make_unique<LtMatmul>(lt_types<Subject>(), lt_calls_[0], sums);
    for (Call const& call : lt_calls_) { lt_->prepare(call, stream_); }
    *best = best_heuristic();
    return judged(*best);
  }

  Outcome judged(int heuristic) {
    Runner const runner = [this, heuristic](Call const& call) { lt_->run(of_baseline<Subject>(call), heuristic, stream_); };
    return judge_baseline<Subject, LtModel<Subject>>(runner, problem_, distribution_, operands_, stream_);
  }

  /// One that cannot be checked is not right.
  bool is_right(int heuristic) {
    try {
      return judged(heuristic).disposition == Disposition::kPassed;
    } catch (Failure const&) {
      if (context_is_lost()) { throw; }
      return false;
    }
  }

  /// The fastest of those that cuBLASLt proposes.
  int best_heuristic() {
    std::vector<Candidate> all;
    for (int heuristic = 0; heuristic < lt_->heuristics(); ++heuristic) {
      all.push_back(prepared("cublasLt", lt_launch(heuristic)));
    }
    EventTimer timer(stream_);
    auto const sample = [&](std::size_t i) { return all[i].sample_ms(&timer); };
    return fastest_first(medians_in_turns(all.size(), std::max(3, options_.reps), options_.seed, sample)).front();
  }

  /// A loop over the groups, and as many operations in one dense product.
  void add_baselines_of_groups() {
    try {
      loop_ = std::make_unique<LtOfGroups<Subject>>(problem_, calls_[0]);
      for (Call const& call : calls_) { loop_->prepare(call, stream_); }
      Runner const runner = [this](Call const& call) { loop_->run(call, stream_); };
      Outcome const outcome = judge_baseline<Subject, LtModel<Subject>>(runner, problem_, distribution_, operands_, stream_);
      if (outcome.disposition != Disposition::kPassed) {
        missing_ += "no baseline, cuBLASLt's result does not agree: " + outcome.reason;
        return;
      }
      add("cublasLt_loop", [this](int set) { loop_->run(calls_[static_cast<std::size_t>(set)], stream_); });
      if constexpr (kGroupRowsOf<Subject> == GroupRows::kPointers) { add_grouped_call(); }
      Call const dense = LtOfGroups<Subject>::dense(problem_, calls_[0]);
      if (dense.m == 0) { return; }
      lt_ = std::make_unique<LtMatmul>(lt_types<Subject>(), dense);
      for (Call const& call : calls_) { lt_->prepare(LtOfGroups<Subject>::dense(problem_, call), stream_); }
      add("cublasLt_dense", [this](int set) {
        lt_->run(LtOfGroups<Subject>::dense(problem_, calls_[static_cast<std::size_t>(set)]), 0, stream_);
      });
    } catch (Failure const& failure) {
      if (context_is_lost()) { throw; }
      missing_ += "no baseline: " + failure.reason + ". ";
    }
  }

  /// The call of cuBLAS for problems of different M, N and K, where it has the types.
  void add_grouped_call() {
#if defined(MMAGEN_WITH_CUBLAS)
    try {
      grouped_ = std::make_unique<CublasGrouped>(lt_types<Subject>(), calls_[0]);
      for (Call const& call : calls_) { grouped_->prepare(call); }
      Runner const runner = [this](Call const& call) {
        grouped_->prepare(call);
        grouped_->run(call, stream_);
      };
      Outcome const outcome = judge_baseline<Subject, LtModel<Subject>>(runner, problem_, distribution_, operands_, stream_);
      if (outcome.disposition != Disposition::kPassed) {
        missing_ += "no cublas_grouped, its result does not agree: " + outcome.reason;
        return;
      }
      add("cublas_grouped", [this](int set) { grouped_->run(calls_[static_cast<std::size_t>(set)], stream_); });
    } catch (Failure const& failure) {
      if (context_is_lost()) { throw; }
      missing_ += "no cublas_grouped: " + failure.reason + ". ";
    }
#else
    missing_ += "no cublas_grouped: there was no cuBLAS to build with. ";
#endif
  }

  TimedLaunch lt_launch(int heuristic) const {
    return [this, heuristic](int set) { lt_->run(lt_calls_[static_cast<std::size_t>(set)], heuristic, stream_); };
  }

  std::unique_ptr<LtMatmul> lt_;
  std::vector<std::unique_ptr<LtMatmul>> others_;
  std::vector<Call> lt_calls_;  // with operands of cuBLASLt's types
  std::unique_ptr<GuardedMatrix> plain_d_;
  std::unique_ptr<LtOfGroups<Subject>> loop_;
#if defined(MMAGEN_WITH_CUBLAS)
  std::unique_ptr<CublasGrouped> grouped_;
#endif
#else
  void add_baselines() {}
#endif

  static constexpr int64_t kMostCaptured = 1024;  // of one graph
  static constexpr double kMostSetsOfGraph = 64;  // where short kernels come one right after the other

  Problem problem_;
  Distribution distribution_;
  Options const& options_;
  cudaStream_t stream_;
  Operands<Subject> operands_;
  std::unique_ptr<OperandSets<Subject>> sets_;
  std::vector<Call> calls_;
  typename HasBaselines<Subject>::Type baselines_;
  std::vector<Candidate> candidates_;
  std::string missing_;
};

}  // namespace v0_1
}  // namespace mmagen::test
