// The command line of verify, bench and tune. Host only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "record.cuh"

namespace mmagen::test {
inline namespace v0_1 {

enum class Program { kVerify, kBench, kTune };

struct Options {
  bool help = false;
  bool json = false;
  bool timing = true;
  std::vector<Problem> problems;             ///< empty: those compiled in
  bool from_stdin = false;                   ///< tune: problems come on standard input, one a line
  std::optional<Distribution> distribution;  ///< unset: the program's default
  uint64_t seed = 1;
  int64_t max_dim = 0;  ///< 0: no limit
  double sample_ms = 20.0;
  int reps = 9;
  double sustained_s = 0.0;
  bool graphs = false;               ///< bench: the launches of a sample are a CUDA graph
  std::vector<std::string> configs;  ///< tune: empty for all
  double within = 1.5;               ///< tune: of the fastest, to be timed again
};

inline char const* usage(Program program) {
  if (program == Program::kTune) {
    return "Verifies and times each kernel of the library on each problem, beside cuBLASLt where built in.\n"
           "  --json               one JSON object a line instead of a table; objects with the key \"at\" say what begins,\n"
           "                       those with \"end\" which problem is finished\n"
           "  --problem M,N,K[,BATCH][:ld_pad=P]...   instead of the built-in problems; repeatable\n"
           "  --problem -          the problems that come on standard input, one a line, until it ends\n"
           "  --config NAME        one of the library's configs instead of all; repeatable\n"
           "  --seed N             of the inputs and of the order of candidates (default 1)\n"
           "  --max-dim N          leaves out built-in problems with a larger M, N or K\n"
           "  --sample-ms T        length of one sample (default 20)\n"
           "  --reps N             samples of each candidate (default 9)\n"
           "  --within X           no more samples of candidates slower than X times the fastest (default 1.5)\n"
           "  --help\n"
           "Exit codes: 0 passed, 1 incorrect, 2 usage, 4 a run failed, 77 no suitable GPU.\n";
  }
  return program == Program::kVerify ? "Checks the kernel against an independent reference, and times it.\n"
                                       "  --json               one JSON object a line instead of a table\n"
                                       "  --problem M,N,K[,BATCH][:ld_pad=P][:offset=O][:alpha=X][:beta=Y][:batch_stride_a=S]\n"
                                       "                       instead of the built-in problems; repeatable. S: 0 for one A\n"
                                       "                       that all share; likewise batch_stride_b, _c and _d.\n"
                                       "                       :groups=R+R...: the rows of each group\n"
                                       "  --dist uniform|small_int|zeros   (default: uniform and small_int)\n"
                                       "  --seed N             of the inputs (default 1)\n"
                                       "  --max-dim N          leaves out built-in problems with a larger M, N or K\n"
                                       "  --no-timing          checks only\n"
                                       "  --help\n"
                                       "Exit codes: 0 passed, 1 incorrect, 2 usage, 4 a run failed, 77 no suitable GPU.\n"
                                     : "Times the kernel beside the tensor cores' own pace and, where built in, cuBLASLt.\n"
                                       "  --json               one JSON object a line instead of a table\n"
                                       "  --problem M,N,K[,BATCH][:ld_pad=P][:offset=O][:alpha=X][:beta=Y][:batch_stride_a=S]\n"
                                       "                       instead of the built-in problems of 512 and more; repeatable.\n"
                                       "                       S: 0 for one A that all share; likewise batch_stride_b, _c, _d\n"
                                       "                       :groups=R+R...: the rows of each group\n"
                                       "  --dist uniform|small_int|zeros   (default: uniform)\n"
                                       "  --seed N             of the inputs and of the order of candidates (default 1)\n"
                                       "  --max-dim N          leaves out built-in problems with a larger M, N or K\n"
                                       "  --sample-ms T        length of one sample (default 20)\n"
                                       "  --reps N             samples of each candidate (default 9)\n"
                                       "  --sustained SECONDS  also runs each candidate that long (default 0: no)\n"
                                       "  --graphs             launches as CUDA graphs: the host does not limit short kernels\n"
                                       "  --help\n"
                                       "Exit codes: 0 passed, 1 incorrect, 2 usage, 4 a run failed, 77 no suitable GPU.\n";
}

/// The whole text as a number, whatever the locale.
template <class Number>
bool parse_number(std::string const& text, Number* number) {
  if (text.empty() || text.find_first_not_of("+-.0123456789eE") != std::string::npos) { return false; }
  if (!std::is_signed<Number>::value && text[0] == '-') {
    return false;  // a stream would wrap it around
  }
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  in >> *number;
  return !in.fail() && in.peek() == std::istringstream::traits_type::eof();
}

inline std::vector<std::string> split(std::string const& text, char separator) {
  std::vector<std::string> parts(1);
  for (char const c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// Empty if no two matrices of a batch overlap, whichever of their modes is contiguous; else what is wrong. One matrix that
/// all share is none, but for D.
inline std::string overlap(Problem const& problem) {
  int64_t const rows[] = {problem.m, problem.n, problem.m, problem.m};
  int64_t const columns[] = {problem.k, problem.k, problem.n, problem.n};
  for (int i = 0; i < 4 && problem.batch > 1; ++i) {
    int64_t const stride = problem.batch_strides[i];
    int64_t const pad = i == 2 ? 2 * problem.ld_pad + 16 : problem.ld_pad;  // C's lines are padded more
    int64_t const least = std::max(rows[i] * (columns[i] + pad), columns[i] * (rows[i] + pad));
    if (stride < 0 || stride >= least || (stride == 0 && i < 3)) { continue; }
    return std::string("batch_stride_") + "abcd"[i] + " " + std::to_string(stride) +
           " makes the matrices of a batch overlap; use " + (i < 3 ? "0 or " : "") + "at least " + std::to_string(least);
  }
  return "";
}

/// Adds the group that is given as R or MxNxK. Returns whether it is one, and none larger than the problem.
inline bool add_group(std::string const& text, Problem* problem) {
  std::vector<std::string> const parts = split(text, 'x');
  int64_t extents[3] = {-1, problem->n, problem->k};
  int64_t const most[3] = {problem->m, problem->n, problem->k};
  bool good = parts.size() == 1 || parts.size() == 3;
  for (std::size_t i = 0; good && i < parts.size(); ++i) {
    good = parse_number(parts[i], &extents[i]) && extents[i] >= 0 && extents[i] <= most[i];
  }
  if (!good) { return false; }
  problem->groups.push_back(static_cast<int32_t>(extents[0]));
  if (parts.size() == 3) { problem->groups_nk.push_back({static_cast<int32_t>(extents[1]), static_cast<int32_t>(extents[2])}); }
  return true;
}

/// Empty on success, else what is wrong with the text.
inline std::string parse_problem(std::string const& text, Problem* problem) {
  constexpr int64_t kLargest = int64_t{1} << 24;
  std::vector<std::string> const parts = split(text, ':');
  std::vector<std::string> const extents = split(parts[0], ',');
  int64_t* const targets[] = {&problem->m, &problem->n, &problem->k, &problem->batch};
  if (extents.size() < 3 || extents.size() > 4) { return "expected M,N,K or M,N,K,BATCH"; }
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (!parse_number(extents[i], targets[i]) || *targets[i] < 1 || *targets[i] > kLargest) {
      return "'" + extents[i] + "' is not an extent from 1 to 16777216";
    }
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    std::size_t const equals = parts[i].find('=');
    std::string const key = parts[i].substr(0, equals);
    std::string const value = equals == std::string::npos ? "" : parts[i].substr(equals + 1);
    bool good = true;
    if (key == "ld_pad" || key == "offset") {
      int64_t* const target = key == "ld_pad" ? &problem->ld_pad : &problem->offset;
      good = parse_number(value, target) && *target >= 0 && *target <= kLargest;
    } else if (key == "groups") {
      for (std::string const& group : split(value, '+')) { good = good && add_group(group, problem); }
      good = good && (problem->groups_nk.empty() || problem->groups_nk.size() == problem->groups.size());
    } else if (key == "alpha" || key == "beta") {
      double* const target = key == "alpha" ? &problem->alpha : &problem->beta;
      good = parse_number(value, target) && std::isfinite(*target);
    } else if (key.size() == 14 && key.compare(0, 13, "batch_stride_") == 0 && key[13] >= 'a' && key[13] <= 'd') {
      int64_t* const target = &problem->batch_strides[key[13] - 'a'];
      good = parse_number(value, target) && *target >= 0 && *target <= int64_t{1} << 40;
    } else {
      return "'" + key + "' is none of ld_pad, offset, alpha, beta, batch_stride_a, _b, _c, _d, groups";
    }
    if (!good) { return "'" + value + "' is no value for " + key; }
  }
  if (!problem->groups.empty()) {
    if (extents.size() == 3) { problem->batch = static_cast<int64_t>(problem->groups.size()); }
    if (problem->batch != static_cast<int64_t>(problem->groups.size())) { return "BATCH is not the number of groups"; }
  }
  double const pad = static_cast<double>(problem->ld_pad);
  double const m = problem->m + pad, n = problem->n + pad, k = problem->k + pad;
  double const largest = std::max({m * n, m * k, n * k}) * static_cast<double>(problem->batch);
  if (largest > std::ldexp(1.0, 56)) {
    return "a matrix of more than 2^56 elements";  // byte offsets stay in 63 bits
  }
  return overlap(*problem);
}

/// Empty on success, else the message for the user.
inline std::string parse_options(Program program, std::vector<std::string> const& arguments, Options* options) {
  bool const tune = program == Program::kTune;
  bool const timed = tune || program == Program::kBench;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string const& option = arguments[i];
    if (option == "--help") {
      options->help = true;
      continue;
    }
    if (option == "--json") {
      options->json = true;
      continue;
    }
    if (option == "--graphs" && program == Program::kBench) {
      options->graphs = true;
      continue;
    }
    if (option == "--no-timing" && !timed) {
      options->timing = false;
      continue;
    }
    bool const of_timed = option == "--sample-ms" || option == "--reps";
    bool const of_one = tune ? option == "--config" || option == "--within" : option == "--dist";
    bool const of_bench = option == "--sustained" && program == Program::kBench;
    bool const known = option == "--problem" || option == "--seed" || option == "--max-dim";
    if (!known && !(timed && of_timed) && !of_one && !of_bench) {
      return "unknown option '" + option + "'; --help lists what there is";
    }
    if (i + 1 == arguments.size()) { return option + " needs a value"; }
    std::string const& value = arguments[++i];
    bool good = true;
    if (option == "--problem" && tune && value == "-") {
      options->from_stdin = true;
    } else if (option == "--problem") {
      Problem problem;
      std::string const fault = parse_problem(value, &problem);
      if (!fault.empty()) { return "--problem " + value + ": " + fault; }
      options->problems.push_back(problem);
    } else if (option == "--seed") {
      good = parse_number(value, &options->seed);
    } else if (option == "--max-dim") {
      good = parse_number(value, &options->max_dim) && options->max_dim >= 1;
    } else if (option == "--sample-ms") {
      good = parse_number(value, &options->sample_ms) && options->sample_ms > 0 && options->sample_ms <= 10000;
    } else if (option == "--reps") {
      good = parse_number(value, &options->reps) && options->reps >= 1 && options->reps <= 100000;
    } else if (option == "--config") {
      options->configs.push_back(value);
    } else if (option == "--within") {
      good = parse_number(value, &options->within) && options->within >= 1;
    } else if (option == "--sustained") {
      good = parse_number(value, &options->sustained_s) && options->sustained_s >= 0 && options->sustained_s <= 3600;
    } else {
      good = false;
      for (Distribution const d : {Distribution::kUniform, Distribution::kSmallInt, Distribution::kZeros}) {
        if (value != text(d)) { continue; }
        options->distribution = d;
        good = true;
      }
    }
    if (!good) { return "'" + value + "' is no value for " + option; }
  }
  return "";
}

/// What to run: the problems of the command line, else the built-in ones that fit.
inline std::vector<Problem> chosen_problems(Options const& options, std::vector<Problem> const& built_in) {
  if (!options.problems.empty()) { return options.problems; }
  std::vector<Problem> chosen;
  for (Problem const& p : built_in) {
    if (options.max_dim == 0 || (p.m <= options.max_dim && p.n <= options.max_dim && p.k <= options.max_dim)) {
      chosen.push_back(p);
    }
  }
  return chosen;
}

}  // namespace v0_1
}  // namespace mmagen::test
