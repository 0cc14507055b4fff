// SPDX-License-Identifier: MIT-0
// Shared memory of the stages of A and B. TMA's 128-byte swizzle is a function of address bits: stages begin at multiples of
// 1024 bytes.
#pragma once

#include <cute/tensor.hpp>

namespace mmagen {
inline namespace v0_1 {

/// kAtLaunch: does the launch decide how many columns of a tile are computed?
template <class Config, bool kAtLaunch = Config::kTileNAtLaunch>
struct Sm90Stages {
  using A = typename Config::A;
  using B = typename Config::B;
  alignas(1024) cute::ArrayEngine<typename A::Element, cute::cosize_v<typename A::SmemLayout>> a;
  alignas(1024) cute::ArrayEngine<typename B::Element, cute::cosize_v<typename B::SmemLayout>> b;

  /// Number of stages.
  static constexpr int count(int) { return Config::kStages; }

  CUTE_DEVICE typename A::Element* stage_a(int stage) { return a.begin() + stage * A::kTileMn * A::kTileK; }

  template <class Params>
  CUTE_DEVICE typename B::Element* stage_b(Params const&, int stage) {
    return b.begin() + stage * B::kTileMn * B::kTileK;
  }
};

/// All stages of A, then those of B. A stage of B has as many lines as columns are computed: of fewer columns more stages fit.
template <class Config>
struct Sm90Stages<Config, true> {
  using A = typename Config::A;
  using B = typename Config::B;
  static_assert(B::kContiguousK, "a line is a column of the tile");
  static constexpr int kBytesA = A::kTileMn * A::kTileK * int(sizeof(typename A::Element));
  alignas(1024) unsigned char ring[Config::kRingBytes];

  /// Elements of a stage of B. Behind a first panel of fewer lines the second would begin elsewhere than wgmma's descriptors
  /// say.
  CUTE_HOST_DEVICE static constexpr int elements_b(int tile_n) { return (B::kPanels == 1 ? tile_n : B::kTileMn) * B::kTileK; }

  /// Number of stages of a launch that computes `tile_n` columns.
  static constexpr int count(int tile_n) {
    int const fit = Config::kRingBytes / (kBytesA + elements_b(tile_n) * int(sizeof(typename B::Element)));
    return fit < Config::kStages ? fit : Config::kStages;
  }

  CUTE_DEVICE typename A::Element* stage_a(int stage) {
    return reinterpret_cast<typename A::Element*>(ring) + stage * A::kTileMn * A::kTileK;
  }

  /// params: of the mainloop.
  template <class Params>
  CUTE_DEVICE typename B::Element* stage_b(Params const& params, int stage) {
    return reinterpret_cast<typename B::Element*>(ring + params.stages * kBytesA) + stage * elements_b(params.tile_n);
  }
};

}  // namespace v0_1
}  // namespace mmagen
