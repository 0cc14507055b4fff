// SPDX-License-Identifier: MIT-0
// Kernel for products with M or N of at most 16 whose operands do not meet TMA's alignment requirements. A is (M,K) and B is
// (N,K), so both have rows along K. The operand with few rows goes through shared memory. The other one is read once, from
// global memory directly to the registers that hold the fragments of mma.sync.
//
// Each of the four lanes that share a row of a fragment loads 16 consecutive bytes. This permutes K with respect to the layout
// of mma.sync. The sums do not change, because both operands are permuted in the same way. Rows whose indices differ by a
// multiple of kFewRowsVector have the same address modulo 16 bytes, whatever the leading dimension is. A CTA computes only rows
// of one such class: it loads aligned vectors, beginning `shift` elements before each row, and shifts the few rows by as many
// elements when it writes them to shared memory. Vectors that contain the beginning or the end of a row are assembled from
// single elements; nothing outside a row is read.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include <cute/arch/mma_sm80.hpp>
#include <cute/arch/mma_sm89.hpp>
#include <cute/numeric/numeric_types.hpp>

#include "gemm_arguments.cuh"
#include "operand_copies.cuh"
#include "sm90_barrier.cuh"
#include "status.cuh"
#include "tile_raster.cuh"
#include "vector_pair.cuh"

