"""What `cmake --install` writes is found by pkg-config and by CMake where it lies: static projects, shared vendored libraries."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mmagen.cli.build import build
from mmagen.cli.vendor import vendor
from mmagen.toolchain.find import COMPILE, find_toolchain

pytestmark = pytest.mark.nvcc

SPECS = Path(__file__).resolve().parents[2] / "specs"
KERNEL = "fma_micro"
KINDS = {"project, static": "OFF", "vendored library, shared": "ON"}
# Where libraries and headers go, PLACE being an absolute folder.
FORMS = {
    "default": {},
    "of a distribution": {"LIBDIR": "lib64"},
    "nested": {"LIBDIR": "lib/x86_64-linux-gnu", "INCLUDEDIR": "include/of all"},
    "not normal": {"LIBDIR": "my lib/./64/"},
    "absolute headers": {"INCLUDEDIR": "PLACE/all headers"},
    "absolute": {"LIBDIR": "PLACE/all libs", "INCLUDEDIR": "PLACE/all headers"},
}


@pytest.fixture(scope="module")
def tools():
    return find_toolchain(want=COMPILE)


@pytest.fixture(scope="module")
def cmake(tools):
    """cmake(arguments…): what it printed; it must succeed."""

    def run(*arguments: object) -> str:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("CMAKE", "CUTLASS", "NINJA"))}
        environment |= {"CUDACXX": str(tools.nvcc.path), "CXX": str(tools.host_compiler.path)}
        command = [str(tools.cmake.path), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module", params=KINDS)
def built(request, tools, cmake, tmp_path_factory):
    """(source folder, build folder, name) of a library that is compiled."""
    top = tmp_path_factory.mktemp("built")
    shared = KINDS[request.param]
    if shared == "ON":
        source = top / "kernels"
        vendor([SPECS / f"{KERNEL}.yaml"], source, name=None, cutlass=False, force=False, check=False)
    else:
        build([SPECS / f"{KERNEL}.yaml"], top, tests=False)
        source = top / KERNEL
    options = (f"-DCUTLASS_DIR={tools.cutlass.path}", "-DMMAGEN_CUDA_ARCHITECTURES=80", f"-DBUILD_SHARED_LIBS={shared}")
    cmake("-S", source, "-B", top / "build", *options)
    cmake("--build", top / "build")
    return source, top / "build", source.name


def _configure(cmake, built, prefix: Path, form: dict[str, str], place: Path) -> None:
    source, folder, _ = built
    options = [f"-DCMAKE_INSTALL_{name}={path.replace('PLACE', str(place))}" for name, path in form.items()]
    cmake("-S", source, "-B", folder, "-U", "CMAKE_INSTALL_*DIR", f"-DCMAKE_INSTALL_PREFIX={prefix}", *options)


def _program(name: str) -> str:
    return (
        f"#include <{name}/{name}.h>\n#include <stdio.h>\n"
        f"int main(void) {{ puts({KERNEL}_version()); return {KERNEL}_run(NULL, NULL) != {KERNEL.upper()}_NULL_ARGS; }}\n"
    )


def _by_pkg_config(name: str, top: Path, source: Path) -> str:
    """What a C program prints that is compiled and linked with the flags of the only .pc file below `top`."""
    (found,) = top.rglob(f"{name}.pc")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(found.parent)}
    command = ["pkg-config", "--cflags", "--libs", name]
    flags = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    program = source.with_suffix("")
    done = subprocess.run(["gcc", "-std=c99", source, "-o", program, *shlex.split(flags)], capture_output=True, text=True)
    assert done.returncode == 0, (found.read_text(), done.stderr)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(found.parent.parent)}
    return subprocess.run([program], capture_output=True, text=True, env=environment, check=True).stdout


def _by_cmake(cmake, name: str, top: Path, source: Path) -> str:
    """The same of a project in C that finds the package."""
    (found,) = top.rglob(f"{name}Config.cmake")
    (source.parent / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.24)\nproject(app LANGUAGES C)\nfind_package({name} 0.1 REQUIRED)\n"
        f"add_executable(app {source.name})\ntarget_link_libraries(app PRIVATE {name}::{name})\n"
    )
    folder = source.parent / "build"
    cmake("-S", source.parent, "-B", folder, f"-D{name}_DIR={found.parent}")
    cmake("--build", folder)
    return subprocess.run([folder / "app"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("form", FORMS)
def test_an_installed_library_is_found_where_it_lies(form, built, cmake, tmp_path):
    assert shutil.which("pkg-config"), "apt-get install pkg-config"
    name, installed = built[2], tmp_path / "all of it"
    _configure(cmake, built, tmp_path / "configured", FORMS[form], installed)
    cmake("--install", built[1], "--prefix", installed / "named later")
    assert not (tmp_path / "configured").exists()
    if "PLACE" not in str(FORMS[form]):
        (installed / "named later").rename(installed / "moved to")
    source = tmp_path / "main.c"
    source.write_text(_program(name))
    assert _by_pkg_config(name, installed, source) == _by_cmake(cmake, name, installed, source) == "0.1.0\n"


def test_an_absolute_folder_of_libraries_keeps_the_configured_prefix(built, tools, cmake, tmp_path):
    """Its files name headers that `--prefix` would put elsewhere: refused before anything is written."""
    name, installed = built[2], tmp_path / "all of it"
    _configure(cmake, built, f"{installed}/configured/", {"LIBDIR": "PLACE/libs"}, installed)
    command = [tools.cmake.path, "--install", built[1], "--prefix", tmp_path / "other"]
    done = subprocess.run(command, capture_output=True, text=True)
    said = " ".join(done.stderr.split())
    remedy = f"configure with -DCMAKE_INSTALL_PREFIX={tmp_path}/other, or with a relative CMAKE_INSTALL_LIBDIR"
    assert done.returncode != 0 and said.endswith(remedy), said
    assert not installed.exists() and not (tmp_path / "other").exists()
    cmake("--install", built[1])
    source = tmp_path / "main.c"
    source.write_text(_program(name))
    assert _by_pkg_config(name, installed, source) == _by_cmake(cmake, name, installed, source) == "0.1.0\n"
