// Copies operands that do not meet TMA's alignment requirements to aligned rows in a workspace. A product reads each element of
// an operand many times, so for large products a copy costs less than the kernel without TMA.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "gemm_arguments.cuh"
#include "sm90_barrier.cuh"
#include "status.cuh"
#include "tile_raster.cuh"
#include "vector_pair.cuh"

namespace mmagen {
inline namespace v0_1 {

/// The copy of one operand; extents and strides in elements. Its lines begin at multiples of kPitchBytes.
template <class Element>
struct OperandCopy {
  static constexpr int64_t kPitchBytes = 128;
  static constexpr int kPiece = 128 * 16 / int(sizeof(Element));  // elements that a warp copies: 4 vectors for each thread
  static constexpr int64_t kMostPieces = 0x7fffffff / 32;

  Element const* from = nullptr;
  int64_t ld = 0, batch_stride = 0;
  Element* to = nullptr;
  int64_t along = 0, across = 0, matrices = 0;
  int64_t pitch = 0;
  FastDivmod pieces_of_line, lines_of_matrix;

  OperandCopy() = default;

  /// `batch`: matrices, which may all be the same one; 0 if TMA can address the operand.
  OperandCopy(void const* matrix, int64_t ld, int64_t batch_stride, int64_t along, int64_t across, int64_t batch)
      : from(static_cast<Element const*>(matrix)), ld(ld), batch_stride(batch_stride), along(along), across(across) {
    constexpr int kBytes = sizeof(Element);
    int64_t const several = batch_stride == 0 ? 1 : batch;
    bool const aligned = detail::rows_are_aligned(matrix, ld, batch_stride, several, kBytes);
    if (aligned && tma_takes_strides({across, ld, several, batch_stride, kBytes})) { return; }
    pitch = detail::ceil_div(along * kBytes, kPitchBytes) * kPitchBytes / kBytes;
    matrices = several;
    pieces_of_line = FastDivmod(unsigned(detail::ceil_div(along, kPiece)));
    lines_of_matrix = FastDivmod(unsigned(across));
  }

  /// Can a kernel count the pieces? Call before the functions below, whose products may otherwise wrap around.
  bool is_countable() const { return matrices == 0 || matrices * across <= kMostPieces / detail::ceil_div(along, kPiece); }
  int64_t matrix_stride() const { return pitch * across; }
  int64_t bytes() const { return matrices * matrix_stride() * int64_t(sizeof(Element)); }
  int64_t pieces() const { return matrices * across * detail::ceil_div(along, kPiece); }
};

template <class Element>
struct OperandCopies {
  OperandCopy<Element> a, b;

  /// Bytes of workspace, whose first byte may be at any multiple of 16.
  int64_t bytes() const {
    int64_t const each = a.bytes() + b.bytes();
    return each == 0 ? 0 : each + OperandCopy<Element>::kPitchBytes;
  }
};

inline constexpr int kCopyThreads = 256;

/// Grid: a warp for each piece of a line of the operands, those of A first.
template <class Element>
__global__ void __launch_bounds__(kCopyThreads) copy_operands_kernel(__grid_constant__ OperandCopies<Element> const copies) {
  constexpr int kVector = 16 / int(sizeof(Element));
  constexpr int kEach = OperandCopy<Element>::kPiece / (32 * kVector);
  launch_dependent_grids();
  wait_on_dependent_grids();
  unsigned const warp = (blockIdx.x * kCopyThreads + threadIdx.x) / 32;
  unsigned const pieces_of_a = unsigned(copies.a.matrices * copies.a.across) * copies.a.pieces_of_line.divisor;
  OperandCopy<Element> const& copy = warp < pieces_of_a ? copies.a : copies.b;
  unsigned const piece = warp < pieces_of_a ? warp : warp - pieces_of_a;
  unsigned const line = copy.pieces_of_line.divide(piece);  // of all matrices
  if (line >= copy.matrices * copy.across) { return; }
  unsigned const matrix = copy.lines_of_matrix.divide(line);
  int const along = int(copy.along);
  int const first = int(piece - line * copy.pieces_of_line.divisor) * OperandCopy<Element>::kPiece + threadIdx.x % 32 * kVector;
  Element const* const from = copy.from + matrix * copy.batch_stride + (line - matrix * copy.lines_of_matrix.divisor) * copy.ld;
  Element* const to = copy.to + line * copy.pitch;

  detail::VectorPair pairs[kEach];  // where a vector consists of whole aligned ones; else its elements are loaded one by one
  auto const misaligned = [&](int at) { return detail::misalignment(from + at); };
  auto const is_whole = [&](int at) {
    int const before = misaligned(at);
    return at >= before && at - before + (before > 0 ? 2 : 1) * kVector <= along;
  };
  CUTE_UNROLL
  for (int i = 0; i < kEach; ++i) {
    int const at = first + i * 32 * kVector;
    auto const* const aligned = reinterpret_cast<uint4 const*>(from + at - misaligned(at));
    if (is_whole(at)) {
      pairs[i].low = __ldg(aligned);
      if (misaligned(at) > 0) { pairs[i].high = __ldg(aligned + 1); }
    }
  }
  CUTE_UNROLL
  for (int i = 0; i < kEach; ++i) {
    int const at = first + i * 32 * kVector;
    if (at >= along) { break; }
    uint4 vector = pairs[i].template shifted<int(sizeof(Element))>(unsigned(misaligned(at)) * unsigned(sizeof(Element)));
    if (!is_whole(at)) {
      alignas(16) Element elements[kVector];
      CUTE_UNROLL
      for (int j = 0; j < kVector; ++j) { elements[j] = at + j < along ? from[at + j] : Element(0); }
      vector = *reinterpret_cast<uint4 const*>(elements);
    }
    *reinterpret_cast<uint4*>(to + at) = vector;
  }
}

namespace detail {

/// Unsigned integers as large as an element: copies do not look at values.
template <class Element>
using Word = std::conditional_t<sizeof(Element) == 1, uint8_t, std::conditional_t<sizeof(Element) == 2, uint16_t, uint32_t>>;

/// Microseconds that a product takes in Config's kernel without TMA, and with copies; estimates from an H200.
template <class Config>
bool copies_pay(GemmShape const& shape, int64_t copied_bytes) {
  constexpr double kSms = 132, kElement = sizeof(typename Config::A::Element);
  constexpr double kTileRate = 1.4e4, kCopyRate = 1.5e6,
                   kMemoryRate = 3.5e6;          // bytes in a microsecond: of an SM, of the device
  constexpr double kMmaRate = 1.2e9 / kElement;  // operations in a microsecond
  constexpr int kTileK = Config::A::kTileK;
  constexpr double kLaunch = 3, kKTile = (Config::kTileM + Config::kTileN) * kTileK * kElement / kTileRate;
  double const m = double(shape.m), n = double(shape.n), k = double(shape.k), batch = double(shape.batch);
  double const tiles = double(ceil_div(shape.m, Config::kTileM)) * double(ceil_div(shape.n, Config::kTileN)) * batch;
  double const waves = std::max(1.0, tiles / kSms);
  double const direct = kLaunch + waves * double(ceil_div(shape.k, kTileK)) * kKTile;
  double const by_tma = std::max(2 * m * n * k * batch / kMmaRate, (m + n) * k * batch * kElement / kMemoryRate);
  return 2 * kLaunch + double(copied_bytes) / kCopyRate + by_tma < direct;
}

/// The copies of a call that save time. Config: of the kernel without TMA. Args: the project's public argument struct.
template <class Config, class Args>
OperandCopies<Word<typename Config::A::Element>> plan_copies(Args const& args) {
  using A = typename Config::A;
  using B = typename Config::B;
  using Copies = OperandCopies<Word<typename A::Element>>;
  static_assert(sizeof(typename A::Element) == sizeof(typename B::Element), "one kernel copies both");
  // Whether run() refuses the call is not known here.
  auto const is_extent = [](int64_t extent) { return extent > 0 && extent <= INT32_MAX; };
  if (!is_extent(args.m) || !is_extent(args.n) || !is_extent(args.k) || !is_extent(args.batch)) { return {}; }
  Copies copies;
  copies.a = {args.a,    args.lda, args.batch_stride_a, A::kContiguousK ? args.k : args.m, A::kContiguousK ? args.m : args.k,
              args.batch};
  copies.b = {args.b,    args.ldb, args.batch_stride_b, B::kContiguousK ? args.k : args.n, B::kContiguousK ? args.n : args.k,
              args.batch};
  if (!copies.a.is_countable() || !copies.b.is_countable()) { return {}; }
  if (copies.a.pieces() + copies.b.pieces() > decltype(copies.a)::kMostPieces) { return {}; }
  bool const pays = copies_pay<Config>({args.m, args.n, args.k, args.batch}, copies.bytes());
  return pays && copies.bytes() > 0 ? copies : Copies{};
}

}  // namespace detail

/// Bytes of workspace for the copies of a call, a multiple of 16; 0 if none are made.
template <class Config, class Args>
int64_t copied_bytes(Args const& args) {
  return detail::plan_copies<Config>(args).bytes();
}

/// Changes the leading dimensions of `args` to those of the copies that copy_operands() would make, by which a library chooses
/// its kernel. `with_workspace`: as if the call had the workspace that it asks for.
template <class Config, class Args>
void take_pitches_of_copies(Args& args, bool with_workspace) {
  auto const copies = detail::plan_copies<Config>(args);
  bool const given = args.workspace != nullptr && args.workspace_bytes >= copies.bytes();
  if (!given && !with_workspace) { return; }
  if (copies.a.matrices > 0) { args.lda = copies.a.pitch; }
  if (copies.b.matrices > 0) { args.ldb = copies.b.pitch; }
}

/// Enqueues the copies of a call that save time and fit the workspace, and changes `args` to the copied operands and to the
/// rest of the workspace. Arguments that run() refuses do not change.
template <class Config, class Args>
Status copy_operands(Args& args, cudaStream_t stream) {
  GemmArguments<Config> checked{};
  if (check_arguments<Config>(args, checked) != Status::kSuccess) { return Status::kSuccess; }
  auto copies = detail::plan_copies<Config>(args);
  using Copy = decltype(copies.a);
  int64_t const bytes = copies.bytes();
  if (bytes == 0 || args.workspace == nullptr || args.workspace_bytes < bytes) { return Status::kSuccess; }
  auto const begin = reinterpret_cast<uintptr_t>(args.workspace);
  auto to = (begin + Copy::kPitchBytes - 1) / Copy::kPitchBytes * Copy::kPitchBytes;
  auto const place = [&](Copy& copy, void const*& matrix, int64_t& ld, int64_t& batch_stride) {
    if (copy.matrices == 0) { return; }
    copy.to = reinterpret_cast<decltype(copy.to)>(to);
    matrix = copy.to;
    ld = copy.pitch;
    batch_stride = copy.batch_stride == 0 ? 0 : copy.matrix_stride();
    to += uintptr_t(copy.bytes());
  };
  place(copies.a, args.a, args.lda, args.batch_stride_a);
  place(copies.b, args.b, args.ldb, args.batch_stride_b);
  args.workspace = reinterpret_cast<void*>(to);
  args.workspace_bytes -= int64_t(to - begin);
  int64_t const threads = (copies.a.pieces() + copies.b.pieces()) * 32;
  unsigned const ctas = unsigned(detail::ceil_div(threads, kCopyThreads));
  return launch_dependent_kernel(&copy_operands_kernel<detail::Word<typename Config::A::Element>>, ctas, kCopyThreads, stream,
                                 copies);
}

}  // namespace v0_1
}  // namespace mmagen
