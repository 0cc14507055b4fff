// SPDX-License-Identifier: MIT-0
// Host side of the micro kernel (the one that config.cuh includes): one tile, D = A * B.
#pragma once

#include "gemm_arguments.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Launches D = A * B on `stream`; Args is the project's public argument struct.
template <class Config, class Args>
Status run_micro(Args const& args, cudaStream_t stream, Launch launch = Launch::kYes) {
  using A = typename Config::A;
  using B = typename Config::B;
  using ElementD = typename Config::ElementD;
  if (args.m != Config::kTileM || args.n != Config::kTileN || args.k != Config::kTileK || args.batch != 1 ||
      args.alpha != 1.0 || args.beta != 0.0 || args.alpha_device != nullptr || args.beta_device != nullptr) {
    return Status::kFixedShape;
  }
  auto const of_d = Config::kDRowMajor ? detail::OperandLines{args.n, args.m} : detail::OperandLines{args.m, args.n};
  MatrixArgument const matrices[] = {
      {args.a, int(sizeof(typename A::Element)), args.lda, detail::lines_of<A>(args.m, args.k), true},
      {args.b, int(sizeof(typename B::Element)), args.ldb, detail::lines_of<B>(args.n, args.k), true},
      {},
      {args.d, int(sizeof(ElementD)), args.ldd, of_d, true},
  };
  Status const status = check_matrices(matrices);
  if (status != Status::kSuccess) { return status; }
  return launch_kernel(&micro_kernel<Config>, 1, Config::kThreads, Config::kSmemBytes, stream, launch,
                       static_cast<typename A::Element const*>(args.a), args.lda,
                       static_cast<typename B::Element const*>(args.b), args.ldb,
                       static_cast<typename Config::ElementD*>(args.d), args.ldd);
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_micro(Info& info) {
  return query_kernel(&micro_kernel<Config>, Config::kThreads, Config::kSmemBytes, info);
}

}  // namespace v0_1
}  // namespace mmagen
