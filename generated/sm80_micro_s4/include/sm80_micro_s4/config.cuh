// sm80_micro_s4: every decision of the kernel.
#pragma once

#include <cute/arch/mma_sm80.hpp>

#include "mmagen/fragment.cuh"

namespace sm80_micro_s4 {

/// D = A * B + C by mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32.
struct Config {
  using Op = cute::SM80_16x8x32_S32S4S4S32_TN;
  static constexpr int kThreads = 32;
  static constexpr int kSmemBytes = 0;

  // Fragments: (thread, value) -> row + rows * column of the logical matrix; rows and columns, bits of an element in memory,
  // and of how many neighbours how many are stored.
  // The layouts are the PTX ISA's. CUTLASS 4.2.0 differs: B: CUTLASS has ((4,8),(8)):((32,1),(8)), which leaves elements out, as the PTX ISA does not; NVIDIA/cutlass pull request 3140 mends it

  // A: s4, 2 in a byte, the first in the lowest bits
  using A = mmagen::Fragment<cute::Layout<cute::Shape<cute::Shape<cute::_4, cute::_8>, cute::Shape<cute::_8, cute::_2>>, cute::Stride<cute::Stride<cute::_128, cute::_1>, cute::Stride<cute::_16, cute::_8>>>,
                             16, 32, 4>;

  // B: s4, 2 in a byte, the first in the lowest bits
  using B = mmagen::Fragment<cute::Layout<cute::Shape<cute::Shape<cute::_4, cute::_8>, cute::_8>, cute::Stride<cute::Stride<cute::_64, cute::_1>, cute::_8>>,
                             8, 32, 4>;

  // C: s32
  using C = mmagen::Fragment<cute::Layout<cute::Shape<cute::Shape<cute::_4, cute::_8>, cute::Shape<cute::_2, cute::_2>>, cute::Stride<cute::Stride<cute::_32, cute::_1>, cute::Stride<cute::_16, cute::_8>>>,
                             16, 8, 32>;

  // The instruction takes none.
  using E = void;
  using SFA = void;
  using SFB = void;
};

}  // namespace sm80_micro_s4
