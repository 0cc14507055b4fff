// Host side of a kernel of one instruction.
#pragma once

#include <cstdint>
#include <type_traits>

#include "instruction_operands.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Launches D = A * B + C on `stream`.
template <class Config>
Status run_instruction(InstructionOperands const& operands, cudaStream_t stream) {
  auto const usable = [](void const* pointer, bool used) {
    return !used || (pointer != nullptr && reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0);
  };
  if (!usable(operands.a, true) || !usable(operands.b, true) || !usable(operands.c, true) || !usable(operands.d, true) ||
      !usable(operands.e, !std::is_void_v<typename Config::E>) ||
      !usable(operands.sfa, !std::is_void_v<typename Config::SFA>) ||
      !usable(operands.sfb, !std::is_void_v<typename Config::SFB>)) {
    return Status::kInvalidArgument;
  }
  return launch_kernel(&instruction_kernel<Config>, 1, Config::kThreads, Config::kSmemBytes, stream, operands);
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_instruction(Info& info) {
  return query_kernel(&instruction_kernel<Config>, Config::kThreads, Config::kSmemBytes, info);
}

}  // namespace v0_1
}  // namespace mmagen
