// SPDX-License-Identifier: MIT-0
// Problems, failures, and the record of a result as a line of JSON and a row of a table.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <locale>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace mmagen::test {
inline namespace v0_1 {

// --- problem ---
// Problems as the command line spells them. Host only.

struct GroupNk {
  int32_t n, k;
};

/// D = alpha * A * B^T + beta * C for each batch; A is (M,K), B is (N,K), C and D are (M,N).
struct Problem {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  int64_t ld_pad = 0;  ///< elements by which each leading dimension exceeds the row
  int64_t offset = 0;  ///< elements by which each pointer is off its 256-byte alignment
  double alpha = 1.0, beta = 0.0;
  int64_t batch_strides[4] = {-1, -1, -1, -1};  ///< of A, B, C, D in elements; 0: one for all; -1: one behind the other
  std::vector<int32_t> groups = {};             ///< rows of each group of a grouped kernel; batch is their number
  std::vector<GroupNk> groups_nk = {};          ///< columns and K of each group; empty: n and k

  int64_t n_of(std::size_t group) const { return groups_nk.empty() ? n : groups_nk[group].n; }
  int64_t k_of(std::size_t group) const { return groups_nk.empty() ? k : groups_nk[group].k; }
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
  if (problem.batch != 1 && problem.groups.empty()) { out += "," + std::to_string(problem.batch); }
  if (problem.ld_pad != 0) { out += ":ld_pad=" + std::to_string(problem.ld_pad); }
  if (problem.offset != 0) { out += ":offset=" + std::to_string(problem.offset); }
  if (problem.alpha != 1.0) { out += ":alpha=" + number_text(problem.alpha, 9); }
  if (problem.beta != 0.0) { out += ":beta=" + number_text(problem.beta, 9); }
  for (int i = 0; i < 4; ++i) {
    if (problem.batch_strides[i] < 0) { continue; }
    out += std::string(":batch_stride_") + "abcd"[i] + "=" + std::to_string(problem.batch_strides[i]);
  }
  for (std::size_t i = 0; i < problem.groups.size(); ++i) {
    out += (i == 0 ? ":groups=" : "+") + std::to_string(problem.groups[i]);
    if (problem.groups_nk.empty()) { continue; }
    out += "x" + std::to_string(problem.groups_nk[i].n) + "x" + std::to_string(problem.groups_nk[i].k);
  }
  return out;
}

// --- error ---
// A CUDA call that fails throws a Failure with its disposition.

struct Failure {
  Disposition disposition;
  std::string reason;
};

/// Those of the status codes of every project's C ABI that the checks ask for.
enum Status : int { kSuccess = 0, kCudaError = 1, kNullB = 49, kMisalignedA = 64, kShortLda = 80 };

/// Does a status say that this machine cannot run the kernel? From "no driver" to "small device".
inline bool is_about_device(int status) { return status >= 2 && status <= 6; }

inline Disposition disposition_of(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return Disposition::kPassed;
    case cudaErrorMemoryAllocation: return Disposition::kNotRun;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion: return Disposition::kNotSupported;
    default: return Disposition::kFailed;
  }
}

inline void check(cudaError_t error, std::string const& what) {
  if (error == cudaSuccess) { return; }
  cudaGetLastError();  // clears an error that is not sticky, or the next call would report it again
  throw Failure{disposition_of(error), what + ": " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")"};
}

/// After an illegal address or a launch failure the context is lost, and every later call returns that error.
inline bool context_is_lost() {
  cudaGetLastError();
  return cudaDeviceSynchronize() != cudaSuccess;
}

// --- record ---
// One result as a JSON object on a line and as a row of a table. Host only.

/// A number that is not known is NaN, a text that is not known is empty; JSON has null for both.
struct Record {
  std::string name, problem, layout, types;
  Disposition disposition = Disposition::kNotRun;
  double max_abs_err = NAN, max_rel_err = NAN, bound = NAN;
  double ms_median = NAN, ms_min = NAN, ms_max = NAN;
  double tflops = NAN, gbps = NAN, pct_peak = NAN;
  std::string peak_source, baseline;
  double baseline_tflops = NAN, ratio = NAN;
  double sm_clock_mhz = NAN, power_w = NAN;
  double registers = NAN, spill_bytes = NAN, smem_bytes = NAN;
  std::string device, driver, cuda, cutlass, mmagen, spec_sha;
  uint64_t seed = 0;
  std::string input_dist, reason;
};

inline std::string json_text(std::string const& text) {
  if (text.empty()) { return "null"; }
  std::string out = "\"";
  for (char const c : text) {
    unsigned char const byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      out += escape;
    } else {
      out += c;  // UTF-8 passes through
    }
  }
  return out + '"';
}

inline std::string json_number(double value) { return std::isfinite(value) ? number_text(value, 9) : "null"; }

