"""The names of CUTLASS's GEMM kernels, as its profiler prints them, as answers of `mmagen new`.

Types, layout and architecture are taken from the name (cutlass_library/gemm_operation.py makes it); tile and schedule are
chosen anew. CUTLASS's letters t and n are row and column major: of A (M,K) t is K contiguous, of B (K,N) n is, of C and D t is
N contiguous.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mmagen.core.errors import UsageError

_TYPE = "f16|bf16|tf32|f32|f64|s8|u8|s32|e4m3|e5m2"
# cutlass3x_sm90_tensorop_gemm_bf16_bf16_f32_bf16_bf16_128x128x64_2x1x1_0_tnn_align8_warpspecialized_...
_NEW = re.compile(
    rf"cutlass3x_sm(?P<arch>\d+)_tensorop_[a-z]?(\d+x\d+x\d+)?gemm_(?P<a>{_TYPE})_(?P<b>{_TYPE})_(?P<sums>{_TYPE})"
    rf"_(void|{_TYPE})_(?P<d>{_TYPE})_(\d+x\d+x\d+_){{2}}\d+_(?P<layout>[tn]{{3}})_align\d+\w*"
)
# cutlass_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align8: D and A where they differ from the sums. Those that cuBLAS has
# are cutlass_80_..., and say relu, which its calls switch on or leave off.
_OLD = re.compile(
    rf"cutlass_((?P<arch>\d\d)_)?(?P<unit>tensorop|simt)_((?P<d>{_TYPE})_)?(?P<sums>[hsdi])(?P<shape>\d*)(?P<inner>{_TYPE})?"
    rf"gemm(_relu)?(_(?P<a>{_TYPE}))?"
    r"_\d+x\d+_\d+x\d+_(?P<layout>[tn]{2})_align\d+\w*"
)
# As profilers print the function: void cutlass::Kernel2<NAME>(NAME::Params).
_FUNCTION = re.compile(r"void cutlass::Kernel2?<(?P<name>cutlass\w+)>(\(.*\))?")
_SUMS = {"h": "f16", "s": "f32", "d": "f64", "i": "s32"}
# The architecture that introduced an instruction, by the digits of its shape: 16816 is m16n8k16. tf32 shares 1688 with f16.
_ARCH = {"884": 70, "1688": 75, "8816": 75, "16816": 80, "16832": 80, "": 80}


@dataclass(frozen=True)
class Meaning:
    """Answers: arch, types of A and B, of sums, of D, layout letters, and the contiguous mode of D."""

    arch: str
    types: str
    sums: str
    out: str
    layout: str
    major: str


def meaning(name: str) -> Meaning:
    """Of a dense GEMM of real numbers. Raises UsageError for other names."""
    if called := _FUNCTION.fullmatch(name.strip()):
        name = called["name"]
    if found := _NEW.fullmatch(name):
        arch = int(found["arch"])
        letters = found["layout"]
        target = f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"
        types = found["a"] if found["a"] == found["b"] else f"{found['a']},{found['b']}"
        return Meaning(target, types, found["sums"], found["d"], letters[:2].upper(), "N" if letters[2] == "t" else "M")
    if found := _OLD.fullmatch(name):
        sums = _SUMS[found["sums"]]
        a = found["inner"] or found["a"] or sums
        # Kernels before 3.x have a column-major C and D, which their names leave out.
        return Meaning(
            f"sm_{found['arch'] or _arch(found['shape'], a)}", a, sums, found["d"] or sums, found["layout"].upper(), "M"
        )
    raise UsageError(
        f"{name!r} is no name of a dense GEMM of CUTLASS; they begin with cutlass3x_sm90_tensorop_gemm_ or cutlass_tensorop_, as "
        "cutlass_profiler prints them"
    )


def _arch(shape: str, a: str) -> int:
    return 80 if a in ("bf16", "tf32", "f64") else _ARCH.get(shape, 80)
