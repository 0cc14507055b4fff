// SPDX-License-Identifier: MIT-0
// The kernel under test, for the checks in tests/mmagen.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "sm90_gemm_bf16_pingpong/sm90_gemm_bf16_pingpong.h"
#include "mmagen/compare.cuh"
#include "mmagen/operands.cuh"
#include "mmagen/scales.cuh"

struct Subject {
  using A = mmagen::test::bf16;
  using B = mmagen::test::bf16;
  using Out = mmagen::test::bf16;
  using Acc = mmagen::test::f32;
  using Scalar = mmagen::test::f32;
  using Scales = mmagen::test::NoScales;
  using Epilogue = mmagen::test::LinearCombinationModel;

  static constexpr char const* kName = "sm90_gemm_bf16_pingpong";
  static constexpr char const* kSpecSha = "3ff9e9e3e8be5c9f";
  static constexpr char const* kMmagenVersion = "0.1.0";
  static constexpr char const* kLayoutLetters = "TN";
  static constexpr char const* kAtom = "SM90_64x256x16_F32BF16BF16_SS";
  static constexpr char kAMajor = 'K';
  static constexpr char kBMajor = 'K';
  static constexpr char kDMajor = 'N';
  // aligned, chunk, kept, nearest, promoted, turns, shuffled
  static constexpr mmagen::test::Accumulation kAccumulation = {25, 16, 23, false, 0, 1, false};
  static constexpr bool kFixedShape = false;
  static constexpr int kTileM = 64;
  static constexpr int kTileN = 256;
  static constexpr int kTileK = 64;

  // m, n, k, batch, ld_pad, offset, alpha, beta and, where one is set, the batch strides of A, B, C and D
  static std::vector<mmagen::test::Problem> problems() {
    return {
        { 1, 1, 1, 1, 0, 0, 1.0, 0.0 },
        { 17, 33, 65, 1, 0, 0, 1.0, 0.0 },
        { 256, 256, 128, 1, 0, 0, 1.0, 0.0 },
        { 300, 200, 136, 3, 0, 0, 2.0, -1.0 },
        { 264, 520, 72, 1, 8, 0, 1.0, 1.0 },
        { 129, 257, 100, 3, 3, 0, 1.0, 0.0 },
        { 91, 91, 91, 1, 5, 0, 1.0, 0.0 },
        { 256, 136, 200, 1, 0, 1, -1.0, 2.0 },
        { 1000, 1000, 1000, 1, 0, 0, 1.0, 0.0 },
        { 4104, 4104, 4104, 1, 0, 0, 1.0, 0.0 },
        { 8192, 8192, 8192, 1, 0, 0, 1.0, 0.0 },
    };
  }

  static std::vector<mmagen::test::FurtherTensor> further(mmagen::test::Problem const&) {
    return {
    };
  }

  static sm90_gemm_bf16_pingpong_args arguments(mmagen::test::Call const& call) {
    sm90_gemm_bf16_pingpong_args args = SM90_GEMM_BF16_PINGPONG_ARGS_INIT;
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
    sm90_gemm_bf16_pingpong_args args = arguments(call);
    int64_t bytes = 0;
    sm90_gemm_bf16_pingpong_workspace_bytes(&args, &bytes);
    give_workspace(bytes, &args);
    return sm90_gemm_bf16_pingpong_run(&args, stream);
  }

  // One workspace for all calls, which run one after the other on one stream; replaced where a call can use more. Its contents
  // are arbitrary at first: NaNs.
  static void give_workspace(int64_t bytes, sm90_gemm_bf16_pingpong_args* args) {
    static mmagen::test::DeviceMemory const* memory = nullptr;  // outlives the runtime
    if (memory == nullptr || static_cast<int64_t>(memory->bytes()) < bytes) {
      if (memory != nullptr) { mmagen::test::check(cudaDeviceSynchronize(), "waiting for the workspace"); }
      delete memory;
      memory = nullptr;
      memory = new mmagen::test::DeviceMemory(static_cast<std::size_t>(bytes > 0 ? bytes : 1));
      memory->fill(0xff, "filling the workspace");
    }
    args->workspace = memory->get();
    args->workspace_bytes = static_cast<int64_t>(memory->bytes());
  }

  static int query(mmagen::test::KernelFacts* facts) {
    sm90_gemm_bf16_pingpong_info info = {};
    info.struct_size = sizeof info;
    int const status = sm90_gemm_bf16_pingpong_query(&info);
    *facts = {info.threads, info.registers, info.local_bytes, info.smem_bytes, info.ctas_per_sm};
    return status;
  }

  static char const* error_text() { return sm90_gemm_bf16_pingpong_error_text(); }
};
