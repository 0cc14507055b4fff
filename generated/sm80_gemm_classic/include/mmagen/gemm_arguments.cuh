// SPDX-License-Identifier: MIT-0
// The arguments of a GEMM from the C interface, and checks of their sizes, strides and pointers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "address_range.cuh"
#include "epilogue_functor.cuh"
#include "further_tensors.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

struct GemmShape {
  int64_t m, n, k, batch;

  bool empty() const { return m == 0 || n == 0 || batch == 0; }
};

/// One GEMM for each matrix of a batch; extents and strides in elements. c is never null: d where C is not read.
/// `epilogue`: the Arguments of the epilogue's functor, e.g. alpha and beta. Further: what else a call has, as it names it.
template <class ElementA, class ElementB, class ElementD, class EpilogueArguments, class Further>
struct GemmArgumentsOf : Further {
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
  Further const& further() const { return *this; }
};

/// One type for all Configs with the same elements and the same functor arguments.
template <class Config>
using GemmArguments = GemmArgumentsOf<typename Config::A::Element, typename Config::B::Element, typename Config::ElementD,
                                      typename Config::Epilogue::Functor::Arguments, FurtherOf<Config>>;

namespace detail {

/// Elements of memory along K of an operand with k columns: k of them, or kKept for each kGroup if it is sparse or packed.
template <class Operand, class = void>
struct StoredK {
  CUTE_HOST_DEVICE static int64_t of(int64_t k) { return k; }
};
template <class Operand>
struct StoredK<Operand, std::void_t<decltype(Operand::kKept)>> {
  CUTE_HOST_DEVICE static int64_t of(int64_t k) { return (k + Operand::kGroup - 1) / Operand::kGroup * Operand::kKept; }
};
template <class Operand>
CUTE_HOST_DEVICE int64_t stored_k(int64_t k) {
  return StoredK<Operand>::of(k);
}

/// Do all rows of all matrices of a batch begin at 16-byte boundaries? Strides in elements of `bytes` bytes; that of the batch
/// counts if there is more than one matrix. Products may wrap modulo 2^64, which does not change their remainder by 16.
inline bool rows_are_aligned(void const* pointer, int64_t ld, int64_t batch_stride, int64_t batch, int bytes) {
  uintptr_t const steps = uintptr_t(ld) | (batch > 1 ? uintptr_t(batch_stride) : 0);
  return (reinterpret_cast<uintptr_t>(pointer) | steps * uintptr_t(bytes)) % 16 == 0;
}

/// The shape of an operand in memory: `row` elements of a line along its contiguous mode, and the number of lines.
struct OperandLines {
  int64_t row, lines;
};

/// Those of A or B; mn: its other extent, M or N.
template <class Operand>
OperandLines lines_of(int64_t mn, int64_t k) {
  return Operand::kContiguousK ? OperandLines{stored_k<Operand>(k), mn} : OperandLines{mn, stored_k<Operand>(k)};
}

/// Those of C and D.
template <class Config>
OperandLines lines_of_d(int64_t m, int64_t n) {
  int64_t const columns = n / kSumsOfElement<typename Config::Epilogue::Functor>;
  return Config::kDRowMajor ? OperandLines{columns, m} : OperandLines{m, columns};
}

}  // namespace detail

/// Of M, N and K, and of the number of CTAs: the end of the last tile must fit an int.
inline constexpr int64_t kLargestExtent = 0x7fffffff - 16384;

