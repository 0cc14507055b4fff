// Operations of an epilogue on a value alone: scalars, limits and activations. epilogue_operations.cuh says what an operation
// is.
#pragma once

#include <type_traits>

#include <cute/numeric/numeric_types.hpp>

#include "activations.cuh"
#include "epilogue_functor.cuh"

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

/// Without a source x does not change: C may contain anything, even NaN.
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

/// x/2 (1 + erf(x / sqrt(2))). kDegree: of its polynomial, 4, 5 or 6, as precise as D needs it.
template <int kDegree>
struct GeluErf : PlainOperation {
  using PlainOperation::PlainOperation;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideNothing const&, EpilogueScalars<Scalar> const&) const {
    return detail::gelu_erf<kDegree>(x);
  }
};

/// x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3)
struct GeluTanh : PlainOperation {
  using PlainOperation::PlainOperation;
  template <class Scalar>
  CUTE_DEVICE Scalar operator()(Scalar x, BesideNothing const&, EpilogueScalars<Scalar> const&) const {
    return detail::gelu_tanh(x);
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

}  // namespace v0_1
}  // namespace mmagen
