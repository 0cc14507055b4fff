// Kernel without TMA, for matrices whose rows do not begin at 16-byte boundaries: threads copy the operands element by
// element into the same swizzled stages, multiply with the same wgmma, and store from registers. Correct but slow: one
// stage, no overlap.
#pragma once

#include <cute/tensor.hpp>

#include "gemm_arguments.cuh"
#include "sm90_tma.cuh"
#include "tile_raster.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct UnalignedParams {
  GemmArguments<Config> args;
  typename Config::Epilogue::Functor::Params functor;
  TileRaster raster;
};

/// Threads of a CTA: those of the TiledMMA.
template <class Config>
inline constexpr int kUnalignedThreads = decltype(cute::size(typename Config::TiledMma{}))::value;

/// Grid: one CTA of the TiledMMA's threads for each tile of each batch.
template <class Config>
__global__ void __launch_bounds__(kUnalignedThreads<Config>)
    sm90_unaligned_kernel(__grid_constant__ UnalignedParams<Config> const params) {
  using namespace cute;
  using A = typename Config::A;
  using B = typename Config::B;
  using Mainloop = typename Config::Mainloop;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& storage = *reinterpret_cast<typename Config::Mainloop::SharedStorage*>(smem);
  GemmArguments<Config> const& args = params.args;

  auto const [tile_m, tile_n, batch] = params.raster(blockIdx.x);
  Tensor mA = make_tensor(make_gmem_ptr(args.a + batch * args.batch_stride_a), make_shape(int(args.m), int(args.k)),
                          A::gmem_stride(args.lda));  // (M,K)
  Tensor mB = make_tensor(make_gmem_ptr(args.b + batch * args.batch_stride_b), make_shape(int(args.n), int(args.k)),
                          B::gmem_stride(args.ldb));                                                     // (N,K)
  Tensor gA = local_tile(mA, Shape<Int<Config::kTileM>, Int<Config::kTileK>>{}, make_coord(tile_m, _));  // (BLK_M,BLK_K,k)
  Tensor gB = local_tile(mB, Shape<Int<Config::kTileN>, Int<Config::kTileK>>{}, make_coord(tile_n, _));  // (BLK_N,BLK_K,k)
  Tensor sA = stages_of<A>(storage.a.begin());                                                           // (BLK_M,BLK_K,PIPE)
  Tensor sB = stages_of<B>(storage.b.begin());                                                           // (BLK_N,BLK_K,PIPE)
  int const m_left = int(args.m) - tile_m * Config::kTileM;
  int const n_left = int(args.n) - tile_n * Config::kTileN;

  auto stage_mma = make_stage_mma<Config, typename Mainloop::OperandA>(storage, threadIdx.x);
  Tensor tCrC = partition_fragment_C(stage_mma.mma, Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
  clear(tCrC);

  auto copy_tile = [&](auto operand, auto const& gX, auto const& sX, int k_tile, int mn_left) {
    using Operand = decltype(operand);
    int const k_left = int(args.k) - k_tile * Config::kTileK;
    CUTE_NO_UNROLL
    for (int i = threadIdx.x; i < Operand::kTileMn * Operand::kTileK; i += kUnalignedThreads<Config>) {
      int const mn = Operand::kContiguousK ? i / Operand::kTileK : i % Operand::kTileMn;
      int const k = Operand::kContiguousK ? i % Operand::kTileK : i / Operand::kTileMn;
      bool const inside = mn < mn_left && k < k_left;
      sX(mn, k, 0) = inside ? gX(mn, k, k_tile) : static_cast<typename Operand::Element>(0);
    }
  };
  CUTE_NO_UNROLL
  for (int k_tile = 0; k_tile < size<2>(gA); ++k_tile) {
    copy_tile(A{}, gA, sA, k_tile, m_left);
    copy_tile(B{}, gB, sB, k_tile, n_left);
    fence_view_async_shared();
    __syncthreads();
    Mainloop::mma_and_wait(stage_mma, 0, tCrC);
    __syncthreads();
  }

  typename Config::ElementD const* const c = args.c + batch * args.batch_stride_c;
  typename Config::ElementD* const d = args.d + batch * args.batch_stride_d;
  Tensor cD = make_identity_tensor(Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});
  Tensor tCcD = stage_mma.mma.get_slice(threadIdx.x).partition_C(cD);  // (MMA,MMA_M,MMA_N) -> (m,n)
  typename Config::Epilogue::Functor const functor(params.functor);
  bool const reads_c = functor.reads_source();
  CUTE_UNROLL
  for (int v = 0; v < size(tCrC); ++v) {
    auto const [m, n] = tCcD(v);
    if (m >= m_left || n >= n_left) { continue; }
    int64_t const row = int64_t(tile_m) * Config::kTileM + m;
    int64_t const column = int64_t(tile_n) * Config::kTileN + n;
    int64_t const at_c = Config::kDRowMajor ? row * args.ldc + column : row + column * args.ldc;
    int64_t const at_d = Config::kDRowMajor ? row * args.ldd + column : row + column * args.ldd;
    d[at_d] = reads_c ? functor(tCrC(v), c[at_c]) : functor(tCrC(v));
  }
}

template <class Config>
Status run_sm90_unaligned(GemmArguments<Config> const& args, cudaStream_t stream, Launch launch) {
  UnalignedParams<Config> params{};
  params.args = args;
  params.functor = Config::Epilogue::Functor::make_params(args.epilogue);
  unsigned const tiles_m = unsigned(detail::ceil_div(args.m, Config::kTileM));
  unsigned const tiles_n = unsigned(detail::ceil_div(args.n, Config::kTileN));
  params.raster = TileRaster(tiles_m, tiles_n, 8);
  unsigned const ctas = tiles_m * tiles_n * unsigned(args.batch);
  return launch_kernel(&sm90_unaligned_kernel<Config>, ctas, kUnalignedThreads<Config>, Config::kSmemBytes, stream, launch,
                       params);
}

}  // namespace v0_1
}  // namespace mmagen
