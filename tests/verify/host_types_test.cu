// Host-side checks of the judge that projects carry (templates/runtime/test). CUDA's own conversion headers are the
// oracle here; the judge itself does not use them. Run by test_judge_host.py:
//   host_types_test                    all checks; prints the failed ones
//   host_types_test json TEXT          a record with TEXT in a field, as JSON
//   host_types_test element NUMBER…    the judgement of an element, for each low, expected, high and got
//   host_types_test verify|bench|tune ARG…  the parsed options, or the message
//   host_types_test drift NUMBER…      the bound of sums, for each accumulation's ten fields, K and symmetric
//   host_types_test ranges NUMBER…     the rules of inputs, for each K, alpha, beta and three limits
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compare.cuh"
#include "operands.cuh"
#include "options.cuh"
#include "record.cuh"
#include "types.cuh"

using namespace mmagen::test;

static int failures = 0;

static void expect(bool good, std::string const& what) {
  if (good) { return; }
  if (++failures <= 40) { std::printf("FAILED %s\n", what.c_str()); }
}

static bool same(double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }

/// Every code of T: reads as the oracle reads it, and comes back from a store. Every midpoint of neighbours, and what
/// lies a hair to its sides: rounds as the oracle rounds.
template <class T, class Load, class Store>
static void check_float(Load oracle_load, Store oracle_store) {
  std::string const word = T::kWord;
  using Bits = typename T::Storage;
  int const codes = 1 << (8 * sizeof(Bits));
  auto const check_store = [&](double x) {
    double const got = T::load(T::store(x));
    double const want = oracle_load(oracle_store(x));
    expect(same(got, want),
           word + " rounds " + number_text(x, 17) + " to " + number_text(got, 17) + ", not " + number_text(want, 17));
    expect(same(got, T::round(x)), word + " round and store differ at " + number_text(x, 17));
  };
  for (int code = 0; code < codes; ++code) {
    Bits const bits = static_cast<Bits>(code);
    double const value = T::load(bits);
    expect(same(value, oracle_load(bits)), word + " reads code " + std::to_string(code));
    if (std::isfinite(value)) { expect(T::store(value) == bits, word + " restores code " + std::to_string(code)); }
    check_store(value);
    double const next = T::load(static_cast<Bits>(code + 1));
    if (!std::isfinite(value) || !std::isfinite(next) || std::abs(next - value) > T::largest()) { continue; }
    double const middle = value + (next - value) / 2;
    check_store(middle);
    check_store(std::nextafter(middle, INFINITY));
    check_store(std::nextafter(middle, -INFINITY));
  }
  double const top = T::largest();
  for (double const factor : {1.0, 1.0001, 1.01, 1.03, 1.05, 1.1, 2.0, 1e6}) {
    check_store(top * factor);
    check_store(-top * factor);
  }
  for (double const x : {5e-324, 1e-300, 1e-46, 1e-8, 1e300, static_cast<double>(NAN)}) { check_store(x); }
}

/// A double close to a float that is a tie of the narrow type: by way of float it would round to the wrong side.
static void check_no_double_rounding() {
  double const tie = 1.0 + std::exp2(-11);  // between 1 and 1 + 2^-10 of f16
  expect(f16::round(tie) == 1.0, "f16 ties to even");
  expect(f16::round(tie + std::exp2(-40)) == 1.0 + std::exp2(-10), "f16 above a tie");
  expect(bf16::round(1.0 + std::exp2(-8) + std::exp2(-40)) == 1.0 + std::exp2(-7), "bf16 above a tie");
  expect(tf32::round(1.0 + std::exp2(-11) + std::exp2(-40)) == 1.0 + std::exp2(-10), "tf32 above a tie");
  expect(tf32::round(1.0 + std::exp2(-11)) == 1.0, "tf32 ties to even");
}

