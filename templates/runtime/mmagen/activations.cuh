// Activation functions of epilogues: in float, few instructions and no branches. Their errors are in mmagen's docs/epilogue.md.
#pragma once

#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// 1 / (1 + exp(-x)). In float by ex2.approx and rcp.approx: their relative errors stay small for every x, and the quotient is
/// 0 if exp(-x) is infinite.
CUTE_DEVICE float sigmoid(float x) {
  float power, quotient;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.4426950408889634f * x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(1.0f + power));
  return quotient;
}
CUTE_DEVICE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

/// A polynomial; the highest power comes first.
template <int kCount>
CUTE_DEVICE float polynomial(float const (&coefficients)[kCount], float a) {
  float g = coefficients[0];
  CUTE_UNROLL
  for (int i = 1; i < kCount; ++i) { g = fmaf(g, a, coefficients[i]); }
  return g;
}

/// -G, see gelu_erf().
template <int kDegree>
CUTE_DEVICE float log2_of_tail(float a) {
  static_assert(kDegree >= 4 && kDegree <= 6, "no polynomial of that degree");
  if constexpr (kDegree == 6) {
    constexpr float kOf[] = {1.7756434e-05f,  -6.4776797e-04f, 7.7240714e-03f, -5.2926771e-02f,
                             -4.5908272e-01f, -1.1511168e+00f, -1.0f};
    return polynomial(kOf, a);
  } else if constexpr (kDegree == 5) {
    constexpr float kOf[] = {-3.52763425e-04f, 6.13689888e-03f,  -4.92613316e-02f,
                             -4.62763697e-01f, -1.14979184e+00f, -1.00007701e+00f};
    return polynomial(kOf, a);
  } else {
    constexpr float kOf[] = {2.49026972e-03f, -3.61588523e-02f, -4.81845826e-01f, -1.14014220e+00f, -1.00085008e+00f};
    return polynomial(kOf, a);
  }
}

/// x Phi(x) = max(x, 0) - |x| Q(|x|), where Phi is the normal distribution and Q(a) = Phi(-a) = 2^-G(a). G is a polynomial that
/// rises beyond the arguments it was fitted to: of degree 6 with the least error in Q, 2 * 2^-24; of degrees 5 and 4, for
/// results of fewer bits, with the least relative error in Q where Q is not tiny, 6e-5 and 6.5e-4. No branch, and one function
/// of the special function unit. At 16, where the argument ends, Q is 0: an infinity gives itself or 0. NaN stays NaN.
template <int kDegree>
CUTE_DEVICE float gelu_erf(float x) {
  float a, q;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(fabsf(x)), "f"(16.0f));
#else
  a = fabsf(x) > 16.0f ? 16.0f : fabsf(x);
#endif
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(q) : "f"(log2_of_tail<kDegree>(a)));
  return fmaf(-a, q, fmaxf(x, 0.0f));
}
template <int kDegree>
CUTE_DEVICE double gelu_erf(double x) {
  double const half = 0.5 * x;
  return half + half * erf(x * 0.70710678118654752);
}

/// x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).
CUTE_DEVICE float gelu_tanh(float x) {
  float power, quotient;  // exp(-2u) = 2^(x (c + d x^2))
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * fmaf(x * x, -0.10294324f, -2.3022082f)));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(1.0f + power));
  return x * quotient;
}
CUTE_DEVICE double gelu_tanh(double x) { return x * sigmoid(x * (1.5957691216057308 + 0.07135481627260025 * x * x)); }

}  // namespace detail

}  // namespace v0_1
}  // namespace mmagen
