"""A kernel of mmagen as a PyTorch operator, which torch.compile and CUDA graphs take as they take torch's own.

    python examples/torch_custom_op.py specs/sm90_gemm_bf16_tn.yaml

needs a GPU, nvcc and PyTorch. `a` is (M,K), `weight` is (N,K): the kernel of a TN spec computes a @ weight.T, as
torch.nn.Linear does.
"""

from __future__ import annotations

import sys

import torch

import mmagen

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "c64": torch.complex128}
TYPES |= {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "s8": torch.int8, "u8": torch.uint8, "s32": torch.int32}


def custom_op(name: str, kernel: mmagen.Kernel) -> torch.library.CustomOpDef:
    """`mmagen::<name>(a, b)` for torch: a @ b by the kernel."""

    @torch.library.custom_op(f"mmagen::{name}", mutates_args=())
    def op(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return kernel(a, b)

    @op.register_fake
    def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        # What torch.compile needs to know of the result: its shape, type and strides.
        batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])  # one matrix may be used for a whole batch
        return a.new_empty((*batch, a.shape[-2], b.shape[-1]), dtype=torch_type(kernel))

    return op


def torch_type(kernel: mmagen.Kernel) -> torch.dtype:
    """The type of the kernel's results, which are row-major."""
    description = kernel.description["d"]
    assert description["contiguous"] == "N", "register_fake would have to say that the result is column-major"
    return TYPES[description["type"]]


def graph_of(function, *inputs: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """function(*inputs) as a CUDA graph, and the tensor that a replay fills."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # the first call loads the kernel, which a capture does not allow
        function(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(*inputs)
    return graph, result


def main() -> None:
    kernel = mmagen.compile(sys.argv[1])
    matmul = custom_op(kernel.name, kernel)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[kernel.description["a"]["type"]]
    a = torch.randn(512, 1024, device="cuda", dtype=dtype)
    weight = torch.randn(768, 1024, device="cuda", dtype=dtype)

    def layer(a: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.relu(matmul(a, weight.T)) * 2

    expected = torch.relu(a @ weight.T) * 2
    compiled = torch.compile(layer, fullgraph=True)
    torch.testing.assert_close(compiled(a, weight), expected, rtol=2e-2, atol=2e-2)
    graph, result = graph_of(layer, a, weight)
    a.copy_(torch.randn_like(a))
    graph.replay()
    torch.testing.assert_close(result, torch.relu(a @ weight.T) * 2, rtol=2e-2, atol=2e-2)
    print("equal: eager, compiled, and a replayed graph")


if __name__ == "__main__":
    main()
