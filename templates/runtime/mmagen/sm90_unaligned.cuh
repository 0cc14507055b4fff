// The way around TMA, for matrices whose rows do not begin at 16-byte boundaries: threads copy the operands element by
// element into the same swizzled tiles, multiply by the same wgmma, and store from registers. Right, but slow: one
// stage, nothing overlaps.
#pragma once

#include <cute/tensor.hpp>

#include "gemm_arguments.cuh"
#include "raster.cuh"
#include "sm90_epilogue.cuh"
#include "sm90_multiply.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct UnalignedParams {
  GemmArguments<Config> args;
  unsigned tiles_m, tiles_n;
};

/// Threads of a CTA: those that multiply.
template <class Config>
inline constexpr int kUnalignedThreads = decltype(cute::size(typename Config::TiledMma{}))::value;

/// Grid: one CTA of the TiledMMA's threads for each tile of each batch.
template <class Config>
__global__ void __launch_bounds__(kUnalignedThreads<Config>)
    sm90_unaligned_kernel(__grid_constant__ UnalignedParams<Config> const params) {
  using namespace cute;
  using A = typename Config::A;
  using B = typename Config::B;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& storage = *reinterpret_cast<Sm90Storage<Config>*>(smem);
  GemmArguments<Config> const& args = params.args;

  auto const [tile_m, tile_n, batch] = raster(blockIdx.x, params.tiles_m, params.tiles_n, 8);
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

  typename Config::TiledMma mma;
  auto const thread_mma = mma.get_slice(threadIdx.x);
  auto tCrA = OperandA<Config>::fragments(sA, thread_mma);                                     // (MMA,MMA_M,MMA_K[,PIPE])
  Tensor tCrB = thread_mma.make_fragment_B(thread_mma.partition_B(sB));                        // (MMA,MMA_N,MMA_K,PIPE)
  Tensor tCrC = partition_fragment_C(mma, Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});  // (MMA,MMA_M,MMA_N)
  clear(tCrC);

  auto fill = [&](auto operand, auto const& gX, auto const& sX, int k_tile, int mn_left) {
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
    fill(A{}, gA, sA, k_tile, m_left);
    fill(B{}, gB, sB, k_tile, n_left);
    fence_for_async_proxy();
    __syncthreads();
    if constexpr (Config::kPromote) {
      Tensor sums = make_fragment_like(tCrC);
      clear(sums);
      multiply_stage<Config>(mma, sA, tCrA, tCrB, sums, 0, threadIdx.x);
      warpgroup_wait<0>();
      warpgroup_fence_operand(sums);
      CUTE_UNROLL
      for (int v = 0; v < size(tCrC); ++v) { tCrC(v) += sums(v); }
    } else {
      multiply_stage<Config>(mma, sA, tCrA, tCrB, tCrC, 0, threadIdx.x);
      warpgroup_wait<0>();
      warpgroup_fence_operand(tCrC);
    }
    __syncthreads();
  }

  typename Config::ElementD const* const c = args.c + batch * args.batch_stride_c;
  typename Config::ElementD* const d = args.d + batch * args.batch_stride_d;
  Tensor cD = make_identity_tensor(Shape<Int<Config::kTileM>, Int<Config::kTileN>>{});
  Tensor tCcD = thread_mma.partition_C(cD);  // (MMA,MMA_M,MMA_N) -> (m,n)
  bool const reads_c = args.beta != typename Config::Scalar(0);
  CUTE_UNROLL
  for (int v = 0; v < size(tCrC); ++v) {
    auto const [m, n] = tCcD(v);
    if (m >= m_left || n >= n_left) { continue; }
    int64_t const row = int64_t(tile_m) * Config::kTileM + m;
    int64_t const column = int64_t(tile_n) * Config::kTileN + n;
    int64_t const at_c = Config::kDRowMajor ? row * args.ldc + column : row + column * args.ldc;
    int64_t const at_d = Config::kDRowMajor ? row * args.ldd + column : row + column * args.ldd;
    d[at_d] = reads_c ? combine<true>(tCrC(v), args.alpha, args.beta, c[at_c])
                      : combine<false>(tCrC(v), args.alpha, args.beta, typename Config::ElementD{});
  }
}

template <class Config>
Status run_sm90_unaligned(GemmArguments<Config> const& args, cudaStream_t stream) {
  UnalignedParams<Config> params{};
  params.args = args;
  params.tiles_m = unsigned(detail::tiles(args.m, Config::kTileM));
  params.tiles_n = unsigned(detail::tiles(args.n, Config::kTileN));
  unsigned const ctas = params.tiles_m * params.tiles_n * unsigned(args.batch);
  return launch_kernel(&sm90_unaligned_kernel<Config>, ctas, kUnalignedThreads<Config>, Config::kSmemBytes, stream, params);
}

}  // namespace v0_1
}  // namespace mmagen
