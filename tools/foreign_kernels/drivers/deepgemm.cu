// DeepGEMM compiles its kernels at run time, from Python; this is the host side of one of them: tensor maps, shared memory and
// launch. FP8: sm90_fp8_gemm_1d2d (A's scales 1 x 128, B's 128 x 128), else sm90_bf16_gemm. TILE_M, TILE_N, STAGES,
// MULTICAST (CTAs of a cluster), LAST_STAGES (k blocks modulo stages), SMS (CTAs of the grid).
#include <cuda.h>

#include <cstdio>

#ifdef FP8
#include <deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh>
#else
#include <deep_gemm/impls/sm90_bf16_gemm.cuh>
#endif

#include "driver.h"

namespace {

#ifdef FP8
constexpr int kElement = 1, kTileK = 128;
constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_UINT8;
#else
constexpr int kElement = 2, kTileK = 64;
constexpr CUtensorMapDataType kType = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
#endif
constexpr int kMathThreads = TILE_M == 64 ? 128 : 256, kTmaThreads = 128;
constexpr int kSwizzleD = TILE_N * 2 % 128 == 0 ? 128 : TILE_N * 2 % 64 == 0 ? 64 : 32;

CUtensorMap map_of(CUtensorMapDataType type, int element, void const* address, int64_t inner, int64_t outer, int box_inner,
                   int box_outer, CUtensorMapSwizzle swizzle) {
  alignas(64) CUtensorMap map;
  cuuint64_t const extents[2] = {cuuint64_t(inner), cuuint64_t(outer)}, strides[1] = {cuuint64_t(inner) * element};
  cuuint32_t const box[2] = {cuuint32_t(box_inner), cuuint32_t(box_outer)}, steps[2] = {1, 1};
  CUresult const done = cuTensorMapEncodeTiled(&map, type, 2, const_cast<void*>(address), extents, strides, box, steps,
                                               CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (done != CUDA_SUCCESS) { std::fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", int(done)); }
  return map;
}

constexpr CUtensorMapSwizzle swizzle_of(int bytes) {
  return bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_32B;
}

}  // namespace

extern "C" int run(Gemm const* g) {
  using namespace deep_gemm;
  auto const map_a = map_of(kType, kElement, g->a, g->k, g->m, kTileK, TILE_M, CU_TENSOR_MAP_SWIZZLE_128B);
  auto const map_b = map_of(kType, kElement, g->b, g->k, g->n, kTileK, TILE_N, CU_TENSOR_MAP_SWIZZLE_128B);
  auto const map_d =
      map_of(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, g->d, g->n, g->m, kSwizzleD / 2, TILE_M, swizzle_of(kSwizzleD));
  uint32_t const m = uint32_t(g->m), n = uint32_t(g->n), k = uint32_t((g->k + kTileK - 1) / kTileK * kTileK);
  size_t shared = (TILE_M * TILE_N * 2 + 1023) / 1024 * 1024 + STAGES * (TILE_M + TILE_N) * kTileK * kElement + STAGES * 16;
#ifdef FP8
  auto const kernel = &sm90_fp8_gemm_1d2d_impl<0, 0, 0, 1, TILE_M, TILE_N, kTileK, kSwizzleD, STAGES, LAST_STAGES, kTmaThreads,
                                               kMathThreads, MULTICAST, true, SMS, GemmType::Normal, EpilogueIdentity>;
  shared += STAGES * TILE_M * 4 + (k / 128 * (kTileK % TILE_N == 0 ? 1 : 2) * 4 + 7) / 8 * 8;
  auto const map_scales =
      map_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, g->scale_a, g->m, k / 128, TILE_M, 1, CU_TENSOR_MAP_SWIZZLE_NONE);
#else
  auto const kernel = &sm90_bf16_gemm_impl<0, 0, 0, 1, TILE_M, TILE_N, kTileK, kSwizzleD, STAGES, LAST_STAGES, kTmaThreads,
                                           kMathThreads, MULTICAST, true, SMS, GemmType::Normal, cutlass::bfloat16_t>;
#endif
  if (int const error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared))) {
    return error;
  }
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {MULTICAST, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(SMS);
  config.blockDim = dim3(kTmaThreads + kMathThreads);
  config.dynamicSmemBytes = shared;
  config.attrs = &attribute;
  config.numAttrs = 1;
#ifdef FP8
  auto* const scale_b = static_cast<float*>(const_cast<void*>(g->scale_b));
  return cudaLaunchKernelEx(&config, kernel, scale_b, nullptr, m, n, k, map_a, map_b, map_d, map_scales);
#else
  return cudaLaunchKernelEx(&config, kernel, nullptr, m, n, k, map_a, map_b, map_d);
#endif
}