static void check_tf32_and_integers() {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    double const x = uniform<tf32>(random(), 1);
    float const stored = tf32::store(x);
    uint32_t bits;
    std::memcpy(&bits, &stored, sizeof bits);
    expect((bits & 0x1fff) == 0, "tf32 keeps its low 13 bits zero");
    expect(std::abs(stored - x) <= std::abs(x) * tf32::kUnitRoundoff, "tf32 rounds to nearest");
    expect(std::abs(x) <= 1.0, "uniform stays in [-1, 1]");
  }
  expect(s8::round(127.5) == 127 && s8::round(-1e9) == -128 && s8::round(2.5) == 2, "s8 saturates and ties to even");
  expect(u8::round(-3.0) == 0 && u8::round(300.0) == 255 && u8::round(NAN) == 0, "u8 saturates");
  expect(s32::round(3e9) == 2147483647.0 && s32::round(-3e9) == -2147483648.0, "s32 saturates");
  expect(s16::kSmallest == -32768.0 && u16::kLargest == 65535.0, "16-bit ranges");
  for (int i = 0; i < 10000; ++i) {
    expect(std::abs(uniform<s8>(random(), 127)) <= 127, "uniform s8 in range");
    expect(std::abs(uniform<u8>(random(), 255) - 127.5) <= 127.5, "uniform u8 in range");
    expect(std::abs(uniform<s8>(random(), 3)) <= 3, "uniform s8 within its reach");
    double const s = small_int<s8>(random(), 3);
    double const u = small_int<u8>(random(), 3);
    expect(s != 0 && std::abs(s) <= 3 && s == std::floor(s), "small_int signed");
    expect(u >= 1 && u <= 3 && u == std::floor(u), "small_int unsigned");
  }
}

/// What the rule promises, at its worst case and on real draws.
static void check_small_int_rule() {
  ExactLimits const limits[] = {{f32::kExactIntegerLimit, f32::kExactIntegerLimit, f16::kExactIntegerLimit},
                                {f16::kExactIntegerLimit, f32::kExactIntegerLimit, f16::kExactIntegerLimit},
                                {8192.0, f32::kExactIntegerLimit, bf16::kExactIntegerLimit},
                                {s32::kExactIntegerLimit, s32::kExactIntegerLimit, s32::kExactIntegerLimit},
                                {s32::kExactIntegerLimit, f32::kExactIntegerLimit, s8::kExactIntegerLimit},
                                {f64::kExactIntegerLimit, f64::kExactIntegerLimit, f64::kExactIntegerLimit}};
  for (ExactLimits const& limit : limits) {
    for (int64_t const k : {1, 7, 16, 513, 2048, 2049, 4096, 16384, 100000, 16777216}) {
      for (double const alpha : {1.0, 2.0, -0.5, 0.0, 1000.0}) {
        for (double const beta : {0.0, 1.0, -1.0, 0.25}) {
          SmallIntRule const rule = small_int_rule(k, alpha, beta, limit);
          double const products = std::ceil(static_cast<double>(k) / rule.group);
          double const sum = products * rule.range_a * rule.range_b;
          std::string const where = "small_int k=" + std::to_string(k) + " alpha=" + number_text(alpha, 4) +
                                    " beta=" + number_text(beta, 4) + " acc=" + number_text(limit.accumulator, 12);
          expect(rule.exact, where + ": should be exact");
          expect(rule.range_b >= 1 && rule.range_a >= rule.range_b && rule.group >= 1, where + ": sane");
          expect(sum <= limit.accumulator, where + ": sums fit the accumulator");
          double const unit = std::exp2(std::max(fraction_bits(alpha), fraction_bits(beta)));
          expect((std::abs(alpha) * sum + std::abs(beta) * rule.c_range) * unit <= limit.scalar,
                 where + ": alpha*sum + beta*c fits the scalar");
          if (rule.group > 1) {
            // Not emptier than needed: with a smaller group the worst sum would not fit.
            double const worst = std::ceil(static_cast<double>(k) / (rule.group - 1)) * rule.range_a * rule.range_b;
            double const size = (std::abs(alpha) * worst + std::abs(beta) * rule.c_range) * unit;
            expect(worst > limit.accumulator || size > limit.scalar, where + ": as dense as the rule allows");
          }
        }
      }
    }
  }
  expect(!small_int_rule(64, 0.1, 0.0, limits[0]).exact, "alpha 0.1 is not exact");
  expect(small_int_rule(1024, 1, 0, limits[1]).group == 1, "f16 accumulators hold 1024 twos");
  expect(small_int_rule(4096, 1, 0, limits[1]).group == 4, "f16 accumulators hold a quarter of 4096 twos");
}

