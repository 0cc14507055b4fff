// Host side of the micro kernel (the one that config.cuh includes): one tile, D = A * B.
#pragma once

#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Launches D = A * B on `stream`; Args is the project's public argument struct.
template <class Config, class Args>
Status run_micro(Args const& args, cudaStream_t stream) {
  using A = typename Config::A;
  using B = typename Config::B;
  using Scalar = typename Config::Scalar;
  if (args.m != Config::kTileM || args.n != Config::kTileN || args.k != Config::kTileK || args.batch != 1 ||
      args.alpha != Scalar(1) || args.beta != Scalar(0)) {
    return Status::kFixedShape;
  }
  if (args.a == nullptr || args.b == nullptr || args.d == nullptr || !is_aligned_to<typename A::Element>(args.a) ||
      !is_aligned_to<typename B::Element>(args.b) || !is_aligned_to<typename Config::ElementD>(args.d) ||
      args.lda < (A::kContiguousK ? args.k : args.m) || args.ldb < (B::kContiguousK ? args.k : args.n) ||
      args.ldd < (Config::kDRowMajor ? args.n : args.m)) {
    return Status::kInvalidArgument;
  }
  return launch_kernel(&micro_kernel<Config>, 1, Config::kThreads, Config::kSmemBytes, stream,
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
