// SPDX-License-Identifier: MIT-0
// The operands of a problem, in device memory with guard bands.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "buffers.cuh"
#include "group_pointers.cuh"
#include "groups.cuh"
#include "inputs.cuh"
#include "record.cuh"
#include "types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

// The matrices of one problem, and the call that passes them to a kernel.
//
// A Subject, spelled in each project's tests/subject.cuh, is what is tested:
//   types A, B, Out, Acc, Scalar           tags of types.cuh
//   kName, kSpecSha, kMmagenVersion        texts for the record
//   kLayoutLetters, kAtom                  texts: "TN", the CuTe operation
//   kAMajor, kBMajor, kDMajor              the contiguous dimension: 'K' or 'M', 'K' or 'N', 'N' or 'M' (C is as D)
//   kAccumulation                          what the kernel keeps of its sums
//   kFixedShape, kTileM, kTileN, kTileK    whether the kernel takes its tile as the only problem
//   problems()                             the built-in problems
//   further(Problem)                       the tensors that a call reads beyond A, B and C
//   Scales                                 by which products are multiplied: NoScales, or Scales of scales.cuh
//   Epilogue                               what D may be: LinearCombinationModel, or OperationsModel of epilogue_model.cuh
//   run(Call, stream), query(KernelFacts*), error_text()   the C ABI
//   and, where A is changed once it is filled, prepare_a(Matrix, stream); where B is, once all is filled, prepare_b(Matrix,
//   further, distribution, seed, stream), and kPackedB, its elements in a byte; where several of A are a byte, kPackedA; with
//   these, forget_a(Matrix) and forget_b(Matrix), which free what was made of them
//   and, for bench, peak_launch(iterations, double* flop, stream)

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
  void const* alpha_device = nullptr;
  void const* beta_device = nullptr;
  GroupArguments groups = {};
  std::vector<Matrix> further = {};  // in the order of Subject::further()
  PointerArguments pointers = {};    // where groups have matrices of their own
  std::vector<Call> each = {};       // their calls; those of empty groups have no D
};

/// Does the Subject change A once it is filled?
template <class Subject, class = void>
struct PreparesA : std::false_type {};
template <class Subject>
struct PreparesA<Subject, std::void_t<decltype(&Subject::prepare_a)>> : std::true_type {};
/// Elements of A in a byte that the kernel loads.
template <class Subject, class = void>
inline constexpr int kPackedAOf = 1;
template <class Subject>
inline constexpr int kPackedAOf<Subject, std::void_t<decltype(Subject::kPackedA)>> = Subject::kPackedA;
/// Does the Subject change B once all else is filled?
template <class Subject, class = void>
struct PreparesB : std::false_type {
  static constexpr int kPacked = 1;
};
template <class Subject>
struct PreparesB<Subject, std::void_t<decltype(&Subject::prepare_b)>> : std::true_type {
  static constexpr int kPacked = Subject::kPackedB;
};
/// A tensor beyond A, B, C and D that a call reads.
struct FurtherTensor {
  Matrix shape;
  unsigned char poison;
  int64_t ld_pad, offset;
  double reach_c;  ///< of uniform entries
  bool updated;    ///< the call raises what it holds, which is zero at first
  void (*fill)(Matrix const& matrix, Fill const& fill, cudaStream_t stream);
  bool scales = false;  ///< does it hold scales of an operand?
  bool shared = false;  ///< is there one for all matrices of a batch, or all groups?

  double reach(Draw const& draw) const {
    return scales ? draw.scale : draw.distribution == Distribution::kUniform ? reach_c : draw.reach_c;
  }
};

/// As in the header of a kernel.
inline int64_t ceil_div(int64_t extent, int64_t step) { return (extent + step - 1) / step; }

/// One of rows x cols elements of type T, for each matrix of the batch. pitched: it has a leading dimension. place: in the
/// list, for a leading dimension of its own; TMA can address it where it can address D.
template <class T>
FurtherTensor further_tensor(Problem const& problem, int place, int64_t rows, int64_t cols, bool cols_contiguous, bool pitched,
                             bool batched, bool updated) {
  Matrix shape;
  shape.rows = rows;
  shape.cols = cols;
  shape.batch = batched ? problem.batch : 1;
  shape.cols_contiguous = cols_contiguous;
  shape.element_bytes = sizeof(typename T::Storage);
  int64_t const pad = pitched ? problem.ld_pad + 16 * (place + 1) : 0;
  return {shape, T::kPoisonByte, pad, problem.offset, reach_of_c<T>(), updated, &fill_matrix<T>, false, !batched};
}

enum class InPlace { kNo, kYes };  ///< whether C is D

