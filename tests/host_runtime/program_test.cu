// A program as others write them: its own allocations, copies, launches and checks.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
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

// Launches a graph of two kernels and a memset three times. Returns 0 on success.
extern "C" int run_graph(float* values, int count) {
  cudaStream_t stream, other;
  cudaEvent_t fork, join;
  cudaStreamCreate(&stream);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaEventCreate(&fork);
  cudaEventCreate(&join);
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) { return 1; }
  cudaStreamCaptureStatus status;
  cudaStreamIsCapturing(stream, &status);
  if (status != cudaStreamCaptureStatusActive) { return 2; }
  scale<<<(count + 31) / 32, 32, 0, stream>>>(values, 2, count);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(other, fork, 0);
  cudaMemsetAsync(values, 0, sizeof(float), other);  // after the kernel
  cudaEventRecord(join, other);
  cudaStreamWaitEvent(stream, join, 0);
  scale<<<1, 2, 0, stream>>>(values, 5, 2);
  cudaGraph_t graph;
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) { return 3; }
  float kept[2];
  cudaMemcpy(kept, values, sizeof kept, cudaMemcpyDeviceToHost);
  if (kept[0] != 1 || kept[1] != 1) { return 4; }  // nothing ran yet
  cudaGraphExec_t executable;
  if (cudaGraphInstantiate(&executable, graph, 0) != cudaSuccess) { return 5; }
  cudaGraphDestroy(graph);
  for (int i = 0; i < 3; ++i) { cudaGraphLaunch(executable, stream); }
  scale<<<1, 2, 0, other>>>(values, 1, 2);  // the capture has ended: executes at once
  return cudaGraphExecDestroy(executable) + cudaStreamSynchronize(stream);
}

// The error of a call made during a capture, plus 1000 times that of cudaStreamEndCapture.
extern "C" int call_in_capture(int call, int mode, int non_blocking) {
  cudaStream_t stream;
  float* memory = nullptr;
  cudaMalloc(&memory, sizeof(float));
  cudaStreamCreateWithFlags(&stream, non_blocking ? cudaStreamNonBlocking : cudaStreamDefault);
  cudaStreamBeginCapture(stream, cudaStreamCaptureMode(mode));
  cudaError_t error = cudaSuccess;
  void* other = nullptr;
  float kept = 0;
  cudaStream_t second;
  cudaEvent_t event, outside;
  cudaGraph_t graph;
  cudaStreamCaptureStatus status;
  cudaStreamCaptureMode of_thread = cudaStreamCaptureModeRelaxed;
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  cudaEventCreate(&event);
  cudaEventCreate(&outside);
  switch (call) {
    case 0: error = cudaMalloc(&other, 4); break;
    case 1: error = cudaMemset(memory, 0, 4); break;
    case 2: error = cudaDeviceSynchronize(); break;
    case 3: error = cudaStreamSynchronize(stream); break;
    case 4:
      scale<<<1, 1>>>(memory, 1, 1);
      error = cudaGetLastError();
      break;
    case 5:
      cudaStreamGetDevice(stream, &call);
      scale<<<1, 1, 0, stream>>>(memory, 1, 1);
      error = cudaGetLastError();
      break;
    case 6: error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal); break;
    case 7: error = cudaMemcpyAsync(&kept, memory, 4, cudaMemcpyDeviceToHost, stream); break;
    case 8:
      cudaEventRecord(event, stream);
      error = cudaStreamWaitEvent(second, event, 0);  // which nobody waits for
      break;
    case 9:
      cudaEventRecord(outside, second);
      error = cudaStreamWaitEvent(stream, outside, 0);
      break;
    case 10:
      cudaStreamBeginCapture(second, cudaStreamCaptureModeRelaxed);
      cudaEventRecord(event, stream);
      error = cudaStreamWaitEvent(second, event, 0);
      break;
    case 11:
      cudaEventRecord(event, stream);
      error = cudaStreamWaitEvent(nullptr, event, 0);
      break;
    case 12:
      cudaEventRecord(event, stream);
      cudaStreamWaitEvent(second, event, 0);
      error = cudaStreamEndCapture(second, &graph);
      break;
    case 13: error = cudaStreamIsCapturing(nullptr, &status); break;
    case 14:
      cudaEventRecord(event, stream);
      error = cudaEventSynchronize(event);
      break;
    case 15:
      cudaThreadExchangeStreamCaptureMode(&of_thread);
      error = cudaMalloc(&other, 4);
      cudaThreadExchangeStreamCaptureMode(&of_thread);
      break;
    case 16:
      cudaEventRecord(event, stream);
      cudaStreamWaitEvent(second, event, 0);
      scale<<<1, 1, 0, second>>>(memory, 1, 1);
      cudaEventRecord(event, second);
      scale<<<1, 1, 0, second>>>(memory, 1, 1);  // after the event that the origin waits for
      error = cudaStreamWaitEvent(stream, event, 0);
      break;
    default: error = cudaMemsetAsync(memory, 0, 4, stream); break;
  }
  return int(error) + 1000 * int(cudaStreamEndCapture(stream, &graph));
}

int main(int count, char** words) {
  std::printf("%d words:", count - 1);
  for (int i = 1; i < count; ++i) { std::printf(" <%s>", words[i]); }
  std::puts(words[count] == nullptr ? "" : " and more");
  if (count > 1 && words[1][0] == 'x') { std::exit(7); }
  if (count > 1 && words[1][0] == 'a') { std::abort(); }
  if (count > 1 && words[1][0] == 'm') { return cudaWhatIsThis(); }
  return count + 40;
}