namespace mmagen {
inline namespace v0_1 {

inline constexpr int kFewRows = 16;  // M of mma.sync
inline constexpr int kFewRowsWarps = 8;
inline constexpr int kFewRowsThreads = 32 * kFewRowsWarps;

namespace detail {

inline constexpr int kBlockRows = 8;  // rows of a class that one mma.sync multiplies: its N
inline constexpr int kAhead = 8;      // chunks that a warp has in flight
inline constexpr int kPairs = 2;      // vectors of the few rows that a thread has in flight
inline constexpr int kFewBytes = 40960;

/// Elements of a vector of 16 bytes. Rows belong to one class if their distance is a multiple of it.
template <class Element>
inline constexpr int kFewRowsVector = 16 / int(sizeof(Element));

/// Elements of K that four lanes load.
template <class Element>
inline constexpr int kFewRowsChunk = 4 * kFewRowsVector<Element>;

/// The mma.sync of 16 rows, 8 columns and 32 bytes of K.
template <class Element>
struct FewRowsMma;
template <>
struct FewRowsMma<cute::half_t> : cute::SM80_16x8x16_F32F16F16F32_TN {};
template <>
struct FewRowsMma<cute::bfloat16_t> : cute::SM80_16x8x16_F32BF16BF16F32_TN {};
template <>
struct FewRowsMma<cute::tfloat32_t> : cute::SM80_16x8x8_F32TF32TF32F32_TN {};
template <>
struct FewRowsMma<int8_t> : cute::SM80_16x8x32_S32S8S8S32_TN {};
template <>
struct FewRowsMma<uint8_t> : cute::SM80_16x8x32_S32U8U8S32_TN {};
template <>
struct FewRowsMma<cute::float_e4m3_t> : cute::SM89_16x8x32_F32E4M3E4M3F32_TN {};
template <>
struct FewRowsMma<cute::float_e5m2_t> : cute::SM89_16x8x32_F32E5M2E5M2F32_TN {};

/// How the work of a call is distributed over CTAs. Each computes `blocks` blocks of one class, 1, 2 or 4; the K of a block is
/// divided among 8 / blocks warps.
struct FewRowsGrid {
  int classes, blocks = 1, log_k_warps = 3;
  int64_t items;  // CTAs for each class of one matrix

  /// Chooses the `blocks` for which an SM reads the fewest bytes. Counted are the rows of both operands and, for each CTA, what
  /// the SM could have read while the CTA starts and ends. element_bytes: of A and of B.
  FewRowsGrid(GemmShape const& shape, int element_bytes) {
    constexpr double kSms = 132, kAtOnce = 2;   // of an H200; CTAs of an SM
    constexpr double kMeanwhile = 24 * 1024.0;  // bytes
    int64_t const few = std::min(shape.m, shape.n), many = std::max(shape.m, shape.n);
    int64_t const row_classes = 16 / element_bytes, all = ceil_div(ceil_div(many, row_classes), kBlockRows);
    classes = int(std::min(many, row_classes));
    auto const rows_of_sm = [&](int taken) {
      double const ctas = double(classes) * double(ceil_div(all, taken)) * double(shape.batch);
      return std::max(std::ceil(ctas / kSms), kAtOnce) *
             (double(kBlockRows * taken + few) + kMeanwhile / (element_bytes * double(shape.k)));
    };
    for (int more = 2; more <= 4; more *= 2) {
      if (rows_of_sm(more) < rows_of_sm(blocks)) { blocks = more, log_k_warps = more == 2 ? 2 : 1; }
    }
    items = ceil_div(all, blocks);
  }
};

template <class Element, class Sum>
struct FewRowsStorage {
  alignas(16) Element few[kFewBytes / sizeof(Element)];       // rows of `pitch` elements
  alignas(16) Sum sums[kFewRowsWarps][kFewRows][kBlockRows];  // of a warp
};

/// A vector that may be partly outside its row. It is loaded whole or element by element, with all loads in flight at once;
/// vector() assembles it.
template <class Element>
class RaggedVector {
  static constexpr int kVector = kFewRowsVector<Element>;
  using Word = std::conditional_t<sizeof(Element) == 1, uint8_t, std::conditional_t<sizeof(Element) == 2, uint16_t, uint32_t>>;

 public:
  /// Loads the vector at element `at`, which is aligned to 16 bytes, of a row of `along` elements, with zeros in place of
  /// elements outside of the row. Loads nothing unless `used`.
  CUTE_DEVICE void load(Element const* row, int at, int along, bool used) {
    bool const inside = at >= 0 && at + kVector <= along;
    if (used && inside) { whole_ = __ldcs(reinterpret_cast<uint4 const*>(row + at)); }
    CUTE_UNROLL
    for (int j = 0; j < kVector; ++j) {
      if (used && !inside && at + j >= 0 && at + j < along) { words_[j] = __ldg(reinterpret_cast<Word const*>(row + at + j)); }
    }
  }
  CUTE_DEVICE uint4 vector() const {
    uint32_t words[4] = {whole_.x, whole_.y, whole_.z, whole_.w};
    constexpr int kSize = int(sizeof(Element));
    CUTE_UNROLL
    for (int j = 0; j < kVector; ++j) { words[j * kSize / 4] |= uint32_t(words_[j]) << j * kSize % 4 * 8; }
    return {words[0], words[1], words[2], words[3]};
  }

 private:
  uint4 whole_{};
  Word words_[kVector] = {};
};

}  // namespace detail

template <class Config>
struct FewRowsParams {
  using Element = typename Config::A::Element;
  using ElementD = typename Config::ElementD;

  Element const* few;
  Element const* many;
  int64_t ld_few, batch_stride_few, ld_many, batch_stride_many;
  int few_rows, many_rows, k;
  int log_k_warps;
  int slab, pitch;  // elements along K that shared memory holds at a time, and the distance of its rows
  bool few_of_m;    // are the few rows those of A? else of B
  FastDivmod classes, items, vectors_of_slab;
  ElementD const* c;
  int64_t ldc, batch_stride_c;
  ElementD* d;
  int64_t ldd, batch_stride_d;
  typename Config::Epilogue::Functor::Params functor;
};

namespace detail {

/// One lane's part of the sums of a block: of the few rows lane / 4 and lane / 4 + 8, and of the block's rows lane % 4 * 2 and
/// the next.
template <class Element, class Sum>
class FewRowsSums {
  using Mma = FewRowsMma<Element>;
  using Register = std::remove_extent_t<typename Mma::DRegisters>;

 public:
  /// Adds the products of a vector of the lane's row of the block, in memory order, and of the vectors of the few rows at the
  /// same place. `few`: where shared memory has that place in the first row.
  CUTE_DEVICE void add(uint4 const& b, Element const* few, int pitch, int few_rows) {
    int const row = int(threadIdx.x) % 32 / 4;
    uint4 low{}, high{};
    if (row < few_rows) { low = *reinterpret_cast<uint4 const*>(few + row * pitch); }
    if (row + 8 < few_rows) { high = *reinterpret_cast<uint4 const*>(few + (row + 8) * pitch); }
    Mma::fma(sum_[0], sum_[1], sum_[2], sum_[3], low.x, high.x, low.y, high.y, b.x, b.y, sum_[0], sum_[1], sum_[2], sum_[3]);
    Mma::fma(sum_[0], sum_[1], sum_[2], sum_[3], low.z, high.z, low.w, high.w, b.z, b.w, sum_[0], sum_[1], sum_[2], sum_[3]);
  }

  CUTE_DEVICE void store(Sum (&sums)[kFewRows][kBlockRows]) const {
    struct alignas(2 * sizeof(Sum)) Columns {
      Sum first, second;
    };
    int const row = int(threadIdx.x) % 32 / 4, column = int(threadIdx.x) % 4 * 2;
    *reinterpret_cast<Columns*>(&sums[row][column]) = {Sum(sum_[0]), Sum(sum_[1])};
    *reinterpret_cast<Columns*>(&sums[row + 8][column]) = {Sum(sum_[2]), Sum(sum_[3])};
  }

 private:
  Register sum_[4] = {};
};

/// Copies columns [begin, end) of the few rows to shared memory; column 0 is `shift` elements before the first element of a
/// row, and columns outside the rows become zero. All threads take part; none may still be reading what is overwritten.
template <class Config>
CUTE_DEVICE void copy_few_rows(FewRowsParams<Config> const& params, typename Config::A::Element const* few, int shift,
                               int begin, int end, typename Config::A::Element* to) {
  using Element = typename Config::A::Element;
  constexpr int kVector = kFewRowsVector<Element>;
  // The elements beside the aligned vectors of the rows, one by one.
  constexpr int kEnds = (kFewRows * 2 * kVector + kFewRowsThreads - 1) / kFewRowsThreads;
  Element ends[kEnds] = {};
  Element* places_of_ends[kEnds] = {};
  CUTE_UNROLL
  for (int i = 0; i < kEnds; ++i) {
    int const index = int(threadIdx.x) + i * kFewRowsThreads;
    int const row = index / (2 * kVector);
    bool const at_begin = index / kVector % 2 == 0;
    Element const* const line = few + row * params.ld_few;
    int const whole = cute::min((kVector - misalignment(line)) % kVector, params.k);
    int const behind = cute::max(whole, params.k - misalignment(line + params.k));
    int const at = (at_begin ? 0 : behind) + index % kVector;
    int const column = at + shift - begin;
    if (row < params.few_rows && at < (at_begin ? whole : params.k) && column >= 0 && column < end - begin) {
      ends[i] = line[at];
      places_of_ends[i] = to + row * params.pitch + column;
    }
  }

  unsigned const vectors = unsigned(params.few_rows) * params.vectors_of_slab.divisor;
  CUTE_NO_UNROLL
  for (unsigned first = threadIdx.x; first < vectors; first += kPairs * kFewRowsThreads) {
    VectorPair pairs[kPairs];
    unsigned shifts[kPairs];
    Element* places[kPairs];
    CUTE_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      unsigned const index = first + i * kFewRowsThreads;
      unsigned const row = params.vectors_of_slab.divide(index);
      int const column = int(index - row * params.vectors_of_slab.divisor) * kVector;
      Element const* const from = few + row * params.ld_few;
      int const at = begin + column - shift;
      int const before = misalignment(from + at), low = at - before, high = low + kVector;
      bool const is_there = index < vectors && column < end - begin;
      if (is_there && low >= 0 && high <= params.k) { pairs[i].low = __ldg(reinterpret_cast<uint4 const*>(from + low)); }
      if (is_there && before > 0 && high >= 0 && high + kVector <= params.k) {
        pairs[i].high = __ldg(reinterpret_cast<uint4 const*>(from + high));
      }
      shifts[i] = unsigned(before) * unsigned(sizeof(Element));
      places[i] = is_there ? to + row * params.pitch + column : nullptr;
    }
    CUTE_UNROLL
    for (int i = 0; i < kPairs; ++i) {
      if (places[i] != nullptr) {
        *reinterpret_cast<uint4*>(places[i]) = pairs[i].template shifted<int(sizeof(Element))>(shifts[i]);
      }
    }
  }
  __syncthreads();
  CUTE_UNROLL
  for (int i = 0; i < kEnds; ++i) {
    if (places_of_ends[i] != nullptr) { *places_of_ends[i] = ends[i]; }
  }
}

}  // namespace detail

/// Grid: FewRowsGrid::items CTAs for each class of each matrix.
template <class Config>
__global__ void __launch_bounds__(kFewRowsThreads, 2)
    sm90_few_rows_kernel(__grid_constant__ FewRowsParams<Config> const params) {
  using namespace detail;
  using Element = typename Config::A::Element;
  using ElementD = typename Config::ElementD;
  using Sum = typename Config::ElementAccumulator;
  constexpr int kVector = kFewRowsVector<Element>, kChunk = kFewRowsChunk<Element>;
  __shared__ FewRowsStorage<Element, Sum> storage;
  launch_dependent_grids();
  wait_on_dependent_grids();

  unsigned const above = params.classes.divide(blockIdx.x);
  unsigned const batch = params.items.divide(above);
  int const in_class = int(blockIdx.x - above * params.classes.divisor);
  int const warp = int(threadIdx.x) / 32, quad_lane = int(threadIdx.x) % 4;
  int const k_warps = 1 << params.log_k_warps, blocks = kFewRowsWarps >> params.log_k_warps;
  int const part = warp % k_warps;  // of K
  int const first_block = int(above - batch * params.items.divisor) * blocks;
  auto const row_of = [&](int block, int row) { return in_class + kVector * ((first_block + block) * kBlockRows + row); };

  Element const* const few = params.few + batch * params.batch_stride_few;
  int row = row_of(warp / k_warps, int(threadIdx.x) % 32 / 4);
  if (row >= params.many_rows) { row = in_class; }  // the sums of this lane's row are not stored
  Element const* const line = params.many + batch * params.batch_stride_many + row * params.ld_many;
  int const shift = misalignment(line);

  // From `shift` elements before the beginning of the rows on.
  int const columns = params.k + shift;
  int const chunks = (columns + kChunk - 1) / kChunk;
  int const first_whole = shift > 0 ? 1 : 0, end_whole = columns / kChunk;  // chunks that are inside of the rows
  // Of those that are not, the first warp of a block takes the first one, the second the last one.
  int const first_chunk = part == 0 && first_whole > 0 ? 0 : -1;
  int const ragged_chunk = part == 1 && end_whole < chunks && chunks > first_whole ? chunks - 1 : first_chunk;

  using Functor = EpilogueFunctor<typename Config::Epilogue::Functor>;
  Functor const functor(params.functor);
  FewRowsSums<Element, Sum> sums;
  CUTE_NO_UNROLL
  for (int begin = 0; begin < columns; begin += params.slab) {
    int const end = cute::min(begin + params.slab, chunks * kChunk);
    int const first = begin / kChunk, last = end / kChunk - 1;
    auto const add = [&](uint4 const& vector, int chunk) {
      sums.add(vector, storage.few + (chunk * kChunk - begin + quad_lane * kVector), params.pitch, params.few_rows);
    };
    // The first loads of the many rows are in flight while the few ones are copied. The warps with ragged chunks come last.
    int const to = cute::min(last + 1, end_whole);
    int chunk = cute::max(first, first_whole) + (part + kFewRowsWarps - 2) % k_warps * kAhead;
    uint4 vectors[kAhead];
    auto const load = [&] {
      CUTE_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        if (chunk + i < to) {
          vectors[i] = __ldcs(reinterpret_cast<uint4 const*>(line + ((chunk + i) * kChunk + quad_lane * kVector - shift)));
        }
      }
    };
    load();
    RaggedVector<Element> ragged;
    bool const has_ragged = ragged_chunk >= first && ragged_chunk <= last;
    ragged.load(line, ragged_chunk * kChunk + quad_lane * kVector - shift, params.k, has_ragged);

    if (begin > 0) { __syncthreads(); }  // the columns before these have been read
    copy_few_rows(params, few, shift, begin, end, storage.few);
    __syncthreads();
    if (has_ragged) { add(ragged.vector(), ragged_chunk); }
    CUTE_NO_UNROLL
    while (chunk < to) {
      CUTE_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        if (chunk + i < to) { add(vectors[i], chunk + i); }
      }
      chunk += k_warps * kAhead;
      load();
    }
  }
  sums.store(storage.sums[warp]);
  __syncthreads();

  static_assert(!Functor::kObserves && kSumsOfElement<typename Config::Epilogue::Functor> == 1, "not planned for this functor");
  bool const reads_c = functor.reads_source();
  constexpr int kSums = kFewRows * kBlockRows;
  CUTE_NO_UNROLL
  for (int i = int(threadIdx.x); i < blocks * kSums; i += kFewRowsThreads) {
    int const block = i / kSums, of_few = i % kSums / kBlockRows, of_block = i % kBlockRows;
    int const of_many = row_of(block, of_block);
    if (of_few >= params.few_rows || of_many >= params.many_rows) { continue; }
    Sum sum = 0;
#pragma unroll 2
    for (int j = 0; j < k_warps; ++j) { sum += storage.sums[block * k_warps + j][of_few][of_block]; }
    int const m = params.few_of_m ? of_few : of_many, n = params.few_of_m ? of_many : of_few;
    auto const place = [&](int64_t ld) { return Config::kDRowMajor ? m * ld + n : n * ld + m; };
    auto const of_row = functor.load_row(m, int(batch));
    auto const of_column = functor.load_column(n, int(batch));
    auto const of_element = functor.load_element(m, n, int(batch));
    BesideOf<Functor> const beside{of_row, of_column, of_element, true};
    ElementD* const d = params.d + batch * params.batch_stride_d + place(params.ldd);
    *d = reads_c ? functor(sum, params.c[batch * params.batch_stride_c + place(params.ldc)], beside) : functor(sum, beside);
  }
}

