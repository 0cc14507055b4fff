// SPDX-License-Identifier: MIT-0
// The products of groups with matrices of their own by one call of cublasGemmGroupedBatchedEx, for comparison. Included only
// with MMAGEN_WITH_CUBLAS.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cublaslt.cuh"
#include "operands.cuh"
#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// A combination that cuBLAS does not do is a Failure with kNotSupported.
inline void check_cublas(cublasStatus_t status, char const* what) {
  if (status == CUBLAS_STATUS_SUCCESS) { return; }
  bool const unsupported = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  throw Failure{unsupported ? Disposition::kNotSupported : Disposition::kFailed,
                std::string(what) + ": " + cublasGetStatusString(status)};
}

/// One for the whole program; not destroyed, as the runtime may end before.
inline cublasHandle_t cublas_handle() {
  static cublasHandle_t const handle = [] {
    cublasHandle_t made = nullptr;
    check_cublas(cublasCreate(&made), "cublasCreate");
    return made;
  }();
  return handle;
}

/// The groups of a call that have elements, each a group of one problem for cuBLAS, which is column major: see LtMatmul. Sizes
/// lie on the host, pointers on the device.
class CublasGrouped {
 public:
  CublasGrouped(LtTypes const& types, Call const& call) : types_(types) {
    if (types.scale_a.exist() || types.scale_b.exist() || types.epilogue.kind != CUBLASLT_EPILOGUE_DEFAULT) {
      throw Failure{Disposition::kNotSupported, "it has neither scales nor an epilogue"};
    }
    if (call.beta != 0.0) { throw Failure{Disposition::kNotSupported, "its C is always its D"}; }
    for (Call const& one : call.each) {
      if (one.d.data == nullptr) { continue; }
      swapped_ = one.d.cols_contiguous;
      Matrix const& left = swapped_ ? one.b : one.a;
      Matrix const& right = swapped_ ? one.a : one.b;
      left_operations_.push_back(left.cols_contiguous ? CUBLAS_OP_T : CUBLAS_OP_N);
      right_operations_.push_back(right.cols_contiguous ? CUBLAS_OP_N : CUBLAS_OP_T);
      m_.push_back(static_cast<int>(left.rows));
      n_.push_back(static_cast<int>(right.rows));
      k_.push_back(static_cast<int>(one.k));
      ld_left_.push_back(static_cast<int>(left.ld));
      ld_right_.push_back(static_cast<int>(right.ld));
      ld_d_.push_back(static_cast<int>(one.d.ld));
    }
    of_double_ = types.compute() == CUBLAS_COMPUTE_64F;
    std::size_t const groups = m_.size();
    alpha_.assign(groups, static_cast<float>(call.alpha));
    beta_.assign(groups, 0.0f);
    alpha_of_double_.assign(groups, call.alpha);
    beta_of_double_.assign(groups, 0.0);
    ones_.assign(groups, 1);
  }

  /// Call once for each set of operands, before it is multiplied.
  void prepare(Call const& call) {
    std::vector<void*> pointers;
    for (int const matrix : {0, 1, 2}) {
      for (Call const& one : call.each) {
        if (one.d.data == nullptr) { continue; }
        void* const of[] = {swapped_ ? one.b.data : one.a.data, swapped_ ? one.a.data : one.b.data, one.d.data};
        pointers.push_back(of[matrix]);
      }
    }
    sets_.emplace_back(call.pointers.d, DeviceMemory(pointers.size() * sizeof(void*)));
    sets_.back().second.copy_from(pointers.data(), "copying the pointers of groups");
  }

  void run(Call const& call, cudaStream_t stream) const {
    void* const* pointers = nullptr;
    for (auto const& [key, memory] : sets_) {
      if (key == call.pointers.d) { pointers = static_cast<void* const*>(memory.get()); }
    }
    std::size_t const groups = m_.size();
    if (groups == 0) { return; }
    void const* const alpha = of_double_ ? static_cast<void const*>(alpha_of_double_.data()) : alpha_.data();
    void const* const beta = of_double_ ? static_cast<void const*>(beta_of_double_.data()) : beta_.data();
    cudaDataType_t const left = lt_type(swapped_ ? types_.b : types_.a), right = lt_type(swapped_ ? types_.a : types_.b);
    check_cublas(cublasSetStream(cublas_handle(), stream), "cublasSetStream");
    check_cublas(cublasGemmGroupedBatchedEx(cublas_handle(), left_operations_.data(), right_operations_.data(), m_.data(),
                                            n_.data(), k_.data(), alpha, pointers, left, ld_left_.data(), pointers + groups,
                                            right, ld_right_.data(), beta, pointers + 2 * groups, lt_type(types_.out),
                                            ld_d_.data(), static_cast<int>(groups), ones_.data(), types_.compute()),
                 "cublasGemmGroupedBatchedEx");
  }

 private:
  LtTypes types_;
  bool of_double_ = false, swapped_ = false;  // swapped: the product is that of D^T
  std::vector<cublasOperation_t> left_operations_, right_operations_;
  std::vector<int> m_, n_, k_, ld_left_, ld_right_, ld_d_, ones_;
  std::vector<float> alpha_, beta_;
  std::vector<double> alpha_of_double_, beta_of_double_;
  std::vector<std::pair<void const*, DeviceMemory>> sets_;  // by the call's array of pointers to D
};

}  // namespace v0_1
}  // namespace mmagen::test
