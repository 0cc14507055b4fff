// SPDX-License-Identifier: MIT-0
// The device: its facts, clocks and power from NVML (loaded at run time), and timing by CUDA events.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <dlfcn.h>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "record.cuh"
#include "timing.cuh"

namespace mmagen::test {
inline namespace v0_1 {

// --- nvml ---
// SM clock and power of the current device while something runs, through the driver's libnvidia-ml.so.1. The library is
// opened at run time and its few entry points are declared here, so nothing is needed to build; where it is absent or
// refuses, the readings are NaN.

class Nvml {
 public:
  Nvml() {
    library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) { return; }
    auto const init = symbol<int (*)()>("nvmlInit_v2");
    auto const by_bus_id = symbol<int (*)(char const*, void**)>("nvmlDeviceGetHandleByPciBusId_v2");
    auto const driver_version = symbol<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
    clock_ = symbol<int (*)(void*, int, unsigned*)>("nvmlDeviceGetClockInfo");
    power_ = symbol<int (*)(void*, unsigned*)>("nvmlDeviceGetPowerUsage");
    fields_ = symbol<int (*)(void*, int, FieldValue*)>("nvmlDeviceGetFieldValues");
    if (init == nullptr || init() != 0) { return; }
    char version[96] = {};
    if (driver_version != nullptr && driver_version(version, sizeof version) == 0) { driver_ = version; }
    // By bus id: NVML ignores CUDA_VISIBLE_DEVICES and has its own order of devices.
    int device = 0;
    char bus_id[32] = {};
    if (by_bus_id == nullptr || cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, device) != cudaSuccess || by_bus_id(bus_id, &device_) != 0) {
      device_ = nullptr;
    }
  }
  Nvml(Nvml const&) = delete;
  Nvml& operator=(Nvml const&) = delete;
  ~Nvml() {
    if (library_ == nullptr) { return; }
    if (auto const shutdown = symbol<int (*)()>("nvmlShutdown")) { shutdown(); }
    dlclose(library_);
  }

  std::string const& driver() const { return driver_; }
  bool can_sample() const { return device_ != nullptr; }

  double sm_clock_mhz() const {
    constexpr int kClockSm = 1;  // NVML_CLOCK_SM
    unsigned mhz = 0;
    return device_ != nullptr && clock_ != nullptr && clock_(device_, kClockSm, &mhz) == 0 ? mhz : NAN;
  }

  double power_w() const {
    if (device_ == nullptr) { return NAN; }
    // The plain query is a one-second average on recent parts; the field is the present value.
    FieldValue field = {};
    field.field_id = 186;  // NVML_FI_DEV_POWER_INSTANT
    if (fields_ != nullptr && fields_(device_, 1, &field) == 0 && field.result == 0) { return field.value.u32 * 1e-3; }
    unsigned milliwatts = 0;
    return power_ != nullptr && power_(device_, &milliwatts) == 0 ? milliwatts * 1e-3 : NAN;
  }

 private:
  struct FieldValue {  // nvmlFieldValue_t
    unsigned field_id, scope_id;
    long long timestamp, latency_us;
    int value_type, result;
    union {
      double f64;
      unsigned u32;
      unsigned long long u64;
    } value;
  };

  template <class Function>
  Function symbol(char const* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_ = nullptr;
  void* device_ = nullptr;
  std::string driver_;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*power_)(void*, unsigned*) = nullptr;
  int (*fields_)(void*, int, FieldValue*) = nullptr;
};

/// Means over one or several stretches of time.
struct ClockReading {
  double clock_sum = 0.0, power_sum = 0.0;
  int clocks = 0, powers = 0;
  double sm_clock_mhz() const { return clocks == 0 ? NAN : clock_sum / clocks; }
  double power_w() const { return powers == 0 ? NAN : power_sum / powers; }
};

/// Samples in the background while it exists, into a reading that outlives it.
class ClockSampler {
 public:
  ClockSampler(Nvml const& nvml, ClockReading* reading) {
    if (nvml.can_sample()) {
      thread_ = std::thread([this, &nvml, reading] { sample(nvml, reading); });
    }
  }
  ClockSampler(ClockSampler const&) = delete;
  ClockSampler& operator=(ClockSampler const&) = delete;
  ~ClockSampler() {
    stop_ = true;
    if (thread_.joinable()) { thread_.join(); }
  }

 private:
  void sample(Nvml const& nvml, ClockReading* reading) const {
    for (bool first = true; first || !stop_; first = false) {
      // Wait first: a reading at the very start would show what ran before. No reading after the end, unless it is the
      // only one.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (stop_ && !first) { return; }
      double const mhz = nvml.sm_clock_mhz();
      double const watts = nvml.power_w();
      if (!std::isnan(mhz)) { reading->clock_sum += mhz, reading->clocks += 1; }
      if (!std::isnan(watts)) { reading->power_sum += watts, reading->powers += 1; }
    }
  }

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// --- device ---
// Facts about the CUDA device that the program runs on.

/// The device, or why there is none.
struct DeviceFacts {
  std::string name, driver, cuda, missing;
};

inline DeviceFacts find_device(Nvml const& nvml) {
  DeviceFacts facts;
  int version = 0;
  auto const dotted = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) { facts.cuda = dotted(version); }
  facts.driver = nvml.driver();
  if (facts.driver.empty() && cudaDriverGetVersion(&version) == cudaSuccess && version != 0) {
    facts.driver = "CUDA " + dotted(version);
  }
  int count = 0;
  cudaDeviceProp properties;
  try {
    check(cudaGetDeviceCount(&count), "looking for a CUDA device");
    check(count > 0 ? cudaSuccess : cudaErrorNoDevice, "looking for a CUDA device");
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    facts.name = properties.name;
  } catch (Failure const& failure) { facts.missing = failure.reason; }
  return facts;
}

// --- timing ---
// Time on the device, measured with events.

/// Enqueues one launch on input set `set`; throws Failure when it is refused.
using TimedLaunch = std::function<void(int set)>;

inline constexpr double kMostSets = 8;

/// How many input sets of this size exceed twice the L2, so that no launch finds its operands there; at most `most`, and
/// no more than fit beside the first in three quarters of the free memory.
inline int rotation_sets(double bytes_per_set, double most = kMostSets) {
  int device = 0;
  int l2_bytes = 0;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device), "asking for the L2 size");
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  double const wanted = std::ceil(2.0 * l2_bytes / bytes_per_set);
  double const affordable = 1.0 + std::floor(0.75 * static_cast<double>(free_bytes) / bytes_per_set);
  return static_cast<int>(std::max(1.0, std::min({wanted, affordable, most})));
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

  /// The number of launches that take about `sample_ms`. Also warms up.
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
