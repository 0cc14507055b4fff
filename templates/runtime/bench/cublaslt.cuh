// The same product by cuBLASLt, for comparison. Included only with MMAGEN_WITH_CUBLASLT.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cublaslt_epilogue.cuh"
#include "cublaslt_scales.cuh"
#include "record.cuh"
#include "operands.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// A combination cuBLASLt does not do is a Failure with kNotSupported.
inline void check_lt(cublasStatus_t status, char const* what) {
  if (status == CUBLAS_STATUS_SUCCESS) { return; }
  bool const unsupported = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  throw Failure{unsupported ? Disposition::kNotSupported : Disposition::kFailed,
                std::string(what) + ": " + cublasLtGetStatusString(status)};
}

inline cudaDataType_t lt_type(std::string const& word) {
  if (word == "f16") { return CUDA_R_16F; }
  if (word == "bf16") { return CUDA_R_16BF; }
  if (word == "tf32" || word == "f32") { return CUDA_R_32F; }
  if (word == "f64") { return CUDA_R_64F; }
  if (word == "c64") { return CUDA_C_64F; }
  if (word == "s8") { return CUDA_R_8I; }
  if (word == "s32") { return CUDA_R_32I; }
  if (word == "e4m3") { return CUDA_R_8F_E4M3; }
  if (word == "e5m2") { return CUDA_R_8F_E5M2; }
  throw Failure{Disposition::kNotSupported, "cuBLASLt has no " + word};
}

/// How cuBLASLt multiplies f32: with its own instructions, rounded to tf32, or as pieces of bf16.
enum class LtF32 { kPlain, kTf32, kPieces };

/// In which type cuBLASLt adds up the parts of a K that it divides: also in that of D, which rounds each of them, or in the
/// type of the accumulators alone.
enum class LtSums { kAny, kAccumulators };

/// Type words of the product, the scales of its operands, and its epilogue.
struct LtTypes {
  std::string a, b, out, acc, scalar;
  LtScale scale_a = {}, scale_b = {};
  LtEpilogue epilogue = {};
  LtF32 f32 = LtF32::kPlain;  ///< of an A and B of f32
  bool tf32() const { return a == "tf32"; }
  cublasComputeType_t compute() const {
    if (acc == "f16") { return CUBLAS_COMPUTE_16F; }
    if (acc == "f64" || acc == "c64") { return CUBLAS_COMPUTE_64F; }
    if (acc == "s32") { return CUBLAS_COMPUTE_32I; }
    if (f32 == LtF32::kPieces) {
#if CUDART_VERSION >= 12090
      return CUBLAS_COMPUTE_32F_EMULATED_16BFX9;
#else
      throw Failure{Disposition::kNotSupported, "this version of cuBLASLt does not split f32"};
#endif
    }
    if (f32 == LtF32::kTf32) { return CUBLAS_COMPUTE_32F_FAST_TF32; }
    return tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  }
  cudaDataType_t scale() const { return acc == "f16" ? CUDA_R_16F : acc == "c64" ? CUDA_C_64F : lt_type(scalar); }
};

inline constexpr std::size_t kLtWorkspaceBytes = std::size_t{64} << 20;

/// One for the whole program: creating a handle takes longer than most products. Not destroyed, as the runtime may end before.
inline cublasLtHandle_t lt_handle() {
  static cublasLtHandle_t const handle = [] {
    cublasLtHandle_t made = nullptr;
    check_lt(cublasLtCreate(&made), "cublasLtCreate");
    return made;
  }();
  return handle;
}

/// The workspace of all calls, which run one after the other on one stream.
inline void* lt_workspace() {
  static DeviceMemory const* const memory = new DeviceMemory(kLtWorkspaceBytes);  // outlives the runtime
  return memory->get();
}

/// One problem, planned once for every set of operands: sets differ in their pointers only. cuBLASLt is column major.
/// An N-contiguous (M,N) matrix D is the column-major (N,M) matrix D^T = B * A^T, so the operands change places; an
/// M-contiguous one is column major as it is.
class LtMatmul {
 public:
  static constexpr int kHeuristics = 8;

  LtMatmul(LtTypes const& types, Call const& call, LtSums sums = LtSums::kAny)
      : swapped_(call.d.cols_contiguous),
        epilogue_(types.epilogue),
        left_scales_(swapped_ ? types.scale_b : types.scale_a),
        right_scales_(swapped_ ? types.scale_a : types.scale_b) {
    try {
      plan(types, call, sums);
    } catch (Failure const&) {
      destroy();
      throw;
    }
  }
  LtMatmul(LtMatmul const&) = delete;
  LtMatmul& operator=(LtMatmul const&) = delete;
  ~LtMatmul() { destroy(); }

