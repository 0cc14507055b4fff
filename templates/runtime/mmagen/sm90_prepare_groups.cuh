// The kernel that runs before the GEMM of groups of separate matrices: it checks each group, and writes the group's tiles,
// pointers and tensor maps to the workspace.
//
// The format of a tensor map is the driver's own: the host encodes one for each operand, and the kernel replaces pointer,
// extents and stride in copies of them. PTX ISA, "tensormap.replace" and "tensormap.cp_fenceproxy".
#pragma once

#include <climits>

#include "epilogue_functor.cuh"
#include "gemm_arguments.cuh"
#include "sm90_barrier.cuh"
#include "sm90_cluster.cuh"
#include "sm90_pointer_groups.cuh"

namespace mmagen {
inline namespace v0_1 {

/// The status of a group of separate matrices: one word for each group, in device memory.
enum class PointerStatus : int {
  kComputed = 0,      // also a group without rows or columns
  kNegativeSize = 1,  // its m, n or k
  kOutOfRange = 2,    // its m, n or k is above that of the call
  kMisaligned = 4,    // A or B, its pointer or its leading dimension, to 16 bytes; C or D to an element
  kShortLine = 5,     // a leading dimension is shorter than a line
  kNullPointer = 6,
  kOddColumns = 7,  // an odd n, where pairs of columns make one of D
};

/// Addresses in device memory of the sizes, pointers and leading dimensions of all groups; operands as the kernel has them.
/// Null: the value of the call holds for all groups.
struct PointerArrays {
  void const* const* a;
  void const* const* b;
  void const* const* c;  // of what TMA loads to the place of D: C, or a second matrix; null where nothing is read
  void* const* d;
  int const *m, *n, *k;
  int const *lda, *ldb, *ldc, *ldd;
  int* status;
};

/// The kernel's parameters. maps: of A, B, D and C, with the boxes and swizzles of the kernel that multiplies; the others of
/// the call.
template <class Config>
struct alignas(128) PrepareParams {
  CUtensorMap maps[kMapsOfGroup];
  PointerArrays from;
  int m, n, k, groups;
  int64_t lda, ldb, ldc, ldd;
  TensorOfGroups further[FurtherOf<Config>::kOfGroups + 1];  // none is an array of no elements
  GroupMatrices<typename Config::ElementD>* matrices;
  GroupTiles* tiles;
};

namespace detail {

inline constexpr int kGroupsOfCta = 4;

/// A matrix for TMA: `along` elements of its contiguous mode, `across` of the other. ld: of a group, 32 bits, or the call's,
/// which the host has checked: it fits 64 bits in bytes, and of A and B it is less than 2^40 bytes.
struct LinesOfGroup {
  void const* pointer;
  int along, across;
  int64_t ld;
};

/// PTX ISA, "tensormap.replace": of a map in shared memory. Its strides are those of all modes but the innermost, in bytes.
CUTE_DEVICE void replace_matrix(CUtensorMap* map, LinesOfGroup const& to, int element_bytes) {
  uint32_t const at = smem_address(map);
  asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(at), "l"(to.pointer) : "memory");
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" ::"r"(at), "r"(to.along) : "memory");
  asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(at), "r"(to.across) : "memory");
  asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(at), "l"(to.ld * element_bytes)
               : "memory");
}

/// Copies a map from shared to global memory, by a whole warp; acquire_tensor_map() makes it visible to copies by TMA.
CUTE_DEVICE void publish_tensor_map(CUtensorMap* to, CUtensorMap const* from) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(to),
      "r"(smem_address(from))
      : "memory");
}

CUTE_DEVICE bool begins_at(LinesOfGroup const& one, int element_bytes, int bytes) {
  return (reinterpret_cast<uintptr_t>(one.pointer) | uintptr_t(one.ld * element_bytes)) % unsigned(bytes) == 0;
}

