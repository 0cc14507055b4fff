// The epilogue functor of kernels whose spec lists operations: applies them to each accumulator, in order.
//
// An operation is a class with
//   Row, Column, Element       what it reads for a row, a column and an element of D; loaded before the first use, so that
//                              the loads of many elements are in flight together
//   Params make_params(further)  of the host: the further arguments of a call that it reads
//   load_row, load_column, load_element   of the device
//   operator()(x, beside, scalars)        x is of type Scalar
// Rows and columns are those of the kernel's D: with swapped operands, of the transpose of a call's.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cute/numeric/numeric_types.hpp>

#include "convert.cuh"
#include "epilogue_functor.cuh"
#include "further_tensors.cuh"
#include "linear_combination.cuh"

namespace mmagen {
inline namespace v0_1 {

/// What operations share: alpha, beta, and the element of C where it is read.
template <class Scalar>
struct EpilogueScalars {
  Scalar alpha, beta, source;
  bool reads_source;
};

/// An operation that reads nothing.
struct PlainOperation : NothingBeside {
  struct Params {};

  template <class Further>
  static Params make_params(Further const&) {
    return {};
  }
  CUTE_DEVICE explicit PlainOperation(Params const&) {}
};

struct TimesAlpha : PlainOperation {
  using PlainOperation::PlainOperation;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideNothing const&, EpilogueScalars<Scalar> const& scalars) const {
    return scalars.alpha * x;
  }
};

/// Without a source x stays as it is: C may hold anything, also NaN.
struct PlusBetaC : PlainOperation {
  using PlainOperation::PlainOperation;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideNothing const&, EpilogueScalars<Scalar> const& scalars) const {
    return scalars.reads_source ? x + scalars.beta * scalars.source : x;
  }
};

/// NaN stays NaN, here and in Clamp.
struct Relu : PlainOperation {
  using PlainOperation::PlainOperation;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideNothing const&, EpilogueScalars<Scalar> const&) const {
    return x < Scalar(0) ? Scalar(0) : x;
  }
};

/// Of a clamp without a bound.
inline constexpr double kUnbounded = __builtin_huge_val();

/// Limits: a struct with the constants kLeast and kMost.
template <class Limits>
struct Clamp : PlainOperation {
  using PlainOperation::PlainOperation;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideNothing const&, EpilogueScalars<Scalar> const&) const {
    if constexpr (Limits::kLeast > -kUnbounded) { x = x < Scalar(Limits::kLeast) ? Scalar(Limits::kLeast) : x; }
    if constexpr (Limits::kMost < kUnbounded) { x = x > Scalar(Limits::kMost) ? Scalar(Limits::kMost) : x; }
    return x;
  }
};

namespace detail {

/// 1 / (1 + exp(-x)). In float by ex2.approx and rcp.approx: their relative errors stay small for every x, and where exp(-x) is
/// infinite the quotient is 0.
CUTE_DEVICE float sigmoid(float x) {
  float power, quotient;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.4426950408889634f * x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(1.0f + power));
  return quotient;
}
CUTE_DEVICE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

}  // namespace detail

struct Sigmoid : PlainOperation {
  using PlainOperation::PlainOperation;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideNothing const&, EpilogueScalars<Scalar> const&) const {
    return detail::sigmoid(x);
  }
};

struct Silu : PlainOperation {
  using PlainOperation::PlainOperation;
  /// -inf gives NaN.
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideNothing const&, EpilogueScalars<Scalar> const&) const {
    return x * detail::sigmoid(x);
  }
};

/// x/2 (1 + erf(x / sqrt(2)))
struct GeluErf : PlainOperation {
  using PlainOperation::PlainOperation;
  CUTE_DEVICE float operator()(float x, BesideNothing const&, EpilogueScalars<float> const&) const {
    float const half = 0.5f * x;
    return half + half * erff(x * 0.70710678118654752f);
  }
  CUTE_DEVICE double operator()(double x, BesideNothing const&, EpilogueScalars<double> const&) const {
    double const half = 0.5 * x;
    return half + half * erf(x * 0.70710678118654752);
  }
};

