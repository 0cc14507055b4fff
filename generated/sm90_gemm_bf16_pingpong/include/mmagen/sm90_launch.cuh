// SPDX-License-Identifier: MIT-0
// Host side of the sm_90 GEMM: checks the arguments, encodes the tensor maps, launches.
#pragma once

#include <atomic>

#include <cuda_runtime_api.h>

#include "gemm_arguments.cuh"
#include "sm90_kernel.cuh"
#include "sm90_swapped.cuh"
#include "status.cuh"
#include "tile_width.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// The number of CTAs of a cluster that every device with clusters supports; larger clusters must be allowed for each kernel.
inline constexpr int kPortableClusterCtas = 8;

/// Sets the attributes of the kernel that it is launched with, in the current context.
template <class Config>
Status prepare_kernel() {
  Status const status = allow_smem(&sm90_kernel<Config>, Config::kSmemBytes);
  if constexpr (!Config::kClusterAtLaunch) {  // the other clusters have at most kPortableClusterCtas CTAs
    if (status == Status::kSuccess && kClusterCtas<Config> > kPortableClusterCtas) {
      return status_of(cudaFuncSetAttribute(sm90_kernel<Config>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    }
  }
  return status;
}

/// The extents of a cluster, and of a grid of one cluster. If the shape is fixed at compile time, all CTAs lie along x.
template <class Config>
dim3 cluster_extent(ClusterShape cluster) {
  if constexpr (Config::kClusterAtLaunch) {
    return dim3(unsigned(cluster.m), unsigned(cluster.n));
  } else {
    return dim3(unsigned(cluster_ctas<Config>(cluster)));
  }
}

/// Clusters of this kernel that the current device runs at once, at least one; kSmallDevice if it runs none. Queried once for
/// each device and number of CTAs.
template <class Config>
Status resident_clusters(int& clusters, ClusterShape shape = static_cluster<Config>()) {
  constexpr int kMostDevices = 64, kMostCtas = 16;
  static std::atomic<int> known[kMostDevices][kMostCtas];
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) { return status_of(error); }
  int const ctas = cluster_ctas<Config>(shape);
  clusters = device < kMostDevices ? known[device][ctas - 1].load(std::memory_order_acquire) : 0;
  if (clusters > 0) { return Status::kSuccess; }
  Status const status = prepare_kernel<Config>();
  if (status != Status::kSuccess) { return status; }
  cudaLaunchConfig_t launch{};
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  dim3 const extent = cluster_extent<Config>(shape);
  cluster.val.clusterDim = {extent.x, extent.y, extent.z};
  launch.gridDim = extent;
  launch.blockDim = dim3(unsigned(Config::kThreads));
  launch.dynamicSmemBytes = size_t(Config::kSmemBytes);
  launch.attrs = &cluster;
  launch.numAttrs = 1;
  error = cudaOccupancyMaxActiveClusters(&clusters, sm90_kernel<Config>, &launch);
  if (error != cudaSuccess) { return status_of(error); }
  if (clusters == 0) { return Status::kSmallDevice; }
  if (device < kMostDevices) { known[device][ctas - 1].store(clusters, std::memory_order_release); }
  return Status::kSuccess;
}

/// Encodes the tensor maps. CUDA_ERROR_INVALID_VALUE where TMA cannot address A or B.
template <class Config>
CUresult make_params(Sm90Params<Config>& params, GemmArguments<Config> const& args,
                     ClusterShape cluster = static_cluster<Config>()) {
  CUresult result = CUDA_SUCCESS;
  int buffers = Config::kEpilogueBuffers;
  if constexpr (Config::kClusterAtLaunch) {
    LaunchedStages const launched = Sm90Stages<Config>::launched(cluster.tile_n, ceil_div(args.k, Config::kTileK));
    buffers = launched.buffers;
    result = Config::Mainloop::make_params(params.mainloop, args, cluster, launched.stages);
  } else {
    result = Config::Mainloop::make_params(params.mainloop, args);
  }
  return result != CUDA_SUCCESS ? result : Config::Epilogue::make_params(params.epilogue, args, cluster.tile_n, buffers);
}

/// Why TMA cannot address A or B of a call: kFarApartA or kFarApartB, kUnalignedA or kUnalignedB; kSuccess where it can.
template <class Config>
Status why_not_for_tma(CallArguments<Config> const& args) {
  using Call = CallOperands<Config>;
  constexpr int kBytesA = sizeof(typename Call::A::Element), kBytesB = sizeof(typename Call::B::Element);
  OperandLines const a = lines_of<typename Call::A>(args.m, args.k), b = lines_of<typename Call::B>(args.n, args.k);
  if (!tma_takes_strides({a.lines, args.lda, args.batch, args.batch_stride_a, kBytesA})) { return Status::kFarApartA; }
  if (!tma_takes_strides({b.lines, args.ldb, args.batch, args.batch_stride_b, kBytesB})) { return Status::kFarApartB; }
  if (!rows_are_aligned(args.a, args.lda, args.batch_stride_a, args.batch, kBytesA)) { return Status::kUnalignedA; }
  if (!rows_are_aligned(args.b, args.ldb, args.batch_stride_b, args.batch, kBytesB)) { return Status::kUnalignedB; }
  return Status::kSuccess;
}

/// The status of a call whose tensor maps could not be encoded. If A and B satisfy TMA's rules, the cause is a driver without
/// cuTensorMapEncodeTiled.
template <class Config>
Status refused_by_tma(CallArguments<Config> const& args) {
  Status const status = why_not_for_tma<Config>(args);
  return status == Status::kSuccess ? Status::kOldDriver : status;
}

/// Launches `clusters` clusters of the kernel.
template <class Config>
Status launch_clusters(Sm90Params<Config> const& params, unsigned clusters, cudaStream_t stream,
                       ClusterShape shape = static_cluster<Config>()) {
  Status status = check_stream(stream);
  if (status != Status::kSuccess) { return status; }
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  dim3 const extent = cluster_extent<Config>(shape);
  attributes[0].val.clusterDim = {extent.x, extent.y, extent.z};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(clusters * extent.x, extent.y, extent.z);
  config.blockDim = dim3(unsigned(Config::kThreads));
  config.dynamicSmemBytes = size_t(Config::kSmemBytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  cudaError_t const error = cudaLaunchKernelEx(&config, sm90_kernel<Config>, params);
  if (error != cudaErrorInvalidValue && error != cudaErrorInvalidClusterSize) { return status_of(error); }
  // The attributes were set in another context: the device has been reset, or this thread has a context of its own.
  cudaGetLastError();
  status = prepare_kernel<Config>();
  return status != Status::kSuccess ? status : status_of(cudaLaunchKernelEx(&config, sm90_kernel<Config>, params));
}

}  // namespace detail

/// `cluster`, which has all columns of a tile, with the first of the ascending `widths` that needs no more waves than whole
/// tiles, or no more tiles if clusters may share their K. Unchanged if there is none, or if the call cannot be launched.
template <class Config, class Args, int kWidths>
ClusterShape with_narrowest(Args const& args, ClusterShape cluster, int const (&widths)[kWidths]) {
  GemmShape const call{args.m, args.n, args.k, args.batch};
  if (check_extents<CallOperands<Config>>(call) != Status::kSuccess || call.empty()) { return cluster; }
  GemmShape const shape = kernel_shape<Config>(call);
  double most = double(detail::ceil_div(shape.n, cluster.tile_n * cluster.n));
  if constexpr (!Config::TileScheduler::kSharesTiles) {
    int resident = 0;
    if (detail::resident_clusters<Config>(resident, cluster) != Status::kSuccess) { return cluster; }
    double const across = double(detail::ceil_div(shape.m, Config::kTileM * cluster.m)) * double(shape.batch);
    most = most_tiles_along(across, most, resident);
  }
  for (int const width : widths) {
    if (double(width) * cluster.n * most >= double(shape.n)) {
      cluster.tile_n = width;
      break;
    }
  }
  return cluster;
}

/// Bytes of workspace that the tile scheduler uses for a problem on the current device; Args is the project's public argument
/// struct, of which only the extents are read.
template <class Config, class Args>
Status workspace_sm90(Args const& args, int64_t& bytes, ClusterShape cluster = static_cluster<Config>()) {
  bytes = 0;
  GemmShape const shape{args.m, args.n, args.k, args.batch};
  Status status = check_extents<CallOperands<Config>>(shape);
  if (status != Status::kSuccess || shape.empty() || shape.k == 0) { return status; }
  int resident = 0;
  status = detail::resident_clusters<Config>(resident, cluster);
  if (status != Status::kSuccess) { return status; }
  bytes = Config::TileScheduler::workspace_bytes(kernel_shape<Config>(shape), resident, cluster);
  return Status::kSuccess;
}

/// Launches the GEMM on `stream`; Args is the project's public argument struct. Operands that TMA cannot address go to
/// `unaligned(CallArguments<Config>, stream, launch)`.
template <class Config, class Args, class Unaligned>
Status run_sm90(Args const& public_args, cudaStream_t stream, Unaligned const& unaligned, Launch launch = Launch::kYes,
                ClusterShape cluster = static_cluster<Config>()) {
  using TileScheduler = typename Config::TileScheduler;
  CallArguments<Config> call{};
  Status status = check_arguments<CallOperands<Config>>(public_args, call);
  if (status != Status::kSuccess || call.empty()) { return status; }
  if (call.k == 0 && !Config::Mainloop::kTakesEmptyK) { return unaligned(call, stream, launch); }
  GemmArguments<Config> const args = kernel_arguments<Config>(call);

  // First of all calls to CUDA: it says whether this device can run the kernel.
  int resident = 0;
  status = detail::resident_clusters<Config>(resident, cluster);
  if (status != Status::kSuccess) { return status; }

  Sm90Params<Config> params{};
  CUresult encoded = CUDA_SUCCESS;
  status = encode_in_context(encoded, [&] { return detail::make_params<Config>(params, args, cluster); });
  if (status != Status::kSuccess) { return status; }
  if (encoded == CUDA_ERROR_INVALID_VALUE) { return unaligned(call, stream, launch); }
  if (encoded != CUDA_SUCCESS) { return status_of(cudaError_t(encoded)); }  // the numbers of both enums are the same

  status = TileScheduler::make_params(params.scheduler, args.shape(), TileScheduler::arguments(public_args), resident, cluster);
  if (status != Status::kSuccess) { return status; }
  unsigned const clusters = TileScheduler::grid(params.scheduler, resident);
  if (int64_t(clusters) * cluster_ctas<Config>(cluster) > 0x7fffffff) { return Status::kTooManyTiles; }
  if (launch == Launch::kNo) { return Status::kSuccess; }

  status = detail::launch_clusters<Config>(params, clusters, stream, cluster);
  if constexpr (TileScheduler::kReduces) {
    if (status == Status::kSuccess) { status = TileScheduler::reduce(params.scheduler, args, stream); }
  }
  return status;
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_sm90(Info& info) {
  return query_kernel(&sm90_kernel<Config>, Config::kThreads, Config::kSmemBytes, info);
}

}  // namespace v0_1
}  // namespace mmagen
