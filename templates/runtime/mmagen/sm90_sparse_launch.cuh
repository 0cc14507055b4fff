// Host side of the sparse sm_90 GEMM: what it asks of its arguments beyond the dense one's.
#pragma once

#include "sm90_launch.cuh"
#include "sparse_arguments.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// Why TMA cannot address A or B: their rows (columns, where these are contiguous) begin at multiples of 16 bytes.
template <class Config>
Status unaligned_operand(CallArguments<Config> const& args) {
  constexpr int64_t kBytesA = sizeof(typename Config::A::Element);
  return rows_are_aligned(args.a, args.lda * kBytesA, args.batch_stride_a * kBytesA, args.batch) ? Status::kUnalignedB
                                                                                                 : Status::kUnalignedA;
}

}  // namespace detail

/// As run_sm90(); operands that TMA cannot address are refused. There is no check of the metadata themselves: see
/// <name>_check_metadata.
template <class Config, class Args>
Status run_sm90_sparse(Args const& args, cudaStream_t stream, Launch launch = Launch::kYes) {
  auto const refuse = [](CallArguments<Config> const& call, cudaStream_t, Launch) {
    return detail::unaligned_operand<Config>(call);
  };
  Status const status = check_sparse_call<CallOperands<Config>>(args);
  return status == Status::kSuccess ? run_sm90<Config>(args, stream, refuse, launch) : status;
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_sm90_sparse(Info& info) {
  return query_sm90<Config>(info);
}

}  // namespace v0_1
}  // namespace mmagen
