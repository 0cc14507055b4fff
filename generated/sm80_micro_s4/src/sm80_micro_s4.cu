// sm80_micro_s4: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm80_micro_s4/sm80_micro_s4.h"

#include "sm80_micro_s4/config.cuh"
#include "mmagen/instruction_kernel.cuh"
#include "mmagen/instruction_launch.cuh"

using sm80_micro_s4::Config;

sm80_micro_s4_status sm80_micro_s4_run(const sm80_micro_s4_args* args, CUstream_st* stream)
{
  if (args == nullptr) { return SM80_MICRO_S4_INVALID_ARGUMENT; }
  mmagen::InstructionOperands operands = {};
  operands.a = args->a;
  operands.b = args->b;
  operands.c = args->c;
  operands.d = args->d;
  return static_cast<sm80_micro_s4_status>(mmagen::run_instruction<Config>(operands, stream));
}

sm80_micro_s4_status sm80_micro_s4_query(sm80_micro_s4_info* info)
{
  if (info == nullptr) { return SM80_MICRO_S4_INVALID_ARGUMENT; }
  return static_cast<sm80_micro_s4_status>(mmagen::query_instruction<Config>(*info));
}

const char* sm80_micro_s4_status_text(sm80_micro_s4_status status)
{
  if (status == SM80_MICRO_S4_INVALID_ARGUMENT) {
    return "invalid argument: a null pointer, or one that is not 16-byte aligned";
  }
  return mmagen::status_text(static_cast<mmagen::Status>(status), "");
}
