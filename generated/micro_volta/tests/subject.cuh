// The kernel under test, as the judge in tests/mmagen sees it.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "micro_volta/micro_volta.h"
#include "mmagen/operands.cuh"

struct Subject {
  using A = mmagen::test::f16;
  using B = mmagen::test::f16;
  using Out = mmagen::test::f32;
  using Acc = mmagen::test::f32;
  using Scalar = mmagen::test::f32;

  static constexpr char const* kName = "micro_volta";
  static constexpr char const* kSpecSha = "69cf3635ecf04a5c";
  static constexpr char const* kMmagenVersion = "0.1.0";
  static constexpr char const* kLayoutLetters = "NT";
  static constexpr char const* kAtom = "SM70_8x8x4_F32F16F16F32_NT";
  static constexpr char kAMajor = 'M';
  static constexpr char kBMajor = 'N';
  static constexpr char kDMajor = 'N';
  static constexpr int kAtomK = 4;
  static constexpr bool kFixedShape = true;
  static constexpr int kTileM = 32;
  static constexpr int kTileN = 32;
  static constexpr int kTileK = 8;

  // m, n, k, batch, ld_pad, offset, alpha, beta
  static std::vector<mmagen::test::Problem> problems() {
    return {
        { 32, 32, 8, 1, 0, 0, 1.0, 0.0 },
    };
  }

  static int run(mmagen::test::Call const& call, cudaStream_t stream) {
    micro_volta_args args = {};
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
    args.alpha = static_cast<micro_volta_scalar>(call.alpha);
    args.beta = static_cast<micro_volta_scalar>(call.beta);
    return micro_volta_run(&args, stream);
  }

  static int query(mmagen::test::KernelFacts* facts) {
    micro_volta_info info = {};
    int const status = micro_volta_query(&info);
    *facts = {info.threads, info.registers, info.local_bytes, info.smem_bytes, info.ctas_per_sm};
    return status;
  }

  static char const* status_text(int status) {
    return micro_volta_status_text(static_cast<micro_volta_status>(status));
  }
};
