// The functions that prune, compress and check, as the C interface of a project calls them, on memory of the host and of the
// device.
#include <cstring>

#include "mmagen/sparse_interface.cuh"

/// What a test asks for: extents and leading dimensions, then what became of it.
struct Case {
  int64_t m, k, batch, ld_dense, contiguous_k, violation;
  char sentence[320];
};

namespace {

struct Args {
  uint64_t struct_size;
  int64_t m, k, batch;
  void const* dense;
  int64_t ld_dense, batch_stride_dense;
  void* pruned;
  int64_t ld_pruned, batch_stride_pruned;
  void* values;
  int64_t ld_values, batch_stride_values;
  void* metadata;
  int64_t batch_stride_metadata;
  int64_t* violation;
};

using mmagen::Magnitude;
using mmagen::SparseFormat;
using Task = mmagen::detail::SparseTask;

template <class Format, bool kContiguousK>
int compress(Case& one, void const* dense, void* pruned, void* values, uint32_t* metadata) {
  using Size = mmagen::CompressedSize<Format>;
  mmagen::LastStatus last{};
  int64_t const lines = kContiguousK ? one.m : one.k;
  Args args = {sizeof(Args),
               one.m,
               one.k,
               one.batch,
               dense,
               one.ld_dense,
               one.ld_dense * lines,
               pruned,
               one.ld_dense,
               one.ld_dense * lines,
               values,
               Size::ld(one.k),
               Size::ld(one.k) * one.m,
               metadata,
               Size::metadata_words(one.m, one.k),
               &one.violation};
  auto status = mmagen::sparse_call_on_host<Format, kContiguousK, Task::kPrune>(args, last);
  if (status == mmagen::Status::kSuccess) {
    status = mmagen::sparse_call_on_host<Format, kContiguousK, Task::kCompress>(args, last);
  }
  if (last.told) { std::memcpy(one.sentence, last.sentence, sizeof one.sentence); }
  return int(status);
}

template <class Format>
int compress(Case& one, void const* dense, void* pruned, void* values, uint32_t* metadata) {
  return one.contiguous_k != 0 ? compress<Format, true>(one, dense, pruned, values, metadata)
                               : compress<Format, false>(one, dense, pruned, values, metadata);
}

}  // namespace

/// kind: 0 16-bit floats, 1 tf32, 2 e4m3, 3 s8, 4 u8. Returns the status.
extern "C" int compress_on_host(int kind, Case* one, void const* dense, void* pruned, void* values, uint32_t* metadata) {
  switch (kind) {
    case 0: return compress<SparseFormat<uint16_t, Magnitude::kFloat>>(*one, dense, pruned, values, metadata);
    case 1: return compress<SparseFormat<uint32_t, Magnitude::kFloat>>(*one, dense, pruned, values, metadata);
    case 2: return compress<SparseFormat<uint8_t, Magnitude::kFloat>>(*one, dense, pruned, values, metadata);
    case 3: return compress<SparseFormat<uint8_t, Magnitude::kSigned>>(*one, dense, pruned, values, metadata);
    default: return compress<SparseFormat<uint8_t, Magnitude::kUnsigned>>(*one, dense, pruned, values, metadata);
  }
}

/// Checks metadata of 16-bit floats on the host.
extern "C" int check_on_host(Case* one, uint32_t* metadata) {
  using Format = SparseFormat<uint16_t, Magnitude::kFloat>;
  mmagen::LastStatus last{};
  Args args{};
  args.m = one->m;
  args.k = one->k;
  args.batch = one->batch;
  args.metadata = metadata;
  args.batch_stride_metadata = mmagen::CompressedSize<Format>::metadata_words(one->m, one->k);
  args.violation = &one->violation;
  auto const status = mmagen::sparse_call_on_host<Format, true, Task::kCheck>(args, last);
  if (last.told) { std::memcpy(one->sentence, last.sentence, sizeof one->sentence); }
  return int(status);
}

/// The same on the device: metadata and violation are its memory.
extern "C" int check_on_device(Case* one, uint32_t* metadata, int64_t* violation) {
  using Format = SparseFormat<uint16_t, Magnitude::kFloat>;
  mmagen::LastStatus last{};
  Args args{};
  args.m = one->m;
  args.k = one->k;
  args.batch = one->batch;
  args.metadata = metadata;
  args.batch_stride_metadata = mmagen::CompressedSize<Format>::metadata_words(one->m, one->k);
  args.violation = violation;
  return int(mmagen::sparse_call<Format, true, Task::kCheck>(args, nullptr, last));
}
