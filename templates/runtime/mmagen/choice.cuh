// Chooses one of several kernels by rules over the extents of a problem; the first rule that holds decides. Host only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

inline constexpr int64_t kNoEnd = INT64_MAX;

/// Closed intervals for M, N, K and M * N, all of which must hold. Without any interval it holds for every problem.
class When {
 public:
  constexpr When m(int64_t least, int64_t most) const { return with(kM, least, most); }
  constexpr When n(int64_t least, int64_t most) const { return with(kN, least, most); }
  constexpr When k(int64_t least, int64_t most) const { return with(kK, least, most); }
  constexpr When mn(int64_t least, int64_t most) const { return with(kMn, least, most); }

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
    return when;
  }

  int64_t least_[kQuantities] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
  int64_t most_[kQuantities] = {kNoEnd, kNoEnd, kNoEnd, kNoEnd};
};

/// A kernel to choose, as functions of the project's public structs. `when` of the last one is ignored; `workspace` is null
/// if the kernel uses none.
template <class Args, class Info>
struct Candidate {
  char const* name;
  When when;
  Status (*run)(Args const&, cudaStream_t);
  Status (*query)(Info&);
  Status (*workspace)(Args const&, int64_t&);
};

/// The first candidate whose `when` holds, else the last one.
template <class Args, class Info, int kCount>
constexpr Candidate<Args, Info> const& choose(Candidate<Args, Info> const (&candidates)[kCount], int64_t m, int64_t n,
                                              int64_t k) {
  for (int i = 0; i < kCount - 1; ++i) {
    if (candidates[i].when.holds(m, n, k)) { return candidates[i]; }
  }
  return candidates[kCount - 1];
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

/// The workspace of the candidate that a call with these arguments would run.
template <class Args, class Info, int kCount>
Status workspace_of(Candidate<Args, Info> const (&candidates)[kCount], Args const& args, int64_t& bytes) {
  bytes = 0;
  auto const& chosen = choose(candidates, args.m, args.n, args.k);
  return chosen.workspace == nullptr ? Status::kSuccess : chosen.workspace(args, bytes);
}

}  // namespace v0_1
}  // namespace mmagen
