// SPDX-License-Identifier: MIT-0
// Arguments beyond A, B, C, D, alpha and beta: checks those of a call, and converts them for the kernel. A project that has any
// describes them in its further.cuh. Host only, except FurtherTensor and FurtherPointers.
#pragma once

#include <cstdint>

#include "address_range.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

inline int64_t ceil_div(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

}  // namespace detail

/// A tensor as a kernel gets it; strides in elements. ld: of its lines, 0 where it has no such argument.
struct FurtherTensor {
  void* data;
  int64_t ld, batch_stride;
};

/// A tensor of each group, where groups have matrices of their own: arrays in device memory. lds: null if all have `ld`.
struct FurtherPointers {
  void* const* data;
  int32_t const* lds;
  int64_t ld;
};

/// The same for the check of each group. bytes: that its pointers are aligned to. A line has ceil(extent / step) elements, of
/// the call's extent m, n or k, or one element. with_k: it is read only where there is a K.
struct TensorOfGroups {
  FurtherPointers tensor;
  int bytes;
  char extent;  // 'm', 'n', 'k', or '1' for none
  int step;
  bool pitched, with_k;
};

/// A tensor as the caller describes it. aligned_to: bytes; element_bytes: size of an element of the tensor, also where
/// `pointer` is an array of pointers to one tensor for each group. line: elements of a line along its contiguous mode. pitched,
/// batched: do ld and batch_stride count? Lines that are not pitched follow each other without a gap. A tensor that is not
/// required may be NULL.
struct TensorArgument {
  char const* name;
  void const* pointer;
  int aligned_to, element_bytes;
  int64_t line, lines, ld, batch_stride;
  bool pitched, batched, written, required;

  MemorySpan span(int64_t batch) const {
    return {lines, pitched ? ld : line, batched ? batch : 1, batch_stride, element_bytes};
  }
};

inline Status check_tensor(TensorArgument const& one, int64_t batch) {
  if (one.pointer == nullptr) { return one.required ? Status::kNullTensor : Status::kSuccess; }
  if (!is_aligned(one.pointer, one.aligned_to)) { return Status::kMisalignedTensor; }
  if (one.pitched && one.ld < one.line) { return Status::kShortTensor; }
  if (one.batched && batch > 1 && one.batch_stride < 0) { return Status::kNegativeTensor; }
  if (!fits_64_bits(one.span(batch))) { return Status::kTooLargeTensor; }
  // All matrices of the batch would write the same one; one that is updated by all of them is meant so.
  if (one.written && one.batched && batch > 1 && one.batch_stride == 0) { return Status::kSharedTensor; }
  return Status::kSuccess;
}

/// Of a kernel without such arguments; of others a struct NAME::Further with the same members.
struct NoFurther {
  static constexpr int kTensors = 0;
  static constexpr int kOfGroups = 0;

  template <class Args>
  static NoFurther read(Args const&) {
    return {};
  }
  template <class Args>
  static TensorArgument tensor(Args const&, int) {
    return {};
  }
  TensorOfGroups of_groups(int) const { return {}; }
};

namespace detail {

template <class Config, class = void>
struct FurtherTypeOf {
  using Type = NoFurther;
};
template <class Config>
struct FurtherTypeOf<Config, decltype(void(typename Config::Further{}))> {
  using Type = typename Config::Further;
};

}  // namespace detail

/// The further arguments of a Config's kernel.
template <class Config>
using FurtherOf = typename detail::FurtherTypeOf<Config>::Type;

template <class Further, class Args>
Status check_further(Args const& args) {
  for (int i = 0; i < Further::kTensors; ++i) {
    Status const status = check_tensor(Further::tensor(args, i), args.batch);
    if (status != Status::kSuccess) { return status; }
  }
  return Status::kSuccess;
}

}  // namespace v0_1
}  // namespace mmagen
