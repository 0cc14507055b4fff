// SPDX-License-Identifier: MIT-0
// sm90_micro_sparse: all decisions about the kernel.
#pragma once

#include <cute/arch/mma_sm90_gmma_sparse.hpp>

#include "mmagen/fragment.cuh"

namespace sm90_micro_sparse {

/// D = A * B + C by wgmma.mma_async.sp.sync.aligned.m64n32k32.f32.bf16.bf16.
struct Config {
  using Op = cute::SM90::GMMA::SPARSE::GMMA_64x32x32_F32BF16BF16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>;
  static constexpr int kThreads = 128;
  static constexpr int kSmemBytes = 4096;

  // Fragments: layout (thread, value) -> row + rows * column of the logical matrix, rows and columns, bits of an element in
  // memory, and how many elements of each group of neighbours are stored.

  // A: bf16; the 2 nonzeros of each 4 neighbours along K
  using A = mmagen::CoreMatrices<64, 32>;

  // B: bf16
  using B = mmagen::CoreMatrices<32, 64>;

  // C: f32
  using C = mmagen::Fragment<cute::Layout<cute::Shape<cute::Shape<cute::_4, cute::_8, cute::_4>, cute::Shape<cute::_2, cute::_2, cute::_4>>, cute::Stride<cute::Stride<cute::_128, cute::_1, cute::_16>, cute::Stride<cute::_64, cute::_8, cute::_512>>>,
                             64, 32, 32>;

  // E: metadata of A, one byte per 8 logical elements
  using E = mmagen::Fragment<cute::Layout<cute::Shape<cute::Shape<cute::_2, cute::_2, cute::_8, cute::_4>, cute::Shape<cute::_16, cute::_2>>, cute::Stride<cute::Stride<cute::_1024, cute::_0, cute::_1, cute::_16>, cute::Stride<cute::_64, cute::_8>>>,
                             64, 4, 8, 8, 1>;

  // The instruction takes none.
  using SFA = void;
  using SFB = void;
};

}  // namespace sm90_micro_sparse
