"""Of CUDA 12, PyPI has headers, libdevice and ptxas, and no nvcc: clang compiles projects with them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import mmagen

_WHEELS = ("nvcc", "runtime", "cccl")
_FLAGS = ("-std=c++17", "-O2", "-DNDEBUG", "-w")
COMPILED = "compiled"


def installed(cuda: str, work: Path) -> Path:
    """A folder with the headers, libdevice and ptxas of a version of CUDA 12, e.g. "12.6", from PyPI."""
    target = (work / f"cuda-{cuda}").resolve()
    toolkit = target / "toolkit"
    if not toolkit.is_dir():
        wheels = [f"nvidia-cuda-{name}-cu12=={cuda}.*" for name in _WHEELS]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), *wheels], check=True)
        made = target / "made"
        for name in _WHEELS:
            shutil.copytree(target / f"nvidia/cuda_{name}", made, dirs_exist_ok=True)
        # clang includes it with every CUDA source; it is in the wheel of cuRAND, of which nothing is used here.
        (made / "include/curand_mtgp32_kernel.h").touch()
        (made / "version.txt").write_text(f"CUDA Version {ptxas_version(made)}\n")
        made.rename(toolkit)
    return toolkit


def ptxas_version(toolkit: Path) -> str:
    """Of the toolkit's ptxas, e.g. "12.6.85"."""
    ptxas = toolkit / "bin/ptxas"
    ptxas.chmod(0o755)  # pip --target keeps no mode of files that are no scripts
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    return said.rsplit(", V", 1)[1].split()[0]


def clang_version(clang: str) -> str:
    """E.g. "19.1.7"."""
    said = subprocess.run([clang, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"clang version (\S+)", said)
    return found.group(1) if found else "unknown"


def verdict(spec: Path, toolkit: Path, cutlass: Path, clang: str) -> str:
    """COMPILED, or the first error: kernels to machine code by clang and ptxas, and the host code to an object file."""
    with tempfile.TemporaryDirectory(prefix="mmagen-clang-") as scratch:
        folder = mmagen.build(spec, scratch, tests=False)
        arch = mmagen.plan(spec).arch[0]
        common = [clang, "-x", "cuda", f"--cuda-path={toolkit}", f"--cuda-gpu-arch={arch}", *_FLAGS]
        common += [f"-I{folder / 'include'}", f"-I{cutlass}", "-c", "-o", str(Path(scratch) / "made.o")]
        for source in sorted((folder / "src").glob("*.cu")):
            for part in ("--cuda-device-only", "--cuda-host-only"):
                done = subprocess.run([*common, part, str(source)], capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    lines = [line for line in done.stderr.splitlines() if "error" in line]
                    return textwrap.shorten((lines or done.stderr.splitlines() or [f"exit code {done.returncode}"])[0], 120)
    return COMPILED
