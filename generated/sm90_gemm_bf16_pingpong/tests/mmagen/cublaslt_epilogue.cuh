// SPDX-License-Identifier: MIT-0
// The epilogues that cuBLASLt has, and what a right result of theirs is. Included only with MMAGEN_WITH_CUBLASLT.
#pragma once

#include <cublasLt.h>

#include "compare.cuh"
#include "epilogue_model.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// act(alpha * x + beta * C + bias). bias: of a call's further tensors, -1 for none.
struct LtEpilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  int bias = -1;
  char const* bias_word = "";
  bool bias_of_rows = false;
};

namespace detail {

/// cuBLASLt's gelu is the form with tanh. How exactly it computes tanh is not documented: tanh.approx.f32 has a relative error
/// of 2^-11 (PTX ISA).
struct LtGeluFunction : model::GeluTanhFunction {
  __host__ __device__ static double own(double x, double, double) { return x / 1024; }
};

enum class LtActivation { kNone, kRelu, kGelu };

/// The place of an operation in cuBLASLt's fixed order, -1 for one that it does not have; Model: the same by cuBLASLt.
template <class Operation>
struct LtStep {
  using Model = Operation;
  static constexpr int kOrder = -1;
  static constexpr LtActivation kActivation = LtActivation::kNone;
  static constexpr int kBias = -1;
  static constexpr char const* kWord = "";
  static constexpr bool kOfRows = false;
};
template <>
struct LtStep<model::Alpha> : LtStep<void> {
  using Model = model::Alpha;
  static constexpr int kOrder = 0;
};
template <>
struct LtStep<model::BetaC> : LtStep<void> {
  using Model = model::BetaC;
  static constexpr int kOrder = 1;
};
template <class T, int kWhich, bool kRow>
struct LtStep<model::Bias<T, kWhich, kRow>> : LtStep<void> {
  using Model = model::Bias<T, kWhich, kRow>;
  static constexpr int kOrder = 2;
  static constexpr int kBias = kWhich;
  static constexpr char const* kWord = T::kWord;
  static constexpr bool kOfRows = kRow;
};
template <>
struct LtStep<model::Relu> : LtStep<void> {
  using Model = model::Relu;
  static constexpr int kOrder = 3;
  static constexpr LtActivation kActivation = LtActivation::kRelu;
};
template <>
struct LtStep<model::GeluTanh> : LtStep<void> {
  using Model = model::Apply<LtGeluFunction>;
  static constexpr int kOrder = 3;
  static constexpr LtActivation kActivation = LtActivation::kGelu;
};
template <int kDegree>
struct LtStep<model::GeluErf<kDegree>> : LtStep<model::GeluTanh> {};

template <class Operation>
inline constexpr bool kIsGeluErf = false;
template <int kDegree>
inline constexpr bool kIsGeluErf<model::GeluErf<kDegree>> = true;

template <class... Operations>
constexpr bool lt_has_order() {
  int const orders[] = {LtStep<Operations>::kOrder...};
  int last = -1;
  for (int const order : orders) {
    if (order <= last) { return false; }
    last = order;
  }
  return true;
}

}  // namespace detail

/// kExists: does cuBLASLt have the epilogue of this model? Model: what it computes, which is not the same where kOther.
template <class Epilogue>
struct LtEpilogueOf {
  static constexpr bool kExists = false, kOther = false;
  using Model = Epilogue;
  static LtEpilogue make() { return {}; }
};
template <>
struct LtEpilogueOf<LinearCombinationModel> {
  static constexpr bool kExists = true, kOther = false;
  using Model = LinearCombinationModel;
  static LtEpilogue make() { return {}; }
};
template <class Scalar, class... Operations>
struct LtEpilogueOf<OperationsModel<Scalar, Operations...>> {
  static constexpr bool kExists = detail::lt_has_order<Operations...>();
  static constexpr bool kOther = (detail::kIsGeluErf<Operations> || ...);
  using Model = OperationsModel<Scalar, typename detail::LtStep<Operations>::Model...>;

  static LtEpilogue make() {
    using detail::LtActivation;
    LtEpilogue found;
    LtActivation activation = LtActivation::kNone;
    auto const take = [&](auto step) {
      using Step = decltype(step);
      if (Step::kActivation != LtActivation::kNone) { activation = Step::kActivation; }
      if (Step::kBias >= 0) { found.bias = Step::kBias, found.bias_word = Step::kWord, found.bias_of_rows = Step::kOfRows; }
    };
    (take(detail::LtStep<Operations>{}), ...);
    bool const biased = found.bias >= 0;
    found.kind = activation == LtActivation::kRelu   ? (biased ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU)
                 : activation == LtActivation::kGelu ? (biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU)
                 : biased                            ? CUBLASLT_EPILOGUE_BIAS
                                                     : CUBLASLT_EPILOGUE_DEFAULT;
    return found;
  }
};

}  // namespace v0_1
}  // namespace mmagen::test