/// x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3)
struct GeluTanh : PlainOperation {
  using PlainOperation::PlainOperation;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideNothing const&, EpilogueScalars<Scalar> const&) const {
    Scalar const twice_u = x * (Scalar(1.5957691216057308) + Scalar(0.07135481627159943) * x * x);
    return x * detail::sigmoid(twice_u);
  }
};

/// The largest finite value of ElementD where x is larger, and the smallest.
template <class ElementD>
struct Saturate : PlainOperation {
  using PlainOperation::PlainOperation;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideNothing const&, EpilogueScalars<Scalar> const&) const {
    Scalar const most = Scalar(largest());
    return x > most ? most : x < -most ? -most : x;
  }

 private:
  CUTE_DEVICE static constexpr float largest() {
    return std::is_same_v<ElementD, cute::half_t>       ? 65504.0f
           : std::is_same_v<ElementD, cute::bfloat16_t> ? 3.38953139e38f
                                                        : 3.40282347e38f;
  }
};

/// Adds a vector with a value for each row (column) of D. kMember: of Further, e.g. &project::Further::bias.
template <class Element_, auto kMember>
struct PlusOfRow : NothingBeside {
  using Row = Element_;
  using Params = FurtherTensor;

  template <class Further>
  static Params make_params(Further const& further) {
    return further.*kMember;
  }
  CUTE_DEVICE explicit PlusOfRow(Params const& params) : tensor_(params) {}

  CUTE_DEVICE Row load_row(int m, int batch) const {
    return static_cast<Element_ const*>(tensor_.data)[batch * tensor_.batch_stride + m];
  }
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideOf<PlusOfRow> const& beside, EpilogueScalars<Scalar> const&) const {
    return x + static_cast<Scalar>(beside.row);
  }

 private:
  FurtherTensor const& tensor_;
};

template <class Element_, auto kMember>
struct PlusOfColumn : NothingBeside {
  using Column = Element_;
  using Params = FurtherTensor;

  template <class Further>
  static Params make_params(Further const& further) {
    return further.*kMember;
  }
  CUTE_DEVICE explicit PlusOfColumn(Params const& params) : tensor_(params) {}

  CUTE_DEVICE Column load_column(int n, int batch) const {
    return static_cast<Element_ const*>(tensor_.data)[batch * tensor_.batch_stride + n];
  }
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideOf<PlusOfColumn> const& beside, EpilogueScalars<Scalar> const&) const {
    return x + static_cast<Scalar>(beside.column);
  }

 private:
  FurtherTensor const& tensor_;
};

/// Adds (multiplies by) an element of a second matrix (M,N), contiguous as D.
template <class Element_, auto kMember, bool kRowMajor>
struct OfMatrix : NothingBeside {
  using Element = Element_;
  using Params = FurtherTensor;

  template <class Further>
  static Params make_params(Further const& further) {
    return further.*kMember;
  }
  CUTE_DEVICE explicit OfMatrix(Params const& params) : tensor_(params) {}

  CUTE_DEVICE Element load_element(int m, int n, int batch) const {
    int64_t const at = kRowMajor ? m * tensor_.ld + n : m + n * tensor_.ld;
    return static_cast<Element_ const*>(tensor_.data)[batch * tensor_.batch_stride + at];
  }

 private:
  FurtherTensor const& tensor_;
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

namespace detail {

/// Operations one behind the other, and what they load.
template <class... Operations>
struct Chain;

template <>
struct Chain<> {
  struct Params {};
  struct Row {};
  struct Column {};
  struct Element {};

  template <class Further>
  static Params make_params(Further const&) {
    return {};
  }
  CUTE_DEVICE explicit Chain(Params const&) {}
  CUTE_DEVICE Row load_row(int, int) const { return {}; }
  CUTE_DEVICE Column load_column(int, int) const { return {}; }
  CUTE_DEVICE Element load_element(int, int, int) const { return {}; }

