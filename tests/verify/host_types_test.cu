// Host-side checks of the judge that projects carry (templates/runtime/test). CUDA's own conversion headers are the
// oracle here; the judge itself does not use them. Run by test_judge_host.py:
//   host_types_test                    all checks; prints the failed ones
//   host_types_test json TEXT          a record with TEXT in a field, as JSON
//   host_types_test element NUMBER…    the judgement of an element, for each low, expected, high and got
//   host_types_test verify|bench ARG…  the parsed options, or the message
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
    double const x = uniform<tf32>(random());
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
    expect(std::abs(uniform<s8>(random()) + 0.5) <= 127.5, "uniform s8 in range");
    expect(std::abs(uniform<u8>(random()) - 127.5) <= 127.5, "uniform u8 in range");
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
          double const sum = products * rule.range * rule.range;
          std::string const where = "small_int k=" + std::to_string(k) + " alpha=" + number_text(alpha, 4) +
                                    " beta=" + number_text(beta, 4) + " acc=" + number_text(limit.accumulator, 12);
          expect(rule.exact, where + ": should be exact");
          expect(rule.range >= 1 && rule.group >= 1, where + ": sane");
          expect(sum <= limit.accumulator, where + ": sums fit the accumulator");
          double const unit = std::exp2(std::max(fraction_bits(alpha), fraction_bits(beta)));
          expect((std::abs(alpha) * sum + std::abs(beta) * rule.c_range) * unit <= limit.scalar,
                 where + ": alpha*sum + beta*c fits the scalar");
          if (rule.group > 1) {
            // Not emptier than needed: with a smaller group the worst sum would not fit.
            double const worst = std::ceil(static_cast<double>(k) / (rule.group - 1)) * rule.range * rule.range;
            double const size = (std::abs(alpha) * worst + std::abs(beta) * rule.c_range) * unit;
            expect(worst > limit.accumulator || size > limit.scalar, where + ": as dense as the rule allows");
          }
        }
      }
    }
  }
  expect(!small_int_rule(64, 0.1, 0.0, limits[0]).exact, "alpha 0.1 is not exact");
  expect(small_int_rule(2048, 1, 0, limits[1]).group == 1, "f16 accumulators hold 2048 ones");
  expect(small_int_rule(4096, 1, 0, limits[1]).group == 2, "f16 accumulators hold half of 4096 ones");
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
      double const a = draw<f16>({Distribution::kSmallInt, rule.range, rule.group, 11}, matrix, row, col, 0);
      double const b = draw<f16>({Distribution::kSmallInt, rule.range, 1, 12}, matrix, row, col, 0);
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
  static constexpr int kAtomK = 16;
};
struct Fp8Subject : F16Subject {
  using A = e4m3;
  using B = e4m3;
  using Out = e4m3;
};
struct IntSubject : F16Subject {
  using A = s8;
  using B = s8;
  using Out = s32;
  using Acc = s32;
  using Scalar = s32;
};

template <class Out>
static bool passes(ErrorModel const& model, double sum, double magnitude, double got) {
  return judge_element(allowed<Out>(model, sum, magnitude, 0.0), got, magnitude, 0).incorrect == 0;
}

static void check_bounds() {
  ErrorModel const exact = error_model<F16Subject>(64, 1, 0, true);
  ErrorModel const rough = error_model<F16Subject>(4096, 1, 0, false);
  expect(passes<f16>(exact, 3, 3, 3.0) && !passes<f16>(exact, 3, 3, 3.0 + std::exp2(-9)), "exact is exact");
  expect(passes<f16>(exact, 0, 3, -0.0), "-0 equals 0");
  expect(passes<f16>(exact, 2049, 2049, 2048.0) && !passes<f16>(exact, 2049, 2049, 2050.0), "rounds once, to even");
  expect(!passes<f16>(exact, 70000, 70000, NAN) && !passes<f16>(exact, -70000, 70000, INFINITY), "NaN is not inf");
  expect(!passes<f16>(exact, 3, 3, NAN) && !passes<f16>(rough, 3, 1000, NAN), "NaN fails");
  expect(rough.relative > 4096 * std::exp2(-23) && rough.relative < 4500 * std::exp2(-23), "K * 2u and a little");
  double const slack = rough.relative * 1000;
  expect(passes<f16>(rough, 1.0, 1000, f16::round(1.0 + slack)), "at the bound");
  expect(!passes<f16>(rough, 1.0, 1000, 1.0 + 1.2 * slack), "beyond the bound");
  expect(passes<f16>(exact, 70000, 70000, INFINITY) && !passes<f16>(exact, 70000, 70000, 65504.0), "overflow is inf");
  expect(!passes<f16>(exact, 70000, 70000, -INFINITY) && !passes<f16>(exact, 100, 100, INFINITY), "inf has its place");
  expect(passes<f16>(rough, 65519, 65519, INFINITY) && passes<f16>(rough, 65519, 65519, 65504.0), "either side of top");
  expect(!passes<f16>(rough, 65519, 65519, 0.0), "an infinite reach upwards excuses nothing downwards");
  ErrorModel const fp8 = error_model<Fp8Subject>(64, 1, 0, true);
  expect(passes<e4m3>(fp8, 1000, 1000, 448.0) && !passes<e4m3>(fp8, 1000, 1000, NAN), "e4m3 saturates");
  expect(error_model<Fp8Subject>(64, 1, 0, false).relative > 64 * std::exp2(-13), "fp8 keeps 13 bits");
  ErrorModel const integer = error_model<IntSubject>(1 << 20, 1, 0, false);
  expect(passes<s32>(integer, 5.0, 5.0, 5.0) && !passes<s32>(integer, 5.0, 5.0, 6.0), "integers are exact");
  expect(passes<s32>(integer, 2147483648.0, 2147483648.0, -2147483648.0), "s32 accumulators wrap");
  ErrorModel const scaled = error_model<IntSubject>(64, -3, 2, false);
  expect(allowed<s32>(scaled, 10, 10, 7).expected == -16.0, "alpha * sum + beta * c in integers");
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
            << " sustained=" << options.sustained_s
            << " dist=" << (options.distribution ? text(*options.distribution) : "default") << '\n';
  for (Problem const& problem : options.problems) { std::cout << text(problem) << '\n'; }
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
  if (what == "verify" || what == "bench") {
    return print_options(what == "verify" ? Program::kVerify : Program::kBench, {argv + 2, argv + argc});
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
  check_findings();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
