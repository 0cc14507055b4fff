// SPDX-License-Identifier: MIT-0
// Host side of the GEMM for operands in registers: checks the arguments, chooses wide or narrow copies, launches.
#pragma once

#include <cuda_runtime_api.h>

#include "gemm_arguments.cuh"
#include "gemm_kernel.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Launches the GEMM on `stream`; Args is the project's public argument struct.
template <class Config, class Args>
Status run_gemm(Args const& public_args, cudaStream_t stream, Launch launch = Launch::kYes) {
  using TileScheduler = typename Config::TileScheduler;
  GemmArguments<Config> args{};
  Status status = check_arguments<Config>(public_args, args);
  if (status != Status::kSuccess || args.empty()) { return status; }

  GemmParams<Config> params{};
  params.mainloop = Config::Mainloop::make_params(args);
  params.epilogue = Config::Epilogue::make_params(args);
  constexpr int kResident = 0;  // not queried: every output tile has a CTA of its own
  status = TileScheduler::make_params(params.scheduler, args.shape(), TileScheduler::arguments(public_args), kResident);
  if (status != Status::kSuccess) { return status; }

  constexpr int kBytesA = sizeof(typename Config::A::Element);
  constexpr int kBytesB = sizeof(typename Config::B::Element);
  auto* kernel = &gemm_kernel<Config, true>;
  if constexpr (kBytesA < 16 || kBytesB < 16) {  // elements of 16 bytes are aligned as vectors are
    bool const wide = detail::rows_are_aligned(args.a, args.lda, args.batch_stride_a, args.batch, kBytesA) &&
                      detail::rows_are_aligned(args.b, args.ldb, args.batch_stride_b, args.batch, kBytesB);
    if (!wide) { kernel = &gemm_kernel<Config, false>; }
  }
  unsigned const ctas = TileScheduler::grid(params.scheduler, kResident);
  return launch_kernel(kernel, ctas, Config::kThreads, Config::kSmemBytes, stream, launch, params);
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_gemm(Info& info) {
  return query_kernel(&gemm_kernel<Config, true>, Config::kThreads, Config::kSmemBytes, info);
}

}  // namespace v0_1
}  // namespace mmagen
