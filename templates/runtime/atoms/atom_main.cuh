// Runs cases from a file: reads images, launches once for each case, writes the image of D. The caller interprets them.
//
// Usage: PROGRAM CASES RESULTS [FIRST]. Cases before FIRST are skipped, so that a new process can continue after a case
// that lost the context. A result is complete on disk before the next launch.
// Exit codes: 0 every case was launched, 2 usage, 4 the context was lost, 77 no suitable GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "atom_kernel.cuh"

namespace mmagen::atoms {

/// A case in the file; the images of a, b, c, e, sfa, sfb follow it, in that order.
struct Case {
  uint32_t kernel, threads, steps, smem;
  uint64_t desc_a, desc_b;
  uint32_t bytes_a, bytes_b, step_a, step_b;
  uint64_t sizes[7];  ///< of a, b, c, e, sfa, sfb, d
};

/// A result in the file; D follows, or the text of the error.
struct Result {
  uint32_t index;
  int32_t status;
  uint64_t size;
};

class Buffers {
 public:
  ~Buffers() {
    for (void* memory : memory_) { cudaFree(memory); }
  }

  /// Device memory of slot `slot`, at least `size` bytes.
  cudaError_t reserve(int slot, uint64_t size, void** memory) {
    if (size > room_[slot]) {
      cudaFree(memory_[slot]);
      room_[slot] = 0;
      if (cudaError_t const error = cudaMalloc(&memory_[slot], size); error != cudaSuccess) { return error; }
      room_[slot] = size;
    }
    *memory = memory_[slot];
    return cudaSuccess;
  }

 private:
  void* memory_[7] = {};
  uint64_t room_[7] = {};
};

inline cudaError_t run_case(Case const& one, std::vector<char> const& images, Kernel kernel, Buffers& buffers,
                            std::vector<char>& d) {
  void* device[7] = {};
  uint64_t offset = 0;
  for (int i = 0; i < 7; ++i) {
    if (one.sizes[i] == 0) { continue; }
    cudaError_t error = buffers.reserve(i, one.sizes[i], &device[i]);
    if (error != cudaSuccess) { return error; }
    // D starts as all ones, which is NaN or an unlikely value in every type: elements that are not written are detected.
    error = i == 6 ? cudaMemset(device[i], 0xff, one.sizes[i])
                   : cudaMemcpy(device[i], images.data() + offset, one.sizes[i], cudaMemcpyHostToDevice);
    if (error != cudaSuccess) { return error; }
    offset += one.sizes[i];
  }
  Work const work{device[0],  device[1],  device[2],   device[3],   device[4],  device[5],  device[6],
                  one.desc_a, one.desc_b, one.bytes_a, one.bytes_b, one.step_a, one.step_b, static_cast<int32_t>(one.steps)};
  if (one.smem > 48 * 1024) {
    cudaError_t const error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(one.smem));
    if (error != cudaSuccess) { return error; }
  }
  kernel<<<1, one.threads, one.smem>>>(work);
  if (cudaError_t const error = cudaGetLastError(); error != cudaSuccess) { return error; }
  if (cudaError_t const error = cudaDeviceSynchronize(); error != cudaSuccess) { return error; }
  d.resize(one.sizes[6]);
  return cudaMemcpy(d.data(), device[6], one.sizes[6], cudaMemcpyDeviceToHost);
}

inline bool write_result(std::FILE* file, uint32_t index, cudaError_t status, std::vector<char> const& d) {
  char const* const text = cudaGetErrorString(status);
  bool const good = status == cudaSuccess;
  Result const result{index, static_cast<int32_t>(status), good ? d.size() : std::strlen(text)};
  std::fwrite(&result, sizeof result, 1, file);
  std::fwrite(good ? d.data() : text, 1, result.size, file);
  return std::fflush(file) == 0;
}

inline int atom_main(int argc, char** argv, Kernel const* kernels, uint32_t kernel_count) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s CASES RESULTS [FIRST]\n", argv[0]);
    return 2;
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "no CUDA device\n");
    return 77;
  }
  std::FILE* const cases = std::fopen(argv[1], "rb");
  std::FILE* const results = std::fopen(argv[2], "ab");
  if (cases == nullptr || results == nullptr) {
    std::fprintf(stderr, "%s: cannot be opened\n", cases == nullptr ? argv[1] : argv[2]);
    return 2;
  }
  uint32_t const first = argc > 3 ? static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)) : 0;
  Buffers buffers;
  std::vector<char> images, d;
  Case one;
  for (uint32_t index = 0; std::fread(&one, sizeof one, 1, cases) == 1; ++index) {
    uint64_t total = 0;
    for (int i = 0; i < 6; ++i) { total += one.sizes[i]; }
    images.resize(total);
    if (std::fread(images.data(), 1, total, cases) != total || one.kernel >= kernel_count) {
      std::fprintf(stderr, "%s: case %u is not whole\n", argv[1], index);
      return 2;
    }
    if (index < first) { continue; }
    cudaError_t const status = run_case(one, images, kernels[one.kernel], buffers, d);
    if (!write_result(results, index, status, d)) { return 4; }
    cudaGetLastError();
    // After an illegal address or instruction every later call would fail as well.
    if (status != cudaSuccess && cudaDeviceSynchronize() != cudaSuccess) { return 4; }
  }
  std::fclose(results);
  std::fclose(cases);
  return 0;
}

}  // namespace mmagen::atoms
