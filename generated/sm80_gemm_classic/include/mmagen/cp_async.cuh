// SPDX-License-Identifier: MIT-0
// PTX wrappers for cp.async: copies 4, 8 or 16 bytes from global to shared memory, bypassing registers (sm_80 and later).
#pragma once

#include <cute/arch/copy_sm80.hpp>

namespace mmagen {
inline namespace v0_1 {

/// Copies the first `bytes` of a vector of kBytes and fills the rest with zeros; with bytes == 0 nothing is read.
/// Hazard: both addresses must be multiples of kBytes even if bytes is smaller.
template <int kBytes>
CUTE_DEVICE void cp_async_zero_fill(void* smem, void const* gmem, int bytes) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async moves 4, 8 or 16 bytes");
  uint32_t const smem_address = cute::cast_smem_ptr_to_uint(smem);
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_address), "l"(gmem), "r"(bytes));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(smem_address), "l"(gmem), "n"(kBytes), "r"(bytes));
  }
}

/// Copies 16 bytes if `enabled`. Predicated rather than a branch, so that the compiler may interleave it with mma.
CUTE_DEVICE void cp_async_16_if(void* smem, void const* gmem, bool enabled) {
  uint32_t const smem_address = cute::cast_smem_ptr_to_uint(smem);
  asm volatile(
      "{\n"
      "  .reg .pred enabled;\n"
      "  setp.ne.b32 enabled, %2, 0;\n"
      "  @enabled cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n"
      "}\n" ::"r"(smem_address),
      "l"(gmem), "r"(int(enabled)));
}

}  // namespace v0_1
}  // namespace mmagen