/// kSuccess, or what is wrong with the extents of a call. If the shape is empty, the other extents need only be at least 0.
template <class Config>
Status check_extents(GemmShape const& shape) {
  if (shape.m < 0) { return Status::kNegativeM; }
  if (shape.n < 0) { return Status::kNegativeN; }
  if (shape.k < 0) { return Status::kNegativeK; }
  if (shape.batch < 0) { return Status::kNegativeBatch; }
  if (shape.empty()) { return Status::kSuccess; }
  if (shape.m > kLargestExtent) { return Status::kTooLargeM; }
  if (shape.n > kLargestExtent) { return Status::kTooLargeN; }
  if (shape.k > kLargestExtent) { return Status::kTooLargeK; }
  int64_t const tiles_m = detail::ceil_div(shape.m, Config::kTileM);
  int64_t const tiles_n = detail::ceil_div(shape.n, Config::kTileN);
  bool const countable = tiles_m <= kLargestExtent / tiles_n && tiles_m * tiles_n <= kLargestExtent / shape.batch;
  return countable ? Status::kSuccess : Status::kTooManyTiles;
}

/// A, B, C or D as the caller describes it. `used`: does the kernel access it? `bytes`: of an element. `stride`: between the
/// matrices of a batch, 0 of one matrix.
struct MatrixArgument {
  void const* pointer;
  int bytes;
  int64_t ld;
  detail::OperandLines of;
  bool used;
  int64_t matrices = 1, stride = 0;
};

inline Status check_matrices(MatrixArgument const (&matrices)[4]) {
  auto const about = [](Status first, int matrix) { return Status(int(first) + matrix); };
  for (int i = 0; i < 4; ++i) {
    MatrixArgument const& one = matrices[i];
    if (!one.used) { continue; }
    if (one.pointer == nullptr) { return about(Status::kNullA, i); }
    if (!is_aligned(one.pointer, one.bytes)) { return about(Status::kMisalignedA, i); }
    if (one.ld < one.of.row) { return about(Status::kShortLda, i); }
    if (one.stride < 0) { return about(Status::kNegativeStrideA, i); }
    if (!fits_64_bits({one.of.lines, one.ld, one.matrices, one.stride, one.bytes})) { return about(Status::kTooLargeA, i); }
  }
  return Status::kSuccess;
}

/// Fills `args` from the project's public argument struct. Returns kSuccess, or what is wrong with it.
template <class Config, class Args>
Status check_arguments(Args const& from, GemmArguments<Config>& args) {
  using A = typename Config::A;
  using B = typename Config::B;
  using ElementD = typename Config::ElementD;
  using Functor = typename Config::Epilogue::Functor;

  args.m = from.m;
  args.n = from.n;
  args.k = from.k;
  args.batch = from.batch;
  Status status = check_extents<Config>(args.shape());
  if (status != Status::kSuccess || args.empty()) { return status; }
  status = Functor::read_arguments(from, args.epilogue);
  if (status != Status::kSuccess) { return status; }
  bool const reads_ab = from.k > 0;
  bool const reads_c = Functor::reads_source(args.epilogue);
  if (from.n % kSumsOfElement<Functor> != 0) { return Status::kOddN; }
  detail::OperandLines const of_d = detail::lines_of_d<Config>(from.m, from.n);
  auto const stride = [&](int64_t between) { return from.batch > 1 ? between : 0; };
  MatrixArgument const matrices[] = {
      {from.a, int(sizeof(typename A::Element)), from.lda, detail::lines_of<A>(from.m, from.k), reads_ab, from.batch,
       stride(from.batch_stride_a)},
      {from.b, int(sizeof(typename B::Element)), from.ldb, detail::lines_of<B>(from.n, from.k), reads_ab, from.batch,
       stride(from.batch_stride_b)},
      {from.c, int(sizeof(ElementD)), from.ldc, of_d, reads_c, from.batch, stride(from.batch_stride_c)},
      {from.d, int(sizeof(ElementD)), from.ldd, of_d, true, from.batch, stride(from.batch_stride_d)},
  };
  status = check_matrices(matrices);
  if (status != Status::kSuccess) { return status; }
  if (from.batch > 1 && from.batch_stride_d == 0) { return Status::kSharedD; }  // all batches would write the same D
  status = check_further<FurtherOf<Config>>(from);
  if (status != Status::kSuccess) { return status; }
  static_cast<FurtherOf<Config>&>(args) = FurtherOf<Config>::read(from);

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