/// Elements by which lines exceed rows, and by which pointers are off their alignment.
struct Padding {
  int64_t a, b, c, d;
  int64_t offset_a, offset_b, offset_c, offset_d;
};

template <class Subject>
class Operands {
 public:
  using A = typename Subject::A;
  using B = typename Subject::B;
  using Out = typename Subject::Out;

  /// C has twice the padding, so that a kernel that uses D's leading dimension for C fails.
  explicit Operands(Problem const& problem)
      : Operands(problem, {problem.ld_pad, problem.ld_pad, 2 * problem.ld_pad, problem.ld_pad, problem.offset, problem.offset,
                           problem.offset, problem.offset}) {}

  Operands(Problem const& problem, Padding const& pad) : problem_(problem) {
    if (kGroupRowsOf<Subject> == GroupRows::kPointers && !problem.groups.empty()) {
      make_groups();
      return;
    }
    a_ = GuardedMatrix(shape<A>(problem.m, problem.k, Subject::kAMajor == 'K'), A::kPoisonByte, pad.a, pad.offset_a,
                       stride_of<Subject>(problem, 0));
    b_ = GuardedMatrix(shape<B>(problem.n, problem.k, Subject::kBMajor == 'K'), B::kPoisonByte, pad.b, pad.offset_b,
                       stride_of<Subject>(problem, 1));
    d_ = GuardedMatrix(shape<Out>(problem.m, problem.n / Subject::Epilogue::kSumsOfElement, Subject::kDMajor == 'N'),
                       Out::kPoisonByte, pad.d, pad.offset_d, stride_of<Subject>(problem, 3));
    groups_.make<Subject>(problem);
    if (problem.beta != 0.0) {
      c_ = GuardedMatrix(shape<Out>(problem.m, problem.n, Subject::kDMajor == 'N'), Out::kPoisonByte, pad.c, pad.offset_c,
                         stride_of<Subject>(problem, 2));
      using Scalar = typename Subject::Scalar;
      typename Scalar::Storage const values[] = {Scalar::store(problem.alpha), Scalar::store(problem.beta)};
      scalars_ = DeviceMemory(sizeof values);
      scalars_.copy_from(values, "copying alpha and beta");
    }
    for (FurtherTensor const& one : Subject::further(problem)) {
      further_.push_back(one);
      int64_t const stride = one.shape.batch == 1 ? 0 : -1;  // one that all matrices share, or the default
      further_memory_.emplace_back(one.shape, one.poison, one.ld_pad, one.offset, stride);
    }
  }

  /// Also poisons the gaps and guard bands.
  void fill_inputs(Draw const& draw, uint64_t seed, cudaStream_t stream) {
    if (!each_.empty()) { return fill_groups(draw.distribution, seed, stream); }
    auto const fill = [&](double reach, int64_t group, bool positive, uint64_t tag) {
      return Fill{draw.distribution, reach, group, positive, splitmix64(seed ^ tag << 60)};
    };
    c_fill_ = fill(draw.reach_c, 1, false, 0xc);
    a_.poison(stream);
    b_.poison(stream);
    fill_matrix<A>(a_.matrix(), fill(draw.reach_a, draw.group, draw.positive, 0xa), stream);
    if constexpr (PreparesA<Subject>::value) { Subject::prepare_a(a_.matrix(), stream); }
    fill_matrix<B>(b_.matrix(), fill(draw.reach_b, 1, draw.positive, 0xb), stream);
    if (has_c()) {
      c_.poison(stream);
      fill_matrix<Out>(c_.matrix(), c_fill_, stream);
    }
    for (std::size_t i = 0; i < further_.size(); ++i) {
      if (further_[i].updated) { continue; }
      further_memory_[i].poison(stream);
      further_[i].fill(further_memory_[i].matrix(), fill(further_[i].reach(draw), 1, false, 0xf0 + i), stream);
    }
    if constexpr (PreparesB<Subject>::value) {
      std::vector<Matrix> further;
      for (GuardedMatrix const& one : further_memory_) { further.push_back(one.matrix()); }
      Subject::prepare_b(b_.matrix(), further, draw.distribution, splitmix64(seed ^ 0xbull << 56), stream);
    }
  }

  /// D filled with poison or, if it is also C, with C's values and poison around them.
  void prepare_output(InPlace in_place, cudaStream_t stream) const {
    for (auto const& one : each_) {
      if (one) { one->prepare_output(in_place, stream); }
    }
    if (each_.empty()) {
      d_.poison(stream);
      if (in_place == InPlace::kYes) { fill_matrix<Out>(d_.matrix(), c_fill_, stream); }
    }
    for (std::size_t i = 0; i < further_.size(); ++i) {
      if (!further_[i].updated || (!each_.empty() && !further_[i].shared)) { continue; }
      further_memory_[i].poison(stream);
      further_[i].fill(further_memory_[i].matrix(), Fill{Distribution::kZeros}, stream);
    }
  }