/// Can a tensor map have this matrix?
CUTE_DEVICE bool is_for_tma(LinesOfGroup const& one, int element_bytes) {
  return begins_at(one, element_bytes, 16) && one.ld * element_bytes < kTmaStrideEnd;
}

/// `bytes`: that the pointer and the lines must be aligned to.
CUTE_DEVICE PointerStatus status_of_lines(LinesOfGroup const& one, int element_bytes, int bytes) {
  if (one.pointer == nullptr) { return PointerStatus::kNullPointer; }
  if (one.ld < one.along) { return PointerStatus::kShortLine; }
  return begins_at(one, element_bytes, bytes) ? PointerStatus::kComputed : PointerStatus::kMisaligned;
}

/// The entry of a group, or the value that all groups share.
template <class Common>
CUTE_DEVICE Common of_group(int const* values, int group, Common common) {
  return values != nullptr ? values[group] : common;
}

/// What is wrong with a further tensor of a group of these extents, as the kernel has them.
CUTE_DEVICE PointerStatus status_of_further(TensorOfGroups const& one, int group, int m, int n, int k) {
  void const* const pointer = one.tensor.data[group];
  int const extent = one.extent == 'm' ? m : one.extent == 'n' ? n : one.extent == 'k' ? k : 1;
  if (pointer == nullptr) { return PointerStatus::kNullPointer; }
  if (one.pitched && of_group(one.tensor.lds, group, one.tensor.ld) < (extent + int64_t(one.step) - 1) / one.step) {
    return PointerStatus::kShortLine;
  }
  return reinterpret_cast<uintptr_t>(pointer) % unsigned(one.bytes) == 0 ? PointerStatus::kComputed
                                                                         : PointerStatus::kMisaligned;
}

}  // namespace detail

