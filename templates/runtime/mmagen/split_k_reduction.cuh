// The second kernel of a split-K GEMM whose partial sums lie in a workspace: adds them up, always in the order of K, and
// stores D. A kernel of its own needs no flags between CTAs: nobody has to clear the workspace, and no CTA waits for another.
#pragma once

#include <cute/config.hpp>

#include "gemm_arguments.cuh"
#include "sm90_barrier.cuh"
#include "status.cuh"
#include "tile_raster.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Partial sums of all D of a batch, one set for each split. D's contiguous mode is contiguous here too; lines begin at
/// multiples of 32 bytes. Extents and strides in elements.
template <class Sum>
struct PartialSums {
  Sum* data = nullptr;
  int along = 0, across = 0;  // extents of D, along its contiguous mode and across it
  int64_t pitch = 0, matrix_stride = 0, split_stride = 0;
  int splits = 1;

  PartialSums() = default;
  PartialSums(GemmShape const& shape, bool row_major)
      : along(int(row_major ? shape.n : shape.m)),
        across(int(row_major ? shape.m : shape.n)),
        pitch(detail::ceil_div(along, 8) * 8),
        matrix_stride(across * pitch),
        split_stride(matrix_stride * shape.batch) {}

  /// Bytes of the sums of one split.
  int64_t split_bytes() const { return split_stride * int64_t(sizeof(Sum)); }
};

/// Elements of D that a thread of the reduction stores.
inline constexpr int kReductionVector = 4;
inline constexpr int kReductionThreads = 128;

template <class Config>
struct SplitKReductionParams {
  using ElementD = typename Config::ElementD;

  PartialSums<typename Config::ElementAccumulator> sums;
  FastDivmod vectors_of_line, lines_of_matrix;
  unsigned vectors;  // of all matrices
  ElementD const* c;
  int64_t ldc, batch_stride_c;
  ElementD* d;
  int64_t ldd, batch_stride_d;
  bool wide;  // lines of C and D begin at multiples of a vector
  typename Config::Epilogue::Functor::Params functor;
};

/// Grid: a thread for each vector of D.
template <class Config>
__global__ void __launch_bounds__(kReductionThreads)
    split_k_reduction_kernel(__grid_constant__ SplitKReductionParams<Config> const params) {
  using ElementD = typename Config::ElementD;
  using Sum = typename Config::ElementAccumulator;
  constexpr int kVector = kReductionVector;
  struct alignas(kVector * sizeof(ElementD)) Vector {
    ElementD element[kVector];
  };
  launch_dependent_grids();
  wait_on_dependent_grids();
  unsigned const index = blockIdx.x * kReductionThreads + threadIdx.x;
  if (index >= params.vectors) { return; }
  unsigned const line = params.vectors_of_line.divide(index);  // of all matrices
  int const along = int(index - line * params.vectors_of_line.divisor) * kVector;
  unsigned const batch = params.lines_of_matrix.divide(line);
  int64_t const across = line - batch * params.lines_of_matrix.divisor;

  auto const* from = params.sums.data + line * params.sums.pitch + along;
  Sum total[kVector];
  auto const load = [](Sum const* at) { return __ldcg(reinterpret_cast<uint4 const*>(at)); };
  *reinterpret_cast<uint4*>(total) = load(from);
#pragma unroll 8
  for (int split = 1; split < params.sums.splits; ++split) {
    from += params.sums.split_stride;
    uint4 const words = load(from);
    auto const* const others = reinterpret_cast<Sum const*>(&words);
    CUTE_UNROLL
    for (int v = 0; v < kVector; ++v) { total[v] += others[v]; }
  }

  typename Config::Epilogue::Functor const functor(params.functor);
  bool const reads_c = functor.reads_source();
  ElementD const* const c = params.c + batch * params.batch_stride_c + across * params.ldc + along;
  ElementD* const d = params.d + batch * params.batch_stride_d + across * params.ldd + along;
  if (params.wide && along + kVector <= params.sums.along) {
    Vector source{}, result;
    if (reads_c) { source = *reinterpret_cast<Vector const*>(c); }
    CUTE_UNROLL
    for (int v = 0; v < kVector; ++v) {
      result.element[v] = reads_c ? functor(total[v], source.element[v]) : functor(total[v]);
    }
    *reinterpret_cast<Vector*>(d) = result;
  } else {
    CUTE_UNROLL
    for (int v = 0; v < kVector; ++v) {
      if (along + v < params.sums.along) { d[v] = reads_c ? functor(total[v], c[v]) : functor(total[v]); }
    }
  }
}

/// Enqueues the reduction behind the kernel that writes the partial sums.
template <class Config>
Status run_split_k_reduction(PartialSums<typename Config::ElementAccumulator> const& sums, GemmArguments<Config> const& args,
                             cudaStream_t stream) {
  constexpr int64_t kBytes = sizeof(typename Config::ElementD);
  auto const begins_at_vectors = [&](void const* pointer, int64_t ld, int64_t batch_stride) {
    uintptr_t const steps = uintptr_t(ld * kBytes) | (args.batch > 1 ? uintptr_t(batch_stride * kBytes) : 0);
    return (reinterpret_cast<uintptr_t>(pointer) | steps) % uintptr_t(kReductionVector * kBytes) == 0;
  };
  SplitKReductionParams<Config> params{};
  unsigned const vectors = unsigned(detail::ceil_div(sums.along, kReductionVector));
  params.sums = sums;
  params.vectors_of_line = FastDivmod(vectors);
  params.lines_of_matrix = FastDivmod(unsigned(sums.across));
  params.vectors = vectors * unsigned(sums.across) * unsigned(args.batch);
  params.c = args.c;
  params.ldc = args.ldc;
  params.batch_stride_c = args.batch_stride_c;
  params.d = args.d;
  params.ldd = args.ldd;
  params.batch_stride_d = args.batch_stride_d;
  params.wide =
      begins_at_vectors(args.d, args.ldd, args.batch_stride_d) && begins_at_vectors(args.c, args.ldc, args.batch_stride_c);
  params.functor = Config::Epilogue::Functor::make_params(args.epilogue);
  unsigned const ctas = unsigned(detail::ceil_div(params.vectors, kReductionThreads));
  return launch_dependent_kernel(&split_k_reduction_kernel<Config>, ctas, kReductionThreads, stream, params);
}

}  // namespace v0_1
}  // namespace mmagen