  /// In place, the scalars that the epilogue has are in device memory, and what the host has of them is of no use.
  Call call(InPlace in_place) const {
    Matrix const c = in_place == InPlace::kYes ? d_.matrix() : c_.matrix();
    Call call = {problem_.m,  problem_.n,  problem_.k, problem_.batch, problem_.alpha, problem_.beta,
                 a_.matrix(), b_.matrix(), c,          d_.matrix()};
    call.groups = groups_.arguments();
    if (!each_.empty()) { call.pointers = pointers_.arguments(in_place == InPlace::kYes); }
    for (auto const& one : each_) { call.each.push_back(one ? one->call(in_place) : Call{}); }
    if (in_place == InPlace::kYes) {
      if (Subject::Epilogue::kAlpha) {
        call.alpha = NAN;
        call.alpha_device = scalars_.get();
      }
      call.beta = NAN;
      call.beta_device = static_cast<unsigned char*>(scalars_.get()) + sizeof(typename Subject::Scalar::Storage);
    }
    for (GuardedMatrix const& one : further_memory_) { call.further.push_back(one.matrix()); }
    return call;
  }

  bool has_c() const { return problem_.beta != 0.0; }
  Matrix const& c() const { return c_.matrix(); }
  GuardedMatrix const& d() const { return d_; }
  Problem const& problem() const { return problem_; }
  GroupMemory const& groups() const { return groups_; }
  /// Where groups have matrices of their own: of one that is not empty.
  Operands const& of_group(std::size_t group) const { return *each_[group]; }

  /// Elements outside of D that were written since prepare_output().
  int64_t strays(cudaStream_t stream) const {
    int64_t sum = each_.empty() ? d_.strays(stream) : 0;
    for (auto const& one : each_) { sum += one ? one->strays(stream) : 0; }
    return sum;
  }
  /// Groups that the kernel did not report as computed, after a call.
  int64_t skipped_groups(cudaStream_t stream) const {
    return !each_.empty() ? pointers_.reported(stream) : groups_.empty() ? 0 : groups_.reported(stream);
  }
  uint64_t output_checksum(cudaStream_t stream) const {
    uint64_t sum = each_.empty() ? d_.checksum(stream) : 0;
    for (auto const& one : each_) { sum = 7 * sum + (one ? one->output_checksum(stream) : 0); }
    return sum;
  }
  /// The tensors that the call raises, and their places in the list; of groups with matrices of their own, those that all
  /// share.
  std::vector<std::pair<std::size_t, GuardedMatrix const*>> updated() const {
    std::vector<std::pair<std::size_t, GuardedMatrix const*>> found;
    for (std::size_t i = 0; i < further_.size(); ++i) {
      bool const has = each_.empty() || further_[i].shared;
      if (further_[i].updated && has) { found.emplace_back(i, &further_memory_[i]); }
    }
    return found;
  }
  /// Is the tensor at this place one for all groups?
  bool is_shared(std::size_t place) const { return further_[place].shared; }

  uint64_t inputs_checksum(cudaStream_t stream) const {
    if (!each_.empty()) {
      uint64_t all = 0;
      for (auto const& one : each_) { all = 7 * all + (one ? one->inputs_checksum(stream) : 0); }
      return all;
    }
    uint64_t sum = a_.checksum(stream) + 3 * b_.checksum(stream);
    if (has_c()) { sum += 5 * c_.checksum(stream); }
    for (std::size_t i = 0; i < further_.size(); ++i) {
      if (!further_[i].updated) { sum = 7 * sum + further_memory_[i].checksum(stream); }
    }
    return sum;
  }

  /// The minimum of bytes moved: each operand once; of groups, the rows that there are.
  double bytes() const {
    if (!each_.empty()) {
      double all = 0;
      for (auto const& one : each_) { all += one ? one->bytes() : 0.0; }
      return all;
    }
    double const of_b = b_.matrix().bytes() / PreparesB<Subject>::kPacked;
    double const of_a = a_.matrix().bytes() / kPackedAOf<Subject>;
    double sum = groups_.empty() ? of_a + of_b + d_.matrix().bytes() * (has_c() ? 2.0 : 1.0) : bytes_of_groups();
    for (GuardedMatrix const& one : further_memory_) { sum += one.matrix().bytes(); }
    return sum;
  }

