// The program tests/tune.cu: verifies and times each kernel of a library on many problems.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device.cuh"
#include "heat.cuh"
#include "judge.cuh"
#include "options.cuh"
#include "record.cuh"
#include "session.cuh"

namespace mmagen::test {
inline namespace v0_1 {

inline constexpr int kExitRunFailed = 4;

static __global__ void occupancy_probe_kernel() {}

/// Says how many clusters of 1, 2, 4, ... CTAs run at once if one CTA fills an SM: {"machine": {"multiprocessors": 132,
/// "clusters": {"1": 132, ...}}}.
inline void describe_machine() {
  int device = 0, multiprocessors = 0, smem_bytes = 0, major = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "asking for the multiprocessors");
  check(cudaDeviceGetAttribute(&smem_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "asking for shared memory");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking for the compute capability");
  std::cout << "{\"machine\": {\"multiprocessors\": " << multiprocessors << ", \"clusters\": {\"1\": " << multiprocessors;
  check(cudaFuncSetAttribute(occupancy_probe_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes),
        "allowing shared memory");
  if (major >= 9) {
    check(cudaFuncSetAttribute(occupancy_probe_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
          "allowing clusters of 16");
  }
  for (unsigned ctas = 2; major >= 9 && ctas <= 16; ctas *= 2) {
    cudaLaunchConfig_t launch{};
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {ctas, 1, 1};
    launch.gridDim = dim3(ctas);
    launch.blockDim = dim3(128);
    launch.dynamicSmemBytes = static_cast<std::size_t>(smem_bytes);
    launch.attrs = &cluster;
    launch.numAttrs = 1;
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, occupancy_probe_kernel, &launch), "asking for clusters");
    std::cout << ", \"" << ctas << "\": " << clusters;
  }
  std::cout << "}}}\n" << std::flush;
}

template <class Subject>
void report_heat(Problem const& problem, Heat<Subject> const& heat, ClockReading const& clocks, Record const& base,
                 Report* report) {
  for (Entrant const& one : heat.entrants()) {
    Record record = base;
    record.name = one.name;
    put(one.outcome, &record);
    if (!one.samples.empty()) {
      Timing const timing = summarize(one.samples);
      record.ms_median = timing.ms_median;
      record.ms_min = timing.ms_min;
      record.ms_max = timing.ms_max;
      record.tflops = flop<Subject>(problem) / timing.ms_median * 1e-9;
      record.gbps = heat.bytes() / timing.ms_median * 1e-6;
      record.sm_clock_mhz = clocks.sm_clock_mhz();
      record.power_w = clocks.power_w();
    }
    if (record.reason.empty()) { record.reason = heat.missing(); }
    report->add(record);
  }
}

/// What --config names; `fault` is set for a name that is none.
inline std::vector<NamedKernel> chosen_kernels(Options const& options, std::vector<NamedKernel> const& all,
                                               std::string* fault) {
  if (options.configs.empty()) { return all; }
  std::vector<NamedKernel> chosen;
  for (std::string const& name : options.configs) {
    auto const found = std::find_if(all.begin(), all.end(), [&](NamedKernel const& one) { return name == one.name; });
    if (found != all.end()) {
      chosen.push_back(*found);
      continue;
    }
    *fault = "--config " + name + ": no such kernel; there are";
    for (NamedKernel const& one : all) { *fault += std::string(" ") + one.name; }
  }
  return chosen;
}

/// One problem: every kernel verified and timed. Returns whether the CUDA context is still usable.
template <class Subject>
bool tune_problem(Problem const& problem, std::vector<NamedKernel> const& kernels, Options const& options, Nvml const& nvml,
                  DeviceFacts const& device, Report* report) {
  Record record = new_record<Subject>(problem, options.seed);
  record.input_dist = text(Distribution::kUniform);
  record.device = device.name;
  record.driver = device.driver;
  record.cuda = device.cuda;
  if (!device.missing.empty()) {
    record.disposition = Disposition::kNotSupported;
    record.reason = device.missing;
    report->add(record);
    return true;
  }
  try {
    Stream const stream;
    Heat<Subject> heat(problem, kernels, options, stream.get());
    heat.check_kernels();
    ClockReading const clocks = heat.time_all(nvml);
    if (options.json) {
      std::cout << "{\"chosen\": {\"problem\": " << json_text(text(problem)) << ", \"config\": " << json_text(heat.chosen())
                << "}}\n";
    }
    report_heat(problem, heat, clocks, record, report);
  } catch (Failure const& failure) {
    if (context_is_lost()) {  // whoever called starts the program again without the kernel that is to blame
      std::cerr << failure.reason << '\n';
      return false;
    }
    record.name = "problem";
    record.disposition = failure.disposition;
    record.reason = failure.reason;
    if (options.json) {
      std::cout << "{\"skipped\": {\"problem\": " << json_text(record.problem) << ", \"reason\": " << json_text(failure.reason)
                << "}}\n"
                << std::flush;
    } else {
      report->add(record);
    }
  }
  return true;
}

/// The problems given, then those of standard input if it was asked for.
template <class Subject>
class ProblemSource {
 public:
  ProblemSource(std::vector<Problem> problems, bool from_stdin) : problems_(std::move(problems)), from_stdin_(from_stdin) {}

  /// The next one; none at the end, or at a line that is no problem of this program, which `fault` then tells.
  std::optional<Problem> next(std::string* fault) {
    if (at_ < problems_.size()) { return problems_[at_++]; }
    std::string line;
    if (!from_stdin_ || !std::getline(std::cin, line)) { return std::nullopt; }
    Problem problem;
    *fault = parse_problem(line, &problem);
    if (fault->empty()) { *fault = unaskable<Subject>(problem); }
    if (fault->empty()) { return problem; }
    *fault = "standard input: " + line + ": " + *fault;
    return std::nullopt;
  }

 private:
  std::vector<Problem> problems_;
  std::size_t at_ = 0;
  bool from_stdin_;
};

template <class Subject>
int tune_main(int argc, char** argv) {
  Options options;
  std::vector<Problem> problems;
  int const early = start<Subject>(Program::kTune, argc, argv, &options, &problems);
  if (early >= 0) { return early; }
  std::string fault;
  std::vector<NamedKernel> const kernels = chosen_kernels(options, Subject::kernels(), &fault);
  if (!fault.empty()) {
    std::cerr << argv[0] << ": " << fault << '\n';
    return kExitUsage;
  }

  Nvml const nvml;
  DeviceFacts const device = find_device(nvml);
  Report report(options.json, widest(problems));
  if (options.json && device.missing.empty()) { describe_machine(); }
  ProblemSource<Subject> source(std::move(problems), options.from_stdin);
  while (std::optional<Problem> const problem = source.next(&fault)) {
    if (!tune_problem<Subject>(*problem, kernels, options, nvml, device, &report)) { return kExitRunFailed; }
    if (options.json) { std::cout << "{\"end\": {\"problem\": " << json_text(text(*problem)) << "}}\n" << std::flush; }
  }
  if (!fault.empty()) {
    std::cerr << argv[0] << ": " << fault << '\n';
    return kExitUsage;
  }
  report.verdict();
  return report.exit_code();
}

}  // namespace v0_1
}  // namespace mmagen::test
