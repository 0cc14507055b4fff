// What a call ends with, and what a kernel takes on a device.
#pragma once

#include <cuda_runtime_api.h>

namespace mmagen {
inline namespace v0_1 {

/// The values equal those of the project's C header.
enum class Status : int {
  kSuccess = 0,
  kInvalidArgument = 1,
  kNotSupported = 2,
  kCudaError = 3,
  kTooLarge = 4,
  kFixedShape = 5,
};

/// `shape`: what a kernel of fixed shape computes.
inline char const* status_text(Status status, char const* shape)
{
  switch (status) {
    case Status::kSuccess: return "success";
    case Status::kInvalidArgument:
      return "invalid argument: a null pointer, a negative extent, a leading dimension shorter than a row, or a batch "
             "whose matrices D are one";
    case Status::kNotSupported:
      return "not supported: the current device lacks this kernel's instructions or its shared memory";
    case Status::kCudaError: return "CUDA error at launch: cudaGetLastError() says why";
    case Status::kTooLarge: return "too large: extents and the number of CTAs may be 2^31 - 16385 at most";
    case Status::kFixedShape: return shape;
  }
  return "unknown status";
}

/// A device that lacks the kernel's code or its shared memory cannot run it at all; everything else went wrong.
inline Status status_of(cudaError_t error)
{
  switch (error) {
    case cudaSuccess: return Status::kSuccess;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInvalidValue:  // more dynamic shared memory than the device has
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver: return Status::kNotSupported;
    default: return Status::kCudaError;
  }
}

/// Fills the project's public info struct.
template <class Kernel, class Info>
Status query_kernel(Kernel* kernel, int threads, int smem_bytes, Info& info)
{
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) { return status_of(error); }
  error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, smem_bytes);
  if (error != cudaSuccess) { return status_of(error); }
  int ctas = 0;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, kernel, threads, size_t(smem_bytes));
  if (error != cudaSuccess) { return status_of(error); }
  info.threads = threads;
  info.registers = attributes.numRegs;
  info.local_bytes = int(attributes.localSizeBytes);
  info.smem_bytes = int(attributes.sharedSizeBytes) + smem_bytes;
  info.ctas_per_sm = ctas;
  return Status::kSuccess;
}

}  // namespace v0_1
}  // namespace mmagen
