"""Kernels of every type that torch has, called from Python on a GPU: 40 problems equal torch within the derived bound, a call costs
under 5 us more than the C call, and a CUDA graph has it as a custom op.

All kernels are compiled at once, each in a process of its own, which takes most of the time."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import mmagen
from mmagen.binding.libraries import library_of
from mmagen.binding.tensors import tensor
from mmagen.verify.emulated.compare import as_real
from tests.support.sum_bounds import allowed

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.nvcc, pytest.mark.gpu]

from tests.gpu.test_python import FURTHER, OVERHEAD_US, ROOT, TYPES, example, microseconds  # noqa: E402, F401  (a fixture)
from tests.gpu.test_python_further import direct_call  # noqa: E402

DEVICE = "cuda"
# What is multiplied and made of it, and the kernel's spec. torch has no tf32: its elements are f32.
KERNELS = {
    "f16": "sm90_gemm_warpgroup",
    "f16 to f32, M contiguous": "sm80_gemm_f16_col_d",
    "bf16": "sm80_gemm_bf16_tn",
    "bf16 to f32": "sm90_gemm_bf16_f32",
    "f32": "fma_gemm_f32",
    "tf32": "sm80_gemm_tf32",
    "f64": "sm80_gemm_f64",
    "c64": "sm80_gemm_c64",
    "c64, M and N contiguous": "sm90_gemm_c64_nt",
    "s8 to s32": "sm80_gemm_s8",
    "s8": "sm80_gemm_s8_nt_out8",
    "u8 to s32": "u8",
    "e4m3 to bf16": "sm90_gemm_e4m3",
    "e5m2 to f16": "e5m2",
}
GROUPS = {"lists": "sm90_gemm_bf16_pointers", "groups of rows": "sm90_gemm_bf16_grouped"}
WORDS = TYPES | {"c64": "complex128"}
_PROCESSORS = os.cpu_count() or 1


def problems() -> list[tuple[int, int, int, int | None, int]]:
    """40 of (m, n, k, batch, elements by which lines are longer than they need to be): residues of all tiles, one row, one column,
    one element of k, batches, a few large ones."""
    dice = random.Random(13)
    chosen = [(1, 1, 1, None, 0), (1, 64, 512, None, 0), (200, 1, 96, None, 0), (129, 65, 72, 3, 0), (256, 192, 128, None, 0)]
    chosen += [(64, 64, 1, None, 0), (1024, 768, 1000, None, 0), (512, 1016, 640, None, 8), (127, 333, 2000, None, 1)]
    while len(chosen) < 40:
        m, n, k = (dice.choice((dice.randint(1, 40), dice.randint(41, 400), 8 * dice.randint(1, 50))) for _ in range(3))
        chosen.append((m, n, k, dice.choice((None, None, 1, 2, 5)), dice.choice((0, 0, 1, 8, 16))))
    return chosen


def file_of(spec: str, folder: Path) -> Path:
    """The file of a spec."""
    if spec not in FURTHER:
        return ROOT / f"specs/{spec}.yaml"
    made = folder / f"{spec}.yaml"
    made.write_text(yaml.safe_dump({"mmagen": 1, "name": f"{spec}_gemm", "kernel": "gemm", "layout": "TN", **FURTHER[spec]}))
    return made


def _compile(file: Path) -> str:
    """What a process prints that fails to compile a spec's kernel into the cache."""
    program = "import mmagen, sys; mmagen.compile(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, file], capture_output=True, text=True, cwd=ROOT)
    return "" if done.returncode == 0 else done.stderr


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """kernels(kind): (its spec's file, its kernel); skips where this GPU cannot run it."""
    folder = tmp_path_factory.mktemp("specs")
    files = {kind: file_of(spec, folder) for kind, spec in (KERNELS | GROUPS).items()}
    begin = time.monotonic()
    with ThreadPoolExecutor(_PROCESSORS) as pool:
        failed = dict(zip(files, pool.map(_compile, files.values()), strict=True))
    print(f"{len(files)} kernels compiled in {time.monotonic() - begin:.0f} s")

    def made(kind: str) -> tuple[Path, mmagen.Kernel]:
        assert not failed[kind], failed[kind]
        kernel = mmagen.compile(files[kind])
        if why := kernel.can_run(128, 128, 128):
            pytest.skip(why)
        return files[kind], kernel

    return made


