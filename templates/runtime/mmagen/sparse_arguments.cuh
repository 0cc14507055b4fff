// The first checks of a call of a kernel with a sparse A: extents and metadata.
#pragma once

#include "gemm_arguments.cuh"
#include "sparse_format.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Metadata are in blocks of 16 bytes or more. Extents are checked first: if the shape is empty, no pointer is read.
/// Operands: has the extents of a tile, and A.
template <class Operands, class Args>
Status check_sparse_call(Args const& args) {
  Status const status = check_extents<Operands>({args.m, args.n, args.k, args.batch});
  if (status != Status::kSuccess) { return status; }
  if (args.k == 0 || args.m == 0 || args.n == 0 || args.batch == 0) { return Status::kSuccess; }
  // Kernels count the words of 64 rows in 32 bits.
  if (metadata_blocks<Operands::A::kBlockK>(args.k) > kLargestExtent / kMetadataWords) { return Status::kTooLargeK; }
  if (args.metadata_a == nullptr) { return Status::kNullMetadataA; }
  if (args.batch > 1 && args.batch_stride_metadata_a < 0) { return Status::kNegativeStrideMetadataA; }
  bool const aligned = is_aligned(args.metadata_a, 16) && (args.batch == 1 || args.batch_stride_metadata_a % 4 == 0);
  return aligned ? Status::kSuccess : Status::kMisalignedMetadataA;
}

}  // namespace v0_1
}  // namespace mmagen
