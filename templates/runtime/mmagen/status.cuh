// Status codes, and launching a kernel: shared memory, errors, resources.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

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

/// `shape`: the sentence of a kernel that computes a fixed shape.
inline char const* status_text(Status status, char const* shape) {
  switch (status) {
    case Status::kSuccess: return "success";
    case Status::kInvalidArgument:
      return "invalid argument: a pointer that is null or not aligned to its elements (a workspace: to 16 bytes), a "
             "negative extent, a leading dimension shorter than a row, or a batch with a stride of 0 for D";
    case Status::kNotSupported:
      return "not supported: the current device lacks this kernel's instructions, its shared memory or SMs for its cluster";
    case Status::kCudaError: return "CUDA error at launch: cudaGetLastError() says why";
    case Status::kTooLarge: return "too large: extents and the number of CTAs may be 2^31 - 16385 at most";
    case Status::kFixedShape: return shape;
  }
  return "unknown status";
}

/// kNotSupported where the device cannot run the kernel's code at all, kCudaError for every other error.
inline Status status_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return Status::kSuccess;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidClusterSize:
      cudaGetLastError();  // reported by the status: a later check of the caller must not find it
      return Status::kNotSupported;
    default: return Status::kCudaError;
  }
}

/// Is the pointer aligned to its elements? A misaligned access on the device loses the context.
template <class Element>
bool is_aligned_to(void const* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % sizeof(Element) == 0;
}

/// Allows a kernel `bytes` of dynamic shared memory; kNotSupported where the device has less.
template <class Kernel>
Status allow_smem(Kernel* kernel, int bytes) {
  cudaError_t const error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaErrorInvalidValue) { return status_of(error); }
  cudaGetLastError();
  return Status::kNotSupported;
}

/// Launches a kernel. Unlike with <<<>>> and cudaGetLastError(), an earlier error of the caller is not reported as this
/// launch's.
template <class... Params>
Status launch_kernel(void (*kernel)(Params...), unsigned ctas, int threads, int smem_bytes, cudaStream_t stream,
                     Params... params) {
  Status const status = allow_smem(kernel, smem_bytes);
  if (status != Status::kSuccess) { return status; }
  void* arguments[] = {&params...};
  return status_of(cudaLaunchKernel(reinterpret_cast<void const*>(kernel), dim3(ctas), dim3(unsigned(threads)), arguments,
                                    size_t(smem_bytes), stream));
}

/// Launches a kernel without shared memory that may begin before the preceding kernel of the stream has ended. It must call
/// wait_on_dependent_grids() first.
template <class Params>
Status launch_dependent_kernel(void (*kernel)(Params), unsigned ctas, int threads, cudaStream_t stream, Params params) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(ctas);
  launch.blockDim = dim3(unsigned(threads));
  launch.stream = stream;
  launch.attrs = &attribute;
  launch.numAttrs = 1;
  return status_of(cudaLaunchKernelEx(&launch, kernel, params));
}

/// Fills the project's public info struct.
template <class Kernel, class Info>
Status query_kernel(Kernel* kernel, int threads, int smem_bytes, Info& info) {
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) { return status_of(error); }
  Status const status = allow_smem(kernel, smem_bytes);
  if (status != Status::kSuccess) { return status; }
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