/// Rows as the device draws them, added in f16 in a shuffled order: no rounding error.
static void check_f16_accumulation() {
  int64_t const k = 10000;
  SmallIntRule const rule = small_int_rule(k, 1, 0, {f16::kExactIntegerLimit, f32::kExactIntegerLimit, 2048.0});
  Matrix matrix;
  matrix.rows = 8;
  matrix.cols = k;
  matrix.batch = 1;
  std::mt19937_64 random(3);
  for (int64_t row = 0; row < 8; ++row) {
    std::vector<double> products;
    int64_t entries = 0;
    for (int64_t col = 0; col < k; ++col) {
      bool const positive = row >= 4;
      double const a = draw<f16>({Distribution::kSmallInt, 1.0 * rule.range_a, rule.group, positive, 11}, matrix, row, col, 0);
      double const b = draw<f16>({Distribution::kSmallInt, 1.0 * rule.range_b, 1, positive, 12}, matrix, row, col, 0);
      expect(!positive || row % 2 == 0 || (a >= 0.0 && b > 0.0), "odd rows have no negative entries where asked for");
      entries += a != 0.0;
      expect(b != 0.0, "B has no zeros");
      products.push_back(a * b);
    }
    expect(entries <= (k + rule.group - 1) / rule.group && entries >= k / rule.group, "one entry of A per group");
    double exact = 0.0;
    double narrow = 0.0;
    for (double const p : products) { exact += p; }
    for (std::size_t i = products.size(); i > 1; --i) { std::swap(products[i - 1], products[random() % i]); }
    for (double const p : products) { narrow = f16::round(narrow + p); }
    expect(exact == narrow, "f16 accumulation of small_int is exact");
  }
}

struct F16Subject {
  using A = f16;
  using B = f16;
  using Out = f16;
  using Acc = f32;
  using Scalar = f32;
  static constexpr Accumulation kAccumulation = {24, 8, 23, false, 0, 1, false};
};
struct Fp8Subject : F16Subject {
  using A = e4m3;
  using B = e4m3;
  using Out = e4m3;
  static constexpr Accumulation kAccumulation = {13, 32, 13, false, 128, 1, false};
};
struct IntSubject : F16Subject {
  using A = s8;
  using B = s8;
  using Out = s32;
  using Acc = s32;
  using Scalar = s32;
};

template <class Out>
static bool passes(ErrorModel const& model, double sum, double drift, double got) {
  return judge_element(allowed<Out>(model, sum, drift, 0.0), got, fabs(sum), 0).incorrect == 0;
}

static void check_bounds() {
  ErrorModel const exact = error_model<F16Subject>(1, 0, true, true);
  ErrorModel const rough = error_model<F16Subject>(1, 0, false, false);
  expect(passes<f16>(exact, 3, 3, 3.0) && !passes<f16>(exact, 3, 3, 3.0 + std::exp2(-9)), "exact is exact");
  expect(passes<f16>(exact, 0, 3, -0.0), "-0 equals 0");
  expect(passes<f16>(exact, 2049, 1, 2048.0) && !passes<f16>(exact, 2049, 1, 2050.0), "rounds once, to even");
  expect(!passes<f16>(exact, 70000, 1, NAN) && !passes<f16>(exact, -70000, 1, INFINITY), "NaN is not inf");
  expect(!passes<f16>(exact, 3, 3, NAN) && !passes<f16>(rough, 3, 1, NAN), "NaN fails");
  double const slack = 0.5;
  expect(passes<f16>(rough, 1.0, slack, 1.0 + slack), "at the bound");
  expect(!passes<f16>(rough, 1.0, slack, 1.0 + 1.01 * slack), "beyond the bound");
  ErrorModel const scaled_exactly = error_model<F16Subject>(0.1, 0, true, false);
  expect(passes<f32>(scaled_exactly, 1e4, 1e9, 1e4 * f32::round(0.1)) && !passes<f32>(scaled_exactly, 1e4, 1e9, 1000.01),
         "exact sums have a bound from the epilogue alone");
  expect(passes<f16>(exact, 70000, 1, INFINITY) && !passes<f16>(exact, 70000, 1, 65504.0), "overflow is inf");
  expect(!passes<f16>(exact, 70000, 1, -INFINITY) && !passes<f16>(exact, 100, 1, INFINITY), "inf has its place");
  expect(passes<f16>(rough, 65519, 32, INFINITY) && passes<f16>(rough, 65519, 32, 65504.0), "either side of top");
  expect(!passes<f16>(rough, 65519, 32, 0.0), "an infinite reach upwards excuses nothing downwards");
  ErrorModel const fp8 = error_model<Fp8Subject>(1, 0, true, true);
  expect(passes<e4m3>(fp8, 1000, 1, 448.0) && !passes<e4m3>(fp8, 1000, 1, NAN), "e4m3 saturates");
  ErrorModel const integer = error_model<IntSubject>(1, 0, false, false);
  expect(passes<s32>(integer, 5.0, 0.0, 5.0) && !passes<s32>(integer, 5.0, 0.0, 6.0), "integers are exact");
  expect(passes<s32>(integer, 2147483648.0, 0.0, -2147483648.0), "s32 accumulators wrap");
  ErrorModel const scaled = error_model<IntSubject>(-3, 2, false, false);
  expect(allowed<s32>(scaled, 10, 0, 7).expected == -16.0, "alpha * sum + beta * c in integers");
}

