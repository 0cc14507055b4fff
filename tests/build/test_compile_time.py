"""A wgmma project's source file, with the kernels that load with and without TMA, compiles in at most 0.7 of the time that
CUTLASS's own kernel of the same shape takes.

Time is the compiler's own use of a CPU, user and system together: who else works on the machine matters little.

    python -m tests.build.test_compile_time

compiles both to their end and prints the ratio. The test stops CUTLASS's compilation as soon as it has taken so long that
the answer is known: of a minute and a half, that saves half.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from mmagen.generate.write import write
from mmagen.toolchain.find import COMPILE, Toolchain, find_toolchain
from tests.support.mutations import project

pytestmark = [pytest.mark.nvcc, pytest.mark.more]

OURS = "sm90_gemm_bf16_tn"
THEIRS = Path(__file__).with_name("cutlass_kernel.cu")
MOST = 0.7
# As in a project's CMakeLists.txt.
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-DNDEBUG",
    "--expt-relaxed-constexpr",
    "-lineinfo",
    "-gencode=arch=compute_90a,code=sm_90a",
    "-c",
)


@dataclass(frozen=True)
class Compilation:
    """seconds: of CPU time. ok: it came to its end. output: what the compiler printed."""

    seconds: float
    ok: bool
    output: str


def compile_unit(toolchain: Toolchain, source: Path, *includes: Path, limit: float = math.inf) -> Compilation:
    """Compile `source` to an object, and forget it; stop after `limit` seconds of CPU time."""
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile("w+") as output:
        command = [
            toolchain.nvcc.path,
            "-ccbin",
            toolchain.host_compiler.path,
            *_FLAGS,
            *(f"-I{path}" for path in includes),
            "-isystem",
            toolchain.cutlass.path,
            "-o",
            "unit.o",
            source,
        ]
        nvcc = subprocess.Popen(
            command,
            cwd=scratch,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": scratch},
            start_new_session=True,
        )
        seconds, ended = 0.0, 0
        while not ended and seconds < limit:
            time.sleep(0.1)
            seconds = _cpu_seconds(nvcc.pid)
            ended, status, usage = os.wait4(nvcc.pid, os.WNOHANG)
        if ended:
            nvcc.returncode = os.waitstatus_to_exitcode(status)
            seconds = usage.ru_utime + usage.ru_stime  # with all processes that nvcc started and waited for
        else:
            os.killpg(nvcc.pid, signal.SIGKILL)
            nvcc.wait()
        output.seek(0)
        return Compilation(seconds, nvcc.returncode == 0, output.read())


def _cpu_seconds(session: int) -> float:
    """Of all processes of a session and of those that they have waited for."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()  # the name, in parentheses, may hold anything
        except OSError:
            continue  # it has ended
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))  # user, system, children's user, children's system
    return ticks / os.sysconf("SC_CLK_TCK")


def compile_ours(toolchain: Toolchain, folder: Path) -> Compilation:
    write(project(OURS, OURS), folder / OURS)
    return compile_unit(toolchain, folder / OURS / "src" / f"{OURS}.cu", folder / OURS / "include")


def test_a_kernel_compiles_in_less_time_than_cutlasss_own(tmp_path):
    toolchain = find_toolchain(want=COMPILE)
    ours = compile_ours(toolchain, tmp_path)
    assert ours.ok, ours.output
    enough = ours.seconds / MOST
    theirs = compile_unit(toolchain, THEIRS, limit=enough)
    assert theirs.seconds >= enough, f"ours: {ours.seconds:.1f} s, CUTLASS's: {theirs.seconds:.1f} s\n{theirs.output}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        tools = find_toolchain(want=COMPILE)
        both = compile_ours(tools, Path(place)), compile_unit(tools, THEIRS)
    for name, one in zip((OURS, "CollectiveBuilder"), both, strict=True):
        print(f"{name}: {one.seconds:.1f} s of CPU time{'' if one.ok else ', failed: ' + one.output}")
    print(f"ratio: {both[0].seconds / both[1].seconds:.2f}")