 private:
  /// Matrices of each group that has elements. Those of A and B begin and have lines at multiples of 16 elements, as TMA needs;
  /// where leading dimensions are padded, C and D of every other group begin anywhere. Every leading dimension differs from
  /// that of the group before.
  void make_groups() {
    std::vector<GroupMatricesOf> all;
    for (FurtherTensor const& one : Subject::further(problem_)) {
      further_.push_back(one);
      further_memory_.emplace_back();
      if (one.shared) { further_memory_.back() = GuardedMatrix(one.shape, one.poison, one.ld_pad, one.offset, 0); }
    }
    for (std::size_t i = 0; i < problem_.groups.size(); ++i) {
      Problem own = problem_;
      own.groups.clear();
      own.groups_nk.clear();
      own.batch = 1;
      own.m = problem_.groups[i];
      own.n = problem_.n_of(i);
      int64_t const k = problem_.k_of(i);
      own.k = std::max<int64_t>(k, 1);  // without a K A and B are zeros for the reference
      all.push_back({own.m, own.n, k, {}});
      if (own.m == 0 || own.n == 0) {
        each_.emplace_back();
        continue;
      }
      auto const pad = [](int64_t line, int64_t more) { return ceil_div(line, 16) * 16 - line + 16 * more; };
      int64_t const turn = static_cast<int64_t>(i);
      int64_t const odd = own.ld_pad > 0 ? turn % 2 : 0, line_d = Subject::kDMajor == 'N' ? own.n : own.m;
      Padding const padding = {pad(Subject::kAMajor == 'K' ? own.k : own.m, turn % 3),
                               pad(Subject::kBMajor == 'K' ? own.k : own.n, 1 + turn % 2),
                               odd ? own.ld_pad + 5 + turn % 3 : pad(line_d, 2 + turn % 3),
                               odd ? own.ld_pad + turn % 4 : pad(line_d, turn % 4),
                               0,
                               0,
                               odd * 3,
                               odd};
      own.ld_pad += turn % 3;  // of further tensors
      own.offset = odd;
      each_.push_back(std::make_unique<Operands>(own, padding));
      Operands const& made = *each_.back();
      auto const all_of = [](GuardedMatrix const& one) { return PointerAndPitch{one.matrix().data, one.matrix().ld}; };
      all.back().matrices[0] = k > 0 ? all_of(made.a_) : PointerAndPitch{};
      all.back().matrices[1] = k > 0 ? all_of(made.b_) : PointerAndPitch{};
      if (has_c()) { all.back().matrices[2] = all_of(made.c_); }
      all.back().matrices[3] = all_of(made.d_);
      for (std::size_t j = 0; j < further_.size(); ++j) {
        bool const used = k > 0 || !further_[j].scales;
        all.back().further.push_back(used ? all_of(made.further_memory_[j]) : PointerAndPitch{});
      }
    }
    pointers_ = PointerMemory(all, further_.size());
    if (has_c()) {
      using Scalar = typename Subject::Scalar;
      typename Scalar::Storage const values[] = {Scalar::store(problem_.alpha), Scalar::store(problem_.beta)};
      scalars_ = DeviceMemory(sizeof values);
      scalars_.copy_from(values, "copying alpha and beta");
    }
  }

  void fill_groups(Distribution distribution, uint64_t seed, cudaStream_t stream) {
    for (std::size_t i = 0; i < each_.size(); ++i) {
      if (!each_[i]) { continue; }
      each_[i]->fill_inputs(draw_of<Subject>(each_[i]->problem_, distribution), splitmix64(seed + i), stream);
      if (problem_.k_of(i) > 0) { continue; }
      fill_matrix<A>(each_[i]->a_.matrix(), Fill{Distribution::kZeros}, stream);
      fill_matrix<B>(each_[i]->b_.matrix(), Fill{Distribution::kZeros}, stream);
    }
  }

  double bytes_of_groups() const {
    double const rows = static_cast<double>(rows_together(problem_));
    auto const line = [](Matrix const& one) { return static_cast<double>(one.cols) * one.element_bytes; };
    auto const used = std::count_if(problem_.groups.begin(), problem_.groups.end(), [](int32_t one) { return one > 0; });
    double const of_b = line(b_.matrix()) * static_cast<double>(b_.matrix().rows);
    double const matrices = b_.matrix().batch_stride == 0 ? 1.0 : static_cast<double>(used);
    return rows * (line(a_.matrix()) + line(d_.matrix()) * (has_c() ? 2.0 : 1.0)) + of_b * matrices;
  }

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
  GroupMemory groups_;
  PointerMemory pointers_;
  std::vector<std::unique_ptr<Operands>> each_;  // of groups with matrices of their own; none for an empty one
  DeviceMemory scalars_;                         // alpha, beta
  std::vector<FurtherTensor> further_;
  std::vector<GuardedMatrix> further_memory_;
};

}  // namespace v0_1
}  // namespace mmagen::test
