"""The stand-in for the CUDA runtime: launches as they were asked for, refusals as the real runtime makes them."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

from mmagen.emulate import TensorMap
from mmagen.host_runtime.build import build_runner, link_library
from mmagen.host_runtime.entries import entries_of
from mmagen.host_runtime.library import Device, HostError, HostLibrary, call, text
from mmagen.toolchain.find import COMPILE, find_toolchain

pytestmark = pytest.mark.nvcc

SOURCE = Path(__file__).with_name("host_runtime_test.cu")
HOPPER = Device(90, 232448, resident_clusters=5)
INVALID_VALUE, INVALID_CONFIGURATION, INVALID_FUNCTION, NOT_SUPPORTED, INVALID_CLUSTER = 1, 9, 98, 801, 912
INVALID_CONTEXT = 201


def _compile(folder):
    nvcc = find_toolchain(want=COMPILE).nvcc.path
    command = [
        nvcc,
        "-std=c++17",
        "-Xcompiler=-fPIC",
        "-gencode",
        "arch=compute_90a,code=compute_90a",
        "-keep",
        "-keep-dir",
        folder,
    ]
    subprocess.run([*command, "-c", SOURCE, "-o", folder / "test.o"], check=True, cwd=folder)


@pytest.fixture(scope="module")
def made(made_once):
    toolchain = find_toolchain(want=COMPILE)
    folder = made_once("host_runtime", _compile)
    library = HostLibrary(link_library([folder / "test.o"], toolchain, os.environ), build_runner(toolchain, os.environ))
    return library, entries_of((folder / "host_runtime_test.ptx").read_text())


@pytest.fixture(scope="module")
def ask(made):
    library, entries = made
    return lambda *directives, device=HOPPER: library.ask(device, entries, [word for one in directives for word in one])


def test_a_launch_is_captured_with_its_parameters(ask):
    reply = ask(call("run_plain", 7, 96, 1000, 0x5000))
    assert (reply.values, reply.left, reply.refusals) == ([0], [0], [])
    (launch,) = reply.launches
    assert launch.entry == "_Z5plainal6Params" and launch.stream == 0x5000 and launch.shared_bytes == 1000
    assert (launch.grid, launch.block, launch.cluster) == ((7, 1, 1), (96, 1, 1), (1, 1, 1))
    assert struct.unpack("<b7xqdb7x", launch.params)[:3] == (-3, 0x1122334455667788, 0.5) and launch.params[24] == 7


def test_a_cluster_is_captured(ask):
    (launch,) = ask(call("run_bounded", 6, 128, 2000, -1, 3)).launches
    assert launch.cluster == (3, 1, 1) and launch.grid == (6, 1, 1) and launch.params == bytes(8)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((0, 128, 0, -1, 1), INVALID_CONFIGURATION, "a grid of 0 x 1 x 1 CTAs"),
        ((1, 0, 0, -1, 1), INVALID_CONFIGURATION, "a CTA of 0 x 1 x 1 threads"),
        ((1, 1025, 0, -1, 1), INVALID_CONFIGURATION, "a CTA of 1025 x 1 x 1 threads"),
        ((1, 160, 0, -1, 1), INVALID_VALUE, "160 threads; the kernel's __launch_bounds__ allow 128"),
        ((1, 128, 49152, -1, 1), INVALID_VALUE, "49152 bytes of dynamic shared memory; cudaFuncSetAttribute has allowed 48896"),
        (
            (1, 128, 60001, 60000, 1),
            INVALID_VALUE,
            "60001 bytes of dynamic shared memory; cudaFuncSetAttribute has allowed 60000",
        ),
        (
            (1, 128, 0, 232448, 1),
            INVALID_VALUE,
            "232448 bytes of dynamic shared memory beside 256 static ones; sm_90 has 232448",
        ),
        ((1, 128, 0, -2147483648, 1), 0, ""),
        ((9, 128, 0, -1, 9), INVALID_CLUSTER, "a cluster of 9 CTAs"),
        ((5, 128, 0, -1, 2), INVALID_CLUSTER, "no whole number of clusters of 2 x 1 x 1"),
    ],
)
def test_what_the_real_runtime_refuses_is_refused(ask, arguments, error, says):
    reply = ask(call("run_bounded", *(value % 2**64 for value in arguments)))
    assert reply.values == [error] and len(reply.launches) == (error == 0)
    assert says in " ".join(reply.refusals) and bool(says) == bool(reply.refusals)


def test_what_is_just_allowed_is_launched(ask):
    for arguments in ((1, 128, 48896, 2**64 - 1, 1), (8, 128, 232192, 232192, 8)):
        assert len(ask(call("run_bounded", *arguments)).launches) == 1


def test_clusters_of_more_than_eight_ctas_need_an_attribute(ask):
    launch, resident = call("run_bounded", 32, 128, 0, 2**64 - 1, 16), call("resident_clusters", 16)
    refused = ask(launch, resident)
    assert refused.values == [INVALID_CLUSTER, -INVALID_CLUSTER] and len(refused.refusals) == 2
    assert all("a cluster of 16 CTAs; the kernel's attributes allow 8" in refusal for refusal in refused.refusals)
    allowed = ask(call("allow_large_clusters", 1), launch, resident, call("resident_clusters", 17))
    assert allowed.values[:3] == [0, 0, HOPPER.resident_clusters] and allowed.launches[0].cluster == (16, 1, 1)
    assert len(allowed.refusals) == 1 and "a cluster of 17 CTAs; the kernel's attributes allow 16" in allowed.refusals[0]


def test_another_device_has_other_limits(ask):
    turing = Device(75, 65536)
    assert ask(call("run_bounded", 1, 128, 0, 65537, 1), device=turing).values == [INVALID_VALUE]
    assert ask(call("run_bounded", 2, 128, 0, 0, 2), device=turing).values == [NOT_SUPPORTED]
    attributes = {75: 7, 76: 5, 16: 132, 97: 65536}  # of cudaDeviceAttr: capability, multiprocessors, shared memory
    assert ask(*(call("attribute_of_device", one) for one in attributes), device=turing).values == list(attributes.values())


def test_a_kernel_that_is_none_is_refused(ask, made):
    assert ask(call("run_no_kernel", bytes(8))).values == [INVALID_FUNCTION]
    reply = made[0].ask(HOPPER, (), call("run_plain", 1, 1, 0, 0))
    assert reply.values == [INVALID_FUNCTION] and "the PTX has no entry _Z5plainal6Params" in reply.refusals[0]


def test_the_attributes_of_a_kernel_are_its_ptx_s(ask):
    assert ask(call("most_threads_of_bounded")).values == [128 + 1000 * 256]


GOOD = {"address": 1 << 20, "step": 1, "rank": 3, "extents": (100, 30, 2), "strides": (208, 6240), "box": (64, 8, 1)}


def encoded(ask, swizzle=3, context=1, **changes):
    shape = [number for value in (GOOD | changes).values() for number in (value if isinstance(value, tuple) else (value,))]
    return ask(call("encode", bytes(128), struct.pack("<11q", *shape), swizzle, context))


@pytest.mark.parametrize("swizzle", [0, 1, 2, 3])
def test_a_tensor_map_is_what_the_emulator_reads(ask, swizzle):
    bytes_ = (16, 32, 64, 128)[swizzle]
    reply = encoded(ask, swizzle, box=(bytes_ // 2, 8, 1))
    assert reply.values == [0]
    made = TensorMap.decode(reply.outputs[0])
    assert (made.address, made.element, made.swizzle, made.kind) == (1 << 20, 2, bytes_, "f16") and made.fault() == ""
    assert (made.extents, made.strides, made.box) == ((100, 30, 2), (208, 6240), (bytes_ // 2, 8, 1))


@pytest.mark.parametrize(
    "changes",
    [
        *({"address": address} for address in (0, (1 << 20) + 8)),
        *({"strides": strides} for strides in ((200, 6240), (208, 6248), (1 << 40, 6240))),
        *({"extents": extents} for extents in ((0, 30, 2), (100, (1 << 32) + 1, 2))),
        *({"box": box} for box in ((0, 8, 1), (64, 257, 1), (63, 8, 1), (72, 8, 1))),
        {"rank": 0},
        {"rank": 6},
        {"step": 2},
    ],
    ids=str,
)
def test_a_tensor_map_that_the_driver_refuses_is_refused(ask, changes):
    reply = encoded(ask, **changes)
    assert reply.values == [INVALID_VALUE] and reply.outputs[0] == bytes(128)
    assert len(reply.refusals) == 1 and reply.refusals[0].startswith("cuTensorMapEncodeTiled: ")


def test_the_driver_needs_a_context(ask):
    assert encoded(ask, context=0).values == [INVALID_CONTEXT]


def test_crashes_are_named_and_cost_only_the_child(ask):
    for how, signal in ((0, "SIGABRT"), (8, "SIGSEGV")):
        with pytest.raises(HostError, match=f"ended by {signal}"):
            ask(call("run_plain", 1, 1, 0, 0), call("crash", how))


def test_a_function_that_is_not_there_is_named(ask):
    with pytest.raises(HostError, match="has no function: run_nothing"):
        ask(call("run_nothing"))


def test_a_runtime_function_that_is_not_there_is_named(made, tmp_path):
    source = tmp_path / "other.cpp"
    source.write_text('extern "C" int cudaWhatIsThis(); extern "C" int run() { return cudaWhatIsThis(); }')
    toolchain = find_toolchain(want=COMPILE)
    subprocess.run([toolchain.host_compiler.path, "-fPIC", "-c", source, "-o", tmp_path / "other.o"], check=True)
    library = HostLibrary(link_library([tmp_path / "other.o"], toolchain, os.environ), made[0].runner)
    with pytest.raises(HostError, match="undefined symbol: cudaWhatIsThis"):
        library.ask(HOPPER, (), call("run"))


def test_texts_take_what_the_last_call_returned(ask):
    assert ask(call("echo", 3), text("named", "?"), call("echo", 4), text("named", "?")).texts == ["three it is", "another"]
