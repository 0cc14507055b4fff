// SPDX-License-Identifier: MIT-0
// Host side of a kernel of one instruction.
#pragma once

#include <type_traits>

#include "instruction_operands.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Launches D = A * B + C on `stream`; Args is the project's public argument struct.
template <class Config, class Args>
Status run_instruction(Args const& args, cudaStream_t stream, Launch launch = Launch::kYes) {
  constexpr int kAlignment = 16;
  struct Pointer {
    void const* pointer;
    bool used;
  };
  Pointer const pointers[] = {
      {args.a, true},
      {args.b, true},
      {args.c, true},
      {args.d, true},
      {args.metadata_a, !std::is_void_v<typename Config::E>},
      {args.scale_a, !std::is_void_v<typename Config::SFA>},
      {args.scale_b, !std::is_void_v<typename Config::SFB>},
  };
  for (int i = 0; i < int(sizeof pointers / sizeof pointers[0]); ++i) {
    if (!pointers[i].used) { continue; }
    if (pointers[i].pointer == nullptr) { return Status(int(Status::kNullA) + i); }
    if (!is_aligned(pointers[i].pointer, kAlignment)) { return Status(int(Status::kMisalignedA) + i); }
  }
  InstructionOperands const operands = {args.a, args.b, args.c, args.metadata_a, args.scale_a, args.scale_b, args.d};
  return launch_kernel(&instruction_kernel<Config>, 1, Config::kThreads, Config::kSmemBytes, stream, launch, operands);
}

/// Resources of this Config's kernel on the current device.
template <class Config, class Info>
Status query_instruction(Info& info) {
  return query_kernel(&instruction_kernel<Config>, Config::kThreads, Config::kSmemBytes, info);
}

}  // namespace v0_1
}  // namespace mmagen
