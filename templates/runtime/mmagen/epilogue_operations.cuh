// The epilogue functor of kernels whose spec lists operations: applies them to each accumulator, in order.
//
// An operation is a class with
//   Row, Column, Element       what it reads for a row, a column and an element of D; loaded before the first use, so that
//                              the loads of many elements are in flight together
//   Params make_params(further)  of the host: the further arguments of a call that it reads
//   load_row, load_column, load_element   of the device
//   finish_rows, finish_columns, finish   of what gathers: epilogue_functor.cuh
//   operator()(x, beside, scalars)        x is of type Scalar
// Rows and columns are those of the kernel's D, which is the transpose of the call's D if operands are swapped.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cute/config.hpp>

#include "convert.cuh"
#include "epilogue_functor.cuh"
#include "epilogue_gathering.cuh"
#include "epilogue_plain_operations.cuh"
#include "epilogue_tensor_operations.cuh"
#include "further_tensors.cuh"
#include "linear_combination.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// Does an operation read a second matrix with elements of this type?
template <class Operation, class Element, class = void>
struct ReadsMatrixOf : std::false_type {};
template <class Operation, class Element>
struct ReadsMatrixOf<Operation, Element, std::void_t<typename Operation::OfMatrixOf>>
    : std::is_same<typename Operation::OfMatrixOf, Element> {};

/// A sequence of operations, and the values that they load.
template <class... Operations>
struct Chain;

template <>
struct Chain<> {
  struct Params {};
  struct Row {};
  struct Column {};
  struct Element {};
  static constexpr bool kObserves = false;

  template <class Further>
  static Params make_params(Further const&) {
    return {};
  }
  CUTE_DEVICE explicit Chain(Params const&) {}
  CUTE_DEVICE void finish() const {}
  template <unsigned kSharing, int kCount, class RowOf, class IndexOf>
  CUTE_DEVICE void finish_rows(RowOf const&, IndexOf const&, int, int) const {}
  template <unsigned kSharing, int kCount, class ColumnOf, class IndexOf>
  CUTE_DEVICE void finish_columns(ColumnOf const&, IndexOf const&, int, int) const {}
  CUTE_DEVICE Row load_row(int, int) const { return {}; }
  CUTE_DEVICE Column load_column(int, int) const { return {}; }
  CUTE_DEVICE Element load_element(int, int, int) const { return {}; }
  CUTE_DEVICE static void take_columns(Column&, Column&, int) {}

  template <class Scalar>
  CUTE_DEVICE Scalar apply(Scalar x, Row const&, Column const&, Element const&, bool, EpilogueScalars<Scalar> const&) const {
    return x;
  }
};

template <class First, class... Rest>
struct Chain<First, Rest...> {
  using Behind = Chain<Rest...>;
  struct Params {
    typename First::Params first;
    typename Behind::Params rest;
  };
  struct Row {
    typename First::Row first;
    typename Behind::Row rest;
  };
  struct Column {
    typename First::Column first;
    typename Behind::Column rest;
  };
  struct Element {
    typename First::Element first;
    typename Behind::Element rest;
  };

  static constexpr bool kObserves = First::kObserves || Behind::kObserves;
  template <class Matrix>
  static constexpr bool kReadsFirst = ReadsMatrixOf<First, Matrix>::value;

  First first;
  Behind rest;

  template <class Further>
  static Params make_params(Further const& further) {
    return {First::make_params(further), Behind::make_params(further)};
  }
  CUTE_DEVICE explicit Chain(Params const& params) : first(params.first), rest(params.rest) {}
  CUTE_DEVICE void finish() const {
    first.finish();
    rest.finish();
  }
  template <unsigned kSharing, int kCount, class RowOf, class IndexOf>
  CUTE_DEVICE void finish_rows(RowOf const& row, IndexOf const& index_of, int end, int batch) const {
    auto const of_first = [&](int i) -> typename First::Row const& { return row(i).first; };
    auto const of_rest = [&](int i) -> typename Behind::Row const& { return row(i).rest; };
    first.template finish_rows<kSharing, kCount>(of_first, index_of, end, batch);
    rest.template finish_rows<kSharing, kCount>(of_rest, index_of, end, batch);
  }
  template <unsigned kSharing, int kCount, class ColumnOf, class IndexOf>
  CUTE_DEVICE void finish_columns(ColumnOf const& column, IndexOf const& index_of, int end, int batch) const {
    auto const of_first = [&](int i) -> typename First::Column const& { return column(i).first; };
    auto const of_rest = [&](int i) -> typename Behind::Column const& { return column(i).rest; };
    first.template finish_columns<kSharing, kCount>(of_first, index_of, end, batch);
    rest.template finish_columns<kSharing, kCount>(of_rest, index_of, end, batch);
  }

