// SPDX-License-Identifier: MIT-0
// How far a right kernel's sums of products may be from the exact ones, derived from what the hardware keeps of them.
//
// A tensor core aligns the products of an instruction and the accumulator to the largest of these addends and drops what
// lies `aligned` bits below its leading one, then rounds the sum to `kept` bits, every `chunk` products. So each error is
// at most 2^-aligned, or 2^-kept, of the largest addend at that time, which is at most `reach`: the largest partial sum
// that the exact products have in any contiguous part of K, and the products of one block beside it. The reference
// records it on the way. How the errors add up:
//   products   n of them lose bits toward zero, so the error has the sign of the product. The signs of the inputs are drawn
//              at random, independent of the magnitudes: n such errors add up to kDeviations * sqrt(n) (Hoeffding).
//   rounding   toward zero: n errors add up to n. To nearest: as products (Higham & Mary, 2019).
// docs/error-bounds.md of mmagen derives the formulas and says how likely they are to fail: below 10^-10 for an element
// whose partial sums were at their largest all along, and never for those of random walks.
#pragma once

#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>

namespace mmagen::test {
inline namespace v0_1 {

/// What a kernel keeps of its sums.
struct Accumulation {
  int aligned;    ///< bits kept below the leading one of an instruction's largest addend; 0: nothing is dropped
  int chunk;      ///< products added before the accumulator is rounded
  int kept;       ///< bits below the leading one of each sum; 0: integers, exact
  bool nearest;   ///< sums are rounded to nearest, else toward zero
  int promoted;   ///< elements of K whose sum is then added in f32, 0 for none
  int turns;      ///< 2 where the last k tile is added first, else 1
  bool shuffled;  ///< an accumulator's products are not neighbours along K
  /// Instructions for each k block, whose products are those of pieces of the elements, the largest last; and what they leave
  /// out of the product of two elements, at most, relative to it.
  int products = 1;
  double left_out = 0;
  int residue = 0;  ///< of pieces, where the last k tile is added first: elements of a k tile

  /// Is the path looked at after every instruction?
  __host__ __device__ bool of_pieces() const { return products > 1 && promoted > 0; }
};

inline constexpr double kDeviations = 4.0;
inline constexpr int kPathBlock = 32;               ///< elements of K between two looks at a partial sum
inline constexpr double kLeastPieceSum = 1.0 / 16;  ///< above what sums of small products of a k tile are
inline constexpr int kPartsOfK = 16;                ///< that are added at the end, at most
inline constexpr int kMantissaF16 = 10;
inline constexpr double kRoundoffF32 = 1.0 / (1 << 24);
inline constexpr double kRoundoffF64 = 1.0 / (1ull << 53);

/// (1 + step)^count - 1, without cancellation.
__host__ __device__ inline double growth(double step, double count) { return expm1(count * log1p(step)); }

/// How many of `count` errors of one size add up, where their signs are independent.
__host__ __device__ inline double together(double count) { return fmin(count, kDeviations * sqrt(count)); }

/// |accumulator - exact sum| <= drift_within, for k products. Includes the error of a reference in double.
/// reach: no partial sum and no product is larger. largest: no product is. symmetric: the products have independent random
/// signs.
__host__ __device__ inline double drift_within(Accumulation const& of, int64_t k, double reach, double largest,
                                               bool symmetric) {
  if (of.kept == 0) { return 0.0; }
  double const length = static_cast<double>(k);
  double const chunks = of.products * ceil(length / of.chunk);
  double const dropped = of.aligned == 0 ? 0.0 : exp2(-static_cast<double>(of.aligned));
  double const products = symmetric ? together(of.products * length) : of.products * length;
  // Parts of K that have accumulators of their own are added at the end: no more than one for every block.
  double const rounded = of.nearest ? together(chunks + ceil(length / kPathBlock)) / 2 : chunks;
  double const grown = expm1(products * dropped + rounded * exp2(-static_cast<double>(of.kept)));
  double const subnormal = of.kept == kMantissaF16 ? chunks * exp2(-25.0) : 0.0;
  // The accumulator loses bits where a product is larger.
  return (grown + together(length + 4) * kRoundoffF64) * reach + (1 + grown) * chunks * dropped * largest + subnormal;
}

/// What the partial sums of one element are on the way. Only what its kind of accumulation needs is kept up to date.
struct Path {
  float low = 0, high = 0, widest = 0, before = 0;  ///< without promotion
  float begin = 0, level = 0, square = 0;           ///< with promotion: sums over blocks of the leading bit and its square
  float weight = 0;                                 ///< with promotion: the sum of 1 for each block
  float tile = 0;     ///< of pieces: the sum over the present k tile's instructions of the leading bit of their sums
  float squares = 0;  ///< of pieces: the sum over k tiles of the square of that
  float residue = 0;  ///< of pieces: the sum before the k tile that is added first, then the magnitude of that k tile's sum
  float added = 0;    ///< of pieces: the sum over k tiles of the square of the leading bit of what their sum is added to

  /// The largest power of two that is no larger.
  __host__ __device__ static float leading(float value) { return ldexpf(1.0f, ilogbf(value)); }

  /// Before a block of K that begins at element `first`, with the sum so far. scale: by which the products of this block, and
  /// of all of its k tile, are multiplied; a block counts as often as it says.
  template <bool kPromoted>
  __host__ __device__ void open(Accumulation const& of, int64_t first, double sum, float scale = 1.0f) {
    if constexpr (kPromoted) {
      if (first % of.promoted == 0) { begin = static_cast<float>(sum); }
      if (of.residue != 0 && first % of.residue == 0) { residue = static_cast<float>(sum); }
      if (of.of_pieces()) {
        float const carried = leading(fmaxf(fabsf(static_cast<float>(sum) - begin) * (1.0f + 1.0f / 128), 1.0f));
        square += carried * carried;
        weight += 1.0f;
        return;
      }
      // At least 1, the largest product of uniform inputs; a little more than the exact sum, as the accumulator may be. What
      // counts is the leading bit of the largest addend.
      float const factor = fabsf(scale);
      float const tile = factor == 0.0f ? 0.0f : fabsf(static_cast<float>(sum) - begin) / factor;
      float const largest = fmaxf(tile * (1.0f + 1.0f / 128), 1.0f);
      float const carried = factor * ldexpf(1.0f, ilogbf(largest));
      level += carried;
      square += carried * carried;
      weight += factor;
    }
  }

  /// Behind a block that ends before element `end` of K.
  template <bool kPromoted>
  __host__ __device__ void close(Accumulation const& of, int64_t end, bool last, double sum, double magnitude) {
    if constexpr (kPromoted) {
      if (!of.of_pieces()) { return; }
      float const now = static_cast<float>(sum);
      float const carried = leading(fabsf(now - begin) * (1.0f + 1.0f / 128) + static_cast<float>(kLeastPieceSum));
      level += carried;
      tile += carried;
      if (end % of.promoted != 0 && !last) { return; }
      squares += tile * tile;
      tile = 0;
      low = fminf(low, now);
      high = fmaxf(high, now);
      float const reached = fmaxf(fmaxf(now - low, high - now), static_cast<float>(kLeastPieceSum));
      float const behind = of.residue != 0 ? reached : leading(reached);
      added += behind * behind;
      if (last && of.residue != 0) { residue = fabsf(now - residue); }
    } else {
      low = fminf(low, static_cast<float>(sum));
      high = fmaxf(high, static_cast<float>(sum));
      widest = fmaxf(widest, static_cast<float>(magnitude - before));
      before = static_cast<float>(magnitude);
    }
  }

  /// Of uniform inputs, whose products are within 1. magnitude: sum_k |a*b|. symmetric: as drift_within's.
  template <bool kPromoted>
  __host__ __device__ double drift(Accumulation const& of, int64_t k, double magnitude, bool symmetric) const {
    constexpr double kFloat = 1.0 + 1.0 / 1024;  // above the roundings of this struct's sums
    if constexpr (!kPromoted) {
      double reach = (of.turns * (static_cast<double>(high) - low) + 2.0 * widest) * kFloat;
      if (of.shuffled) { reach += kDeviations * sqrt(magnitude); }
      return drift_within(of, k, reach, 1.0, symmetric) + left_out(of, magnitude);
    } else if (of.of_pieces()) {
      return drift_of_pieces(of, k, magnitude, symmetric) * kFloat;
    } else {
      double const dropped = exp2(-static_cast<double>(of.aligned));
      double const worst = kPathBlock * static_cast<double>(level);
      double const products = symmetric ? fmin(worst, kDeviations * sqrt(kPathBlock * static_cast<double>(square))) : worst;
      double const sums =
          dropped * (products + static_cast<double>(weight)) + exp2(-static_cast<double>(of.kept)) * (2 * level + magnitude);
      double const blocks = ceil(static_cast<double>(of.promoted) / kPathBlock);
      double const tiles = ceil(static_cast<double>(k) / of.promoted);
      double const added = together(tiles) * kRoundoffF32 + together(static_cast<double>(k) + 4) * kRoundoffF64;
      return (sums * exp((kPathBlock + 2) * blocks * dropped) + added * magnitude) * kFloat;
    }
  }

  /// What products leave out, whose rests have random signs. Products are within 1, so that the sum of their squares is no
  /// larger than that of their magnitudes.
  __host__ __device__ static double left_out(Accumulation const& of, double magnitude) {
    return of.left_out * fmin(magnitude, kDeviations * sqrt(magnitude));
  }

  /// Of pieces, with promotion. Small products come first in each k tile: what their instructions round is at most 2^-6 of what
  /// those of the largest round.
  __host__ __device__ double drift_of_pieces(Accumulation const& of, int64_t k, double magnitude, bool symmetric) const {
    double const steps = weight;
    double const dropped = exp2(-static_cast<double>(of.aligned));
    double const kept = exp2(-static_cast<double>(of.kept));
    double const addends = of.chunk + 1;
    double const worst = addends * sqrt(steps * square);
    double const aligned = symmetric ? fmin(worst, kDeviations * sqrt(addends * square)) + steps : worst;
    double const rounded =
        symmetric ? fmin(static_cast<double>(level), kDeviations * sqrt(static_cast<double>(squares))) : level;
    double const tiles = ceil(static_cast<double>(k) / of.promoted);
    double const range = leading(fmaxf(high - low, static_cast<float>(kLeastPieceSum)));
    double const parts = fmin(tiles, static_cast<double>(kPartsOfK));
    // The k tile that is added first lies in all sums that follow.
    double const promoted = kDeviations * (of.residue != 0 ? sqrt(static_cast<double>(added)) + sqrt(tiles) * residue
                                                           : sqrt(added + parts * range * range));
    return dropped * aligned * (1 + of.products / 64.0) + kept * (rounded + of.products * steps / 64.0) +
           kRoundoffF32 * promoted + left_out(of, magnitude) + together(static_cast<double>(k) + 4) * kRoundoffF64 * magnitude;
  }
};

}  // namespace v0_1
}  // namespace mmagen::test
