"""cmake/mmagen_unit.cmake: several sources compiled as one translation unit."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from mmagen.build.job import Job
from mmagen.build.superproject import _superproject
from mmagen.toolchain.find import COMPILE, find_toolchain

pytestmark = pytest.mark.nvcc

_MODULE = Path(__file__).resolve().parents[2] / "templates/project/library/cmake/mmagen_unit.cmake"
_PROJECT = f"""\
cmake_minimum_required(VERSION 3.24)
project(kernels LANGUAGES CXX CUDA)
include({_MODULE})
add_library(kernels SHARED src/kernels.cu)
mmagen_unit(kernels unit-1 src/one.cu src/two.cu)
"""


@pytest.mark.parametrize("programs", [("verify", "bench"), ("tune",)])
def test_for_tune_each_file_is_compiled_by_itself(programs):
    job = Job(Path("k"), "k", "gemm", "", {}, ("sm_90a",), programs, ("verify", "bench", "tune"), "4.2.0")
    (value,) = re.findall(r'set\(MMAGEN_SEPARATE_UNITS (\w+) CACHE BOOL "" FORCE\)', _superproject({"p0": job}))
    assert value == ("ON" if programs == ("tune",) else "OFF")


def test_sources_are_compiled_once_and_again_when_one_changes(tmp_path):
    tools = find_toolchain(want=COMPILE)
    place = tmp_path / "with a blank @at@"
    (place / "src").mkdir(parents=True)
    (place / "CMakeLists.txt").write_text(_PROJECT)
    # `mine` is internal to a translation unit, so `two` finds that of `one` only if both are one unit.
    (place / "src/one.cu").write_text("static int mine() { return 1; }\nint one() { return mine(); }\n")
    (place / "src/two.cu").write_text("int two() { return mine() + 1; }\n")
    (place / "src/kernels.cu").write_text("int one(), two();\nint sum() { return one() + two(); }\n")
    environment = {**os.environ, "CUDACXX": str(tools.nvcc.path), "CXX": str(tools.host_compiler.path)}

    def cmake(*words: object) -> str:
        command = [tools.cmake.path, *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    configure = ("-S", place, "-B", place / "build", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools.ninja.path}")
    cmake(*configure, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    compiled = [Path(one["file"]).name for one in json.loads((place / "build/compile_commands.json").read_text())]
    assert sorted(compiled) == ["kernels.cu", "kernels_unit-1.cu"]
    cmake("--build", place / "build")
    cmake(*configure)
    assert "no work to do" in cmake("--build", place / "build")
    (place / "src/two.cu").write_text("int two() { return mine() + 2; }\n")
    assert re.search(r"Building CUDA object \S*kernels_unit-1\.cu", cmake("--build", place / "build"))
    (place / "src/two.cu").write_text("int two() { return 3; }\n")
    cmake(*configure, "-DMMAGEN_SEPARATE_UNITS=ON")
    compiled = [Path(one["file"]).name for one in json.loads((place / "build/compile_commands.json").read_text())]
    assert sorted(compiled) == ["kernels.cu", "one.cu", "two.cu"]
    cmake("--build", place / "build")