  CUTE_DEVICE Row load_row(int m, int batch) const { return {first.load_row(m, batch), rest.load_row(m, batch)}; }
  CUTE_DEVICE Column load_column(int n, int batch) const { return {first.load_column(n, batch), rest.load_column(n, batch)}; }
  CUTE_DEVICE Element load_element(int m, int n, int batch) const {
    return {first.load_element(m, n, batch), rest.load_element(m, n, batch)};
  }

  CUTE_DEVICE static void take_columns(Column& even, Column& odd, int lane) {
    First::take_columns(even.first, odd.first, lane);
    Behind::take_columns(even.rest, odd.rest, lane);
  }

  /// The first second matrix with elements of type Matrix; an element of it, and all other elements.
  template <class Matrix>
  static auto const& matrix(Params const& params) {
    if constexpr (kReadsFirst<Matrix>) {
      return params.first;
    } else {
      return Behind::template matrix<Matrix>(params.rest);
    }
  }
  template <class Matrix>
  CUTE_DEVICE static void put(Element& element, Matrix const& value) {
    if constexpr (kReadsFirst<Matrix>) {
      element.first = value;
    } else {
      Behind::put(element.rest, value);
    }
  }
  template <class Matrix>
  CUTE_DEVICE Element load_others(int m, int n, int batch) const {
    if constexpr (kReadsFirst<Matrix>) {
      return {{}, rest.load_element(m, n, batch)};
    } else {
      return {first.load_element(m, n, batch), rest.template load_others<Matrix>(m, n, batch)};
    }
  }

  template <class Scalar>
  CUTE_DEVICE Scalar apply(Scalar x, Row const& row, Column const& column, Element const& element, bool inside,
                           EpilogueScalars<Scalar> const& scalars) const {
    Scalar const changed = first(x, BesideOf<First>{row.first, column.first, element.first, inside}, scalars);
    return rest.apply(changed, row.rest, column.rest, element.rest, inside, scalars);
  }
};

}  // namespace detail

/// Computed in Scalar and rounded once to ElementD. kAlpha, kBeta: are alpha and beta * C among the operations? A call to a
/// kernel without them must pass 1 and 0.
template <class ElementD, class Accumulator, class Scalar, class... Operations>
struct EpilogueOperations {
  using Linear = LinearCombination<ElementD, Accumulator, Scalar>;
  using Arguments = typename Linear::Arguments;
  using Chain = detail::Chain<Operations...>;
  using Row = typename Chain::Row;
  using Column = typename Chain::Column;
  using Element = typename Chain::Element;
  using Loaded = BesideOf<Chain>;

  static constexpr bool kObserves = Chain::kObserves;
  static constexpr bool kAlpha = (std::is_same_v<Operations, TimesAlpha> || ...);
  static constexpr bool kBeta = (std::is_same_v<Operations, PlusBetaC> || ...);

  /// Without C a second matrix of D's type may be loaded in its place: staged_matrix() says which one, load_others() loads the
  /// others, put() takes an element of it.
  static constexpr bool kStagesMatrix = !kBeta && (detail::ReadsMatrixOf<Operations, ElementD>::value || ...);

  struct Params {
    Arguments scalars;
    typename Chain::Params operations;
  };

  template <class Args>
  static Status read_arguments(Args const& from, Arguments& arguments) {
    if (!kAlpha && (from.alpha != 1.0 || from.alpha_device != nullptr)) { return Status::kUnusedAlpha; }
    if (!kBeta && (from.beta != 0.0 || from.beta_device != nullptr)) { return Status::kUnusedBeta; }
    return Linear::read_arguments(from, arguments);
  }
  static bool reads_source(Arguments const& arguments) { return Linear::reads_source(arguments); }
  template <class Further>
  static Params make_params(Arguments const& arguments, Further const& further) {
    return {arguments, Chain::make_params(further)};
  }

