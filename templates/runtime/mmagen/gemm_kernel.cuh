// The GEMM kernel: one CTA computes one CTA tile of D = alpha * A * B + beta * C, with A (M,K), B (N,K), D (M,N).
#pragma once

#include <cute/tensor.hpp>

#include "raster.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Everything the kernel is told: plain pointers, sizes and strides (in elements; batch strides may be 0).
template <class Config>
struct GemmParams {
  int m, n, k;
  unsigned tiles_m, tiles_n;
  typename Config::A::Element const* a;
  int64_t lda, batch_stride_a;
  typename Config::B::Element const* b;
  int64_t ldb, batch_stride_b;
  typename Config::ElementD const* c;
  int64_t ldc, batch_stride_c;
  typename Config::ElementD* d;
  int64_t ldd, batch_stride_d;
  typename Config::Scalar alpha, beta;
  bool wide_d;  // C and D allow vectors
};

/// The main loop's tiles and the epilogue's slice take turns in the same bytes.
template <class Config>
union GemmSharedStorage {
  typename Config::Mainloop::SharedStorage mainloop;
  typename Config::Epilogue::SharedStorage epilogue;
};

/// Grid: tiles_m * tiles_n * batch CTAs of Config::kThreads threads. Dynamic shared memory: Config::kSmemBytes.
/// kWide: rows of A and B begin at 16-byte boundaries.
template <class Config, bool kWide>
__global__ void __launch_bounds__(Config::kThreads, Config::kCtasPerSm)
    gemm_kernel(__grid_constant__ GemmParams<Config> const params) {
  using namespace cute;
  using A = typename Config::A;
  using B = typename Config::B;
  static_assert(sizeof(GemmSharedStorage<Config>) == Config::kSmemBytes, "the plan and the kernel disagree");
  static_assert(size(typename Config::TiledMma{}) == Config::kThreads, "the plan and the TiledMMA disagree");
  extern __shared__ __align__(128) unsigned char smem[];
  auto& storage = *reinterpret_cast<GemmSharedStorage<Config>*>(smem);

  auto const [tile_m, tile_n, batch] = raster(blockIdx.x, params.tiles_m, params.tiles_n, Config::kRasterGroup);

  Tensor mA = make_tensor(make_gmem_ptr(params.a + batch * params.batch_stride_a), make_shape(params.m, params.k),
                          A::gmem_stride(params.lda));  // (M,K)
  Tensor mB = make_tensor(make_gmem_ptr(params.b + batch * params.batch_stride_b), make_shape(params.n, params.k),
                          B::gmem_stride(params.ldb));                                                   // (N,K)
  Tensor gA = local_tile(mA, Shape<Int<Config::kTileM>, Int<Config::kTileK>>{}, make_coord(tile_m, _));  // (BLK_M,BLK_K,k)
  Tensor gB = local_tile(mB, Shape<Int<Config::kTileN>, Int<Config::kTileK>>{}, make_coord(tile_n, _));  // (BLK_N,BLK_K,k)

  Tensor tCrC = partition_fragment_C(typename Config::TiledMma{},
                                     Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
  clear(tCrC);

  int const m_origin = tile_m * Config::kTileM;
  int const n_origin = tile_n * Config::kTileN;
  Config::Mainloop::template run<kWide>(gA, gB, tCrC, params.m - m_origin, params.n - n_origin, params.k, storage.mainloop);
  Config::Epilogue::run(tCrC, params.c + batch * params.batch_stride_c, params.ldc, params.d + batch * params.batch_stride_d,
                        params.ldd, params.alpha, params.beta, m_origin, n_origin, params.m, params.n, params.wide_d,
                        storage.epilogue);
}

}  // namespace v0_1
}  // namespace mmagen
