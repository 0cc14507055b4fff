"""Calls with further arguments by the compiled caller: the struct that kernel.py makes, or left to it. For all kernels of specs."""

from __future__ import annotations

import ctypes
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mmagen
from mmagen.binding.errors import ArgumentError
from mmagen.binding.kernel import Kernel
from mmagen.binding.shared_library import Entry
from mmagen.binding.sparse import Compressed
from mmagen.binding.tensors import CPU
from mmagen.core.errors import MmagenError
from mmagen.host_runtime.arguments import Arguments
from mmagen.plan.arguments import Extent
from mmagen.plan.facts import INTERFACE_VERSION

torch = pytest.importorskip("torch")
SPECS = sorted((Path(__file__).resolve().parents[2] / "specs").glob("*.yaml"))
TYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "tf32": "float32",
    "f64": "float64",
    "s8": "int8",
    "u8": "uint8",
}
TYPES |= {"s32": "int32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "c64": "complex128"}
WORKSPACE = 4096
LEFT = object()


class Recorded:
    """A kernel that computes nothing and keeps the struct of each call."""

    def __init__(self, description: dict[str, Any], workspace: bool = False):
        self.calls: list[tuple[bytes, int]] = []
        self.asked = 0

        def run(arguments: Any, stream: int | None) -> int:
            found = arguments.contents
            self.calls.append((ctypes.string_at(ctypes.addressof(found), found.struct_size), stream or 0))
            return 0

        def workspace_bytes(arguments: Any, count: Any) -> int:
            self.asked += 1
            count[0] = WORKSPACE
            return 0

        pointer = ctypes.POINTER(Arguments)
        functions = {
            "run": ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.c_void_p)(run),
            "workspace_bytes": ctypes.CFUNCTYPE(ctypes.c_int, pointer, ctypes.POINTER(ctypes.c_int64))(workspace_bytes),
        }
        about = {**description, "mmagen": "0", "interface": INTERFACE_VERSION, "workspace": workspace}
        about["shape"] = None  # another one than that of a kernel of one tile is for the library to refuse
        self.kernel = Kernel(Entry("recorded", Path("none"), about, functions), devices=(CPU,))
        self.python = self.kernel._call
        self.kernel._call = lambda *given: LEFT  # type: ignore[method-assign]

    def by_c(self, given: dict[str, Any]) -> tuple[bytes, int] | None:
        """What the compiled caller passed to the kernel; None where it left the call alone, having called nothing."""
        self.calls.clear()
        left = self.kernel(**given) is LEFT
        assert left == (not self.calls)
        return None if left else self.calls[0]

    def by_python(self, given: dict[str, Any]) -> tuple[bytes, int] | None:
        """The same of kernel.py; None where it refuses, or has nothing to do."""
        self.calls.clear()
        usual = {"out": None, "c": None, "alpha": 1, "beta": 0, "stream": None}
        further = {name: value for name, value in given.items() if name not in (*usual, "a", "b")}
        try:
            self.python(*((usual | given)[name] for name in ("a", "b", *usual)), further)
        except ArgumentError:
            assert not self.calls
            return None
        return self.calls[0] if self.calls else None


def recast(values: Any, dtype: Any) -> Any:
    """The real parts in another type."""
    return (values.real if values.is_complex() else values).to(dtype)


def array(word: str, shape: tuple[int, ...], rows_contiguous: bool = False, gap: int = 0) -> Any:
    """(…, rows, columns) with lines `gap` elements longer than they need to be."""
    if rows_contiguous:
        return array(word, (*shape[:-2], shape[-1], shape[-2]), gap=gap).mT
    whole = recast(torch.zeros((*shape[:-1], shape[-1] + gap)), getattr(torch, TYPES[word]))
    return whole[..., : shape[-1]]


