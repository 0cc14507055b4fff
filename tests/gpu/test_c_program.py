"""A C99 program calls the libraries of compiled kernels on a GPU: results, streams, scalars in device memory, refusals."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import mmagen
from mmagen.toolchain.find import find_toolchain
from tests.support.mutations import ODD

pytestmark = [pytest.mark.nvcc, pytest.mark.gpu]

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("program.c")


@pytest.mark.parametrize("compiler", ("gcc", "clang"))
@pytest.mark.parametrize("spec", ("sm80_gemm_bf16_tn", "sm90_gemm_bf16_tn"))
def test_a_c_program_calls_a_kernel(spec, compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    program = tmp_path / "program"
    subprocess.run([compiler, *strict, PROGRAM, "-o", program, *link_of(spec, tmp_path)], check=True)
    done = subprocess.run([program], capture_output=True, text=True, env=dict(os.environ))
    print(spec, compiler, done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


def link_of(spec: str, folder: Path) -> list[str | Path]:
    """How a C program with the macros KERNEL and HEADER is linked with the library of a spec and with a CUDA runtime of its own."""
    path = next(one for one in (ROOT / f"specs/{spec}.yaml", ODD / f"{spec.removeprefix('odd_')}.yaml") if one.is_file())
    kernel = mmagen.compile(path)
    if why := kernel.can_run(128, 128, 128):
        pytest.skip(why)
    library = kernel._path
    header = mmagen.build(path, folder) / f"include/{spec}/{spec}.h"
    toolkit = find_toolchain(want=("nvcc",)).toolkit
    assert toolkit
    folders = (toolkit / name for name in ("lib64", "lib", "targets/x86_64-linux/lib"))
    cuda = next(one for one in folders if list(one.glob("libcudart_static.a")))
    libraries = [library, cuda / "libcudart_static.a", f"-Wl,-rpath,{library.parent}", "-ldl", "-lpthread", "-lrt"]
    return [f"-DKERNEL={spec}", f'-DHEADER="{header}"', *libraries]
