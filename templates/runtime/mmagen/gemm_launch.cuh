// Host side of the GEMM: chooses wide or narrow copies and launches.
#pragma once

#include <cuda_runtime_api.h>

#include "gemm_arguments.cuh"
#include "gemm_kernel.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// Do all rows of all matrices of the batch begin at 16 bytes? Strides in bytes; the batch's counts from two matrices on.
inline bool is_aligned(void const* pointer, int64_t row_stride, int64_t batch_stride, int64_t batch) {
  uintptr_t const steps = uintptr_t(row_stride) | (batch > 1 ? uintptr_t(batch_stride) : 0);
  return (reinterpret_cast<uintptr_t>(pointer) | steps) % 16 == 0;
}

}  // namespace detail

/// Launches D = alpha * A * B + beta * C on `stream`; Args is the project's public argument struct.
template <class Config, class Args>
Status run_gemm(Args const& public_args, cudaStream_t stream) {
  GemmArguments<Config> args{};
  Status const status = check_arguments<Config>(public_args, args);
  if (status != Status::kSuccess || args.empty()) { return status; }
  int64_t const tiles_m = detail::tiles(args.m, Config::kTileM);
  int64_t const tiles_n = detail::tiles(args.n, Config::kTileN);

  GemmParams<Config> params{};
  params.m = int(args.m);
  params.n = int(args.n);
  params.k = int(args.k);
  params.tiles_m = unsigned(tiles_m);
  params.tiles_n = unsigned(tiles_n);
  params.a = args.a;
  params.lda = args.lda;
  params.batch_stride_a = args.batch_stride_a;
  params.b = args.b;
  params.ldb = args.ldb;
  params.batch_stride_b = args.batch_stride_b;
  params.c = args.c;
  params.ldc = args.ldc;
  params.batch_stride_c = args.batch_stride_c;
  params.d = args.d;
  params.ldd = args.ldd;
  params.batch_stride_d = args.batch_stride_d;
  params.alpha = args.alpha;
  params.beta = args.beta;

  constexpr int64_t kBytesA = sizeof(typename Config::A::Element);
  constexpr int64_t kBytesB = sizeof(typename Config::B::Element);
  constexpr int64_t kBytesD = sizeof(typename Config::ElementD);
  bool const wide_ab = detail::is_aligned(params.a, params.lda * kBytesA, params.batch_stride_a * kBytesA, args.batch) &&
                       detail::is_aligned(params.b, params.ldb * kBytesB, params.batch_stride_b * kBytesB, args.batch);
  params.wide_d = detail::is_aligned(params.d, params.ldd * kBytesD, params.batch_stride_d * kBytesD, args.batch) &&
                  detail::is_aligned(params.c, params.ldc * kBytesD, params.batch_stride_c * kBytesD, args.batch);

  auto* const kernel = wide_ab ? &gemm_kernel<Config, true> : &gemm_kernel<Config, false>;
  unsigned const ctas = unsigned(tiles_m * tiles_n * args.batch);
  return launch_kernel(kernel, ctas, Config::kThreads, Config::kSmemBytes, stream, params);
}

/// What one kernel of this Config takes on the current device.
template <class Config, class Info>
Status query_gemm(Info& info) {
  return query_kernel(&gemm_kernel<Config, true>, Config::kThreads, Config::kSmemBytes, info);
}

}  // namespace v0_1
}  // namespace mmagen
