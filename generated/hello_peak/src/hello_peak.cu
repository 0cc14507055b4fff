// SPDX-License-Identifier: MIT-0
// Loops of one instruction each.
#include <cute/arch/mma_sm80.hpp>

#include "mmagen/entry.cuh"
#include "mmagen/register_loop.cuh"

namespace {

using namespace mmagen::peak;

// The members of Entry, in its order.
Registration const registration{
    {"SM80_16x8x16_F32BF16BF16F32_TN", "f32 bf16 bf16 f32", 4096.0, 32, 0, Element::kBf16, Element::kBf16, Element::kF32, 4, 2, Element::kBf16, 4, 16, false, Sums::kReturn, 255, 255, 2048.0,
     {
         {1, 8, register_loop<cute::SM80_16x8x16_F32BF16BF16F32_TN, 1, 8>},
         {2, 8, register_loop<cute::SM80_16x8x16_F32BF16BF16F32_TN, 2, 8>},
         {4, 8, register_loop<cute::SM80_16x8x16_F32BF16BF16F32_TN, 4, 8>},
         {8, 8, register_loop<cute::SM80_16x8x16_F32BF16BF16F32_TN, 8, 8>},
     }},
};

}  // namespace
