"""A library of several kernels as nvcc compiles it: each config a source file whose kernel does not spill, the choice as the plan
makes it, and the host code's launches and refusals, which need no GPU."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
import yaml

from mmagen.cli.build import load_specs
from mmagen.families.library import choose
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.host_runtime.arguments import Info, argument_bytes, info_bytes
from mmagen.host_runtime.build import build_runner, link_library
from mmagen.host_runtime.entries import entries_of
from mmagen.host_runtime.library import CapturedLaunch, Device, HostLibrary, Reply, call, text
from mmagen.plan.plans import GemmPlan
from mmagen.spec.model import Problem
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.statuses import Status

pytestmark = pytest.mark.nvcc

SPEC = Path(__file__).resolve().parents[2] / "specs" / "sm90_gemm_bf16_rules.yaml"
EXTENTS = (1, 16, 63, 64, 65, 128, 1024, 2047, 2048, 2049, 8192, 2**31 - 1)


def _planned(folder: Path) -> GemmPlan:
    """The library of SPEC; in most runs with two of its four configs, which differ in all that host code looks at."""
    document = yaml.safe_load(SPEC.read_text())
    if not os.environ.get("MMAGEN_ALL_TESTS"):
        document["configs"] = [config for config in document["configs"] if config["name"] in ("small_m", "large")]
    (folder / SPEC.name).write_text(yaml.safe_dump(document))
    return cast(GemmPlan, load_specs([folder / SPEC.name]).planned[0].plan)


def _compile(folder: Path) -> None:
    """Objects, and what nvcc and ptxas said of each."""
    it = _planned(folder)
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
            "-Xcompiler=-fPIC,-Wall,-Wextra,-Wno-unknown-pragmas",
            "-keep",
            "-keep-dir",
            folder,
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
        output = dict(zip((unit.stem for unit in units), pool.map(compile_one, units), strict=True))
    (folder / "said.json").write_text(json.dumps(output))
    for kept in folder.glob("*.ii"):
        kept.unlink()


@pytest.fixture(scope="module")
def made(made_once):
    """The plan, the folder of objects, and by source file what nvcc and ptxas said."""
    folder = made_once("library", _compile)
    return _planned(folder), folder, json.loads((folder / "said.json").read_text())


def test_no_config_spills(made):
    it, _, output = made
    assert set(output) == {it.name, f"{it.name}_unaligned", *(config.name for config in it.configs)}
    for config in it.configs:
        text = output[config.name]
        assert len(re.findall(r"Compiling entry function '\w*sm90_kernel\w*'", text)) == 1, text
        (spilled,) = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", text)
        assert spilled == ("0", "0"), text
        assert "warning" not in text.lower() and "C75" not in text, text
    assert "entry function" not in output[it.name], "the choice has no kernel of its own"


# What follows runs the library's host code with a stand-in for the CUDA runtime: see mmagen/host_runtime.

GOOD = {
    "m": 4096, "n": 4096, "k": 512, "batch": 1, "a": 0x10000, "lda": 512, "b": 0x20000, "ldb": 512, "d": 0x30000, "ldd": 4096,
    "alpha": 1,
}  # fmt: skip
HUGE = 2**31
CLUSTERS = 66
STREAM = 0x5000
PENDING, SET_ATTRIBUTE, LAUNCH = "pending", "fail cudaFuncSetAttribute", "fail launch"


def args(**changes: int) -> bytes:
    """The library's argument struct."""
    return argument_bytes(GOOD | changes)


@pytest.fixture(scope="module")
def ask(made):
    """The reply to directives (see runner.cpp) on a device that runs so many clusters at once."""
    _, folder, output = made
    tools = find_toolchain(want=COMPILE)
    objects = [folder / f"{unit}.o" for unit in output]
    library = HostLibrary(link_library(objects, tools, os.environ), build_runner(tools, os.environ))
    entries = [entry for unit in output for entry in entries_of((folder / f"{unit}.ptx").read_text())]

    def reply_to(*directives: str, clusters: int = CLUSTERS) -> Reply:
        return library.ask(Device(90, 232448, clusters), entries, directives)

    return reply_to


@pytest.fixture(scope="module")
def run(made, ask):
    """The reply to a call with GOOD and some changes, after directives of one or more words."""
    name = made[0].name

    def reply_to(*before: str, clusters: int = CLUSTERS, **changes: int) -> Reply:
        words = [word for one in before for word in one.split()]
        return ask(*words, *call(f"{name}_run", args(**changes), STREAM), clusters=clusters)

    return reply_to


