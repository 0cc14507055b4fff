// SPDX-License-Identifier: MIT-0
// What the epilogues require of a functor that reads more than an accumulator and C.
//
// A functor may read a value for each row, column and element of D. It then defines the types Row, Column and Element and
// functions that load them. These are called before the first use, so that the loads of many elements are in flight together;
// the functor's call operators take the loaded values. A functor without these types reads nothing.
//
// A functor may also reduce values to global memory: finish_rows() and finish_columns() are called with the lines of elements
// that are done, finish() by whole warps after all elements of a tile are done.
#pragma once

#include <type_traits>

#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {

struct Nothing {};

/// Base of functors and operations that read nothing, or not all of these.
struct NothingBeside {
  using Row = Nothing;
  using Column = Nothing;
  using Element = Nothing;
  static constexpr bool kObserves = false;      // does it gather anything?
  static constexpr bool kStagesMatrix = false;  // see EpilogueOperations

  CUTE_DEVICE void finish() const {}
  /// Writes what was reduced for kCount rows: row(i) as load_row() made it, index_of(i) its index; rows from `end` on do not
  /// exist. Lanes that differ only in the bits kSharing of their index have the same rows. Called by whole warps if kSharing is
  /// not 0.
  template <unsigned kSharing, int kCount, class RowOf, class IndexOf>
  CUTE_DEVICE void finish_rows(RowOf const&, IndexOf const&, int, int) const {}
  template <unsigned kSharing, int kCount, class ColumnOf, class IndexOf>
  CUTE_DEVICE void finish_columns(ColumnOf const&, IndexOf const&, int, int) const {}
  CUTE_DEVICE Nothing load_row(int, int) const { return {}; }
  CUTE_DEVICE Nothing load_column(int, int) const { return {}; }
  CUTE_DEVICE Nothing load_element(int, int, int) const { return {}; }
  /// Replaces two columns with those of another lane of the warp; called by whole warps.
  CUTE_DEVICE static void take_columns(Nothing&, Nothing&, int) {}
};

/// The values loaded for one element of D, and whether the element exists.
template <class Row, class Column, class Element>
struct Beside {
  Row const& row;
  Column const& column;
  Element const& element;
  bool inside;
};
template <class Reader>
using BesideOf = Beside<typename Reader::Row, typename Reader::Column, typename Reader::Element>;
using BesideNothing = BesideOf<NothingBeside>;

namespace detail {

template <class Functor, class = void>
struct ReadsBeside : std::false_type {};
template <class Functor>
struct ReadsBeside<Functor, std::void_t<typename Functor::Row>> : std::true_type {};

}  // namespace detail

namespace detail {

template <class Functor, class = void>
struct SumsOfElement : std::integral_constant<int, 1> {};
template <class Functor>
struct SumsOfElement<Functor, std::void_t<decltype(Functor::kSumsOfElement)>>
    : std::integral_constant<int, Functor::kSumsOfElement> {};

}  // namespace detail

/// Sums that make one element of D: 1, or 2 neighbours of a row, so that D has half as many columns.
template <class Functor>
inline constexpr int kSumsOfElement = detail::SumsOfElement<Functor>::value;

namespace detail {

template <class Functor, class = void>
struct MayKeepIntegers : std::false_type {};
template <class Functor>
struct MayKeepIntegers<Functor, std::void_t<decltype(Functor::kMayKeepIntegers)>>
    : std::bool_constant<Functor::kMayKeepIntegers> {};

}  // namespace detail

/// Can an element of D be its sum, only saturated? Then the functor says for each call whether it is: keeps_integers().
template <class Functor>
inline constexpr bool kMayKeepIntegers = detail::MayKeepIntegers<Functor>::value;

/// Adapts a functor to the calls that the epilogues make.
template <class Functor, bool = detail::ReadsBeside<Functor>::value>
struct EpilogueFunctor : Functor {
  using Functor::Functor;
};
template <class Functor>
struct EpilogueFunctor<Functor, false> : Functor, NothingBeside {
  using Functor::Functor;

  template <class Accumulator>
  CUTE_DEVICE auto operator()(Accumulator accumulator, BesideNothing const&) const {
    return Functor::operator()(accumulator);
  }
  template <class Accumulator, class Source>
  CUTE_DEVICE auto operator()(Accumulator accumulator, Source source, BesideNothing const&) const {
    return Functor::operator()(accumulator, source);
  }
};

/// The Params of a functor for a call.
template <class Functor, class Arguments>
typename Functor::Params functor_params(Arguments const& args) {
  if constexpr (detail::ReadsBeside<Functor>::value) {
    return Functor::make_params(args.epilogue, args.further());
  } else {
    return Functor::make_params(args.epilogue);
  }
}

}  // namespace v0_1
}  // namespace mmagen
