// What is timed against what: candidates, measured in turns so that clock and temperature are the same for all.
#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nvml.cuh"
#include "timing.cuh"

namespace mmagen::test {
inline namespace v0_1 {

struct Candidate {
  std::string name;
  TimedLaunch launch;
  int sets = 1;
  double flop = 0.0;     ///< of one launch
  int64_t launches = 1;  ///< of one sample
};

struct Measurement {
  Timing timing;
  ClockReading clocks;
  double tflops(Candidate const& candidate) const { return candidate.flop / timing.ms_median * 1e-9; }
};

/// Candidates in a fresh order each time: what runs after a light kernel gets a higher clock.
class Shuffler {
 public:
  explicit Shuffler(uint64_t seed) : random_(seed) {}
  std::vector<std::size_t> order(std::size_t count) {
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) { order[i] = i; }
    for (std::size_t i = count; i > 1; --i) { std::swap(order[i - 1], order[random_() % i]); }
    return order;
  }

 private:
  std::mt19937_64 random_;
};

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
      double const ms = timer.total_ms(candidates[i].launch, candidates[i].launches, candidates[i].sets);
      samples[i].push_back(ms / static_cast<double>(candidates[i].launches));
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) { measurements[i].timing = summarize(std::move(samples[i])); }
  return measurements;
}

/// Each candidate without a pause for `seconds`. The first half lets clock and power settle, the second counts.
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
        double const ms = timer.total_ms(candidate.launch, candidate.launches, candidate.sets);
        samples.push_back(ms / static_cast<double>(candidate.launches));
      } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < span_s);
      return samples;
    };
    run_for(seconds / 2);
    ClockSampler const sampler(nvml, &measurements[i].clocks);
    measurements[i].timing = summarize(run_for(seconds / 2));
  }
  return measurements;
}

}  // namespace v0_1
}  // namespace mmagen::test
