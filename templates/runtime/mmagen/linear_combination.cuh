// The epilogue functor of this kernel: D = alpha * accumulator + beta * C.
//
// A functor has Arguments (what it takes from the public arguments), Params (what the kernel gets) and two calls, with and
// without an element of C. Any class with these members can take its place in Config::Epilogue.
#pragma once

#include "convert.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Scalar>
struct LinearCombinationArguments {
  Scalar alpha, beta;
};

/// Computed in Scalar and rounded once to ElementD. With beta == 0, C is not read: its memory may hold anything, also NaN.
template <class ElementD, class Accumulator, class Scalar>
struct LinearCombination {
  using Arguments = LinearCombinationArguments<Scalar>;
  using Params = Arguments;

  /// From the project's public argument struct.
  template <class Args>
  static Arguments arguments(Args const& args) {
    return {args.alpha, args.beta};
  }
  static bool reads_source(Arguments const& arguments) { return arguments.beta != Scalar(0); }
  static Params make_params(Arguments const& arguments) { return arguments; }

  Params params;

  CUTE_DEVICE explicit LinearCombination(Params const& params) : params(params) {}

  CUTE_DEVICE bool reads_source() const { return params.beta != Scalar(0); }

  CUTE_DEVICE ElementD operator()(Accumulator accumulator) const {
    return convert<ElementD>(params.alpha * static_cast<Scalar>(accumulator));
  }

  CUTE_DEVICE ElementD operator()(Accumulator accumulator, ElementD source) const {
    Scalar const product = params.alpha * static_cast<Scalar>(accumulator);
    return convert<ElementD>(product + params.beta * static_cast<Scalar>(source));
  }
};

}  // namespace v0_1
}  // namespace mmagen
