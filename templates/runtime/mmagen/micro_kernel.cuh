// One CTA, one tile: the four steps of every tensor-core kernel and nothing else.
//
//   copy       global memory -> shared memory    the whole tile
//   fragments  shared memory -> registers        each thread loads the elements that the instruction assigns to it
//   mma        registers -> registers            D = A * B
//   store      registers -> global memory        each thread stores the elements of D that it owns
#pragma once

#include <cute/tensor.hpp>

#include "convert.cuh"
#include "retile.cuh"
#include "stage_accumulators.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
union MicroSharedStorage {
  struct {
    alignas(128) cute::ArrayEngine<typename Config::A::Element, cute::cosize_v<typename Config::A::SmemLayout>> a;
    alignas(128) cute::ArrayEngine<typename Config::B::Element, cute::cosize_v<typename Config::B::SmemLayout>> b;
  } operands;
  // With several atoms along K, their partial sums are added up here, in the memory of the operands.
  cute::ArrayEngine<typename Config::ElementAccumulator, (Config::kAtomsK > 1 ? Config::kTileM * Config::kTileN : 1)> sums;
};

/// D = A * B for one tile: A (BLK_M,BLK_K), B (BLK_N,BLK_K), D (BLK_M,BLK_N); lda, ldb, ldd in elements.
/// Grid: 1 CTA of Config::kThreads threads. Dynamic shared memory: Config::kSmemBytes.
template <class Config>
__global__ void __launch_bounds__(Config::kThreads)
    micro_kernel(typename Config::A::Element const* a, int64_t lda, typename Config::B::Element const* b, int64_t ldb,
                 typename Config::ElementD* d, int64_t ldd) {
  using namespace cute;
  using A = typename Config::A;
  using B = typename Config::B;
  static_assert(sizeof(MicroSharedStorage<Config>) == Config::kSmemBytes, "the plan and the kernel disagree");
  static_assert(size(typename Config::TiledMma{}) == Config::kThreads, "the plan and the TiledMMA disagree");
  extern __shared__ __align__(128) unsigned char smem[];
  auto& storage = *reinterpret_cast<MicroSharedStorage<Config>*>(smem);

  auto const shape_a = Shape<Int<Config::kTileM>, Int<Config::kTileK>>{};
  auto const shape_b = Shape<Int<Config::kTileN>, Int<Config::kTileK>>{};
  auto const shape_d = Shape<Int<Config::kTileM>, Int<Config::kTileN>>{};
  Tensor gA = make_tensor(make_gmem_ptr(a), shape_a, A::gmem_stride(lda));                                // (BLK_M,BLK_K)
  Tensor gB = make_tensor(make_gmem_ptr(b), shape_b, B::gmem_stride(ldb));                                // (BLK_N,BLK_K)
  Tensor gD = make_tensor(make_gmem_ptr(d), shape_d, Config::stride_d(ldd));                              // (BLK_M,BLK_N)
  Tensor sA = make_tensor(make_smem_ptr(storage.operands.a.begin()), typename A::SmemLayout{})(_, _, 0);  // (BLK_M,BLK_K)
  Tensor sB = make_tensor(make_smem_ptr(storage.operands.b.begin()), typename B::SmemLayout{})(_, _, 0);  // (BLK_N,BLK_K)

  // 1. Copy, element by element, with any pointer and leading dimension.
  auto copy_tile = [&](auto gmem_copy, auto const& g, auto&& s) {
    if (threadIdx.x < size(gmem_copy)) {
      auto thread_copy = gmem_copy.get_slice(threadIdx.x);
      copy(gmem_copy, thread_copy.partition_S(g), thread_copy.partition_D(s));  // (CPY,CPY_MN,CPY_K)
    }
  };
  copy_tile(typename A::GmemCopyNarrow{}, gA, sA);
  copy_tile(typename B::GmemCopyNarrow{}, gB, sB);
  __syncthreads();

  // 2. Fragments.
  typename Config::TiledMma mma;
  auto thread_mma = mma.get_slice(threadIdx.x);
  Tensor tCrA = thread_mma.partition_fragment_A(sA);  // (MMA,MMA_M,MMA_K)
  Tensor tCrB = thread_mma.partition_fragment_B(sB);  // (MMA,MMA_N,MMA_K)
  auto load_a = make_tiled_copy_A(typename A::SmemCopy{}, mma);
  auto load_b = make_tiled_copy_B(typename B::SmemCopy{}, mma);
  auto thread_load_a = load_a.get_slice(threadIdx.x);
  auto thread_load_b = load_b.get_slice(threadIdx.x);
  Tensor tXsA = thread_load_a.partition_S(sA);  // (CPY,CPY_M,CPY_K)
  Tensor tXsB = thread_load_b.partition_S(sB);  // (CPY,CPY_N,CPY_K)
  copy(load_a, tXsA, retile(load_a, tXsA, tCrA));
  copy(load_b, tXsB, retile(load_b, tXsB, tCrB));

  // 3. MMA.
  Tensor tCgD = thread_mma.partition_C(gD);          // (MMA,MMA_M,MMA_N)
  Tensor tCrC = partition_fragment_C(mma, shape_d);  // (MMA,MMA_M,MMA_N)
  clear(tCrC);
  gemm(mma, tCrA, tCrB, tCrC);

  // 4. Store.
  int const k_slice = get<3>(mma.get_thr_layout_vmnk().get_flat_coord(int(threadIdx.x)));
  if constexpr (Config::kAtomsK > 1) {
    Tensor sC = make_tensor(make_smem_ptr(storage.sums.begin()), shape_d);  // (BLK_M,BLK_N)
    Tensor tCsC = thread_mma.partition_C(sC);                               // (MMA,MMA_M,MMA_N)
    __syncthreads();  // all warps have loaded their fragments: the operands' memory is free
    stage_accumulators<Config::kAtomsK>(tCrC, tCsC, k_slice);
    copy(tCsC, tCrC);
  }
  if (k_slice == 0) {
    CUTE_UNROLL
    for (int i = 0; i < size(tCrC); ++i) {
      tCgD(i) = convert<typename Config::ElementD>(static_cast<typename Config::Scalar>(tCrC(i)));
    }
  }
}

}  // namespace v0_1
}  // namespace mmagen
