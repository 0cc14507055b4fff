"""A library of several kernels as nvcc compiles it: each config a translation unit without spills, the choice as the plan
makes it, and the host code's launches and refusals, which need no GPU."""

from __future__ import annotations

import json
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mmagen.cli.build import load_specs
from mmagen.families.library import choose
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.spec.model import Problem
from mmagen.toolchain.find import COMPILE, find_toolchain

pytestmark = pytest.mark.nvcc

SPEC = Path(__file__).resolve().parents[2] / "specs" / "sm90_gemm_bf16_library.yaml"
EXTENTS = (1, 16, 63, 64, 65, 128, 1024, 2047, 2048, 2049, 8192, 2**31 - 1)

# Prints which kernel each problem on stdin takes, and what the library says to arguments that are none.
_ASK = """\
#include <{name}/{name}.h>
#include <cstdio>
#include <cstring>
int main()
{{
  {name}_args args = {{}};
  long long m, n, k;
  while (std::scanf("%lld %lld %lld", &m, &n, &k) == 3) {{
    args.m = m; args.n = n; args.k = k;
    std::puts({name}_config_name(&args));
  }}
  args.m = -1;
  args.n = INT64_MAX;
  bool const refused = {name}_run(&args, nullptr) == {upper}_INVALID_ARGUMENT &&
                       {name}_run(nullptr, nullptr) == {upper}_INVALID_ARGUMENT;
  return refused && std::strlen({name}_config_name(nullptr)) == 0 ? 0 : 1;
}}
"""


