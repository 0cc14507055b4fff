// PTX wrappers for TMA on sm_90: boxes of a tensor of rank 3 or 4 to shared memory and back. PTX ISA, "cp.async.bulk.tensor".
// Coordinates count elements, the contiguous mode first. Elements of a box outside the tensor are read as zeros and are not
// written.
#pragma once

#include <cuda.h>

#include "sm90_barrier.cuh"

namespace mmagen {
inline namespace v0_1 {

/// L2 eviction priority of a load: the encodings of createpolicy.fractional for a fraction of 1.
enum class CacheHint : uint64_t {
  kNormal = 0x1000000000000000,
  kEvictFirst = 0x12f0000000000000,
  kEvictLast = 0x14f0000000000000,
};

CUTE_DEVICE void tma_prefetch_descriptor(CUtensorMap const* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Prefetches a box into L2. This is not a read in the memory model: a later load sees what was written since.
CUTE_DEVICE void tma_prefetch_box(CUtensorMap const* map, int along, int across, int batch) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map), "r"(along), "r"(across), "r"(batch)
               : "memory");
}

/// Copies a box to this CTA's shared memory; `full` counts its bytes.
CUTE_DEVICE void tma_load(CUtensorMap const* map, void* smem, Barrier& full, int along, int across, int batch, CacheHint hint) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(smem_address(smem)),
      "l"(map), "r"(smem_address(&full.word)), "r"(along), "r"(across), "r"(batch), "l"(uint64_t(hint))
      : "memory");
}

/// Copies a box to the same offset of the shared memory of every CTA of the cluster whose bit is set in `ctas`; the `full`
/// barrier of each of these CTAs counts the bytes.
CUTE_DEVICE void tma_load_multicast(CUtensorMap const* map, void* smem, Barrier& full, uint16_t ctas, int along, int across,
                                    int batch, CacheHint hint) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
      " [%0], [%1, {%4, %5, %6}], [%2], %3, %7;" ::"r"(smem_address(smem)),
      "l"(map), "r"(smem_address(&full.word)), "h"(ctas), "r"(along), "r"(across), "r"(batch), "l"(uint64_t(hint))
      : "memory");
}

/// Copies a box to global memory. The threads that wrote the shared memory must have called fence_view_async_shared().
CUTE_DEVICE void tma_store(CUtensorMap const* map, void const* smem, int along, int across, int batch) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(smem_address(smem)), "r"(along), "r"(across), "r"(batch)
               : "memory");
}

/// The same for a matrix in tiles, see TileMode in sm90_tensor_map.cuh.
CUTE_DEVICE void tma_store(CUtensorMap const* map, void const* smem, int along, int across, int tile, int batch) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(smem_address(smem)), "r"(along), "r"(across), "r"(tile), "r"(batch)
               : "memory");
}

/// Commits the calling thread's stores since the last commit as a group, which may be empty.
CUTE_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Waits until at most the last kPending groups of the calling thread may still be reading shared memory.
template <int kPending>
CUTE_DEVICE void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// Makes this thread's writes to shared memory visible to TMA and wgmma (the async proxy). A barrier must follow.
CUTE_DEVICE void fence_view_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace v0_1
}  // namespace mmagen
