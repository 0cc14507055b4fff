"""build without a compiler: what is read of a project, for what it is compiled, and when the cache may answer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mmagen.build.build import BuildResult, arch_name, build, choose_arch, read_project, vendored_cutlass, with_origin
from mmagen.build.log import KernelInfo
from mmagen.core.errors import BuildError, UsageError
from mmagen.core.reads import Reading
from mmagen.toolchain.find import COMPILE, Gpu, Tool, Toolchain

TOOL = Tool(Path("/usr/bin/tool"), "1.0", "PATH")
TOOLS = Toolchain(**dict.fromkeys(COMPILE, TOOL))


def project(folder: Path, name: str = "k", bench: bool = True) -> Path:
    folder.mkdir(parents=True)
    manifest = {"name": name, "kernel": "gemm", "arch": ["sm_80", "sm_90a"], "spec_sha": "s"}
    (folder / "mmagen.json").write_text(json.dumps(manifest))
    (folder / "k.cu").write_text("code")
    if bench:
        (folder / "tests").mkdir()
        (folder / "tests/bench.cu").write_text("code")
    return folder


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """The names that were compiled, call by call; whatever is compiled becomes programs of one byte."""
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path / "cache"))
    calls = []

    def build_together(jobs, toolchain, *, jobs_at_once, progress, env, keep):
        calls.append([job.name for job in jobs])
        results = []
        for job in jobs:
            files = {kind: tmp_path / f"{job.name}_{kind}" for kind in job.programs}
            for path in files.values():
                path.write_bytes(b"x")
                path.chmod(0o755)
            made = BuildResult(
                job.name,
                job.project,
                True,
                log="log",
                warnings=("w",),
                seconds=3.0,
                ptxas=(KernelInfo("f", "sm_80", 96, 8, 4, 1024, 0),),
            )
            results.append(with_origin(keep(job, made, files, Reading()), job, toolchain))
        return results

    monkeypatch.setattr("mmagen.build.build.build_together", build_together)
    return calls


def test_what_was_compiled_comes_from_the_cache(tmp_path, compiled):
    here = project(tmp_path / "k")
    first, again = build([here], TOOLS)[0], build([here], TOOLS)[0]
    assert compiled == [["k"]] and again == replace(first, cached=True)
    assert set(again.programs) == {"verify", "bench"} and all(path.is_file() for path in again.programs.values())
    fewer = build([here], TOOLS, programs=("verify",))[0]
    assert compiled == [["k"]] and fewer.cached and set(fewer.programs) == {"verify"}


def test_more_programs_than_were_stored_are_compiled(tmp_path, compiled):
    here = project(tmp_path / "k")
    build([here], TOOLS, programs=("verify",))
    assert set(build([here], TOOLS)[0].programs) == {"verify", "bench"} and len(compiled) == 2
    micro = build([project(tmp_path / "m", name="m", bench=False)], TOOLS)[0]
    assert set(micro.programs) == set(micro.offered) == {"verify"}, "it has no benchmark"


NEWER = replace(TOOL, version="2.0")
VARIABLES = (
    *("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "NVCC_CCBIN", "CUDAFLAGS", "CXXFLAGS", "LDFLAGS", "CPATH", "LIBRARY_PATH"),
    *("CPLUS_INCLUDE_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "CMAKE_CUDA_COMPILER_LAUNCHER", "CMAKE_TOOLCHAIN_FILE"),
)


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"nvcc": NEWER}, {}),
        ({"host_compiler": NEWER}, {}),
        ({"cutlass": NEWER}, {}),
        ({"cmake": NEWER}, {}),
        ({"cublaslt": True}, {}),
        ({"host_compiler": replace(TOOL, path=Path("/usr/bin/other"))}, {}),
        ({}, {"arch": ["sm_90"]}),
        *(({}, {"env": {name: "-G"}}) for name in VARIABLES),
    ],
    ids=["nvcc", "host", "cutlass", "cmake", "cublaslt", "another host", "arch", *VARIABLES],
)
def test_what_a_build_depends_on(tmp_path, compiled, changes, options):
    here = project(tmp_path / "k")
    root = {"MMAGEN_CACHE_DIR": str(tmp_path / "cache")}
    build([here], TOOLS, env=root)
    build(
        [here],
        replace(TOOLS, **changes),
        **({"env": root} | {key: root | value if key == "env" else value for key, value in options.items()}),
    )
    assert compiled == [["k"], ["k"]]


def test_only_benchmarks_of_sparse_kernels_depend_on_cusparselt(tmp_path, compiled):
    dense, sparse = project(tmp_path / "k"), project(tmp_path / "j", name="j")
    (sparse / "tests/mmagen").mkdir(parents=True)
    (sparse / "tests/mmagen/cusparselt.cuh").touch()
    build([dense, sparse], TOOLS)
    build([dense, sparse], replace(TOOLS, cusparselt=Path("/opt/cusparselt")))
    assert [sorted(names) for names in compiled] == [["j", "k"], ["j"]]
    build([sparse], TOOLS, programs=("verify",), arch=["sm_80"])
    build([sparse], replace(TOOLS, cusparselt=Path("/elsewhere")), programs=("verify",), arch=["sm_80"])
    assert len(compiled) == 3, "only benchmarks link it"


def test_a_build_depends_on_the_code_that_makes_it(tmp_path, compiled, monkeypatch):
    here = project(tmp_path / "k")
    package = tmp_path / "mmagen"
    (package / "build").mkdir(parents=True)
    monkeypatch.setattr("mmagen.toolchain.identity._PACKAGE", package)
    for text in ("1", "2"):
        (package / "build/superproject.py").write_text(text)
        assert not build([here], TOOLS)[0].cached and build([here], TOOLS)[0].cached


def test_what_a_build_does_not_depend_on(tmp_path, compiled):
    here = project(tmp_path / "k")
    build([here], TOOLS)
    elsewhere = replace(TOOL, path=Path("/opt/bin/tool"), origin="CXX")
    unread = ("README.md", "figures/pipeline.svg", ".git/HEAD", "src/__pycache__/x", ".hidden")
    for left in (*unread, "build/k.o", "build-debug/CMakeCache.txt", "build-debug/k.o"):
        (here / left).parent.mkdir(parents=True, exist_ok=True)
        (here / left).write_text("left behind")
    manifest = json.loads((here / "mmagen.json").read_text())
    (here / "mmagen.json").write_text(json.dumps(manifest | {"files": {"README.md": "digest"}}))
    moved = here.rename(tmp_path / "moved")
    assert build([moved], replace(TOOLS, nvcc=elsewhere, host_compiler=elsewhere, ninja=NEWER))[0].cached
    build([moved], TOOLS, programs=("verify",), arch=["sm_80"])
    with_cublaslt = build([moved], replace(TOOLS, cublaslt=True), programs=("verify",), arch=["sm_80"])[0]
    assert with_cublaslt.cached, "only benchmarks link it"
    (moved / "k.cu").write_text("edited")
    assert not build([moved], TOOLS)[0].cached


def test_projects_of_one_name_are_compiled_apart_and_results_keep_their_order(tmp_path, compiled):
    here = [project(tmp_path / folder, name=name) for folder, name in (("a", "k"), ("b", "j"), ("c", "k"), ("d", "k"))]
    for number, folder in enumerate(here):
        (folder / "k.cu").write_text(f"code {number}")
    assert [result.project for result in build(here, TOOLS)] == here
    assert compiled == [["k", "j"], ["k"], ["k"]]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (None, "is not a generated project: it has no mmagen.json"),
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"name": "k", "arch": []}', "cannot be read"),
        ('{"name": "../k", "kernel": "gemm", "arch": []}', "is not a C identifier"),
        ('{"name": "k", "kernel": "gemm", "arch": ["hopper"]}', "'hopper' is not a GPU architecture"),
    ],
)
def test_what_is_no_project(tmp_path, text, reported):
    if text is not None:
        (tmp_path / "mmagen.json").write_text(text)
    with pytest.raises(UsageError, match=reported):
        read_project(tmp_path, TOOLS, None, ("verify",))


def test_what_cannot_be_asked_for(tmp_path):
    with pytest.raises(UsageError, match="programs must be some of verify, bench, tune, not demo"):
        build([project(tmp_path / "k")], TOOLS, programs=("demo",))
    with pytest.raises(BuildError, match="ninja: not found"):
        build([], replace(TOOLS, ninja=None))
    assert [arch_name(text) for text in ("sm_80", "90a", "120f")] == ["sm_80", "sm_90a", "sm_120f"]
    for text in ("sm_", "compute_80", "80 ", "sm_9", "sm_90b"):
        with pytest.raises(UsageError, match="is not a GPU architecture"):
            arch_name(text)


@pytest.mark.parametrize(
    ("capability", "listed", "chosen"),
    [
        (None, ("sm_80", "sm_90a"), ("sm_80", "sm_90a")),
        ((9, 0), ("sm_80", "sm_90a"), ("sm_90a",)),
        ((9, 0), ("sm_90", "sm_80"), ("sm_90",)),
        ((9, 0), ("sm_80",), ("sm_90",)),
        ((8, 6), ("sm_80", "sm_90a"), ("sm_86",)),
        ((10, 3), ("sm_103f", "sm_80"), ("sm_103f",)),
        ((10, 0), ("sm_90a",), ("sm_90a",)),
        ((7, 5), ("sm_80",), ("sm_80",)),
    ],
)
def test_the_architecture_is_that_of_the_gpu_where_the_project_allows_it(capability, listed, chosen):
    gpus = (Gpu("Fake", capability, "1"),) if capability else ()
    assert choose_arch(listed, replace(TOOLS, gpus=gpus)) == chosen


def test_a_projects_own_cutlass_is_what_it_is_built_with(tmp_path):
    here = project(tmp_path / "k")
    assert read_project(here, TOOLS, None, ("verify",)).cutlass == "1.0" and vendored_cutlass({"a/version.h": b""}) == ""
    header = here / "third_party/cutlass/include/cutlass/version.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 3\n#define CUTLASS_PATCH 1\n")
    job = read_project(here, TOOLS, None, ("verify",))
    assert job.cutlass == "4.3.1" and vendored_cutlass(job.files) == "third_party/cutlass/include"
