// Host side of the sm_90 GEMM with f32 operands: splits A and B into bf16 pieces in the workspace, then multiplies the pieces.
#pragma once

#include "f32_pieces.cuh"
#include "sm90_launch.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// The operands as a call names them, for check_arguments().
template <class Config>
struct PiecesCall {
  using Further = mmagen::FurtherOf<Config>;
  struct A {
    using Element = float;
    static constexpr bool kContiguousK = Config::Pieces::kContiguousKA;
  };
  struct B {
    using Element = float;
    static constexpr bool kContiguousK = Config::Pieces::kContiguousKB;
  };
  using ElementD = typename Config::ElementD;
  using Epilogue = typename Config::Epilogue;
  static constexpr bool kDRowMajor = CallOperands<Config>::kDRowMajor;
  static constexpr int kTileM = CallOperands<Config>::kTileM;
  static constexpr int kTileN = CallOperands<Config>::kTileN;
};

inline constexpr int64_t kPiecesAlignment = 128;  // of bytes of the workspace

/// The pieces of a call, without their addresses.
template <class Config, class Args>
PiecesParams plan_pieces(Args const& args) {
  using Pieces = typename Config::Pieces;
  auto const of = [&](void const* matrix, int64_t ld, int64_t batch_stride, int64_t lines) {
    int64_t const stride = args.batch > 1 ? batch_stride : 0;
    return OperandPieces(static_cast<float const*>(matrix), ld, stride, lines, args.k, args.batch, Pieces::kTileK,
                         Pieces::kCount);
  };
  PiecesParams params{of(args.a, args.lda, args.batch_stride_a, args.m), of(args.b, args.ldb, args.batch_stride_b, args.n), 0};
  params.blocks_a = unsigned(params.a.blocks(Pieces::kTileK));
  return params;
}

/// kSuccess, or which extent makes more pieces than a kernel can count, or matrices of pieces that TMA cannot address.
template <class Config>
Status check_pieces(PiecesParams const& params) {
  constexpr int kTileK = Config::Pieces::kTileK;
  if (params.a.pitch > kLargestExtent) { return Status::kTooLargeK; }
  if (!params.a.is_countable(kTileK)) { return Status::kTooLargeM; }
  if (!params.b.is_countable(kTileK)) { return Status::kTooLargeN; }
  auto const is_for_tma = [](OperandPieces const& one) {
    return tma_takes_strides({one.lines, one.pitch, one.matrices, one.matrix_stride(), int(sizeof(uint16_t))});
  };
  return is_for_tma(params.a) && is_for_tma(params.b) ? Status::kSuccess : Status::kTooLargeK;
}

inline int64_t bytes_of_pieces(PiecesParams const& params) { return params.a.bytes() + params.b.bytes() + kPiecesAlignment; }

}  // namespace detail

/// Bytes of workspace for a problem on the current device: the pieces, then what the tile scheduler uses.
template <class Config, class Args>
Status workspace_sm90_pieces(Args const& args, int64_t& bytes) {
  bytes = 0;
  Args pieces = args;
  GemmShape const shape{args.m, args.n, args.k, args.batch};
  Status status = check_extents<CallOperands<Config>>(shape);
  if (status != Status::kSuccess || shape.empty()) { return status; }
  PiecesParams const params = detail::plan_pieces<Config>(args);
  status = detail::check_pieces<Config>(params);
  if (status != Status::kSuccess) { return status; }
  pieces.k = args.k > 0 ? args.k : 1;
  status = workspace_sm90<Config>(pieces, bytes);
  bytes += detail::bytes_of_pieces(params);
  return status;
}

/// Enqueues the kernel that splits A and B, and the GEMM. Any alignment of A and B. Without a workspace that holds the pieces
/// the call is refused. Args: the project's public argument struct.
template <class Config, class Args>
Status run_sm90_pieces(Args const& args, cudaStream_t stream, Launch launch = Launch::kYes) {
  using Pieces = typename Config::Pieces;
  GemmArguments<detail::PiecesCall<Config>> call{};
  Status status = check_arguments<detail::PiecesCall<Config>>(args, call);
  if (status != Status::kSuccess || call.empty()) { return status; }
  PiecesParams params = detail::plan_pieces<Config>(args);
  status = detail::check_pieces<Config>(params);
  if (status != Status::kSuccess) { return status; }
  if (!is_aligned(args.workspace, 16)) { return Status::kMisalignedWorkspace; }
  if (args.workspace == nullptr || args.workspace_bytes < detail::bytes_of_pieces(params)) { return Status::kShortWorkspace; }

  int resident = 0;  // a device that cannot run the kernel splits nothing
  status = detail::resident_clusters<Config>(resident);
  if (status != Status::kSuccess) { return status; }

  auto const begin = reinterpret_cast<uintptr_t>(args.workspace);
  auto to = (begin + detail::kPiecesAlignment - 1) / detail::kPiecesAlignment * detail::kPiecesAlignment;
  Args pieces = args;
  auto const place = [&](OperandPieces& one, void const*& matrix, int64_t& ld, int64_t& batch_stride) {
    one.to = reinterpret_cast<uint16_t*>(to);
    matrix = one.to;
    ld = one.pitch;
    batch_stride = one.matrices == 1 ? 0 : one.matrix_stride();
    to += uintptr_t(one.bytes());
  };
  place(params.a, pieces.a, pieces.lda, pieces.batch_stride_a);
  place(params.b, pieces.b, pieces.ldb, pieces.batch_stride_b);
  pieces.k = args.k > 0 ? args.k : 1;  // of zeros
  pieces.workspace = reinterpret_cast<void*>(to);
  pieces.workspace_bytes -= int64_t(to - begin);
  if (launch == Launch::kYes) {
    unsigned const ctas = params.blocks_a + unsigned(params.b.blocks(Pieces::kTileK));
    status = launch_dependent_kernel(&split_kernel<Pieces>, ctas, kSplitThreads, stream, params);
    if (status != Status::kSuccess) { return status; }
  }
  // check_pieces() has refused strides that TMA cannot have, and lines of pieces begin at multiples of 32 bytes: encoding fails
  // only with a driver that has no cuTensorMapEncodeTiled.
  auto const refuse = [](CallArguments<Config> const&, cudaStream_t, Launch) { return Status::kOldDriver; };
  return run_sm90<Config>(pieces, stream, refuse, launch);
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_sm90_pieces(Info& info) {
  return query_sm90<Config>(info);
}

}  // namespace v0_1
}  // namespace mmagen