def _compile(folder: Path) -> None:
    """Objects, what nvcc and ptxas said of each, and the program of all that the host does."""
    it = load_specs([SPEC]).planned[0].plan
    tools = find_toolchain(want=COMPILE)
    write(render(it), folder / it.name)
    units = sorted((folder / it.name / "src").glob("*.cu"))

    def compile_one(unit: Path) -> str:
        command = [
            tools.nvcc.path,
            "-std=c++17",
            "--expt-relaxed-constexpr",
            "-DNDEBUG",
            "-O3",
            "-Xptxas=-v",
            "-Xcompiler=-Wall,-Wextra,-Wno-unknown-pragmas",
            "-gencode",
            "arch=compute_90a,code=sm_90a",
            "-I",
            folder / it.name / "include",
            "-isystem",
            tools.cutlass.path,
            "-c",
            unit,
            "-o",
            folder / f"{unit.stem}.o",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    with ThreadPoolExecutor(2) as pool:
        said = dict(zip((unit.stem for unit in units), pool.map(compile_one, units), strict=True))
    (folder / "said.json").write_text(json.dumps(said))
    done = subprocess.run(
        [
            tools.nvcc.path,
            "-std=c++17",
            "-cudart",
            "none",
            f"-DLIBRARY(x)={it.name}_##x",
            f'-DLIBRARY_HEADER="{it.name}/{it.name}.h"',
            "-I",
            folder / it.name / "include",
            "-o",
            folder / "host",
            Path(__file__).with_name("fake_runtime.cpp"),
            *(folder / f"{unit}.o" for unit in said),
            "-lpthread",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def made(made_once):
    """The plan, the folder of objects, and by translation unit what nvcc and ptxas said."""
    folder = made_once("library", _compile)
    return load_specs([SPEC]).planned[0].plan, folder, json.loads((folder / "said.json").read_text())


def test_every_config_is_a_kernel_that_compiles_without_spills(made):
    it, _, said = made
    assert set(said) == {it.name, f"{it.name}_unaligned", *(config.name for config in it.configs)}
    for config in it.configs:
        text = said[config.name]
        assert len(re.findall(r"Compiling entry function '\w*sm90_kernel\w*'", text)) == 1, text
        assert len(re.findall(r"0 bytes spill stores, 0 bytes spill loads", text)) == 1, text
        assert "warning" not in text.lower() and "C75" not in text, text
    assert "entry function" not in said[it.name], "the choice has no kernel of its own"


def test_the_library_links_and_chooses_as_the_plan_does(made):
    it, folder, said = made
    main = folder / "ask.cpp"
    main.write_text(_ASK.format(name=it.name, upper=it.name.upper()))
    nvcc = find_toolchain(want=COMPILE).nvcc.path
    done = subprocess.run(
        [
            nvcc,
            "-I",
            folder / it.name / "include",
            main,
            *(folder / f"{unit}.o" for unit in said),
            "-o",
            folder / "ask",
            "-ldl",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    dice = random.Random(1)
    problems = [Problem(shape=tuple(dice.choice(EXTENTS) for _ in range(3))) for _ in range(500)]
    asked = "\n".join(" ".join(map(str, problem.shape)) for problem in problems)
    answers = subprocess.run([folder / "ask"], input=asked, capture_output=True, text=True, timeout=60)
    assert answers.returncode == 0
    assert answers.stdout.split() == [choose(it, problem).name for problem in problems]
    assert set(answers.stdout.split()) == {config.name for config in it.configs}


# What follows runs the library's host code with a runtime that is not CUDA's: fake_runtime.cpp tells what it was asked for.

GOOD = {
    "m": 4096,
    "n": 4096,
    "k": 512,
    "batch": 1,
    "a": 0x10000,
    "lda": 512,
    "stride_a": 0,
    "b": 0x20000,
    "ldb": 512,
    "stride_b": 0,
    "c": 0,
    "ldc": 0,
    "stride_c": 0,
    "d": 0x30000,
    "ldd": 4096,
    "stride_d": 0,
    "alpha": 1,
    "beta": 0,
    "workspace": 0,
    "bytes": 0,
}
HUGE = 2**31
CLUSTERS = 66


def run_line(**changes) -> str:
    assert set(changes) <= set(GOOD)
    return " ".join(map(str, ("run", *(GOOD | changes).values())))


@pytest.fixture(scope="module")
def host(made):
    """Lines that the program prints for lines on stdin."""
    folder = made[1]

    def ask(*lines: str) -> list[str]:
        text = "\n".join((f"clusters {CLUSTERS}", *lines))
        answered = subprocess.run([folder / "host"], input=text, capture_output=True, text=True, timeout=60)
        assert answered.returncode == 0
        return answered.stdout.splitlines()

    return ask


def test_a_kernel_is_launched_once_on_the_stream_that_was_given(host, made):
    large = made[0].configs[-1].plan
    assert host(run_line()) == [
        f"launch tma grid {2 * CLUSTERS} block {large.threads} smem {large.smem_bytes} stream 1 cluster 2 programmatic 1",
        "status 0 left 0",
    ]
    few = host(run_line(m=65, n=40, ldd=40))
    assert few[0].startswith("launch tma grid 2 "), "no more CTAs than there are tiles"


@pytest.mark.parametrize("changes", [
    {"k": 0, "a": 0, "b": 0, "lda": 0, "ldb": 0}, {"lda": 513}, {"ldb": 513}, {"ldd": 4097}, {"a": 0x10002}, {"d": 0x30002},
    {"batch": 2, "stride_a": 4, "stride_d": 1 << 24}, {"lda": 1 << 40},
])  # fmt: skip
def test_what_tma_cannot_address_goes_round_it_on_the_same_stream(host, changes):
    launched, status = host(run_line(**changes))
    assert launched.startswith("launch unaligned") and " stream 1 " in launched and status == "status 0 left 0"


@pytest.mark.parametrize("changes", [{"m": 0}, {"n": 0}, {"batch": 0}, {"m": 0, "n": HUGE}, {"m": 0, "a": 0, "d": 0}])
def test_of_nothing_there_is_nothing_to_do(host, changes):
    assert host(run_line(**changes)) == ["status 0 left 0"]


@pytest.mark.parametrize("changes", [
    {"m": -1}, {"n": -1}, {"k": -1}, {"batch": -1}, {"a": 0}, {"b": 0}, {"d": 0}, {"beta": 1, "ldc": 4096},
    {"k": 0, "d": 0}, {"lda": 511}, {"ldb": 511}, {"ldd": 4095}, {"lda": -512}, {"beta": 1, "c": 0x40000, "ldc": 4095},
    {"batch": 2}, {"a": 0x10001}, {"b": 0x20001}, {"d": 0x30001}, {"beta": 1, "c": 0x40001, "ldc": 4096},
    {"workspace": 0x50008, "bytes": 1 << 30},
])  # fmt: skip
def test_arguments_that_no_kernel_can_take_are_refused(host, changes):
    assert host(run_line(**changes)) == ["status 1 left 0"]


@pytest.mark.parametrize("changes", [
    {"m": HUGE}, {"n": HUGE, "ldd": HUGE}, {"k": HUGE, "lda": HUGE, "ldb": HUGE}, {"batch": HUGE, "stride_d": 1},
    {"m": HUGE - 16385, "n": HUGE - 16385, "ldd": HUGE, "batch": 2, "stride_d": 1},
])  # fmt: skip
def test_what_would_overflow_is_too_large(host, changes):
    assert host(run_line(**changes)) == ["status 4 left 0"]


def test_a_thread_that_never_called_cuda_gets_tma_too(host):
    lines = host("thread", run_line(), "thread", run_line())
    assert [line.split()[:2] for line in lines] == [["launch", "tma"], ["status", "0"]] * 2


@pytest.mark.parametrize("changes", [{}, {"lda": 513}])
def test_errors_keep_their_meaning(host, changes):
    """2: not supported, and nothing left behind. 3: another error, which cudaGetLastError() has."""
    no_image, invalid_value, launch_failure = 209, 1, 719
    line = run_line(**changes)
    assert host(f"fail cudaFuncSetAttribute {no_image}", line) == ["status 2 left 0"]
    assert host(f"fail cudaFuncSetAttribute {invalid_value}", line) == ["status 2 left 0"], "too much shared memory"
    assert host(f"fail launch {launch_failure}", line)[1] == f"status 3 left {launch_failure}"
    assert host(f"fail launch {invalid_value}", line)[1] == f"status 3 left {invalid_value}"
    assert host(f"pending {launch_failure}", line)[1] == f"status 0 left {launch_failure}", "somebody else's"


def test_without_room_for_a_cluster_the_device_is_not_supported(host):
    assert host("clusters 0", run_line(), "workspace") == ["status 2 left 0", "status 2 bytes 0"]


def test_all_clusters_share_too_few_tiles_only_in_a_workspace_large_enough(host):
    """70 tiles of a cluster of two CTAs, for 120 clusters."""
    shape = {"m": 256 * 10, "n": 256 * 7, "ldd": 256 * 7, "k": 4096, "lda": 4096, "ldb": 4096}
    (said,) = host("clusters 120", "workspace")
    room = 65536 + 2 * 120 * 128 * 256 * 4  # flags, and a tile of f32 for each CTA
    assert said == f"status 0 bytes {room}"
    for workspace, given, ctas in ((0x50000, room, 240), (0x50000, room - 1, 140), (0x50000, -1, 140), (0, room, 140)):
        lines = host("clusters 120", run_line(**shape, workspace=workspace, bytes=given))
        assert lines[0].startswith(f"launch tma grid {ctas} ") and lines[1] == "status 0 left 0"
