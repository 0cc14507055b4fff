// The arguments of a GEMM as they come through the C interface, checked: sizes, strides and pointers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

struct GemmShape {
  int64_t m, n, k, batch;

  bool empty() const { return m == 0 || n == 0 || batch == 0; }
};

/// One GEMM for each matrix of a batch; extents and strides in elements. c is never null: d where C is not read.
/// `epilogue`: the Arguments of the epilogue's functor, e.g. alpha and beta.
template <class ElementA, class ElementB, class ElementD, class EpilogueArguments>
struct GemmArgumentsOf {
  int64_t m, n, k, batch;
  ElementA const* a;
  int64_t lda, batch_stride_a;
  ElementB const* b;
  int64_t ldb, batch_stride_b;
  ElementD const* c;
  int64_t ldc, batch_stride_c;
  ElementD* d;
  int64_t ldd, batch_stride_d;
  EpilogueArguments epilogue;

  bool empty() const { return shape().empty(); }
  GemmShape shape() const { return {m, n, k, batch}; }
};

/// One type for all Configs with the same elements and the same functor arguments.
template <class Config>
using GemmArguments = GemmArgumentsOf<typename Config::A::Element, typename Config::B::Element, typename Config::ElementD,
                                      typename Config::Epilogue::Functor::Arguments>;

namespace detail {

inline int64_t ceil_div(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

/// Do all rows of all matrices of a batch begin at 16-byte boundaries? Strides in bytes; that of the batch counts if there
/// is more than one matrix.
inline bool rows_are_aligned(void const* pointer, int64_t row_stride, int64_t batch_stride, int64_t batch) {
  uintptr_t const steps = uintptr_t(row_stride) | (batch > 1 ? uintptr_t(batch_stride) : 0);
  return (reinterpret_cast<uintptr_t>(pointer) | steps) % 16 == 0;
}

}  // namespace detail

/// Fills `shape` from the project's public argument struct. Returns kSuccess, or what is wrong with the extents. Where the
/// shape is empty, the other extents may be anything but negative.
template <class Config, class Args>
Status check_extents(Args const& from, GemmShape& shape) {
  constexpr int64_t kLargest = 0x7fffffff - 16384;  // the end of the last tile must fit an int
  if (from.m < 0 || from.n < 0 || from.k < 0 || from.batch < 0) { return Status::kInvalidArgument; }
  shape = {from.m, from.n, from.k, from.batch};
  if (shape.empty()) { return Status::kSuccess; }
  if (from.m > kLargest || from.n > kLargest || from.k > kLargest) { return Status::kTooLarge; }
  int64_t const tiles_m = detail::ceil_div(from.m, Config::kTileM);
  int64_t const tiles_n = detail::ceil_div(from.n, Config::kTileN);
  bool const countable = tiles_m <= kLargest / tiles_n && tiles_m * tiles_n <= kLargest / from.batch;
  return countable ? Status::kSuccess : Status::kTooLarge;
}

/// Fills `args` from the project's public argument struct. Returns kSuccess, or what is wrong with it.
template <class Config, class Args>
Status check_arguments(Args const& from, GemmArguments<Config>& args) {
  using A = typename Config::A;
  using B = typename Config::B;
  using ElementD = typename Config::ElementD;
  using Functor = typename Config::Epilogue::Functor;
  GemmShape shape{};
  Status const extents = check_extents<Config>(from, shape);
  args.m = shape.m;
  args.n = shape.n;
  args.k = shape.k;
  args.batch = shape.batch;
  if (extents != Status::kSuccess || args.empty()) { return extents; }
  if (from.d == nullptr || (from.k > 0 && (from.a == nullptr || from.b == nullptr))) { return Status::kInvalidArgument; }
  args.epilogue = Functor::arguments(from);
  bool const reads_c = Functor::reads_source(args.epilogue);
  if (reads_c && from.c == nullptr) { return Status::kInvalidArgument; }
  if (!is_aligned_to<typename A::Element>(from.a) || !is_aligned_to<typename B::Element>(from.b) ||
      !is_aligned_to<ElementD>(from.d) || (reads_c && !is_aligned_to<ElementD>(from.c))) {
    return Status::kInvalidArgument;
  }
  int64_t const row_d = Config::kDRowMajor ? from.n : from.m;
  if (from.lda < (A::kContiguousK ? from.k : from.m) || from.ldb < (B::kContiguousK ? from.k : from.n) || from.ldd < row_d ||
      (reads_c && from.ldc < row_d)) {
    return Status::kInvalidArgument;
  }
  if (from.batch > 1 && from.batch_stride_d == 0) { return Status::kInvalidArgument; }  // all batches would write the same D

  args.a = static_cast<typename A::Element const*>(from.a);
  args.lda = from.lda;
  args.batch_stride_a = from.batch_stride_a;
  args.b = static_cast<typename B::Element const*>(from.b);
  args.ldb = from.ldb;
  args.batch_stride_b = from.batch_stride_b;
  args.c = static_cast<ElementD const*>(reads_c ? from.c : from.d);
  args.ldc = reads_c ? from.ldc : from.ldd;
  args.batch_stride_c = reads_c ? from.batch_stride_c : from.batch_stride_d;
  args.d = static_cast<ElementD*>(from.d);
  args.ldd = from.ldd;
  args.batch_stride_d = from.batch_stride_d;
  return Status::kSuccess;
}

}  // namespace v0_1
}  // namespace mmagen
