// SPDX-License-Identifier: MIT-0
// D = A * B + C by one wgmma: load registers and shared memory, wgmma, store.
#pragma once

#include <cstdint>

#include "atom_call.cuh"
#include "fragment.cuh"
#include "instruction_operands.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Dynamic shared memory: A, where it does not come from registers, then B.
template <class Config>
__global__ void __launch_bounds__(Config::kThreads) instruction_kernel(InstructionOperands operands) {
  using Op = typename Config::Op;
  extern __shared__ __align__(128) unsigned char smem[];
  uint32_t const address = static_cast<uint32_t>(__cvta_generic_to_shared(smem));
  atoms::Register<typename Op::ARegisters> a[std::extent_v<typename Op::ARegisters>];
  atoms::Register<typename Op::CRegisters> c[std::extent_v<typename Op::CRegisters>];

  int b_begin = 0;
  if constexpr (is_in_shared_memory<typename Config::A>) {
    load_core_matrices<typename Config::A>(smem, operands.a);
    a[0] = atoms::described(Config::A::kDescriptor, address);
    b_begin = Config::A::kBytes;
  } else {
    load_fragment<typename Config::A>(a, operands.a);
  }
  load_core_matrices<typename Config::B>(smem + b_begin, operands.b);
  uint64_t const b = atoms::described(Config::B::kDescriptor, address + b_begin);
  load_fragment<typename Config::C>(c, operands.c);

  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads shared memory through the async proxy
  __syncthreads();
  atoms::with_extra<Op>([&](auto& registers, auto) { load_fragment<typename Config::E>(registers, operands.e); },
                        [&](auto const&... extra) { atoms::multiply_once_wgmma<Op>(a, b, c, extra...); });
  store_fragment<typename Config::C>(c, operands.d);
}

}  // namespace v0_1
}  // namespace mmagen
