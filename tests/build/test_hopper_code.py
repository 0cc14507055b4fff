"""What nvcc makes of wgmma kernels: no spills, no warnings, and the instructions that they are written for.

Machine code is read from the ELF file itself, since few toolkits have a disassembler: in each 16 bytes, the 9 lowest bits
say what the instruction is. Where there is a cuobjdump it must say the same.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mmagen.build.log import parse_ptxas, warnings
from mmagen.core.process import capture
from mmagen.generate.write import write
from mmagen.toolchain.find import COMPILE, find_toolchain
from tests.support.mutations import project
from tests.support.selection import representatives

pytestmark = pytest.mark.nvcc

# Project and source file -> its wgmma. Each takes nvcc twenty seconds: a cooperative kernel with stream K, one for few rows with
# boxes brought into L2 ahead, pingpong with two wgmmas in M, the same with more accumulators than fit the registers at launch,
# one of each other family of types, and two with many slices.
UNITS = {
    ("sm90_gemm_bf16_rules", "large"): "HGMMA",
    ("sm90_gemm_bf16_rules", "small_m"): "HGMMA",
    ("sm90_gemm_bf16_pingpong128", "sm90_gemm_bf16_pingpong128"): "HGMMA",
    ("sums_160", "sums_160"): "HGMMA",
    ("sm90_gemm_e4m3", "mid"): "QGMMA",
    ("sm90_gemm_s8", "large"): "IGMMA",
    ("pointers_slices", "pointers_slices"): "QGMMA",
    ("operations_240", "operations_240"): "HGMMA",
}
_IN_EVERY_RUN = ("sm90_gemm_bf16_rules-small_m", "sums_160", "sm90_gemm_e4m3-mid", "pointers_slices")
# As in a project's CMakeLists.txt, and with -v.
_FLAGS = ("-std=c++17", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "-lineinfo", "-Xptxas=-v", "-arch=sm_90a", "-cubin")
_OPCODES = {0x1F0: "HGMMA", 0x1F1: "IGMMA", 0x1F3: "QGMMA", 0x1B4: "UTMALDG", 0x1B5: "UTMASTG", 0x1B8: "UTMAPF", 0x044: "STSM"}


@dataclass(frozen=True)
class Compiled:
    """output: what nvcc and ptxas printed. cubin: the file, or one that does not exist."""

    output: str
    cubin: Path


def _named(unit: tuple[str, str]) -> str:
    return "-".join(dict.fromkeys(unit))


_UNITS = representatives(UNITS, _IN_EVERY_RUN, _named)


def _compile(toolchain, folder: Path, name: str, unit: str) -> None:
    """Makes kernel.cubin, and said.txt with what nvcc and ptxas print."""
    write(project(name, name), folder / name)
    done = capture(
        [
            toolchain.nvcc.path,
            "-ccbin",
            toolchain.host_compiler.path,
            *_FLAGS,
            "-I",
            folder / name / "include",
            "-isystem",
            toolchain.cutlass.path,
            "-o",
            folder / "kernel.cubin",
            folder / name / "src" / f"{unit}.cu",
        ],
        timeout_s=300,
    )
    (folder / "said.txt").write_text(done.stdout + done.stderr)


@pytest.fixture(scope="module")
def toolchain():
    return find_toolchain(want=(*COMPILE, "cuobjdump"))


@pytest.fixture(scope="module")
def compiled(toolchain, made_once) -> Callable[[tuple[str, str]], Compiled]:
    def of(unit: tuple[str, str]) -> Compiled:
        folder = made_once(f"code_{_named(unit)}", lambda folder: _compile(toolchain, folder, *unit))
        return Compiled((folder / "said.txt").read_text(), folder / "kernel.cubin")

    return of


def _instructions(cubin: Path, kernel: str = "") -> Counter[str]:
    """How often each instruction of _OPCODES occurs in the kernels of a cubin whose names contain `kernel`."""
    data = cubin.read_bytes()
    start, size, count, names = struct.unpack_from("<40xQ10xHHH", data)  # of an ELF header: the table of sections
    # Of a section header: where its name is, what it is, where it begins and how long it is.
    sections = [struct.unpack_from("<II16xQQ", data, start + size * index) for index in range(count)]
    found: Counter[str] = Counter()
    for name, _, begin, length in sections:
        at = sections[names][2] + name
        title = data[at : data.index(b"\0", at)].decode()
        if title.startswith(".text.") and kernel in title:
            found.update(_OPCODES.get(word & 0x1FF, "") for word, _ in struct.iter_unpack("<QQ", data[begin : begin + length]))
    return Counter({name: number for name, number in found.items() if name})


@pytest.mark.parametrize("unit", _UNITS)
def test_nothing_is_spilled_and_nothing_is_warned_of(compiled, unit):
    made = compiled(unit)
    output = made.output
    kernels = parse_ptxas(output.splitlines())
    assert made.cubin.is_file() and kernels, output
    for kernel in kernels:
        assert kernel.arch == "sm_90a" and (kernel.spill_stores, kernel.spill_loads, kernel.stack) == (0, 0, 0), output
    # C7510 among them, wgmma that ptxas serialised, and C7508, setmaxnreg that it ignored.
    assert warnings(output.splitlines()) == () and "warning" not in output.lower(), output


@pytest.mark.parametrize("unit", _UNITS)
def test_the_machine_code_is_wgmma_between_tma_and_tma(compiled, unit):
    found = _instructions(compiled(unit).cubin, "sm90_kernel")  # not in that for operands which TMA cannot address
    families = {"HGMMA", "IGMMA", "QGMMA"} & set(found)
    assert families == {UNITS[unit]} and found["UTMALDG"] >= 2 and found["UTMASTG"] >= 1, found
    assert ("UTMAPF" in found) == (unit[1] == "small_m") and ("STSM" in found) == (UNITS[unit] != "IGMMA"), found


@pytest.mark.parametrize("unit", _UNITS)
def test_cuobjdump_names_the_same_instructions(compiled, toolchain, request, unit):
    if not toolchain.cuobjdump:
        pytest.skip(f"{request.node.nodeid}: {toolchain.remedies['cuobjdump']}")
    cubin = compiled(unit).cubin
    done = capture([toolchain.cuobjdump.path, "-sass", cubin], timeout_s=120)
    named = re.findall(rf"\b({'|'.join(_OPCODES.values())})\b", done.stdout)
    assert Counter(named) == _instructions(cubin)
