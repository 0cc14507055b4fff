// D = A * B + C by one instruction whose operands are all in registers: load, mma, store.
#pragma once

#include <cstring>

#include "atom_call.cuh"
#include "fragment.cuh"
#include "instruction_operands.cuh"

namespace mmagen {
inline namespace v0_1 {

template <class Config>
__global__ void __launch_bounds__(Config::kThreads) instruction_kernel(InstructionOperands operands) {
  using Op = typename Config::Op;
  atoms::Register<typename Op::ARegisters> a[std::extent_v<typename Op::ARegisters>];
  atoms::Register<typename Op::BRegisters> b[std::extent_v<typename Op::BRegisters>];
  atoms::Register<typename Op::CRegisters> c[std::extent_v<typename Op::CRegisters>];
  atoms::Register<typename Op::DRegisters> d[std::extent_v<typename Op::DRegisters>];

  load_fragment<typename Config::A>(a, operands.a);
  load_fragment<typename Config::B>(b, operands.b);
  load_fragment<typename Config::C>(c, operands.c);
  atoms::with_extra<Op>(
      [&](auto& registers, auto which) {
        if constexpr (which == atoms::kE) { load_fragment<typename Config::E>(registers, operands.e); }
        if constexpr (which == atoms::kSFA) { load_fragment<typename Config::SFA>(registers, operands.sfa); }
        if constexpr (which == atoms::kSFB) { load_fragment<typename Config::SFB>(registers, operands.sfb); }
      },
      [&](auto const&... extra) { atoms::multiply_once<Op>(d, a, b, c, extra...); });
  store_fragment<typename Config::C>(d, operands.d);
}

}  // namespace v0_1
}  // namespace mmagen
