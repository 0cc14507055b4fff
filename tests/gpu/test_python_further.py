"""Calls with further arguments, of compressed matrices and with a workspace from Python: cheap, and what the Python code does."""

from __future__ import annotations

import pytest

import mmagen
from mmagen.host_runtime.arguments import Arguments
from mmagen.plan.arguments import Extent

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.nvcc, pytest.mark.gpu]

from tests.gpu.test_python import OVERHEAD_US, TYPES, compiled, microseconds, operand  # noqa: E402, F401  (a fixture)

SPECS = ("sm80_gemm_f16_epilogue", "sm90_gemm_bf16_sums", "sm90_gemm_e4m3_blocks", "sm90_gemm_sparse_bf16", "sm90_gemm_u4_f16")
M, N, K = 128, 128, 256


def call_of(kernel: mmagen.Kernel, m: int, n: int, k: int):
    """(a, b, further arguments): random values."""
    packed = kernel.description["b"].get("packed", 1)
    a, b = operand(kernel, "a", m, k, None, "K"), operand(kernel, "b", k // packed, n, None, "N")
    if "group" in kernel.description["a"]:
        return kernel.compress(a, prune=True), b, {}
    further = {}
    for one in kernel._further.tensors:
        rows, columns = (extent.value({"m": m, "n": n, "k": k, "batch": 1}) for extent in (one.rows, one.columns))
        dtype = getattr(torch, TYPES[one.element.word])
        values = torch.rand((rows, columns) if one.columns_contiguous else (columns, rows), device="cuda").to(dtype)
        values = values if one.columns_contiguous else values.mT
        further[one.name] = values[0] if one.rows == Extent() else values
    return a, b, further


def direct_call(kernel: mmagen.Kernel, out, given):
    """The C function on the same struct, and its workspace, which the caller keeps: (function, what must live)."""
    saved: list[Arguments] = []
    rooms: list[object] = []
    run, workspace = kernel.run, kernel.workspace

    def kept(*about):
        rooms.append(workspace(*about))
        return rooms[-1]

    kernel.workspace, kernel.run = kept, lambda arguments, handle: saved.append(arguments) or run(arguments, handle)
    try:
        a, b, further = given
        kernel._call(a, b, out, None, 1, 0, None, further)
    finally:
        del kernel.workspace, kernel.run
    stream, function = torch.cuda.current_stream().cuda_stream, kernel._functions["run"]
    return lambda: function(saved[0], stream), (saved, rooms)


@pytest.mark.parametrize(("spec", "size"), [(spec, (M, N, K)) for spec in SPECS] + [("sm90_gemm_bf16_library", (65, 63, 67))])
def test_a_call_costs_little_and_does_what_the_python_code_does(spec, size, compiled):
    kernel = compiled(spec)
    a, b, further = call_of(kernel, *size)
    before = {name: value.clone() for name, value in further.items()}
    wanted = kernel._call(a, b, None, None, 1, 0, None, further)
    updated = {name: value.clone() for name, value in further.items()}
    for name, value in before.items():
        further[name].copy_(value)
    left = kernel._call
    kernel._call = None  # what the compiled caller leaves would fail
    try:
        out = kernel(a, b, **further)
        torch.cuda.synchronize()
        assert torch.equal(out.float(), wanted.float()) and (out.float() != 0).any()
        for name, value in updated.items():  # sums of floats come in any order
            torch.testing.assert_close(further[name].float(), value.float(), rtol=1e-4, atol=1e-3)
        kernel._call = left
        direct, alive = direct_call(kernel, out, (a, b, further))
        kernel._call = None

        def allocate():
            return torch.empty(out.shape, dtype=out.dtype, device="cuda")

        alone, called, allocating, empty = microseconds(
            direct, lambda: kernel(a, b, out, **further), lambda: kernel(a, b, **further), allocate
        )
        print(f"{spec}: C call {alone:.2f} us, with out {called:.2f}, without {allocating:.2f}, torch.empty {empty:.2f}")
        del alive
        assert called - alone < OVERHEAD_US and allocating - alone - empty < OVERHEAD_US
    finally:
        del kernel._call


def test_scalars_in_gpu_memory_are_the_compiled_callers(compiled):
    kernel = compiled("sm90_gemm_bf16_sums")
    a, b, further = call_of(kernel, M, N, K)
    arguments = (a, b, None, None, torch.tensor(0.5, device="cuda"), 0, None)
    wanted = kernel._call(*arguments, further)
    assert torch.equal(kernel._fast(*arguments, further, None), wanted) and not torch.equal(kernel(a, b, **further), wanted)


def test_a_workspace_belongs_to_the_stream_of_its_call(compiled):
    """Not to the current one: what that stream does next may not write to it."""
    kernel = compiled("sm90_gemm_bf16_library")
    a, b, _ = call_of(kernel, 65, 63, 67)
    wanted = kernel(a, b)

    def streams():
        return {segment["stream"] for segment in torch.cuda.memory_snapshot()}

    for call in (kernel, lambda *given, stream: kernel._call(*given, 1, 0, stream, {})):
        stream = torch.cuda.Stream(priority=-1) if call is kernel else torch.cuda.Stream()
        out = torch.empty_like(wanted)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        assert stream.cuda_stream not in streams()
        call(a, b, out, None, stream=stream)
        assert stream.cuda_stream in streams()
        stream.synchronize()
        assert torch.equal(out, wanted)


def test_a_workspace_in_a_graph(compiled):
    """What a captured call takes stays the graph's, whatever is computed between its launches."""
    kernel = compiled("sm90_gemm_bf16_library")
    a, b, _ = call_of(kernel, 65, 63, 67)
    wanted = kernel(a, b)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        d = kernel(a, b)
    for size in range(10, 24):
        torch.full((1 << size,), 255, dtype=torch.uint8, device="cuda")
        kernel(a * 2, b)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(d, wanted)
        d.zero_()
