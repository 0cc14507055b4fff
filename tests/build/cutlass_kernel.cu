// CUTLASS's own kernel for what sm90_gemm_bf16_tn does, as its CollectiveBuilder puts it together: what compiling one of
// ours is measured by.
#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

using Tile = cute::Shape<cute::_128, cute::_256, cute::_64>;
using Cluster = cute::Shape<cute::_2, cute::_1, cute::_1>;
using Element = cutlass::bfloat16_t;
constexpr int kAlignment = 8;

using Epilogue =
    cutlass::epilogue::collective::CollectiveBuilder<cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
                                                     cutlass::epilogue::collective::EpilogueTileAuto, float,
                                                     float,                                           // accumulator, compute
                                                     Element, cutlass::layout::RowMajor, kAlignment,  // C
                                                     Element, cutlass::layout::RowMajor, kAlignment,  // D
                                                     cutlass::epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;
using Mainloop = cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor, kAlignment,  // A
    Element, cutlass::layout::ColumnMajor, kAlignment,                                                    // B
    float, Tile, Cluster, cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<
    cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>>;

// Called by nobody, and all the same what instantiates the kernel and its host code.
cutlass::Status multiply(typename Gemm::Arguments const& arguments, void* workspace, cudaStream_t stream) {
  Gemm gemm;
  cutlass::Status const status = gemm.initialize(arguments, workspace, stream);
  return status == cutlass::Status::kSuccess ? gemm.run(stream) : status;
}
