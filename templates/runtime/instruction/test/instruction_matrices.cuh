// Matrices for one instruction, on the host: random values, packed as the kernel reads them, and the reference product.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "buffers.cuh"
#include "instruction_types.cuh"

namespace mmagen::test {
inline namespace v0_1 {

/// kSmallInt: integers up to 4, every sum exact. kUniform: floats in [-1, 1], integers of every size. kOverflow: products
/// of one sign upon a C near the end of s32's range, so that about half of the sums leave it.
enum class Inputs { kUniform, kSmallInt, kZeros, kOverflow };

inline char const* text(Inputs inputs) {
  char const* const words[] = {"uniform", "small_int", "zeros", "overflow"};
  return words[static_cast<int>(inputs)];
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(splitmix64(seed)) {}
  uint64_t bits() { return state_ = splitmix64(state_); }
  /// From 0 up to and without `count`.
  int64_t below(int64_t count) { return static_cast<int64_t>((bits() >> 1) % static_cast<uint64_t>(count)); }
  double sign() { return below(2) == 0 ? 1.0 : -1.0; }
  /// Between -1 and 1.
  double uniform() { return static_cast<double>(static_cast<int64_t>(bits() >> 10) - (int64_t{1} << 53)) * 0x1p-53; }

 private:
  uint64_t state_;
};

/// Codes, row by row; several parts of an element follow each other.
struct Codes {
  int rows = 0, columns = 0, parts = 1;
  std::vector<uint64_t> codes;

  Codes() = default;
  Codes(int rows_, int columns_, int parts_ = 1)
      : rows(rows_), columns(columns_), parts(parts_), codes(static_cast<std::size_t>(rows_) * columns_ * parts_) {}
  uint64_t& at(int row, int column, int part = 0) { return codes[index(row, column, part)]; }
  uint64_t at(int row, int column, int part = 0) const { return codes[index(row, column, part)]; }

 private:
  std::size_t index(int row, int column, int part) const {
    return (static_cast<std::size_t>(row) * columns + column) * parts + part;
  }
};

template <class T>
uint64_t code_of(double value) {
  StoredPart<T> const stored = T::store(value);
  uint64_t code = 0;
  memcpy(&code, &stored, sizeof stored);
  return code;
}

template <class T>
double value_of(uint64_t code) {
  StoredPart<T> stored;
  memcpy(&stored, &code, sizeof stored);
  return T::load(stored);
}

/// The codes as bytes: `bits` for each, the first in the lowest bits; a code begins `shift` bits up.
inline std::vector<unsigned char> packed(Codes const& matrix, int bits, int shift) {
  std::vector<unsigned char> bytes(matrix.codes.size() * bits / 8);
  for (std::size_t i = 0; i < matrix.codes.size(); ++i) {
    uint64_t const code = matrix.codes[i] << shift;
    std::size_t const at = i * bits;
    for (int bit = 0; bit < bits; bit += 8) {
      uint64_t const byte = bits < 8 ? code & ((1u << bits) - 1) : code >> bit & 0xff;
      bytes[(at + bit) / 8] |= static_cast<unsigned char>(byte << at % 8);
    }
  }
  return bytes;
}

/// The operands of an instruction. a: stored elements of A only; e: bytes of metadata; values_a: zeros and scale factors
/// included, as values_b.
struct InstructionMatrices {
  Codes a, b, c, e, sfa, sfb;
  std::vector<double> values_a, values_b;  ///< (M,K,parts), (N,K,parts)
};

template <class T>
double drawn(Inputs inputs, Random& random, double sign) {
  if (inputs == Inputs::kZeros) { return 0.0; }
  if constexpr (std::is_same_v<T, u1>) {
    return static_cast<double>(random.below(2));
  } else if constexpr (T::kInteger) {
    if (inputs == Inputs::kOverflow) {
      double const low = std::max(1.0, std::floor(T::kLargest / 2));
      return sign * (low + static_cast<double>(random.below(static_cast<int64_t>(T::kLargest - low) + 1)));
    }
    if (inputs == Inputs::kUniform) {
      return T::kSmallest + static_cast<double>(random.below(static_cast<int64_t>(T::kLargest - T::kSmallest) + 1));
    }
  } else if (inputs == Inputs::kUniform) {
    return random.uniform() * (std::is_same_v<StoredPart<T>, uint8_t> ? 2.0 : 1.0);  // few values lie within 1
  }
  double const magnitude = static_cast<double>(1 + random.below(4));
  return T::kSigned ? magnitude * random.sign() : magnitude;
}

/// A random place for the kept ones of kGroup neighbours, and the four bits of metadata that say so.
struct Choice {
  std::array<int, 4> places;
  unsigned bits;
};

template <int kGroup>
Choice choose(Random& random) {
  if constexpr (kGroup == 2) {
    return random.below(2) == 0 ? Choice{{0}, 0b0100} : Choice{{1}, 0b1110};  // PTX ISA, sparse tf32
  } else {
    constexpr int kPairs[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    auto const& [i, j] = kPairs[random.below(6)];
    unsigned const bits = static_cast<unsigned>(i | j << 2);
    if constexpr (kGroup == 4) { return {{i, j}, bits}; }
    return {{2 * i, 2 * i + 1, 2 * j, 2 * j + 1}, bits};  // 4 of 8 are two pairs of 4
  }
}

/// Subject: see instruction_main.cuh.
template <class Subject>
InstructionMatrices draw_operands(Inputs inputs, uint64_t seed) {
  using A = typename Subject::A;
  using B = typename Subject::B;
  constexpr int kPartsA = kPartsOf<A>;
  constexpr int kM = Subject::kM, kN = Subject::kN, kK = Subject::kK, kGroup = Subject::kGroup;
  constexpr int kKept = kGroup == 1 ? 1 : kGroup / 2;
  Random random(seed);
  InstructionMatrices made;
  made.a = Codes(kM, kK / kGroup * kKept, kPartsA);
  made.b = Codes(kN, kK, kPartsA);
  made.c = Codes(kM, kN, kPartsOf<typename Subject::Acc>);
  made.values_a.assign(static_cast<std::size_t>(kM) * kK * kPartsA, 0.0);
  made.values_b.assign(static_cast<std::size_t>(kN) * kK * kPartsA, 0.0);

  // Where sums are to overflow, all products of one element of D have one sign: that of its column, or of its row.
  std::vector<double> signs_a(kM, 1.0), signs_b(kN, 1.0);
  if constexpr (Subject::Acc::kInteger) {
    if (B::kSigned) {
      for (double& sign : signs_b) { sign = random.sign(); }
    }
    if (A::kSigned && !B::kSigned) {
      for (double& sign : signs_a) { sign = random.sign(); }
    }
  }
  for (int m = 0; m < kM; ++m) {
    for (int group = 0; group < kK / kGroup; ++group) {
      Choice const choice = [&]() -> Choice {
        if constexpr (kGroup > 1) { return choose<kGroup>(random); }
        return {{0}, 0};
      }();
      if constexpr (kGroup > 1) {
        if (group == 0 && m == 0) { made.e = Codes(kM, kK / kGroup / 2); }
        made.e.at(m, group / 2) |= static_cast<uint64_t>(choice.bits) << (4 * (group % 2));
      }
      for (int i = 0; i < kKept; ++i) {
        for (int part = 0; part < kPartsA; ++part) {
          uint64_t const code = code_of<A>(drawn<A>(inputs, random, signs_a[m]));
          made.a.at(m, group * kKept + i, part) = code;
          made.values_a[(m * kK + group * kGroup + choice.places[i]) * kPartsA + part] = value_of<A>(code);
        }
      }
    }
  }
  for (int n = 0; n < kN; ++n) {
    for (int k = 0; k < kK; ++k) {
      for (int part = 0; part < kPartsA; ++part) {
        uint64_t const code = code_of<B>(drawn<B>(inputs, random, signs_b[n]));
        made.b.at(n, k, part) = code;
        made.values_b[(n * kK + k) * kPartsA + part] = value_of<B>(code);
      }
    }
  }
  if constexpr (Subject::kVector > 0) {
    using Scale = typename Subject::Scale;
    auto const scale = [&](Codes* factors, int rows, std::vector<double>* values) {
      *factors = Codes(rows, kK / Subject::kVector);
      for (int row = 0; row < rows; ++row) {
        for (int k = 0; k < kK; ++k) {
          uint64_t& code = factors->at(row, k / Subject::kVector);
          if (k % Subject::kVector == 0) {
            int const reach = inputs == Inputs::kSmallInt ? 1 : 3;
            code = code_of<Scale>(std::ldexp(1.0, static_cast<int>(random.below(2 * reach + 1)) - reach));
          }
          (*values)[row * kK + k] *= value_of<Scale>(code);
        }
      }
    };
    scale(&made.sfa, kM, &made.values_a);
    scale(&made.sfb, kN, &made.values_b);
  }
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      for (int part = 0; part < made.c.parts; ++part) {
        double value = 0.0;
        if (inputs == Inputs::kSmallInt) { value = static_cast<double>(1 + random.below(8)) * random.sign(); }
        if (inputs == Inputs::kUniform) {
          value = Subject::Acc::kInteger ? static_cast<double>(random.below(1 << 21) - (1 << 20)) : random.uniform();
        }
        if constexpr (Subject::Acc::kInteger) {
          if (inputs == Inputs::kOverflow) {
            // Of two random bits one in two differ, one in four are both set; other factors are 3/4 of the largest.
            double const product =
                std::is_same_v<A, u1> ? (Subject::kCount == 'x' ? 0.5 : 0.25) : 0.5625 * A::kLargest * B::kLargest;
            auto const typical = static_cast<int64_t>(kK / kGroup * kKept * product) + 1;
            bool const up = signs_a[m] * signs_b[n] > 0;
            double const room = static_cast<double>(random.below(2 * typical));
            value = up ? s32::kLargest - room : s32::kSmallest + room;
          }
        }
        made.c.at(m, n, part) = code_of<typename Subject::Acc>(value);
      }
    }
  }
  return made;
}

/// sum and magnitude of every part of D = A * B + C, in double: exact for integers.
template <class Subject>
struct Reference {
  static constexpr int kParts = kPartsOf<typename Subject::Acc>;
  std::vector<double> sum, magnitude;  ///< (M,N,kParts)