/// Uniform inputs leave results that the output type can hold, and that are no constants.
static void check_uniform_rule() {
  for (int64_t const k : {1, 32, 512, 4096, 65536}) {
    for (double const alpha : {1.0, 0.01, 100.0}) {
      std::string const where = "uniform k=" + std::to_string(k) + " alpha=" + number_text(alpha, 4);
      UniformRule const wide = uniform_rule<s8, s8, s32>(k, alpha, false);
      expect(wide.group == 1 && (alpha > 1.0 || wide.reach == 127.0), where + ": s32 holds whole s8");
      UniformRule const half = uniform_rule<s8, s8, f16>(k, alpha, false);
      double const size = alpha * 2 * std::sqrt(static_cast<double>(k) / half.group) * half.reach * half.reach;
      expect(half.reach >= 1.0 && size <= 65504.0, where + ": f16 holds six deviations");
      expect(uniform_rule<f16, f16, f16>(k, 1.0, false).reach == 1.0, where + ": f16 sums of f16 need no scaling");
      UniformRule const positive = uniform_rule<e4m3, e4m3, e4m3>(k, alpha, true);
      expect(alpha * static_cast<double>(k) / 4 * positive.reach * positive.reach <= 224.0,
             where + ": e4m3 holds sums of one sign");
    }
  }
}

static void check_findings() {
  Findings all;
  merge(all, judge_element({1, 1, 1}, 1.0, 1.0, 0));
  expect(all.incorrect == 0 && all.first == -1 && all.max_abs_err == 0.0, "nothing found");
  merge(all, judge_element({-9, 0, 9}, 8.0, 10.0, 1));
  merge(all, judge_element({1, 1, 1}, 2.0, 1.0, 7));
  merge(all, judge_element({1, 1, 1}, 1.5, 1.0, 3));
  expect(all.incorrect == 2 && all.first == 3 && all.first_got == 1.5, "the first wrong element");
  expect(all.max_abs_err == 1.0 && all.bound == 0.0, "a wrong element outranks a larger error within its bound");
  merge(all, judge_element({1, 1, 1}, NAN, 1.0, 9));
  expect(std::isinf(all.max_abs_err) && all.incorrect == 3, "NaN is the largest error");
  Findings const top = judge_element({65504, 65504, INFINITY}, INFINITY, 65504, 0);
  expect(top.incorrect == 0 && top.max_abs_err == 0.0, "a passed result has a finite error");
}

static int print_options(Program program, std::vector<std::string> const& arguments) {
  Options options;
  std::string const fault = parse_options(program, arguments, &options);
  if (!fault.empty()) {
    std::cout << "fault: " << fault << '\n';
    return 2;
  }
  std::cout << "seed=" << options.seed << " json=" << options.json << " timing=" << options.timing
            << " max_dim=" << options.max_dim << " reps=" << options.reps << " sample_ms=" << options.sample_ms
            << " sustained=" << options.sustained_s << " graphs=" << options.graphs
            << " dist=" << (options.distribution ? text(*options.distribution) : "default") << '\n';
  for (Problem const& problem : options.problems) { std::cout << text(problem) << '\n'; }
  if (options.from_stdin) { std::cout << "standard input\n"; }
  return 0;
}

static int print_elements(std::vector<std::string> const& arguments) {
  for (std::size_t i = 0; i + 4 <= arguments.size(); i += 4) {
    auto const number = [&](std::size_t at) { return std::stod(arguments[i + at]); };
    Findings const one = judge_element({number(0), number(1), number(2)}, number(3), 1.0, 0);
    std::cout << one.incorrect << ' ' << one.max_abs_err << ' ' << one.bound << ' ' << one.max_rel_err << '\n';
  }
  return 0;
}

/// Products that a test computes likewise.
static double product(int64_t i, bool symmetric) {
  double const value = static_cast<double>(i * 7919 % 1000) / 500 - 1;
  return symmetric ? value : std::abs(value);
}

/// Of a block of 128; likewise.
static double scale(int64_t i) { return 1.0 / static_cast<double>(1 + i / 128 % 3); }

