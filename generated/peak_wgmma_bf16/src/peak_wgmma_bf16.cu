// Loops that keep the tensor cores busy with one instruction each.
#include <cute/arch/mma_sm90_gmma.hpp>

#include "mmagen/entry.cuh"
#include "mmagen/wgmma_loop.cuh"

namespace {

using namespace mmagen::peak;

// The members of Entry, in its order.
Registration const registration{
    {"SM90_64x256x16_F32BF16BF16_SS", "f32 bf16 bf16 f32", 524288.0, 128, 81920, Element::kBf16, Element::kBf16, Element::kF32, 0, 0, Element::kBf16, 128, 16, false, Sums::kReturn, 255, 255, 4096.0,
     {
         {1, 4, wgmma_loop<cute::SM90::GMMA::MMA_64x256x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>, 256, 1, 4, 384>},
     }},
};

}  // namespace
