// The second kernel of a split-K GEMM whose partial sums are in a workspace: adds them up, always in the order of K, and stores
// D. A separate kernel needs no flags between CTAs: the workspace need not be cleared, and no CTA waits for another.
#pragma once

#include <type_traits>

#include <cute/config.hpp>

#include "epilogue_functor.cuh"
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

inline constexpr int kReductionVector = 4;  // elements of D
inline constexpr int kReductionThreads = 128;
inline constexpr int kReductionBatch = 8;  // loads that a thread has in flight

template <class Config>
struct SplitKReductionParams {
  using ElementD = typename Config::ElementD;

  PartialSums<typename Config::ElementAccumulator> sums;
  FastDivmod vectors_of_line, lines_of_matrix;
  unsigned vectors;  // of all matrices
  int groups, splits_of_group;
  ElementD const* c;
  int64_t ldc, batch_stride_c;
  ElementD* d;
  int64_t ldd, batch_stride_d;
  bool wide;  // lines of C and D begin at multiples of a vector
  typename Config::Epilogue::Functor::Params functor;
};

/// Sums of neighbouring elements of D, as one load has them.
template <class Sum>
struct alignas(16) SumVector {
  Sum sum[kReductionVector];

  CUTE_DEVICE void add(uint4 const& words) {
    auto const* const others = reinterpret_cast<Sum const*>(&words);
    CUTE_UNROLL
    for (int v = 0; v < kReductionVector; ++v) { sum[v] += others[v]; }
  }
};