  template <class Scalar>
  CUTE_DEVICE Scalar apply(Scalar x, Row const&, Column const&, Element const&, EpilogueScalars<Scalar> const&) const {
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

  First first;
  Behind rest;

  template <class Further>
  static Params make_params(Further const& further) {
    return {First::make_params(further), Behind::make_params(further)};
  }
  CUTE_DEVICE explicit Chain(Params const& params) : first(params.first), rest(params.rest) {}

  CUTE_DEVICE Row load_row(int m, int batch) const { return {first.load_row(m, batch), rest.load_row(m, batch)}; }
  CUTE_DEVICE Column load_column(int n, int batch) const { return {first.load_column(n, batch), rest.load_column(n, batch)}; }
  CUTE_DEVICE Element load_element(int m, int n, int batch) const {
    return {first.load_element(m, n, batch), rest.load_element(m, n, batch)};
  }

  template <class Scalar>
  CUTE_DEVICE Scalar apply(Scalar x, Row const& row, Column const& column, Element const& element,
                           EpilogueScalars<Scalar> const& scalars) const {
    Scalar const changed = first(x, BesideOf<First>{row.first, column.first, element.first}, scalars);
    return rest.apply(changed, row.rest, column.rest, element.rest, scalars);
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

  static constexpr bool kAlpha = (std::is_same_v<Operations, TimesAlpha> || ...);
  static constexpr bool kBeta = (std::is_same_v<Operations, PlusBetaC> || ...);

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

  /// Call once the kernels before this one have ended: alpha and beta may be what they have written.
  CUTE_DEVICE explicit EpilogueOperations(Params const& params) : chain(params.operations) {
    Linear const scalars(params.scalars);
    if constexpr (kAlpha) { alpha = scalars.alpha; }
    if constexpr (kBeta) { beta = scalars.beta; }
  }

  CUTE_DEVICE bool reads_source() const { return kBeta && beta != Scalar(0); }
  CUTE_DEVICE Row load_row(int m, int batch) const { return chain.load_row(m, batch); }
  CUTE_DEVICE Column load_column(int n, int batch) const { return chain.load_column(n, batch); }
  CUTE_DEVICE Element load_element(int m, int n, int batch) const { return chain.load_element(m, n, batch); }

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
    return chain.apply(static_cast<Scalar>(accumulator), beside.row, beside.column, beside.element, scalars);
  }

 private:
  CUTE_DEVICE ElementD computed(Accumulator accumulator, Loaded const& beside, EpilogueScalars<Scalar> const& scalars) const {
    return convert<ElementD>(value(accumulator, beside, scalars));
  }
};

/// Operations that read nothing, one behind the other.
template <class... Operations>
struct PlainOperations {
  template <class Scalar>
  CUTE_DEVICE static Scalar apply(Scalar x, EpilogueScalars<Scalar> const& scalars) {
    ((x = Operations(typename Operations::Params{})(x, BesideNothing{{}, {}, {}}, scalars)), ...);
    return x;
  }
};

/// D = After(Gate(x) * y) of x in an even column and y in the next one, each behind the Operations.
template <class ElementD, class Accumulator, class Scalar, class Gate, class After, class... Operations>
struct GatedOperations : EpilogueOperations<ElementD, Accumulator, Scalar, Operations...> {
  using Base = EpilogueOperations<ElementD, Accumulator, Scalar, Operations...>;
  using Base::Base;
  using typename Base::Loaded;
  static_assert(!Base::kBeta, "C has the shape of D, and the operations that of the sums");

  static constexpr int kSumsOfElement = 2;

  CUTE_DEVICE ElementD operator()(Accumulator even, Accumulator odd, Loaded const& of_even, Loaded const& of_odd) const {
    EpilogueScalars<Scalar> const scalars = {Base::alpha, Base::beta, Scalar(0), false};
    Scalar const gate = Gate(typename Gate::Params{})(Base::value(even, of_even, scalars), BesideNothing{{}, {}, {}}, scalars);
    return convert<ElementD>(After::apply(gate * Base::value(odd, of_odd, scalars), scalars));
  }
};

}  // namespace v0_1
}  // namespace mmagen
