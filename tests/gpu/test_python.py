"""Kernels called from Python on a GPU: equal to torch within the derived bound, cheap to call, in a CUDA graph and compiled."""

from __future__ import annotations

import ctypes
import importlib.util
import time
from pathlib import Path

import pytest

import mmagen
from mmagen.host_runtime.arguments import Arguments
from tests.support.sum_bounds import allowed

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.nvcc, pytest.mark.gpu]

ROOT = Path(__file__).resolve().parents[2]
SPECS = ("sm80_gemm_bf16_tn", "sm80_gemm_f64", "sm80_gemm_s8", "sm80_gemm_tf32", "sm80_gemm_f16_col_d", "fma_gemm_f32")
HOPPER = ("sm90_gemm_bf16_pingpong", "sm90_gemm_f16_f32", "sm90_gemm_e4m3", "sm90_gemm_bf16_library")
# Of types that no spec in specs/ multiplies without scales.
FURTHER = {
    "u8": {
        "atom": "SM80_16x8x32_S32U8U8S32_TN",
        "tile": [128, 128, 64],
        "atoms_layout": [2, 2, 1],
        "permutation": [32, 32, 32],
    },
    "e5m2": {
        "atom": "SM90_64x128x32_F32E5M2E5M2_SS_TN",
        "tile": [128, 128, 128],
        "atoms_layout": [2, 1, 1],
        "epilogue": {"out": "f16"},
    },
}
TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "s8": "int8", "u8": "uint8", "s32": "int32"}
TYPES |= {"tf32": "float32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
# (m, n, k, batch): residues, one row, a batch, few tiles and many.
PROBLEMS = ((256, 192, 128, None), (1, 64, 512, None), (129, 65, 72, 3), (1024, 1536, 1000, None))
OVERHEAD_US = 5.0


def spec_of(name: str):
    """The file of a spec, or its keys."""
    own = {"mmagen": 1, "name": f"{name}_gemm", "kernel": "gemm", "layout": "TN"}
    return own | FURTHER[name] if name in FURTHER else ROOT / f"specs/{name}.yaml"


@pytest.fixture(scope="module")
def compiled():
    """compiled(spec): its kernel; skips where this GPU cannot run it."""
    known: dict[str, mmagen.Kernel] = {}

    def made(spec: str) -> mmagen.Kernel:
        if spec not in known:
            known[spec] = mmagen.compile(spec_of(spec))
        if why := known[spec].can_run(128, 128, 128):
            pytest.skip(why)
        return known[spec]

    return made


def operand(kernel: mmagen.Kernel, name: str, rows: int, columns: int, batch: int | None, last: str):
    """Random values on the GPU, (rows, columns) or a batch, with the kernel's contiguous mode; small integers of narrow types."""
    about = kernel.description[name]
    dtype = getattr(torch, TYPES[about["type"]])
    head = () if batch is None else (batch,)
    shape = (*head, rows, columns) if about["contiguous"] == last else (*head, columns, rows)
    if dtype in (torch.int8, torch.uint8, torch.int32) or dtype.itemsize == 1:
        values = torch.randint(0, 5, shape, device="cuda").to(torch.float32).to(dtype)
    else:
        values = torch.randn(shape, device="cuda", dtype=torch.float64).to(dtype)
    if about["type"] == "tf32":  # the tensor core ignores the low 13 bits
        values = (values.view(torch.int32) & ~0x1FFF).view(torch.float32)
    return values if about["contiguous"] == last else values.mT


def matrices(of):
    """(batch, rows, columns) as float64 of numpy."""
    values = of.double().cpu().numpy()
    return values if values.ndim == 3 else values[None]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: "x".join(map(str, p[:3])))
@pytest.mark.parametrize("spec", (*SPECS, *HOPPER, *FURTHER))
def test_a_call_equals_torch(spec, problem, compiled):
    kernel = compiled(spec)
    m, n, k, batch = problem
    a = operand(kernel, "a", m, k, batch, "K")
    b = operand(kernel, "b", k, n, batch, "N")
    d = kernel(a, b)
    torch.cuda.synchronize()
    low, high = allowed(mmagen.plan(spec_of(spec)), matrices(a), matrices(b), signed=bool((a.double() < 0).any()))
    found = matrices(d)
    assert found.shape == low.shape and ((low <= found) & (found <= high)).all()
    assert (found != 0).any()


