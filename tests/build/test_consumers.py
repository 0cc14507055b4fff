"""Generated projects in other people's hands: alone in a folder, inside a C++ build, and with vendored headers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mmagen.cli.build import build
from mmagen.toolchain.find import COMPILE, find_toolchain

pytestmark = pytest.mark.nvcc

SPECS = Path(__file__).resolve().parents[2] / "specs"
GEMM = "sm80_gemm_f16_col_d"
ALONE = "fma_micro"
ARCH = "80"

_CONSUMER = """\
cmake_minimum_required(VERSION 3.24)
project(app LANGUAGES CXX)
include(FetchContent)
add_subdirectory(parts/hello_micro)
add_subdirectory(parts/{gemm})
FetchContent_Declare(fetched SOURCE_DIR ${{CMAKE_SOURCE_DIR}}/parts/hello_ownership)
FetchContent_MakeAvailable(fetched)
find_package(fma_micro 0.1 REQUIRED)
add_executable(app main.cpp)
target_link_libraries(app PRIVATE hello_micro::hello_micro {gemm}::{gemm} hello_ownership::hello_ownership
                      fma_micro::fma_micro)
"""
_PARTS = ("hello_micro", GEMM, "hello_ownership", "fma_micro")


@pytest.fixture(scope="module")
def tools():
    return find_toolchain(want=COMPILE)


@pytest.fixture
def cmake(tools, tmp_path):
    """Configure a folder and build it; returns (build folder, all that was printed)."""

    def run(source: Path, *options: str) -> tuple[Path, str]:
        folder = tmp_path / f"build-{source.name}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("CMAKE", "CUTLASS", "NINJA"))}
        environment |= {"CUDACXX": str(tools.nvcc.path), "CXX": str(tools.host_compiler.path)}
        output = ""
        for command in (["-S", source, "-B", folder, *options], ["--build", folder, "-j2"]):
            done = subprocess.run([tools.cmake.path, *command], capture_output=True, text=True, env=environment)
            output += done.stdout + done.stderr
            assert done.returncode == 0, output
        return folder, output

    return run


def _cutlass(tools) -> str:
    return f"-DCUTLASS_DIR={tools.cutlass.path}"


def _visible(library: Path) -> set[str]:
    """What `library`, static or shared, defines for others to see."""
    table = subprocess.run(
        ["readelf", "-sW", "--dyn-syms" if library.suffix == ".so" else "-s", library],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    symbols = re.findall(r"^ *\d+: \w+ +\w+ +\w+ +(?:GLOBAL|WEAK|UNIQUE) +DEFAULT +(?!UND)\w+ +(\S+)", table, re.M)
    return {symbol for symbol in symbols if not symbol.startswith("_GLOBAL_OFFSET_TABLE_")}


@pytest.mark.parametrize("name", [ALONE, pytest.param(GEMM, marks=pytest.mark.more)])
def test_a_copy_alone_builds_without_warnings_and_skips_its_test_without_a_gpu(name, tools, cmake, tmp_path):
    build([SPECS / f"{name}.yaml"], tmp_path / "made")
    alone = tmp_path / "empty" / name
    shutil.copytree(tmp_path / "made" / name, alone)
    folder, output = cmake(alone, "-G", "Unix Makefiles", _cutlass(tools), f"-DCMAKE_CUDA_ARCHITECTURES={ARCH}")
    assert "warning" not in output.lower(), output
    assert _visible(folder / f"lib{name}.a") == {f"{name}_{call}" for call in ("run", "query", "status_text")}
    assert (folder / "tests" / f"{name}_bench").is_file() == (name == GEMM)
    ctest = tools.cmake.path.with_name("ctest")
    listed = subprocess.run([ctest, "--test-dir", folder, "-N"], capture_output=True, text=True, check=True).stdout
    assert f"{name}_verify" in listed
    done = subprocess.run(
        [ctest, "--test-dir", folder], capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    )
    assert done.returncode == 0 and re.search(r"\*\*\*Skipped", done.stdout), done.stdout


def test_a_cxx_program_takes_projects_in_every_way(tools, cmake, tmp_path):
    app = tmp_path / "app"
    build([SPECS / f"{name}.yaml" for name in _PARTS], app / "parts")
    installed = tmp_path / "installed"
    folder, _ = cmake(
        (app / "parts/fma_micro"),
        _cutlass(tools),
        f"-DCMAKE_CUDA_ARCHITECTURES={ARCH}",
        "-DBUILD_SHARED_LIBS=ON",
        "-DFMA_MICRO_BUILD_TESTS=OFF",
        f"-DCMAKE_INSTALL_PREFIX={installed}",
    )
    subprocess.run([tools.cmake.path, "--install", folder], check=True, capture_output=True)
    shutil.rmtree(app / "parts/fma_micro")
    assert _visible(next(installed.rglob("libfma_micro.so"))) == {
        f"fma_micro_{call}" for call in ("run", "query", "status_text")
    }

    (app / "CMakeLists.txt").write_text(_CONSUMER.format(gemm=GEMM))
    calls = [f"{name}_run(nullptr, nullptr)" for name in _PARTS if "ownership" not in name]
    calls.append("hello_ownership_stamp(nullptr, nullptr, nullptr, nullptr)")
    (app / "main.cpp").write_text(
        "".join(f"#include <{name}/{name}.h>\n" for name in _PARTS) + "int main() { return " + " + ".join(calls) + "; }\n"
    )
    folder, _ = cmake(app, _cutlass(tools), f"-DMMAGEN_CUDA_ARCHITECTURES={ARCH}", f"-DCMAKE_PREFIX_PATH={installed}")
    assert subprocess.run([folder / "app"]).returncode == len(_PARTS), "each refuses null pointers with status 1"
    assert not list(folder.rglob("*_verify*")), "tests are built only for a project on its own"
    for library in folder.rglob("*.a"):
        name = library.stem.removeprefix("lib")
        assert {symbol for symbol in _visible(library) if not symbol.startswith(f"{name}_")} == set()


def test_vendored_headers_are_all_that_is_needed(cmake, tmp_path):
    build([SPECS / "hello_micro.yaml"], tmp_path, vendor=True, tests=False)
    project = tmp_path / "hello_micro"
    licence = (project / "third_party/cutlass/LICENSE.txt").read_text()
    assert "Redistribution and use in source and binary forms" in licence
    folder, output = cmake(project, "-G", "Unix Makefiles", f"-DCMAKE_CUDA_ARCHITECTURES={ARCH}")
    assert not (project / "tests").exists() and "not used by the project" not in output
    assert re.search(r"CUTLASS headers: \S*third_party/cutlass/include \(\d+\.\d+\.\d+\)", output)
    opened = next(folder.rglob("hello_micro.cu.o.d")).read_text()
    headers = re.findall(r"(\S*)/(?:cute|cutlass)/\S+\.(?:hpp|h|inl)\b", opened)
    assert len(headers) > 50 and all(place.endswith("third_party/cutlass/include") for place in headers)


def test_each_header_is_plain_c99(tmp_path):
    build([SPECS], tmp_path / "made")
    headers = sorted((tmp_path / "made").glob("*/include/*/*.h"))
    assert {header.stem for header in headers} == {
        path.stem for path in SPECS.glob("*.yaml") if "kernel: peak" not in path.read_text()
    }
    for header in headers:
        source = tmp_path / "use.c"
        source.write_text(f'#include "{header}"\n#include "{header}"\nint main(void) {{ return 0; }}\n')
        done = subprocess.run(
            ["gcc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", source],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