def way(launch: CapturedLaunch) -> str:
    return "unaligned" if "unaligned" in launch.entry else "tma"


def test_the_library_chooses_as_the_plan_does(made, ask):
    it = made[0]
    dice = random.Random(1)
    problems = [Problem(shape=tuple(dice.choice(EXTENTS) for _ in range(3))) for _ in range(500)]
    arguments = [args(**dict(zip("mnk", problem.shape, strict=True))) for problem in problems]
    answers = ask(*(word for one in arguments for word in text(f"{it.name}_config_name", one))).texts
    assert answers == [choose(it, problem).name for problem in problems]
    assert set(answers) == {config.name for config in it.configs}
    nothing = ask(*text(f"{it.name}_config_name", 0), *call(f"{it.name}_run", 0, 0), *call(f"{it.name}_query", 0))
    assert nothing.texts == [""] and nothing.values == [Status.NULL_ARGS, Status.NULL_ARGS]


def test_a_query_answers_for_all_kernels(made, ask):
    it = made[0]
    reply = ask(*call(f"{it.name}_query", info_bytes()))
    assert reply.values == [0]
    info = Info.from_buffer_copy(reply.outputs[0])
    plans = [config.plan for config in it.configs]
    assert (info.threads, info.smem_bytes, info.ctas_per_sm) == (
        max(p.threads for p in plans),
        max(p.smem_bytes for p in plans),
        1,
    )


def test_a_kernel_is_launched_once_on_the_stream_that_was_given(run, made):
    large = made[0].configs[-1].plan
    reply = run()
    (launch,) = reply.launches
    assert (way(launch), launch.grid, launch.block) == ("tma", (2 * CLUSTERS, 1, 1), (large.threads, 1, 1))
    assert (launch.shared_bytes, launch.stream, launch.cluster) == (large.smem_bytes, STREAM, (2, 1, 1)) and launch.programmatic
    assert (reply.values, reply.left) == ([0], [0])
    assert run(m=65, n=40, ldd=40).launches[0].grid == (2, 1, 1), "no more CTAs than there are tiles"


@pytest.mark.parametrize("changes", [
    {"k": 0, "a": 0, "b": 0, "lda": 0, "ldb": 0}, {"lda": 513}, {"ldb": 513}, {"a": 0x10002},
    {"batch": 2, "batch_stride_a": 4, "batch_stride_d": 1 << 24}, {"lda": 1 << 40},
])  # fmt: skip
def test_what_tma_cannot_address_goes_round_it_on_the_same_stream(run, changes):
    reply = run(**changes)
    assert [way(launch) for launch in reply.launches] == ["unaligned"] and reply.launches[0].stream == STREAM
    assert (reply.values, reply.left) == ([0], [0])


@pytest.mark.parametrize("changes", [
    {"ldd": 4097}, {"d": 0x30002}, {"batch": 2, "batch_stride_d": (1 << 24) + 4}, {"ldd": 1 << 40},
])  # fmt: skip
def test_operands_are_loaded_by_tma_though_it_cannot_address_d(run, changes):
    reply = run(**changes)
    assert [way(launch) for launch in reply.launches] == ["tma"]
    assert (reply.values, reply.left) == ([0], [0])


@pytest.mark.parametrize("changes", [{"m": 0}, {"n": 0}, {"m": 0, "n": HUGE}, {"m": 0, "a": 0, "d": 0}])
def test_of_nothing_there_is_nothing_to_do(run, changes):
    reply = run(**changes)
    assert (reply.launches, reply.values, reply.left) == ([], [0], [0])


