// The sm_90 GEMM kernel and its host side: checks what it is asked for, describes the matrices to TMA, launches.
#pragma once

#include <algorithm>
#include <atomic>

#include <cuda_runtime_api.h>

#include "gemm_arguments.cuh"
#include "sm90_params.cuh"
#include "sm90_tensor_map.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Grid: clusters of kClusterCtas CTAs, as many as run at once (or fewer); each walks over tiles of a cluster.
template <class Config>
__global__ void __launch_bounds__(Config::kThreads, Config::kCtasPerSm)
    sm90_kernel(__grid_constant__ Sm90Params<Config> const params) {
  using Storage = Sm90Storage<Config>;
  static_assert(sizeof(Storage) == Config::kSmemBytes, "the plan and the kernel disagree");
  extern __shared__ __align__(1024) unsigned char smem[];
  Config::Kernel::run(params, *reinterpret_cast<Storage*>(smem));
}

namespace detail {

/// How many clusters of this kernel the current device runs at once, at least one. Asked once for each device.
template <class Config>
Status resident_clusters(int& clusters) {
  constexpr int kMostDevices = 64;
  static std::atomic<int> known[kMostDevices];
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) { return status_of(error); }
  clusters = device < kMostDevices ? known[device].load(std::memory_order_acquire) : 0;
  if (clusters > 0) { return Status::kSuccess; }
  Status const status = allow_smem(&sm90_kernel<Config>, Config::kSmemBytes);
  if (status != Status::kSuccess) { return status; }
  cudaLaunchConfig_t launch{};
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {unsigned(kClusterCtas<Config>), 1, 1};
  launch.gridDim = dim3(unsigned(kClusterCtas<Config>));
  launch.blockDim = dim3(unsigned(Config::kThreads));
  launch.dynamicSmemBytes = size_t(Config::kSmemBytes);
  launch.attrs = &cluster;
  launch.numAttrs = 1;
  error = cudaOccupancyMaxActiveClusters(&clusters, sm90_kernel<Config>, &launch);
  if (error != cudaSuccess) { return status_of(error); }
  if (clusters == 0) { return Status::kNotSupported; }
  if (device < kMostDevices) { known[device].store(clusters, std::memory_order_release); }
  return Status::kSuccess;
}

/// Lines of a box. A K-contiguous operand with fewer rows than a tile is read without the rows it lacks: those of the
/// stage keep what they held, and what comes of them lies outside D.
template <class Operand, int kShare>
int box_lines(int64_t across) {
  bool const whole = !Operand::kContiguousK || Operand::kBoxes * kShare > 1 || across >= Operand::kBoxAcross;
  return whole ? Operand::kBoxAcross : int(tiles(across, 8)) * 8;
}

/// Bytes of an operand that TMA brings to one stage of every CTA.
template <class Operand, int kShare>
uint32_t stage_bytes(int lines) {
  constexpr int kLineBytes = Operand::kLine * int(sizeof(typename Operand::Element));
  return uint32_t(kShare * Operand::kBoxes * Operand::kPanels * lines * kLineBytes);
}

/// Makes the device's context current for the calling thread: the driver's functions need one, and a thread whose first
/// call to CUDA is ours has none.
inline Status make_context_current() {
  int device = 0;
  cudaError_t const error = cudaGetDevice(&device);
  return status_of(error != cudaSuccess ? error : cudaSetDevice(device));
}

