// SPDX-License-Identifier: MIT-0
// The peak program: each instruction in its fastest configuration, one line for each kind of inputs.
#pragma once

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "device.cuh"
#include "measure.cuh"
#include "options.cuh"
#include "predict.cuh"
#include "record.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace peak {

using test::Disposition;

struct Settings {
  bool help = false, json = false, list = false;
  std::vector<std::string> names;
  std::vector<Inputs> inputs;
  double seconds = 1.0, sample_ms = 2.0, launch_ms = 20.0;
};

/// Of a project with one instruction; empty in the program of many. rates: by compute capability (90), since a project
/// may run on another device than its first architecture says.
struct Identity {
  std::string name, spec_sha, mmagen, cutlass;
  std::map<int, double> rates;
};

struct Result {
  std::string name, inputs, types;
  Disposition disposition = Disposition::kNotRun;
  std::string reason;
  int warps = 0, accumulators = 0, steps = 0;
  Single single;
  double tflops = NAN, flop_per_cycle = NAN, percent = NAN, clock_mhz = NAN, sm_clock_mhz = NAN, power_w = NAN, seconds = NAN;
  std::vector<SweepPoint> sweep;
};

inline char const* usage() {
  return "Keeps the tensor cores busy with one instruction and says how fast it went.\n"
         "  --json             one JSON object a line instead of a table\n"
         "  --only NAME[;NAME] only these instructions; they are counted from 0 as well\n"
         "  --inputs X[,X]     random, zeros, ones or an integer that fills the operands (default random)\n"
         "  --seconds S        length of a measurement (default 1)\n"
         "  --sample-ms T      length of a sample in the search for the best configuration (default 2)\n"
         "  --no-timing        measurements of 10 ms: enough to check the sums\n"
         "  --dist zeros       the same as --inputs zeros; other distributions are random\n"
         "  --list             the names, and nothing is run\n"
         "  --help\n"
         "Exit codes: 0 passed, 1 incorrect, 2 usage, 4 a run failed, 77 no suitable GPU.\n";
}

inline bool parse_inputs(std::string const& text, std::vector<Inputs>* inputs) {
  for (std::string const& word : test::split(text, ',')) {
    Inputs one{word, {word == "random", 0, word == "ones" ? 1 : 0}};
    bool const named = one.fill.random || word == "zeros" || word == "ones";
    int32_t& constant = one.fill.constant;
    if (!named && !(test::parse_number(word, &constant) && constant >= 0 && constant <= 7)) { return false; }
    inputs->push_back(one);
  }
  return true;
}

/// Empty on success, else the fault. --seed, --max-dim and --problem are for other programs and ignored here.
inline std::string parse(std::vector<std::string> const& arguments, Settings* settings) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string const& option = arguments[i];
    bool* const flag = option == "--help"   ? &settings->help
                       : option == "--json" ? &settings->json
                       : option == "--list" ? &settings->list
                                            : nullptr;
    if (flag != nullptr) {
      *flag = true;
      continue;
    }
    if (option == "--no-timing") {
      settings->seconds = 0.01;
      continue;
    }
    char const* const known[] = {"--only",      "--inputs", "--dist",    "--seconds",
                                 "--sample-ms", "--seed",   "--max-dim", "--problem"};
    if (std::find(std::begin(known), std::end(known), option) == std::end(known)) {
      return "unknown option '" + option + "'; --help lists what there is";
    }
    if (i + 1 == arguments.size()) { return option + " needs a value"; }
    std::string const& value = arguments[++i];
    bool good = true;
    if (option == "--only") { settings->names = test::split(value, ';'); }
    if (option == "--inputs") { good = parse_inputs(value, &settings->inputs); }
    if (option == "--dist") { good = parse_inputs(value == "zeros" ? "zeros" : "random", &settings->inputs); }
    if (option == "--seconds") { good = test::parse_number(value, &settings->seconds) && settings->seconds > 0; }
    if (option == "--sample-ms") { good = test::parse_number(value, &settings->sample_ms) && settings->sample_ms > 0; }
    if (!good) { return "'" + value + "' is no value for " + option; }
  }
  if (settings->inputs.empty()) { parse_inputs("random", &settings->inputs); }
  return "";
}

