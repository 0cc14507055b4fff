// A GEMM that CUTLASS 3.x's collective builders put together, launched on the caller's stream.
//
// It has what our kernels have: as many stages as fit beside the epilogue, no C where beta is 0 and, where the translation unit
// defines CUTLASS_ENABLE_GDC_FOR_SM90, programmatic dependent launch. CUTLASS 4.2's stream-K does not compile with that.
#pragma once

#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/gemm/kernel/tile_scheduler.hpp>

#include <cstddef>

#include "cutlass_product.h"

namespace cutlass_builder {

// A kernel that does not wait for the one before must not be launched while that runs.
#if defined(CUTLASS_ENABLE_GDC_FOR_SM90)
static constexpr bool kDependentLaunch = true;
#else
static constexpr bool kDependentLaunch = false;
#endif

/// Device memory for the partial sums of stream-K; it grows, and is freed with the process.
inline void* workspace_of(std::size_t bytes) {
  static void* memory = nullptr;
  static std::size_t held = 0;
  if (bytes > held) {
    cudaFree(memory);
    held = cudaMalloc(&memory, bytes) == cudaSuccess ? bytes : 0;
    if (held == 0) { memory = nullptr; }
  }
  return memory;
}

/// The leading dimension is the one of the first two strides that is not known at compile time.
template <class Stride>
Stride packed(int64_t ld, int64_t batch_stride) {
  Stride stride{};
  if constexpr (cute::is_static<cute::tuple_element_t<0, Stride>>::value) {
    cute::get<1>(stride) = ld;
  } else {
    cute::get<0>(stride) = ld;
  }
  cute::get<2>(stride) = batch_stride;
  return stride;
}

/// Config: A, B, D, Accumulator (element types), LayoutA, LayoutB, LayoutD, Tile, Cluster, Mainloop and Epilogue (schedules),
/// Scheduler (of tiles).
template <class Config>
struct Gemm {
  template <class Element>
  static constexpr int kAlign = 128 / cutlass::sizeof_bits<Element>::value;  // TMA's 16 bytes

  using A = typename Config::A;
  using B = typename Config::B;
  using D = typename Config::D;
  using Sum = typename Config::Accumulator;
  using Tile = typename Config::Tile;
  using Cluster = typename Config::Cluster;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto, Sum,
      Sum, void, typename Config::LayoutD, kAlign<D>, D, typename Config::LayoutD, kAlign<D>,
      typename Config::Epilogue>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, A, typename Config::LayoutA, kAlign<A>, B, typename Config::LayoutB,
      kAlign<B>, Sum, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
      typename Config::Mainloop>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue,
                                                      typename Config::Scheduler>;
  using Device = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

  static typename Device::Arguments arguments(Product const& product, int swizzle) {
    static auto const hardware = cutlass::KernelHardwareInfo::make_kernel_hardware_info<Kernel>();
    typename Device::Arguments of{
        cutlass::gemm::GemmUniversalMode::kGemm,
        {static_cast<int>(product.m), static_cast<int>(product.n), static_cast<int>(product.k),
         static_cast<int>(product.batch)},
        {static_cast<A const*>(product.a), packed<typename Kernel::StrideA>(product.lda, product.a_batch_stride),
         static_cast<B const*>(product.b), packed<typename Kernel::StrideB>(product.ldb, product.b_batch_stride)},
        {{}, nullptr, {}, static_cast<D*>(product.d), packed<typename Kernel::StrideD>(product.ldd, product.d_batch_stride)},
        hardware};
    of.epilogue.thread.alpha = static_cast<Sum>(product.alpha);
    of.epilogue.thread.beta = Sum(0);
    of.scheduler.max_swizzle_size = swizzle;
    return of;
  }

  /// swizzle: most tiles of one dimension that follow each other. Returns what went wrong, or nullptr.
  static char const* run(Product const& product, int swizzle) {
    typename Device::Arguments const of = arguments(product, swizzle);
    std::size_t const bytes = Device::get_workspace_size(of);
    void* const workspace = workspace_of(bytes);
    if (bytes > 0 && workspace == nullptr) { return "no device memory for the workspace"; }
    Device device;
    cutlass::Status status = Device::can_implement(of);
    if (status == cutlass::Status::kSuccess) { status = device.initialize(of, workspace, product.stream); }
    if (status == cutlass::Status::kSuccess) { status = device.run(product.stream, nullptr, kDependentLaunch); }
    return status == cutlass::Status::kSuccess ? nullptr : cutlass::cutlassGetStatusString(status);
  }
};

}  // namespace cutlass_builder
