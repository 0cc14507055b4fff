// A library of host code for the stand-in for the CUDA runtime: each function makes one call and returns what it said.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>

struct Params {
  double weight;
  int8_t tag;
};

__global__ void plain(int8_t small, int64_t large, Params params) {
  if (params.tag == small) { *reinterpret_cast<int64_t*>(large) = small; }
}

__global__ void __launch_bounds__(128) bounded(int* out) {
  __shared__ int kept[64];
  kept[threadIdx.x % 64] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = kept[63 - threadIdx.x % 64];
}

extern "C" {

int run_plain(int grid, int block, int shared_bytes, cudaStream_t stream) {
  plain<<<grid, block, shared_bytes, stream>>>(-3, 0x1122334455667788, Params{0.5, 7});
  return cudaGetLastError();
}

int run_bounded(int grid, int block, int shared_bytes, int allowed, int cluster) {
  if (allowed >= 0) {
    cudaError_t const error = cudaFuncSetAttribute(&bounded, cudaFuncAttributeMaxDynamicSharedMemorySize, allowed);
    if (error != cudaSuccess) { return error; }
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {unsigned(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(grid));
  config.blockDim = dim3(unsigned(block));
  config.dynamicSmemBytes = size_t(shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, bounded, static_cast<int*>(nullptr));
}

int allow_large_clusters(int allowed) {
  return cudaFuncSetAttribute(&bounded, cudaFuncAttributeNonPortableClusterSizeAllowed, allowed);
}

int resident_clusters(int cluster) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {unsigned(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(cluster));
  config.blockDim = dim3(128);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int clusters = -1;
  cudaError_t const error = cudaOccupancyMaxActiveClusters(&clusters, bounded, &config);
  return error == cudaSuccess ? clusters : -int(error);
}

int run_no_kernel(void* nowhere) { return cudaLaunchKernel(nowhere, dim3(1), dim3(1), nullptr, 0, nullptr); }

int attribute_of_device(int attribute) {
  int value = -1;
  cudaError_t const error = cudaDeviceGetAttribute(&value, cudaDeviceAttr(attribute), 0);
  return error == cudaSuccess ? value : -int(error);
}

int most_threads_of_bounded() {
  cudaFuncAttributes attributes{};
  cudaError_t const error = cudaFuncGetAttributes(&attributes, bounded);
  return error == cudaSuccess ? attributes.maxThreadsPerBlock + 1000 * int(attributes.sharedSizeBytes) : -int(error);
}

/// shape: address, element strides' first, rank, then extents, strides in bytes and box of three modes.
int encode(CUtensorMap* map, int64_t const* shape, int swizzle, int context) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  cudaError_t const error =
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) { return -1; }
  if (context != 0) { cudaSetDevice(0); }
  cuuint64_t extents[3], strides[2];
  cuuint32_t box[3], steps[3] = {cuuint32_t(shape[1]), 1, 1};
  for (int i = 0; i < 3; ++i) { extents[i] = cuuint64_t(shape[3 + i]); }
  for (int i = 0; i < 2; ++i) { strides[i] = cuuint64_t(shape[6 + i]); }
  for (int i = 0; i < 3; ++i) { box[i] = cuuint32_t(shape[8 + i]); }
  alignas(64) CUtensorMap made;
  CUresult const result = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
      &made, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, cuuint32_t(shape[2]), reinterpret_cast<void*>(shape[0]), extents, strides, box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CUtensorMapSwizzle(swizzle), CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) { *map = made; }
  return result;
}

int crash(int how) {
  if (how == 0) { std::abort(); }
  return *reinterpret_cast<int volatile*>(intptr_t(how));
}

char const* named(int value) { return value == 3 ? "three it is" : "another"; }

int echo(int value) { return value; }
}
