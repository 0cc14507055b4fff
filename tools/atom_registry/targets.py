"""python -m tools.atom_registry.targets: tests which targets compile each operation, and compares with operations.json.

One kernel for each operation that calls its `fma` once; for every target nvcc makes PTX of all of them. An operation
runs on a target when its kernel holds its opcode - CuTe's guards leave an empty one elsewhere, silently - and ptxas
refuses none of its lines. wgmma's 2,112 are alike: every 50th is tried. Takes ten minutes and needs nvcc 13.0 or later.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mmagen.mma.catalogue import operations
from mmagen.mma.operation import Operation
from mmagen.toolchain.find import Toolchain, find_toolchain

TARGETS = (
    "sm_75",
    "sm_80",
    "sm_86",
    "sm_87",
    "sm_88",
    "sm_89",
    "sm_90",
    "sm_90a",
    "sm_100",
    "sm_100a",
    "sm_100f",
    "sm_103",
    "sm_103a",
    "sm_103f",
    "sm_110",
    "sm_110a",
    "sm_110f",
    "sm_120",
    "sm_120a",
    "sm_120f",
    "sm_121",
    "sm_121a",
)

_PRELUDE = r"""
#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
using namespace cute;
template <class... Args, int... I>
__device__ __forceinline__ void invoke(void (*f)(Args...), char* p, seq<I...>) {
  f(static_cast<Args>(*reinterpret_cast<remove_cvref_t<Args>*>(p + 256 * I))...);
}
template <class... Args> constexpr int arity(void (*)(Args...)) { return sizeof...(Args); }
template <class Op> __device__ __forceinline__ void once(char* p) {
  invoke(&Op::fma, p, make_int_sequence<arity(&Op::fma)>{});
}
"""


def program(tried: Sequence[Operation]) -> str:
    """CUDA text with one kernel, k0, k1, ..., for each operation."""
    kernels = (
        f'extern "C" __global__ void k{number}(char* p) {{ once<{operation.cxx()}>(p); }}'
        for number, operation in enumerate(tried)
    )
    return _PRELUDE + "\n".join(kernels) + "\n"


def compiles(tried: Sequence[Operation], target: str, toolchain: Toolchain, folder: Path) -> list[bool]:
    """Which of `tried` become their instruction on `target`."""
    assert toolchain.nvcc and toolchain.host_compiler and toolchain.cutlass
    source, ptx = folder / "tried.cu", folder / f"{target}.ptx"
    source.write_text(program(tried))
    command = [
        str(toolchain.nvcc.path),
        "-ccbin",
        str(toolchain.host_compiler.path),
        "-std=c++17",
        "-w",
        "-ptx",
        f"-arch={target}",
        "--expt-relaxed-constexpr",
        "-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED",
        f"-I{toolchain.cutlass.path}",
        str(source),
        "-o",
        str(ptx),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if not ptx.exists():
        raise SystemExit(done.stdout + done.stderr)
    refused = {int(line) for line in re.findall(r"line (\d+); error", done.stdout + done.stderr)}
    found = [False] * len(tried)
    wrong = [False] * len(tried)
    kernel = -1
    for number, line in enumerate(ptx.read_text().splitlines(), 1):
        if entry := re.search(r"\.entry k(\d+)\(", line):
            kernel = int(entry[1])
        if kernel >= 0:
            found[kernel] |= tried[kernel].opcode in line
            wrong[kernel] |= number in refused
    return [there and not refuses for there, refuses in zip(found, wrong, strict=True)]


def main() -> int:
    toolchain = find_toolchain(want=("nvcc", "host_compiler", "cutlass"))
    toolchain.need("nvcc", "host_compiler", "cutlass")
    usable = [operation for operation in operations() if not operation.broken]
    tried = [o for o in usable if not o.warpgroup] + [o for o in usable if o.warpgroup][::50]
    surprises = 0
    with tempfile.TemporaryDirectory(prefix="atom-targets-") as folder:
        for target in TARGETS:
            answers = compiles(tried, target, toolchain, Path(folder))
            print(f"{target}: {sum(answers)} of {len(tried)}", flush=True)
            for operation, answer in zip(tried, answers, strict=True):
                # SM103's K of 96 assembles for the whole family of sm_100, and is for sm_103 alone.
                if answer != operation.runs_on(target) and not (operation.family == "SM103" and "sm_100" in target):
                    surprises += 1
                    print(f"  {operation.name}: {'compiles' if answer else 'does not compile'}, against the registry")
    return int(surprises > 0)


if __name__ == "__main__":
    sys.exit(main())
