// The kernel under test, as the judge in tests/mmagen sees it.
#pragma once

#include <cuda_runtime.h>

#include "sm80_micro_s4/sm80_micro_s4.h"
#include "mmagen/instruction_main.cuh"

struct Subject {
  using A = mmagen::test::s4;
  using B = mmagen::test::s4;
  using Acc = mmagen::test::s32;
  using Scale = void;

  static constexpr char const* kName = "sm80_micro_s4";
  static constexpr char const* kSpecSha = "644991db1eea84e4";
  static constexpr char const* kMmagenVersion = "0.1.0";
  static constexpr char const* kAtom = "SM80_16x8x32_S32S4S4S32_TN";
  static constexpr int kM = 16;
  static constexpr int kN = 8;
  static constexpr int kK = 32;
  static constexpr int kAtomK = kK;
  static constexpr int kBitsA = 4;
  static constexpr int kBitsB = 4;
  static constexpr int kShiftA = 0;
  static constexpr int kShiftB = 0;
  static constexpr int kGroup = 1;
  static constexpr int kVector = 0;
  static constexpr char kCount = ' ';
  static constexpr bool kSaturate = false;

  static int run(mmagen::test::InstructionCall const& call, cudaStream_t stream) {
    sm80_micro_s4_args args = {};
    args.a = call.a;
    args.b = call.b;
    args.c = call.c;
    args.d = call.d;
    return sm80_micro_s4_run(&args, stream);
  }

  static int query(mmagen::test::KernelFacts* facts) {
    sm80_micro_s4_info info = {};
    int const status = sm80_micro_s4_query(&info);
    *facts = {info.threads, info.registers, info.local_bytes, info.smem_bytes, info.ctas_per_sm};
    return status;
  }

  static char const* status_text(int status) {
    return sm80_micro_s4_status_text(static_cast<sm80_micro_s4_status>(status));
  }
};
