// Scales and zero points of narrow weights, one for each row and group of columns: their addresses, and the registers that hold
// those of a thread's rows.
#pragma once

#include <cute/tensor.hpp>

#include "gemm_arguments.cuh"
#include "sm90_scales.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace detail {

/// One scale or zero point for each row and group of columns. strides in elements.
template <class Element>
struct GroupTensor {
  Element const* data;
  int64_t ld, batch_stride;

  template <bool kContiguousK>
  CUTE_DEVICE Element const* at(int row, int group, int batch) const {
    Element const* const matrix = data + batch * batch_stride;
    return kContiguousK ? matrix + row * ld + group : matrix + group * ld + row;
  }
};

/// The bits of an element, read through the cache for data that the launch does not write.
template <class Element>
CUTE_DEVICE uint32_t load_bits(Element const* from) {
  if constexpr (sizeof(Element) == 4) {
    return __ldg(reinterpret_cast<uint32_t const*>(from));
  } else if constexpr (sizeof(Element) == 2) {
    return __ldg(reinterpret_cast<uint16_t const*>(from));
  } else {
    return __ldg(reinterpret_cast<uint8_t const*>(from));
  }
}

/// The float with these bits of an Element.
template <class Element>
CUTE_DEVICE float float_of_bits(uint32_t bits) {
  if constexpr (sizeof(Element) == 4) {
    return __uint_as_float(bits);
  } else if constexpr (cute::is_same_v<Element, cute::bfloat16_t>) {
    return __uint_as_float(bits << 16);
  } else {
    return float(Element::bitcast(uint16_t(bits)));
  }
}

CUTE_DEVICE void prefetch_l2(void const* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

/// Address of the factor of `group`; those of consecutive groups are `step` bytes apart. Both are unsigned, so that the address
/// takes two instructions, or one if the step is a constant.
template <class Element>
CUTE_DEVICE Element const* of_group(Element const* first, uint32_t group, uint64_t step) {
  return reinterpret_cast<Element const*>(reinterpret_cast<char const*>(first) + group * step);
}

}  // namespace detail

/// The scales and zero points of a call.
template <class Config>
struct Sm90GroupScales {
  using Weights = typename Config::Weights;
  using Scale = typename Weights::Scale;
  static constexpr int kChunks = Config::kTileK / Weights::kChunk;  // of a k tile

  detail::GroupTensor<Scale> scales;
  detail::GroupTensor<uint8_t> zeros;
  int rows, groups;

  static Sm90GroupScales of(GemmArguments<Config> const& args) {
    Sm90GroupScales made{};
    made.rows = int(args.m);
    made.groups = Weights::kGroup == 0 ? 1 : int(detail::ceil_div(args.k, Weights::kGroup));
    made.scales = {static_cast<Scale const*>(args.scale_b.data), args.scale_b.ld, args.scale_b.batch_stride};
    if constexpr (Weights::kZeros) {
      made.zeros = {static_cast<uint8_t const*>(args.zero_b.data), args.zero_b.ld, args.zero_b.batch_stride};
    }
    return made;
  }

  /// The group that has a chunk. The last chunks of the last k tile may lie behind K.
  CUTE_DEVICE uint32_t group_of(uint32_t chunk) const {
    if constexpr (Weights::kGroup == 0) {
      return 0;
    } else {
      return cute::min(chunk / (Weights::kGroup / Weights::kChunk), uint32_t(groups - 1));
    }
  }
};

/// The scales and zero points of one chunk and a thread's rows, as bits: they are in use a chunk after the load began.
template <class Config>
struct GroupFactors {
  static constexpr int kCountM = AccumulatorLines<Config>::kCountM;

  uint32_t scale[kCountM][2];  // (atom, row)
  uint32_t zero[kCountM][2];
};

/// Loads them. A thread has rows 8 apart of each atom, which the four threads of a quad have in common.
template <class Config>
struct GroupFactorsLoad {
  using Weights = typename Config::Weights;
  using Scale = typename Weights::Scale;
  using Lines = AccumulatorLines<Config>;
  using Factors = GroupFactors<Config>;
  static constexpr int kCountM = Lines::kCountM;

  /// Where the factors of a row begin, those of group 0.
  struct Row {
    Scale const* scale;
    uint8_t const* zero;
  };

  Sm90GroupScales<Config> const& call;
  Row rows[kCountM][2];
  Row ahead[kCountM];              // that this thread prefetches
  uint32_t chunk_ahead;            // of a k tile, for which it prefetches
  uint64_t scale_step, zero_step;  // bytes from a group to the next

