// Which of several kernels a problem takes: rules over its extents, of which the first that holds decides. Host only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "status.cuh"

namespace mmagen {
inline namespace v0_1 {

inline constexpr int64_t kNoEnd = INT64_MAX;

/// Closed intervals over M, N, K and M * N, all of which must hold. Without any it holds for every problem.
class When {
 public:
  constexpr When m(int64_t least, int64_t most) const { return with(kM, least, most); }
  constexpr When n(int64_t least, int64_t most) const { return with(kN, least, most); }
  constexpr When k(int64_t least, int64_t most) const { return with(kK, least, most); }
  constexpr When mn(int64_t least, int64_t most) const { return with(kMn, least, most); }

  constexpr bool holds(int64_t m, int64_t n, int64_t k) const {
    // Extents that no kernel takes may wrap around here; whichever is chosen refuses them.
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

/// A kernel to choose, behind functions of the project's public structs. `when` of the last is not looked at; `workspace`
/// is null where the kernel has no use for one.
template <class Args, class Info>
struct Candidate {
  char const* name;
  When when;
  Status (*run)(Args const&, cudaStream_t);
  Status (*query)(Info&);
  Status (*workspace)(int64_t&);
};

/// The first candidate whose `when` holds; the last where no other does.
template <class Args, class Info, int kCount>
constexpr Candidate<Args, Info> const& choose(Candidate<Args, Info> const (&candidates)[kCount], int64_t m, int64_t n,
                                              int64_t k) {
  for (int i = 0; i < kCount - 1; ++i) {
    if (candidates[i].when.holds(m, n, k)) { return candidates[i]; }
  }
  return candidates[kCount - 1];
}

/// The most that any of the candidates takes, and the fewest CTAs of one that fit.
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

/// As many bytes as the candidate wants that wants most.
template <class Args, class Info, int kCount>
Status workspace_of_all(Candidate<Args, Info> const (&candidates)[kCount], int64_t& bytes) {
  bytes = 0;
  for (int i = 0; i < kCount; ++i) {
    if (candidates[i].workspace == nullptr) { continue; }
    int64_t one = 0;
    Status const status = candidates[i].workspace(one);
    if (status != Status::kSuccess) { return status; }
    bytes = one > bytes ? one : bytes;
  }
  return Status::kSuccess;
}

}  // namespace v0_1
}  // namespace mmagen
