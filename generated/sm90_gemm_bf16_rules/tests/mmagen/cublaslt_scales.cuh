// SPDX-License-Identifier: MIT-0
// Scales of 8-bit operands as cuBLASLt takes them. Included only with MMAGEN_WITH_CUBLASLT.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <vector>

#include "buffers.cuh"
#include "operands.cuh"
#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// The scales of an operand, as ScalesOf has them. which: of a call's further tensors, -1 for none.
struct LtScale {
  int which = -1, lines = 0, along_k = 0;

  bool exist() const { return which >= 0; }

  /// A cublasLtMatmulMatrixScale_t.
  int32_t mode() const {
#if CUDART_VERSION >= 12090
    if (along_k > 0) {
      return lines == 1 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    }
    return lines > 0 ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F : CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
#else
    if (lines > 0) { throw Failure{Disposition::kNotSupported, "cuBLASLt has such scales since CUDA 12.9"}; }
    return 0;
#endif
  }
};

/// from: (lines, parts of K); to: without gaps, lines contiguous, or parts of K at a distance of `pitch`.
static __global__ void pack_scales_kernel(Matrix from, float* to, int64_t pitch, bool lines_contiguous) {
  int64_t const stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < from.rows * from.cols; i += stride) {
    int64_t const line = i % from.rows;
    int64_t const part = i / from.rows;
    float const scale = static_cast<float const*>(from.data)[from.offset(line, part, 0)];
    to[lines_contiguous ? part * from.rows + line : line * pitch + part] = scale;
  }
}

/// Scales of one operand in the layout that cuBLASLt expects of their mode: those of 1x128 with lines contiguous and no gap,
/// those of 128x128 with K contiguous, at multiples of 4. cuBLAS documentation, "Element 1D and 2D Block Scaling for FP8 Data
/// Types".
class LtScales {
 public:
  explicit LtScales(LtScale const& of) : of_(of) {}

  /// Call once for each set of operands, before it is multiplied.
  void prepare(Call const& call, cudaStream_t stream) {
    if (!of_.exist() || of_.along_k == 0) { return; }
    Matrix const& from = call.further[static_cast<std::size_t>(of_.which)];
    if (packed_.count(from.data) != 0) { return; }
    constexpr int64_t kStep = 4;
    bool const lines_contiguous = of_.lines == 1;
    int64_t const pitch = (from.cols + kStep - 1) / kStep * kStep;
    int64_t const elements = lines_contiguous ? from.rows * from.cols : from.rows * pitch;
    DeviceMemory& to = packed_[from.data] = DeviceMemory(static_cast<std::size_t>(elements) * sizeof(float));
    check(cudaMemsetAsync(to.get(), 0, to.bytes(), stream), "clearing scales");
    pack_scales_kernel<<<blocks_for(from.rows * from.cols), kThreads, 0, stream>>>(from, static_cast<float*>(to.get()), pitch,
                                                                                   lines_contiguous);
    check(cudaGetLastError(), "launching pack_scales_kernel");
    check(cudaStreamSynchronize(stream), "packing scales");
  }

  LtScale const& of() const { return of_; }

  /// For a set that was prepared.
  void const* pointer(Call const& call) const {
    void* const data = call.further[static_cast<std::size_t>(of_.which)].data;
    if (of_.along_k == 0) { return data; }
    auto const found = packed_.find(data);
    if (found == packed_.end()) { throw Failure{Disposition::kFailed, "these scales were not prepared for cuBLASLt"}; }
    return found->second.get();
  }

 private:
  LtScale of_;
  std::map<void*, DeviceMemory> packed_;
};

}  // namespace v0_1
}  // namespace mmagen::test
