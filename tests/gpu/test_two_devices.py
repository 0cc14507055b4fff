"""Two GPUs in one process: arrays, streams and C calls on either of them, in turn and from two threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mmagen
from mmagen.binding.kernel import Kernel

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.nvcc, pytest.mark.gpu]
if not torch.cuda.is_available() or torch.cuda.device_count() < 2:
    pytest.skip("needs two GPUs", allow_module_level=True)

from tests.gpu.test_c_program import link_of  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SPECS = ("fma_gemm_f32", "sm90_gemm_bf16_tn", "sm90_gemm_bf16_library")
# One tile, residues, a long K that a library shares through a workspace.
SIZES = ((128, 128, 64), (200, 136, 104), (64, 128, 8192), (1000, 520, 72))
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@pytest.fixture(params=SPECS)
def kernel(request, tmp_path) -> Kernel:
    """A kernel whose library was not loaded before: it has not yet asked any device for anything."""
    compiled = mmagen.compile(ROOT / f"specs/{request.param}.yaml")
    if why := compiled.can_run(128, 128, 128):
        pytest.skip(why)
    own = tmp_path / compiled._path.name
    shutil.copy(compiled._path, own)
    return mmagen.open(own)


def operands(kernel: Kernel, device: int, m: int = 128, n: int = 128, k: int = 64, seed: int = 0):
    """a, b and their product on a device: integers, whose sums are exact in f32."""
    generator = torch.Generator().manual_seed(seed + 1)
    a, b = (torch.randint(-1, 2, shape, generator=generator).float().to(device) for shape in ((m, k), (k, n)))
    dtype = TYPES[kernel.description["a"]["type"]]
    given = []
    for value, name, last in ((a, "a", "K"), (b, "b", "N")):
        whole = value if kernel.description[name]["contiguous"] == last else value.mT.contiguous().mT
        given.append(whole.to(dtype))
    return *given, (a @ b).to(TYPES[kernel.description["d"]["type"]])


def test_in_turn(kernel):
    for i in range(3 * len(SIZES)):
        device = i % 2
        a, b, wanted = operands(kernel, device, *SIZES[i % len(SIZES)], seed=i)
        d = kernel(a, b)
        out, rest = torch.ones_like(wanted), wanted.float() - a.float() @ b.float()  # what rounding left
        again = kernel(a, b, out, c=d, beta=1, alpha=torch.tensor(-1.0, device=device))
        assert d.device.index == device and torch.equal(d, wanted) and again is out and torch.equal(out, rest.to(out.dtype))
        assert torch.cuda.current_device() == 0


def test_another_device_is_the_current_one(kernel):
    with torch.cuda.device(1):
        a, b, wanted = operands(kernel, 0)
        assert torch.equal(kernel(a, b), wanted) and torch.cuda.current_device() == 1


class Exported:
    """A tensor of a library that is not known: DLPack, and nothing else."""

    def __init__(self, of):
        self.__dlpack__, self.__dlpack_device__ = of.__dlpack__, of.__dlpack_device__


class Described:
    """A tensor with __cuda_array_interface__ alone, which does not say its device."""

    def __init__(self, of):
        self.__cuda_array_interface__ = of.__cuda_array_interface__


@pytest.mark.parametrize("kind", (Exported, Described))
def test_arrays_without_a_library_of_their_own(kernel, kind):
    if kind is Described and kernel.description["a"]["type"] != "f32":
        pytest.skip("numpy has no such type")
    for device in (1, 0):
        a, b, wanted = operands(kernel, device)
        out = torch.zeros_like(wanted)
        torch.cuda.synchronize(device)
        kernel(kind(a), kind(b), kind(out))  # waits
        assert torch.equal(out, wanted) and torch.cuda.current_device() == 0


def test_from_two_threads(kernel):
    found: dict[int, list[bool]] = {0: [], 1: []}

    def work(device: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream(device)):
            for i in range(6 * len(SIZES)):
                a, b, wanted = operands(kernel, device, *SIZES[i % len(SIZES)], seed=i)
                found[device].append(torch.equal(kernel(a, b), wanted))

    threads = [threading.Thread(target=work, args=(device,)) for device in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[0]) and all(found[1]) and len(found[0]) == len(found[1]) == 6 * len(SIZES)


def test_arrays_of_two_devices_are_refused(kernel):
    a, b, wanted = operands(kernel, 0)
    others = operands(kernel, 1)
    out, there = torch.full_like(wanted, 7), torch.full_like(others[2], 7)
    number = torch.ones(1, device=1)
    for argument, call in {
        "b": lambda: kernel(a, others[1], out),
        "out": lambda: kernel(a, b, there),
        "c": lambda: kernel(a, b, out, c=there, beta=1),
        "alpha": lambda: kernel(a, b, out, alpha=number),
        "beta": lambda: kernel(a, b, out, c=out, beta=number),
    }.items():
        with pytest.raises(mmagen.ArgumentError, match=f"{argument}: it is on device 1, a on device 0; pass arrays of one"):
            call()
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(1)
    assert (out == 7).all() and (there == 7).all() and torch.equal(kernel(a, b), wanted)


def test_a_stream_of_another_device_is_refused(kernel):
    for mine, other in ((0, 1), (1, 0)):
        a, b, wanted = operands(kernel, mine)
        out = torch.full_like(wanted, 7)
        stream = torch.cuda.Stream(other)
        with pytest.raises(mmagen.ArgumentError, match=f"stream: it is of device {other}, a on device {mine}"):
            kernel(a, b, out, stream=stream)
        with pytest.raises(mmagen.ArgumentError, match=f"stream: is no stream of the current device, which is device {mine}"):
            kernel(a, b, out, stream=stream.cuda_stream)
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)
        assert (out == 7).all() and torch.equal(kernel(a, b, out), wanted)
        own = torch.cuda.Stream(mine)
        own.wait_stream(torch.cuda.current_stream(mine))
        out.zero_()
        torch.cuda.synchronize(mine)
        kernel(a, b, out, stream=own)
        own.synchronize()
        assert torch.equal(out, wanted)


def test_a_graph_on_the_second_device(kernel):
    a, b, wanted = operands(kernel, 1, 64, 128, 8192)
    with torch.cuda.device(1):
        kernel(a, b)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            d = kernel(a, b)
        d.zero_()
        graph.replay()
        torch.cuda.synchronize()
    assert torch.equal(d, wanted)


def test_a_kernel_that_is_older_than_torch(kernel):
    """Whether there are several devices is asked when arrays come, not when the kernel is opened."""
    one, of_a, of_b = kernel.description["a"]["type"], *(kernel.description[name]["contiguous"] for name in "ab")
    program = (
        f"import mmagen; kernel = mmagen.open({str(kernel._path)!r}); import torch\n"
        f"a = torch.ones(128, 64, device=1).to({TYPES[one]!r}); b = torch.ones(64, 128, device=1).to({TYPES[one]!r})\n"
        f"a = a if {of_a!r} == 'K' else a.mT.contiguous().mT; b = b if {of_b!r} == 'N' else b.mT.contiguous().mT\n"
        "assert (kernel(a, b) == 64).all() and torch.cuda.current_device() == 0"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("spec", ("sm80_gemm_bf16_tn", "sm90_gemm_bf16_tn", "sm90_gemm_bf16_library", "odd_cluster16_bf16"))
def test_a_c_program_on_two_devices(spec, tmp_path):
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE"]
    program = tmp_path / "program"
    source = Path(__file__).with_name("two_devices.c")
    subprocess.run(["gcc", *strict, source, "-o", program, *link_of(spec, tmp_path)], check=True)
    done = subprocess.run([program], capture_output=True, text=True, env=dict(os.environ))
    print(spec, done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
