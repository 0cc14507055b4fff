"""What is compiled depends on every header that the compiler read, on the compilers and on their environment."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mmagen.build.build import build
from mmagen.build.ptx import compile_ptx
from mmagen.core.cache import is_kept, no_cache
from mmagen.microbench.program import build as build_peak
from mmagen.toolchain.find import COMPILE, find_toolchain

pytestmark = pytest.mark.nvcc

_HEADER = "#pragma once\n#define VALUE 1\n"
_KERNEL = """\
#include <cute/tensor.hpp>
__global__ void store(int* out) { *out = VALUE; }
"""
_CMAKE = """\
cmake_minimum_required(VERSION 3.24)
project(k LANGUAGES CXX CUDA)
add_library(k STATIC src/k.cu)
target_include_directories(k SYSTEM PRIVATE ${CUTLASS_DIR}/include)
add_executable(k_verify tests/verify.cpp)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A project of one small kernel, and headers that stand in for CUTLASS's."""
    headers = tmp_path / "cutlass/include"
    files = {
        headers / "cutlass/version.h": "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 2\n#define CUTLASS_PATCH 0\n",
        headers / "cute/tensor.hpp": _HEADER,
        tmp_path / "k/src/k.cu": _KERNEL,
        tmp_path / "k/CMakeLists.txt": _CMAKE,
        tmp_path / "k/tests/verify.cpp": "int main() { return 0; }\n",
        tmp_path / "k/mmagen.json": json.dumps(
            {"name": "k", "kernel": "gemm", "arch": ["sm_80"], "spec_sha": "s", "files": {}}
        ),
        tmp_path / "early/README": "searched before CUTLASS's headers",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CUTLASS_DIR", str(tmp_path / "cutlass"))
    monkeypatch.setenv("CPATH", str(tmp_path / "early"))
    return tmp_path


def ptx(place: Path, **env: str):
    toolchain = find_toolchain({**os.environ, **env}, want=COMPILE)
    return compile_ptx(place / "k", toolchain, env={**os.environ, **env}, host=False)


def test_ptx_is_of_the_headers_as_they_are(place):
    header = place / "cutlass/include/cute/tensor.hpp"
    first = ptx(place)
    assert not first.error and not first.cached and ptx(place).cached
    header.write_text(_HEADER + "#error stale\n")
    assert "#error stale" in ptx(place).error
    header.write_text(_HEADER.replace("1", "2"))
    second = ptx(place)
    assert not second.cached and second.text != first.text
    header.write_text(_HEADER)
    again = ptx(place)
    assert again.cached and again.text == first.text, "the state of before is still kept"
    early = place / "early/cute/tensor.hpp"
    early.parent.mkdir()
    early.write_text(_HEADER.replace("1", "3"))
    assert not (third := ptx(place)).cached and third.text not in (first.text, second.text), "it is found first"


def test_ptx_is_of_the_environment_as_it_is(place):
    assert not ptx(place).cached
    options = place / "options"
    options.write_text("-DOTHER=1")
    for flags in ({"NVCC_APPEND_FLAGS": "-DOTHER=1"}, {"NVCC_PREPEND_FLAGS": f"-optf {options}"}):
        assert not ptx(place, **flags).cached and ptx(place, **flags).cached
    options.write_text("-DOTHER=2")
    assert not ptx(place, NVCC_PREPEND_FLAGS=f"-optf {options}").cached


def test_ptx_is_of_the_compiler_by_its_content(place):
    nvcc = find_toolchain(want=("nvcc",)).nvcc.path
    script = place / "bin/nvcc"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{nvcc}" "$@"\n')
    script.chmod(0o755)
    assert not ptx(place, CUDACXX=str(script)).cached and ptx(place, CUDACXX=str(script)).cached
    script.write_text(f'#!/bin/sh\nexec "{nvcc}" -DPATCHED "$@"\n')
    assert not ptx(place, CUDACXX=str(script)).cached


@pytest.mark.parametrize("threads", [1, 2])
def test_translation_units_are_compiled_side_by_side_up_to_the_first_error(place, threads):
    (place / "k/src/other.cu").write_text(_KERNEL)
    began = place / "began"
    began.mkdir()
    script = place / "nvcc"
    # Its unit does not compile unless another one begins before ten seconds are over.
    script.write_text(f"""#!/bin/sh
case "$*" in *src/*) ;; *) exec {find_toolchain(want=("nvcc",)).nvcc.path} "$@" ;; esac
for unit in "$@"; do :; done
touch {began}/$(basename "$unit")
for _ in $(seq {100 if threads > 1 else 1}); do
  [ "$(ls {began} | wc -l)" = 2 ] && exec {find_toolchain(want=("nvcc",)).nvcc.path} "$@"
  sleep 0.1
done
echo "error: alone" >&2
exit 1
""")
    script.chmod(0o755)
    toolchain = find_toolchain({**os.environ, "CUDACXX": str(script)}, want=COMPILE)
    with ThreadPoolExecutor(threads) as pool:
        done = compile_ptx(place / "k", toolchain, host=False, pool=pool)
    if threads > 1:
        assert not done.error and list(done.units) == ["k", "other"] and done.units["other"].count(".entry") == 1
    else:
        assert done.error == "error: alone" and [one.name for one in began.iterdir()] == ["k.cu"]


def test_files_of_one_unit_are_compiled_together(place):
    # `mine` is internal to a translation unit, so `two` finds that of `one` only if both are one unit.
    (place / "k/src/one.cu").write_text(
        "static __device__ int mine() { return 1; }\n__global__ void one(int* x) { *x = mine(); }\n"
    )
    (place / "k/src/two.cu").write_text("__global__ void two(int* x) { *x = mine(); }\n")
    (place / "k/CMakeLists.txt").write_text(f"{_CMAKE}mmagen_unit(k unit-1 src/one.cu # both\n  src/two.cu)\n")
    done = ptx(place)
    assert not done.error and list(done.units) == ["k", "unit-1"] and not done.cached
    assert [done.units[name].count(".entry") for name in done.units] == [1, 2]
    assert "src/two.cu" in done.units["unit-1"] and str(place) not in done.units["unit-1"]
    assert ptx(place).cached
    (place / "k/src/two.cu").write_text("__global__ void two(int* x) { *x = 2; }\n")
    assert not ptx(place).cached
    (place / "k/CMakeLists.txt").write_text(f"{_CMAKE}mmagen_unit(k unit-1 src/one.cu)\n")
    done = compile_ptx(place / "k", find_toolchain(want=COMPILE))
    assert not done.error and {name: text.count(".entry") for name, text in done.units.items()} == {
        "k": 1,
        "two": 1,
        "unit-1": 1,
    }
    (place / "k/src/two.cu").write_text("__global__ void two(int* x) { *x = mine(); }\n")
    (place / "k/CMakeLists.txt").write_text(_CMAKE)
    assert "mine" in ptx(place).error, "each file alone"


def test_damaged_ptx_is_compiled_again_and_files_are_readable_by_others(place):
    before = os.umask(0o022)
    try:
        text = ptx(place).text
    finally:
        os.umask(before)
    stored = next((place / "cache/ptx").glob("*/kernel.ptx"))
    assert stored.stat().st_mode & 0o777 == 0o644
    stored.write_text(text[: len(text) // 2])
    again = ptx(place)
    assert not again.cached and again.text == text and ptx(place).cached


def test_without_the_cache_ptx_is_compiled_and_not_kept(place):
    assert not ptx(place).cached
    before = sorted(place.joinpath("cache").rglob("*"))
    with no_cache():
        assert not ptx(place).cached
    assert sorted(place.joinpath("cache").rglob("*")) == before and ptx(place).cached


def test_a_build_is_of_the_headers_as_they_are(place):
    header = place / "cutlass/include/cute/tensor.hpp"
    toolchain = find_toolchain(want=COMPILE)
    first = build([place / "k"], toolchain)[0]
    assert first.ok and not first.cached and is_kept(first.library)
    assert build([place / "k"], toolchain)[0].cached
    header.write_text(_HEADER + "#error stale\n")
    stale = build([place / "k"], toolchain)[0]
    assert not stale.ok and "#error stale" in stale.log


def test_a_peak_program_is_of_the_headers_as_they_are(place, monkeypatch):
    monkeypatch.setattr("mmagen.microbench.program._MAIN", "#include <cute/tensor.hpp>\nint main() { return VALUE - 1; }\n")
    monkeypatch.setattr("mmagen.microbench.program.batches", lambda loops: [["loop"]])
    monkeypatch.setattr("mmagen.microbench.program.unit", lambda batch: _KERNEL)
    toolchain = find_toolchain(want=COMPILE)
    monkeypatch.setattr("mmagen.microbench.program._compile", _one_unit)
    first = build_peak([], "sm_80", toolchain)
    again = build_peak([], "sm_80", toolchain)
    assert first.seconds > 0 and again.seconds == 0 and again.path == first.path
    (place / "cutlass/include/cute/tensor.hpp").write_text(_HEADER + "#define MORE\n")
    assert build_peak([], "sm_80", toolchain).path != first.path


def _one_unit(batch, site):
    from mmagen.microbench.program import _object

    return [_object(site, _KERNEL, ())]
