"""Generated projects in other people's hands: alone in a folder, inside a C++ build, and with vendored headers."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mmagen.cli.build import build
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.statuses import Status

pytestmark = pytest.mark.nvcc

SPECS = Path(__file__).resolve().parents[2] / "specs"
GEMM = "sm80_gemm_f16_col_d"
ALONE = "fma_micro"
ARCH = "80"

_CONSUMER = """\
cmake_minimum_required(VERSION 3.24)
project(app LANGUAGES CXX)
include(FetchContent)
add_subdirectory(parts/{gemm})
FetchContent_Declare(fetched SOURCE_DIR ${{CMAKE_SOURCE_DIR}}/parts/hello_ownership)
FetchContent_MakeAvailable(fetched)
find_package(fma_micro 0.1 REQUIRED)
add_executable(app main.cpp)
target_link_libraries(app PRIVATE {gemm}::{gemm} hello_ownership::hello_ownership fma_micro::fma_micro)
"""
_PARTS = (GEMM, "hello_ownership", "fma_micro")
# What a library that multiplies exports, and nothing else.
FUNCTIONS = ("run", "can_run", "workspace_bytes", "query", "config_name")
FUNCTIONS += ("status_text", "error_text", "cuda_error", "version", "description")


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


def _exported(name: str) -> set[str]:
    return {f"{name}_{function}" for function in FUNCTIONS}


def _of_the_cxx_runtime(library: Path) -> set[str]:
    """Symbols of the C++ runtime that the library wants others to define."""
    done = subprocess.run(["nm", "-u", library], capture_output=True, text=True, check=True)
    return set(re.findall(r"\b(__gxx\w+|__cxa_(?!finalize)\w+|_ZNS\w+|_ZS\w+|_Zn\w+|_Zd\w+|_Unwind\w+)", done.stdout))


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
    options = (_cutlass(tools), f"-DCMAKE_CUDA_ARCHITECTURES={ARCH}", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'installed here'}")
    folder, output = cmake(alone, "-G", "Unix Makefiles", *options)
    assert "warning" not in output.lower(), output
    assert _visible(folder / f"lib{name}.a") == _exported(name)
    assert not _of_the_cxx_runtime(folder / f"lib{name}.a"), "a C program must link it"
    assert (folder / "tests" / f"{name}_bench").is_file() == (name == GEMM)
    if name == ALONE:
        installed = tmp_path / "installed here"
        subprocess.run([tools.cmake.path, "--install", folder], check=True, capture_output=True)
        _programs_by_pkg_config(installed, tmp_path)
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
    installed = tmp_path / "installed here"
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
    shared = next(installed.rglob("libfma_micro.so"))
    assert _visible(shared) == _exported("fma_micro")
    dynamic = subprocess.run(["readelf", "-dW", shared], capture_output=True, text=True, check=True).stdout
    assert "soname: [libfma_micro.so.0.1]" in dynamic
    _programs_by_pkg_config(installed, tmp_path)
    _keep_apart(shared, tmp_path)

    (app / "CMakeLists.txt").write_text(_CONSUMER.format(gemm=GEMM))
    calls = [f"{name}_run(nullptr, nullptr) != {name.upper()}_NULL_ARGS" for name in _PARTS if "ownership" not in name]
    calls.append("hello_ownership_stamp(nullptr, nullptr, nullptr, nullptr) != HELLO_OWNERSHIP_NULL_A")
    (app / "main.cpp").write_text(
        "".join(f"#include <{name}/{name}.h>\n" for name in _PARTS) + "int main() { return " + " || ".join(calls) + "; }\n"
    )
    folder, _ = cmake(app, _cutlass(tools), f"-DMMAGEN_CUDA_ARCHITECTURES={ARCH}", f"-DCMAKE_PREFIX_PATH={installed}")
    subprocess.run([folder / "app"], check=True)
    subprocess.run([tools.cmake.path, "--install", folder, "--prefix", tmp_path / "nothing"], check=True, capture_output=True)
    assert not (tmp_path / "nothing").exists(), "a vendored project installs nothing unless asked for"
    assert not list(folder.rglob("*_verify*")), "tests are built only for a project on its own"
    for library in folder.rglob("*.a"):
        name = library.stem.removeprefix("lib")
        assert {symbol for symbol in _visible(library) if not symbol.startswith(f"{name}_")} == set()


def test_vendored_headers_are_all_that_is_needed(cmake, tmp_path):
    build([SPECS / "hello_ownership.yaml"], tmp_path, vendor=True, tests=False)
    project = tmp_path / "hello_ownership"
    licence = (project / "third_party/cutlass/LICENSE.txt").read_text()
    assert "Redistribution and use in source and binary forms" in licence
    folder, output = cmake(project, "-G", "Unix Makefiles", f"-DCMAKE_CUDA_ARCHITECTURES={ARCH}")
    assert not (project / "tests").exists() and "not used by the project" not in output
    assert re.search(r"CUTLASS headers: \S*third_party/cutlass/include \(\d+\.\d+\.\d+\)", output)
    opened = next(folder.rglob("hello_ownership.cu.o.d")).read_text()
    headers = re.findall(r"(\S*)/(?:cute|cutlass)/\S+\.(?:hpp|h|inl)\b", opened)
    assert len(headers) > 50 and all(place.endswith("third_party/cutlass/include") for place in headers)


# Those that are installed are tried.
_LANGUAGES = [("gcc", "c99"), ("gcc", "c11"), ("g++", "c++17"), ("g++", "c++20"), ("g++", "c++23")]
_LANGUAGES += [("clang", "c99"), ("clang", "c11"), ("clang++", "c++17"), ("clang++", "c++20"), ("clang++", "c++2b")]

# Without a GPU: the first call of CUDA says what is missing. With one the kernel runs on no memory at all, so it is not called.
_PROGRAM = """\
#include <stdio.h>
#include <string.h>
#include <fma_micro/fma_micro.h>

