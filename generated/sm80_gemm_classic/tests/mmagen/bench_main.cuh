// SPDX-License-Identifier: MIT-0
// The program tests/bench.cu: times the kernel, the peak rate of its instruction, and cuBLASLt or cuSPARSELt, in one run.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "contest.cuh"
#include "device.cuh"
#include "judge.cuh"
#include "options.cuh"
#include "record.cuh"
#include "session.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// Candidates that a kernel is compared with, of which one problem has one: name, and what reports call it.
inline constexpr std::pair<char const*, char const*> kBaselines[] = {
    {kLtBest, "cublasLt best of 8"},
    {"cublasLt_loop", "a loop of cublasLt calls"},
    {kPlainProduct, "cublasLt best of 8, without the epilogue"},
    {"cusparseLt_best", "cusparseLt best of its search"},
};

/// One record for each candidate; the kernel's own also has the ratios to the others.
template <class Subject>
void report_contest(Contest<Subject> const& contest, std::vector<Measurement> const& measurements, Record const& base,
                    std::string const& suffix, Report* report) {
  std::vector<Candidate> const& candidates = contest.candidates();
  double peak_tflops = NAN;
  double best_tflops = NAN;
  std::string baseline;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i].name == peak_name<Subject>()) { peak_tflops = measurements[i].tflops(candidates[i]); }
    for (auto const& [name, description] : kBaselines) {
      if (candidates[i].name != name) { continue; }
      best_tflops = measurements[i].tflops(candidates[i]);
      baseline = description;
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    bool const ours = i == 0;
    bool const peak = candidates[i].name == peak_name<Subject>();
    Measurement const& measured = measurements[i];
    Record record = base;
    record.name = candidates[i].name;
    record.problem += suffix;
    record.ms_median = measured.timing.ms_median;
    record.ms_min = measured.timing.ms_min;
    record.ms_max = measured.timing.ms_max;
    record.tflops = measured.tflops(candidates[i]);
    record.pct_peak = 100.0 * record.tflops / peak_tflops;
    if (peak_tflops == peak_tflops) {
      record.peak_source = std::string(Subject::kPeakOperands) + "-only loop of " + Subject::kAtom + ", same run";
    }
    record.sm_clock_mhz = measured.clocks.sm_clock_mhz();
    record.power_w = measured.clocks.power_w();
    if (!peak) { record.gbps = contest.bytes() / measured.timing.ms_median * 1e-6; }
    if (ours && best_tflops == best_tflops) {
      record.baseline = baseline;
      record.baseline_tflops = best_tflops;
      record.ratio = record.tflops / best_tflops;
    }
    if (ours) {
      record.reason = contest.missing();  // passed, but not compared with all candidates
    } else {
      record.max_abs_err = record.max_rel_err = record.bound = NAN;
      record.registers = record.spill_bytes = record.smem_bytes = NAN;
    }
    report->add(record, ours);
  }
}

template <class Subject>
void bench_problem(Problem const& problem, Distribution distribution, Options const& options, Nvml const& nvml, Record* record,
                   Report* report) {
  Stream const stream;
  Contest<Subject> contest(problem, distribution, options, stream.get());
  put(contest.judge_kernel(), record);
  if (record->disposition != Disposition::kPassed) {
    report->add(*record);
    return;
  }
  contest.gather();
  std::vector<Measurement> const short_run =
      measure_in_turns(contest.candidates(), options.reps, options.seed, nvml, stream.get());
  std::vector<Measurement> long_run;
  if (options.sustained_s > 0) {
    long_run = measure_sustained(contest.candidates(), options.sustained_s, options.seed, nvml, stream.get());
  }
  // Reported only now: if a run above failed, the problem would have two records.
  report_contest(contest, short_run, *record, "", report);
  if (!long_run.empty()) { report_contest(contest, long_run, *record, " sustained", report); }
}

/// The small built-in problems are for verify; timing them is of little use.
inline std::vector<Problem> worth_timing(std::vector<Problem> const& problems) {
  std::vector<Problem> large;
  for (Problem const& p : problems) {
    if (std::min({p.m, p.n, p.k}) >= 512) { large.push_back(p); }
  }
  return large.empty() ? problems : large;
}

template <class Subject>
int bench_main(int argc, char** argv) {
  Options options;
  std::vector<Problem> problems;
  int const early = start<Subject>(Program::kBench, argc, argv, &options, &problems);
  if (early >= 0) { return early; }
  if (options.problems.empty()) { problems = worth_timing(problems); }
  Distribution const distribution = options.distribution.value_or(Distribution::kUniform);

  Nvml const nvml;
  DeviceFacts const device = find_device(nvml);
  std::size_t const widest_name = std::max(std::string(Subject::kName).size(), peak_name<Subject>().size());
  Report report(options.json, widest(problems) + (options.sustained_s > 0 ? 10 : 0), widest_name);
  std::string lost = device.missing;
  Disposition const lost_as = lost.empty() ? Disposition::kNotRun : Disposition::kNotSupported;
  for (Problem const& problem : problems) {
    Record record = new_record<Subject>(problem, options.seed);
    record.input_dist = text(distribution);
    record.device = device.name;
    record.driver = device.driver;
    record.cuda = device.cuda;
    if (!lost.empty()) {
      record.disposition = lost_as;
      record.reason = lost;
      report.add(record);
      continue;
    }
    describe_run<Subject>(device, &record);
    try {
      bench_problem<Subject>(problem, distribution, options, nvml, &record, &report);
    } catch (Failure const& failure) {
      record.disposition = failure.disposition;
      record.reason = failure.reason;
      report.add(record);
    }
    if (context_is_lost()) { lost = "the CUDA context was lost in an earlier run: " + record.reason; }
  }
  report.verdict();
  return report.exit_code();
}

}  // namespace v0_1
}  // namespace mmagen::test
