// SPDX-License-Identifier: MIT-0
// What a functor reads and reduces for a warp's 16 rows of a slice of accumulators. Thread t holds rows t/4 and t/4 + 8,
// columns 2 * (t % 4) and the next, in every group of 8 columns.
#pragma once

#include "epilogue_functor.cuh"
#include "sm90_staged_slice.cuh"

namespace mmagen {
inline namespace v0_1 {

/// For the rows and columns of a thread's accumulators of a slice. Called: an EpilogueFunctor.
template <class Called, int kSliceN>
struct Sm90BesideLines {
  static constexpr int kRows = 2;
  static constexpr int kColumns = kSliceN / 4;

  typename Called::Row rows[kRows];
  typename Called::Column columns[kColumns];

  /// Called by whole warps once the elements of the slice are done.
  CUTE_DEVICE void finish(Called const& functor, SliceCoord const& end, SliceCoord const& first, int batch, int lane) const {
    if constexpr (Called::kObserves) {
      auto const row = [&](int i) -> typename Called::Row const& { return rows[i]; };
      auto const column = [&](int i) -> typename Called::Column const& { return columns[i]; };
      auto const row_of = [&](int i) { return first.m + lane / 4 + i * 8; };
      auto const column_of = [&](int i) { return first.n + i / 2 * 8 + lane % 4 * 2 + i % 2; };
      functor.template finish_rows<0b00011, kRows>(row, row_of, end.m, batch);
      functor.template finish_columns<0b11100, kColumns>(column, column_of, end.n, batch);
    }
  }
};

/// What is loaded for the rows and columns of all slices of a warp's part of a tile, before the first of them is computed. A
/// lane has loaded neighbouring columns of each slice, and gets those of its accumulators from the other lanes.
/// kSlicesM, kSlicesN: slices along M and N.
template <class Called, int kSliceN, int kSlicesM, int kSlicesN>
struct Sm90BesideTile {
  using OfSlice = Sm90BesideLines<Called, kSliceN>;
  static constexpr int kPairs = kSliceN / 2;  // of columns of a slice; of lane l those with the indices l, l + 32, ...
  static constexpr int kOfLane = (kPairs + 31) / 32;

  typename Called::Row rows[kSlicesM][OfSlice::kRows];
  typename Called::Column columns[kSlicesN][kOfLane][2];

  /// The warp's first row of each slice along M: row_of(i); the first column of each along N: column_of(i).
  template <class RowOf, class ColumnOf>
  CUTE_DEVICE void load(Called const& functor, SliceCoord const& end, RowOf const& row_of, ColumnOf const& column_of, int batch,
                        int lane) {
    CUTE_UNROLL
    for (int i = 0; i < kSlicesM * OfSlice::kRows; ++i) {
      int const row = row_of(i / OfSlice::kRows) + lane / 4 + i % OfSlice::kRows * 8;
      auto& loaded = rows[i / OfSlice::kRows][i % OfSlice::kRows];
      loaded = {};
      if (row < end.m) { loaded = functor.load_row(row, batch); }
    }
    CUTE_UNROLL
    for (int i = 0; i < kSlicesN * kOfLane * 2; ++i) {
      int const pair = i / 2 % kOfLane * 32 + lane;
      int const column = column_of(i / 2 / kOfLane) + pair * 2 + i % 2;
      auto& loaded = columns[i / 2 / kOfLane][i / 2 % kOfLane][i % 2];
      loaded = {};
      if (pair < kPairs && column < end.n) { loaded = functor.load_column(column, batch); }
    }
  }

  /// Those of one slice; called by whole warps.
  CUTE_DEVICE OfSlice of_slice(int m, int n, int lane) const {
    OfSlice found;
    CUTE_UNROLL
    for (int i = 0; i < OfSlice::kRows; ++i) { found.rows[i] = rows[m][i]; }
    CUTE_UNROLL
    for (int i = 0; i < OfSlice::kColumns; i += 2) {
      int const pair = i / 2 * 4;  // and that of the lane
      auto const& from = columns[n][pair / 32];
      found.columns[i] = from[0];
      found.columns[i + 1] = from[1];
      Called::take_columns(found.columns[i], found.columns[i + 1], pair % 32 + lane % 4);
    }
    return found;
  }
};

/// For all elements of a thread's accumulators. kStagesMatrix: may TMA have loaded a second matrix?
template <class Called, int kSliceN, bool kStagesMatrix>
struct Sm90BesideSlice {
  Sm90BesideLines<Called, kSliceN> const& lines;
  typename Called::Element elements[kSliceN / 2] = {};
  int rows_left = 0, columns_left = 0;  // from the thread's first ones
  bool whole = true;                    // do all elements of the warp's rows of the slice lie inside?

  /// others: of all second matrices but the one that TMA has loaded.
  CUTE_DEVICE void load(Called const& functor, SliceCoord const& end, SliceCoord const& first, int batch, int lane,
                        bool others) {
    rows_left = end.m - (first.m + lane / 4);
    columns_left = end.n - (first.n + lane % 4 * 2);
    whole = first.m + 16 <= end.m && first.n + kSliceN <= end.n;
    CUTE_UNROLL
    for (int i = 0; i < kSliceN / 2; ++i) {
      int const row = first.m + lane / 4 + i / 2 % 2 * 8;
      int const column = first.n + i / 4 * 8 + lane % 4 * 2 + i % 2;
      if (row >= end.m || column >= end.n) { continue; }
      if constexpr (kStagesMatrix) {
        elements[i] = others ? functor.load_others(row, column, batch) : functor.load_element(row, column, batch);
      } else {
        elements[i] = functor.load_element(row, column, batch);
      }
    }
  }
  CUTE_DEVICE auto operator()(int i) const { return at(i, i / 2 % 2 * 8 < rows_left && i / 4 * 8 + i % 2 < columns_left); }
  /// The same for elements that all lie inside.
  CUTE_DEVICE auto as_whole() const {
    return [this](int i) { return at(i, true); };
  }

 private:
  CUTE_DEVICE auto at(int i, bool inside) const {
    return BesideOf<Called>{lines.rows[i / 2 % 2], lines.columns[i / 4 * 2 + i % 2], elements[i], inside};
  }
};

}  // namespace v0_1
}  // namespace mmagen
