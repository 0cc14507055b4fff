// Status codes, and launching a kernel: shared memory, errors, resources.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace mmagen {
inline namespace v0_1 {

/// The values equal those of the project's C header. Those of one kind are consecutive, in the order of Operand.
enum class Status : int {
  kSuccess = 0,
  // about the device
  kCudaError = 1,
  kNoDriver = 2,
  kOldDriver = 3,
  kNoDevice = 4,
  kWrongDevice = 5,
  kSmallDevice = 6,
  // about the call
  kNullArgs = 16,
  kStructSize = 17,
  kFixedShape = 18,
  kTooManyTiles = 19,
  kWrongStream = 20,
  kForeignMemory = 21,
  kNegativeM = 32,
  kNegativeN = 33,
  kNegativeK = 34,
  kNegativeBatch = 35,
  kTooLargeM = 40,
  kTooLargeN = 41,
  kTooLargeK = 42,
  kNullA = 48,
  kNullB = 49,
  kNullC = 50,
  kNullD = 51,
  kNullMetadataA = 52,
  kNullScaleA = 53,
  kNullScaleB = 54,
  kMisalignedA = 64,
  kMisalignedB = 65,
  kMisalignedC = 66,
  kMisalignedD = 67,
  kMisalignedMetadataA = 68,
  kMisalignedScaleA = 69,
  kMisalignedScaleB = 70,
  kMisalignedAlpha = 71,
  kMisalignedBeta = 72,
  kMisalignedWorkspace = 73,
  kShortWorkspace = 74,
  kShortLda = 80,
  kShortLdb = 81,
  kShortLdc = 82,
  kShortLdd = 83,
  kAlphaNotInteger = 96,
  kBetaNotInteger = 97,
  kSharedD = 98,
  kNegativeStrideA = 128,
  kNegativeStrideB = 129,
  kNegativeStrideC = 130,
  kNegativeStrideD = 131,
  kNegativeStrideMetadataA = 132,
  // about arguments that not every library has
  kNullTensor = 112,
  kMisalignedTensor = 113,
  kShortTensor = 114,
  kSharedTensor = 115,
  kUnusedAlpha = 116,
  kUnusedBeta = 117,
  kOddN = 118,
  kNegativeTensor = 119,
  // of sparse kernels
  kUnalignedA = 144,
  kUnalignedB = 145,
  kNullMatrix = 146,
  kMisalignedMatrix = 147,
  kShortMatrix = 148,
  kSharedMatrix = 149,
  kNotSparse = 150,
  kIllegalMetadata = 151,
  // about groups
  kGroupSizes = 160,
  kNotForTma = 161,
  // about strides: bytes that do not fit 64 bits, or more of them than a tensor map takes
  kTooLargeA = 168,
  kTooLargeB = 169,
  kTooLargeC = 170,
  kTooLargeD = 171,
  kTooLargeTensor = 172,
  kTooLargeMatrix = 173,
  kNegativeMatrix = 174,
  kFarApartA = 176,
  kFarApartB = 177,
  kFarApartTensor = 178,
};

/// Whether a call launches its kernel, or only finds out whether it would.
enum class Launch { kYes, kNo };

/// The last CUDA error that this thread's call has met, 0 for none. Read right after the call: all projects share it.
inline int& cuda_error_of_thread() {
  static thread_local int code = 0;
  return code;
}

/// A status about the device if it cannot run the kernel's code at all, kCudaError for every other error.
inline Status status_of(cudaError_t error) {
  if (error == cudaSuccess) { return Status::kSuccess; }
  cuda_error_of_thread() = int(error);
  Status status = Status::kCudaError;
  switch (error) {
    case cudaErrorInsufficientDriver: {
      int version = 0;  // 0: there is no driver
      status = cudaDriverGetVersion(&version) == cudaSuccess && version > 0 ? Status::kOldDriver : Status::kNoDriver;
      break;
    }
    case cudaErrorStubLibrary: status = Status::kNoDriver; break;
    case cudaErrorUnsupportedPtxVersion: status = Status::kOldDriver; break;
    case cudaErrorNoDevice: status = Status::kNoDevice; break;
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction: status = Status::kWrongDevice; break;
    case cudaErrorInvalidClusterSize: status = Status::kSmallDevice; break;
    case cudaErrorInvalidResourceHandle: status = Status::kWrongStream; break;  // the only handle that is passed on
    default: return Status::kCudaError;
  }
  cudaGetLastError();  // reported by the status: a later check of the caller must not find it
  return status;
}

/// Is the pointer aligned to `bytes`, a power of two? A misaligned access on the device loses the context.
inline bool is_aligned(void const* pointer, int bytes) {
  return (reinterpret_cast<uintptr_t>(pointer) & uintptr_t(bytes - 1)) == 0;
}

/// Is the pointer aligned to its elements?
template <class Element>
bool is_aligned_to(void const* pointer) {
  return is_aligned(pointer, int(sizeof(Element)));
}

/// Allows a kernel `bytes` of dynamic shared memory; kSmallDevice where the device has less.
template <class Kernel>
Status allow_smem(Kernel* kernel, int bytes) {
  cudaError_t const error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaErrorInvalidValue) { return status_of(error); }
  cuda_error_of_thread() = int(error);
  cudaGetLastError();
  return Status::kSmallDevice;
}

/// kWrongStream for a stream of another device than the current one: CUDA 13 would run the kernel on that device, with memory
/// that it may not reach. A stream that is being captured is not looked at.
inline Status check_stream([[maybe_unused]] cudaStream_t stream) {
#if CUDART_VERSION >= 12080
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) { return Status::kSuccess; }
  cudaStreamCaptureStatus capture{};
  if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess) {
    cudaGetLastError();  // the launch meets it again
    return Status::kSuccess;
  }
  if (capture != cudaStreamCaptureStatusNone) { return Status::kSuccess; }  // cudaStreamGetDevice() would end the capture
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;                // nor may it end a capture of another thread
  cudaThreadExchangeStreamCaptureMode(&mode);
  int device = 0, current = 0;
  bool const known = cudaStreamGetDevice(stream, &device) == cudaSuccess && cudaGetDevice(&current) == cudaSuccess;
  cudaThreadExchangeStreamCaptureMode(&mode);
  if (!known) { cudaGetLastError(); }  // the launch meets it again
  return known && device != current ? Status::kWrongStream : Status::kSuccess;
#else
  return Status::kSuccess;  // the runtime does not say
#endif
}

/// Launches a kernel. Unlike with <<<>>> and cudaGetLastError(), an earlier error of the caller is not reported as this
/// launch's.
template <class... Params>
Status launch_kernel(void (*kernel)(Params...), unsigned ctas, int threads, int smem_bytes, cudaStream_t stream, Launch launch,
                     Params... params) {
  Status status = allow_smem(kernel, smem_bytes);
  if (status != Status::kSuccess || launch == Launch::kNo) { return status; }
  status = check_stream(stream);
  if (status != Status::kSuccess) { return status; }
  void* arguments[] = {&params...};
  return status_of(cudaLaunchKernel(reinterpret_cast<void const*>(kernel), dim3(ctas), dim3(unsigned(threads)), arguments,
                                    size_t(smem_bytes), stream));
}

/// Launches a kernel without shared memory that may begin before the preceding kernel of the stream has ended. It must call
/// wait_on_dependent_grids() first.
template <class Params>
Status launch_dependent_kernel(void (*kernel)(Params), unsigned ctas, int threads, cudaStream_t stream, Params params) {
  Status const status = check_stream(stream);
  if (status != Status::kSuccess) { return status; }
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
