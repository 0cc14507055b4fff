// The kernel that splits A and B of f32 into bf16 pieces before a GEMM.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <cute/config.hpp>

#include "bf16_pieces.cuh"
#include "gemm_arguments.cuh"
#include "sm90_barrier.cuh"
#include "status.cuh"
#include "tile_raster.cuh"

namespace mmagen {
inline namespace v0_1 {

/// The pieces of one operand in memory; extents and strides in elements. A line of pieces has, for each k tile, the columns of
/// the first piece, of the second, ...; columns beyond K are zeros.
struct OperandPieces {
  static constexpr int kBlockLines = 64, kBlockColumns = 128;  // that a CTA splits

  float const* from = nullptr;
  int64_t ld = 0, batch_stride = 0;
  uint16_t* to = nullptr;
  int64_t lines = 0, k = 0, matrices = 0;
  int64_t tiles_k = 0, pitch = 0;
  FastDivmod blocks_of_line, blocks_of_matrix;

  OperandPieces() = default;

  /// `batch`: matrices, which may all be the same one. An operand without columns has one k tile of zeros.
  OperandPieces(float const* matrix, int64_t ld, int64_t batch_stride, int64_t lines, int64_t k, int64_t batch, int tile_k,
                int pieces)
      : from(matrix),
        ld(ld),
        batch_stride(batch_stride),
        lines(lines),
        k(k),
        matrices(batch_stride == 0 ? 1 : batch),
        tiles_k(k > 0 ? detail::ceil_div(k, tile_k) : 1),
        pitch(tiles_k * tile_k * pieces) {
    int64_t const along = detail::ceil_div(tiles_k * tile_k, kBlockColumns), across = detail::ceil_div(lines, kBlockLines);
    if (!is_countable(tile_k)) { return; }
    blocks_of_line = FastDivmod(unsigned(along));
    blocks_of_matrix = FastDivmod(unsigned(along * across));
  }

  int64_t blocks(int tile_k) const {
    return detail::ceil_div(tiles_k * tile_k, kBlockColumns) * detail::ceil_div(lines, kBlockLines) * matrices;
  }
  bool is_countable(int tile_k) const { return blocks(tile_k) <= 0x3fffffff; }
  int64_t matrix_stride() const { return lines * pitch; }
  int64_t bytes() const { return matrices * matrix_stride() * 2; }
};

struct PiecesParams {
  OperandPieces a, b;
  unsigned blocks_a;  // CTAs that split A; the others split B
};

inline constexpr int kSplitThreads = 256;

namespace detail {

/// Splits a block of an operand. Eight neighbours along K form a vector of each piece, within one k tile.
template <int kPieces, int kTileK, bool kContiguousK>
CUTE_DEVICE void split_block(OperandPieces const& operand, unsigned block, float (*tile)[OperandPieces::kBlockLines + 1]) {
  constexpr int kVector = 8;
  constexpr int kColumns = 32;  // of a step: 4 threads of each line
  constexpr int kSteps = OperandPieces::kBlockColumns / kColumns;
  static_assert(kTileK % kVector == 0, "a vector lies in one k tile");
  unsigned const matrix = operand.blocks_of_matrix.divide(block);
  unsigned const of_matrix = block - matrix * operand.blocks_of_matrix.divisor;
  unsigned const across = operand.blocks_of_line.divide(of_matrix);
  int64_t const first_line = int64_t(across) * OperandPieces::kBlockLines;
  int64_t const first_column = int64_t(of_matrix - across * operand.blocks_of_line.divisor) * OperandPieces::kBlockColumns;
  float const* const from = operand.from + matrix * operand.batch_stride;
  int64_t const line = first_line + threadIdx.x / 4;
  int64_t const begin = first_column + threadIdx.x % 4 * kVector;
  bool const is_line = line < operand.lines;
  int64_t const columns = operand.tiles_k * kTileK;

  float values[kSteps][kVector];
  if constexpr (kContiguousK) {
    CUTE_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      int64_t const k = begin + step * kColumns;
      float const* const at = from + line * operand.ld + k;
      if (is_line && k + kVector <= operand.k && reinterpret_cast<uintptr_t>(at) % 16 == 0) {
        float4 const low = __ldg(reinterpret_cast<float4 const*>(at));
        float4 const high = __ldg(reinterpret_cast<float4 const*>(at) + 1);
        float const loaded[kVector] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        CUTE_UNROLL
        for (int i = 0; i < kVector; ++i) { values[step][i] = loaded[i]; }
      } else {
        CUTE_UNROLL
        for (int i = 0; i < kVector; ++i) { values[step][i] = is_line && k + i < operand.k ? __ldg(at + i) : 0.0f; }
      }
    }
  } else {
    // Neighbouring threads load neighbouring lines of a column, and exchange them through shared memory.
    constexpr int kAtOnce = kSplitThreads / OperandPieces::kBlockLines;  // columns
    int64_t const own = first_line + threadIdx.x % OperandPieces::kBlockLines;
    CUTE_UNROLL
    for (int i = 0; i < OperandPieces::kBlockColumns / kAtOnce; ++i) {
      int const column = i * kAtOnce + int(threadIdx.x) / OperandPieces::kBlockLines;
      int64_t const k = first_column + column;
      bool const inside = own < operand.lines && k < operand.k;
      tile[column][threadIdx.x % OperandPieces::kBlockLines] = inside ? __ldg(from + k * operand.ld + own) : 0.0f;
    }
    __syncthreads();
    CUTE_UNROLL
    for (int step = 0; step < kSteps; ++step) {
      CUTE_UNROLL
      for (int i = 0; i < kVector; ++i) {
        values[step][i] = tile[step * kColumns + threadIdx.x % 4 * kVector + i][threadIdx.x / 4];
      }
    }
  }

  uint16_t* const to = operand.to + (int64_t(matrix) * operand.lines + line) * operand.pitch;
  CUTE_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    int64_t const k = begin + step * kColumns;
    if (!is_line || k >= columns) { break; }
    uint32_t words[kVector / 2][kPieces];
    CUTE_UNROLL
    for (int i = 0; i < kVector / 2; ++i) { split_pair(values[step][2 * i], values[step][2 * i + 1], words[i]); }
    uint32_t const k_tile = uint32_t(k) / kTileK;
    uint16_t* const at = to + int64_t(k_tile) * (kPieces * kTileK) + (uint32_t(k) - k_tile * kTileK);
    CUTE_UNROLL
    for (int piece = 0; piece < kPieces; ++piece) {
      *reinterpret_cast<uint4*>(at + piece * kTileK) = {words[0][piece], words[1][piece], words[2][piece], words[3][piece]};
    }
  }
}

}  // namespace detail

/// Pieces: of a Config, see config.cuh. Grid: a CTA for each block of A, then for each block of B.
template <class Pieces>
__global__ void __launch_bounds__(kSplitThreads) split_kernel(__grid_constant__ PiecesParams const params) {
  constexpr bool kTransposes = !Pieces::kContiguousKA || !Pieces::kContiguousKB;
  __shared__ float tile[kTransposes ? OperandPieces::kBlockColumns : 1][OperandPieces::kBlockLines + 1];
  launch_dependent_grids();
  wait_on_dependent_grids();
  if (blockIdx.x < params.blocks_a) {
    detail::split_block<Pieces::kCount, Pieces::kTileK, Pieces::kContiguousKA>(params.a, blockIdx.x, tile);
  } else {
    detail::split_block<Pieces::kCount, Pieces::kTileK, Pieces::kContiguousKB>(params.b, blockIdx.x - params.blocks_a, tile);
  }
}

}  // namespace v0_1
}  // namespace mmagen
