// The predicted time of a kernel for a call, from coefficients that `mmagen tune` fitted to measurements. Host only.
// mmagen/plan/cost.py has the same formula.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tile_width.cuh"

namespace mmagen {
inline namespace v0_1 {

/// What a kernel computes, and how. tile, cluster: along M and N of D. split_k: CTAs of a cluster that share the K of a tile.
/// workspace_splits: parts of K that are added through a workspace; 0: as many as the kernel decides, -1: none. stream_k: which
/// last waves are shared; 0: none, 1: those less than two thirds full, 2: any that are not full.
struct KernelShape {
  double tile_m, tile_n, tile_k, cluster_m, cluster_n, split_k;
  int workspace_splits;
  int stream_k;
  double bytes_a, bytes_b, bytes_d;  // of an element
};

/// Coefficients of the time; `configs[].cost` of a spec describes each. ctas is 0 if they are not known.
struct Cost {
  double ctas, launch_us, overlap_us, tile_us, store_pitch, odd_store_us, k_tile_us, throttle, fixed_part, line_ns, dram_tbps,
      dram_spread, dram_rows, dram_columns, store_tbps, l2_tbps, l2_spread, l2_pitch, l2_odd_pitch, l2_ragged, fixup_us,
      part_us, fixup_tbps;

  constexpr bool known() const { return ctas > 0; }
};

/// The properties of a call on which the predicted time depends, the same for all kernels of a library. Doubles, so that no
/// product overflows.
struct CallShape {
  double m, n, k, batch;     // elements
  double a, b, d;            // bytes of each matrix, of all batches
  bool odd_a, odd_b, odd_d;  // is the leading dimension not a multiple of 32 bytes?
  bool uneven_a, uneven_b;   // a multiple of 32 but not of 128 bytes?
  bool thread_stores;        // is that of D not a multiple of 16 bytes, so that threads store D in place of TMA?

  constexpr bool empty() const { return m < 1 || n < 1 || k < 1 || batch < 1; }
};

namespace detail {

// Of the tensor core alone: half of the way to its lowest rate in long calls, where power limits the clock.
inline constexpr double kThrottledUs = 250;

/// The least whole number of parts of size `of` that cover x; of more than 4e15 parts, about 4e15. per: 1 / of, since a product
/// takes a fraction of a division's time.
inline double parts(double x, double of, double per) {
  double const down = double(int64_t(std::min(x * per, 4e15)));
  return down * of < x ? down + 1 : down;
}

/// Is a number of bytes a multiple of `of`? Of numbers beyond the limits any answer does.
inline bool is_multiple(double bytes, int64_t of) { return bytes < 9e18 && int64_t(bytes) % of == 0; }

/// Bytes for each k that a tile loads from operands whose leading dimension is not a multiple of 32 bytes.
inline double odd_bytes(KernelShape const& kernel, CallShape const& call) {
  return (call.odd_a ? std::min(call.m, kernel.tile_m) * kernel.bytes_a : 0.0) +
         (call.odd_b ? std::min(call.n, kernel.tile_n) * kernel.bytes_b : 0.0);
}

/// The number of splits that SplitKWorkspaceTileScheduler<Config, 0> decides for.
inline double splits_decided(KernelShape const& kernel, CallShape const& call, double tiles, double k_tiles, double resident) {
  constexpr double kL2Bytes = 56, kSumBytes = 3200, kDramBytes = 2200;  // as there
  constexpr double kWorkTile = 1500, kReduction = 8000;
  double const mma = kernel.tile_m * kernel.tile_n * kernel.tile_k * kernel.bytes_a / 4096;
  double const rows = std::min(kernel.tile_m, call.m) * kernel.bytes_a / kernel.cluster_n +
                      std::min(kernel.tile_n, call.n) * kernel.bytes_b / kernel.cluster_m;
  double const k_tile = std::max(mma, rows * kernel.tile_k / kL2Bytes);
  double const operands = (call.a + call.b) / kDramBytes;
  double const sums = 8 * call.m * call.n * call.batch / kSumBytes;  // of a split, written and read
  auto const cycles = [&](double splits) {
    double const work = whole_up(tiles * splits / resident) * (kWorkTile + whole_up(k_tiles / splits) * k_tile);
    return std::max(work, operands) + (splits == 1 ? 0.0 : kReduction + splits * sums);
  };
  double best = 1, least = cycles(1);
  for (int waves = 1; waves <= 8 && best < k_tiles; ++waves) {
    double const splits = std::min(k_tiles, whole_down(waves * resident / tiles));
    if (splits <= best) { continue; }
    double const predicted = cycles(splits);
    if (predicted < least) { least = predicted, best = splits; }
  }
  return best;
}

}  // namespace detail

/// What follows from a kernel and its coefficients alone.
struct Rates {
  double span_m = 0, span_n = 0, per_m = 0, per_n = 0;  // elements of M and N that a cluster computes, and reciprocals
  double per_tile_k = 0, per_split_k = 0;               // reciprocals
  double group = 0;                                     // CTAs of a cluster
  double resident = 0, per_resident = 0;                // clusters that run at once, and the reciprocal
  double read = 0, stored = 0, loaded = 0;              // microseconds of a byte
  double line = 0;       // microseconds of a byte, for each k, in lines that do not begin at a multiple of 32 bytes
  double mma = 0;        // microseconds of a cluster's tile for each k, with all CTAs busy
  bool whole_k = false;  // does no call share the K of a tile among clusters?

  constexpr Rates(KernelShape const& kernel, Cost const& cost) {
    if (!cost.known()) { return; }
    group = kernel.cluster_m * kernel.cluster_n * kernel.split_k;
    span_m = kernel.tile_m * kernel.cluster_m;
    span_n = kernel.tile_n * kernel.cluster_n;
    per_m = 1 / span_m;
    per_n = 1 / span_n;
    per_tile_k = 1 / kernel.tile_k;
    per_split_k = 1 / kernel.split_k;
    resident = cost.ctas < group ? 1 : detail::whole_down(cost.ctas / group);
    per_resident = 1 / resident;
    read = 1 / (cost.dram_tbps * 1e6);
    stored = 1 / (cost.store_tbps * 1e6);
    loaded = 1 / (cost.l2_tbps * 1e6);
    line = kernel.tile_k / 128 * cost.line_ns * 1e-3;
    mma = group / ((cost.ctas < group ? group : cost.ctas) * kernel.split_k * kernel.tile_k) * cost.k_tile_us;
    whole_k = kernel.workspace_splits < 0 && kernel.stream_k == 0;
  }
};

/// A kernel with its coefficients, and what follows from them.
struct TimedKernel {
  KernelShape kernel;
  Cost cost;
  Rates rates;

  constexpr TimedKernel(KernelShape const& kernel, Cost const& cost) : kernel(kernel), cost(cost), rates(kernel, cost) {}

  /// This kernel if it computes so many rows, or columns, of a tile.
  constexpr TimedKernel with_rows(double rows) const { return of_part(rows, kernel.tile_n); }
  constexpr TimedKernel with_columns(double columns) const { return of_part(kernel.tile_m, columns); }

 private:
  constexpr TimedKernel of_part(double rows, double columns) const {
    KernelShape shape = kernel;
    Cost times = cost;
    double const part = rows * columns / (kernel.tile_m * kernel.tile_n);
    double const shrunk = cost.fixed_part + (1 - cost.fixed_part) * part;
    shape.tile_m = rows;
    shape.tile_n = columns;
    times.tile_us *= shrunk;
    times.odd_store_us *= shrunk;
    times.k_tile_us *= shrunk;
    return TimedKernel(shape, times);
  }
};

/// The kernel with the tile that a launch computes for a call on a device that runs `cost.ctas` CTAs at once: the first of the
/// ascending `narrower` that needs no more waves than whole tiles, or no more tiles if clusters may share their K; else
/// `whole`.
inline TimedKernel const& of_call(TimedKernel const& whole, TimedKernel const* narrower, int count, CallShape const& call) {
  if (count == 0) { return whole; }
  bool const rows = narrower[0].kernel.tile_m < whole.kernel.tile_m;  // or columns
  Rates const& rates = whole.rates;
  double const tiles_m = detail::parts(call.m, rates.span_m, rates.per_m);
  double const tiles_n = detail::parts(call.n, rates.span_n, rates.per_n);
  double const across = (rows ? tiles_n : tiles_m) * call.batch, along = rows ? tiles_m : tiles_n;
  double const most = rates.whole_k ? most_tiles_along(across, along, rates.resident) : along;
  for (int i = 0; i < count; ++i) {
    Rates const& one = narrower[i].rates;
    if ((rows ? one.span_m : one.span_n) * most >= (rows ? call.m : call.n)) { return narrower[i]; }
  }
  return whole;
}

namespace detail {

/// How the work of a call is distributed over CTAs.
struct Schedule {
  double waves;   // work tiles of the busiest CTA
  double path;    // its k tiles
  double used;    // the part of all CTAs that is busy on average
  double active;  // CTAs that are busy at first
  double splits;  // parts of K that go through a workspace
  double joined;  // partial sums that a CTA adds, one after the other
};

inline Schedule schedule(KernelShape const& kernel, Rates const& rates, CallShape const& call, double tiles, double k_tiles,
                         bool workspace) {
  double const resident = rates.resident;
  double splits = 1;
  if (workspace && kernel.workspace_splits >= 0) {
    splits = kernel.workspace_splits > 0 ? std::min(double(kernel.workspace_splits), k_tiles)
                                         : splits_decided(kernel, call, tiles, k_tiles, resident);
  }
  double const work = tiles * splits;
  Schedule it{};
  it.waves = parts(work, resident, rates.per_resident);
  it.path = it.waves * whole_up(k_tiles / (kernel.split_k * splits));
  it.used = work / (it.waves * resident);
  it.active = std::min(work, resident) * rates.group;
  it.splits = splits;
  if (workspace && kernel.stream_k > 0) {
    double const rest = tiles - resident * whole_down(tiles / resident);
    double const shared = tiles < resident ? tiles : rest + resident;
    bool const always = kernel.stream_k == 2;
    if (rest > 0 && (always || 3 * rest < 2 * resident) && shared * k_tiles >= (always ? 4 : 8) * resident) {
      it.path = whole_up(tiles * k_tiles / resident);
      it.used = 1;
      it.active = resident * rates.group;
      it.joined = whole_up(k_tiles / whole_up(shared * k_tiles / resident));
    }
  }
  return it;
}

}  // namespace detail

/// The CallShape of a call to a kernel with the element sizes of `kernel`. Extents in elements, leading dimensions in bytes.
inline CallShape call_shape(KernelShape const& kernel, double m, double n, double k, double batch, double pitch_a,
                            double pitch_b, double pitch_d) {
  CallShape it{};
  it.m = m, it.n = n, it.k = k, it.batch = batch;
  it.a = m * k * kernel.bytes_a * batch;
  it.b = n * k * kernel.bytes_b * batch;
  it.d = m * n * kernel.bytes_d * batch;
  it.odd_a = !detail::is_multiple(pitch_a, 32);
  it.odd_b = !detail::is_multiple(pitch_b, 32);
  it.odd_d = !detail::is_multiple(pitch_d, 32);
  it.thread_stores = !detail::is_multiple(pitch_d, 16);
  it.uneven_a = !it.odd_a && !detail::is_multiple(pitch_a, 128);
  it.uneven_b = !it.odd_b && !detail::is_multiple(pitch_b, 128);
  return it;
}

/// What a call requires of a kernel, without the distribution of its work over CTAs.
struct Demand {
  double tiles;  // of a cluster
  double k_tiles;
  double tile;           // microseconds of a work tile besides its mainloop, if TMA stores it
  double rows, columns;  // of all tiles
  double read, stored;   // microseconds that DRAM takes for A and B if no tile is partly empty, and for D
  double loaded;         // microseconds that L2 takes for all loads of A and B
  double least;          // microseconds: the prediction is at least that
};

inline Demand demand(TimedKernel const& timed, CallShape const& call) {
  KernelShape const& kernel = timed.kernel;
  Cost const& cost = timed.cost;
  Rates const& rates = timed.rates;
  double const tiles_m = detail::parts(call.m, rates.span_m, rates.per_m);
  double const tiles_n = detail::parts(call.n, rates.span_n, rates.per_n);
  Demand it;
  it.tiles = tiles_m * tiles_n * call.batch;
  auto const loads = [&](double bytes, bool odd, bool uneven) {
    return odd ? bytes * (1 + cost.l2_odd_pitch) : uneven ? bytes * (1 + cost.l2_pitch) : bytes;
  };
  it.rows = tiles_m * rates.span_m;
  it.columns = tiles_n * rates.span_n;
  it.read = (call.a + call.b) * rates.read;
  it.stored = call.d * rates.stored;
  it.loaded =
      (loads(call.a * tiles_n, call.odd_a, call.uneven_a) + loads(call.b * tiles_m, call.odd_b, call.uneven_b)) * rates.loaded;
  double const memory = std::max(it.read + it.stored, it.loaded);
  it.tile = cost.tile_us * (call.odd_d ? 1 + cost.store_pitch : 1.0);
  it.k_tiles = detail::parts(call.k, kernel.tile_k, rates.per_tile_k);
  // If each cluster computes its tiles alone:
  double const waves = detail::parts(it.tiles, rates.resident, rates.per_resident);
  double const path = waves * (kernel.split_k == 1 ? it.k_tiles : detail::parts(it.k_tiles, kernel.split_k, rates.per_split_k));
  double const lines = path * detail::odd_bytes(kernel, call) * rates.line;
  double const overlap = 2 * std::min(it.tiles, rates.resident) * rates.group > cost.ctas ? cost.overlap_us : 0.0;
  double const stores = waves * (it.tile + (call.thread_stores ? cost.odd_store_us : 0.0));
  it.least = stores + overlap + std::max(memory, std::max(path * cost.k_tile_us, lines));
  // If clusters share the K of a tile (split-K, stream-K): at least one fixup, and all CTAs busy all the time.
  if (!rates.whole_k) {
    it.least = std::min(it.least, it.tile + cost.fixup_us + std::max(memory, it.tiles * call.k * rates.mma));
  }
  it.least += cost.launch_us;
  return it;
}

/// Microseconds of one call in a sequence of such calls on a stream. As soon as the time is certain to be at least `limit`, the
/// result is a lower bound of it that is at least `limit`: most kernels of a library are far from the fastest. workspace: does
/// the call have one? Without it, K of a tile is not split over clusters.
inline double predicted_us(TimedKernel const& timed, CallShape const& call, Demand const& asked, double limit, bool workspace) {
  KernelShape const& kernel = timed.kernel;
  Cost const& cost = timed.cost;
  Rates const& rates = timed.rates;
  if (asked.least >= limit) { return asked.least; }
  detail::Schedule const it = detail::schedule(kernel, rates, call, asked.tiles, asked.k_tiles, workspace);
  // If K is split, the second kernel stores D.
  double const tile = asked.tile + (call.thread_stores && it.splits <= 1 ? cost.odd_store_us : 0.0);
  double fixup = it.joined * cost.fixup_us;
  if (it.splits > 1) {
    double const sums = 8 * it.splits * call.m * call.n * call.batch;  // bytes of f32, written and read
    fixup += cost.fixup_us + it.splits * cost.part_us + sums / (cost.fixup_tbps * 1e6);
  }
  double const overlap = 2 * it.active > cost.ctas ? cost.overlap_us : 0.0;
  double const outside = cost.launch_us + overlap + it.waves * tile + fixup;  // of the mainloop
  double const cool = it.path * cost.k_tile_us;
  double const mma = cool * (1 + cost.throttle * cool / (cool + detail::kThrottledUs));
  double const lines = it.path * detail::odd_bytes(kernel, call) * rates.line;
  double const least = outside + std::max(std::max(mma, lines), std::max(asked.read + asked.stored, asked.loaded));
  if (least >= limit) { return least; }

  double const tiles_of_m = detail::whole_down(call.m / kernel.tile_m);
  bool const ragged = call.m > kernel.tile_m && tiles_of_m * kernel.tile_m != call.m && it.waves <= 3;
  // Powers of the part that is busy, in f32: they need no more digits, and take half the time.
  float const spread = it.used < 1 ? std::log(float(it.used)) : 0.0f;
  auto const power = [&](double exponent) { return spread < 0 ? double(std::exp(float(-exponent) * spread)) : 1.0; };
  double const empty = 1 + (1 - call.m / asked.rows) * cost.dram_rows + (1 - call.n / asked.columns) * cost.dram_columns;
  double const dram = asked.read * empty * power(cost.dram_spread) + asked.stored;
  double const l2 = asked.loaded * (ragged ? 1 + cost.l2_ragged : 1.0) * power(cost.l2_spread);
  auto const fourth = [](double x) { return x * x * x * x; };
  return outside + std::sqrt(std::sqrt(fourth(mma) + fourth(lines) + fourth(dram) + fourth(l2)));
}

}  // namespace v0_1
}  // namespace mmagen