inline std::vector<Entry const*> chosen(Settings const& settings) {
  std::vector<Entry const*> found;
  std::vector<Entry> const& all = all_entries();
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const is = [&](std::string const& name) { return name == all[i].name || name == std::to_string(i); };
    if (settings.names.empty() || std::any_of(settings.names.begin(), settings.names.end(), is)) { found.push_back(&all[i]); }
  }
  return found;
}

/// In the first quarter of the time clock and power settle, the rest is measured.
inline void measure(Runner const& runner, Configuration const& c, Inputs const& inputs, Settings const& settings,
                    test::Nvml const& nvml, Result* result) {
  runner.fill(c, inputs.fill, inputs.fill, true);
  std::vector<uint32_t> const of_one = sums_of_one_block(runner, c);
  uint32_t const blocks = runner.blocks_for(c, std::min(settings.launch_ms, settings.seconds * 100.0));
  LoopArguments const arguments = runner.arguments(blocks);
  double const first_ms = runner.run(c, arguments, 1).ms;
  int const launches = int(std::ceil(settings.seconds * 1e3 * 1.02 / first_ms));
  runner.run(c, arguments, std::max(1, launches / 4));
  test::ClockReading clocks;
  Sample sample;
  {
    test::ClockSampler const sampler(nvml, &clocks);
    sample = runner.run(c, arguments, launches);
  }
  result->reason = check_sums(runner, c, inputs, of_one, blocks);
  result->warps = c.warps;
  result->accumulators = c.accumulators;
  result->steps = c.steps;
  result->seconds = sample.ms * 1e-3;
  result->tflops = runner.flop_per_block(c) * sample.blocks * runner.device().multiprocessors / sample.ms * 1e-9;
  result->flop_per_cycle = runner.flop_per_cycle(c, sample);
  result->clock_mhz = sample.cycles / sample.ns * 1e3;
  result->sm_clock_mhz = clocks.sm_clock_mhz();
  result->power_w = clocks.power_w();
  double const rate = runner.entry().rate;
  if (rate > 0) { result->percent = 100.0 * result->flop_per_cycle / rate; }
  if (result->reason.empty() && result->percent > 102.0) {
    result->reason = "faster than the unit can be: not all of it was done";
  }
  result->disposition = result->reason.empty() ? Disposition::kPassed : Disposition::kIncorrect;
}

/// The record that all programs print, with the fields of this one.
inline std::string json(Result const& r, Identity const& identity, test::DeviceFacts const& facts) {
  test::Record record;
  record.name = r.name;
  record.types = r.types;
  record.disposition = r.disposition;
  record.reason = r.reason;
  record.input_dist = r.inputs;
  if (r.disposition == Disposition::kPassed) {
    record.max_abs_err = record.bound = 0.0;  // sums are exact
  }
  record.tflops = r.tflops;
  record.pct_peak = r.percent;
  if (!std::isnan(r.percent)) { record.peak_source = "datasheet's rate at the clock seen"; }
  record.sm_clock_mhz = r.sm_clock_mhz;
  record.power_w = r.power_w;
  record.device = facts.name;
  record.driver = facts.driver;
  record.cuda = facts.cuda;
  record.cutlass = identity.cutlass;
  record.mmagen = identity.mmagen;
  record.spec_sha = identity.spec_sha;
  std::string sweep;
  for (SweepPoint const& p : r.sweep) {
    sweep += (sweep.empty() ? "[" : ", [") + std::to_string(p.warps) + ", " + std::to_string(p.accumulators) + ", " +
             std::to_string(p.steps) + ", " + test::json_number(std::round(p.flop_per_cycle * 10) / 10) + "]";
  }
  auto const number = [](int value) { return value == 0 ? std::string("null") : std::to_string(value); };
  std::string text = test::json(record);
  text.pop_back();
  return text + ", \"inputs\": " + test::json_text(r.inputs) + ", \"flop_per_cycle\": " + test::json_number(r.flop_per_cycle) +
         ", \"pct_rate\": " + test::json_number(r.percent) + ", \"clock_mhz\": " + test::json_number(r.clock_mhz) +
         ", \"warps\": " + number(r.warps) + ", \"accumulators\": " + number(r.accumulators) +
         ", \"steps\": " + number(r.steps) + ", \"seconds\": " + test::json_number(r.seconds) +
         ", \"latency_cycles\": " + test::json_number(r.single.latency) +
         ", \"interval_cycles\": " + test::json_number(r.single.interval) + ", \"sweep\": [" + sweep + "]}";
}

