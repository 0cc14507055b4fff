// Time on the device, by events.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "error.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// Enqueues one launch on input set `set`; throws Failure when it is refused.
using TimedLaunch = std::function<void(int set)>;

struct Timing {
  double ms_median = NAN, ms_min = NAN, ms_max = NAN;
};

inline Timing summarize(std::vector<double> samples) {
  if (samples.empty()) { return {}; }
  std::sort(samples.begin(), samples.end());
  std::size_t const half = samples.size() / 2;
  double const median = samples.size() % 2 == 1 ? samples[half] : 0.5 * (samples[half - 1] + samples[half]);
  return {median, samples.front(), samples.back()};
}

/// How many input sets of this size exceed twice the L2, so that no launch finds its operands there; at most 8, and
/// no more than fit beside the first in three quarters of the free memory.
inline int rotation_sets(double bytes_per_set) {
  int device = 0;
  int l2_bytes = 0;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "asking for the L2 size");
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  double const wanted = std::ceil(2.0 * l2_bytes / bytes_per_set);
  double const affordable = 1.0 + std::floor(0.75 * static_cast<double>(free_bytes) / bytes_per_set);
  return static_cast<int>(std::max(1.0, std::min({wanted, affordable, 8.0})));
}

class EventTimer {
 public:
  explicit EventTimer(cudaStream_t stream) : stream_(stream) {
    check(cudaEventCreate(&start_), "cudaEventCreate");
    check(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  EventTimer(EventTimer const&) = delete;
  EventTimer& operator=(EventTimer const&) = delete;
  ~EventTimer() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }

  /// Milliseconds for `launches` launches, which take the input sets in turn.
  double total_ms(TimedLaunch const& launch, int64_t launches, int sets) {
    check(cudaEventRecord(start_, stream_), "cudaEventRecord");
    for (int64_t i = 0; i < launches; ++i) { launch(static_cast<int>(next_set_++ % sets)); }
    check(cudaEventRecord(stop_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(stop_), "running the timed launches");
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, start_, stop_), "cudaEventElapsedTime");
    return ms;
  }

  /// Launches that fill `sample_ms`; warms up on the way.
  int64_t launches_for(TimedLaunch const& launch, int sets, double sample_ms) {
    total_ms(launch, sets + 2, sets);  // the first launches pay for loading code and attributes
    int64_t launches = 1;
    for (;;) {
      double const ms = std::max(total_ms(launch, launches, sets), 1e-4);
      if (ms >= sample_ms / 2 || launches >= kMostLaunches) {
        double const wanted = std::ceil(static_cast<double>(launches) * sample_ms / ms);
        return static_cast<int64_t>(std::max(1.0, std::min(wanted, static_cast<double>(kMostLaunches))));
      }
      launches *= 2;
    }
  }

 private:
  static constexpr int64_t kMostLaunches = 4096;
  cudaStream_t stream_;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
  int64_t next_set_ = 0;
};

/// Milliseconds per launch: at least 20 samples and 100 ms, but no new sample after 1 s. A sample is one launch, or as
/// many as fill half a millisecond: the events themselves cost microseconds.
inline Timing time_launches(TimedLaunch const& launch, int sets, cudaStream_t stream) {
  EventTimer timer(stream);
  int64_t const launches = timer.launches_for(launch, sets, 0.5);
  std::vector<double> samples;
  double spent_ms = 0.0;
  while ((samples.size() < 20 || spent_ms < 100.0) && (samples.size() < 3 || spent_ms < 1000.0)) {
    double const ms = timer.total_ms(launch, launches, sets);
    samples.push_back(ms / static_cast<double>(launches));
    spent_ms += ms;
  }
  return summarize(std::move(samples));
}

}  // namespace v0_1
}  // namespace mmagen::test
