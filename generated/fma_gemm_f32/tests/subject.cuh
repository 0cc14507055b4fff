// The kernel under test, as the judge in tests/mmagen sees it.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "fma_gemm_f32/fma_gemm_f32.h"
#include "mmagen/operands.cuh"

struct Subject {
  using A = mmagen::test::f32;
  using B = mmagen::test::f32;
  using Out = mmagen::test::f32;
  using Acc = mmagen::test::f32;
  using Scalar = mmagen::test::f32;

  static constexpr char const* kName = "fma_gemm_f32";
  static constexpr char const* kSpecSha = "c3c9f9b3c0a9587c";
  static constexpr char const* kMmagenVersion = "0.1.0";
  static constexpr char const* kLayoutLetters = "NT";
  static constexpr char const* kAtom = "UniversalFMA<float,float,float,float>";
  static constexpr char kAMajor = 'M';
  static constexpr char kBMajor = 'N';
  static constexpr char kDMajor = 'N';
  static constexpr int kAtomK = 1;
  static constexpr bool kFixedShape = false;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 8;

  // m, n, k, batch, ld_pad, offset, alpha, beta
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

  static int run(mmagen::test::Call const& call, cudaStream_t stream) {
    fma_gemm_f32_args args = {};
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
    args.alpha = static_cast<fma_gemm_f32_scalar>(call.alpha);
    args.beta = static_cast<fma_gemm_f32_scalar>(call.beta);
    return fma_gemm_f32_run(&args, stream);
  }

  static int query(mmagen::test::KernelFacts* facts) {
    fma_gemm_f32_info info = {};
    int const status = fma_gemm_f32_query(&info);
    *facts = {info.threads, info.registers, info.local_bytes, info.smem_bytes, info.ctas_per_sm};
    return status;
  }

  static char const* status_text(int status) {
    return fma_gemm_f32_status_text(static_cast<fma_gemm_f32_status>(status));
  }
};
