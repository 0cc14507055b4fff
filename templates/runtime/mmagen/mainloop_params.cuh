// A and B in global memory: the parameters of the mainloops without TMA.
#pragma once

#include <cute/tensor.hpp>

#include "gemm_arguments.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Extents in elements, pointers, leading dimensions and batch strides (0: one matrix for the whole batch).
template <class Config>
struct MainloopParams {
  using A = typename Config::A;
  using B = typename Config::B;

  int m, n, k;
  typename A::Element const* a;
  int64_t lda, batch_stride_a;
  typename B::Element const* b;
  int64_t ldb, batch_stride_b;

  static MainloopParams of(GemmArguments<Config> const& args) {
    return {int(args.m), int(args.n), int(args.k),        args.a, args.lda, args.batch_stride_a,
            args.b,      args.ldb,    args.batch_stride_b};
  }

  /// Elements of a row of B in memory, and of one of A unless it is sparse.
  CUTE_HOST_DEVICE int stored_k() const { return int(detail::stored_k<B>(k)); }

  /// The rows of A of one output tile, as a sequence of k tiles.
  CUTE_DEVICE auto tiles_a(int tile_m, int batch) const {
    using namespace cute;
    Tensor mA =
        make_tensor(make_gmem_ptr(a + batch * batch_stride_a), make_shape(m, stored_k()), A::gmem_stride(lda));  // (M,K)
    return local_tile(mA, Shape<Int<A::kTileMn>, Int<A::kTileK>>{}, make_coord(tile_m, _));  // (BLK_M,BLK_K,k)
  }

  CUTE_DEVICE auto tiles_b(int tile_n, int batch) const {
    using namespace cute;
    Tensor mB =
        make_tensor(make_gmem_ptr(b + batch * batch_stride_b), make_shape(n, stored_k()), B::gmem_stride(ldb));  // (N,K)
    return local_tile(mB, Shape<Int<B::kTileMn>, Int<B::kTileK>>{}, make_coord(tile_n, _));  // (BLK_N,BLK_K,k)
  }
};

}  // namespace v0_1
}  // namespace mmagen