/// Does the kernel compute products of this shape?
template <class Config>
bool takes_few_rows(GemmShape const& shape) {
  constexpr int64_t kMostK = 1 << 30;  // so that the end of a slab behind the last one is an int
  if (shape.k == 0 || shape.k > kMostK || shape.empty() || std::min(shape.m, shape.n) > kFewRows) { return false; }
  detail::FewRowsGrid const grid(shape, int(sizeof(typename Config::A::Element)));
  return grid.classes * grid.items <= 0x7fffffff / shape.batch;
}

/// Is the kernel for few rows predicted to take less time than copying the operands and multiplying the copies? Times are in
/// microseconds; the rates of this kernel were measured on an H200 (docs/performance.md), the others are those of copies_pay().
/// Config: with A and B as the caller names them; Args: the project's public argument struct. If the call has no operands to
/// copy, the answer does not matter.
template <class Config, class Args>
bool few_rows_pay(Args const& args) {
  auto const is_extent = [](int64_t extent) { return extent > 0 && extent <= kLargestExtent; };
  if (!is_extent(args.m) || !is_extent(args.n) || !is_extent(args.k) || !is_extent(args.batch)) { return false; }
  if (!takes_few_rows<Config>({args.m, args.n, args.k, args.batch})) { return false; }
  constexpr int kBytes = int(sizeof(typename Config::A::Element));
  constexpr double kLaunch = 2.5, kCopyingLaunches = 6;
  constexpr double kRate = 2.5e6, kMemoryRate = 3.5e6;                    // bytes in a microsecond
  constexpr double kRows = 32;                                            // many rows for which the few rows are read once
  constexpr double kCtaRate = kBytes == 1 ? 1.5e4 : 2.2e4, kCtaRows = 8;  // of the smallest CTAs
  // Bytes that are copied and then read by the product: the first of them stay in the L2 cache.
  constexpr double kCached = 8e6, kCachedRate = 3.3e6, kCopyRate = 1.33e6;
  double const few = double(std::min(args.m, args.n)), many = double(std::max(args.m, args.n));
  double const row = double(args.k) * kBytes, rows = row * double(args.batch);
  double const direct = kLaunch + std::max(many * rows * (1 + few / kRows) / kRate, (kCtaRows + few) * row / kCtaRate);
  double const copied = double(copied_bytes<Config>(args)), cached = std::min(copied, kCached);
  double const others = std::max(0.0, (few + many) * rows - copied);
  return direct <= kCopyingLaunches + cached / kCachedRate + (copied - cached) / kCopyRate + others / kMemoryRate;
}

