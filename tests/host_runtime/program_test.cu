// A program as others write them: its own allocations, copies, launches and checks.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void scale(float* values, float factor, int count) {
  int const i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) { values[i] *= factor; }
}

__global__ void race(int* values) {
  __shared__ int kept[64];
  kept[threadIdx.x] = values[threadIdx.x];
  values[threadIdx.x] = kept[63 - threadIdx.x];
}

extern "C" int run(float* values, int count) {
  scale<<<(count + 31) / 32, 32>>>(values, 3, count);
  return cudaGetLastError();
}

extern "C" int run_race(int* values) {
  race<<<1, 64>>>(values);
  return cudaGetLastError();
}

extern "C" int run_too_large(float* values) {
  scale<<<1, 2048>>>(values, 1, 1);
  return cudaGetLastError();
}

// 0 where the driver's function is there and takes the map.
extern "C" int make_im2col_map() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &entry, 12000, cudaEnableDefault, &found);
  return int(found) + (entry == nullptr ? 100 : 0);
}

extern "C" int call_im2col() {
  return cuTensorMapEncodeIm2col(nullptr, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, nullptr, nullptr, nullptr, nullptr, nullptr, 8, 8,
                                 nullptr, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                 CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

extern "C" int copy_out_of_bounds(char* values) {
  char kept[8];
  return cudaMemcpy(kept, values, sizeof kept, cudaMemcpyDeviceToHost);
}

extern "C" int crash() {
  *static_cast<int volatile*>(nullptr) = 1;
  return 0;
}

extern "C" int cudaWhatIsThis();
extern "C" int call_what_is_not_there() { return cudaWhatIsThis(); }

// 0 where the result is right.
extern "C" int whole_program() {
  int const count = 100;
  std::vector<float> host(count), back(count);
  for (int i = 0; i < count; ++i) { host[i] = float(i); }
  float *first = nullptr, *second = nullptr;
  if (cudaMalloc(&first, count * sizeof(float)) != cudaSuccess) { return 1; }
  if (cudaMalloc(&second, count * sizeof(float)) != cudaSuccess) { return 2; }
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaMemcpyAsync(first, host.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream);
  scale<<<4, 32, 0, stream>>>(first, 2, count);
  cudaMemcpyAsync(second, first, count * sizeof(float), cudaMemcpyDefault, stream);
  cudaMemsetAsync(first, 0, 4, stream);
  scale<<<4, 32, 0, stream>>>(second, 5, count);
  cudaMemcpy(back.data(), second, count * sizeof(float), cudaMemcpyDefault);
  for (int i = 0; i < count; ++i) {
    if (back[i] != 10 * host[i]) { return 3; }
  }
  cudaMemcpy(back.data(), first, 8, cudaMemcpyDeviceToHost);
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  std::printf("%g %g on sm_%d%d\n", back[0], back[1], properties.major, properties.minor);
  cudaFree(first);
  cudaFree(second);
  return cudaDeviceSynchronize();
}
