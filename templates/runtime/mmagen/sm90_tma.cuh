// TMA, the copy engine of sm_90, as instructions: boxes of a tensor of rank 3 to shared memory and back.
// PTX ISA, "cp.async.bulk.tensor". Coordinates count elements, the contiguous mode first; elements of a box outside the
// tensor are read as zeros and not written.
#pragma once

#include <cuda.h>

#include "sm90_barrier.cuh"

namespace mmagen {
inline namespace v0_1 {

/// How L2 should treat what is read: the encodings of createpolicy.fractional for a fraction of 1.
enum class CacheHint : uint64_t {
  kNormal = 0x1000000000000000,
  kEvictFirst = 0x12f0000000000000,
  kEvictLast = 0x14f0000000000000,
};

CUTE_DEVICE void tma_prefetch(CUtensorMap const* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

/// Brings a box into L2. No read in the sense of the memory model: what others write later is what a load will see.
CUTE_DEVICE void tma_prefetch_box(CUtensorMap const* map, int along, int across, int batch) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map), "r"(along), "r"(across), "r"(batch)
               : "memory");
}

/// Reads a box into this CTA's shared memory; `full` counts its bytes.
CUTE_DEVICE void tma_load(CUtensorMap const* map, void* smem, Barrier& full, int along, int across, int batch, CacheHint hint) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(smem_address(smem)),
      "l"(map), "r"(smem_address(&full.word)), "r"(along), "r"(across), "r"(batch), "l"(uint64_t(hint))
      : "memory");
}

/// Reads a box once and writes it, at the same offset, to every CTA of the cluster whose bit is set in `ctas`; each
/// CTA's own `full` barrier counts the bytes.
CUTE_DEVICE void tma_load_multicast(CUtensorMap const* map, void* smem, Barrier& full, uint16_t ctas, int along, int across,
                                    int batch, CacheHint hint) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
      " [%0], [%1, {%4, %5, %6}], [%2], %3, %7;" ::"r"(smem_address(smem)),
      "l"(map), "r"(smem_address(&full.word)), "h"(ctas), "r"(along), "r"(across), "r"(batch), "l"(uint64_t(hint))
      : "memory");
}

/// Writes a box. The shared memory must have been fenced (fence_for_async_proxy) by those who wrote it.
CUTE_DEVICE void tma_store(CUtensorMap const* map, void const* smem, int along, int across, int batch) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(smem_address(smem)), "r"(along), "r"(across), "r"(batch)
               : "memory");
}

/// Makes a group of the calling thread's stores since the last one, empty where there were none.
CUTE_DEVICE void tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Waits until of all groups of the calling thread's stores only the last kPending may still have to read their shared
/// memory.
template <int kPending>
CUTE_DEVICE void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// What this thread wrote to shared memory becomes visible to TMA and wgmma, after the barrier that must follow.
CUTE_DEVICE void fence_for_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace v0_1
}  // namespace mmagen