/// Grid: a warp for each group. The lanes of a warp compute the same values, except for further tensors, and lane 0 writes
/// them.
template <class Config>
__global__ void __launch_bounds__(32 * detail::kGroupsOfCta)
    sm90_prepare_groups(__grid_constant__ PrepareParams<Config> const params) {
  using A = typename Config::A;
  using B = typename Config::B;
  using ElementD = typename Config::ElementD;
  using detail::LinesOfGroup;
  using detail::of_group;
  constexpr int kBytesA = int(sizeof(typename A::Element)), kBytesB = int(sizeof(typename B::Element));
  constexpr int kBytesD = int(sizeof(ElementD));
  constexpr int kPair = kSumsOfElement<typename Config::Epilogue::Functor>;
  __shared__ alignas(128) CUtensorMap maps[detail::kGroupsOfCta][kMapsOfGroup];
  int const warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  int const group = int(blockIdx.x) * detail::kGroupsOfCta + warp;
  if (group >= params.groups) { return; }

  PointerArrays const& from = params.from;
  int const m = of_group(from.m, group, params.m), n = of_group(from.n, group, params.n), k = of_group(from.k, group, params.k);
  bool const used = m > 0 && n > 0;
  bool const reads_ab = used && k > 0, reads_c = used && from.c != nullptr;
  LinesOfGroup const a = {reads_ab ? from.a[group] : nullptr, A::kContiguousK ? k : m, A::kContiguousK ? m : k,
                          of_group(from.lda, group, params.lda)};
  LinesOfGroup const b = {reads_ab ? from.b[group] : nullptr, B::kContiguousK ? k : n, B::kContiguousK ? n : k,
                          of_group(from.ldb, group, params.ldb)};
  LinesOfGroup const d = {used ? from.d[group] : nullptr, Config::kDRowMajor ? n / kPair : m,
                          Config::kDRowMajor ? m : n / kPair, of_group(from.ldd, group, params.ldd)};
  LinesOfGroup const c = {reads_c ? from.c[group] : nullptr, d.along, d.across, of_group(from.ldc, group, params.ldc)};

  PointerStatus status = PointerStatus::kComputed;
  auto const check = [&](bool reads, LinesOfGroup const& one, int element_bytes, int bytes) {
    if (reads && status == PointerStatus::kComputed) { status = detail::status_of_lines(one, element_bytes, bytes); }
  };
  check(reads_ab, a, kBytesA, 16);
  check(reads_ab, b, kBytesB, 16);
  check(reads_c, c, kBytesD, kBytesD);
  check(used, d, kBytesD, kBytesD);
  if constexpr (FurtherOf<Config>::kOfGroups > 0) {  // each lane checks one: their loads do not wait for each other
    static_assert(FurtherOf<Config>::kOfGroups <= 32, "a lane for each further tensor");
    PointerStatus mine = PointerStatus::kComputed;
    if (lane < FurtherOf<Config>::kOfGroups) {
      TensorOfGroups const& one = params.further[lane];
      if (one.with_k ? reads_ab : used) { mine = detail::status_of_further(one, group, m, n, k); }
    }
    unsigned const wrong = __ballot_sync(0xffffffff, mine != PointerStatus::kComputed);
    int const first = __shfl_sync(0xffffffff, int(mine), wrong != 0 ? __ffs(int(wrong)) - 1 : 0);
    if (status == PointerStatus::kComputed) { status = PointerStatus(first); }
  }
  if (used && n % kPair != 0) { status = PointerStatus::kOddColumns; }
  if (m > params.m || n > params.n || k > params.k) { status = PointerStatus::kOutOfRange; }
  if (m < 0 || n < 0 || k < 0) { status = PointerStatus::kNegativeSize; }
  bool const computed = used && status == PointerStatus::kComputed;
  bool const tma_stores = computed && detail::is_for_tma(d, kBytesD);
  bool const tma_loads = computed && reads_c && detail::is_for_tma(c, kBytesD);

  auto& to = params.matrices[group];
  if (lane == 0) {
    constexpr int kM = kClusterTileM<Config>, kN = kClusterTileN<Config>;
    GroupTiles tiles = {};
    if (computed) { tiles = {(m + kM - 1) / kM, (n + kN - 1) / kN, (k + Config::kTileK - 1) / Config::kTileK, m}; }
    params.tiles[group] = tiles;
    to.c = static_cast<ElementD const*>(c.pointer);
    to.ldc = c.ld;
    to.d = static_cast<ElementD*>(const_cast<void*>(d.pointer));
    to.ldd = d.ld;
    to.m = m;
    to.n = n;
    to.tma_end = !tma_stores ? 0 : int64_t(d.along) * kBytesD % 16 != 0 ? d.along : INT_MAX;
    to.tma_loads = tma_loads;
    if (from.status != nullptr) { from.status[group] = int(status); }
  }
  if (!computed) { return; }

  constexpr int kWords = int(sizeof(CUtensorMap)) * kMapsOfGroup / 4;
  for (int i = lane; i < kWords; i += 32) {
    reinterpret_cast<uint32_t*>(maps[warp])[i] = reinterpret_cast<uint32_t const*>(params.maps)[i];
  }
  __syncwarp();
  if (lane == 0) {
    if (reads_ab) {
      detail::replace_matrix(&maps[warp][0], a, kBytesA);
      detail::replace_matrix(&maps[warp][1], b, kBytesB);
    }
    if (tma_stores) { detail::replace_matrix(&maps[warp][2], d, kBytesD); }
    if (tma_loads) { detail::replace_matrix(&maps[warp][3], c, kBytesD); }
  }
  __syncwarp();
  detail::publish_tensor_map(&to.map_a, &maps[warp][0]);
  detail::publish_tensor_map(&to.map_b, &maps[warp][1]);
  detail::publish_tensor_map(&to.map_d, &maps[warp][2]);
  detail::publish_tensor_map(&to.map_source, &maps[warp][3]);
}

}  // namespace v0_1
}  // namespace mmagen
