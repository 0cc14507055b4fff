// SPDX-License-Identifier: MIT-0
// PTX wrappers for synchronization on sm_90: mbarriers that count arrivals and bytes, the cluster barrier, and dependent
// launches. PTX ISA, "Parallel synchronization and communication instructions".
#pragma once

#include <cute/config.hpp>
#include <cuda/std/cstdint>

namespace mmagen {
inline namespace v0_1 {

CUTE_DEVICE uint32_t smem_address(void const* pointer) { return uint32_t(__cvta_generic_to_shared(pointer)); }

/// True in one lane of the warp, always the same one. All 32 lanes must call it together. If a branch depends on this alone,
/// the compiler knows that one thread executes it; otherwise it puts each TMA instruction into a loop over the active threads,
/// since its operands are in uniform registers.
CUTE_DEVICE bool elect_one() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected)::"memory");
  return elected != 0;
}

/// One mbarrier in shared memory. A phase completes when all expected arrivals and all expected bytes have arrived.
struct Barrier {
  uint64_t word;

  CUTE_DEVICE void init(uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_address(&word)), "r"(arrivals));
  }

  /// One arrival, which also adds to the bytes that TMA must write in this phase.
  CUTE_DEVICE void arrive_and_expect(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_address(&word)), "r"(bytes) : "memory");
  }

  CUTE_DEVICE void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_address(&word)) : "memory"); }

  /// One arrival, which the barrier was initialized with, as soon as this thread's cp.async copies so far have been written.
  CUTE_DEVICE void arrive_after_copies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(smem_address(&word)) : "memory");
  }

  /// Arrives at the same barrier of another CTA of the cluster. Release semantics at CTA scope only: wgmma has finished
  /// its reads when its wait returns, and a release at cluster scope would cost a membar.gpu in every k tile.
  CUTE_DEVICE void arrive_at(uint32_t cta) {
    uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(smem_address(&word)), "r"(cta));
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
  }

  /// Has the phase of this parity completed? The barrier may be at most one phase ahead of it.
  CUTE_DEVICE bool is_complete(uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(done)
        : "r"(smem_address(&word)), "r"(parity)
        : "memory");
    return done != 0;
  }

  /// Returns once the phase of this parity has completed. The barrier may be at most one phase ahead of it.
  CUTE_DEVICE void wait(uint32_t parity) {
    uint32_t done = 0;
    do {
      asm volatile(
          "{\n"
          ".reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "selp.u32 %0, 1, 0, p;\n"
          "}"
          : "=r"(done)
          : "r"(smem_address(&word)), "r"(parity)
          : "memory");
    } while (!done);
  }
};

/// Makes initialized barriers visible to the cluster and to TMA; sync_cluster_relaxed() must follow.
CUTE_DEVICE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// Barrier among all threads of the cluster (of the CTA, if kCtas is 1), with release and acquire semantics.
template <int kCtas>
CUTE_DEVICE void sync_cluster() {
  if constexpr (kCtas == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
}

/// The same without memory ordering.
template <int kCtas>
CUTE_DEVICE void sync_cluster_relaxed() {
  if constexpr (kCtas == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  }
}

/// Allows the next kernel of the stream to start, up to its own wait_on_dependent_grids(). Has an effect only between
/// launches with programmatic stream serialization.
CUTE_DEVICE void launch_dependent_grids() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

/// Waits until the preceding kernel has completed and its writes are visible. Global memory that kernels write must not be
/// read or written before.
CUTE_DEVICE void wait_on_dependent_grids() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace v0_1
}  // namespace mmagen
