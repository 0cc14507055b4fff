// One way to fail: a CUDA call that did not succeed throws a Failure that already knows its disposition.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "problem.cuh"

namespace mmagen::test {
inline namespace v0_1 {

struct Failure {
  Disposition disposition;
  std::string reason;
};

inline Disposition disposition_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return Disposition::kPassed;
    case cudaErrorMemoryAllocation: return Disposition::kNotRun;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion: return Disposition::kNotSupported;
    default: return Disposition::kFailed;
  }
}

inline void check(cudaError_t error, std::string const& what) {
  if (error == cudaSuccess) { return; }
  cudaGetLastError();  // an error that is not sticky must not be found again by the next call
  throw Failure{disposition_of(error), what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")"};
}

/// After an illegal address or a launch failure the context is lost, and every later call returns that error.
inline bool context_is_lost() {
  cudaGetLastError();
  return cudaDeviceSynchronize() != cudaSuccess;
}

}  // namespace v0_1
}  // namespace mmagen::test
