// The matrices of one problem, and the call that hands them to a kernel.
//
// A Subject, spelled in each project's tests/subject.cuh, is what is tested:
//   types A, B, Out, Acc, Scalar           tags of types.cuh
//   kName, kSpecSha, kMmagenVersion        texts for the record
//   kLayoutLetters, kAtom                  texts: "TN", the CuTe operation
//   kAMajor, kBMajor, kDMajor              the contiguous dimension: 'K' or 'M', 'K' or 'N', 'N' or 'M' (C is as D)
//   kAtomK                                 K of one MMA instruction
//   kFixedShape, kTileM, kTileN, kTileK    whether the kernel takes its tile as the only problem
//   problems()                             the built-in problems
//   run(Call, stream), query(KernelFacts*), status_text(status)   the C ABI
//   and, for bench, peak_launch(iterations, double* flop, stream)
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "buffers.cuh"
#include "inputs.cuh"
#include "problem.cuh"
#include "small_int.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// The status codes of every project's C ABI.
enum Status : int { kSuccess = 0, kInvalidArgument = 1, kNotSupported = 2, kCudaError = 3 };

/// The project's <name>_info.
struct KernelFacts {
  int32_t threads = 0, registers = 0, local_bytes = 0, smem_bytes = 0, ctas_per_sm = 0;
};

struct Call {
  int64_t m, n, k, batch;
  double alpha, beta;
  Matrix a;  // (M,K,batch)
  Matrix b;  // (N,K,batch)
  Matrix c;  // (M,N,batch); no data when beta is 0
  Matrix d;  // (M,N,batch)
};

enum class InPlace { kNo, kYes };  ///< whether C is D

template <class Subject>
class Operands {
 public:
  using A = typename Subject::A;
  using B = typename Subject::B;
  using Out = typename Subject::Out;

  explicit Operands(Problem const& problem)
      : problem_(problem),
        a_(shape<A>(problem.m, problem.k, Subject::kAMajor == 'K'), A::kPoisonByte, problem.ld_pad, problem.offset),
        b_(shape<B>(problem.n, problem.k, Subject::kBMajor == 'K'), B::kPoisonByte, problem.ld_pad, problem.offset),
        d_(shape<Out>(problem.m, problem.n, Subject::kDMajor == 'N'), Out::kPoisonByte, problem.ld_pad, problem.offset) {
    // Twice the padding, so that C's leading dimension cannot be mistaken for D's.
    if (problem.beta != 0.0) {
      c_ = GuardedMatrix(shape<Out>(problem.m, problem.n, Subject::kDMajor == 'N'), Out::kPoisonByte, 2 * problem.ld_pad,
                         problem.offset);
    }
  }

  /// Also poisons the gaps and guard bands.
  void fill_inputs(Distribution distribution, SmallIntRule const& rule, uint64_t seed, cudaStream_t stream) {
    c_fill_ = {distribution, rule.c_range, 1, splitmix64(seed ^ 0xc000000000000000ull)};
    a_.poison(stream);
    b_.poison(stream);
    fill_matrix<A>(a_.matrix(), {distribution, rule.range, rule.group, splitmix64(seed ^ 0xa000000000000000ull)}, stream);
    fill_matrix<B>(b_.matrix(), {distribution, rule.range, 1, splitmix64(seed ^ 0xb000000000000000ull)}, stream);
    if (has_c()) {
      c_.poison(stream);
      fill_matrix<Out>(c_.matrix(), c_fill_, stream);
    }
  }

  /// D full of poison or, when it doubles as C, of C's values with poison around them.
  void prepare_output(InPlace in_place, cudaStream_t stream) const {
    d_.poison(stream);
    if (in_place == InPlace::kYes) { fill_matrix<Out>(d_.matrix(), c_fill_, stream); }
  }

  Call call(InPlace in_place) const {
    Matrix const c = in_place == InPlace::kYes ? d_.matrix() : c_.matrix();
    return {problem_.m,  problem_.n,  problem_.k, problem_.batch, problem_.alpha, problem_.beta,
            a_.matrix(), b_.matrix(), c,          d_.matrix()};
  }

  bool has_c() const { return problem_.beta != 0.0; }
  Matrix const& c() const { return c_.matrix(); }
  GuardedMatrix const& d() const { return d_; }

  uint64_t inputs_checksum(cudaStream_t stream) const {
    uint64_t const ab = a_.checksum(stream) + 3 * b_.checksum(stream);
    return has_c() ? ab + 5 * c_.checksum(stream) : ab;
  }

  /// Bytes a perfect kernel moves: each operand once.
  double bytes() const { return a_.matrix().bytes() + b_.matrix().bytes() + d_.matrix().bytes() * (has_c() ? 2.0 : 1.0); }

 private:
  template <class T>
  Matrix shape(int64_t rows, int64_t cols, bool cols_contiguous) const {
    Matrix matrix;
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.batch = problem_.batch;
    matrix.cols_contiguous = cols_contiguous;
    matrix.element_bytes = sizeof(typename T::Storage);
    return matrix;
  }

  Problem problem_;
  Fill c_fill_;
  GuardedMatrix a_, b_, c_, d_;
};

}  // namespace v0_1
}  // namespace mmagen::test
