// The same product by cuSPARSELt, for comparison. Included only with MMAGEN_WITH_CUSPARSELT.
#pragma once

#include <cuda_runtime.h>
#include <cusparseLt.h>

#include <cstdint>
#include <map>
#include <string>

#include "buffers.cuh"
#include "operands.cuh"
#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// A combination cuSPARSELt does not do is a Failure with kNotSupported.
inline void check_sparse_lt(cusparseStatus_t status, char const* what) {
  if (status == CUSPARSE_STATUS_SUCCESS) { return; }
  bool const unsupported = status == CUSPARSE_STATUS_NOT_SUPPORTED || status == CUSPARSE_STATUS_INVALID_VALUE ||
                           status == CUSPARSE_STATUS_ARCH_MISMATCH;
  throw Failure{unsupported ? Disposition::kNotSupported : Disposition::kFailed,
                std::string(what) + ": " + cusparseLtGetErrorString(status)};
}

inline cudaDataType_t sparse_lt_type(std::string const& word) {
  if (word == "f16") { return CUDA_R_16F; }
  if (word == "bf16") { return CUDA_R_16BF; }
  if (word == "tf32" || word == "f32") { return CUDA_R_32F; }
  if (word == "s8") { return CUDA_R_8I; }
  if (word == "s32") { return CUDA_R_32I; }
  if (word == "e4m3") { return CUDA_R_8F_E4M3; }
  if (word == "e5m2") { return CUDA_R_8F_E5M2; }
  throw Failure{Disposition::kNotSupported, "cuSPARSELt has no " + word};
}

/// Type words of the product.
struct SparseLtTypes {
  std::string a, b, out, acc;
  cusparseComputeType compute() const {
    if (acc == "f16") { return CUSPARSE_COMPUTE_16F; }
    return acc == "s32" ? CUSPARSE_COMPUTE_32I : CUSPARSE_COMPUTE_32F;
  }
};

/// A plan of one product: its default algorithm, or the one that cuSPARSELt's own search finds to be the fastest. A is
/// compressed by cuSPARSELt, when a call first comes with it.
class SparseLtMatmul {
 public:
  static constexpr std::size_t kWorkspaceBytes = std::size_t{256} << 20;

  /// `call`: whose shape is planned, and whose operands the search multiplies.
  SparseLtMatmul(SparseLtTypes const& types, Call const& call, bool search, cudaStream_t stream)
      : workspace_(kWorkspaceBytes), alpha_(static_cast<float>(call.alpha)), beta_(static_cast<float>(call.beta)) {
    try {
      plan(types, call);
      if (search) { this->search(call, stream); }
    } catch (Failure const&) {
      destroy();
      throw;
    }
  }
  SparseLtMatmul(SparseLtMatmul const&) = delete;
  SparseLtMatmul& operator=(SparseLtMatmul const&) = delete;
  ~SparseLtMatmul() { destroy(); }

  /// Compresses the A of a call, unless it has been.
  void prepare(Call const& call, cudaStream_t stream) {
    if (compressed_.count(call.a.data) == 0) { compress(call, stream); }
  }

  void run(Call const& call, cudaStream_t stream) {
    prepare(call, stream);
    void const* const c = call.c.data != nullptr ? call.c.data : call.d.data;
    check_sparse_lt(cusparseLtMatmul(&handle_, &plan_, &alpha_, compressed_.at(call.a.data).get(), call.b.data, &beta_, c,
                                     call.d.data, workspace_.get(), &stream, 1),
                    "cusparseLtMatmul");
  }

 private:
  /// How cuSPARSELt sees a matrix whose lines lie `ld` apart, if it takes all matrices for row major (or column major ones).
  struct View {
    int64_t rows, cols;
    cusparseOperation_t operation;  // that makes it (M,K), (K,N) or (M,N)
  };
  /// rows x cols: as the product needs it, of which `cols_contiguous`.
  static View view(int64_t rows, int64_t cols, bool cols_contiguous, cusparseOrder_t order) {
    bool const as_it_is = cols_contiguous == (order == CUSPARSE_ORDER_ROW);
    return as_it_is ? View{rows, cols, CUSPARSE_OPERATION_NON_TRANSPOSE} : View{cols, rows, CUSPARSE_OPERATION_TRANSPOSE};
  }

  void set_batch(cusparseLtMatDescriptor_t* descriptor, Matrix const& matrix) {
    int const count = static_cast<int>(matrix.batch);
    check_sparse_lt(cusparseLtMatDescSetAttribute(&handle_, descriptor, CUSPARSELT_MAT_NUM_BATCHES, &count, sizeof count),
                    "setting the batch count");
    check_sparse_lt(cusparseLtMatDescSetAttribute(&handle_, descriptor, CUSPARSELT_MAT_BATCH_STRIDE, &matrix.batch_stride,
                                                  sizeof matrix.batch_stride),
                    "setting the batch stride");
  }

