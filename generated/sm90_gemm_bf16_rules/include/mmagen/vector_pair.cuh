// SPDX-License-Identifier: MIT-0
// Vectors of 16 bytes that begin at any element: two aligned vectors are loaded and shifted.
#pragma once

#include <cute/config.hpp>
#include <cuda/std/cstdint>

namespace mmagen {
inline namespace v0_1 {
namespace detail {

/// Elements from the aligned address at or before `from` to `from`.
template <class Element>
CUTE_HOST_DEVICE int misalignment(Element const* from) {
  return int(reinterpret_cast<uintptr_t>(from) % 16 / sizeof(Element));
}

/// Two adjacent aligned vectors of 16 bytes.
struct VectorPair {
  uint4 low{}, high{};

  /// The 16 bytes that begin `shift` bytes (0 to 15) within. kUnit: bytes of an element; shift is a multiple of it.
  template <int kUnit>
  CUTE_DEVICE uint4 shifted(unsigned shift) const {
    uint32_t const words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    uint32_t by_8[6], by_4[5], out[4];
    CUTE_UNROLL
    for (int i = 0; i < 6; ++i) { by_8[i] = shift & 8 ? words[i + 2] : words[i]; }
    CUTE_UNROLL
    for (int i = 0; i < 5; ++i) { by_4[i] = shift & 4 ? by_8[i + 1] : by_8[i]; }
    CUTE_UNROLL
    for (int i = 0; i < 4; ++i) { out[i] = kUnit < 4 ? __funnelshift_r(by_4[i], by_4[i + 1], shift % 4 * 8) : by_4[i]; }
    return {out[0], out[1], out[2], out[3]};
  }
};

}  // namespace detail
}  // namespace v0_1
}  // namespace mmagen
