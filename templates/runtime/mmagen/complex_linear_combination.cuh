// The epilogue functor of kernels of complex numbers: D = alpha * accumulator + beta * C, alpha and beta real.
#pragma once

#include "linear_combination.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Real and imaginary parts are computed in Scalar, which is the type of both. With beta == 0, C is not read: its memory may
/// have any contents, even NaN.
template <class ElementD, class Accumulator, class Scalar>
struct ComplexLinearCombination : LinearCombination<ElementD, Accumulator, Scalar> {
  using Base = LinearCombination<ElementD, Accumulator, Scalar>;
  using Base::Base;
  static_assert(sizeof(ElementD) == 2 * sizeof(Scalar), "both parts are of the scalars' type");

  CUTE_DEVICE ElementD operator()(Accumulator accumulator) const {
    return {this->alpha * accumulator.real(), this->alpha * accumulator.imag()};
  }

  CUTE_DEVICE ElementD operator()(Accumulator accumulator, ElementD source) const {
    return {this->alpha * accumulator.real() + this->beta * source.real(),
            this->alpha * accumulator.imag() + this->beta * source.imag()};
  }
};

}  // namespace v0_1
}  // namespace mmagen
