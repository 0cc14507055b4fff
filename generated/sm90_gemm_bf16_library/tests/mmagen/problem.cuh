// What one run of the program works on, and the words for it. Host only.
#pragma once

#include <cstdint>
#include <locale>
#include <sstream>
#include <string>

namespace mmagen::test {
inline namespace v0_1 {

/// D = alpha * A * B^T + beta * C for each batch; A is (M,K), B is (N,K), C and D are (M,N).
struct Problem {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t ld_pad = 0;  ///< elements by which each leading dimension exceeds the row
  int64_t offset = 0;  ///< elements by which each pointer is off its 256-byte alignment
  double alpha = 1.0, beta = 0.0;
};

enum class Distribution { kUniform, kSmallInt, kZeros };

inline char const* text(Distribution distribution) {
  switch (distribution) {
    case Distribution::kUniform: return "uniform";
    case Distribution::kSmallInt: return "small_int";
    case Distribution::kZeros: return "zeros";
  }
  return "";
}

enum class Disposition { kPassed, kIncorrect, kFailed, kNotRun, kNotSupported };

inline char const* text(Disposition disposition) {
  switch (disposition) {
    case Disposition::kPassed: return "passed";
    case Disposition::kIncorrect: return "incorrect";
    case Disposition::kFailed: return "failed";
    case Disposition::kNotRun: return "not_run";
    case Disposition::kNotSupported: return "not_supported";
  }
  return "";
}

/// A number as C and JSON write it, whatever the locale of the process.
inline std::string number_text(double value, int precision) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out.precision(precision);
  out << value;
  return out.str();
}

/// The problem as `--problem` takes it, so that a line of a report can be run again.
inline std::string text(Problem const& problem) {
  std::string out = std::to_string(problem.m) + "," + std::to_string(problem.n) + "," + std::to_string(problem.k);
  if (problem.batch != 1) { out += "," + std::to_string(problem.batch); }
  if (problem.ld_pad != 0) { out += ":ld_pad=" + std::to_string(problem.ld_pad); }
  if (problem.offset != 0) { out += ":offset=" + std::to_string(problem.offset); }
  if (problem.alpha != 1.0) { out += ":alpha=" + number_text(problem.alpha, 9); }
  if (problem.beta != 0.0) { out += ":beta=" + number_text(problem.beta, 9); }
  return out;
}

}  // namespace v0_1
}  // namespace mmagen::test
