// The CUDA device the program runs on, in words.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "error.cuh"
#include "nvml.cuh"

namespace mmagen::test {
inline namespace v0_1 {

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

}  // namespace v0_1
}  // namespace mmagen::test