/// CUDA_ERROR_INVALID_VALUE where TMA cannot address one of the matrices.
template <class Config>
CUresult describe(GemmArguments<Config> const& args, Sm90Params<Config>& params) {
  using A = typename Config::A;
  using B = typename Config::B;
  using ElementD = typename Config::ElementD;
  bool const shared_a = args.batch_stride_a == 0;
  bool const shared_b = args.batch_stride_b == 0;
  MatrixExtent const a = {A::kContiguousK ? args.k : args.m, A::kContiguousK ? args.m : args.k, shared_a ? 1 : args.batch,
                          args.lda, args.batch_stride_a};
  MatrixExtent const b = {B::kContiguousK ? args.k : args.n, B::kContiguousK ? args.n : args.k, shared_b ? 1 : args.batch,
                          args.ldb, args.batch_stride_b};
  MatrixExtent const d = {Config::kDRowMajor ? args.n : args.m, Config::kDRowMajor ? args.m : args.n, args.batch, args.ldd,
                          args.batch_stride_d};
  params.batch_step_a = shared_a ? 0 : 1;
  params.batch_step_b = shared_b ? 0 : 1;
  int const lines_a = box_lines<A, Config::kClusterN>(a.across);
  int const lines_b = box_lines<B, Config::kClusterM>(b.across);
  params.stage_bytes = stage_bytes<A, Config::kClusterN>(lines_a) + stage_bytes<B, Config::kClusterM>(lines_b);
  constexpr int kDRows = 16;
  constexpr int kDAlong = Config::kDRowMajor ? Config::kSliceN : kDRows;
  constexpr int kDAcross = Config::kDRowMajor ? kDRows : Config::kSliceN;
  CUresult result = encode_tensor_map<typename A::Element>(params.map_a, args.a, a, A::kLine, lines_a, A::kSwizzleBytes);
  if (result != CUDA_SUCCESS) { return result; }
  result = encode_tensor_map<typename B::Element>(params.map_b, args.b, b, B::kLine, lines_b, B::kSwizzleBytes);
  if (result != CUDA_SUCCESS) { return result; }
  return encode_tensor_map<ElementD>(params.map_d, args.d, d, kDAlong, kDAcross, kDAlong * int(sizeof(ElementD)));
}

/// Bytes of flags before the partial sums of stream K: for more CTAs than any device runs at once, and as many for every
/// config, or the sums of one would be taken for the flags of another in the same workspace.
inline constexpr int64_t kFlagBytes = 65536;

/// Streams the tiles of a last wave that is less than two thirds full, with the last full one. A fuller wave is faster as
/// it is: clusters at different k read nothing in common, and L2 serves each of them alone.
template <class Config>
void stream_last_wave(StreamedTiles& streamed, unsigned clusters, unsigned resident, int k, void* workspace) {
  constexpr int64_t kFewest = 8;  // k tiles of a cluster
  int64_t const k_tiles = tiles(k, Config::kTileK);
  unsigned const rest = clusters % resident;
  unsigned const waves = clusters / resident;
  bool const worth = rest > 0 && 3 * rest < 2 * resident;
  int64_t const streamed_tiles = !worth ? 0 : waves == 0 ? clusters : rest + resident;
  int64_t const total = streamed_tiles * k_tiles;
  streamed.k_tiles = Divisor(unsigned(k_tiles));
  bool const fits = int64_t(resident) * kClusterCtas<Config> * int64_t(sizeof(unsigned)) <= kFlagBytes;
  if (workspace == nullptr || !fits || total < kFewest * resident || total > 0x7fffffff) { return; }
  streamed.tiles = unsigned(streamed_tiles);
  streamed.share = unsigned(total / resident);
  streamed.extra = unsigned(total % resident);
  auto* const bytes = static_cast<unsigned char*>(workspace);
  streamed.arrived = reinterpret_cast<unsigned*>(bytes);
  streamed.partials = reinterpret_cast<float4*>(bytes + kFlagBytes);
}

}  // namespace detail

/// Bytes of workspace with which a config of stream K shares its last tiles among all multiprocessors of the current
/// device: a CTA tile of sums and a flag for every CTA.
template <class Config>
Status workspace_sm90(int64_t& bytes) {
  bytes = 0;
  int resident = 0;
  Status const status = detail::resident_clusters<Config>(resident);
  if (status != Status::kSuccess) { return status; }
  bytes = detail::kFlagBytes + int64_t(resident) * kClusterCtas<Config> * Config::kTileM * Config::kTileN * 4;
  return Status::kSuccess;
}