  /// Call only after the preceding kernels have ended: they may write alpha and beta.
  CUTE_DEVICE explicit EpilogueOperations(Params const& params) : chain(params.operations) {
    Linear const scalars(params.scalars);
    if constexpr (kAlpha) { alpha = scalars.alpha; }
    if constexpr (kBeta) { beta = scalars.beta; }
  }

  CUTE_DEVICE void finish() const { chain.finish(); }
  template <unsigned kSharing, int kCount, class RowOf, class IndexOf>
  CUTE_DEVICE void finish_rows(RowOf const& row, IndexOf const& index_of, int end, int batch) const {
    chain.template finish_rows<kSharing, kCount>(row, index_of, end, batch);
  }
  template <unsigned kSharing, int kCount, class ColumnOf, class IndexOf>
  CUTE_DEVICE void finish_columns(ColumnOf const& column, IndexOf const& index_of, int end, int batch) const {
    chain.template finish_columns<kSharing, kCount>(column, index_of, end, batch);
  }
  CUTE_DEVICE bool reads_source() const { return kBeta && beta != Scalar(0); }
  CUTE_DEVICE Row load_row(int m, int batch) const { return chain.load_row(m, batch); }
  CUTE_DEVICE Column load_column(int n, int batch) const { return chain.load_column(n, batch); }
  CUTE_DEVICE Element load_element(int m, int n, int batch) const { return chain.load_element(m, n, batch); }

  CUTE_DEVICE static void take_columns(Column& even, Column& odd, int lane) { Chain::take_columns(even, odd, lane); }

  static auto const& staged_matrix(Params const& params) { return Chain::template matrix<ElementD>(params.operations); }
  CUTE_DEVICE Element load_others(int m, int n, int batch) const { return chain.template load_others<ElementD>(m, n, batch); }
  CUTE_DEVICE static void put(Element& element, ElementD const& value) { Chain::put(element, value); }

  CUTE_DEVICE ElementD operator()(Accumulator accumulator, Loaded const& beside) const {
    return computed(accumulator, beside, {alpha, beta, Scalar(0), false});
  }
  CUTE_DEVICE ElementD operator()(Accumulator accumulator, ElementD source, Loaded const& beside) const {
    return computed(accumulator, beside, {alpha, beta, static_cast<Scalar>(source), true});
  }

  Chain chain;
  Scalar alpha = Scalar(1), beta = Scalar(0);

 protected:
  CUTE_DEVICE Scalar value(Accumulator accumulator, Loaded const& beside, EpilogueScalars<Scalar> const& scalars) const {
    return chain.apply(static_cast<Scalar>(accumulator), beside.row, beside.column, beside.element, beside.inside, scalars);
  }

 private:
  CUTE_DEVICE ElementD computed(Accumulator accumulator, Loaded const& beside, EpilogueScalars<Scalar> const& scalars) const {
    return convert<ElementD>(value(accumulator, beside, scalars));
  }
};

/// A sequence of operations that read nothing.
template <class... Operations>
struct PlainOperations {
  template <class Scalar>
  CUTE_DEVICE static Scalar apply(Scalar x, EpilogueScalars<Scalar> const& scalars) {
    ((x = Operations(typename Operations::Params{})(x, BesideNothing{{}, {}, {}, true}, scalars)), ...);
    return x;
  }
};

/// D = After(Gate(x) * y), with x from an even column and y from the next one, after the Operations.
template <class ElementD, class Accumulator, class Scalar, class Gate, class After, class... Operations>
struct GatedOperations : EpilogueOperations<ElementD, Accumulator, Scalar, Operations...> {
  using Base = EpilogueOperations<ElementD, Accumulator, Scalar, Operations...>;
  using Base::Base;
  using typename Base::Loaded;
  static_assert(!Base::kBeta, "C has the shape of D, and the operations that of the sums");

  static constexpr int kSumsOfElement = 2;
  static constexpr bool kStagesMatrix = false;

  CUTE_DEVICE ElementD operator()(Accumulator even, Accumulator odd, Loaded const& of_even, Loaded const& of_odd) const {
    EpilogueScalars<Scalar> const scalars = {Base::alpha, Base::beta, Scalar(0), false};
    Scalar const gate =
        Gate(typename Gate::Params{})(Base::value(even, of_even, scalars), BesideNothing{{}, {}, {}, true}, scalars);
    return convert<ElementD>(After::apply(gate * Base::value(odd, of_odd, scalars), scalars));
  }
};

}  // namespace v0_1
}  // namespace mmagen