  /// Call once for each set of operands, before it is multiplied.
  void prepare(Call const& call, cudaStream_t stream) {
    left_scales_.prepare(call, stream);
    right_scales_.prepare(call, stream);
  }

  int heuristics() const { return static_cast<int>(found_.size()); }

  void run(Call const& call, int heuristic, cudaStream_t stream) const {
    Matrix const& left = swapped_ ? call.b : call.a;
    Matrix const& right = swapped_ ? call.a : call.b;
    // With beta == 0, C is not read, but cuBLASLt requires a pointer.
    void const* const c = call.c.data != nullptr ? call.c.data : call.d.data;
    set_scales(call);
    set_bias(call);
    cublasLtMatmulAlgo_t const& algorithm = found_[static_cast<std::size_t>(heuristic)].algo;
    check_lt(cublasLtMatmul(lt_handle(), operation_, alpha_, left.data, left_, right.data, right_, beta_, c, c_, call.d.data,
                            d_, &algorithm, lt_workspace(), kLtWorkspaceBytes, stream),
             "cublasLtMatmul");
  }

 private:
  /// matrix: (rows,cols,batch); in column-major terms (inner,outer).
  static void describe(Matrix const& matrix, cudaDataType_t type, cublasLtMatrixLayout_t* layout) {
    check_lt(cublasLtMatrixLayoutCreate(layout, type, static_cast<uint64_t>(matrix.inner()),
                                        static_cast<uint64_t>(matrix.outer()), matrix.ld),
             "cublasLtMatrixLayoutCreate");
    int32_t const batch = static_cast<int32_t>(matrix.batch);
    check_lt(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
             "setting the batch count");
    check_lt(cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.batch_stride,
                                              sizeof matrix.batch_stride),
             "setting the batch stride");
  }

  void set_operation(cublasLtMatmulDescAttributes_t attribute, int32_t value) {
    check_lt(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof value), "describing the operation");
  }

  /// Pointers to scales are part of the operation.
  void set_scales(Call const& call) const {
    set_scale(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, left_scales_, call);
    set_scale(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, right_scales_, call);
  }
  void set_scale(cublasLtMatmulDescAttributes_t attribute, LtScales const& scales, Call const& call) const {
    if (!scales.of().exist()) { return; }
    void const* const pointer = scales.pointer(call);
    check_lt(cublasLtMatmulDescSetAttribute(operation_, attribute, &pointer, sizeof pointer), "describing scales");
  }
  void set_scale_modes() {
#if CUDART_VERSION >= 12080
    if (left_scales_.of().exist()) { set_operation(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, left_scales_.of().mode()); }
    if (right_scales_.of().exist()) { set_operation(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, right_scales_.of().mode()); }
#else
    left_scales_.of().mode();  // refuses what this version does not have
    right_scales_.of().mode();
#endif
  }

  /// cuBLASLt adds a value for each of its rows, which lie along D's contiguous mode.
  void set_epilogue(Call const& call) {
    set_operation(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_.kind);
    if (epilogue_.bias < 0) { return; }
    if (epilogue_.bias_of_rows == swapped_) {
      throw Failure{Disposition::kNotSupported, "cuBLASLt has a bias along the contiguous mode of D only"};
    }
    set_operation(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, lt_type(epilogue_.bias_word));
    int64_t const stride = call.further[static_cast<std::size_t>(epilogue_.bias)].batch_stride;
    check_lt(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &stride, sizeof stride),
             "describing the bias");
    set_bias(call);
  }
  /// A pointer to it is part of the operation.
  void set_bias(Call const& call) const {
    if (epilogue_.bias < 0) { return; }
    void const* const pointer = call.further[static_cast<std::size_t>(epilogue_.bias)].data;
    check_lt(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, sizeof pointer),
             "describing the bias");
  }

  void set_alignment(cublasLtMatmulPreferenceAttributes_t attribute, void const* pointer) {
    uint32_t bytes = 256;
    while (reinterpret_cast<uintptr_t>(pointer) % bytes != 0) { bytes /= 2; }
    check_lt(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &bytes, sizeof bytes), "setting an alignment");
  }

  static void put_scalar(double value, cudaDataType_t type, unsigned char* bytes) {
    auto const put = [bytes](auto stored) { std::memcpy(bytes, &stored, sizeof stored); };
    if (type == CUDA_R_16F) {
      put(f16::store(value));
    } else if (type == CUDA_R_64F) {
      put(value);
    } else if (type == CUDA_C_64F) {
      put(c64::Storage{{value, 0.0}});
    } else if (type == CUDA_R_32I) {
      put(s32::store(value));
    } else {
      put(f32::store(value));
    }
  }

  void plan(LtTypes const& types, Call const& call, LtSums sums) {
    Matrix const& left = swapped_ ? call.b : call.a;
    Matrix const& right = swapped_ ? call.a : call.b;
    Matrix const& c = call.c.data != nullptr ? call.c : call.d;
    cudaDataType_t const scale = types.scale();
    put_scalar(call.alpha, scale, alpha_);
    put_scalar(call.beta, scale, beta_);
    check_lt(cublasLtMatmulDescCreate(&operation_, types.compute(), scale), "cublasLtMatmulDescCreate");
    // `left` must be (rows of D^T or D, K): K contiguous is its transpose. `right` must be (K, ...): the other way.
    set_operation(CUBLASLT_MATMUL_DESC_TRANSA, left.cols_contiguous ? CUBLAS_OP_T : CUBLAS_OP_N);
    set_operation(CUBLASLT_MATMUL_DESC_TRANSB, right.cols_contiguous ? CUBLAS_OP_N : CUBLAS_OP_T);
    cudaDataType_t const left_type = lt_type(swapped_ ? types.b : types.a);
    cudaDataType_t const right_type = lt_type(swapped_ ? types.a : types.b);
    bool const scaled = left_scales_.of().exist() || right_scales_.of().exist();
    if (scaled && call.batch > 1) {
      throw Failure{Disposition::kNotSupported, "cuBLASLt is not called with scales of a batch"};
    }
    if (scaled) {
      set_scale_modes();
      prepare(call, nullptr);
      set_scales(call);
    }
    set_epilogue(call);
    bool const along_k = left_scales_.of().along_k > 0 || right_scales_.of().along_k > 0;
    if (!along_k && (left_type == CUDA_R_8F_E4M3 || left_type == CUDA_R_8F_E5M2)) {
      // As a plain chain of tensor-core instructions adds, without promotion to f32 in between.
      int8_t const fast = 1;
      check_lt(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast),
               "asking for fast accumulation");
    }
    describe(left, left_type, &left_);
    describe(right, right_type, &right_);
    describe(c, lt_type(types.out), &c_);
    describe(call.d, lt_type(types.out), &d_);

    check_lt(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    check_lt(cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kLtWorkspaceBytes,
                                                  sizeof kLtWorkspaceBytes),
             "setting the workspace size");
    if (sums == LtSums::kAccumulators) {
      uint32_t const schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
      check_lt(cublasLtMatmulPreferenceSetAttribute(preference_, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                                    sizeof schemes),
               "setting the type of sums");
    }
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, left.data);
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, right.data);
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c.data);
    set_alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, call.d.data);

    int count = 0;
    found_.resize(kHeuristics);
    check_lt(cublasLtMatmulAlgoGetHeuristic(lt_handle(), operation_, left_, right_, c_, d_, preference_, kHeuristics,
                                            found_.data(), &count),
             "cublasLtMatmulAlgoGetHeuristic");
    found_.resize(static_cast<std::size_t>(count));
    found_.erase(
        std::remove_if(found_.begin(), found_.end(), [](auto const& one) { return one.state != CUBLAS_STATUS_SUCCESS; }),
        found_.end());
    if (found_.empty()) { throw Failure{Disposition::kNotSupported, "cuBLASLt has no algorithm for this problem"}; }
  }

  void destroy() {
    if (preference_ != nullptr) { cublasLtMatmulPreferenceDestroy(preference_); }
    for (cublasLtMatrixLayout_t const layout : {left_, right_, c_, d_}) {
      if (layout != nullptr) { cublasLtMatrixLayoutDestroy(layout); }
    }
    if (operation_ != nullptr) { cublasLtMatmulDescDestroy(operation_); }
  }

  bool swapped_;
  LtEpilogue epilogue_;
  alignas(16) unsigned char alpha_[16] = {};
  alignas(16) unsigned char beta_[16] = {};
  LtScales left_scales_, right_scales_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t left_ = nullptr, right_ = nullptr, c_ = nullptr, d_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> found_;
};

}  // namespace v0_1
}  // namespace mmagen::test