def operand(kernel: mmagen.Kernel, name: str, rows: int, columns: int, batch: int | None, last: str, pad: int = 0) -> Any:
    """Random values, (rows, columns) or a batch, with the kernel's contiguous mode: integers of few bits, or within -1 and 1."""
    about = kernel.description[name]
    across = about["contiguous"] != last
    shape = (columns, rows + pad) if across else (rows, columns + pad)
    shape = shape if batch is None else (batch, *shape)
    dtype = getattr(torch, WORDS[about["type"]])
    if about["type"] in ("s8", "u8"):
        values = torch.randint(*((0, 5) if about["type"] == "u8" else (-2, 3)), shape, device=DEVICE).to(dtype)
    elif dtype.is_complex:
        values = torch.complex(*(torch.rand(shape, device=DEVICE, dtype=torch.float64) * 2 - 1 for _ in range(2)))
    else:
        values = (torch.rand(shape, device=DEVICE, dtype=torch.float64) * 2 - 1).to(
            torch.float32 if dtype.itemsize == 1 else dtype
        )
        values = values.to(dtype)
    if about["type"] == "tf32":  # the tensor core ignores the low 13 bits
        values = (values.view(torch.int32) & ~0x1FFF).view(torch.float32)
    return values[..., :rows].mT if across else values[..., :columns]


def wide(values: Any) -> Any:
    return values.to(torch.complex128 if values.is_complex() else torch.float64)


def on_host(values: Any) -> np.ndarray:
    """(batch, rows, columns) as float64; of complex numbers twice as many columns, the parts side by side."""
    found = np.ascontiguousarray(wide(values).cpu().numpy())
    found = found.view(np.float64) if found.dtype.kind == "c" else found
    return found if found.ndim == 3 else found[None]


def right_factor(b: Any) -> np.ndarray:
    """B for `allowed`, (batch, K, N): of complex numbers the real matrix that makes D's parts of A's."""
    if not b.is_complex():
        return on_host(b)
    return np.ascontiguousarray(as_real(on_host(b.mT)).swapaxes(1, 2))


def test_there_are_40_problems_and_all_types():
    assert len(set(problems())) == 40
    used = set()
    for kind in KERNELS.values():
        about = mmagen.plan(
            {"mmagen": 1, "name": "it", "kernel": "gemm", "layout": "TN", **FURTHER[kind]}
            if kind in FURTHER
            else ROOT / f"specs/{kind}.yaml"
        ).facts.description
        used |= {about[name]["type"] for name in "abd"}
    assert used == set(WORDS)


@pytest.mark.parametrize("kind", KERNELS)
def test_40_problems_equal_torch_within_the_bound(kind, kernels):
    file, kernel = kernels(kind)
    plan = mmagen.plan(file)
    signed = "u8" not in kind
    worst = 0.0
    for m, n, k, batch, pad in problems():
        a = operand(kernel, "a", m, k, batch, "K", pad)
        b = operand(kernel, "b", k, n, batch, "N", pad)
        d = kernel(a, b)
        product = wide(a) @ wide(b)  # torch's, rounded as the kernel's results are
        torchs = on_host((product.clamp(-128, 127) if d.dtype == torch.int8 else product).to(d.dtype))
        low, high = allowed(plan, on_host(a), right_factor(b), signed=signed)
        found = on_host(d)
        assert found.shape == low.shape, (m, n, k, batch, pad)
        wrong = ~((low <= found) & (found <= high))
        assert not wrong.any(), f"{(m, n, k, batch, pad)}: {wrong.sum()} of {wrong.size}, first at {np.argwhere(wrong)[0]}"
        assert m * n * k < 1000 or found.any()
        assert ((low <= torchs) & (torchs <= high)).all(), f"torch's product of {(m, n, k, batch, pad)}"
        worst = max(worst, float(np.max(np.abs(found - torchs) / np.maximum(high - low, np.finfo(float).tiny))))
    print(f"{kind}: 40 problems; from torch's product at most {worst:.2f} of the bound's width")