def test_another_stream_and_scalars_from_the_device(compiled):
    kernel = compiled("fma_gemm_f32")
    a, b = operand(kernel, "a", 300, 40, None, "K"), operand(kernel, "b", 40, 200, None, "N")
    c = torch.randn(300, 200, device="cuda")
    alpha, beta = torch.tensor(2.0, device="cuda"), torch.tensor([-1.0], device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        d = kernel(a, b, c=c, alpha=alpha, beta=beta)
    explicit = kernel(a, b, c=c, alpha=2, beta=-1, stream=stream)
    torch.cuda.synchronize()
    torch.testing.assert_close(d, 2 * (a @ b) - c, rtol=1e-4, atol=1e-4)
    assert torch.equal(d, explicit)


def microseconds(*calls, count: int = 200) -> list[float]:
    """Of the host for each call, the best of several turns; the queue never fills."""
    best = [float("inf")] * len(calls)
    for _ in range(20):
        for i, call in enumerate(calls):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(count):
                call()
            best[i] = min(best[i], (time.perf_counter() - begin) / count * 1e6)
    torch.cuda.synchronize()
    return best


@pytest.mark.parametrize("spec", ("fma_gemm_f32", "sm90_gemm_bf16_pingpong", "sm80_gemm_f16_col_d", "sm90_gemm_bf16_library"))
def test_a_call_costs_little_more_than_the_c_call(spec, compiled):
    kernel = compiled(spec)
    a, b = operand(kernel, "a", 64, 64, None, "K"), operand(kernel, "b", 64, 64, None, "N")
    out = kernel(a, b)
    stream = torch.cuda.current_stream().cuda_stream
    ends = {"a": a, "b": b, "d": out}
    filled = {name: one.data_ptr() for name, one in ends.items()} | {f"ld{name}": 64 for name in ends}
    arguments = Arguments(struct_size=ctypes.sizeof(Arguments), m=64, n=64, k=64, batch=1, alpha=1.0, **filled)
    run = kernel._functions["run"]

    def allocate():
        return torch.empty(64, 64, dtype=out.dtype, device="cuda")

    # By ctypes, which itself costs part of a microsecond.
    direct, called, allocating, empty = microseconds(
        lambda: run(arguments, stream), lambda: kernel(a, b, out), lambda: kernel(a, b), allocate
    )
    print(
        f"{spec}: C call {direct:.2f} us, kernel(a, b, out) {called:.2f}, kernel(a, b) {allocating:.2f}, torch.empty {empty:.2f}"
    )
    assert called - direct < OVERHEAD_US and allocating - direct - empty < OVERHEAD_US


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("torch_custom_op", ROOT / "examples/torch_custom_op.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("spec", ("sm80_gemm_bf16_tn", "sm90_gemm_bf16_pingpong"))
def test_the_custom_op_in_a_graph_and_compiled(spec, compiled, example):
    kernel = compiled(spec)
    op = example.custom_op(kernel.name, kernel)
    a = operand(kernel, "a", 256, 512, None, "K")
    weight = operand(kernel, "b", 512, 384, None, "N").mT

    def layer(a, weight):
        return torch.relu(op(a, weight.mT)) * 2

    wanted = layer(a, weight)
    torch.testing.assert_close(torch.compile(layer, fullgraph=True)(a, weight), wanted)
    graph, result = example.graph_of(layer, a, weight)
    a.neg_()
    result.zero_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(result, layer(a, weight))


def test_a_cpu_tensor_is_refused_and_nothing_is_written(compiled):
    kernel = compiled("fma_gemm_f32")
    a, b = operand(kernel, "a", 64, 64, None, "K"), operand(kernel, "b", 64, 64, None, "N")
    out = torch.full((64, 64), 7.0, device="cuda")
    with pytest.raises(mmagen.ArgumentError, match="b: it is in the memory of CPU"):
        kernel(a, b.cpu(), out)
    with pytest.raises(mmagen.ArgumentError, match="out: its memory overlaps that of a"):
        kernel(a, b, a.mT)
    torch.cuda.synchronize()
    assert (out == 7).all()


def test_a_library_for_another_gpu_says_so_and_writes_nothing(compiled):
    major, minor = torch.cuda.get_device_capability()
    spec, arch = ("fma_gemm_f32", "sm_120") if (major, minor) == (9, 0) else ("sm90_gemm_bf16_pingpong", "sm_90a")
    kernel = mmagen.compile(ROOT / f"specs/{spec}.yaml", arch=arch)
    says = f"this device is sm_{major}{minor}, the kernel needs "
    assert kernel.can_run(128, 128, 128).startswith(says)
    a, b = operand(kernel, "a", 64, 64, None, "K"), operand(kernel, "b", 64, 64, None, "N")
    out = torch.full((64, 64), 7, dtype=a.dtype, device="cuda")
    with pytest.raises(mmagen.DeviceError, match=says) as caught:
        kernel(a, b, out)
    torch.cuda.synchronize()
    assert caught.value.cuda_error != 0 and (out == 7).all()
    own = compiled("fma_gemm_f32")  # the error of another library is none of this one's
    a, b = operand(own, "a", 64, 64, None, "K"), operand(own, "b", 64, 64, None, "N")
    torch.testing.assert_close(own(a, b), a @ b, rtol=1e-4, atol=1e-4)
