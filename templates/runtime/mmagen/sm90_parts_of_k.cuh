// Groups of warpgroups of one CTA take the k tiles of a tile in turn; this header adds their sums through shared memory.
#pragma once

#include <cute/tensor.hpp>

namespace mmagen {
inline namespace v0_1 {

/// kParts groups of kThreads threads, each of which has kSums sums of the same tile in f32.
template <int kParts, int kThreads, int kSums>
struct PartsOfK {
  static constexpr int kVectors = kSums / 4;
  static_assert(kSums % 4 == 0, "sums are exchanged as vectors of four");

  /// Those of all parts but the first: vectors of neighbouring threads are adjacent.
  struct SharedStorage {
    float4 sums[(kParts - 1) * kVectors * kThreads];
  };

  /// Adds to the sums of part 0 those of the others, in their order. Called by all threads of all parts.
  template <class TensorRC>
  CUTE_DEVICE static void add_up(SharedStorage& storage, int part, int thread, TensorRC& tCrC) {
    sync();  // part 0 has read what lies there of the tile before
    if (part > 0) {
      CUTE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        storage.sums[slot(part, v, thread)] = make_float4(tCrC(4 * v), tCrC(4 * v + 1), tCrC(4 * v + 2), tCrC(4 * v + 3));
      }
    }
    sync();
    if (part > 0) { return; }
    CUTE_UNROLL
    for (int other = 1; other < kParts; ++other) {
      CUTE_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        float4 const four = storage.sums[slot(other, v, thread)];
        tCrC(4 * v) += four.x;
        tCrC(4 * v + 1) += four.y;
        tCrC(4 * v + 2) += four.z;
        tCrC(4 * v + 3) += four.w;
      }
    }
  }

 private:
  static constexpr int kBarrier = 2;  // stream-K has 1

  CUTE_DEVICE static void sync() { asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kParts * kThreads) : "memory"); }
  CUTE_DEVICE static int slot(int part, int vector, int thread) { return ((part - 1) * kVectors + vector) * kThreads + thread; }
};

/// One part has all sums.
template <int kThreads, int kSums>
struct PartsOfK<1, kThreads, kSums> {
  struct SharedStorage {};

  template <class TensorRC>
  CUTE_DEVICE static void add_up(SharedStorage&, int, int, TensorRC&) {}
};

}  // namespace v0_1
}  // namespace mmagen