int main(void) {
  fma_micro_args args = FMA_MICRO_ARGS_INIT, zeros;
  int64_t bytes = -1;
  fma_micro_info info = {sizeof info, 0, 0, 0, 0, 0};
  memset(&zeros, 0, sizeof zeros);
  if (fma_micro_run(&zeros, NULL) != FMA_MICRO_STRUCT_SIZE) { return 1; }
  args.m = 32, args.n = 32, args.k = 7;
  if (fma_micro_can_run(&args) != FMA_MICRO_FIXED_SHAPE) { return 2; }
  args.k = 8, args.a = args.b = &args, args.d = &args;
  args.lda = 32, args.ldb = 32, args.ldd = 31;
  if (fma_micro_can_run(&args) != FMA_MICRO_SHORT_LDD) { return 3; }
  puts(fma_micro_error_text());
  if (fma_micro_workspace_bytes(&args, &bytes) != FMA_MICRO_SUCCESS || bytes != 0) { return 4; }
  printf("%s %s %d\\n", fma_micro_version(), fma_micro_config_name(&args), (int)fma_micro_query(&info));
  printf("%d %s\\n", fma_micro_cuda_error(), fma_micro_error_text());
  return 0;
}
"""


def _programs_by_pkg_config(installed: Path, tmp_path: Path) -> None:
    """Compile and run a program of every language with the flags of the installed .pc file. The folder has a blank."""
    assert shutil.which("pkg-config"), "apt-get install pkg-config"
    place = next(installed.rglob("fma_micro.pc")).parent
    environment = {**os.environ, "PKG_CONFIG_PATH": str(place), "CUDA_VISIBLE_DEVICES": ""}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fma_micro"], capture_output=True, text=True, env=environment)
    assert flags.returncode == 0, flags.stderr
    environment["LD_LIBRARY_PATH"] = str(next(installed.rglob("libfma_micro.*")).parent)
    for compiler, language in _LANGUAGES:
        if not shutil.which(compiler):
            continue
        source = _source(tmp_path, language, _PROGRAM)
        command = [compiler, f"-std={language}", "-Wall", "-Wextra", "-Werror", source, "-o", program := tmp_path / "use"]
        done = subprocess.run([*command, *shlex.split(flags.stdout)], capture_output=True, text=True)
        assert done.returncode == 0, f"{compiler} {language}: {done.stderr}"
        done = subprocess.run([program], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, f"{compiler} {language}: {done}"
        _check_what_it_says(done.stdout)


def _keep_apart(library: Path, tmp_path: Path) -> None:
    """Another version of a shared library in one process, of the same name, whose symbols are all in one scope."""
    newer = tmp_path / "newer" / library.name
    newer.parent.mkdir()
    content = library.read_bytes()
    assert b"struct is NULL" in content and b"0.1.0" in content
    newer.write_bytes(content.replace(b"struct is NULL", b"STRUCT is NULL").replace(b"0.1.0", b"0.2.0"))
    both = [ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL) for path in (library, newer)]
    assert both[0].fma_micro_run(None, None) == both[1].fma_micro_can_run(None) != 0
    for version, text, one in zip((b"0.1.0", b"0.2.0"), (b"struct is NULL", b"STRUCT is NULL"), both, strict=True):
        one.fma_micro_version.restype = one.fma_micro_error_text.restype = ctypes.c_char_p
        assert one.fma_micro_version() == version and text in one.fma_micro_error_text()


def _source(folder: Path, language: str, text: str) -> Path:
    source = folder / ("use.cpp" if "+" in language else "use.c")
    source.write_text(text)
    return source


def _check_what_it_says(printed: str) -> None:
    refused, facts, device = printed.splitlines()
    assert refused == "ldd is 31; a line of D along N has 32 elements"
    version, name, status = facts.split()
    assert (version, name) == ("0.1.0", "fma_micro")
    # There is no driver, or none of its devices may be seen.
    assert int(status) in (Status.NO_DRIVER, Status.NO_DEVICE) and re.match(r"(35|100) no (driver|device): ", device), device


def test_two_versions_of_mmagen_in_one_process(tools, cmake, tmp_path):
    """The same kernel, made by two versions: each has its own namespace, and its own functions."""
    for version, name in (("v0_1", "older"), ("v0_2", "newer")):
        spec = tmp_path / f"{name}.yaml"
        spec.write_text((SPECS / "hello_ownership.yaml").read_text().replace("name: hello_ownership", f"name: {name}"))
        build([spec], tmp_path / "parts", tests=False)
        for header in (tmp_path / "parts" / name / "include/mmagen").iterdir():
            header.write_text(header.read_text().replace("namespace v0_1", f"namespace {version}"))
    newer = tmp_path / "parts/newer/include/mmagen/interface.cuh"
    text = newer.read_text()
    assert text.count('"a is NULL"') == 1
    newer.write_text(text.replace('"a is NULL"', '"a is NULL, says the newer"'))
    (tmp_path / "main.c").write_text(
        "#include <older/older.h>\n#include <newer/newer.h>\n#include <stdio.h>\n"
        "int main(void) { puts(older_status_text(OLDER_NULL_A)); puts(newer_status_text(NEWER_NULL_A)); return 0; }\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(app LANGUAGES C)\nadd_subdirectory(parts/older)\n"
        "add_subdirectory(parts/newer)\nadd_executable(app main.c)\ntarget_link_libraries(app older::older newer::newer)\n"
    )
    folder, _ = cmake(tmp_path, _cutlass(tools), f"-DMMAGEN_CUDA_ARCHITECTURES={ARCH}")
    done = subprocess.run([folder / "app"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["a is NULL", "a is NULL, says the newer"]


def test_without_cutlass_one_sentence_says_what_to_pass(tools, tmp_path):
    """No download and no Python unless asked for: neither git nor Python is in reach here, and neither is missed."""
    build([SPECS / "hello_micro.yaml"], tmp_path, tests=False)
    environment = {"PATH": "/nowhere", "CUDACXX": str(tools.nvcc.path), "CXX": str(tools.host_compiler.path)}
    command = [tools.cmake.path, "-P", tmp_path / "hello_micro/cmake/mmagen_cutlass.cmake"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    said = " ".join(done.stderr.split())
    ways = (
        "pass -DCUTLASS_DIR=<a CUTLASS checkout>, -DMMAGEN_PYTHON_CUTLASS=ON to use those of Python's nvidia-cutlass, "
        "or -DMMAGEN_FETCH_CUTLASS=ON to download v"
    )
    assert done.returncode == 1 and ways in said, said
    assert "Git" not in said and said.count("Python") == 1


def test_a_download_that_fails_is_one_sentence(tools, tmp_path):
    """git is told of a repository on this machine in place of CUTLASS's, which is not there at first."""
    build([SPECS / "hello_micro.yaml"], tmp_path, tests=False)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.24)\nproject(app LANGUAGES NONE)\ninclude(hello_micro/cmake/mmagen_cutlass.cmake)\n"
    )
    mirror = tmp_path / "mirror"
    settings = {
        f"url.{mirror.as_uri()}.insteadOf": "https://github.com/NVIDIA/cutlass.git",
        "user.name": "a",
        "user.email": "a@b",
    }
    environment = {**os.environ, "GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        environment |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}

    def configured(*options: str) -> tuple[int, str]:
        command = [tools.cmake.path, "-S", tmp_path, "-B", tmp_path / "build", "-DMMAGEN_FETCH_CUTLASS=ON", *options]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    for option, why in (("ON", "FETCHCONTENT_FULLY_DISCONNECTED is set"), ("OFF", "git cannot reach https://github.com/")):
        code, said = configured(f"-DFETCHCONTENT_FULLY_DISCONNECTED={option}")
        assert code == 1 and said.count("CMake Error") == 1, said
        assert f"cannot be downloaded, since {why}" in said and "pass -DCUTLASS_DIR=<a CUTLASS checkout>" in said
    (mirror / "include/cute").mkdir(parents=True)
    (mirror / "include/cutlass").mkdir()
    (mirror / "include/cute/tensor.hpp").touch()
    (mirror / "include/cutlass/version.h").write_text("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n")
    for command in ("init -q", "add -A", "commit -qm headers", "tag v4.2.0"):
        subprocess.run(["git", *command.split()], cwd=mirror, env=environment, check=True)
    assert configured()[0] == 0
    shutil.rmtree(mirror)  # what was downloaded is not asked for again
    code, said = configured()
    assert code == 0 and "build/_deps/mmagen_cutlass-src/include (4.2)" in said, said


def test_each_header_is_plain_c99_and_cxx(tmp_path):
    build([SPECS], tmp_path / "made")
    headers = sorted((tmp_path / "made").glob("*/include/*/*.h"))
    assert {header.stem for header in headers} == {
        path.stem for path in SPECS.glob("*.yaml") if "kernel: peak" not in path.read_text()
    }
    use = "".join(f'#include "{header}"\n' for header in headers for _ in range(2))
    # The initializer and every status, in each language.
    name = "fma_micro"
    use += (
        f"int main(void) {{ {name}_args args = {name.upper()}_ARGS_INIT; return args.m == 0 ? 0 : {name.upper()}_SHARED_D; }}\n"
    )
    for compiler, language in _LANGUAGES:
        if not shutil.which(compiler):
            continue
        source = _source(tmp_path, language, use)
        strict = ["-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror", "-fsyntax-only"]
        done = subprocess.run([compiler, f"-std={language}", *strict, source], capture_output=True, text=True)
        assert done.returncode == 0, f"{compiler} {language}: {done.stderr}"
