"""CMake refuses to compile a project for an architecture that lacks its instructions, in one sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import mmagen
from mmagen.api import build
from mmagen.core.targets import cmake_unfit
from mmagen.generate.collection import collect
from mmagen.generate.write import write
from mmagen.mma import catalogue
from mmagen.toolchain.find import COMPILE, find_toolchain

SPECS = Path(__file__).resolve().parents[2] / "specs"


@pytest.mark.parametrize(
    ("target", "fit", "unfit"),
    [
        ("sm_90a", "90a 90a-real 90a-virtual native", "75 80 90 90-real 100a 120a 9 190a all all-major 90f"),
        ("sm_80", "80 86 90a 100f-real 120 120a-virtual native", "60 75 75-real 72-virtual all all-major"),
        ("sm_90", "90 90a 100", "80 89-real all"),
        ("sm_60", "75 80 all native", ""),
    ],
)
def test_an_architecture_is_judged_by_what_the_kernel_has(target, fit, unfit, tmp_path):
    script = tmp_path / "judge.cmake"
    script.write_text(
        "foreach(architecture IN LISTS ALL)\n"
        f'  if({cmake_unfit(target)})\n    message(STATUS "unfit ${{architecture}}")\n  endif()\nendforeach()\n'
    )
    cmake = find_toolchain(want=("cmake",)).cmake.path
    listed = ";".join((*fit.split(), *unfit.split()))
    done = subprocess.run([cmake, f"-DALL={listed}", "-P", script], capture_output=True, text=True, check=True)
    found = [line.removeprefix("-- unfit ") for line in done.stdout.splitlines()]
    assert found == unfit.split()


def test_every_spec_may_be_compiled_for_its_own_architectures():
    """Also operations that several architectures with a suffix have."""
    several = [one for one in catalogue.operations() if not one.arch[-1].isdigit() and len(one.targets) > 1]
    assert len(several) > 100
    for one in several[::7]:
        for arch in one.targets:
            pattern = re.search(r"\^.*\$", cmake_unfit(one.arch, (arch,)))
            assert pattern and re.fullmatch(pattern[0], arch.removeprefix("sm_")), (one.name, arch)


@pytest.mark.nvcc
@pytest.mark.parametrize("option", ["CMAKE_CUDA_ARCHITECTURES", "MMAGEN_CUDA_ARCHITECTURES"])
def test_a_vendored_library_names_the_kernel_that_needs_another(option, tmp_path):
    files = collect("kernels", [mmagen.plan(SPECS / f"{name}.yaml") for name in ("sm90_gemm_bf16_tn", "fma_micro")])
    write(files, tmp_path / "kernels", force=False)

    def compiled_for(build: str) -> set[str]:
        """Of the commands by which the sources of the build folder are compiled."""
        commands = json.loads((tmp_path / build / "compile_commands.json").read_text())
        return set(re.findall(r"code=\[?[^ \]]*sm_(\w+)", " ".join(one["command"] for one in commands)))

    code, said = _configured(tmp_path / "kernels", tmp_path / "one", f"-D{option}=90a;80")
    assert code == 1 and said.count("CMake Error") == 1 and option in said
    assert "sm90_gemm_bf16_tn cannot be compiled for architecture 80: it needs sm_90a. Change CMAKE_CUDA_ARCHITECTURES" in said
    listed = "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
    assert _configured(tmp_path / "kernels", tmp_path / "two", listed, f"-D{option}=90a") == (0, "")
    assert compiled_for("two") == {"90a"}
    for _ in range(2):  # The second time there is a cache.
        assert _configured(tmp_path / "kernels", tmp_path / "three", listed) == (0, "")
        assert compiled_for("three") == {"75", "90a"}  # those of each


def _configured(source: Path, folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and errors of CMake."""
    tools = find_toolchain(want=COMPILE)
    assert tools.cmake and tools.nvcc and tools.cutlass
    command = [tools.cmake.path, "-S", source, "-B", folder, f"-DCUTLASS_DIR={tools.cutlass.path}", *options]
    environment = {**os.environ, "CUDACXX": str(tools.nvcc.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.nvcc
@pytest.mark.parametrize("option", ["CMAKE_CUDA_ARCHITECTURES", "MMAGEN_CUDA_ARCHITECTURES"])
def test_a_project_says_what_it_needs_before_anything_is_compiled(option, tmp_path):
    build(SPECS / "sm90_gemm_bf16_tn.yaml", tmp_path, tests=False)

    def configured(architectures: str) -> tuple[int, str]:
        folder = tmp_path / f"build {len(architectures)}"
        return _configured(tmp_path / "sm90_gemm_bf16_tn", folder, f"-D{option}={architectures}")

    code, said = configured("80;90a")
    assert code == 1 and said.count("CMake Error") == 1
    assert "cannot be compiled for architecture 80: its kernel needs sm_90a." in said and option in said
    assert configured("90a") == (0, "")
