// Host side of the sm_90 GEMM for many problems in one launch, each with its own matrices, M, N and K, all of which are in
// device memory.
#pragma once

#include <utility>

#include "sm90_launch.cuh"
#include "sm90_prepare_groups.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

inline constexpr int64_t kWorkspaceStep = 128;  // bytes that tensor maps are aligned to

/// What TMA loads to the buffers of D: C, if it is read, or a second matrix of D's type.
template <class Config, class Args>
FurtherPointers source_of(Args const& args, bool reads_c) {
  using Functor = typename Config::Epilogue::Functor;
  if constexpr (EpilogueFunctor<Functor>::kStagesMatrix) {
    return Functor::staged_matrix(Functor::make_params({}, FurtherOf<Config>::read(args)));
  } else {
    if (!reads_c) { return {nullptr, nullptr, 0}; }
    return {static_cast<void* const*>(const_cast<void*>(args.c)), static_cast<int const*>(args.group_ldc), args.ldc};
  }
}

/// The arguments of a call that are in device memory, with the operands as the kernel has them.
template <class Config, class Args>
PointerArrays pointer_arrays(Args const& args, FurtherPointers const& source) {
  auto const pointers = [](void const* array) { return static_cast<void const* const*>(array); };
  auto const sizes = [](void const* array) { return static_cast<int const*>(array); };
  PointerArrays found = {
      pointers(args.a),      pointers(args.b),    source.data,           static_cast<void* const*>(args.d),
      sizes(args.group_m),   sizes(args.group_n), sizes(args.group_k),   sizes(args.group_lda),
      sizes(args.group_ldb), source.lds,          sizes(args.group_ldd), static_cast<int*>(args.group_status)};
  if constexpr (Config::kSwapped) {
    std::swap(found.a, found.b);
    std::swap(found.m, found.n);
    std::swap(found.lda, found.ldb);
  }
  return found;
}

/// The arguments of a call as a batch of that many groups. A leading dimension that is given for each group is not one of the
/// call's: the least possible one takes its place. Call: the operands as a call names them.
template <class Call, class Args>
Args as_one_batch(Args args) {
  args.batch_stride_a = args.batch_stride_b = args.batch_stride_c = 0;
  args.batch_stride_d = 1;  // not used
  if (args.group_lda != nullptr) { args.lda = lines_of<typename Call::A>(args.m, args.k).row; }
  if (args.group_ldb != nullptr) { args.ldb = lines_of<typename Call::B>(args.n, args.k).row; }
  if (args.group_ldc != nullptr) { args.ldc = lines_of_d<Call>(args.m, args.n).row; }
  if (args.group_ldd != nullptr) { args.ldd = lines_of_d<Call>(args.m, args.n).row; }
  return args;
}

/// The further tensors of groups, with their extents as the kernel has them.
template <class Config>
void describe_further(GemmArguments<Config> const& args, PrepareParams<Config>& params) {
  for (int i = 0; i < FurtherOf<Config>::kOfGroups; ++i) {
    TensorOfGroups& one = params.further[i] = args.of_groups(i);
    if (Config::kSwapped && one.extent != 'k' && one.extent != '1') { one.extent = one.extent == 'm' ? 'n' : 'm'; }
  }
}

/// Arrays of pointers are arrays of 8 bytes.
template <class Args>
Status check_pointer_arrays(Args const& args, bool reads_c) {
  void const* const arrays[] = {args.a, args.b, reads_c ? args.c : nullptr, args.d};
  for (int i = 0; i < 4; ++i) {
    if (!is_aligned(arrays[i], int(sizeof(void*)))) { return Status(int(Status::kMisalignedA) + i); }
  }
  return Status::kSuccess;
}

/// Do lines of A and B begin at multiples of 16 bytes, as far as the host knows: where all groups have the leading dimension of
/// the call?
template <class Call, class Args>
bool common_lines_are_aligned(Args const& args) {
  auto const aligned = [](void const* own, int64_t ld, int bytes) { return own != nullptr || ld * bytes % 16 == 0; };
  return aligned(args.group_lda, args.lda, int(sizeof(typename Call::A::Element))) &&
         aligned(args.group_ldb, args.ldb, int(sizeof(typename Call::B::Element)));
}

/// Bytes of workspace for so many groups, aligned to 16 bytes.
template <class Config>
int64_t bytes_of_groups(int64_t groups) {
  return groups * int64_t(sizeof(GroupMatrices<typename Config::ElementD>) + sizeof(GroupTiles)) + kWorkspaceStep;
}

/// Tensor maps with the boxes and swizzles of the kernel, and the parameters of mainloop and epilogue that do not differ
/// between groups. `any`: an address for matrices that are not there.
template <class Config>
CUresult make_templates(Sm90Params<Config>& params, GemmArguments<Config> args, void* any) {
  auto const pitch = [](int64_t line) { return ceil_div(line, 16) * 16; };
  args.batch = 1;
  args.k = std::max<int64_t>(args.k, 1);
  args.a = static_cast<typename Config::A::Element const*>(any);
  args.b = static_cast<typename Config::B::Element const*>(any);
  args.c = args.d = static_cast<typename Config::ElementD*>(any);
  args.lda = pitch(Config::A::kContiguousK ? args.k : args.m);
  args.ldb = pitch(Config::B::kContiguousK ? args.k : args.n);
  args.ldc = args.ldd = pitch(Config::kDRowMajor ? args.n : args.m);
  args.batch_stride_a = args.batch_stride_b = args.batch_stride_c = args.batch_stride_d = 0;
  return make_params<Config>(params, args);
}

