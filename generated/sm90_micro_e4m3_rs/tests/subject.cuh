// The kernel under test, as the judge in tests/mmagen sees it.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "sm90_micro_e4m3_rs/sm90_micro_e4m3_rs.h"
#include "mmagen/operands.cuh"

struct Subject {
  using A = mmagen::test::e4m3;
  using B = mmagen::test::e4m3;
  using Out = mmagen::test::f32;
  using Acc = mmagen::test::f32;
  using Scalar = mmagen::test::f32;

  static constexpr char const* kName = "sm90_micro_e4m3_rs";
  static constexpr char const* kSpecSha = "8c061a8ffbad8ce9";
  static constexpr char const* kMmagenVersion = "0.1.0";
  static constexpr char const* kLayoutLetters = "TN";
  static constexpr char const* kAtom = "SM90_64x32x32_F32E4M3E4M3_RS_TN";
  static constexpr char kAMajor = 'K';
  static constexpr char kBMajor = 'K';
  static constexpr char kDMajor = 'N';
  static constexpr int kAtomK = 32;
  static constexpr bool kFixedShape = true;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 64;
  static constexpr int kTileK = 64;

  // m, n, k, batch, ld_pad, offset, alpha, beta
  static std::vector<mmagen::test::Problem> problems() {
    return {
        { 128, 64, 64, 1, 0, 0, 1.0, 0.0 },
    };
  }

  static int run(mmagen::test::Call const& call, cudaStream_t stream) {
    sm90_micro_e4m3_rs_args args = {};
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
    args.alpha = static_cast<sm90_micro_e4m3_rs_scalar>(call.alpha);
    args.beta = static_cast<sm90_micro_e4m3_rs_scalar>(call.beta);
    return sm90_micro_e4m3_rs_run(&args, stream);
  }

  static int query(mmagen::test::KernelFacts* facts) {
    sm90_micro_e4m3_rs_info info = {};
    int const status = sm90_micro_e4m3_rs_query(&info);
    *facts = {info.threads, info.registers, info.local_bytes, info.smem_bytes, info.ctas_per_sm};
    return status;
  }

  static char const* status_text(int status) {
    return sm90_micro_e4m3_rs_status_text(static_cast<sm90_micro_e4m3_rs_status>(status));
  }
};
