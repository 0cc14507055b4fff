// A GEMM of CUTLASS 3.x by its collective builders, called through its device adapter. Macros choose: ELEMENT_A, ELEMENT_B,
// ELEMENT_C (of C and D), ACCUMULATOR; LAYOUT_A, LAYOUT_B, LAYOUT_C (RowMajor or ColumnMajor); TILE_M, TILE_N, TILE_K;
// CLUSTER_M, CLUSTER_N; SCHEDULE, EPILOGUE (schedules of mainloop and epilogue); SCHEDULER (tile scheduler); SPLITS (of
// stream-K).
#include <cute/tensor.hpp>

#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/gemm/kernel/tile_scheduler.hpp>
#include <cutlass/util/packed_stride.hpp>

#include "driver.h"

using namespace cute;

#ifndef SCHEDULER
#define SCHEDULER cutlass::gemm::PersistentScheduler
#endif
#ifndef EPILOGUE
#define EPILOGUE cutlass::epilogue::collective::EpilogueScheduleAuto
#endif

using CtaTile = Shape<Int<TILE_M>, Int<TILE_N>, Int<TILE_K>>;
using ClusterShape = Shape<Int<CLUSTER_M>, Int<CLUSTER_N>, _1>;
using ElementA = ELEMENT_A;
using ElementB = ELEMENT_B;
using ElementC = ELEMENT_C;
using Accumulator = ACCUMULATOR;
using LayoutA = cutlass::layout::LAYOUT_A;
using LayoutB = cutlass::layout::LAYOUT_B;
using LayoutC = cutlass::layout::LAYOUT_C;
constexpr int kAlignA = 128 / cutlass::sizeof_bits<ElementA>::value;
constexpr int kAlignB = 128 / cutlass::sizeof_bits<ElementB>::value;
constexpr int kAlignC = 128 / cutlass::sizeof_bits<ElementC>::value;

using CollectiveEpilogue = cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, CtaTile, ClusterShape, cutlass::epilogue::collective::EpilogueTileAuto,
    Accumulator, Accumulator, ElementC, LayoutC, kAlignC, ElementC, LayoutC, kAlignC, EPILOGUE>::CollectiveOp;

using CollectiveMainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, ElementA, LayoutA, kAlignA, ElementB, LayoutB, kAlignB, Accumulator,
    CtaTile, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename CollectiveEpilogue::SharedStorage))>,
    SCHEDULE>::CollectiveOp;

using Kernel =
    cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, CollectiveMainloop, CollectiveEpilogue, SCHEDULER>;
using Device = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

extern "C" int run(Gemm const* g) {
  int const m = int(g->m), n = int(g->n), k = int(g->k), batch = int(g->batch);
  auto const a = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, make_shape(m, k, batch));
  auto const b = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, make_shape(n, k, batch));
  auto const c = cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, make_shape(m, n, batch));
  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = cutlass::KernelHardwareInfo::query_device_multiprocessor_count(0);
  typename Device::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                                       {m, n, k, batch},
                                       {static_cast<ElementA const*>(g->a), a, static_cast<ElementB const*>(g->b), b},
                                       {{}, static_cast<ElementC const*>(g->c), c, static_cast<ElementC*>(g->d), c},
                                       hardware};
  arguments.epilogue.thread.alpha = Accumulator(g->alpha);
  arguments.epilogue.thread.beta = Accumulator(g->beta);
#ifdef SPLITS
  arguments.scheduler.splits = SPLITS;
#endif
  Device gemm;
  if (Device::get_workspace_size(arguments) > size_t(g->workspace_bytes)) { return 1001; }
  cutlass::Status status = gemm.can_implement(arguments);
  if (status == cutlass::Status::kSuccess) { status = gemm.initialize(arguments, g->workspace); }
  if (status == cutlass::Status::kSuccess) { status = gemm.run(); }
  return status == cutlass::Status::kSuccess ? int(cudaGetLastError()) : 1000 + int(status);
}
