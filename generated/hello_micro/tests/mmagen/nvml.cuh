// SM clock and power of the current device while something runs, through the driver's libnvidia-ml.so.1. The library is
// opened at run time and its few entry points are declared here, so nothing is needed to build; where it is absent or
// refuses, the readings are NaN.
#pragma once

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>

namespace mmagen::test {
inline namespace v0_1 {

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
    // By bus id: NVML does not know CUDA_VISIBLE_DEVICES and numbers devices its own way.
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

/// Samples in the background from its construction to its end, into a reading that outlives it.
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
      // First wait: a reading at the very start would show what ran before. And none after the end, unless it is the
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

}  // namespace v0_1
}  // namespace mmagen::test
