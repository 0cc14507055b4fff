// Operations of an epilogue that read a further argument: vectors for rows and columns of D, and second matrices.
// kMember names the argument: a member of the project's Further, e.g. &project::Further::bias.
#pragma once

#include <cstdint>

#include "epilogue_plain_operations.cuh"
#include "further_access.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// Replaces two values with those of another lane, with the fewest 32-bit shuffles.
template <class Element>
CUTE_DEVICE void take_pair(Element& first, Element& second, int lane) {
  struct alignas(2 * sizeof(Element) < 4 ? 4 : 2 * sizeof(Element)) Pair {
    Element first, second;
  };
  union Words {
    Pair pair;
    uint32_t word[sizeof(Pair) / 4];
    CUTE_DEVICE Words() {}
  };
  Words words;
  words.pair.first = first;
  words.pair.second = second;
  CUTE_UNROLL
  for (int i = 0; i < int(sizeof(Pair)) / 4; ++i) { words.word[i] = __shfl_sync(0xffffffff, words.word[i], lane); }
  first = words.pair.first;
  second = words.pair.second;
}

}  // namespace detail

/// Adds a vector with a value for each row (column) of D.
template <class Element_, auto kMember>
struct PlusOfRow : NothingBeside {
  using Row = Element_;
  using Params = FurtherMember<kMember>;

  template <class Further>
  static Params make_params(Further const& further) {
    return further.*kMember;
  }
  CUTE_DEVICE explicit PlusOfRow(Params const& params) : tensor_(params) {}

  CUTE_DEVICE Row load_row(int m, int batch) const { return matrix_of<Element_ const>(tensor_, batch)[m]; }
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideOf<PlusOfRow> const& beside, EpilogueScalars<Scalar> const&) const {
    return x + static_cast<Scalar>(beside.row);
  }

 private:
  Params const& tensor_;
};

template <class Element_, auto kMember>
struct PlusOfColumn : NothingBeside {
  using Column = Element_;
  using Params = FurtherMember<kMember>;

  template <class Further>
  static Params make_params(Further const& further) {
    return further.*kMember;
  }
  CUTE_DEVICE explicit PlusOfColumn(Params const& params) : tensor_(params) {}

  CUTE_DEVICE Column load_column(int n, int batch) const { return matrix_of<Element_ const>(tensor_, batch)[n]; }
  CUTE_DEVICE static void take_columns(Column& even, Column& odd, int lane) { detail::take_pair(even, odd, lane); }
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideOf<PlusOfColumn> const& beside, EpilogueScalars<Scalar> const&) const {
    return x + static_cast<Scalar>(beside.column);
  }

 private:
  Params const& tensor_;
};

/// Adds (multiplies by) an element of a second matrix (M,N), contiguous as D.
template <class Element_, auto kMember, bool kRowMajor>
struct OfMatrix : NothingBeside {
  using Element = Element_;
  using OfMatrixOf = Element_;
  using Params = FurtherMember<kMember>;

  template <class Further>
  static Params make_params(Further const& further) {
    return further.*kMember;
  }
  CUTE_DEVICE explicit OfMatrix(Params const& params) : tensor_(params) {}

  CUTE_DEVICE Element load_element(int m, int n, int batch) const {
    int64_t const ld = pitch_of(tensor_, batch);
    return matrix_of<Element_ const>(tensor_, batch)[kRowMajor ? m * ld + n : m + n * ld];
  }

 private:
  Params const& tensor_;
};

template <class Element_, auto kMember, bool kRowMajor>
struct PlusMatrix : OfMatrix<Element_, kMember, kRowMajor> {
  using OfMatrix<Element_, kMember, kRowMajor>::OfMatrix;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideOf<PlusMatrix> const& beside, EpilogueScalars<Scalar> const&) const {
    return x + static_cast<Scalar>(beside.element);
  }
};

template <class Element_, auto kMember, bool kRowMajor>
struct TimesMatrix : OfMatrix<Element_, kMember, kRowMajor> {
  using OfMatrix<Element_, kMember, kRowMajor>::OfMatrix;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideOf<TimesMatrix> const& beside, EpilogueScalars<Scalar> const&) const {
    return x * static_cast<Scalar>(beside.element);
  }
};

}  // namespace v0_1
}  // namespace mmagen
