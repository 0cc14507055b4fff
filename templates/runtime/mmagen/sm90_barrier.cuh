// Barriers of the sm_90 kernels: mbarriers that count arrivals and bytes, the ring of stages they guard, and the
// cluster's own barrier. PTX ISA, "Parallel synchronization and communication instructions: mbarrier".
#pragma once

#include <cute/config.hpp>
#include <cuda/std/cstdint>

namespace mmagen {
inline namespace v0_1 {

CUTE_DEVICE uint32_t smem_address(void const* pointer) { return uint32_t(__cvta_generic_to_shared(pointer)); }

/// One mbarrier in shared memory. It flips its phase when all expected arrivals and all expected bytes are there.
struct Barrier {
  uint64_t word;

  CUTE_DEVICE void init(uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(smem_address(&word)), "r"(arrivals));
  }

  /// One arrival that also announces how many bytes TMA will bring in this phase.
  CUTE_DEVICE void arrive_and_expect(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem_address(&word)), "r"(bytes) : "memory");
  }

  CUTE_DEVICE void arrive() { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem_address(&word)) : "memory"); }

  /// Arrives at the same barrier of another CTA of the cluster. Orders nothing beyond this CTA: wgmma's reads are over
  /// when its wait returns, and a release at cluster scope would cost a membar.gpu in every k tile.
  CUTE_DEVICE void arrive_at(uint32_t cta) {
    uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(smem_address(&word)), "r"(cta));
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
  }

  /// Returns once the phase of this parity is over. The barrier may be at most one phase ahead of the one waited for.
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

/// Makes barriers that one thread initialised known to the cluster and to TMA; meet_cluster() must follow.
CUTE_DEVICE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// A position in the ring of stages, and the parity of the phase that its barriers are in.
template <int kStages>
struct PipelineState {
  int stage = 0;
  uint32_t phase = 0;

  CUTE_DEVICE void operator++() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }

  /// Over the stages that somebody else works through.
  CUTE_DEVICE void skip(int count) {
    unsigned const to = unsigned(stage) + unsigned(count);
    phase ^= (to / kStages) & 1;
    stage = int(to % kStages);
  }
};

/// All threads of the cluster (of the CTA, where it is alone) wait for each other.
template <int kCtas>
CUTE_DEVICE void sync_cluster() {
  if constexpr (kCtas == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
}

/// The same without an order among what they read and wrote.
template <int kCtas>
CUTE_DEVICE void meet_cluster() {
  if constexpr (kCtas == 1) {
    __syncthreads();
  } else {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  }
}

/// Lets the next kernel of the stream begin, up to its own wait_for_last_launch(). Launches with programmatic stream
/// serialization overlap that far; for others this is nothing.
CUTE_DEVICE void admit_next_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

/// Waits for the kernel before, and for its memory. Nothing earlier may read or write what kernels write.
CUTE_DEVICE void wait_for_last_launch() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace v0_1
}  // namespace mmagen
