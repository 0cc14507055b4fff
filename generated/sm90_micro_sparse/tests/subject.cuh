// SPDX-License-Identifier: MIT-0
// The kernel under test, for the checks in tests/mmagen.
#pragma once

#include <cuda_runtime.h>

#include "sm90_micro_sparse/sm90_micro_sparse.h"
#include "mmagen/instruction_main.cuh"

struct Subject {
  using A = mmagen::test::bf16;
  using B = mmagen::test::bf16;
  using Acc = mmagen::test::f32;
  using Scale = void;

  static constexpr char const* kName = "sm90_micro_sparse";
  static constexpr char const* kSpecSha = "381f48ccc588a9cc";
  static constexpr char const* kMmagenVersion = "0.1.0";
  static constexpr char const* kAtom = "SM90::GMMA::SPARSE::GMMA_64x32x32_F32BF16BF16_SS";
  static constexpr int kM = 64;
  static constexpr int kN = 32;
  static constexpr int kK = 32;
  // aligned, chunk, kept, nearest, promoted, turns, shuffled
  static constexpr mmagen::test::Accumulation kAccumulation = {25, 16, 23, false, 0, 1, false};
  static constexpr int kBitsA = 16;
  static constexpr int kBitsB = 16;
  static constexpr int kShiftA = 0;
  static constexpr int kShiftB = 0;
  static constexpr int kGroup = 4;
  static constexpr int kVector = 0;
  static constexpr char kCount = ' ';
  static constexpr bool kSaturate = false;

  static int run(mmagen::test::InstructionCall const& call, cudaStream_t stream) {
    sm90_micro_sparse_args args = SM90_MICRO_SPARSE_ARGS_INIT;
    args.a = call.a;
    args.b = call.b;
    args.c = call.c;
    args.metadata_a = call.e;
    args.d = call.d;
    return sm90_micro_sparse_run(&args, stream);
  }

  static int query(mmagen::test::KernelFacts* facts) {
    sm90_micro_sparse_info info = {};
    info.struct_size = sizeof info;
    int const status = sm90_micro_sparse_query(&info);
    *facts = {info.threads, info.registers, info.local_bytes, info.smem_bytes, info.ctas_per_sm};
    return status;
  }

  static char const* error_text() { return sm90_micro_sparse_error_text(); }
};
