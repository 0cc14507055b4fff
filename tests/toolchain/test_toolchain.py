"""Finding compilers, headers and GPUs, with fake ones on a fake PATH."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmagen.cli.doctor import HEADERS, diagnose, report
from mmagen.core.cache import is_kept
from mmagen.core.errors import BuildError
from mmagen.core.notices import take_notices
from mmagen.toolchain import gpus
from mmagen.toolchain.find import COMPILE, EVERYTHING, Gpu, Tool, Toolchain, cutlass_in, find_toolchain
from mmagen.toolchain.gpus import find_gpus
from mmagen.toolchain.wheels import linked_toolkit


def _script(path, says, code=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(0o755)
    return path


def _cutlass(root, version=(4, 2, 0)):
    header = root / "include" / "cutlass" / "version.h"
    header.parent.mkdir(parents=True)
    header.write_text(
        "".join(f"#define CUTLASS_{part} {number}\n" for part, number in zip(("MAJOR", "MINOR", "PATCH"), version, strict=True))
    )
    return root


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No PyPI wheels, no scripts beside Python, an empty PATH."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python" / "python"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    return {"PATH": str(tmp_path / "bin"), "MMAGEN_CACHE_DIR": str(tmp_path / "cache"), "CUDA_VISIBLE_DEVICES": ""}


def test_everything_missing_has_a_remedy(nowhere):
    found = find_toolchain(nowhere)
    assert found.missing(COMPILE) == COMPILE
    assert found.gpus == () and "hides every GPU" in found.remedies["gpus"]
    assert set(found.remedies) == set(EVERYTHING) and all(found.remedies.values())
    assert "pip install 'mmagen[cuda]'" in found.remedies["nvcc"]
    with pytest.raises(BuildError, match="cmake: not found; pip install"):
        found.need("cmake", "ninja")


def test_only_what_is_asked_for_is_looked_for(nowhere, tmp_path):
    _script(tmp_path / "bin/ninja", "1.12.1.git.kitware")
    found = find_toolchain(nowhere, want=("ninja",))
    assert found.ninja == Tool(tmp_path / "bin/ninja", "1.12.1", "PATH")
    assert found.missing(COMPILE) == () and found.remedies == {}
    found.need("ninja")
    with pytest.raises(ValueError, match="unknown tool"):
        find_toolchain(nowhere, want=("nvc",))


def test_nvcc_by_name_then_path_then_home(nowhere, tmp_path):
    output = "Cuda compilation tools, release 13.0, V13.0.88"
    home = _script(tmp_path / "home/bin/nvcc", output)
    env = nowhere | {"CUDA_HOME": str(tmp_path / "home")}
    assert find_toolchain(env, ("nvcc",)).nvcc == Tool(home, "13.0.88", "CUDA_HOME")
    on_path = _script(tmp_path / "bin/nvcc", output.replace("88", "99"))
    assert find_toolchain(env, ("nvcc",)).nvcc == Tool(on_path, "13.0.99", "PATH")
    assert find_toolchain(env | {"CUDACXX": str(home)}, ("nvcc",)).nvcc == Tool(home, "13.0.88", "CUDACXX")


def test_cublaslt_is_looked_for_where_nvcc_says_its_toolkit_is(nowhere, tmp_path):
    script = _script(tmp_path / "bin/nvcc", "V13.0.88")
    script.write_text(script.read_text().replace("exit 0", f"echo '#$ TOP={tmp_path}/toolkit' >&2\n"))
    assert not find_toolchain(nowhere, ("nvcc",)).cublaslt
    header = tmp_path / "toolkit/targets/x86_64-linux/include/cublasLt.h"
    header.parent.mkdir(parents=True)
    header.touch()
    assert find_toolchain(nowhere, ("nvcc",)).cublaslt
    script.write_text(script.read_text().replace("#$ TOP", "TOP"))
    assert not find_toolchain(nowhere, ("nvcc",)).cublaslt


def test_cusparselt_is_found_with_its_header_and_library(nowhere, tmp_path, monkeypatch):
    script = _script(tmp_path / "bin/nvcc", "V13.0.88")
    script.write_text(script.read_text().replace("exit 0", f"echo '#$ TOP={tmp_path}/toolkit' >&2\n"))
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda _: SimpleNamespace(submodule_search_locations=[str(tmp_path / "nvidia")])
    )
    assert find_toolchain(nowhere, ("nvcc",)).cusparselt is None
    for folder in ("nvidia/cu13", "toolkit", "named"):  # each is preferred to the one before
        for file in ("include/cusparseLt.h", "lib/libcusparseLt.so.0"):
            (tmp_path / folder / file).parent.mkdir(parents=True)
            assert (
                find_toolchain(nowhere | {"CUSPARSELT_DIR": str(tmp_path / "named")}, ("nvcc",)).cusparselt != tmp_path / folder
            )
            (tmp_path / folder / file).touch()
        assert find_toolchain(nowhere | {"CUSPARSELT_DIR": str(tmp_path / "named")}, ("nvcc",)).cusparselt == tmp_path / folder


def test_a_compiler_asked_for_by_name_is_never_replaced(nowhere, tmp_path):
    _script(tmp_path / "bin/nvcc", "V13.0.88")
    found = find_toolchain(nowhere | {"CUDACXX": "/nowhere/nvcc"}, ("nvcc",))
    assert found.nvcc is None and "CUDACXX=/nowhere/nvcc does not run" in found.remedies["nvcc"]


def test_scripts_beside_python_come_before_path_and_old_cmake_is_refused(nowhere, tmp_path):
    _script(tmp_path / "bin/cmake", "cmake version 3.31.0")
    assert find_toolchain(nowhere, ("cmake",)).cmake.version == "3.31.0"
    _script(tmp_path / "python/cmake", "cmake version 3.22.1")
    found = find_toolchain(nowhere, ("cmake",))
    assert found.cmake is None and "3.22.1" in found.remedies["cmake"] and "cmake>=3.24" in found.remedies["cmake"]


def test_a_tool_that_fails_is_not_found(nowhere, tmp_path):
    _script(tmp_path / "bin/g++", "g++ 12.2.0", code=1)
    _script(tmp_path / "bin/c++", "").write_bytes(b"\x7fnothing that any machine executes")
    _script(tmp_path / "bin/clang++", "clang version 17.0.6")
    assert find_toolchain(nowhere, ("host_compiler",)).host_compiler.path.name == "clang++"


def test_cutlass_from_the_environment_or_near_by(nowhere, tmp_path):
    root = _cutlass(tmp_path / "cutlass")
    assert find_toolchain(nowhere, ("cutlass",)).cutlass == Tool(root / "include", "4.2.0", "cutlass")
    assert cutlass_in(root / "include", "x") == Tool(root / "include", "4.2.0", "x")
    found = find_toolchain(nowhere | {"CUTLASS_DIR": str(tmp_path / "gone")}, ("cutlass",))
    assert found.cutlass is None and "no include/cutlass/version.h" in found.remedies["cutlass"]


def test_the_wheel_tree_is_linked(nowhere, tmp_path, monkeypatch):
    tree = tmp_path / "site/nvidia/cu13"
    _script(tree / "bin/nvcc", "V13.0.88")
    (tree / "include").mkdir()
    (tree / "lib").mkdir()
    (tree / "lib/libcudart.so.13").write_text("runtime")

    class Spec:
        origin = None
        submodule_search_locations = (str(tmp_path / "site/nvidia"),)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec if name == "nvidia" else None)
    tool = find_toolchain(nowhere, ("nvcc",)).nvcc
    linked = tool.path.parent.parent
    assert tool.origin == "PyPI wheel" and linked.is_relative_to(tmp_path / "cache")
    assert (linked / "lib64/libcudart.so").read_text() == "runtime"
    assert not (linked / "bin").is_symlink(), "nvcc looks at bin/.., which must be the linked tree"
    before = linked.parent.stat().st_mtime_ns
    assert linked_toolkit(tree, tmp_path / "cache") == linked and linked.parent.stat().st_mtime_ns == before, (
        "nothing is made again"
    )

    os.unlink(linked / "lib64/libcudart.so")
    assert (linked_toolkit(tree, tmp_path / "cache") / "lib64/libcudart.so").exists(), "a broken link is made anew"


def test_a_cache_that_cannot_be_written_is_done_without(nowhere, tmp_path, monkeypatch):
    _script(tmp_path / "site/nvidia/cu13/bin/nvcc", "V13.0.88")
    (tmp_path / "file").write_text("")

    class Spec:
        submodule_search_locations = (str(tmp_path / "site/nvidia"),)

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec if name == "nvidia" else None)
    there = nowhere | {"MMAGEN_CACHE_DIR": str(tmp_path / "file")}
    take_notices()
    found = find_toolchain(there, ("nvcc",))
    assert found.nvcc and not is_kept(found.nvcc.path)
    assert [f"the cache {tmp_path / 'file'} cannot be written" in text for text in take_notices()] == [True]

    (tmp_path / "session").write_text("")
    monkeypatch.setattr("mmagen.toolchain.find.session_root", lambda: tmp_path / "session")
    found = find_toolchain(there, ("nvcc",))
    assert found.nvcc is None and "set TMPDIR" in found.remedies["nvcc"]


def test_no_driver_is_no_error():
    found, why = find_gpus({}, library="libthere-is-none.so.1")
    assert found == () and why == "no NVIDIA driver found (libthere-is-none.so.1 cannot be loaded)"


class FakeDriver:
    """libcuda with two GPUs; `broken` names a call that fails, with `status`. cuda: the version that it supports."""

    def __init__(self, broken="", count=2, status=999, cuda=13010):
        self.broken, self.count, self.status, self.cuda = broken, count, status, cuda

    def __getattr__(self, name):
        return lambda *arguments: self.status if name == self.broken else getattr(self, f"_{name}")(*arguments)

    def _cuInit(self, flags):
        return 0

    def _cuDeviceGetCount(self, count):
        count._obj.value = self.count
        return 0

    def _cuDeviceGet(self, device, index):
        device._obj.value = index
        return 0

    def _cuDeviceGetName(self, name, size, device):
        name.value = f"GPU {device.value}".encode()
        return 0

    def _cuDeviceGetAttribute(self, number, attribute, device):
        number._obj.value = {16: 132, 75: 9, 76: device.value}[attribute]
        return 0

    def _cuDriverGetVersion(self, number):
        number._obj.value = self.cuda
        return 0


def test_gpus_are_what_the_driver_says(monkeypatch):
    monkeypatch.setattr(gpus, "Path", lambda place: Path("/nowhere"))
    monkeypatch.setattr(ctypes, "CDLL", lambda library: FakeDriver())
    assert find_gpus({}) == (
        (
            Gpu("GPU 0", (9, 0), "CUDA 13.1", (13, 1), 132),
            Gpu("GPU 1", (9, 1), "CUDA 13.1", (13, 1), 132),
        ),
        "",
    )
    assert find_gpus({"CUDA_VISIBLE_DEVICES": "-1"})[0] == ()


@pytest.mark.parametrize(
    ("driver", "why"),
    [
        (FakeDriver("cuInit"), "CUDA error 999"),
        (FakeDriver("cuDeviceGetCount"), "CUDA error 999"),
        (FakeDriver(count=0), "no NVIDIA GPU found (a driver is installed, but it sees none)"),
        (FakeDriver("cuInit", status=100), "no NVIDIA GPU found (a driver is installed, but it sees none)"),
        (FakeDriver("cuInit", status=34), "no NVIDIA driver found (libcuda.so.1 is the toolkit's stub)"),
        (FakeDriver("cuInit", status=803), "kernel module and libcuda.so.1 are of different versions"),
        (FakeDriver("cuInit", status=804), "the NVIDIA driver is too old"),
        (FakeDriver("cuDeviceGetName"), "device 0 does not answer"),
        (FakeDriver("cuDeviceGetAttribute"), "device 0 does not answer"),
    ],
)
def test_a_driver_that_does_not_answer_is_no_error(monkeypatch, driver, why):
    monkeypatch.setattr(ctypes, "CDLL", lambda library: driver)
    found, reported = find_gpus({})
    assert found == () and why in reported


@pytest.mark.parametrize(("cuda", "fits"), [(12080, False), (13000, True), (13010, True), (14000, True)])
def test_a_driver_that_is_too_old_for_nvcc_is_as_good_as_none(nowhere, tmp_path, monkeypatch, cuda, fits):
    monkeypatch.setattr(gpus, "Path", lambda place: Path("/nowhere"))
    monkeypatch.setattr(ctypes, "CDLL", lambda library: FakeDriver(cuda=cuda))
    _script(tmp_path / "bin/nvcc", "V13.0.88")
    env = {name: value for name, value in nowhere.items() if name != "CUDA_VISIBLE_DEVICES"}
    found = find_toolchain(env, ("nvcc", "gpus"))
    assert bool(found.gpus) is fits
    if not fits:
        assert (
            "of GPU 0 is too old: it supports CUDA 12.8, nvcc is 13.0.88; install a driver for CUDA 13"
            in (found.remedies["gpus"])
        )
    assert find_toolchain(env, ("gpus",)).gpus, "without nvcc nothing is compiled for it"


def test_the_drivers_own_version_is_told_where_it_can_be_read(monkeypatch, tmp_path):
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n")
    monkeypatch.setattr(gpus, "Path", lambda place: tmp_path / "version")
    monkeypatch.setattr(ctypes, "CDLL", lambda library: FakeDriver(count=1))
    assert find_gpus({})[0][0].driver == "580.65.06"


def test_doctor_tells_missing_from_nice_to_have():
    tool = Tool("/x", "1.0", "PATH")
    whole = Toolchain(tool, tool, tool, tool, tool, gpus=(Gpu("NVIDIA H200", (9, 0), "580.65"),))
    rows, remedies = diagnose(whole)
    assert report(whole, 80)[1] and all(len(row) == len(HEADERS) for row in rows)
    assert ("ok", "GPU 0", "sm_90", "NVIDIA H200, driver 580.65") in rows
    assert dict(remedies).keys() == {"cuobjdump", "compute-sanitizer"}
    lacking = Toolchain(tool, tool, tool, tool, None, remedies={"cutlass": "get it", "gpus": "no GPU"})
    rows, remedies = diagnose(lacking)
    status = {row[1]: row[0] for row in rows}
    assert (status["CUTLASS headers"], status["GPU"], status["cuobjdump"]) == ("missing", "note", "note")
    assert {("CUTLASS headers", "get it"), ("GPU", "no GPU")} <= {*remedies}
    text, can_compile = report(lacking, 80)
    assert not can_compile and "CUTLASS headers: get it" in text
