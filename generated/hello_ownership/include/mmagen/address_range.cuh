// SPDX-License-Identifier: MIT-0
// The limits on the strides of a call: byte offsets have 64 bits, and the strides of a tensor map are less than 2^40 bytes.
#pragma once

#include <cstdint>

namespace mmagen {
inline namespace v0_1 {

/// Matrices of a call in memory: each of `matrices`, `batch_stride` apart, has `lines` lines, `ld` apart.
/// Strides in elements of `bytes` bytes; no number is negative.
struct MemorySpan {
  int64_t lines, ld, matrices, batch_stride;
  int bytes;
};

/// Do all lines of all matrices, each taken as long as `ld`, lie within 2^63 - 1 bytes? Then no offset of an element wraps
/// around, in elements or in bytes, nor does a stride that is used. Compares quotients: products of what a call passes may not
/// fit.
inline bool fits_64_bits(MemorySpan const& span) {
  int64_t const most = INT64_MAX / span.bytes;  // elements
  if (span.lines > 0 && span.ld > most / span.lines) { return false; }
  int64_t const left = most - span.lines * span.ld;
  return span.matrices <= 1 || span.batch_stride <= left / (span.matrices - 1);
}

/// Strides of a tensor map are less than this, in bytes. CUDA Driver API, cuTensorMapEncodeTiled, "globalStrides".
inline constexpr int64_t kTmaStrideEnd = int64_t(1) << 40;

/// Can a tensor map have these strides?
inline bool tma_takes_strides(MemorySpan const& span) {
  int64_t const end = kTmaStrideEnd / span.bytes;
  return span.ld < end && (span.matrices <= 1 || span.batch_stride < end);
}

}  // namespace v0_1
}  // namespace mmagen
