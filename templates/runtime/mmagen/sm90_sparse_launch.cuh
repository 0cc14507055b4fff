// Host side of the sparse sm_90 GEMM: what it asks of its arguments beyond the dense one's.
#pragma once

#include "sm90_launch.cuh"

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

/// Metadata lie in blocks of 16 bytes and more.
template <class Args>
Status check_metadata_argument(Args const& args) {
  if (args.k == 0 || args.m == 0 || args.n == 0) { return Status::kSuccess; }
  if (args.metadata_a == nullptr) { return Status::kNullMetadataA; }
  if (args.batch > 1 && args.batch_stride_metadata_a < 0) { return Status::kNegativeStrideMetadataA; }
  bool const aligned = is_aligned(args.metadata_a, 16) && (args.batch == 1 || args.batch_stride_metadata_a % 4 == 0);
  return aligned ? Status::kSuccess : Status::kMisalignedMetadataA;
}

}  // namespace detail

/// As run_sm90(); operands that TMA cannot address are refused. There is no check of the metadata themselves: see
/// <name>_check_metadata.
template <class Config, class Args>
Status run_sm90_sparse(Args const& args, cudaStream_t stream, Launch launch = Launch::kYes) {
  auto const refuse = [](CallArguments<Config> const& call, cudaStream_t, Launch) {
    return detail::unaligned_operand<Config>(call);
  };
  // Extents first: where the shape is empty no pointer is read.
  Status const status = check_extents<CallOperands<Config>>({args.m, args.n, args.k, args.batch});
  if (status != Status::kSuccess) { return status; }
  Status const metadata = args.batch == 0 ? Status::kSuccess : detail::check_metadata_argument(args);
  return metadata == Status::kSuccess ? run_sm90<Config>(args, stream, refuse, launch) : metadata;
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_sm90_sparse(Info& info) {
  return query_sm90<Config>(info);
}

}  // namespace v0_1
}  // namespace mmagen