template <bool kPromoted>
static double drift_of(Accumulation const& of, int64_t k, bool symmetric, bool scaled) {
  Path path;
  double sum = 0.0;
  double magnitude = 0.0;
  int const block = of.of_pieces() ? of.chunk : kPathBlock;
  for (int64_t i = 0; i < k; ++i) {
    double const factor = scaled ? scale(i) : 1.0;
    if (i % block == 0) { path.open<kPromoted>(of, i, sum, static_cast<float>(factor)); }
    sum += factor * product(i, symmetric);
    magnitude += factor * std::abs(product(i, symmetric));
    bool const last = i + 1 == k;
    if ((i + 1) % block == 0 || last) { path.close<kPromoted>(of, i + 1, last, sum, magnitude); }
  }
  return path.drift<kPromoted>(of, k, magnitude, symmetric);
}

static int print_drifts(std::vector<std::string> const& arguments) {
  for (std::size_t i = 0; i + 13 <= arguments.size(); i += 13) {
    auto const number = [&](std::size_t at) { return std::stoi(arguments[i + at]); };
    Accumulation const of = {number(0),      number(1), number(2),
                             number(3) != 0, number(4), number(5),
                             number(6) != 0, number(7), std::stod(arguments[i + 8]),
                             number(9)};
    bool const symmetric = number(11) != 0;
    bool const scaled = number(12) != 0;
    double const drift = of.promoted != 0 ? drift_of<true>(of, number(10), symmetric, scaled)
                                          : drift_of<false>(of, number(10), symmetric, scaled);
    std::cout << number_text(drift, 17) << '\n';
  }
  return 0;
}

template <class A, class Out>
static void print_uniform(int64_t k, double alpha) {
  for (bool const positive : {false, true}) {
    UniformRule const rule = uniform_rule<A, A, Out>(k, alpha, positive);
    std::cout << rule.reach << ' ' << rule.group << ' ';
  }
}

static int print_ranges(std::vector<std::string> const& arguments) {
  for (std::size_t i = 0; i + 6 <= arguments.size(); i += 6) {
    auto const number = [&](std::size_t at) { return std::stod(arguments[i + at]); };
    int64_t const k = static_cast<int64_t>(number(0));
    SmallIntRule const rule = small_int_rule(k, number(1), number(2), {number(3), number(4), number(5)});
    std::cout << rule.range_a << ' ' << rule.range_b << ' ' << rule.group << ' ' << rule.exact << ' ';
    print_uniform<f16, f16>(k, number(1));
    print_uniform<e4m3, e4m3>(k, number(1));
    print_uniform<s8, f16>(k, number(1));
    print_uniform<u8, s8>(k, number(1));
    print_uniform<s8, s32>(k, number(1));
    std::cout << '\n';
  }
  return 0;
}

int main(int argc, char** argv) {
  std::string const what = argc > 1 ? argv[1] : "";
  if (what == "json") {
    Record record;
    record.name = argc > 2 ? argv[2] : "";
    record.max_abs_err = 1.5e-7;
    record.bound = INFINITY;
    record.registers = 168;
    record.seed = UINT64_MAX;
    std::cout << json(record) << '\n';
    return 0;
  }
  if (what == "element") { return print_elements({argv + 2, argv + argc}); }
  if (what == "drift") { return print_drifts({argv + 2, argv + argc}); }
  if (what == "ranges") { return print_ranges({argv + 2, argv + argc}); }
  for (auto const& [name, program] :
       {std::pair{"verify", Program::kVerify}, {"bench", Program::kBench}, {"tune", Program::kTune}}) {
    if (what == name) { return print_options(program, {argv + 2, argv + argc}); }
  }
  check_float<f16>([](uint16_t b) { return static_cast<double>(__half2float(__half(__half_raw{b}))); },
                   [](double x) { return static_cast<__half_raw>(__double2half(x)).x; });
  check_float<bf16>([](uint16_t b) { return static_cast<double>(__bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{b}))); },
                    [](double x) { return static_cast<__nv_bfloat16_raw>(__double2bfloat16(x)).x; });
  auto const fp8_load = [](__nv_fp8_interpretation_t kind) {
    return [kind](uint8_t b) { return static_cast<double>(__half2float(__half(__nv_cvt_fp8_to_halfraw(b, kind)))); };
  };
  auto const fp8_store = [](__nv_fp8_interpretation_t kind) {
    return [kind](double x) { return static_cast<uint8_t>(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, kind)); };
  };
  check_float<e4m3>(fp8_load(__NV_E4M3), fp8_store(__NV_E4M3));
  check_float<e5m2>(fp8_load(__NV_E5M2), fp8_store(__NV_E5M2));
  check_no_double_rounding();
  check_tf32_and_integers();
  check_small_int_rule();
  check_f16_accumulation();
  check_bounds();
  check_uniform_rule();
  check_findings();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
