// One CTA, one tile, by wgmma: the same four steps, with shared memory where the instruction reads its operands.
//
//   fill      global memory    -> shared memory    whole tile, every thread moves elements, swizzled as wgmma wants it
//   load      shared memory    -> registers        only an A that the instruction takes from registers (RS)
//   multiply  shared memory    -> registers        D = A * B, 128 threads together, behind the instructions that follow
//   store     registers        -> global memory    each thread the elements of D it owns
#pragma once

#include <cute/tensor.hpp>

#include "convert.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct MicroSharedStorage {
  // The widest swizzle counts 1024 bytes of address bits.
  alignas(1024) cute::ArrayEngine<typename Config::A::Element, cute::cosize_v<typename Config::A::SmemLayout>> a;
  alignas(1024) cute::ArrayEngine<typename Config::B::Element, cute::cosize_v<typename Config::B::SmemLayout>> b;
};

/// D = A * B for one tile: A (BLK_M,BLK_K), B (BLK_N,BLK_K), D (BLK_M,BLK_N); lda, ldb, ldd in elements.
/// Grid: 1 CTA of Config::kThreads threads, whole warpgroups. Dynamic shared memory: Config::kSmemBytes.
template <class Config>
__global__ void __launch_bounds__(Config::kThreads)
    micro_kernel(typename Config::A::Element const* a, int64_t lda, typename Config::B::Element const* b, int64_t ldb,
                 typename Config::ElementD* d, int64_t ldd) {
  using namespace cute;
  using A = typename Config::A;
  using B = typename Config::B;
  static_assert(sizeof(MicroSharedStorage<Config>) == Config::kSmemBytes, "the plan and the kernel disagree");
  static_assert(size(typename Config::TiledMma{}) == Config::kThreads, "the plan and the TiledMMA disagree");
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& storage = *reinterpret_cast<MicroSharedStorage<Config>*>(smem);

  auto const shape_a = Shape<Int<Config::kTileM>, Int<Config::kTileK>>{};
  auto const shape_b = Shape<Int<Config::kTileN>, Int<Config::kTileK>>{};
  auto const shape_d = Shape<Int<Config::kTileM>, Int<Config::kTileN>>{};
  Tensor gA = make_tensor(make_gmem_ptr(a), shape_a, A::gmem_stride(lda));                       // (BLK_M,BLK_K)
  Tensor gB = make_tensor(make_gmem_ptr(b), shape_b, B::gmem_stride(ldb));                       // (BLK_N,BLK_K)
  Tensor gD = make_tensor(make_gmem_ptr(d), shape_d, Config::stride_d(ldd));                     // (BLK_M,BLK_N)
  Tensor sA = make_tensor(make_smem_ptr(storage.a.begin()), typename A::SmemLayout{})(_, _, 0);  // (BLK_M,BLK_K)
  Tensor sB = make_tensor(make_smem_ptr(storage.b.begin()), typename B::SmemLayout{})(_, _, 0);  // (BLK_N,BLK_K)

  // 1. Fill. FillNarrow moves single elements, so any pointer and leading dimension will do.
  auto fill = [&](auto fill_copy, auto const& g, auto&& s) {
    if (threadIdx.x < size(fill_copy)) {
      auto thread_fill = fill_copy.get_slice(threadIdx.x);
      copy(fill_copy, thread_fill.partition_S(g), thread_fill.partition_D(s));  // (CPY,CPY_MN,CPY_K)
    }
  };
  fill(typename A::FillNarrow{}, gA, sA);
  fill(typename B::FillNarrow{}, gB, sB);
  // wgmma reads shared memory by another path than these stores took: without the fence it may see what was there before.
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();

  // 2. Load. What wgmma takes from shared memory becomes descriptors, which know address and swizzle and hold no data.
  typename Config::TiledMma mma;
  auto thread_mma = mma.get_slice(threadIdx.x);
  Tensor tCrA = thread_mma.partition_fragment_A(sA);  // (MMA,MMA_M,MMA_K)
  Tensor tCrB = thread_mma.partition_fragment_B(sB);  // (MMA,MMA_N,MMA_K)
  if constexpr (A::kInRegisters) {
    auto load_a = make_tiled_copy_A(typename A::SmemCopy{}, mma);
    auto thread_load_a = load_a.get_slice(threadIdx.x);
    copy(load_a, thread_load_a.partition_S(sA), thread_load_a.retile_D(tCrA));
  }

  // 3. Multiply. wgmma runs behind the thread that issues it: `arrive` hands the registers over, `wait` takes them back.
  Tensor tCgD = thread_mma.partition_C(gD);          // (MMA,MMA_M,MMA_N)
  Tensor tCrC = partition_fragment_C(mma, shape_d);  // (MMA,MMA_M,MMA_N)
  clear(tCrC);
  warpgroup_fence_operand(tCrC);
  warpgroup_arrive();
  gemm(mma, tCrA, tCrB, tCrC);
  warpgroup_commit_batch();
  warpgroup_wait<0>();
  warpgroup_fence_operand(tCrC);

  // 4. Store.
  CUTE_UNROLL
  for (int i = 0; i < size(tCrC); ++i) {
    tCgD(i) = convert<typename Config::ElementD>(static_cast<typename Config::Scalar>(tCrC(i)));
  }
}

}  // namespace v0_1
}  // namespace mmagen
