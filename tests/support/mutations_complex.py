"""Planted faults of kernels of complex numbers, all asked of the emulator."""

from __future__ import annotations

_FUNCTOR, _LOOP, _COPY = "complex_linear_combination", "mainloop_multistage", "gmem_copy_async"
_TN, _NT = "sm80_gemm_c64", "sm90_gemm_c64_nt"
_GEMM = "Products::multiply(mma, tCrA(_, _, kMma), tCrB(_, _, kMma), tCrC);"
_CONJUGATED = "for (int j = 0; j < size(tCr{0}(_, _, kMma)); ++j) {{ tCr{0}(_, _, kMma)(j) = conj(tCr{0}(_, _, kMma)(j)); }}\n"

# (name, spec, header, old, new, problem, how it shows)
FAULTS: tuple[tuple[str, str, str, str, str, str, str], ...] = (
    (
        "conjugate_a",
        _TN,
        _LOOP,
        _GEMM,
        _CONJUGATED.format("A") + _GEMM,
        "64,64,8",
        "the product is that of the conjugate of A",
    ),
    (
        "conjugate_b",
        _NT,
        _LOOP,
        _GEMM,
        _CONJUGATED.format("B") + _GEMM,
        "64,64,8",
        "the product is that of the conjugate of B",
    ),
    (
        "conjugate_d",
        _NT,
        _FUNCTOR,
        "return {this->alpha * accumulator.real(), this->alpha * accumulator.imag()};",
        "return {this->alpha * accumulator.real(), this->alpha * -accumulator.imag()};",
        "64,64,8",
        "D is the conjugate of what it should be where C is not read",
    ),
    (
        "conjugate_c",
        _TN,
        _FUNCTOR,
        "+ this->beta * source.imag()};",
        "- this->beta * source.imag()};",
        "64,64,8:beta=1",
        "the conjugate of C is added",
    ),
    (
        "real_for_imaginary",
        _TN,
        _FUNCTOR,
        "this->alpha * accumulator.imag() + ",
        "this->alpha * accumulator.real() + ",
        "64,64,8:beta=1",
        "imaginary parts of D have the real part of the sum where C is read",
    ),
    (
        "alpha_of_one_part",
        _TN,
        _FUNCTOR,
        "this->alpha * accumulator.imag() + ",
        "accumulator.imag() + ",
        "64,64,8:alpha=2:beta=1",
        "imaginary parts are not multiplied by alpha",
    ),
    (
        "half_of_an_element",
        _TN,
        _COPY,
        "inside * int(sizeof(Element))",
        "inside * 8",
        "60,60,7",
        "at the edges of A and B imaginary parts are zeros",
    ),
    (
        "negative_beta",
        _TN,
        "linear_combination",
        "bool reads_source() const { return beta != Scalar(0); }",
        "bool reads_source() const { return beta > Scalar(0); }",
        "64,64,8",
        "a negative beta is taken for 0",
    ),
    (
        "alpha_of_f32",
        _TN,
        "linear_combination",
        "  scalar = Scalar(value);",
        "  scalar = Scalar(float(value));",
        "64,64,8",
        "alpha and beta are rounded to f32",
    ),
)
