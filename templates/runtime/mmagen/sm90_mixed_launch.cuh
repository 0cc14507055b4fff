// Host side of the sm_90 GEMM with narrow weights: what it requires of its arguments beyond the requirements of the dense GEMM.
#pragma once

#include "sm90_launch.cuh"

namespace mmagen {
inline namespace v0_1 {

/// As run_sm90(); operands that TMA cannot address are refused.
template <class Config, class Args>
Status run_sm90_mixed(Args const& args, cudaStream_t stream, Launch launch = Launch::kYes) {
  auto const refuse = [](CallArguments<Config> const& call, cudaStream_t, Launch) {
    return detail::refused_by_tma<Config>(call);
  };
  return run_sm90<Config>(args, stream, refuse, launch);
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_sm90_mixed(Info& info) {
  return query_sm90<Config>(info);
}

}  // namespace v0_1
}  // namespace mmagen
