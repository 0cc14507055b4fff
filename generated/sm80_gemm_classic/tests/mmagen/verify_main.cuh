// SPDX-License-Identifier: MIT-0
// The program tests/verify.cu: every problem against the reference, with uniform and with exact inputs, then timed.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <string>
#include <vector>

#include "device.cuh"
#include "judge.cuh"
#include "operands.cuh"
#include "options.cuh"
#include "record.cuh"
#include "session.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// Times the kernel on a problem that passed.
template <class Subject>
void time_problem(Problem const& problem, Distribution distribution, uint64_t seed, Operands<Subject> const& operands,
                  Nvml const& nvml, Record* record, cudaStream_t stream) {
  OperandSets<Subject> sets(problem, &operands, rotation_sets(operands.bytes()));
  sets.fill(problem, distribution, seed, stream);
  std::vector<Call> calls;
  for (int i = 0; i < sets.count(); ++i) { calls.push_back(sets.call(i)); }
  auto const launch = [&](int set) { check_status<Subject>(Subject::run(calls[static_cast<std::size_t>(set)], stream)); };
  ClockReading clocks;
  Timing timing;
  {
    ClockSampler const sampler(nvml, &clocks);
    timing = time_launches(launch, sets.count(), stream);
  }
  check(cudaGetLastError(), "timing the kernel");
  record->ms_median = timing.ms_median;
  record->ms_min = timing.ms_min;
  record->ms_max = timing.ms_max;
  record->tflops = flop<Subject>(problem) / timing.ms_median * 1e-9;
  record->gbps = operands.bytes() / timing.ms_median * 1e-6;
  record->sm_clock_mhz = clocks.sm_clock_mhz();
  record->power_w = clocks.power_w();
}

template <class Subject>
Record verify_problem(Problem const& problem, Distribution distribution, Options const& options, Record record,
                      Nvml const& nvml, cudaStream_t stream) {
  try {
    Operands<Subject> operands(problem);
    Runner const runner = [stream](Call const& call) { check_status<Subject>(Subject::run(call, stream)); };
    put(judge<Subject>(problem, distribution, options.seed, &operands, runner, stream), &record);
    if (record.disposition == Disposition::kPassed && options.timing && distribution == Distribution::kUniform) {
      time_problem<Subject>(problem, distribution, options.seed, operands, nvml, &record, stream);
    }
  } catch (Failure const& failure) {
    record.disposition = failure.disposition;
    record.reason = failure.reason;
  }
  return record;
}

/// Adds a record only if the kernel accepts what it must reject.
template <class Subject>
void verify_refusal(Problem const& problem, Options const& options, DeviceFacts const& device, Report* report) {
  Record record = new_record<Subject>(problem, options.seed);
  record.problem += " refusal";
  try {
    Stream const stream;
    record.reason = negative_check<Subject>(problem, stream.get());
    record.disposition = record.reason.empty() ? Disposition::kPassed : Disposition::kIncorrect;
  } catch (Failure const& failure) {
    record.disposition = failure.disposition;
    record.reason = failure.reason;
  }
  if (record.disposition == Disposition::kPassed) { return; }
  describe_run<Subject>(device, &record);
  report->add(record);
}

template <class Subject>
int verify_main(int argc, char** argv) {
  Options options;
  std::vector<Problem> problems;
  int const early = start<Subject>(Program::kVerify, argc, argv, &options, &problems);
  if (early >= 0) { return early; }
  std::vector<Distribution> distributions = {Distribution::kUniform, Distribution::kSmallInt};
  if (options.distribution) { distributions = {*options.distribution}; }

  Nvml const nvml;
  DeviceFacts const device = find_device(nvml);
  Report report(options.json, widest(problems) + 8, std::string(Subject::kName).size());
  Record const first = new_record<Subject>(problems.front(), options.seed);
  report.heading(first.name + ": " + first.types + ", " + first.layout + ", on " +
                 (device.missing.empty() ? device.name : "no device"));

  std::string lost;  // why nothing more can run
  Disposition lost_as = Disposition::kNotRun;
  if (!device.missing.empty()) {
    lost = device.missing;
    lost_as = Disposition::kNotSupported;
  }
  for (Problem const& problem : problems) {
    for (Distribution const distribution : distributions) {
      Record record = new_record<Subject>(problem, options.seed);
      record.input_dist = text(distribution);
      record.disposition = lost_as;
      record.reason = lost;
      if (lost.empty()) {
        describe_run<Subject>(device, &record);
        try {
          Stream const stream;
          record = verify_problem<Subject>(problem, distribution, options, record, nvml, stream.get());
        } catch (Failure const& failure) {
          record.disposition = failure.disposition;
          record.reason = failure.reason;
        }
        if (context_is_lost()) { lost = "the CUDA context was lost in an earlier run: " + record.reason; }
      } else {
        record.device = device.name;
        record.driver = device.driver;
        record.cuda = device.cuda;
      }
      report.add(record);
    }
  }
  if (lost.empty() && report.count(Disposition::kNotSupported) == 0) {
    auto const size = [](Problem const& p) { return p.m * p.n + p.m * p.k + p.n * p.k; };
    Problem const smallest = *std::min_element(problems.begin(), problems.end(),
                                               [&](Problem const& x, Problem const& y) { return size(x) < size(y); });
    verify_refusal<Subject>(smallest, options, device, &report);
  }
  report.verdict();
  return report.exit_code();
}

}  // namespace v0_1
}  // namespace mmagen::test