inline void print(Result const& r) {
  std::printf(
      "%-52s %-8s %-10s %8.1f T %7.1f %% of the rate %6.0f MHz %5.0f W %3d warps x %d accumulators x %d steps, latency %.1f, "
      "interval %.1f\n",
      r.name.c_str(), r.inputs.c_str(), test::text(r.disposition), r.tflops, r.percent, r.clock_mhz, r.power_w, r.warps,
      r.accumulators, r.steps, r.single.latency, r.single.interval);
  if (!r.reason.empty()) { std::printf("    %s\n", r.reason.c_str()); }
  std::fflush(stdout);
}

/// The configuration is chosen with the first inputs and used for all. False if the context is lost.
template <class Tell>
bool run_one(Device const& device, Entry const& entry, Settings const& settings, test::Nvml const& nvml, int* worst,
             Tell const& tell) {
  Configuration best;
  std::vector<SweepPoint> points;
  Single of_one;
  for (Inputs const& inputs : settings.inputs) {
    Result result;
    result.name = entry.name;
    result.types = entry.types;
    result.inputs = inputs.name;
    bool lost = false;
    try {
      Runner const runner(device, entry);
      if (best.kernel == nullptr) {
        best = sweep(runner, inputs, settings.sample_ms, &points);
        of_one = single(runner);
      }
      result.sweep = points;
      result.single = of_one;
      std::string const ones = check_ones(runner, best);
      measure(runner, best, inputs, settings, nvml, &result);
      if (!ones.empty()) {
        result.reason = ones;
        result.disposition = Disposition::kIncorrect;
      }
    } catch (test::Failure const& failure) {
      result.disposition = failure.disposition;
      result.reason = failure.reason;
      lost = test::context_is_lost();
    }
    tell(result);
    int const code = result.disposition == Disposition::kPassed         ? 0
                     : result.disposition == Disposition::kIncorrect    ? 3
                     : result.disposition == Disposition::kNotSupported ? 1
                                                                        : 2;
    *worst = std::max(*worst, code);
    if (lost) { return false; }
  }
  return true;
}

/// Sets the entries' rates to those of this device, 0 where unknown.
inline void take_rates(std::map<int, double> const& rates) {
  int device = 0, major = 0, minor = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "compute capability");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "compute capability");
  auto const found = rates.find(major * 10 + minor);
  for (Entry& entry : all_entries()) { entry.rate = found == rates.end() ? 0.0 : found->second; }
}

inline int peak_main(int argc, char** argv, Identity const& identity = {}) {
  Settings settings;
  std::string const fault = parse(std::vector<std::string>(argv + 1, argv + argc), &settings);
  if (!fault.empty()) {
    std::cerr << fault << '\n';
    return 2;
  }
  if (settings.help) {
    std::cout << usage();
    return 0;
  }
  std::vector<Entry const*> const entries = chosen(settings);
  if (settings.list) {
    for (Entry const* entry : entries) { std::cout << entry->name << '\n'; }
    return 0;
  }
  test::Nvml const nvml;
  test::DeviceFacts const facts = test::find_device(nvml);
  if (!facts.missing.empty()) {
    std::cerr << "not run: " << facts.missing << '\n';
    return 77;
  }
  if (!settings.json) {
    std::printf("%s, driver %s, CUDA %s\n\n", facts.name.c_str(), facts.driver.c_str(), facts.cuda.c_str());
  }
  auto const tell = [&](Result result) {
    if (!identity.name.empty()) { result.name = identity.name; }
    if (settings.json) {
      std::cout << json(result, identity, facts) << std::endl;
    } else {
      print(result);
    }
  };
  if (!identity.name.empty()) { take_rates(identity.rates); }
  int worst = 0;
  Device const device;
  for (Entry const* entry : entries) {
    if (!run_one(device, *entry, settings, nvml, &worst, tell)) {
      std::cerr << "the device was lost at " << entry->name << "; what comes after it was not run\n";
      return 4;
    }
  }
  constexpr int kCodes[] = {0, 77, 4, 1};
  return kCodes[worst];
}

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
