// Split K: the CTAs of a cluster that share a tile add up their sums through distributed shared memory.
//
// Each CTA keeps the slices that it will store, gives the others' away, and adds what it gets in the order of the
// parts of K: the result is the same in every run. The stages of A and B are free by then and hold the exchange.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_epilogue.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
struct Sm90SplitK {
  static constexpr int kSplitK = Config::kSplitK;
  static constexpr int kThreads = 128 * Config::kConsumers;
  static constexpr int kValues = Sm90Epilogue<Config>::kSlices * Config::kSliceN / 2;  // accumulators of a thread
  static constexpr int kPart = kValues / kSplitK;
  static_assert(kPart % 4 == 0, "sums travel four at a time");
  static_assert((kSplitK - 1) * kPart * 4 * kThreads <= sizeof(Sm90Storage<Config>::a) + sizeof(Sm90Storage<Config>::b),
                "the stages hold the sums of all others");
  using Sum = typename Config::ElementAccumulator;
  static_assert(sizeof(Sum) == 4, "sums travel as 32-bit words");

  /// Called by every thread of every CTA of the cluster, when no stage is in use any more.
  template <class TensorRC>
  CUTE_DEVICE static void run(Sm90Storage<Config>& storage, TensorRC& tCrC, ClusterPlace<Config> const& place,
                              bool multiplies) {
    using namespace cute;
    sync_cluster<kClusterCtas<Config>>();  // the others have read their stages too
    if (multiplies) {
      for_each(make_int_sequence<kSplitK>{}, [&](auto part) {
        if (part != place.split) { give(storage, tCrC, place, part); }
      });
    }
    sync_cluster<kClusterCtas<Config>>();
    if (multiplies) {
      for_each(make_int_sequence<kSplitK>{}, [&](auto part) {
        if (part == place.split) { add(storage, tCrC, part); }
      });
    }
  }

 private:
  /// Where the sums of the CTA `from` lie at the CTA `to`: one float4 of each thread next to the other's.
  CUTE_DEVICE static int slot(int from, int to, int vector) {
    int const sender = from < to ? from : from - 1;
    return ((sender * (kPart / 4) + vector) * kThreads + int(threadIdx.x)) * 16;
  }

  template <class TensorRC, class Part>
  CUTE_DEVICE static void give(Sm90Storage<Config>& storage, TensorRC const& tCrC, ClusterPlace<Config> const& place,
                               Part part) {
    uint32_t const base = smem_address(storage.a.begin());
    uint32_t const to = place.m + Config::kClusterM * (place.n + Config::kClusterN * int(part));
    CUTE_UNROLL
    for (int vector = 0; vector < kPart / 4; ++vector) {
      auto const word = [&](int i) { return reinterpret_cast<uint32_t const&>(tCrC(int(part) * kPart + vector * 4 + i)); };
      asm volatile(
          "{\n"
          ".reg .b32 remote;\n"
          "mapa.shared::cluster.u32 remote, %0, %1;\n"
          "st.shared::cluster.v4.b32 [remote], {%2, %3, %4, %5};\n"
          "}" ::"r"(base + slot(place.split, part, vector)),
          "r"(to), "r"(word(0)), "r"(word(1)), "r"(word(2)), "r"(word(3))
          : "memory");
    }
  }

  template <class TensorRC, class Part>
  CUTE_DEVICE static void add(Sm90Storage<Config>& storage, TensorRC& tCrC, Part part) {
    auto const* const bytes = reinterpret_cast<unsigned char const*>(storage.a.begin());
    CUTE_UNROLL
    for (int vector = 0; vector < kPart / 4; ++vector) {
      Sum total[4] = {};
      CUTE_UNROLL
      for (int from = 0; from < kSplitK; ++from) {
        struct alignas(16) Four {
          Sum sum[4];
        } other;
        if (from != int(part)) { other = *reinterpret_cast<Four const*>(bytes + slot(from, part, vector)); }
        CUTE_UNROLL
        for (int i = 0; i < 4; ++i) { total[i] += from == int(part) ? tCrC(int(part) * kPart + vector * 4 + i) : other.sum[i]; }
      }
      CUTE_UNROLL
      for (int i = 0; i < 4; ++i) { tCrC(int(part) * kPart + vector * 4 + i) = total[i]; }
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen
