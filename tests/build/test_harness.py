"""The build harness with the real nvcc, on projects small enough to read: isolation, cache, ptxas, paths."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import mmagen.build.superproject
from mmagen.build.build import build, built
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.run import RECORD_FIELDS, run

pytestmark = pytest.mark.nvcc

_CMAKE = """\
cmake_minimum_required(VERSION 3.24)
project({name} LANGUAGES CXX CUDA)
option({upper}_BUILD_TESTS "" ${{PROJECT_IS_TOP_LEVEL}})
add_library({name} STATIC src/{name}.cu)
target_include_directories({name} PUBLIC include)
if(MMAGEN_PTXAS_INFO)
  target_compile_options({name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>)
endif()
if({upper}_BUILD_TESTS)
  foreach(kind verify bench)
    add_executable({name}_${{kind}} tests/${{kind}}.cpp)
    target_link_libraries({name}_${{kind}} PRIVATE {name})
    set_target_properties({name}_${{kind}} PROPERTIES LINKER_LANGUAGE CUDA)
  endforeach()
endif()
"""

_KERNEL = """\
__global__ void scale(float* x, float a) {{
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = a * tile[threadIdx.x ^ 1];
}}
int {name}_answer() {{ return reinterpret_cast<void*>(&scale) != nullptr ? 42 : 0; }}
"""


def _project(root: Path, name: str, arch=("sm_80",)) -> Path:
    """A hand-written project of the shape that mmagen generates; its programs need no GPU."""
    folder = root / name
    record = dict.fromkeys(RECORD_FIELDS) | {
        "name": name,
        "problem": [64, 64, 64],
        "disposition": "passed",
        "max_abs_err": 0.0,
        "reason": "",
    }
    program = (
        f"#include <cstdio>\nint {name}_answer();\nint main() {{\n  if ({name}_answer() != 42) return 4;\n"
        f'  std::puts(R"J({json.dumps(record)})J");\n}}\n'
    )
    files = {
        "CMakeLists.txt": _CMAKE.format(name=name, upper=name.upper()),
        f"src/{name}.cu": _KERNEL.format(name=name),
        "tests/verify.cpp": program,
        "tests/bench.cpp": program,
        "mmagen.json": json.dumps({"name": name, "kernel": "gemm", "arch": list(arch), "spec_sha": "s"}),
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture(scope="module")
def toolchain():
    return find_toolchain(want=COMPILE)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def commands(monkeypatch):
    """The tools that the harness starts, by name."""
    started = []
    for name in ("capture", "follow"):
        real = getattr(mmagen.build.superproject, name)

        def recording(argv, real=real, **options):
            if "-t" not in argv:  # ninja is asked what the compilers read
                started.append(Path(argv[0]).name)
            return real(argv, **options)

        monkeypatch.setattr(mmagen.build.superproject, name, recording)
    return started


def test_one_failure_keeps_the_others_and_a_second_build_compiles_nothing(tmp_path, toolchain, cache, commands):
    good = _project(tmp_path, "good", arch=("sm_80", "sm_90a"))
    broken = _project(tmp_path, "broken")
    (broken / "src/broken.cu").write_text("int broken_answer() { return missing_name; }\n")
    unconfigurable = _project(tmp_path, "unconfigurable")
    (unconfigurable / "CMakeLists.txt").write_text('message(FATAL_ERROR "nothing here")\n')
    sourceless = _project(tmp_path, "sourceless")
    (sourceless / "src/sourceless.cu").unlink()
    projects = [unconfigurable, good, broken, sourceless]
    before = {p: p.stat().st_mtime_ns for project in projects for p in project.rglob("*")}

    steps = []
    results = build(projects, toolchain, progress=lambda *step: steps.append(step))

    assert [r.ok for r in results] == [False, True, False, False]
    assert "nothing here" in results[0].reason
    assert results[2].errors[0].startswith('src/broken.cu(1): error: identifier "missing_name" is undefined')
    assert any("src/sourceless.cu" in line for line in results[3].errors)
    assert {p: p.stat().st_mtime_ns for project in projects for p in project.rglob("*")} == before
    assert any("good/" in what for _, _, what in steps) and all(done <= total for done, total, _ in steps)
    assert commands.count("ninja") == 1, "what compiles is compiled together"

    result = results[1]
    assert result.arch == ("sm_80", "sm_90a") and set(result.programs) == {"verify", "bench"}
    assert result.library and result.library.is_file() and result.seconds > 0
    assert sorted((k.arch, k.smem, k.spill_stores, k.demangled) for k in result.ptxas) == [
        ("sm_80", 256, 0, "scale(float*, float)"),
        ("sm_90a", 256, 0, "scale(float*, float)"),
    ]
    assert all(0 < k.registers < 64 for k in result.ptxas)

    commands.clear()
    again = build(projects[1:2], toolchain)[0]
    assert commands == [], "a cached build must not start anything"
    assert again.cached and again.ptxas == result.ptxas and again.log == result.log
    build(projects[2:3], toolchain)
    assert "ninja" in commands, "a failed build must not be cached"


def test_what_is_whole_when_a_build_is_interrupted_is_not_compiled_again(tmp_path, toolchain, cache):
    quick, slow = _project(tmp_path, "quick"), _project(tmp_path, "slow")
    with (slow / "CMakeLists.txt").open("a") as file:
        file.write("add_custom_target(slow_wait COMMAND sleep 600)\nadd_dependencies(slow_verify slow_wait)\n")
    linked = set()

    def interrupt(_done, _total, what):
        linked.update(kind for kind in ("verify", "bench") if "Linking" in what and f"quick_{kind}" in what)
        if len(linked) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build([quick, slow], toolchain, progress=interrupt)
    found = built(quick, toolchain)
    assert found and found.cached and found.ptxas and set(found.programs) == {"verify", "bench"}
    assert run(found, timeout_s=30).reason == ""
    assert built(slow, toolchain) is None


def test_the_cache_can_move_and_notices_edits(tmp_path, toolchain, cache, commands, monkeypatch):
    project = _project(tmp_path, "mover")
    first = build([project], toolchain, programs=("verify",))[0]
    assert first.ok, first.errors
    stored = (first.programs["verify"].parent / "result.json").read_text()
    assert str(tmp_path) not in stored and "/tmp" not in stored

    shutil.move(cache, tmp_path / "elsewhere")
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path / "elsewhere"))
    commands.clear()
    moved = build([project], toolchain, programs=("verify",))[0]
    assert moved.cached and commands == []
    outcome = run(moved, timeout_s=30)
    assert outcome.reason == "" and outcome.records[0]["registers"] == max(k.registers for k in moved.ptxas)

    moved.programs["verify"].write_bytes(b"half")
    whole = build([project], toolchain, programs=("verify",))[0]
    assert not whole.cached and run(whole, timeout_s=30).reason == "", "a copy that is not whole is made again"
    assert not build([project], toolchain, programs=("verify",), arch=["sm_90"])[0].cached

    (project / "src/mover.cu").write_text((project / "src/mover.cu").read_text() + "// edited\n")
    assert not build([project], toolchain, programs=("verify",))[0].cached


def test_two_projects_of_one_name_and_a_warning(tmp_path, toolchain, cache):
    one, two = _project(tmp_path / "a", "twin"), _project(tmp_path / "b", "twin")
    (two / "src/twin.cu").write_text((two / "src/twin.cu").read_text() + "static int idle() { int x; return 1; }\n")
    results = build([one, two], toolchain, programs=("verify",))
    assert [r.ok for r in results] == [True, True]
    assert results[0].warnings == ()
    assert any("src/twin.cu" in line and '"x"' in line for line in results[1].warnings)


def test_an_architecture_that_nvcc_does_not_know_fails_that_build(tmp_path, toolchain, cache):
    result = build([_project(tmp_path, "future")], toolchain, arch=["sm_999"], programs=("verify",))[0]
    assert not result.ok and "compute_999" in result.reason


def test_projects_that_only_quarrel_with_each_other_both_build(tmp_path, toolchain, cache):
    projects = [_project(tmp_path, name) for name in ("first", "second")]
    for project in projects:
        with (project / "CMakeLists.txt").open("a") as file:
            file.write("add_custom_target(everyone_takes_this_name)\n")
    assert [r.ok for r in build(projects, toolchain, programs=("verify",))] == [True, True]