template <class Config>
Status run_sm90_few_rows(GemmArguments<Config> const& args, cudaStream_t stream, Launch launch) {
  static_assert(Config::A::kContiguousK && Config::B::kContiguousK, "rows of both operands are loaded as vectors");
  using Element = typename Config::A::Element;
  static_assert(std::is_same_v<Element, typename Config::B::Element>, "either operand may have the few rows");
  constexpr int kVector = detail::kFewRowsVector<Element>;
  if (launch == Launch::kNo) { return Status::kSuccess; }
  bool const few_of_m = args.m <= args.n;
  FewRowsParams<Config> params{};
  params.few = few_of_m ? args.a : args.b;
  params.ld_few = few_of_m ? args.lda : args.ldb;
  params.batch_stride_few = few_of_m ? args.batch_stride_a : args.batch_stride_b;
  params.many = few_of_m ? args.b : args.a;
  params.ld_many = few_of_m ? args.ldb : args.lda;
  params.batch_stride_many = few_of_m ? args.batch_stride_b : args.batch_stride_a;
  params.few_rows = int(few_of_m ? args.m : args.n);
  params.many_rows = int(few_of_m ? args.n : args.m);
  params.k = int(args.k);
  params.few_of_m = few_of_m;

  detail::FewRowsGrid const grid(args.shape(), int(sizeof(Element)));
  params.log_k_warps = grid.log_k_warps;
  params.classes = FastDivmod(unsigned(grid.classes));
  params.items = FastDivmod(unsigned(grid.items));
  // Shared memory holds slabs of equal size. The distance of rows is 64 bytes more than a multiple of 128, so that the loads of
  // eight lanes reach all banks.
  constexpr int64_t kMultiple = 8 * kVector, kBeside = 4 * kVector;
  int64_t const most = (detail::kFewBytes / int64_t(sizeof(Element)) / params.few_rows - kBeside) / kMultiple * kMultiple;
  int64_t const columns = args.k + kVector;
  params.slab = int(detail::ceil_div(detail::ceil_div(columns, detail::ceil_div(columns, most)), kMultiple) * kMultiple);
  params.pitch = params.slab + int(kBeside);
  params.vectors_of_slab = FastDivmod(unsigned(params.slab / kVector));

  params.c = args.c;
  params.ldc = args.ldc;
  params.batch_stride_c = args.batch_stride_c;
  params.d = args.d;
  params.ldd = args.ldd;
  params.batch_stride_d = args.batch_stride_d;
  params.functor = functor_params<typename Config::Epilogue::Functor>(args);
  unsigned const ctas = unsigned(grid.classes * grid.items * args.batch);
  return launch_dependent_kernel(&sm90_few_rows_kernel<Config>, ctas, kFewRowsThreads, stream, params);
}

}  // namespace v0_1
}  // namespace mmagen
