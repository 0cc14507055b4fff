// SPDX-License-Identifier: MIT-0
// A slice of C or D in shared memory, as TMA loads and stores it, and the registers of a warpgroup that hold it as accumulators
// of wgmma: a warp has 16 rows, its thread t rows t/4 and t/4 + 8 of them, columns 2 * (t % 4) and the next, in every group of
// 8 columns.
#pragma once

#include <cute/tensor.hpp>

#include "sm90_barrier.cuh"
#include "vector_pair.cuh"

namespace mmagen {
inline namespace v0_1 {

/// Extents of D, or the first row and column of a slice.
struct SliceCoord {
  int m, n;
};

/// kRows, kColumns: of the slice. TMA moves it in boxes of kBoxRows rows, whose lines have at most 128 bytes. In put(),
/// get() and what they call, `row` is the first of a warp's 16 rows of the slice.
template <class Element, bool kRowMajor, int kRows, int kColumns>
struct Sm90StagedSlice {
  static constexpr int kWarpRows = 16;
  static constexpr int kBoxRows = kRowMajor ? kRows : cute::min(kRows, 128 / int(sizeof(Element)));
  static constexpr int kBoxes = kRows / kBoxRows;
  static constexpr int kBoxBytes = kBoxRows * kColumns * int(sizeof(Element));
  static constexpr int kPitch = (kRowMajor ? kColumns : kBoxRows) * int(sizeof(Element));  // bytes of a line
  static_assert(kRows % kBoxRows == 0 && kBoxRows % kWarpRows == 0, "the rows of a warp lie in one box");
  static_assert(kBoxBytes % (8 * kPitch) == 0, "a box begins where the swizzle repeats");

  /// Byte offset of an element in a buffer, with TMA's swizzle.
  CUTE_DEVICE static int offset(int row, int column) {
    constexpr int kBits = kPitch == 128 ? 3 : kPitch == 64 ? 2 : kPitch == 32 ? 1 : 0;
    int const in_box = row % kBoxRows;
    int const line = kRowMajor ? in_box : column;
    int const along = kRowMajor ? column : in_box;
    return row / kBoxRows * kBoxBytes + cute::Swizzle<kBits, 4, 3>::apply(line * kPitch + along * int(sizeof(Element)));
  }

  static constexpr bool kMatrices = sizeof(Element) == 2;                  // stmatrix stores 8 x 8 matrices of 16 bits
  static constexpr int kGroups = kMatrices && kColumns % 16 == 0 ? 2 : 1;  // of 8 columns at a time

  /// Where a lane's line of the 8 x 8 matrices begins that put() and get() move together. Lanes 8i to 8i+7 hold the addresses
  /// of the lines of matrix i: rows 0-7 and 8-15, then the next 8 columns.
  CUTE_DEVICE static uint32_t matrix_line(unsigned char const* buffer, int row, int column, int lane) {
    int const row_of_lane = row + lane / 8 % 2 * 8 + (kRowMajor ? lane % 8 : 0);
    int const column_of_lane = column + lane / 16 % kGroups * 8 + (kRowMajor ? 0 : lane % 8);
    return smem_address(buffer + offset(row_of_lane, column_of_lane));
  }

  /// Neighbours in shared memory that one lane holds, where elements are not moved as matrices.
  static constexpr int kLanePair = kRowMajor ? 2 : 1;
  struct alignas(sizeof(Element) * kLanePair) LanePair {
    Element element[kLanePair];
  };
  CUTE_DEVICE static int pair_offset(int i, int row, int column, int lane) {
    return offset(row + lane / 4 + i / 2 * 8, column + lane % 4 * 2 + i % 2);
  }

  /// D may overwrite it at once: ldmatrix ends for the whole warp at once, and otherwise each lane reads only what it writes.
  CUTE_DEVICE static void get(Element* in, unsigned char const* buffer, int row, int lane) {
    CUTE_UNROLL
    for (int first = 0; first < kColumns / 2; first += 4 * kGroups) { get_group(in + first, buffer, row, first * 2, lane); }
  }

  /// The elements that put() would store.
  CUTE_DEVICE static void get_group(Element* in, unsigned char const* buffer, int row, int column, int lane) {
    if constexpr (kMatrices) {
      uint32_t const address = matrix_line(buffer, row, column, lane);
      auto* const words = reinterpret_cast<uint32_t*>(in);
      if constexpr (kGroups == 2 && kRowMajor) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(address)
                     : "memory");
      } else if constexpr (kGroups == 2) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(address)
                     : "memory");
      } else if constexpr (kRowMajor) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(words[0]), "=r"(words[1])
                     : "r"(address)
                     : "memory");
      } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(words[0]), "=r"(words[1])
                     : "r"(address)
                     : "memory");
      }
    } else {
      CUTE_UNROLL
      for (int i = 0; i < 4; i += kLanePair) {
        LanePair const pair = *reinterpret_cast<LanePair const*>(buffer + pair_offset(i, row, column, lane));
        for (int j = 0; j < kLanePair; ++j) { in[i + j] = pair.element[j]; }
      }
    }
  }

  CUTE_DEVICE static void put(Element const (&out)[4 * kGroups], unsigned char* buffer, int row, int column, int lane) {
    if constexpr (kMatrices) {
      uint32_t const address = matrix_line(buffer, row, column, lane);
      auto const* const words = reinterpret_cast<uint32_t const*>(out);
      if constexpr (kGroups == 2 && kRowMajor) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
                     "r"(words[1]), "r"(words[2]), "r"(words[3])
                     : "memory");
      } else if constexpr (kGroups == 2) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
                     "r"(words[1]), "r"(words[2]), "r"(words[3])
                     : "memory");
      } else if constexpr (kRowMajor) {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(words[0]), "r"(words[1])
                     : "memory");
      } else {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(words[0]),
                     "r"(words[1])
                     : "memory");
      }
    } else {
      CUTE_UNROLL
      for (int i = 0; i < 4; i += kLanePair) {
        LanePair pair;
        for (int j = 0; j < kLanePair; ++j) { pair.element[j] = out[i + j]; }
        *reinterpret_cast<LanePair*>(buffer + pair_offset(i, row, column, lane)) = pair;
      }
    }
  }

  /// Stores the part of the slice at `first` that lies within D. Lines of D may begin at any element. Vectors of 16 bytes that
  /// are aligned in D are stored whole, each assembled from up to two vectors of the buffer; the elements of a line before the
  /// first and after the last of them are stored one by one. All threads of the warpgroup take part; `thread` is the index
  /// within it.
  CUTE_DEVICE static void store_lines(unsigned char const* buffer, Element* d, int64_t ldd, SliceCoord const& end,
                                      SliceCoord const& first, int thread) {
    asm volatile("" : "+r"(thread));  // keeps the compiler from hoisting the offsets out of the tile loop and spilling them
    int const lines = cute::min(int{kLines}, kRowMajor ? end.m - first.m : end.n - first.n);
    int const length = cute::min(int{kLength}, kRowMajor ? end.n - first.n : end.m - first.m);
    Element* const origin = d + place(first.m, first.n, ldd);
    store_whole_vectors(buffer, origin, ldd, lines, length, thread);
    store_ends(buffer, origin, ldd, lines, length, thread);
  }

  /// The warp's rows of a slice in vectors of 16 bytes, for a D that TMA can address: its lines begin and end at multiples of
  /// 16 bytes.
  CUTE_DEVICE static void store_vectors(unsigned char const* buffer, Element* d, int64_t ldd, SliceCoord const& end,
                                        SliceCoord const& first, int first_row, int lane) {
    constexpr int kOfLine = (kRowMajor ? kColumns : kWarpRows) / kVector;
#pragma unroll 4
    for (int i = lane; i < kWarpRows * kColumns / kVector; i += 32) {
      int const line = i / kOfLine;
      int const along = i % kOfLine * kVector;
      int const row = first_row + (kRowMajor ? line : along);
      int const column = kRowMajor ? along : line;
      if (first.m + row >= end.m || first.n + column >= end.n) { continue; }
      *reinterpret_cast<uint4*>(d + place(first.m + row, first.n + column, ldd)) =
          *reinterpret_cast<uint4 const*>(buffer + offset(row, column));
    }
  }

 private:
  static constexpr int kThreads = 128;
  static constexpr int kVector = 16 / int(sizeof(Element));
  static constexpr int kLines = kRowMajor ? kRows : kColumns;
  static constexpr int kLength = kRowMajor ? kColumns : kRows;  // of a line
  static_assert(kPitch % 16 == 0, "lines of a buffer are whole vectors");
  // Elements that a thread loads before it stores any. The compiler cannot tell that D and the buffer do not overlap, so it
  // would not move a load ahead of a store.
  static constexpr int kElementsAhead = 2;

  CUTE_DEVICE static unsigned char const* in_line(unsigned char const* buffer, int line, int along) {
    return buffer + (kRowMajor ? offset(line, along) : offset(along, line));
  }

  CUTE_DEVICE static void store_whole_vectors(unsigned char const* buffer, Element* origin, int64_t ldd, int lines, int length,
                                              int thread) {
    constexpr int kOfLine = kLength / kVector;  // at most so many aligned vectors lie whole in a line
    CUTE_NO_UNROLL
    for (int i = thread; i < lines * kOfLine; i += kThreads) {
      int const line = i / kOfLine;
      Element* const to = origin + line * ldd;
      int const before = detail::misalignment(to);
      int const along = i % kOfLine * kVector - before;
      if (along < 0 || along + kVector > length) { continue; }
      int const low = along / kVector * kVector;
      detail::VectorPair pair;
      pair.low = *reinterpret_cast<uint4 const*>(in_line(buffer, line, low));
      if (before > 0) { pair.high = *reinterpret_cast<uint4 const*>(in_line(buffer, line, low + kVector)); }
      uint4 const vector = pair.template shifted<int(sizeof(Element))>(unsigned(along - low) * unsigned(sizeof(Element)));
      __stcg(reinterpret_cast<uint4*>(to + along), vector);  // an assignment compiles to four stores of 4 bytes here
    }
  }

  /// The elements of each line that store_whole_vectors() leaves out.
  CUTE_DEVICE static void store_ends(unsigned char const* buffer, Element* origin, int64_t ldd, int lines, int length,
                                     int thread) {
    constexpr int kOfLine = 2 * kVector;
    CUTE_NO_UNROLL
    for (int begin = thread; begin < lines * kOfLine; begin += kElementsAhead * kThreads) {
      Element elements[kElementsAhead] = {};
      Element* places[kElementsAhead] = {};
      CUTE_UNROLL
      for (int j = 0; j < kElementsAhead; ++j) {
        int const i = begin + j * kThreads;
        int const line = i / kOfLine;
        Element* const to = origin + line * ldd;
        int const whole = cute::min((kVector - detail::misalignment(to)) % kVector, length);
        int const behind = cute::max(whole, length - detail::misalignment(to + length));
        bool const begins = i % kOfLine < kVector;
        int const along = begins ? i % kOfLine : behind + i % kOfLine - kVector;
        int const last = begins ? whole : length;
        if (line >= lines || along >= last) { continue; }
        elements[j] = *reinterpret_cast<Element const*>(in_line(buffer, line, along));
        places[j] = to + along;
      }
      CUTE_UNROLL
      for (int j = 0; j < kElementsAhead; ++j) {
        if (places[j] != nullptr) { *places[j] = elements[j]; }
      }
    }
  }

  CUTE_DEVICE static int64_t place(int row, int column, int64_t ldd) {
    return kRowMajor ? row * ldd + column : row + column * ldd;
  }
};

}  // namespace v0_1
}  // namespace mmagen
