// The C interface for pruning and compressing: checks the arguments of a call, with an error text that names what is wrong.
#pragma once

#include <cstdint>

#include "interface.cuh"
#include "sparse_compress.cuh"

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// A matrix of a call. bytes: what its pointer is aligned to; element_bytes: of an element. line, ld: in elements of its own;
/// ld_step: ld is a multiple of it.
struct SparseArgument {
  char const* name;
  void const* pointer;
  int bytes, element_bytes;
  long long line, lines, ld, ld_step, batch_stride;
  bool written;
};

inline Status check_sparse_argument(SparseArgument const& one, int64_t batch, LastStatus& last) {
  if (one.pointer == nullptr) { return last.tell(Status::kNullMatrix, "%s is NULL", one.name); }
  if (!is_aligned(one.pointer, one.bytes)) {
    return last.tell(Status::kMisalignedMatrix, "%s is %p, not aligned to %d bytes", one.name, one.pointer, one.bytes);
  }
  if (one.ld < one.line) {
    return last.tell(Status::kShortMatrix, "ld_%s is %lld; a line has %lld elements", one.name, one.ld, one.line);
  }
  if (batch > 1 && one.batch_stride < 0) {
    return last.tell(Status::kNegativeMatrix, "batch_stride_%s is %lld, a stride is 0 or more", one.name, one.batch_stride);
  }
  if (one.ld % one.ld_step != 0 || (batch > 1 && one.batch_stride % one.ld_step != 0)) {
    return last.tell(Status::kMisalignedMatrix,
                     "ld_%s is %lld and batch_stride_%s %lld; rows begin at 16-byte boundaries: multiples of %lld", one.name,
                     one.ld, one.name, one.batch_stride, one.ld_step);
  }
  if (one.written && batch > 1 && one.batch_stride == 0) {
    return last.tell(Status::kSharedMatrix, "batch_stride_%s is 0: all matrices of the batch would be written to one",
                     one.name);
  }
  if (!fits_64_bits({one.lines, one.ld, batch, one.batch_stride, one.element_bytes})) {
    return last.tell(
        Status::kTooLargeMatrix,
        "ld_%s is %lld and batch_stride_%s %lld, of %d bytes each: %lld lines of %lld matrices take more than 2^63 - 1 "
        "bytes",
        one.name, one.ld, one.name, one.batch_stride, one.element_bytes, one.lines, (long long)batch);
  }
  return Status::kSuccess;
}

inline Status check_sparse_extent(int64_t extent, Status negative, Status too_large, char const* name, LastStatus& last) {
  if (extent < 0) { return last.tell(negative, "%s is %lld, an extent is 0 or more", name, (long long)extent); }
  if (extent > kLargestExtent) {
    return last.tell(too_large, "%s is %lld, %lld is the most", name, (long long)extent, (long long)kLargestExtent);
  }
  return Status::kSuccess;
}

template <class Args>
Status check_sparse_extents(Args const& args, LastStatus& last) {
  Status status = check_sparse_extent(args.m, Status::kNegativeM, Status::kTooLargeM, "m", last);
  if (status == Status::kSuccess) { status = check_sparse_extent(args.k, Status::kNegativeK, Status::kTooLargeK, "k", last); }
  if (status == Status::kSuccess && args.batch < 0) {
    status = last.tell(Status::kNegativeBatch, "batch is %lld, a count is 0 or more", (long long)args.batch);
  }
  return status;
}

}  // namespace detail