@pytest.mark.parametrize("kind", KERNELS)
def test_a_call_costs_little_more_than_the_c_call(kind, kernels):
    _, kernel = kernels(kind)
    a, b = operand(kernel, "a", 64, 64, None, "K"), operand(kernel, "b", 64, 64, None, "N")
    out = kernel(a, b)
    c_call, alive = direct_call(kernel, out, (a, b, {}))
    left = kernel._call
    kernel._call = None  # what the compiled caller leaves would fail
    try:
        direct, called, allocating, empty = microseconds(
            c_call, lambda: kernel(a, b, out), lambda: kernel(a, b), lambda: torch.empty(64, 64, dtype=out.dtype, device=DEVICE)
        )
    finally:
        kernel._call = left
    del alive
    print(f"{kind}: C call {direct:.2f} us, kernel(a, b, out) {called:.2f}, kernel(a, b) {allocating:.2f}, empty {empty:.2f}")
    assert called - direct < OVERHEAD_US and allocating - direct - empty < OVERHEAD_US


def test_groups_of_rows_cost_little_more_than_the_c_call(kernels):
    _, kernel = kernels("groups of rows")
    groups = 4
    a, b = operand(kernel, "a", 64 * groups, 64, None, "K"), operand(kernel, "b", 64, 64, groups, "N")
    ends = torch.arange(64, 64 * groups + 1, 64, device=DEVICE, dtype=torch.int32)
    out = kernel(a, b, group_ends=ends)
    torch.testing.assert_close(
        out.view(groups, 64, 64).float(), a.view(groups, 64, 64).float() @ b.float(), rtol=2e-2, atol=2e-2
    )
    c_call, alive = direct_call(kernel, out, (a, b, {"group_ends": ends}))
    assert kernel._fast(a, b, out, None, 1, 0, None, {"group_ends": ends}, None) is out
    direct, called = microseconds(c_call, lambda: kernel(a, b, out, group_ends=ends))
    del alive
    print(f"groups of rows: C call {direct:.2f} us, kernel(...) {called:.2f}")
    assert called - direct < OVERHEAD_US


def of_lists(kernel: mmagen.Kernel, a: list[Any], b: list[Any], out: list[Any]) -> Any:
    """The C function on arrays of pointers in GPU memory, and what must live."""
    count, sizes = len(a), torch.int32
    pointers = {
        name: torch.tensor([one.data_ptr() for one in of], device=DEVICE) for name, of in zip("abd", (a, b, out), strict=True)
    }
    extents = {"m": [x.shape[0] for x in a], "n": [y.shape[1] for y in b], "k": [x.shape[1] for x in a]}
    lines = {"lda": [x.stride(0) for x in a], "ldb": [y.stride(1) for y in b], "ldc": [0] * count}
    lines["ldd"] = [d.stride(0) for d in out]
    numbers = {f"group_{name}": torch.tensor(of, dtype=sizes, device=DEVICE) for name, of in (extents | lines).items()}
    members = {name: one.data_ptr() for name, one in (pointers | numbers).items()}
    arguments = kernel.struct(batch=count, alpha=1.0, **{name: max(of) for name, of in extents.items()}, **members)
    handle = torch.cuda.current_stream().cuda_stream
    first = tensor("a", a[0], handle)
    room = kernel.workspace(library_of(a[0]), a[0], first, arguments, handle)
    kernel.run(arguments, handle)
    return (lambda: kernel._functions["run"](arguments, handle)), (pointers, numbers, arguments, room)


