// Activation functions of epilogues. In float few instructions and no branches; docs/epilogue.md of mmagen has their errors.
#pragma once

#include <cute/config.hpp>

namespace mmagen {
inline namespace v0_1 {

namespace detail {

/// 1 / (1 + exp(-x)). In float by ex2.approx and rcp.approx: their relative errors stay small for every x, and where exp(-x) is
/// infinite the quotient is 0.
CUTE_DEVICE float sigmoid(float x) {
  float power, quotient;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.4426950408889634f * x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(quotient) : "f"(1.0f + power));
  return quotient;
}
CUTE_DEVICE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

/// x Phi(x) = max(x, 0) - |x| Q(|x|), where Phi is the normal distribution and Q(a) = Phi(-a) = 2^-G(a). G is a polynomial of
/// least error in Q, 2 * 2^-24, that rises beyond the arguments it was fitted to. No branch, and one function of the
/// special function unit. At 16, where the argument ends, Q is 0: an infinity gives itself or 0. NaN stays NaN.
CUTE_DEVICE float gelu_erf(float x) {
  float a, q;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(fabsf(x)), "f"(16.0f));
#else
  a = fabsf(x) > 16.0f ? 16.0f : fabsf(x);
#endif
  float g = 1.7756434e-05f;
  g = fmaf(g, a, -6.4776797e-04f);
  g = fmaf(g, a, 7.7240714e-03f);
  g = fmaf(g, a, -5.2926771e-02f);
  g = fmaf(g, a, -4.5908272e-01f);
  g = fmaf(g, a, -1.1511168e+00f);
  g = fmaf(g, a, -1.0f);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(q) : "f"(g));
  return fmaf(-a, q, fmaxf(x, 0.0f));
}
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
