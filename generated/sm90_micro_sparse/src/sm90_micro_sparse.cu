// sm90_micro_sparse: instantiates the kernel for its Config and puts it behind the C interface.
#include "sm90_micro_sparse/sm90_micro_sparse.h"

#include "sm90_micro_sparse/config.cuh"
#include "mmagen/instruction_wgmma_kernel.cuh"
#include "mmagen/instruction_launch.cuh"

using sm90_micro_sparse::Config;

sm90_micro_sparse_status sm90_micro_sparse_run(const sm90_micro_sparse_args* args, CUstream_st* stream) {
  if (args == nullptr) { return SM90_MICRO_SPARSE_INVALID_ARGUMENT; }
  mmagen::InstructionOperands operands = {};
  operands.a = args->a;
  operands.b = args->b;
  operands.c = args->c;
  operands.e = args->e;
  operands.d = args->d;
  return static_cast<sm90_micro_sparse_status>(mmagen::run_instruction<Config>(operands, stream));
}

sm90_micro_sparse_status sm90_micro_sparse_query(sm90_micro_sparse_info* info) {
  if (info == nullptr) { return SM90_MICRO_SPARSE_INVALID_ARGUMENT; }
  return static_cast<sm90_micro_sparse_status>(mmagen::query_instruction<Config>(*info));
}

const char* sm90_micro_sparse_status_text(sm90_micro_sparse_status status) {
  if (status == SM90_MICRO_SPARSE_INVALID_ARGUMENT) {
    return "invalid argument: a null pointer, or one that is not 16-byte aligned";
  }
  return mmagen::status_text(static_cast<mmagen::Status>(status), "");
}
