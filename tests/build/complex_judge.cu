// The judge of complex products, as tests/verify.cu of a project has it, on matrices of a test.
#include "mmagen/judge.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// A product of (m,k) and (n,k), D and C of (m,n), without padding; and what is found.
struct Case {
  int64_t m, n, k, positive;
  double alpha, beta;
  long long incorrect, first;
  double max_abs_err, bound;
};

inline Matrix matrix_of(void const* data, int64_t rows, int64_t cols, bool cols_contiguous) {
  Matrix matrix;
  matrix.data = const_cast<void*>(data);
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.batch = 1;
  matrix.ld = cols_contiguous ? cols : rows;
  matrix.batch_stride = rows * cols;
  matrix.cols_contiguous = cols_contiguous;
  matrix.element_bytes = sizeof(c64::Storage);
  return matrix;
}

struct OfC64 {
  using Scalar = f64;
  using Acc = c64;
};

}  // namespace v0_1
}  // namespace mmagen::test

using namespace mmagen::test;

/// B has N contiguous, D has N.
extern "C" int judge(void const* a, void const* b, void const* c, void const* d, Case* one) {
  Accumulation const of = {0, 1, 52, true, 0, 1, false};
  ReferenceSlab slab(one->m, one->n * kPartsOf<c64>);
  slab.compute<c64, c64, false, NoScales>(matrix_of(a, one->m, one->k, true), matrix_of(b, one->n, one->k, false), NoScales{},
                                          of, false, 0, 0, one->m, nullptr);
  Comparison comparison;
  comparison.add<c64, LinearCombinationModel>(matrix_of(d, one->m, one->n, true), matrix_of(c, one->m, one->n, true),
                                              FurtherMatrices{}, error_model<OfC64>(one->alpha, one->beta, false, false), 0, 0,
                                              one->m, slab.sum(), slab.magnitude(), slab.drift(), nullptr);
  Findings const& found = comparison.total();
  one->incorrect = static_cast<long long>(found.incorrect);
  one->first = found.first;
  one->max_abs_err = found.max_abs_err;
  one->bound = found.bound;
  return 0;
}

/// Small integers, as inputs have them.
extern "C" int fill(void* a, Case const* one) {
  fill_matrix<c64>(matrix_of(a, one->m, one->k, true), Fill{Distribution::kSmallInt, 4.0, 1, one->positive != 0, 7}, nullptr);
  return 0;
}
