// Shared memory of the stages of A and B. TMA's swizzle of S bytes is a function of address bits and repeats every 8 * S bytes:
// each stage begins at a multiple of that.
#pragma once

#include <cute/tensor.hpp>

namespace mmagen {
inline namespace v0_1 {

/// Columns of a tile that a launch computes, its number of stages, and the buffers in which a warpgroup stages slices of D.
struct LaunchedStages {
  int tile_n, stages, buffers;
};

/// kAtLaunch: does the launch decide how many columns of a tile are computed?
template <class Config, bool kAtLaunch = Config::kTileNAtLaunch>
struct Sm90Stages {
  using A = typename Config::A;
  using B = typename Config::B;
  alignas(1024) cute::ArrayEngine<typename A::Element, cute::cosize_v<typename A::SmemLayout>> a;
  alignas(1024) cute::ArrayEngine<typename B::Element, cute::cosize_v<typename B::SmemLayout>> b;

  CUTE_HOST_DEVICE static constexpr int count(int) { return Config::kStages; }

  /// k_tiles: of each tile of D.
  CUTE_HOST_DEVICE static constexpr LaunchedStages launched(int, int64_t) {
    return {Config::kTileN, Config::kStages, Config::kEpilogueBuffers};
  }

  CUTE_DEVICE typename A::Element* stage_a(int stage) { return a.begin() + stage * A::kTileMn * A::kTileK; }

  template <class Params>
  CUTE_DEVICE typename B::Element* stage_b(Params const&, int stage) {
    return b.begin() + stage * B::kTileMn * B::kTileK;
  }
};

/// All stages of A, then those of B. A stage of B has as many lines as columns are computed, so more stages fit if these are
/// fewer. The epilogue's buffers follow the ring. If there is room for one for each warpgroup, and a launch has two, these
/// begin kEpilogueBytes before the end of the ring, which then holds no stages there.
template <class Config>
struct Sm90Stages<Config, true> {
  using A = typename Config::A;
  using B = typename Config::B;
  static_assert(B::kContiguousK, "a line is a column of the tile");
  static constexpr int kBytesA = A::kTileMn * A::kTileK * int(sizeof(typename A::Element));
  alignas(1024) unsigned char ring[Config::kRingBytes];

  /// Elements of a stage of B. With several panels, stages keep the size of whole tiles: descriptors expect the second panel
  /// kTileMn lines after the first.
  CUTE_HOST_DEVICE static constexpr int elements_b(int tile_n) { return (B::kPanels == 1 ? tile_n : B::kTileMn) * B::kTileK; }
  static_assert(kBytesA % (8 * A::kSwizzleBytes) == 0, "the swizzle repeats");
  static_assert(8 * B::kTileK * int(sizeof(typename B::Element)) % (8 * B::kSwizzleBytes) == 0, "tile_n is a multiple of 8");

  /// Number of stages of a launch that computes `tile_n` columns, with so many buffers for each warpgroup.
  CUTE_HOST_DEVICE static constexpr int count(int tile_n, int buffers = Config::kEpilogueBuffers) {
    int const ring = Config::kRingBytes - (buffers - Config::kEpilogueBuffers) * Config::kEpilogueBytes;
    int const fit = ring / (kBytesA + elements_b(tile_n) * int(sizeof(typename B::Element)));
    return fit < Config::kStages ? fit : Config::kStages;
  }

  /// A warpgroup has two buffers if that leaves as many stages, or if K is short: storing D then takes most of the time, and a
  /// second buffer gains more than the stages in whose place it is.
  CUTE_HOST_DEVICE static constexpr LaunchedStages launched(int tile_n, int64_t k_tiles) {
    int const most = count(tile_n);
    if (Config::kEpilogueBuffers == Config::kMostEpilogueBuffers) { return {tile_n, most, Config::kEpilogueBuffers}; }
    int const beside_two = count(tile_n, 2);
    bool const two = beside_two == most || (beside_two >= 2 && 2 * k_tiles <= 3 * most);
    return two ? LaunchedStages{tile_n, beside_two, 2} : LaunchedStages{tile_n, most, 1};
  }

  CUTE_DEVICE typename A::Element* stage_a(int stage) {
    return reinterpret_cast<typename A::Element*>(ring) + stage * A::kTileMn * A::kTileK;
  }

  /// params: of the mainloop, or LaunchedStages.
  template <class Params>
  CUTE_DEVICE typename B::Element* stage_b(Params const& params, int stage) {
    return reinterpret_cast<typename B::Element*>(ring + params.stages * kBytesA) + stage * elements_b(params.tile_n);
  }
};

/// Of a launch that computes whole tiles.
template <class Config>
CUTE_HOST_DEVICE constexpr LaunchedStages whole_tiles() {
  return {Config::kTileN, Sm90Stages<Config>::count(Config::kTileN), Config::kEpilogueBuffers};
}

}  // namespace v0_1
}  // namespace mmagen
