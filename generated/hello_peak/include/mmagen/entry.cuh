// SPDX-License-Identifier: MIT-0
// An instruction in the peak program, and the list to which translation units add theirs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "element.cuh"
#include "loop.cuh"

namespace mmagen {
inline namespace v0_1 {
namespace peak {

/// How sums develop in the loop. Returns: every second block subtracts what the preceding one added.
/// Grows: operands are unsigned, sums wrap around. Saturates: sums stop at the largest integer.
enum class Sums { kReturn, kGrow, kSaturate };

/// One compiled loop.
struct Variant {
  int accumulators, steps;
  void (*kernel)(LoopArguments);
};

struct Entry {
  char const* name;
  char const* types;  ///< D, A, B and C
  double flop;        ///< of one instruction, of `threads` threads; of complex numbers the real operations
  int threads;
  int smem_bytes;
  Element a, b, accumulator;
  int words_a, words_b;   ///< 32-bit words of a thread's registers; 0 where shared memory holds the operand
  Element metadata;       ///< of a sparse A, else that of A
  int accumulator_words;  ///< 32-bit words of a thread's accumulator
  int products;           ///< that one instruction adds to one element
  bool exclusive_or;      ///< of single bits, where equal ones give nothing
  Sums sums;
  int32_t limit_a, limit_b;  ///< random inputs lie between -limit and limit
  double rate;               ///< flop of an SM in one cycle by the datasheet, 0 where none says
  std::vector<Variant> variants;
};

inline std::vector<Entry>& all_entries() {
  static std::vector<Entry> entries;
  return entries;
}

struct Registration {
  Registration(std::initializer_list<Entry> entries) { all_entries().insert(all_entries().end(), entries); }
};

}  // namespace peak
}  // namespace v0_1
}  // namespace mmagen
