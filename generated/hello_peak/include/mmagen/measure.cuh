// SPDX-License-Identifier: MIT-0
// Launches, times and checks one loop on every multiprocessor, with increasing numbers of warps and accumulators.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "entry.cuh"
#include "record.cuh"
#include "device.cuh"
#include "fill_operands.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace peak {

using test::check;

inline constexpr int kMostWarps = 32;
inline constexpr std::size_t kMostOperandBytes = std::size_t(1) << 20;  // 32 words of 1,024 threads, in 4 slices, are half

struct Inputs {
  std::string name;
  Fill fill;
};

struct Configuration {
  int warps = 0, accumulators = 0, steps = 0;
  void (*kernel)(LoopArguments) = nullptr;
};

/// Cycles and nanoseconds are those of the first CTA's loops, ms is from the first launch to the last one's end.
struct Sample {
  double cycles = 0, ns = 0, ms = 0, blocks = 0;
};

struct SweepPoint {
  int warps, accumulators, steps;
  double flop_per_cycle;
};

class Device {
 public:
  Device() {
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device), "counting multiprocessors");
    check(cudaDeviceGetAttribute(&smem_per_sm_, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device), "shared memory");
    check(cudaDeviceGetAttribute(&smem_most_, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory");
    check(cudaMalloc(&a, kMostOperandBytes), "cudaMalloc");
    check(cudaMalloc(&b, kMostOperandBytes), "cudaMalloc");
    check(cudaMalloc(&e, kMostWarps * 32 * sizeof(uint32_t)), "cudaMalloc");
    check(cudaMalloc(&digests, std::size_t(multiprocessors) * kMostWarps * 32 * sizeof(uint32_t)), "cudaMalloc");
    check(cudaMalloc(&clocks, 2 * sizeof(unsigned long long)), "cudaMalloc");
    check(cudaEventCreate(&start), "cudaEventCreate");
    check(cudaEventCreate(&stop), "cudaEventCreate");
  }
  Device(Device const&) = delete;
  Device& operator=(Device const&) = delete;
  ~Device() {
    cudaFree(a);
    cudaFree(b);
    cudaFree(e);
    cudaFree(digests);
    cudaFree(clocks);
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
  }

  /// Dynamic shared memory with which no two CTAs share a multiprocessor.
  int smem_for(Entry const& entry) const { return std::min(std::max(entry.smem_bytes, smem_per_sm_ / 2 + 1024), smem_most_); }

  int multiprocessors = 0;
  uint32_t *a = nullptr, *b = nullptr, *e = nullptr, *digests = nullptr;
  unsigned long long* clocks = nullptr;
  cudaEvent_t start = nullptr, stop = nullptr;

 private:
  int smem_per_sm_ = 0, smem_most_ = 0;
};

