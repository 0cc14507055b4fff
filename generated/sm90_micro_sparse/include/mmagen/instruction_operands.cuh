// SPDX-License-Identifier: MIT-0
// The parameters of the kernel.
#pragma once

namespace mmagen {
inline namespace v0_1 {

/// Matrices in device memory; e, sfa and sfb only where the instruction takes them.
struct InstructionOperands {
  void const* a;
  void const* b;
  void const* c;
  void const* e;
  void const* sfa;
  void const* sfb;
  void* d;
};

}  // namespace v0_1
}  // namespace mmagen