/// The matrices of a call, of which the task's are checked. Where there are no elements, nothing is.
template <class Format, bool kContiguousK, detail::SparseTask kTask, class Args>
Status read_sparse_matrices(Args const& args, SparseMatrices<typename Format::Storage>& matrices, LastStatus& last) {
  using detail::SparseTask;
  using Storage = typename Format::Storage;
  using Size = CompressedSize<Format>;
  constexpr int kBytes = int(sizeof(Storage));
  matrices = {args.m,
              args.k,
              args.batch,
              static_cast<Storage const*>(args.dense),
              args.ld_dense,
              args.batch_stride_dense,
              static_cast<Storage*>(args.pruned),
              args.ld_pruned,
              args.batch_stride_pruned,
              static_cast<Storage*>(args.values),
              args.ld_values,
              args.batch_stride_values,
              static_cast<uint32_t*>(args.metadata),
              args.batch_stride_metadata,
              reinterpret_cast<unsigned long long*>(args.violation),
              kContiguousK,
              false,
              false};
  Status status = detail::check_sparse_extents(args, last);
  if (status == Status::kSuccess && !is_aligned(args.violation, 8)) {
    status = last.tell(Status::kMisalignedMatrix, "violation is %p, not aligned to 8 bytes", (void const*)args.violation);
  }
  if (status != Status::kSuccess || args.m == 0 || args.k == 0 || args.batch == 0) { return status; }
  long long const line = kContiguousK ? args.k : args.m, lines = kContiguousK ? args.m : args.k;
  long long const words = Size::metadata_words(args.m, args.k);
  // Kernels count elements and words of all matrices, and `violation` is the number of one. A matrix has fewer than 2^62.
  if (args.batch > INT64_MAX / (words > args.m * args.k ? words : args.m * args.k)) {
    return last.tell(Status::kTooLargeMatrix,
                     "batch is %lld: the matrices have more than 2^63 - 1 elements, or words of metadata",
                     (long long)args.batch);
  }
  detail::SparseArgument const dense = {
      "dense", args.dense, kBytes, kBytes, line, lines, args.ld_dense, 1, args.batch_stride_dense, false};
  detail::SparseArgument const pruned = {
      "pruned", args.pruned, kBytes, kBytes, line, lines, args.ld_pruned, 1, args.batch_stride_pruned, true};
  detail::SparseArgument const values = {
      "values", args.values, 16, kBytes, Size::ld(args.k), args.m, args.ld_values, 16 / kBytes, args.batch_stride_values, true};
  detail::SparseArgument const metadata = {
      "metadata", args.metadata, 16, 4, words, 1, words, 4, args.batch_stride_metadata, kTask == SparseTask::kCompress};
  if (kTask != SparseTask::kCheck) { status = detail::check_sparse_argument(dense, args.batch, last); }
  if (status == Status::kSuccess && kTask == SparseTask::kPrune) {
    status = detail::check_sparse_argument(pruned, args.batch, last);
  }
  if (status == Status::kSuccess && kTask == SparseTask::kCompress) {
    status = detail::check_sparse_argument(values, args.batch, last);
  }
  if (status == Status::kSuccess && kTask != SparseTask::kPrune) {
    status = detail::check_sparse_argument(metadata, args.batch, last);
  }
  auto const aligned = [&](void const* pointer, int64_t ld, int64_t stride) {
    return kContiguousK && detail::rows_are_aligned(pointer, ld, stride, args.batch, kBytes);
  };
  matrices.dense_is_aligned = aligned(args.dense, args.ld_dense, args.batch_stride_dense);
  matrices.pruned_is_aligned = aligned(args.pruned, args.ld_pruned, args.batch_stride_pruned);
  return status;
}

/// A task on memory of the device.
template <class Format, bool kContiguousK, detail::SparseTask kTask, class Args>
Status sparse_call(Args const& args, cudaStream_t stream, LastStatus& last) {
  SparseMatrices<typename Format::Storage> matrices{};
  Status const status = read_sparse_matrices<Format, kContiguousK, kTask>(args, matrices, last);
  return status == Status::kSuccess ? sparse_task<Format, kTask>(matrices, stream) : status;
}

/// A task on memory of the host, which says at once whether something is wrong, and where.
template <class Format, bool kContiguousK, detail::SparseTask kTask, class Args>
Status sparse_call_on_host(Args const& args, LastStatus& last) {
  using detail::SparseTask;
  SparseMatrices<typename Format::Storage> matrices{};
  Status const status = read_sparse_matrices<Format, kContiguousK, kTask>(args, matrices, last);
  if (status != Status::kSuccess) { return status; }
  long long const at = sparse_task_on_host<Format, kTask>(matrices);
  if (args.violation != nullptr) { *args.violation = at; }
  if (at < 0) { return Status::kSuccess; }
  if (kTask == SparseTask::kCheck) {
    return last.tell(Status::kIllegalMetadata, "word %lld of metadata is 0x%08x, which names no legal places", at,
                     unsigned(matrices.metadata[at]));
  }
  long long const column = at % args.k, row = at / args.k % args.m;
  return last.tell(Status::kNotSparse, "row %lld of matrix %lld has more than %d nonzeros in columns %lld to %lld", row,
                   at / args.k / args.m, Format::kKept, column, column + Format::kGroup - 1);
}

}  // namespace v0_1
}  // namespace mmagen