/// Grid: `groups` threads for each vector of D. Those of a group of warps add up consecutive splits, of which a thread has
/// kReductionBatch loads in flight; the first group then adds the sums of all groups in their order.
template <class Config>
__global__ void __launch_bounds__(kReductionThreads)
    split_k_reduction_kernel(__grid_constant__ SplitKReductionParams<Config> const params) {
  using ElementD = typename Config::ElementD;
  using Sum = typename Config::ElementAccumulator;
  constexpr int kVector = kReductionVector;
  struct alignas(kVector * sizeof(ElementD)) Vector {
    ElementD element[kVector];
  };
  __shared__ SumVector<Sum> of_groups[kReductionThreads];
  launch_dependent_grids();
  wait_on_dependent_grids();
  int const lanes = kReductionThreads / params.groups;  // of a group
  int const group = int(threadIdx.x) / lanes;
  unsigned const index = cute::min(blockIdx.x * lanes + threadIdx.x % lanes, params.vectors - 1);
  unsigned const line = params.vectors_of_line.divide(index);  // of all matrices
  int const along = int(index - line * params.vectors_of_line.divisor) * kVector;
  unsigned const batch = params.lines_of_matrix.divide(line);
  int64_t const across = line - batch * params.lines_of_matrix.divisor;

  Sum const* const from = params.sums.data + line * params.sums.pitch + along;
  SumVector<Sum> total{};
  int const end = cute::min((group + 1) * params.splits_of_group, params.sums.splits);
  CUTE_NO_UNROLL
  for (int first = group * params.splits_of_group; first < end; first += kReductionBatch) {
    uint4 words[kReductionBatch];
    CUTE_UNROLL
    for (int i = 0; i < kReductionBatch; ++i) {
      if (first + i < end) { words[i] = __ldcg(reinterpret_cast<uint4 const*>(from + (first + i) * params.sums.split_stride)); }
    }
    CUTE_UNROLL
    for (int i = 0; i < kReductionBatch; ++i) {
      if (first + i < end) { total.add(words[i]); }
    }
  }
  if (params.groups > 1) {
    of_groups[threadIdx.x] = total;
    __syncthreads();
    if (group > 0) { return; }
    for (int other = 1; other < params.groups; ++other) {
      total.add(reinterpret_cast<uint4 const&>(of_groups[other * lanes + threadIdx.x]));
    }
  }
  using Functor = EpilogueFunctor<typename Config::Epilogue::Functor>;
  bool const mine = blockIdx.x * lanes + threadIdx.x < params.vectors;
  if (!Functor::kObserves && !mine) { return; }  // else whole warps finish together

  Functor const functor(params.functor);
  bool const reads_c = functor.reads_source();
  ElementD const* const c = params.c + batch * params.batch_stride_c + across * params.ldc + along;
  constexpr int kPair = kSumsOfElement<typename Config::Epilogue::Functor>;
  static_assert(kPair == 1 || Config::kDRowMajor, "the sums of an element are neighbours of a row");
  ElementD* const d = params.d + batch * params.batch_stride_d + across * params.ldd + along / kPair;
  constexpr int kRows = Config::kDRowMajor ? 1 : kVector;
  constexpr int kColumns = Config::kDRowMajor ? kVector : 1;
  typename Functor::Row rows[kRows] = {};
  typename Functor::Column columns[kColumns] = {};
  typename Functor::Element elements[kVector] = {};
  CUTE_UNROLL
  for (int v = 0; v < kVector; ++v) {
    if (along + v >= params.sums.along) { continue; }
    int const m = Config::kDRowMajor ? int(across) : along + v;
    int const n = Config::kDRowMajor ? along + v : int(across);
    if (v < kRows) { rows[v] = functor.load_row(m, int(batch)); }
    if (v < kColumns) { columns[v] = functor.load_column(n, int(batch)); }
    elements[v] = functor.load_element(m, n, int(batch));
  }
  auto const beside = [&](int v) {
    return BesideOf<Functor>{rows[kRows == 1 ? 0 : v], columns[kColumns == 1 ? 0 : v], elements[v],
                             mine && along + v < params.sums.along};
  };
  if (!Functor::kObserves || mine) {
    if constexpr (kPair == 2) {
      CUTE_UNROLL
      for (int v = 0; v < kVector; v += 2) {
        if (along + v < params.sums.along) { d[v / 2] = functor(total.sum[v], total.sum[v + 1], beside(v), beside(v + 1)); }
      }
    } else if (params.wide && along + kVector <= params.sums.along) {
      Vector source{}, result;
      if (reads_c) { source = *reinterpret_cast<Vector const*>(c); }
      CUTE_UNROLL
      for (int v = 0; v < kVector; ++v) {
        result.element[v] = reads_c ? functor(total.sum[v], source.element[v], beside(v)) : functor(total.sum[v], beside(v));
      }
      *reinterpret_cast<Vector*>(d) = result;
    } else {
      CUTE_UNROLL
      for (int v = 0; v < kVector; ++v) {
        if (along + v < params.sums.along) {
          d[v] = reads_c ? functor(total.sum[v], c[v], beside(v)) : functor(total.sum[v], beside(v));
        }
      }
    }
  }
  if constexpr (Functor::kObserves) {
    auto const row = [&](int v) -> typename Functor::Row const& { return rows[v]; };
    auto const column = [&](int v) -> typename Functor::Column const& { return columns[v]; };
    auto const line_of = [&](int) { return int(across); };
    auto const place_of = [&](int v) { return along + v; };
    int const across_end = mine ? params.sums.across : 0;
    int const along_end = mine ? params.sums.along : 0;
    if constexpr (Config::kDRowMajor) {
      functor.template finish_columns<0, kColumns>(column, place_of, along_end, int(batch));
    } else {
      functor.template finish_rows<0, kRows>(row, place_of, along_end, int(batch));
    }
    // The lanes of a warp that is within one line add the line up together.
    auto const finish_line = [&](auto sharing) {
      if constexpr (Config::kDRowMajor) {
        functor.template finish_rows<decltype(sharing)::value, kRows>(row, line_of, across_end, int(batch));
      } else {
        functor.template finish_columns<decltype(sharing)::value, kColumns>(column, line_of, across_end, int(batch));
      }
    };
    unsigned const first_line = __shfl_sync(0xffffffff, line, 0);
    if (__all_sync(0xffffffff, mine && line == first_line)) {
      finish_line(std::integral_constant<unsigned, 31>{});
    } else {
      finish_line(std::integral_constant<unsigned, 0>{});
    }
    functor.finish();
  }
}

/// Enqueues the reduction after the kernel that writes the partial sums.
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
  params.functor = functor_params<typename Config::Epilogue::Functor>(args);
  params.groups = 1;
  while (params.groups < kReductionThreads / 32 && params.groups * kReductionBatch < sums.splits) { params.groups *= 2; }
  params.splits_of_group = (sums.splits + params.groups - 1) / params.groups;
  unsigned const ctas = unsigned(detail::ceil_div(params.vectors, kReductionThreads / params.groups));
  return launch_dependent_kernel(&split_k_reduction_kernel<Config>, ctas, kReductionThreads, stream, params);
}

}  // namespace v0_1
}  // namespace mmagen