@pytest.mark.parametrize(("count", "most"), [(1, OVERHEAD_US), (8, None), (64, None)])
def test_lists_of_matrices_cost_little_more_than_the_c_call(count, most, kernels):
    """The C call has its pointers in GPU memory already. A Python call looks at each matrix, and copies pointers and sizes."""
    _, kernel = kernels("lists")
    a = [operand(kernel, "a", 64, 64, None, "K") for _ in range(count)]
    b = [operand(kernel, "b", 64, 64, None, "N") for _ in range(count)]
    out = kernel(a, b)
    for one, x, y in zip(out, a, b, strict=True):
        torch.testing.assert_close(one.float(), x.float() @ y.float(), rtol=2e-2, atol=2e-2)
    again = [torch.zeros_like(one) for one in out]
    c_call, alive = of_lists(kernel, a, b, again)
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(out, again, strict=True))
    assert kernel._fast(a, b, out, None, 1, 0, None, {}, None) is not None
    direct, called, copy = microseconds(c_call, lambda: kernel(a, b, out), copy_of(count), count=50)
    del alive
    print(f"lists of {count}: C call {direct:.2f} us, kernel(a, b, out) {called:.2f}, copying its pointers {copy:.2f}")
    assert most is None or called - direct - copy < most


def copy_of(count: int) -> Any:
    """A copy of as many bytes as pointers and sizes of such a call have, from the host, in the order of the stream."""
    size = count * (4 * 8 + 7 * 4)
    memory, data = torch.empty(size, dtype=torch.uint8, device=DEVICE), bytes(size)
    copy, stream = ctypes.CDLL("libcuda.so.1").cuMemcpyHtoDAsync_v2, torch.cuda.current_stream().cuda_stream
    given = ctypes.c_uint64(memory.data_ptr()), data, ctypes.c_size_t(size), ctypes.c_void_p(stream)
    return lambda: copy(*given) or memory


@pytest.mark.parametrize("kind", [kind for kind in KERNELS if "M" not in kind])
def test_the_custom_op_of_each_type_in_a_graph(kind, kernels, example):
    """A replay reads what a and b hold by then."""
    _, kernel = kernels(kind)
    op = example.custom_op(f"{kernel.name}_of_types", kernel)
    a, b = operand(kernel, "a", 96, 64, None, "K"), operand(kernel, "b", 64, 80, None, "N")
    graph, result = example.graph_of(op, a, b)
    other = operand(kernel, "a", 96, 64, None, "K")
    wanted = kernel(other, b)
    a.copy_(other)
    result.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(result, wanted) and result.to(torch.complex128).abs().sum() > 0


def test_types_that_no_kernel_has_are_named(kernels):
    _, kernel = kernels("c64")
    a, b = operand(kernel, "a", 64, 64, None, "K"), operand(kernel, "b", 64, 64, None, "N")
    out = torch.full((64, 64), 7, dtype=torch.complex128, device=DEVICE)
    for dtype in (torch.complex64, torch.int16, torch.int64, torch.bool, torch.float8_e4m3fnuz):
        wrong = torch.zeros(64, 64, device=DEVICE).to(dtype)
        with pytest.raises(mmagen.ArgumentError, match=r"^b: its elements are .*; this kernel takes c64"):
            kernel(a, wrong, out)
    for name, given in {"a": (a.conj(), b), "b": (a, b.mT.conj().mT)}.items():
        with pytest.raises(mmagen.ArgumentError, match=rf"^{name}: it is no plain strided tensor"):
            kernel(*given, out)
    torch.cuda.synchronize()
    assert (out == 7).all()
    torch.testing.assert_close(kernel(a.conj().resolve_conj(), b), a.conj() @ b)
