"""The names of CUTLASS's GEMM kernels, as its profiler prints them, as answers of `mmagen new`.

Types, layout and architecture are taken from the name (cutlass_library/gemm_operation.py makes it); tile and schedule are
chosen anew. CUTLASS's letters t and n are row and column major: of A (M,K) t is K contiguous, of B (K,N) n is, of C and D t is
N contiguous.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from mmagen.core.errors import UsageError

_TYPE = "f16|bf16|tf32|f32|f64|s8|u8|s32|e4m3|e5m2"
# cutlass3x_sm90_tensorop_gemm_bf16_bf16_f32_bf16_bf16_128x128x64_2x1x1_0_tnn_align8_warpspecialized_...
_NEW = re.compile(
    rf"cutlass3x_sm(?P<arch>\d+)_tensorop_[a-z]?(\d+x\d+x\d+)?(?P<inner>{_TYPE})?gemm_(?P<a>{_TYPE})_(?P<b>{_TYPE})_(?P<sums>{_TYPE})"
    rf"_(void|{_TYPE})_(?P<d>{_TYPE})_(\d+x\d+x\d+_){{2}}\d+_(?P<layout>[tn]{{3}})_align\d+\w*"
)
# cutlass_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align8: D and A where they differ from the sums. Those that cuBLAS has
# are cutlass_80_..., and say relu, which its calls switch on or leave off.
_OLD = re.compile(
    rf"cutlass_((?P<arch>\d\d)_)?(?P<unit>tensorop|simt)_((?P<d>{_TYPE})_)?(?P<sums>[hsdiz])(?P<shape>\d*)(?P<inner>{_TYPE})?"
    rf"gemm(_relu)?(_(?P<a>{_TYPE}))?(_(?P<b>{_TYPE}))?"
    r"_\d+x\d+_\d+x\d+_(?P<layout>[tn]{2})_align\d+\w*"
)
# As profilers print the function: void cutlass::Kernel2<NAME>(NAME::Params).
_FUNCTION = re.compile(r"void cutlass::Kernel2?<(?P<name>cutlass\w+)>(\(.*\))?")
_SUMS = {"h": "f16", "s": "f32", "d": "f64", "i": "s32", "z": "c64"}
# The architecture that introduced an instruction, by the digits of its shape: 16816 is m16n8k16. tf32 shares 1688 with f16.
_ARCH = {"884": 70, "1688": 75, "8816": 75, "16816": 80, "16832": 80, "": 80}


# Other kernels, by a part of the name, and what to do about them.
_OTHERS = (
    (
        r"sp(tensorop|gemm)|spgemm",
        "a kernel of a sparse A: begin with the name without sp, and take a sparse atom (docs/sparse.md)",
    ),
    (r"gemm_grouped", "a kernel of groups: leave out `grouped_`, and add `grouped` to the spec (docs/grouped.md)"),
    (
        r"_c\d*gemm",
        "a kernel of complex numbers of two f32: tensor cores have operations of two f64 alone, z884gemm (docs/complex.md)",
    ),
    (
        r"_[su]4",
        "a kernel of 4-bit integers: begin with specs/sm80_gemm_s4.yaml, and take an atom that mmagen atoms '*S4*' lists "
        "(docs/int4.md)",
    ),
    (
        r"_b1",
        "a kernel of 1-bit integers: kernel: micro has operations of them, mmagen atoms '*U1*' lists them",
    ),
    (r"symm|hemm|syrk|herk|trmm|rank_k|conv|fprop|dgrad|wgrad", "no GEMM"),
    (
        r"^(nvjet|sm\d+_xmma|(volta|turing|ampere|hopper)_)",
        "a kernel of cuBLAS itself, whose name does not say all that a spec needs; pass the call with --cublaslt, as "
        "CUBLASLT_LOG_LEVEL=5 prints it",
    ),
)
_ROUNDED = "the kernel reads f32 and rounds it to {inner}: tf32 reads f32 too, and keeps 11 bits"
_THREE = "the kernel multiplies f32 by tensor cores, as three products of tf32 (3xTF32), which mmagen does not have"


@dataclass(frozen=True)
class Meaning:
    """Answers: arch, types of A and B, of sums, of D, layout letters, and the contiguous mode of D. remark: what was decided about
    them, a sentence."""

    arch: str
    types: str
    sums: str
    out: str
    layout: str
    major: str
    remark: str = ""

    @property
    def answers(self) -> dict[str, str]:
        """For options of the same names."""
        return {key: value for key, value in asdict(self).items() if key != "remark"}


def meaning(name: str) -> Meaning:
    """Of a dense GEMM. Raises UsageError for other names."""
    if called := _FUNCTION.fullmatch(name.strip()):
        name = called["name"]
    name = name.strip()
    if found := _NEW.fullmatch(name):
        arch = int(found["arch"])
        letters = found["layout"]
        target = f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"
        # wgmma of f32 in memory is that of tf32, whether the name says so or not.
        a, b = ("tf32" if one == "f32" else one for one in (found["a"], found["b"]))
        types = a if a == b else f"{a},{b}"
        return Meaning(
            target, types, found["sums"], _stored(found["d"]), letters[:2].upper(), "N" if letters[2] == "t" else "M"
        )
    if found := _OLD.fullmatch(name):
        return _before_3(found)
    nothing = (
        "not the name of a dense CUTLASS GEMM; these begin with cutlass3x_sm90_tensorop_gemm_ or cutlass_tensorop_, as "
        "cutlass_profiler prints them"
    )
    raise UsageError(f"{name!r} is {next((what for part, what in _OTHERS if re.search(part, name)), nothing)}")


def _before_3(found: re.Match[str]) -> Meaning:
    """Kernels before 3.x have a column-major C and D, which their names leave out."""
    sums, remark = _SUMS[found["sums"]], ""
    a = found["inner"] or found["a"] or sums
    if found["inner"] in ("bf16", "f16") and not found["a"]:  # reads f32: the name of another type in memory would follow
        a, remark = "tf32", _ROUNDED.format(inner=found["inner"])
    elif found["unit"] == "tensorop" and a == "f32":
        remark = _THREE
    b = found["b"] or a
    target = f"sm_{found['arch'] or _arch(found['shape'], a)}"
    types = a if a == b else f"{a},{b}"
    return Meaning(target, types, sums, _stored(found["d"] or sums), found["layout"].upper(), "M", remark)


def _stored(word: str) -> str:
    """tf32 is f32 in memory."""
    return "f32" if word == "tf32" else word


def _arch(shape: str, a: str) -> int:
    if a in ("e4m3", "e5m2"):
        return 89
    return 80 if a in ("bf16", "tf32", "f32", "f64", "c64") else _ARCH.get(shape, 80)
