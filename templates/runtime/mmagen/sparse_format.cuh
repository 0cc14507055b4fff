// The format of a sparse matrix A in memory: the kept elements, and metadata in the order of sparse wgmma. Host and device.
//
// kGroup neighbours along K form a group: 4, or 2 for 32-bit types. kKept = kGroup / 2 elements of a group are stored, and 4
// bits of metadata select their positions. For groups of 4, bits 0-1 are the index of the first element and bits 2-3 the index
// of the second, which is larger. For groups of 2, 0b0100 is the first element and 0b1110 the second (PTX ISA, "Sparse matrix
// storage").
//
// Values: (M, ceil(K / kGroup) * kKept), rows contiguous. Metadata: 32-bit words, in blocks of 64 rows x kBlockK columns with
// one word for each thread of a warpgroup: (word of the block, block along K, block along M), the first mode contiguous. Blocks
// along K are padded to a multiple of kMetadataPad. A warp holds 16 rows; with 16-bit and 32-bit types a word has 16 bits of
// each of the rows lane / 4 and lane / 4 + 8, and a quad holds consecutive columns; with 8-bit types it has 32 bits of the row
// lane / 4 + 8 * (lane % 2), and lanes 2 and 3 of a quad hold the second half of the columns (PTX ISA, "Register fragments for
// sparse wgmma").
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace mmagen {
inline namespace v0_1 {

inline constexpr int kMetadataRows = 64;    // of A, in a block of metadata
inline constexpr int kMetadataWords = 128;  // in a block
inline constexpr int kMetadataPad = 4;      // blocks along K

/// Blocks along K of a row's metadata, with the padding.
template <int kBlockK>
constexpr int64_t metadata_blocks(int64_t k) {
  int64_t const padded = int64_t(kBlockK) * kMetadataPad;
  return (k + padded - 1) / padded * kMetadataPad;
}

/// How the magnitudes of elements compare, by their bits. A NaN is larger than every number.
enum class Magnitude { kFloat, kSigned, kUnsigned };

/// Storage_: an unsigned integer of an element's size.
template <class Storage_, Magnitude kMagnitude>
struct SparseFormat {
  using Storage = Storage_;
  static constexpr int kGroup = sizeof(Storage) == 4 ? 2 : 4;
  static constexpr int kKept = kGroup / 2;
  // A run: neighbours along K whose metadata are consecutive bits of one word. It has 32 bytes of A, of which 16 are stored.
  static constexpr int kRun = 32 / int(sizeof(Storage));
  static constexpr int kRunBits = kRun / kGroup * 4;
  static constexpr int kRuns = 32 / kRunBits;  // of a word: one row's, or two rows'
  static constexpr int kBlockK = kRun * (kRuns == 2 ? 4 : 2);
  static constexpr uint32_t kNothing = 0x44444444;  // metadata of zeros: the first elements are kept

  /// Where run `run` of word `word` of a block begins: a row of the block's 64, and a column of its kBlockK.
  __host__ __device__ static int row_of(int word, int run) {
    int const in_warp = word % 32;
    return word / 32 * 16 + in_warp / 4 + 8 * (kRuns == 2 ? run : in_warp % 2);
  }
  __host__ __device__ static int column_of(int word) { return kRun * (kRuns == 2 ? word % 4 : word % 4 / 2); }

  /// An unsigned number that is larger where the magnitude is.
  __host__ __device__ static uint32_t magnitude(Storage bits) {
    constexpr Storage kSign = Storage(Storage(1) << (8 * sizeof(Storage) - 1));
    if constexpr (kMagnitude == Magnitude::kFloat) {
      return uint32_t(bits & Storage(~kSign));
    } else if constexpr (kMagnitude == Magnitude::kSigned) {
      return uint32_t((bits & kSign) != 0 ? Storage(0) - bits : bits) & Storage(~Storage(0));
    } else {
      return uint32_t(bits);
    }
  }

  /// A bit for each element of a group that is kept: the kKept of largest magnitude, of equal ones the first.
  __host__ __device__ static unsigned kept_of(Storage const* group) {
    unsigned kept = 0;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      int before = 0;  // elements that are kept rather than this one
#pragma unroll
      for (int j = 0; j < kGroup; ++j) {
        uint32_t const mine = magnitude(group[i]), other = magnitude(group[j]);
        before += j < i ? int(other >= mine) : j > i ? int(other > mine) : 0;
      }
      kept |= unsigned(before < kKept) << i;
    }
    return kept;
  }

  /// Has a group more nonzero elements than are kept?
  __host__ __device__ static bool overfull(Storage const* group) {
    int nonzeros = 0;
#pragma unroll
    for (int i = 0; i < kGroup; ++i) { nonzeros += int(magnitude(group[i]) != 0); }
    return nonzeros > kKept;
  }

  /// The metadata of a group of which the elements of `kept` are stored.
  __host__ __device__ static uint32_t metadata_of(unsigned kept) {
    if constexpr (kGroup == 2) {
      return kept == 1u ? 0b0100u : 0b1110u;
    } else {
      uint32_t const first = (kept & 1) != 0 ? 0 : (kept & 2) != 0 ? 1 : 2;
      uint32_t const second = (kept & 8) != 0 ? 3 : (kept & 4) != 0 ? 2 : 1;
      return first | second << 2;
    }
  }

  /// Is it the metadata of a group?
  __host__ __device__ static bool is_legal(uint32_t metadata) {
    return kGroup == 2 ? metadata == 0b0100u || metadata == 0b1110u : (metadata & 3) < metadata >> 2;
  }
};

}  // namespace v0_1
}  // namespace mmagen