/// Runs the loops of one instruction.
class Runner {
 public:
  Runner(Device const& device, Entry const& entry) : device_(device), entry_(entry) {
    for (Variant const& variant : entry.variants) {
      check(cudaFuncSetAttribute(reinterpret_cast<void const*>(variant.kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 device.smem_for(entry)),
            "asking for shared memory");
    }
  }

  /// All configurations that fit, those with few accumulators first.
  std::vector<Configuration> configurations() const {
    std::vector<Configuration> found;
    for (Variant const& variant : entry_.variants) {
      cudaFuncAttributes facts;
      check(cudaFuncGetAttributes(&facts, reinterpret_cast<void const*>(variant.kernel)), "cudaFuncGetAttributes");
      for (int const warps : {4, 8, 12, 16, 24, 32}) {
        if (warps * 32 > facts.maxThreadsPerBlock) {
          continue;  // of wgmma that are 16 warps at most
        }
        found.push_back({warps, variant.accumulators, variant.steps, variant.kernel});
      }
    }
    return found;
  }

  double flop_per_block(Configuration const& c) const {
    return entry_.flop * c.steps * c.accumulators * (c.warps * 32.0 / entry_.threads);
  }

  /// Fills the operands for CTAs of this configuration. alternate: every second step subtracts what another one added.
  void fill(Configuration const& c, Fill fill_a, Fill fill_b, bool alternate) const {
    bool const turn_a = is_signed(entry_.a), turn_b = !turn_a && is_signed(entry_.b);
    fill_a.limit = entry_.limit_a;
    fill_b.limit = entry_.limit_b;
    fill_one(entry_.a, fill_a, 0u, c, entry_.words_a, kTileRowsA, alternate && turn_a, device_.a);
    int const rows_b = entry_.smem_bytes / (2 * kTileRowBytes) - kTileRowsA;
    fill_one(entry_.b, fill_b, 1u << 24, c, entry_.words_b, rows_b, alternate && turn_b, device_.b);
    if (entry_.metadata != entry_.a) {
      fill_kernel<<<8, 256>>>(entry_.metadata, fill_a, 1u << 25, 1, c.warps * 32, false, device_.e);
    }
    check(cudaGetLastError(), "filling the operands");
  }

  LoopArguments arguments(uint32_t blocks) const {
    return {blocks, 0u, device_.a, device_.b, device_.e, device_.digests, device_.clocks};
  }

  /// `launches` launches without a pause.
  Sample run(Configuration const& c, LoopArguments const& arguments, int launches) const {
    check(cudaMemsetAsync(device_.clocks, 0, 2 * sizeof(unsigned long long), nullptr), "cudaMemset");
    check(cudaEventRecord(device_.start, nullptr), "cudaEventRecord");
    for (int i = 0; i < launches; ++i) {
      c.kernel<<<device_.multiprocessors, c.warps * 32, device_.smem_for(entry_)>>>(arguments);
    }
    check(cudaGetLastError(), "launching the loop");
    check(cudaEventRecord(device_.stop, nullptr), "cudaEventRecord");
    check(cudaEventSynchronize(device_.stop), "running the loop");
    float ms = 0;
    unsigned long long clocks[2];
    check(cudaEventElapsedTime(&ms, device_.start, device_.stop), "cudaEventElapsedTime");
    check(cudaMemcpy(clocks, device_.clocks, sizeof clocks, cudaMemcpyDeviceToHost), "copying the clocks");
    return {double(clocks[0]), double(clocks[1]), ms, double(arguments.blocks) * launches};
  }

  double flop_per_cycle(Configuration const& c, Sample const& sample) const {
    return flop_per_block(c) * sample.blocks / sample.cycles;
  }

  /// Blocks after which all sums of random operands are the largest integer, and the most after which none is.
  double saturating_blocks(Configuration const& c) const { return 16.0 * kLargest / products_of_a_block(c); }
  double exact_blocks(Configuration const& c) const { return std::floor(kLargest / products_of_a_block(c)); }

  /// An odd number of blocks that takes about `ms`, at least 3. Random sums that saturate either all do or none does: an
  /// operation that the device emulates is too slow to wait for all of them.
  uint32_t blocks_for(Configuration const& c, double ms) const {
    constexpr int kTrial = 65;
    constexpr double kCyclesPerMs = 1.6e6;  // the nanosecond counter is too coarse for so short a run
    double wanted = ms * kCyclesPerMs * kTrial / std::max(run(c, arguments(kTrial), 1).cycles, 1.0);
    if (entry_.sums == Sums::kSaturate && wanted < saturating_blocks(c)) {
      double const much = saturating_blocks(c) / std::max(wanted, 1.0);
      wanted = much < kWorthSaturating ? saturating_blocks(c) : std::min(wanted, exact_blocks(c) - 1.0);
    }
    return uint32_t(std::min(std::max(wanted, 3.0), 1e9)) | 1u;
  }

  std::vector<uint32_t> digests(Configuration const& c) const {
    std::vector<uint32_t> digests(std::size_t(device_.multiprocessors) * c.warps * 32);
    check(cudaMemcpy(digests.data(), device_.digests, digests.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost),
          "copying the results");
    return digests;
  }

  Entry const& entry() const { return entry_; }
  Device const& device() const { return device_; }

 private:
  static constexpr double kLargest = 2147483647.0;
  static constexpr double kWorthSaturating = 4.0;  // times the time that was asked for

  /// The largest sum that a block can add to an element.
  double products_of_a_block(Configuration const& c) const {
    return double(entry_.products) * c.steps * entry_.limit_a * entry_.limit_b;
  }

  void fill_one(Element element, Fill fill, uint32_t seed, Configuration const& c, int words, int rows, bool turned,
                uint32_t* out) const {
    // Registers come in slices of which two repeat the others, shared memory in tiles of which one repeats the other.
    int const parts = words > 0 ? kSlices : 2;
    int const part_words = words > 0 ? words * c.warps * 32 : rows * kTileRowBytes / 4;
    fill_kernel<<<64, 256>>>(element, fill, seed, parts, part_words, turned, out);
  }

  Device const& device_;
  Entry const& entry_;
};

/// Measures every configuration for about `ms`; returns the smallest of those that are as fast as the fastest.
inline Configuration sweep(Runner const& runner, Inputs const& inputs, double ms, std::vector<SweepPoint>* points) {
  std::vector<Configuration> const all = runner.configurations();
  double top = 0;
  for (Configuration const& c : all) {
    runner.fill(c, inputs.fill, inputs.fill, true);
    double const rate = runner.flop_per_cycle(c, runner.run(c, runner.arguments(runner.blocks_for(c, ms)), 1));
    points->push_back({c.warps, c.accumulators, c.steps, rate});
    top = std::max(top, rate);
  }
  Configuration best;
  for (std::size_t i = 0; i < all.size(); ++i) {
    int const load = all[i].warps * all[i].accumulators;
    bool const good = (*points)[i].flop_per_cycle >= 0.997 * top;
    if (good && (best.kernel == nullptr || load < best.warps * best.accumulators)) { best = all[i]; }
  }
  if (best.kernel == nullptr) { throw test::Failure{test::Disposition::kFailed, "no configuration fits the device"}; }
  return best;
}

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