/// Launches D = alpha * A * B + beta * C on `stream`; Args is the project's public argument struct. What TMA cannot
/// address goes to `unaligned(arguments, stream)`.
template <class Config, class Args, class Unaligned>
Status run_sm90(Args const& public_args, cudaStream_t stream, Unaligned const& unaligned) {
  GemmArguments<Config> args{};
  Status status = check_arguments<Config>(public_args, args);
  if (status != Status::kSuccess || args.empty()) { return status; }

  Sm90Params<Config> params{};
  if (args.k == 0) { return unaligned(args, stream); }
  CUresult described = detail::describe<Config>(args, params);
  if (described == CUDA_ERROR_INVALID_CONTEXT || described == CUDA_ERROR_NOT_INITIALIZED) {
    status = detail::make_context_current();
    if (status != Status::kSuccess) { return status; }
    described = detail::describe<Config>(args, params);
  }
  if (described == CUDA_ERROR_INVALID_VALUE) { return unaligned(args, stream); }
  if (described != CUDA_SUCCESS) { return Status::kCudaError; }
  params.m = int(args.m);
  params.n = int(args.n);
  params.k = int(args.k);
  unsigned const clusters_m = unsigned(detail::tiles(args.m, Config::kTileM * Config::kClusterM));
  unsigned const clusters_n = unsigned(detail::tiles(args.n, Config::kTileN * Config::kClusterN));
  params.raster = Raster(clusters_m, clusters_n, Config::kRasterGroup);
  params.clusters = clusters_m * clusters_n * unsigned(args.batch);
  params.c = args.c;
  params.ldc = args.ldc;
  params.batch_stride_c = args.batch_stride_c;
  params.d = args.d;
  params.ldd = args.ldd;
  params.batch_stride_d = args.batch_stride_d;
  params.ragged_d = (Config::kDRowMajor ? args.n : args.m) * int64_t(sizeof(typename Config::ElementD)) % 16 != 0;
  params.alpha = args.alpha;
  params.beta = args.beta;

  int resident = 0;
  status = detail::resident_clusters<Config>(resident);
  if (status != Status::kSuccess) { return status; }
  unsigned clusters = Config::kPersistent ? std::min(unsigned(resident), params.clusters) : params.clusters;
  if constexpr (Config::kStreamK) {
    if (!is_aligned_to<float4>(public_args.workspace)) { return Status::kInvalidArgument; }
    int64_t needed = 0;
    status = workspace_sm90<Config>(needed);
    if (status != Status::kSuccess) { return status; }
    void* const workspace = public_args.workspace_bytes >= needed ? public_args.workspace : nullptr;
    detail::stream_last_wave<Config>(params.streamed, params.clusters, unsigned(resident), params.k, workspace);
    if (params.streamed.tiles > 0) { clusters = unsigned(resident); }
  }
  if (int64_t(clusters) * kClusterCtas<Config> > 0x7fffffff) { return Status::kTooLarge; }

  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {unsigned(kClusterCtas<Config>), 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(clusters * unsigned(kClusterCtas<Config>));
  launch.blockDim = dim3(unsigned(Config::kThreads));
  launch.dynamicSmemBytes = size_t(Config::kSmemBytes);
  launch.stream = stream;
  launch.attrs = attributes;
  launch.numAttrs = 2;
  return status_of(cudaLaunchKernelEx(&launch, sm90_kernel<Config>, params));
}

/// What this Config's kernel takes on the current device.
template <class Config, class Info>
Status query_sm90(Info& info) {
  return query_kernel(&sm90_kernel<Config>, Config::kThreads, Config::kSmemBytes, info);
}

}  // namespace v0_1
}  // namespace mmagen