template <class Config>
Status launch_prepare(PrepareParams<Config> const& params, cudaStream_t stream) {
  Status const status = check_stream(stream);
  if (status != Status::kSuccess) { return status; }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned((params.groups + kGroupsOfCta - 1) / kGroupsOfCta));
  config.blockDim = dim3(32 * kGroupsOfCta);
  config.stream = stream;
  return status_of(cudaLaunchKernelEx(&config, sm90_prepare_groups<Config>, params));
}

}  // namespace detail

template <class Config, class Args>
Status workspace_sm90_pointers(Args const& args, int64_t& bytes) {
  GemmShape const shape{args.m, args.n, args.k, args.batch};
  Status const status = check_extents<CallOperands<Config>>(shape);
  bytes = status == Status::kSuccess && !shape.empty() ? detail::bytes_of_groups<Config>(args.batch) : 0;
  return status;
}

/// Launches the GEMMs of all groups on `stream`; Args is the project's public argument struct, whose batch is the number of
/// groups and whose m, n and k are the largest of any. Nothing waits for the device.
template <class Config, class Args>
Status run_sm90_pointers(Args const& public_args, cudaStream_t stream, Launch launch = Launch::kYes) {
  using TileScheduler = typename Config::TileScheduler;
  using Functor = typename Config::Epilogue::Functor;
  CallArguments<Config> call{};
  Status status = check_arguments<CallOperands<Config>>(detail::as_one_batch<CallOperands<Config>>(public_args), call);
  if (status != Status::kSuccess || call.empty()) { return status; }
  bool const reads_c = Functor::reads_source(call.epilogue);
  status = detail::check_pointer_arrays(public_args, reads_c);
  if (status != Status::kSuccess) { return status; }
  // The kernel that prepares the groups does not check that a leading dimension common to all groups is less than 2^40 bytes.
  // The alignment of the groups' own pointers and lines is known on the device only, and is checked there.
  if (call.k > 0) {
    status = detail::why_not_for_tma<Config>(call);
    if (status == Status::kFarApartA || status == Status::kFarApartB) { return status; }
    if (!detail::common_lines_are_aligned<CallOperands<Config>>(public_args)) { return Status::kNotForTma; }
  }
  int64_t const needed = detail::bytes_of_groups<Config>(call.batch);
  if (public_args.workspace == nullptr || public_args.workspace_bytes < needed) { return Status::kShortWorkspace; }
  if (!is_aligned(public_args.workspace, 16)) { return Status::kMisalignedWorkspace; }
  GemmArguments<Config> const args = kernel_arguments<Config>(call);

  // First of all calls to CUDA: it says whether this device can run the kernel.
  int resident = 0;
  status = detail::resident_clusters<Config>(resident);
  if (status != Status::kSuccess) { return status; }

  uintptr_t const aligned =
      (reinterpret_cast<uintptr_t>(public_args.workspace) + detail::kWorkspaceStep - 1) / detail::kWorkspaceStep;
  auto* const matrices = reinterpret_cast<typename TileScheduler::Matrices*>(aligned * detail::kWorkspaceStep);
  auto* const tiles = reinterpret_cast<GroupTiles*>(matrices + call.batch);
  Sm90Params<Config> params{};
  CUresult encoded = CUDA_SUCCESS;
  status = encode_in_context(encoded, [&] { return detail::make_templates<Config>(params, args, matrices); });
  if (status != Status::kSuccess) { return status; }
  if (encoded != CUDA_SUCCESS) { return status_of(cudaError_t(encoded)); }  // the numbers of both enums are the same
  params.scheduler = TileScheduler::make_params(args.shape(), matrices, tiles);
  if (launch == Launch::kNo) { return Status::kSuccess; }

  FurtherPointers const source = detail::source_of<Config>(public_args, reads_c);
  PrepareParams<Config> prepare = {
      {params.mainloop.map_a, params.mainloop.map_b, params.epilogue.map_d, params.epilogue.map_source},
      detail::pointer_arrays<Config>(public_args, source),
      int(args.m),
      int(args.n),
      int(args.k),
      int(args.batch),
      args.lda,
      args.ldb,
      source.ld,
      args.ldd,
      {},
      matrices,
      tiles};
  detail::describe_further<Config>(args, prepare);
  status = detail::launch_prepare<Config>(prepare, stream);
  if (status != Status::kSuccess) { return status; }
  return detail::launch_clusters<Config>(params, TileScheduler::grid(params.scheduler, resident), stream);
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_sm90_pointers(Info& info) {
  return query_sm90<Config>(info);
}

}  // namespace v0_1
}  // namespace mmagen