  explicit Reference(InstructionMatrices const& of) {
    for (int m = 0; m < Subject::kM; ++m) {
      for (int n = 0; n < Subject::kN; ++n) {
        std::array<double, 3> sums = {}, sizes = {};
        for (int part = 0; part < kParts; ++part) {
          sums[part] = value_of<typename Subject::Acc>(of.c.at(m, n, part));
          sizes[part] = std::fabs(sums[part]);
        }
        for (int k = 0; k < Subject::kK; ++k) { add(of, m, n, k, sums, sizes); }
        for (int part = 0; part < kParts; ++part) {
          if constexpr (Subject::Acc::kInteger) {
            if (Subject::kSaturate) { sums[part] = s32::round(sums[part]); }
          }
          sum.push_back(sums[part]);
          magnitude.push_back(sizes[part]);
        }
      }
    }
  }

 private:
  static void add(InstructionMatrices const& of, int m, int n, int k, std::array<double, 3>& sums,
                  std::array<double, 3>& sizes) {
    constexpr int kPartsA = kPartsOf<typename Subject::A>;
    double const* const a = &of.values_a[(static_cast<std::size_t>(m) * Subject::kK + k) * kPartsA];
    double const* const b = &of.values_b[(static_cast<std::size_t>(n) * Subject::kK + k) * kPartsA];
    if constexpr (Subject::kCount == 'x') {
      sums[0] += a[0] != b[0] ? 1 : 0;
    } else if constexpr (kPartsA == 2) {
      double const size = (std::fabs(a[0]) + std::fabs(a[1])) * (std::fabs(b[0]) + std::fabs(b[1]));
      if constexpr (kParts == 3) {
        sums[0] += a[0] * b[0];
        sums[1] += a[1] * b[1];
        sums[2] += (a[0] + a[1]) * (b[0] + b[1]);
      } else {
        sums[0] += a[0] * b[0] - a[1] * b[1];
        sums[1] += a[1] * b[0] + a[0] * b[1];
      }
      for (double& one : sizes) { one += size; }
    } else {
      sums[0] += a[0] * b[0];
      sizes[0] += std::fabs(a[0] * b[0]);
    }
  }
};

}  // namespace v0_1
}  // namespace mmagen::test