def usual_call(kernel: Kernel, dice: random.Random, batch: int | None) -> dict[str, Any]:
    """All arguments of a call of a kernel, with some of them shared by the matrices of a batch."""
    about = kernel.description
    m, n, k = dice.choice((1, 3, 64, 130)), dice.choice((2, 8, 130)), dice.choice((2, 64, 300))
    sizes = kernel._sizes
    if sizes and batch is None:
        batch = 2
    head = () if batch is None else (batch,)
    packed, pairs = about["b"].get("packed", 1), about["d"].get("columns_of_element", 1)

    def operand(name: str, rows: int, columns: int, last: str) -> Any:
        shared = () if (dice.random() < 0.2 and name in "ab") or (name == "a" and sizes and sizes.stacked) else head
        return array(about[name]["type"], (*shared, rows, columns), about[name]["contiguous"] != last, dice.choice((0, 3)))

    packed_a = about["a"].get("packed", 1)
    given = {"a": operand("a", m, k, "K"), "b": operand("b", -(-k * packed_a // packed), n, "N")}
    if "group" in about["a"]:
        values = operand("a", m, max(1, k // 2), "K")
        given["a"] = Compressed(values, None, (*values.shape[:-2], m, k), about["a"]["type"])
    heads = [tuple(given[name].shape[:-2]) for name in "ab"]
    head = head if sizes else max(heads, key=len)
    of_d = () if sizes and sizes.stacked else head
    given["out"] = array(about["d"]["type"], (*of_d, m, n // pairs), about["d"]["contiguous"] != "N")
    extents = {"m": m, "n": n, "k": k * packed_a, "batch": head[0] if head else 1}
    of_sizes = dice.choice(sizes.names) if sizes else ""
    for one in kernel._further.tensors:
        if sizes and one.name in sizes.names:
            if one.name == of_sizes:
                given[one.name] = torch.zeros(batch + sizes.beside(one.name), dtype=torch.int32)
            continue
        rows, columns = one.rows.value(extents), one.columns.value(extents)
        own = head if one.batched and dice.random() < 0.5 else ()
        made = array(one.element.word, (*own, rows, columns), not one.columns_contiguous, 2 if one.pitched else 0)
        if one.rows == Extent() and dice.random() < 0.7:
            made = made[..., 0, :]
        if one.required or one.name == "metadata_a" or dice.random() < 0.7:
            given[one.name] = made
    if "group" in about["a"]:
        given["a"] = replace(given["a"], metadata=given.pop("metadata_a"))
    return given


def spoiled(given: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """The call with one change, which may be wrong."""
    if isinstance(given.get("a"), Compressed) and dice.random() < 0.3:
        metadata = spoiled({"metadata_a": given["a"].metadata}, dice)["metadata_a"]
        return given | {"a": replace(given["a"], metadata=metadata)}
    tensors = [name for name, value in given.items() if isinstance(value, torch.Tensor)]
    name, other = dice.choice(tensors), dice.choice(tensors)
    value = given[name]
    changed = dice.choice(
        (
            lambda: recast(value, torch.float32 if value.dtype == torch.float64 else torch.float64),
            lambda: array("s8", value.shape).to(value.dtype),
            lambda: value[..., :-1],
            lambda: recast(torch.cat([recast(value, torch.float32)] * 2, -1), value.dtype),
            lambda: value[None],
            lambda: recast(value, torch.float32).expand(3, *value.shape[-2:]).to(value.dtype),
            lambda: recast(value, torch.float32).unsqueeze(-1).expand(*value.shape, 2).to(value.dtype)[..., 0],
            lambda: value.conj(),  # of real tensors themselves
            lambda: recast(value, torch.complex64),
            lambda: value[0],
            lambda: value.mT,
            lambda: value.numpy(),
            lambda: None if name != "out" else 0,  # a new one is elsewhere each time
            lambda: given[other],
            lambda: given[other].view(value.dtype),
            lambda: torch.nn.Parameter(value) if value.is_floating_point() or value.is_complex() else value,
        )
    )
    try:
        return given | {name: changed()}
    except (RuntimeError, TypeError, IndexError, ValueError):  # not of this shape, or type
        return given | {"unknown": value}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_the_struct_is_that_of_the_python_code(spec):
    try:
        description = mmagen.plan(spec).facts.description
        recorded = Recorded(description)
    except (MmagenError, ValueError, KeyError):
        pytest.skip("it is no kernel for single calls")
    kernel = recorded.kernel
    if kernel._lists:
        return  # see test_fast_lists.py
    dice = random.Random(spec.stem)
    computed = refused = 0
    for _ in range(8):
        given = usual_call(kernel, dice, dice.choice((None, 1, 3)))
        wanted = recorded.by_python(given)
        assert wanted is not None and recorded.by_c(given) == wanted
        for _ in range(25):
            other = spoiled(given, dice)
            wanted, found = recorded.by_python(other), recorded.by_c(other)
            assert found is None or found == wanted, {name: getattr(value, "shape", value) for name, value in other.items()}
            computed += found is not None
            refused += wanted is None
    assert computed > 10 and refused > 30


@pytest.fixture
def with_workspace(monkeypatch):
    """with_workspace(take, give_back): a kernel that needs a workspace, and such functions of the arrays' library."""

    def made(take: Any, give_back: Any) -> Recorded:
        monkeypatch.setattr("mmagen.binding.fast._no_functions", lambda: (None, take, give_back, 0, 0))
        return Recorded(mmagen.plan(SPEC).facts.description, workspace=True)

    return made


SPEC = next(spec for spec in SPECS if spec.stem == "sm90_gemm_bf16_gelu")


def test_a_workspace_is_taken_for_the_stream_of_the_call(with_workspace):
    events: list[tuple[object, ...]] = []
    recorded = with_workspace(lambda *given: events.append(given) or 0x7000, lambda address: events.append((address,)))
    given = usual_call(recorded.kernel, random.Random(1), None) | {"stream": 7}
    found = recorded.by_c(given)
    assert found is not None
    struct = Arguments.from_buffer_copy(found[0])
    assert (struct.workspace, struct.workspace_bytes, found[1]) == (0x7000, WORKSPACE, 7)
    assert events == [(WORKSPACE, 7), (0x7000,)]
    asked = recorded.asked
    assert recorded.by_c(given) == found and recorded.asked == asked  # known by then
    bias = given["bias"]
    moved = torch.zeros(bias.numel() + 1, dtype=bias.dtype)[1:].view(bias.shape)
    assert recorded.by_c(given | {"bias": moved}) is not None and recorded.asked == asked + 1  # of other last bits


def test_a_library_that_gives_no_memory_leaves_the_call_alone(with_workspace):
    def fails(*given: object) -> int:
        raise MemoryError

    recorded = with_workspace(fails, None)
    given = usual_call(recorded.kernel, random.Random(1), None)
    assert recorded.by_c(given) is None and recorded.by_python(given) is not None


def test_an_error_after_the_launch_does_not_launch_again(with_workspace):
    def fails(address: int) -> None:
        raise RuntimeError

    recorded = with_workspace(lambda *given: 0x7000, fails)
    given = usual_call(recorded.kernel, random.Random(1), None)
    assert recorded.by_c(given) is not None and len(recorded.calls) == 1


def test_scalars_may_be_arrays():
    recorded = Recorded(mmagen.plan(SPEC).facts.description)
    dice = random.Random(2)
    given = usual_call(recorded.kernel, dice, 3)
    one, c = torch.ones(()), torch.zeros_like(given["out"])
    for more in ({"alpha": one}, {"beta": torch.ones(1, 1), "c": c}, {"alpha": one, "beta": one, "c": given["out"]}):
        wanted = recorded.by_python(given | more)
        assert wanted is not None and recorded.by_c(given | more) == wanted
    for wrong in (
        {"alpha": one.double()},
        {"alpha": torch.ones(2)},
        {"beta": one},
        {"alpha": "1"},
        {"beta": torch.ones(0), "c": c},
    ):
        assert recorded.by_c(given | wrong) is None
