// Host side of the sm_90 GEMM for many problems in one launch, whose sizes are in device memory.
#pragma once

#include "sm90_launch.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// The arguments of a call as a batch of that many groups. If stacked, A, C and D are each one matrix for all groups.
template <class Config, class Args>
Args as_batch(Args args) {
  if constexpr (Config::TileScheduler::kStacked) {
    args.batch_stride_a = args.batch_stride_c = 0;
    args.batch_stride_d = 1;  // not used: groups write different rows of one D
  }
  return args;
}

/// A product without k tiles loads nothing, but still needs valid tensor maps.
template <class Config>
void use_any_operands(GemmArguments<Config>& args) {
  auto const* const aligned = reinterpret_cast<void const*>(reinterpret_cast<uintptr_t>(args.d) & ~uintptr_t(15));
  args.a = static_cast<typename Config::A::Element const*>(aligned);
  args.b = static_cast<typename Config::B::Element const*>(aligned);
  args.k = 1;
  args.lda = args.ldb = 16;
  args.batch_stride_a = args.batch_stride_b = 0;
}

/// Encodes the tensor maps: of A and B with a matrix for each group where they are not stacked, of D likewise.
template <class Config>
CUresult make_grouped_params(Sm90Params<Config>& params, GemmArguments<Config> args) {
  GemmArguments<Config> stored = args;
  if constexpr (Config::TileScheduler::kStacked) { stored.batch = 1; }
  if (args.k == 0) { use_any_operands<Config>(args); }
  CUresult const result = Config::Mainloop::make_params(params.mainloop, args);
  return result != CUDA_SUCCESS ? result : Config::Epilogue::make_params(params.epilogue, stored);
}

}  // namespace detail

/// Launches the GEMM of all groups on `stream`; Args is the project's public argument struct, whose batch is the number of
/// groups. Nothing waits for the device.
template <class Config, class Args>
Status run_sm90_grouped(Args const& public_args, cudaStream_t stream, Launch launch = Launch::kYes) {
  using TileScheduler = typename Config::TileScheduler;
  CallArguments<Config> call{};
  Status status = check_arguments<CallOperands<Config>>(detail::as_batch<Config>(public_args), call);
  if (status != Status::kSuccess || call.empty()) { return status; }
  auto const groups = TileScheduler::arguments(public_args);
  status = TileScheduler::check(public_args);
  if (status != Status::kSuccess) { return status; }
  GemmArguments<Config> const args = kernel_arguments<Config>(call);

  // First of all calls to CUDA: it says whether this device can run the kernel.
  int resident = 0;
  status = detail::resident_clusters<Config>(resident);
  if (status != Status::kSuccess) { return status; }

  Sm90Params<Config> params{};
  CUresult encoded = CUDA_SUCCESS;
  status = encode_in_context(encoded, [&] { return detail::make_grouped_params<Config>(params, args); });
  if (status != Status::kSuccess) { return status; }
  if (encoded == CUDA_ERROR_INVALID_VALUE) {
    status = detail::refused_by_tma<Config>(call);
    return status == Status::kUnalignedA || status == Status::kUnalignedB ? Status::kNotForTma : status;
  }
  if (encoded != CUDA_SUCCESS) { return status_of(cudaError_t(encoded)); }  // the numbers of both enums are the same

  status = TileScheduler::make_params(params.scheduler, args.shape(), groups, resident);
  if (status != Status::kSuccess || launch == Launch::kNo) { return status; }
  return detail::launch_clusters<Config>(params, TileScheduler::grid(params.scheduler, resident), stream);
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_sm90_grouped(Info& info) {
  return query_sm90<Config>(info);
}

}  // namespace v0_1
}  // namespace mmagen
