// SPDX-License-Identifier: MIT-0
// Chooses one of several kernels: the first whose rule on the extents holds, else the one with the least predicted time.
// Host only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "predicted_time.cuh"
#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

inline constexpr int64_t kNoEnd = INT64_MAX;

/// Closed intervals for M, N, K and M * N, all of which must hold. Without any interval the rule holds for every problem.
class When {
 public:
  constexpr When m(int64_t least, int64_t most) const { return with(kM, least, most); }
  constexpr When n(int64_t least, int64_t most) const { return with(kN, least, most); }
  constexpr When k(int64_t least, int64_t most) const { return with(kK, least, most); }
  constexpr When mn(int64_t least, int64_t most) const { return with(kMn, least, most); }

  /// Is there an interval?
  constexpr bool decides() const { return decides_; }

  constexpr bool holds(int64_t m, int64_t n, int64_t k) const {
    // The product of extents beyond the limits may wrap around: any kernel that is chosen rejects them.
    int64_t const values[kQuantities] = {m, n, k, int64_t(uint64_t(m) * uint64_t(n))};
    for (int i = 0; i < kQuantities; ++i) {
      if (values[i] < least_[i] || values[i] > most_[i]) { return false; }
    }
    return true;
  }

 private:
  enum Quantity { kM, kN, kK, kMn, kQuantities };

  constexpr When with(Quantity quantity, int64_t least, int64_t most) const {
    When when = *this;
    when.least_[quantity] = least;
    when.most_[quantity] = most;
    when.decides_ = true;
    return when;
  }

  int64_t least_[kQuantities] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
  int64_t most_[kQuantities] = {kNoEnd, kNoEnd, kNoEnd, kNoEnd};
  bool decides_ = false;
};

/// A kernel that may be chosen: functions that take the project's public structs. `workspace` is null if the kernel uses none.
/// narrower: the kernel with each narrower tile, ascending; of_call() selects for each call.
template <class Args, class Info>
struct Candidate {
  using Run = Status (*)(Args const&, cudaStream_t);
  using CanRun = Status (*)(Args const&);
  using Query = Status (*)(Info&);
  using Workspace = Status (*)(Args const&, int64_t&);

  constexpr Candidate(char const* name, When const& when, Run run, CanRun can_run, Query query, Workspace workspace,
                      TimedKernel const& timed = TimedKernel(KernelShape{}, Cost{}))
      : name(name), when(when), run(run), can_run(can_run), query(query), workspace(workspace), timed(timed) {}

  template <int kWidths>
  constexpr Candidate(char const* name, When const& when, Run run, CanRun can_run, Query query, Workspace workspace,
                      TimedKernel const& timed, TimedKernel const (&narrower)[kWidths])
      : Candidate(name, when, run, can_run, query, workspace, timed) {
    this->narrower = narrower;
    widths = kWidths;
  }

  char const* name;
  When when;
  Run run;
  CanRun can_run;
  Query query;
  Workspace workspace;
  TimedKernel timed;
  TimedKernel const* narrower = nullptr;
  int widths = 0;
};

namespace detail {

template <class Args>
CallShape shape_of_call(Args const& args, KernelShape const& kernel) {
  double const batch = args.batch == 0 ? 1.0 : double(args.batch);  // 0 is one matrix
  return call_shape(kernel, double(args.m), double(args.n), double(args.k), batch, double(args.lda) * kernel.bytes_a,
                    double(args.ldb) * kernel.bytes_b, double(args.ldd) * kernel.bytes_d);
}

}  // namespace detail

/// Whether the choice is made for a call as it is, or as if it had the workspace that the chosen kernel asks for.
enum class Workspace { kAsGiven, kAsAskedFor };

/// The first candidate whose `when` holds. Else, of those without one, the candidate with the least predicted time; the last
/// one if their costs are not known or the call has nothing to multiply.
template <class Args, class Info, int kCount>
Candidate<Args, Info> const& choose(Candidate<Args, Info> const (&candidates)[kCount], Args const& args,
                                    Workspace workspace = Workspace::kAsGiven) {
  Candidate<Args, Info> const* last = nullptr;
  int others = 0;
  for (Candidate<Args, Info> const& one : candidates) {
    if (!one.when.decides()) {
      last = &one;
      ++others;
    } else if (one.when.holds(args.m, args.n, args.k)) {
      return one;
    }
  }
  if (others == 1 || !last->timed.cost.known()) { return *last; }
  CallShape const call = detail::shape_of_call(args, last->timed.kernel);
  if (call.empty()) { return *last; }
  bool const given = workspace == Workspace::kAsAskedFor || args.workspace != nullptr;
  // The candidate that could be the fastest is predicted first: what it takes rules out most of the others.
  TimedKernel const* timed[kCount];
  Demand asked[kCount];
  int first = -1;
  for (int i = 0; i < kCount; ++i) {
    if (candidates[i].when.decides()) { continue; }
    timed[i] = &of_call(candidates[i].timed, candidates[i].narrower, candidates[i].widths, call);
    asked[i] = demand(*timed[i], call);
    if (first < 0 || asked[i].least < asked[first].least) { first = i; }
  }
  auto const predicted = [&](int i, double limit) { return predicted_us(*timed[i], call, asked[i], limit, given); };
  int best = first;
  double least = predicted(first, INFINITY);
  for (int i = 0; i < kCount; ++i) {
    if (candidates[i].when.decides() || asked[i].least >= least || i == first) { continue; }
    double const us = predicted(i, least);
    if (us < least || (us == least && i < best)) { least = us, best = i; }
  }
  return candidates[best];
}

/// The maximum of each resource over the candidates, and the minimum of CTAs per multiprocessor.
template <class Args, class Info, int kCount>
Status query_all(Candidate<Args, Info> const (&candidates)[kCount], Info& info) {
  auto const keep_larger = [](int32_t& kept, int32_t other) { kept = other > kept ? other : kept; };
  for (int i = 0; i < kCount; ++i) {
    Info one{};
    Status const status = candidates[i].query(one);
    if (status != Status::kSuccess) { return status; }
    if (i == 0) { info = one; }
    keep_larger(info.threads, one.threads);
    keep_larger(info.registers, one.registers);
    keep_larger(info.local_bytes, one.local_bytes);
    keep_larger(info.smem_bytes, one.smem_bytes);
    info.ctas_per_sm = one.ctas_per_sm < info.ctas_per_sm ? one.ctas_per_sm : info.ctas_per_sm;
  }
  return Status::kSuccess;
}

}  // namespace v0_1
}  // namespace mmagen