  void dense(cusparseLtMatDescriptor_t* descriptor, View const& view, Matrix const& matrix, std::string const& type,
             cusparseOrder_t order) {
    check_sparse_lt(cusparseLtDenseDescriptorInit(&handle_, descriptor, view.rows, view.cols, matrix.ld, kAlignment,
                                                  sparse_lt_type(type), order),
                    "cusparseLtDenseDescriptorInit");
    ++described_;
    set_batch(descriptor, matrix);
  }

  void plan(SparseLtTypes const& types, Call const& call) {
    check_sparse_lt(cusparseLtInit(&handle_), "cusparseLtInit");
    initialized_ = true;
    cusparseOrder_t const order = call.d.cols_contiguous ? CUSPARSE_ORDER_ROW : CUSPARSE_ORDER_COL;
    View const a = view(call.m, call.k, call.a.cols_contiguous, order);
    View const b = view(call.k, call.n, !call.b.cols_contiguous, order);  // B is (N,K)
    View const d = {call.m, call.n, CUSPARSE_OPERATION_NON_TRANSPOSE};
    check_sparse_lt(cusparseLtStructuredDescriptorInit(&handle_, &a_, a.rows, a.cols, call.a.ld, kAlignment,
                                                       sparse_lt_type(types.a), order, CUSPARSELT_SPARSITY_50_PERCENT),
                    "cusparseLtStructuredDescriptorInit");
    ++described_;
    set_batch(&a_, call.a);
    dense(&b_, b, call.b, types.b, order);
    dense(&c_, d, call.c.data != nullptr ? call.c : call.d, types.out, order);
    dense(&d_, d, call.d, types.out, order);
    check_sparse_lt(
        cusparseLtMatmulDescriptorInit(&handle_, &matmul_, a.operation, b.operation, &a_, &b_, &c_, &d_, types.compute()),
        "cusparseLtMatmulDescriptorInit");
    check_sparse_lt(cusparseLtMatmulAlgSelectionInit(&handle_, &algorithm_, &matmul_, CUSPARSELT_MATMUL_ALG_DEFAULT),
                    "cusparseLtMatmulAlgSelectionInit");
    check_sparse_lt(cusparseLtMatmulPlanInit(&handle_, &plan_, &matmul_, &algorithm_), "cusparseLtMatmulPlanInit");
    planned_ = true;
    check_workspace();
  }

  void check_workspace() {
    std::size_t needed = 0;
    check_sparse_lt(cusparseLtMatmulGetWorkspace(&handle_, &plan_, &needed), "cusparseLtMatmulGetWorkspace");
    if (needed > kWorkspaceBytes) {
      throw Failure{Disposition::kNotSupported, "cuSPARSELt needs a workspace of " + std::to_string(needed) + " bytes"};
    }
  }

  /// Tries all algorithms, and splits of K, and keeps the fastest in the plan. D holds results of any of them.
  void search(Call const& call, cudaStream_t stream) {
    prepare(call, stream);
    void const* const c = call.c.data != nullptr ? call.c.data : call.d.data;
    check_sparse_lt(cusparseLtMatmulSearch(&handle_, &plan_, &alpha_, compressed_.at(call.a.data).get(), call.b.data, &beta_, c,
                                           call.d.data, workspace_.get(), &stream, 1),
                    "cusparseLtMatmulSearch");
    check_workspace();
  }

  void compress(Call const& call, cudaStream_t stream) {
    std::size_t bytes = 0, buffer_bytes = 0;
    check_sparse_lt(cusparseLtSpMMACompressedSize(&handle_, &plan_, &bytes, &buffer_bytes), "cusparseLtSpMMACompressedSize");
    DeviceMemory buffer(buffer_bytes + 16);
    DeviceMemory& made = compressed_[call.a.data] = DeviceMemory(bytes);
    check_sparse_lt(cusparseLtSpMMACompress(&handle_, &plan_, call.a.data, made.get(), buffer.get(), stream),
                    "cusparseLtSpMMACompress");
    check(cudaStreamSynchronize(stream), "compressing A by cuSPARSELt");
  }

  void destroy() {
    if (planned_) { cusparseLtMatmulPlanDestroy(&plan_); }
    cusparseLtMatDescriptor_t const* const descriptors[] = {&a_, &b_, &c_, &d_};
    for (int i = 0; i < described_; ++i) { cusparseLtMatDescriptorDestroy(descriptors[i]); }
    if (initialized_) { cusparseLtDestroy(&handle_); }
  }

  static constexpr uint32_t kAlignment = 16;

  DeviceMemory workspace_;
  float alpha_, beta_;  // of all compute types
  bool initialized_ = false, planned_ = false;
  int described_ = 0;  // of a_, b_, c_, d_
  cusparseLtHandle_t handle_;
  cusparseLtMatDescriptor_t a_, b_, c_, d_;
  cusparseLtMatmulDescriptor_t matmul_;
  cusparseLtMatmulAlgSelection_t algorithm_;
  cusparseLtMatmulPlan_t plan_;
  std::map<void const*, DeviceMemory> compressed_;  // by the address of A
};

}  // namespace v0_1
}  // namespace mmagen::test
