// SPDX-License-Identifier: MIT-0
// The kernel under test, for the checks in tests/mmagen.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "sm90_micro_bf16/sm90_micro_bf16.h"
#include "mmagen/compare.cuh"
#include "mmagen/operands.cuh"
#include "mmagen/scales.cuh"

struct Subject {
  using A = mmagen::test::bf16;
  using B = mmagen::test::bf16;
  using Out = mmagen::test::f32;
  using Acc = mmagen::test::f32;
  using Scalar = mmagen::test::f32;
  using Scales = mmagen::test::NoScales;
  using Epilogue = mmagen::test::LinearCombinationModel;

  static constexpr char const* kName = "sm90_micro_bf16";
  static constexpr char const* kSpecSha = "26c6a82baf35cd4e";
  static constexpr char const* kMmagenVersion = "0.1.0";
  static constexpr char const* kLayoutLetters = "TN";
  static constexpr char const* kAtom = "SM90_64x64x16_F32BF16BF16_SS";
  static constexpr char kAMajor = 'K';
  static constexpr char kBMajor = 'K';
  static constexpr char kDMajor = 'N';
  // aligned, chunk, kept, nearest, promoted, turns, shuffled
  static constexpr mmagen::test::Accumulation kAccumulation = {25, 16, 23, false, 0, 1, false};
  static constexpr bool kFixedShape = true;
  static constexpr int kTileM = 64;
  static constexpr int kTileN = 64;
  static constexpr int kTileK = 64;

  // m, n, k, batch, ld_pad, offset, alpha, beta and, where one is set, the batch strides of A, B, C and D
  static std::vector<mmagen::test::Problem> problems() {
    return {
        { 64, 64, 64, 1, 0, 0, 1.0, 0.0 },
    };
  }

  static std::vector<mmagen::test::FurtherTensor> further(mmagen::test::Problem const&) {
    return {
    };
  }

  static sm90_micro_bf16_args arguments(mmagen::test::Call const& call) {
    sm90_micro_bf16_args args = SM90_MICRO_BF16_ARGS_INIT;
    args.m = call.m;
    args.n = call.n;
    args.k = call.k;
    args.batch = call.batch;
    args.a = call.a.data;
    args.lda = call.a.ld;
    args.batch_stride_a = call.a.batch_stride;
    args.b = call.b.data;
    args.ldb = call.b.ld;
    args.batch_stride_b = call.b.batch_stride;
    args.c = call.c.data;
    args.ldc = call.c.ld;
    args.batch_stride_c = call.c.batch_stride;
    args.d = call.d.data;
    args.ldd = call.d.ld;
    args.batch_stride_d = call.d.batch_stride;
    args.alpha = call.alpha;
    args.beta = call.beta;
    args.alpha_device = call.alpha_device;
    args.beta_device = call.beta_device;
    return args;
  }

  static int run(mmagen::test::Call const& call, cudaStream_t stream) {
    sm90_micro_bf16_args args = arguments(call);
    return sm90_micro_bf16_run(&args, stream);
  }

  static int query(mmagen::test::KernelFacts* facts) {
    sm90_micro_bf16_info info = {};
    info.struct_size = sizeof info;
    int const status = sm90_micro_bf16_query(&info);
    *facts = {info.threads, info.registers, info.local_bytes, info.smem_bytes, info.ctas_per_sm};
    return status;
  }

  static char const* error_text() { return sm90_micro_bf16_error_text(); }
};
