// Operations of an epilogue that pass a value on and also reduce it: the largest magnitude, sums of rows and of columns.
// kMember names the argument: a member of the project's Further.
#pragma once

#include "epilogue_plain_operations.cuh"
#include "further_access.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// Without their sign, the bits of numbers are in the order of the numbers, and NaN comes last.
CUTE_DEVICE unsigned bits_of_size(float x) { return __float_as_uint(x) & 0x7fffffff; }
CUTE_DEVICE unsigned long long bits_of_size(double x) {
  return static_cast<unsigned long long>(__double_as_longlong(x)) & 0x7fffffffffffffff;
}

}  // namespace detail

/// Raises a number in global memory to the largest magnitude of x, all matrices of a batch together; NaN counts as the largest.
/// Scalar_: float or double.
template <class Scalar_, auto kMember>
struct Amax : NothingBeside {
  using Params = FurtherTensor;
  static constexpr bool kObserves = true;

  template <class Further>
  static Params make_params(Further const& further) {
    return further.*kMember;
  }
  CUTE_DEVICE explicit Amax(Params const& params) : tensor_(params) {}

  CUTE_DEVICE Scalar_ operator()(Scalar_ x, BesideNothing const& beside, EpilogueScalars<Scalar_> const&) const {
    Bits const size = detail::bits_of_size(x);
    if (beside.inside && size > most_) { most_ = size; }
    return x;
  }
  CUTE_DEVICE void finish() const {
    CUTE_UNROLL
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      Bits const other = __shfl_xor_sync(0xffffffff, most_, lanes);
      most_ = other > most_ ? other : most_;
    }
    if (threadIdx.x % 32 == 0) { atomicMax(static_cast<Bits*>(tensor_.data), most_); }
    most_ = 0;
  }

 private:
  using Bits = decltype(detail::bits_of_size(Scalar_()));

  FurtherTensor const& tensor_;
  mutable Bits most_ = 0;
};

namespace detail {

/// Adds up the values of lanes that have the same `count` lines of a matrix, and adds the sums to memory. Lanes that differ
/// only in the bits kSharing of their index share lines. Each of these bits halves the number of lines that a lane continues
/// with, or, if one line is left, the number of lanes. kSharing 0: no lane shares its lines, and lanes may call alone.
/// line_of(i): the index of line i; lines from `end` on do not exist.
template <unsigned kSharing, class Scalar, int kCount, class LineOf>
CUTE_DEVICE void add_lines(Scalar const (&values)[kCount], LineOf const& line_of, int end, Scalar* to, int first = 0,
                           bool mine = true) {
  if constexpr (kSharing == 0) {
    CUTE_UNROLL
    for (int i = 0; i < kCount; ++i) {
      int const line = line_of(first + i);
      if (mine && line < end) { atomicAdd(to + line, values[i]); }
    }
  } else {
    constexpr unsigned kBit = kSharing & -kSharing;
    bool const upper = threadIdx.x % 32 & kBit;
    constexpr int kLeft = kCount % 2 == 0 ? kCount / 2 : kCount;
    Scalar left[kLeft];
    CUTE_UNROLL
    for (int i = 0; i < kLeft; ++i) {
      if constexpr (kLeft < kCount) {
        Scalar const other = __shfl_xor_sync(0xffffffff, upper ? values[i] : values[kLeft + i], kBit);
        left[i] = (upper ? values[kLeft + i] : values[i]) + other;
      } else {
        left[i] = values[i] + __shfl_xor_sync(0xffffffff, values[i], kBit);
      }
    }
    add_lines<kSharing - kBit>(left, line_of, end, to, kLeft < kCount && upper ? first + kLeft : first,
                               mine && (kLeft < kCount || !upper));
  }
}

}  // namespace detail

/// Base of SumsOfRows and SumsOfColumns: x is added to a number in global memory of its row (column), in any order.
template <class Scalar_, auto kMember>
struct SumsOfLines : NothingBeside {
  using Params = FurtherMember<kMember>;
  static constexpr bool kObserves = true;

  /// What a thread has added up for a line.
  struct Line {
    mutable Scalar_ sum = Scalar_(0);
  };

  template <class Further>
  static Params make_params(Further const& further) {
    return further.*kMember;
  }
  CUTE_DEVICE explicit SumsOfLines(Params const& params) : tensor_(params) {}

 protected:
  CUTE_DEVICE static void add(Line const& line, Scalar_ x, bool inside) {
    if (inside) { line.sum += x; }
  }
  template <unsigned kSharing, int kCount, class SumOf, class LineOf>
  CUTE_DEVICE void add_to_memory(SumOf const& sum_of, LineOf const& line_of, int end, int batch) const {
    Scalar_ sums[kCount];
    CUTE_UNROLL
    for (int i = 0; i < kCount; ++i) { sums[i] = sum_of(i).sum; }
    detail::add_lines<kSharing>(sums, line_of, end, matrix_of<Scalar_>(tensor_, batch));
  }

 private:
  Params const& tensor_;
};

template <class Scalar_, auto kMember>
struct SumsOfRows : SumsOfLines<Scalar_, kMember> {
  using Base = SumsOfLines<Scalar_, kMember>;
  using Row = typename Base::Line;
  using Base::Base;

  CUTE_DEVICE Row load_row(int, int) const { return {}; }
  CUTE_DEVICE Scalar_ operator()(Scalar_ x, BesideOf<SumsOfRows> const& beside, EpilogueScalars<Scalar_> const&) const {
    Base::add(beside.row, x, beside.inside);
    return x;
  }
  template <unsigned kSharing, int kCount, class RowOf, class IndexOf>
  CUTE_DEVICE void finish_rows(RowOf const& row, IndexOf const& index_of, int end, int batch) const {
    Base::template add_to_memory<kSharing, kCount>(row, index_of, end, batch);
  }
};

template <class Scalar_, auto kMember>
struct SumsOfColumns : SumsOfLines<Scalar_, kMember> {
  using Base = SumsOfLines<Scalar_, kMember>;
  using Column = typename Base::Line;
  using Base::Base;

  CUTE_DEVICE Column load_column(int, int) const { return {}; }
  CUTE_DEVICE static void take_columns(Column&, Column&, int) {}
  CUTE_DEVICE Scalar_ operator()(Scalar_ x, BesideOf<SumsOfColumns> const& beside, EpilogueScalars<Scalar_> const&) const {
    Base::add(beside.column, x, beside.inside);
    return x;
  }
  template <unsigned kSharing, int kCount, class ColumnOf, class IndexOf>
  CUTE_DEVICE void finish_columns(ColumnOf const& column, IndexOf const& index_of, int end, int batch) const {
    Base::template add_to_memory<kSharing, kCount>(column, index_of, end, batch);
  }
};

}  // namespace v0_1
}  // namespace mmagen
