// SPDX-License-Identifier: MIT-0
// The kernel under test, for the checks in tests/mmagen.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "hello_micro/hello_micro.h"
#include "mmagen/compare.cuh"
#include "mmagen/operands.cuh"
#include "mmagen/scales.cuh"

struct Subject {
  using A = mmagen::test::f16;
  using B = mmagen::test::f16;
  using Out = mmagen::test::f32;
  using Acc = mmagen::test::f32;
  using Scalar = mmagen::test::f32;
  using Scales = mmagen::test::NoScales;
  using Epilogue = mmagen::test::LinearCombinationModel;

  static constexpr char const* kName = "hello_micro";
  static constexpr char const* kSpecSha = "135214646083b3c4";
  static constexpr char const* kMmagenVersion = "0.1.0";
  static constexpr char const* kLayoutLetters = "TN";
  static constexpr char const* kAtom = "SM80_16x8x16_F32F16F16F32_TN";
  static constexpr char kAMajor = 'K';
  static constexpr char kBMajor = 'K';
  static constexpr char kDMajor = 'N';
  // aligned, chunk, kept, nearest, promoted, turns, shuffled
  static constexpr mmagen::test::Accumulation kAccumulation = {24, 8, 23, false, 0, 1, false};
  static constexpr bool kFixedShape = true;
  static constexpr int kTileM = 32;
  static constexpr int kTileN = 32;
  static constexpr int kTileK = 32;

  // m, n, k, batch, ld_pad, offset, alpha, beta and, where one is set, the batch strides of A, B, C and D
  static std::vector<mmagen::test::Problem> problems() {
    return {
        { 32, 32, 32, 1, 0, 0, 1.0, 0.0 },
    };
  }

  static std::vector<mmagen::test::FurtherTensor> further(mmagen::test::Problem const&) {
    return {
    };
  }

  static hello_micro_args arguments(mmagen::test::Call const& call) {
    hello_micro_args args = HELLO_MICRO_ARGS_INIT;
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
    hello_micro_args args = arguments(call);
    return hello_micro_run(&args, stream);
  }

  static int query(mmagen::test::KernelFacts* facts) {
    hello_micro_info info = {};
    info.struct_size = sizeof info;
    int const status = hello_micro_query(&info);
    *facts = {info.threads, info.registers, info.local_bytes, info.smem_bytes, info.ctas_per_sm};
    return status;
  }

  static char const* error_text() { return hello_micro_error_text(); }
};