inline std::string json(Record const& r) {
  std::pair<char const*, std::string> const fields[] = {
      {"name", json_text(r.name)},
      {"problem", json_text(r.problem)},
      {"layout", json_text(r.layout)},
      {"types", json_text(r.types)},
      {"disposition", json_text(text(r.disposition))},
      {"max_abs_err", json_number(r.max_abs_err)},
      {"max_rel_err", json_number(r.max_rel_err)},
      {"bound", json_number(r.bound)},
      {"ms_median", json_number(r.ms_median)},
      {"ms_min", json_number(r.ms_min)},
      {"ms_max", json_number(r.ms_max)},
      {"tflops", json_number(r.tflops)},
      {"gbps", json_number(r.gbps)},
      {"pct_peak", json_number(r.pct_peak)},
      {"peak_source", json_text(r.peak_source)},
      {"baseline", json_text(r.baseline)},
      {"baseline_tflops", json_number(r.baseline_tflops)},
      {"ratio", json_number(r.ratio)},
      {"sm_clock_mhz", json_number(r.sm_clock_mhz)},
      {"power_w", json_number(r.power_w)},
      {"registers", json_number(r.registers)},
      {"spill_bytes", json_number(r.spill_bytes)},
      {"smem_bytes", json_number(r.smem_bytes)},
      {"device", json_text(r.device)},
      {"driver", json_text(r.driver)},
      {"cuda", json_text(r.cuda)},
      {"cutlass", json_text(r.cutlass)},
      {"mmagen", json_text(r.mmagen)},
      {"spec_sha", json_text(r.spec_sha)},
      {"seed", std::to_string(r.seed)},
      {"input_dist", json_text(r.input_dist)},
      {"reason", json_text(r.reason)},
  };
  std::string out;
  for (auto const& [name, value] : fields) { out += (out.empty() ? "{\"" : ", \"") + std::string(name) + "\": " + value; }
  return out + "}";
}

/// Prints records as they come, and a verdict at the end.
class Report {
 public:
  Report(bool json, std::size_t widest_problem, std::size_t widest_name = 22)
      : json_(json),
        name_width_(static_cast<int>(std::max<std::size_t>(widest_name, 4)) + 2),
        problem_width_(static_cast<int>(std::max<std::size_t>(widest_problem, 7)) + 2) {}

  void heading(std::string const& line) const {
    if (!json_) { std::cout << line << '\n' << std::flush; }
  }

  void add(Record const& record, bool counts = true) {
    if (counts) {
      total_ += 1;
      by_disposition_[static_cast<std::size_t>(record.disposition)] += 1;
    }
    if (json_) {
      std::cout << mmagen::test::json(record) << '\n' << std::flush;
      return;
    }
    if (!header_printed_) { print_header(); }
    std::ostringstream line;
    line.imbue(std::locale::classic());
    line << std::left << std::setw(name_width_) << record.name << std::setw(problem_width_) << record.problem << std::setw(11)
         << record.input_dist << std::setw(14) << text(record.disposition) << std::right;
    double const values[] = {record.max_abs_err, record.bound, record.ms_median,    record.tflops, record.gbps,
                             record.pct_peak,    record.ratio, record.sm_clock_mhz, record.power_w};
    for (std::size_t i = 0; i < kColumns; ++i) {
      // The blank separates columns even where a number fills its width.
      line << ' ' << std::setw(kWidths[i] - 1) << (std::isnan(values[i]) ? "-" : number_text(values[i], 4));
    }
    std::cout << line.str() << '\n';
    if (!record.reason.empty() && record.reason != last_reason_) { std::cout << "    " << record.reason << '\n'; }
    std::cout << std::flush;
    last_reason_ = record.reason;
  }

  int count(Disposition disposition) const { return by_disposition_[static_cast<std::size_t>(disposition)]; }

  /// 1 outranks 4, which outranks 77. The exit code is never 0 if nothing was run.
  int exit_code() const {
    if (count(Disposition::kIncorrect) > 0) { return 1; }
    if (count(Disposition::kFailed) + count(Disposition::kNotRun) > 0) { return 4; }
    return total_ == 0 || count(Disposition::kNotSupported) > 0 ? 77 : 0;
  }

  void verdict() const {
    if (json_) { return; }
    std::cout << '\n' << (exit_code() == 0 ? "PASSED" : exit_code() == 77 ? "NOT VERIFIED" : "NOT PASSED") << ": ";
    std::string counts;
    for (Disposition const d : {Disposition::kPassed, Disposition::kIncorrect, Disposition::kFailed, Disposition::kNotRun,
                                Disposition::kNotSupported}) {
      if (count(d) == 0) { continue; }
      counts += (counts.empty() ? "" : ", ") + std::to_string(count(d)) + " " + text(d);
    }
    std::cout << (counts.empty() ? "nothing was run" : counts) << " of " << total_ << std::endl;
  }

 private:
  static constexpr std::size_t kColumns = 9;
  static constexpr int kWidths[kColumns] = {11, 11, 11, 11, 10, 8, 8, 7, 7};

  void print_header() {
    header_printed_ = true;
    std::cout << '\n'
              << std::left << std::setw(name_width_) << "name" << std::setw(problem_width_) << "problem" << std::setw(11)
              << "inputs" << std::setw(14) << "verdict" << std::right;
    char const* const titles[] = {"max error", "bound", "ms", "TFLOPS", "GB/s", "% peak", "ratio", "MHz", "W"};
    for (std::size_t i = 0; i < kColumns; ++i) { std::cout << std::setw(kWidths[i]) << titles[i]; }
    std::cout << '\n';
  }

  bool json_;
  int name_width_;
  int problem_width_;
  std::string last_reason_;
  bool header_printed_ = false;
  int total_ = 0;
  int by_disposition_[5] = {};
};

}  // namespace v0_1
}  // namespace mmagen::test