  template <class Tile>
  CUTE_DEVICE GroupFactorsLoad(Sm90GroupScales<Config> const& call, Tile const& tile, Lines const& lines)
      : call(call),
        scale_step((Weights::kContiguousK ? 1 : call.scales.ld) * sizeof(Scale)),
        zero_step(Weights::kContiguousK ? 1 : call.zeros.ld) {
    constexpr int kChunks = Sm90GroupScales<Config>::kChunks;
    // The four threads of a quad divide the 32-byte sectors of a k tile among themselves. Contiguous along K: for each of the
    // two rows, one thread prefetches for the first chunk and one for the last. Contiguous along N: a sector has the 16-bit
    // scales of both rows, so each thread prefetches for a chunk of its own; f32 scales of the two rows are in two sectors.
    constexpr bool kSectorOfEachRow = Weights::kContiguousK || sizeof(Scale) > 2;
    int const thread_of_quad = lines.column_of_lane / 2;
    int const row_ahead = kSectorOfEachRow ? thread_of_quad / 2 : 0;
    uint32_t const chunk = kSectorOfEachRow ? thread_of_quad % 2 : thread_of_quad;
    chunk_ahead = Weights::kContiguousK ? chunk * (kChunks - 1) : chunk % kChunks;
    CUTE_UNROLL
    for (int m = 0; m < kCountM; ++m) {
      CUTE_UNROLL
      for (int i = 0; i < 2; ++i) {
        // Rows behind the last one make elements that are not stored.
        int const row = cute::min(tile.m * Config::kTileM + lines.row(m) + lines.row_of_lane + 8 * i, call.rows - 1);
        rows[m][i].scale = call.scales.template at<Weights::kContiguousK>(row, 0, tile.batch);
        if constexpr (Weights::kZeros) { rows[m][i].zero = call.zeros.template at<Weights::kContiguousK>(row, 0, tile.batch); }
      }
      ahead[m] = rows[m][row_ahead];
    }
  }

  /// Prefetches those of a k tile into L2. Contiguous along N: of the first four chunks, with f32 scales of the first two.
  CUTE_DEVICE void prefetch(int k_tile) const {
    uint32_t const group = call.group_of(k_tile * Sm90GroupScales<Config>::kChunks + chunk_ahead);
    CUTE_UNROLL
    for (int m = 0; m < kCountM; ++m) {
      detail::prefetch_l2(detail::of_group(ahead[m].scale, group, scale_step));
      if constexpr (Weights::kZeros) { detail::prefetch_l2(detail::of_group(ahead[m].zero, group, zero_step)); }
    }
  }

  /// Loads those of a chunk.
  CUTE_DEVICE void operator()(Factors& factors, uint32_t chunk) const {
    uint32_t const group = call.group_of(chunk);
    CUTE_UNROLL
    for (int m = 0; m < kCountM; ++m) {
      CUTE_UNROLL
      for (int i = 0; i < 2; ++i) {
        factors.scale[m][i] = detail::load_bits(detail::of_group(rows[m][i].scale, group, scale_step));
        if constexpr (Weights::kZeros) {
          factors.zero[m][i] = detail::load_bits(detail::of_group(rows[m][i].zero, group, zero_step));
        }
      }
    }
  }
};

/// Adds the sums of a chunk, scaled, to tCrC.
template <class Config, class TensorS, class TensorRC>
CUTE_DEVICE void add_scaled(TensorS const& sums, uint32_t const (&scale_bits)[AccumulatorLines<Config>::kCountM][2],
                            TensorRC& tCrC) {
  using Lines = AccumulatorLines<Config>;
  using Scale = typename Config::Weights::Scale;
  CUTE_UNROLL
  for (int m = 0; m < Lines::kCountM; ++m) {
    float const scale[2] = {detail::float_of_bits<Scale>(scale_bits[m][0]), detail::float_of_bits<Scale>(scale_bits[m][1])};
    CUTE_UNROLL
    for (int n = 0; n < Lines::kCountN; ++n) {
      CUTE_UNROLL
      for (int i = 0; i < Lines::kMmaN / 2; ++i) { tCrC(i, m, n) = __fmaf_rn(scale[i / 2 % 2], sums(i, m, n), tCrC(i, m, n)); }
    }
  }
}

}  // namespace v0_1
}  // namespace mmagen
