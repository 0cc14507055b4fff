// All kernels of a library on one problem, beside cuBLASLt: each is timed only after its result was right. Launches are timed
// in CUDA graphs, on operands that rotate past the L2; all candidates take turns, in a new order in each round.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device.cuh"
#include "judge.cuh"
#include "launch_graph.cuh"
#include "operands.cuh"
#include "options.cuh"
#include "record.cuh"
#include "rotating_operands.cuh"
#include "turns.cuh"
#if defined(MMAGEN_WITH_CUBLASLT)
#include "baseline.cuh"
#endif

namespace mmagen::test {
inline namespace v0_1 {

/// One kernel of a library; returns a status of the C interface.
struct NamedKernel {
  char const* name;
  int (*run)(Call const& call, cudaStream_t stream);
};

/// A candidate on one problem: what its check found, and its samples.
struct Entrant {
  std::string name;
  TimedLaunch launch;
  std::unique_ptr<LaunchGraph> graph;
  Outcome outcome;
  std::vector<double> samples;  ///< milliseconds of one launch
  bool passed() const { return outcome.disposition == Disposition::kPassed; }
  double fastest() const { return samples.empty() ? INFINITY : *std::min_element(samples.begin(), samples.end()); }
};

/// Says on standard output what begins, so that whoever reads knows which kernel hung or crashed.
inline void announce(bool json, Problem const& problem, std::string const& name, char const* step) {
  if (!json) { return; }
  std::cout << "{\"at\": {\"problem\": " << json_text(text(problem)) << ", \"name\": " << json_text(name)
            << ", \"step\": " << json_text(step) << "}}\n"
            << std::flush;
}

template <class Subject>
class Heat {
 public:
  Heat(Problem const& problem, std::vector<NamedKernel> const& kernels, Options const& options, cudaStream_t stream)
      : problem_(problem), options_(options), stream_(stream), operands_(problem) {
    for (NamedKernel const& kernel : kernels) {
      Entrant entrant;
      entrant.name = kernel.name;
      entrants_.push_back(std::move(entrant));
      runners_.push_back([this, kernel](Call const& call) { check_status<Subject>(kernel.run(call, stream_)); });
    }
  }

  /// Small integers, whose results must be equal: the first right result is compared with the reference element by element,
  /// the others with it, by a checksum of D and of what lies around it.
  void check_kernels() {
    Draw const draw = draw_of<Subject>(problem_, Distribution::kSmallInt);
    Expectation const expected = expectation<Subject>(problem_, draw, Subject::kAccumulation);
    operands_.fill_inputs(draw, options_.seed, stream_);
    inputs_ = operands_.inputs_checksum(stream_);
    for (std::size_t i = 0; i < entrants_.size(); ++i) {
      announce(options_.json, problem_, entrants_[i].name, "verify");
      entrants_[i].outcome = check_kernel(runners_[i], expected, draw.exact);
      if (context_is_lost()) { throw Failure{Disposition::kFailed, entrants_[i].outcome.reason}; }
    }
  }

  /// All that passed, in turns. Kernels slower than --within times the fastest candidate get no further samples, nor do
  /// baselines slower than --within times the fastest baseline.
  ClockReading time_all(Nvml const& nvml) {
    RotatingOperandsOf<Subject> sets(problem_, operands_);
    sets.fill(draw_of<Subject>(problem_, Distribution::kUniform), options_.seed, stream_);
    for (int i = 0; i < sets.count(); ++i) { calls_.push_back(sets.call(i)); }
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      Runner const& runner = runners_[i];
      entrants_[i].launch = [this, &runner](int set) { runner(calls_[static_cast<std::size_t>(set)]); };
    }
    baselines_from_ = entrants_.size();
    add_baselines();
    for (Entrant& entrant : entrants_) { prepare(&entrant); }
    ClockReading const clocks = time_rounds(nvml);
    settle_baselines();
    return clocks;
  }

  std::vector<Entrant> const& entrants() const { return entrants_; }
  std::string const& missing() const { return missing_; }
  double bytes() const { return operands_.bytes(); }
  std::string chosen() const { return Subject::config_name(operands_.call(InPlace::kNo)); }

 private:
  Outcome check_kernel(Runner const& runner, Expectation const& expected, bool exact) {
    Outcome outcome;
    try {
      if (known_.has_value()) {
        operands_.prepare_output(InPlace::kNo, stream_);
        runner(operands_.call(InPlace::kNo));
        check(cudaGetLastError(), "launching the kernel");
        check(cudaStreamSynchronize(stream_), "running the kernel");
        if (operands_.d().checksum(stream_) == *known_ && operands_.inputs_checksum(stream_) == inputs_) { return outcome; }
      }
      judge_pass<Subject>(problem_, expected, operands_, runner, InPlace::kNo, &outcome, stream_);
      if (outcome.disposition == Disposition::kPassed && exact) { known_ = operands_.d().checksum(stream_); }
    } catch (Failure const& failure) {
      if (outcome.disposition != Disposition::kIncorrect) { outcome.disposition = failure.disposition; }
      outcome.reason += failure.reason;
    }
    return outcome;
  }

  void prepare(Entrant* entrant) {
    if (!entrant->passed()) { return; }
    announce(options_.json, problem_, entrant->name, "time");
    try {
      EventTimer timer(stream_);
      int const sets = static_cast<int>(calls_.size());
      timer.total_ms(entrant->launch, 1, sets);
      double const ms = std::max(timer.total_ms(entrant->launch, 2, sets) / 2, 1e-3);
      double const wanted = std::min(std::ceil(options_.sample_ms / ms), kMostLaunches);
      entrant->graph = std::make_unique<LaunchGraph>(entrant->launch, static_cast<int64_t>(wanted), sets, stream_);
      entrant->graph->enqueue(stream_);
      check(cudaStreamSynchronize(stream_), "running the graph");
    } catch (Failure const& failure) {
      if (context_is_lost()) { throw; }
      entrant->outcome.disposition = failure.disposition;
      entrant->outcome.reason = failure.reason;
    }
  }

  ClockReading time_rounds(Nvml const& nvml) {
    ClockReading clocks;
    ClockSampler const sampler(nvml, &clocks);
    Shuffler shuffler(options_.seed);
    EventTimer timer(stream_);
    for (int rep = 0; rep < options_.reps; ++rep) {
      double fastest[2] = {INFINITY, INFINITY};  // of the kernels, of the baselines
      for (std::size_t i = 0; i < entrants_.size(); ++i) {
        double& of = fastest[i < baselines_from_ ? 0 : 1];
        of = std::min(of, entrants_[i].fastest());
      }
      for (std::size_t const i : shuffler.order(entrants_.size())) {
        Entrant& one = entrants_[i];
        double const other = i < baselines_from_ ? std::min(fastest[0], fastest[1]) : fastest[1];
        bool const hopeless = rep > 0 && one.fastest() > options_.within * other;
        if (!one.passed() || hopeless) { continue; }
        double const ms = timer.total_ms([&](int) { one.graph->enqueue(stream_); }, 1, 1);
        one.samples.push_back(ms / static_cast<double>(one.graph->launches()));
      }
    }
    return clocks;
  }

  /// Leaves the first heuristic, and the fastest of those that were right and took part in all rounds: it may be the first too.
  void settle_baselines() {
    if (baselines_from_ == entrants_.size()) { return; }
    std::vector<std::vector<double>> samples;
    std::vector<bool> may_win;
    for (std::size_t i = baselines_from_; i < entrants_.size(); ++i) {
      samples.push_back(entrants_[i].samples);
      may_win.push_back(entrants_[i].passed() && (i > baselines_from_ || first_is_right_));
    }
    int const fastest = fastest_of(samples, may_win);
    entrants_.resize(baselines_from_ + 1);
    if (fastest < 0) { return; }
    Entrant best;
    best.name = kLtBest;
    best.samples = samples[static_cast<std::size_t>(fastest)];
    entrants_.push_back(std::move(best));
  }

#if defined(MMAGEN_WITH_CUBLASLT)
  /// cuBLASLt's first heuristic, and those of its first eight that come close to the fastest: the rounds decide which of them
  /// is. If the fastest rounds sums of parts of K to the type of D, so that the result is less exact than it must be, those
  /// that do not.
  void add_baselines() {
    if (!std::is_same_v<typename Subject::Epilogue, LinearCombinationModel>) {
      missing_ = "no baseline: cuBLASLt is not called with the operations of this epilogue";
      return;
    }
    announce(options_.json, problem_, "cublasLt", "verify");
    try {
      for (Call const& call : calls_) { lt_calls_.push_back(of_baseline<Subject>(call)); }
      Outcome outcome;
      for (LtSums const sums : {LtSums::kAny, LtSums::kAccumulators}) {
        lt_ = std::make_unique<LtMatmul>(lt_types<Subject>(), lt_calls_[0], sums);
        for (Call const& call : lt_calls_) { lt_->prepare(call, stream_); }
        std::vector<int> const near = near_heuristics();
        outcome = check_baseline(near.front());
        if (outcome.disposition == Disposition::kPassed) {
          first_is_right_ = near.front() == 0 || is_right(0);
          entrants_.push_back(baseline(0, kLtFirst));
          for (int const heuristic : near) {
            if (heuristic != 0 && (heuristic == near.front() || is_right(heuristic))) {
              entrants_.push_back(baseline(heuristic, kLtBest));
            }
          }
          return;
        }
        missing_ = "cuBLASLt may not round sums of parts of K to the type of D";
      }
      missing_ = "no baseline, cuBLASLt's result does not agree: " + outcome.reason;
    } catch (Failure const& failure) {
      if (context_is_lost()) { throw; }
      entrants_.resize(baselines_from_);
      missing_ = "no baseline: " + failure.reason;
    }
  }

  /// Those within kNear of the fastest, the fastest first.
  std::vector<int> near_heuristics() {
    std::vector<Entrant> all;
    for (int heuristic = 0; heuristic < lt_->heuristics(); ++heuristic) {
      all.push_back(baseline(heuristic, "cublasLt"));
      prepare(&all.back());
    }
    EventTimer timer(stream_);
    std::vector<double> const ms = medians_in_turns(all.size(), kQualifyingRounds, options_.seed, [&](std::size_t i) {
      if (!all[i].passed()) { return static_cast<double>(INFINITY); }
      return timer.total_ms([&](int) { all[i].graph->enqueue(stream_); }, 1, 1) / static_cast<double>(all[i].graph->launches());
    });
    std::vector<int> near = fastest_first(ms);
    double const least = ms[static_cast<std::size_t>(near.front())];
    if (std::isinf(least)) { throw Failure{Disposition::kFailed, "none of cuBLASLt's heuristics runs"}; }
    near.erase(std::remove_if(near.begin(), near.end(), [&](int i) { return ms[static_cast<std::size_t>(i)] > kNear * least; }),
               near.end());
    return near;
  }

  /// One that cannot be checked is not right.
  bool is_right(int heuristic) {
    announce(options_.json, problem_, "cublasLt", "verify");
    try {
      return check_baseline(heuristic).disposition == Disposition::kPassed;
    } catch (Failure const&) {
      if (context_is_lost()) { throw; }
      return false;
    }
  }

  /// Equal to the kernels' result on small integers, or else within the bound on uniform inputs: it may add in another type.
  Outcome check_baseline(int heuristic) {
    if (known_.has_value()) {
      operands_.fill_inputs(draw_of<Subject>(problem_, Distribution::kSmallInt), options_.seed, stream_);
      operands_.prepare_output(InPlace::kNo, stream_);
      check(cudaStreamSynchronize(stream_), "filling the inputs");  // weights are dequantized on the default stream
      lt_->run(of_baseline<Subject>(operands_.call(InPlace::kNo)), heuristic, stream_);
      check(cudaStreamSynchronize(stream_), "running cuBLASLt");
      if (operands_.d().checksum(stream_) == *known_) { return {}; }
    }
    operands_.fill_inputs(draw_of<Subject>(problem_, Distribution::kUniform), options_.seed, stream_);
    Runner const runner = [this, heuristic](Call const& call) { lt_->run(of_baseline<Subject>(call), heuristic, stream_); };
    return judge_baseline<Subject>(runner, problem_, Distribution::kUniform, operands_, stream_);
  }

  Entrant baseline(int heuristic, char const* name) {
    Entrant one;
    one.name = name;
    one.launch = [this, heuristic](int set) { lt_->run(lt_calls_[static_cast<std::size_t>(set)], heuristic, stream_); };
    return one;
  }

  static constexpr int kQualifyingRounds = 3;
  static constexpr double kNear = 1.1;  // medians of three samples differ by less, even where power limits the clock

  std::unique_ptr<LtMatmul> lt_;
  std::vector<Call> lt_calls_;
#else
  void add_baselines() { missing_ = "no baseline: built without cuBLASLt"; }
#endif

  static constexpr double kMostLaunches = 1024;  // of one graph

  Problem problem_;
  Options const& options_;
  cudaStream_t stream_;
  Operands<Subject> operands_;
  std::vector<Call> calls_;
  std::vector<Runner> runners_;
  std::vector<Entrant> entrants_;
  std::size_t baselines_from_ = 0;  ///< the first of entrants_ that is one of cuBLASLt's
  bool first_is_right_ = false;     ///< was the result of cuBLASLt's first heuristic checked, and right?
  uint64_t inputs_ = 0;
  std::optional<uint64_t> known_;  ///< the checksum of the right D
  std::string missing_;
};

}  // namespace v0_1
}  // namespace mmagen::test
