// SPDX-License-Identifier: MIT-0
// The epilogue functor of this kernel: D = alpha * accumulator + beta * C.
//
// A functor has Arguments (what it takes from the public arguments), Params (what the kernel gets) and two call operators, with
// and without an element of C. Any class with these members can take its place in Config::Epilogue.
#pragma once

#include <cstdint>
#include <type_traits>

#include "convert.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

/// alpha and beta, and their addresses in device memory if the kernel is to read them there.
template <class Scalar>
struct LinearCombinationArguments {
  Scalar alpha, beta;
  Scalar const* alpha_device;
  Scalar const* beta_device;
};

namespace detail {

/// One scalar of the public arguments: a double, or a pointer to a Scalar in device memory.
template <class Scalar>
Status read_scalar(double value, void const* device, Status misaligned, Status not_integer, Scalar& scalar,
                   Scalar const*& pointer) {
  if (!is_aligned_to<Scalar>(device)) { return misaligned; }
  pointer = static_cast<Scalar const*>(device);
  if (device != nullptr) { return Status::kSuccess; }
  if constexpr (std::is_integral_v<Scalar>) {  // a conversion from outside of its range is undefined
    if (!(value >= -2147483648.0 && value <= 2147483647.0) || double(int64_t(value)) != value) { return not_integer; }
  }
  scalar = Scalar(value);
  return Status::kSuccess;
}

}  // namespace detail

/// Computed in Scalar and rounded once to ElementD. With beta == 0, C is not read; it may contain anything, even NaN.
template <class ElementD, class Accumulator, class Scalar>
struct LinearCombination {
  using Arguments = LinearCombinationArguments<Scalar>;
  using Params = Arguments;

  /// From the project's public argument struct.
  template <class Args>
  static Status read_arguments(Args const& from, Arguments& arguments) {
    Status const status = detail::read_scalar(from.alpha, from.alpha_device, Status::kMisalignedAlpha, Status::kAlphaNotInteger,
                                              arguments.alpha, arguments.alpha_device);
    return status != Status::kSuccess ? status
                                      : detail::read_scalar(from.beta, from.beta_device, Status::kMisalignedBeta,
                                                            Status::kBetaNotInteger, arguments.beta, arguments.beta_device);
  }
  /// Does the kernel read C? A beta in device memory may be anything.
  static bool reads_source(Arguments const& arguments) {
    return arguments.beta_device != nullptr || arguments.beta != Scalar(0);
  }
  static Params make_params(Arguments const& arguments) { return arguments; }

  Scalar alpha, beta;

  /// Call only after the preceding kernels have ended: they may write alpha and beta.
  CUTE_DEVICE explicit LinearCombination(Params const& params)
      : alpha(params.alpha_device != nullptr ? *params.alpha_device : params.alpha),
        beta(params.beta_device != nullptr ? *params.beta_device : params.beta) {}

  CUTE_DEVICE bool reads_source() const { return beta != Scalar(0); }

  /// Are elements of D integers of 8 bits, and sums integers?
  static constexpr bool kMayKeepIntegers =
      std::is_same_v<Accumulator, int32_t> && (std::is_same_v<ElementD, int8_t> || std::is_same_v<ElementD, uint8_t>);
  /// Does an accumulator only have to be saturated? That is faster than to convert it to f32 and back.
  CUTE_DEVICE bool keeps_integers() const { return alpha == Scalar(1); }

  CUTE_DEVICE ElementD operator()(Accumulator accumulator) const {
    return convert<ElementD>(alpha * static_cast<Scalar>(accumulator));
  }

  CUTE_DEVICE ElementD operator()(Accumulator accumulator, ElementD source) const {
    Scalar const product = alpha * static_cast<Scalar>(accumulator);
    return convert<ElementD>(product + beta * static_cast<Scalar>(source));
  }
};

}  // namespace v0_1
}  // namespace mmagen
