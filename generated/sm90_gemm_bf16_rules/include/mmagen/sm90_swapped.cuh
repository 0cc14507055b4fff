// SPDX-License-Identifier: MIT-0
// Kernels that compute the transpose: D^T = B^T A^T, with B of the call as the kernel's A. wgmma has 64 rows and 8 to 256
// columns, so if D has few rows, less of the instruction is wasted when they are the columns of wgmma.
#pragma once

#include <utility>

#include "gemm_arguments.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// The operands of a swapped Config as a call names them.
template <class Config>
struct SwappedOperands {
  using Further = mmagen::FurtherOf<Config>;
  using A = typename Config::B;
  using B = typename Config::A;
  using ElementD = typename Config::ElementD;
  using Epilogue = typename Config::Epilogue;
  static constexpr bool kDRowMajor = !Config::kDRowMajor;
  static constexpr int kTileM = Config::kTileN;
  static constexpr int kTileN = Config::kTileM;
};

}  // namespace detail

/// The operands of a Config as a call names them, for check_arguments().
template <class Config>
using CallOperands = std::conditional_t<Config::kSwapped, detail::SwappedOperands<Config>, Config>;

template <class Config>
using CallArguments = GemmArguments<CallOperands<Config>>;

/// The shape as the kernel has it.
template <class Config>
GemmShape kernel_shape(GemmShape shape) {
  if constexpr (Config::kSwapped) { std::swap(shape.m, shape.n); }
  return shape;
}

/// The arguments of a call as the kernel has them.
template <class Config>
GemmArguments<Config> kernel_arguments(CallArguments<Config> const& call) {
  if constexpr (Config::kSwapped) {
    GemmArguments<Config> args{};
    args.m = call.n;
    args.n = call.m;
    args.k = call.k;
    args.batch = call.batch;
    args.a = call.b;
    args.lda = call.ldb;
    args.batch_stride_a = call.batch_stride_b;
    args.b = call.a;
    args.ldb = call.lda;
    args.batch_stride_b = call.batch_stride_a;
    args.c = call.c;
    args.ldc = call.ldc;
    args.batch_stride_c = call.batch_stride_c;
    args.d = call.d;
    args.ldd = call.ldd;
    args.batch_stride_d = call.batch_stride_d;
    args.epilogue = call.epilogue;
    static_cast<FurtherOf<Config>&>(args) = call.further();
    return args;
  } else {
    return call;
  }
}

}  // namespace v0_1
}  // namespace mmagen