@pytest.mark.parametrize(("changes", "status"), [
    ({"m": -1}, Status.NEGATIVE_M), ({"n": -1}, Status.NEGATIVE_N), ({"k": -1}, Status.NEGATIVE_K),
    ({"batch": -1}, Status.NEGATIVE_BATCH), ({"a": 0}, Status.NULL_A), ({"b": 0}, Status.NULL_B), ({"d": 0}, Status.NULL_D),
    ({"beta": 1, "ldc": 4096}, Status.NULL_C), ({"k": 0, "d": 0}, Status.NULL_D), ({"lda": 511}, Status.SHORT_LDA),
    ({"ldb": 511}, Status.SHORT_LDB), ({"ldd": 4095}, Status.SHORT_LDD), ({"lda": -512}, Status.SHORT_LDA),
    ({"beta": 1, "c": 0x40000, "ldc": 4095}, Status.SHORT_LDC), ({"batch": 2}, Status.SHARED_D),
    ({"batch": 2, "batch_stride_d": -4096}, Status.NEGATIVE_STRIDE_D),
    ({"batch": 2, "batch_stride_d": 4096, "batch_stride_a": -1}, Status.NEGATIVE_STRIDE_A),
    ({"batch": 2, "batch_stride_d": 4096, "batch_stride_b": -1}, Status.NEGATIVE_STRIDE_B),
    ({"a": 0x10001}, Status.MISALIGNED_A), ({"b": 0x20001}, Status.MISALIGNED_B), ({"d": 0x30001}, Status.MISALIGNED_D),
    ({"beta": 1, "c": 0x40001, "ldc": 4096}, Status.MISALIGNED_C),
    ({"workspace": 0x50008, "workspace_bytes": 1 << 30}, Status.MISALIGNED_WORKSPACE),
    ({"m": HUGE}, Status.TOO_LARGE_M), ({"n": HUGE, "ldd": HUGE}, Status.TOO_LARGE_N),
    ({"k": HUGE, "lda": HUGE, "ldb": HUGE}, Status.TOO_LARGE_K),
    ({"batch": HUGE, "batch_stride_d": 1}, Status.TOO_MANY_TILES),
    ({"m": HUGE - 16385, "n": HUGE - 16385, "ldd": HUGE, "batch": 2, "batch_stride_d": 1}, Status.TOO_MANY_TILES),
])  # fmt: skip
def test_arguments_that_no_kernel_can_take_are_refused(run, changes, status):
    reply = run(**changes)
    assert (reply.launches, reply.values, reply.left) == ([], [status], [0])


def test_a_thread_that_never_called_cuda_gets_tma_too(ask, made):
    once = ["thread", *call(f"{made[0].name}_run", args(), STREAM)]
    reply = ask(*once, *once)
    assert [way(launch) for launch in reply.launches] == ["tma", "tma"] and reply.values == [0, 0]


@pytest.mark.parametrize("changes", [{}, {"lda": 513}])
def test_errors_keep_their_meaning(run, changes):
    """What the status says leaves nothing behind; cudaGetLastError() of the same runtime has another error."""
    no_image, invalid_value, launch_failure = 209, 1, 719

    def output(*before):
        reply = run(*before, **changes)
        return reply.values + reply.left

    assert output(f"{SET_ATTRIBUTE} {no_image}") == [Status.WRONG_DEVICE, 0]
    assert output(f"{SET_ATTRIBUTE} {invalid_value}") == [Status.SMALL_DEVICE, 0], "too much shared memory"
    assert output(f"{LAUNCH} {launch_failure}") == [Status.CUDA_ERROR, launch_failure]
    assert output(f"{LAUNCH} {invalid_value}") == [Status.CUDA_ERROR, invalid_value]
    assert output(f"{PENDING} {launch_failure}") == [0, launch_failure], "somebody else's"


def test_without_room_for_a_cluster_the_device_is_too_small(run, ask, made):
    assert run(clusters=0).values == [Status.SMALL_DEVICE]
    reply = ask(*call(f"{made[0].name}_workspace_bytes", args(), bytes(8)), clusters=0)
    assert reply.values == [Status.SMALL_DEVICE] and reply.outputs[-1] == bytes(8)


def test_all_clusters_share_too_few_tiles_only_in_a_workspace_large_enough(run, ask, made):
    """70 tiles of a cluster of two CTAs, for 120 clusters."""
    shape = {"m": 256 * 10, "n": 256 * 7, "ldd": 256 * 7, "k": 4096, "lda": 4096, "ldb": 4096}
    room = 2048 + 2 * 120 * 128 * 256 * 4  # flags of 8 bytes, and a tile of f32 for each CTA

    def needed(**changes: int) -> int:
        reply = ask(*call(f"{made[0].name}_workspace_bytes", args(**changes), bytes(8)), clusters=120)
        assert reply.values == [0]
        return int.from_bytes(reply.outputs[-1], "little")

    assert needed(**shape) == needed(**(shape | dict.fromkeys(("a", "b", "d", "lda", "ldb", "ldd"), 0))) == room, (
        "pointers are not read"
    )
    assert needed(m=2560, n=256 * 12, k=4096) == needed(m=64, n=64, k=4096) == needed(k=0) == needed(m=0) == 0
    for workspace, given, ctas in ((0x50000, room, 240), (0x50000, room - 1, 140), (0x50000, -1, 140), (0, room, 140)):
        reply = run(clusters=120, **shape, workspace=workspace, workspace_bytes=given)
        assert [(way(one), one.grid) for one in reply.launches] == [("tma", (ctas, 1, 1))] and reply.values == [0]
