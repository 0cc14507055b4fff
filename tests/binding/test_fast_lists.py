"""Kernels whose groups have matrices of their own through the compiled caller: it passes what groups.py passes, or leaves it."""

from __future__ import annotations

import ctypes
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mmagen
from mmagen.binding import fast
from mmagen.binding.errors import ArgumentError
from mmagen.binding.kernel import Kernel
from mmagen.binding.shared_library import Entry
from mmagen.binding.tensors import CPU
from tests.binding.c_functions import as_c
from tests.binding.exchange import Array, exchange_of

SPEC = {
    "mmagen": 1,
    "name": "lists",
    "kernel": "gemm",
    "atom": "SM90_64x32x16_F32F16F16_SS",
    "tile": [64, 32, 64],
    "schedule": "pingpong",
    "stages": 3,
    "grouped": "pointers",
}
TENSORS = ["alpha", "beta_c", {"bias": "column"}, {"add": "residual", "type": "f32"}, "amax", "row_sums", {"cast": "f16"}]
KERNELS = {
    "plain": {"layout": "TN", "epilogue": {"out": "f16"}},
    "columns": {"layout": "NT", "epilogue": {"out": "f16", "major": "M"}},
    "tensors": {"layout": "TN", "epilogue": TENSORS},
    "gated": {"layout": "TN", "epilogue": ["alpha", {"gated": "silu"}, {"cast": "f16"}]},
}
SHAPES = [(70, 24, 64), (3, 40, 72), (0, 8, 8), (9, 16, 0), (1, 8, 24), (8, 2, 8)]  # M, N and K
USUAL = {"out": None, "c": None, "alpha": 1, "beta": 0, "stream": None}
ROOM = 512  # bytes of workspace for each group
LEFT = object()


class Calls:
    """A kernel that computes nothing and keeps what its last call passes, arrays of the device by their contents."""

    def __init__(self, epilogue: str):
        self.seen: dict[str, Any] | None = None
        self.memory: list[np.ndarray] = []
        about = mmagen.plan({**SPEC, **KERNELS[epilogue]}).facts.description
        functions = {"run": self._run, "workspace_bytes": self._workspace_bytes}
        self.kernel = Kernel(Entry("lists", Path("none"), about, as_c(functions, about)), devices=(CPU,))
        assert self.kernel._fast is not None
        self.python = self.kernel._call
        self.kernel._call = lambda *given: LEFT  # type: ignore[method-assign]

    @staticmethod
    def _workspace_bytes(args: Any, size: Any) -> int:
        size[0] = ROOM * args.batch
        return 0

    def _run(self, args: Any, stream: int | None) -> int:
        assert args.workspace and args.workspace_bytes == ROOM * args.batch
        of_groups = [one for one in self.kernel.of_call.tensors if one.of_groups]
        pointers = ["a", "b", "c", "d", *(one.name for one in of_groups)]
        numbers = ["m", "n", "k", "lda", "ldb", "ldc", "ldd", *(f"ld_{one.name}" for one in of_groups if one.pitched)]
        self.seen = {name: getattr(args, name) for name in ("m", "n", "k", "batch", "alpha", "beta", "alpha_device")}
        self.seen |= {"stream": stream, "amax": getattr(args, "amax", None)}
        for name in pointers:
            address = getattr(args, name)
            self.seen[f"{name}[]"] = list((ctypes.c_uint64 * args.batch).from_address(address)) if address else None
        for name in numbers:
            self.seen[f"{name}[]"] = list((ctypes.c_int32 * args.batch).from_address(getattr(args, f"group_{name}")))
        return 0

    def by_c(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """What the compiled caller passed to the kernel; None where it left the call alone, having called nothing."""
        self.seen = None
        result = self.kernel(**{name: wrapped(value) for name, value in given.items()})
        assert (result is LEFT) == (self.seen is None)
        if self.seen is not None and given.get("out") is not None:
            assert isinstance(result, list)
            assert all(one.values is other for one, other in zip(result, given["out"], strict=True))
        return self.seen

    def by_python(self, given: dict[str, Any]) -> dict[str, Any] | str:
        """The same of groups.py; the argument where it refuses."""
        self.seen = None
        further = {name: value for name, value in given.items() if name not in ("a", "b", *USUAL)}
        try:
            self.python(*((USUAL | given)[name] for name in ("a", "b", *USUAL)), further)
        except ArgumentError as error:
            assert self.seen is None
            return error.argument
        return self.seen or "nothing to do"


def wrapped(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(wrapped(one) for one in value)
    return Array(value) if isinstance(value, np.ndarray) else value


@pytest.fixture
def calls(monkeypatch):
    """calls(name of a kernel)"""
    if fast._module() is None:
        pytest.skip("no C compiler or no headers of Python")
    memory: dict[int, np.ndarray] = {}

    def take(size: int, stream: int) -> int:
        made = np.zeros(size, np.uint8)
        memory[made.ctypes.data] = made
        return int(made.ctypes.data)

    monkeypatch.setattr(fast, "_exchange_of", exchange_of)
    monkeypatch.setattr(fast, "_no_functions", lambda: (None, take, memory.pop, 0, 0))
    yield Calls
    assert not memory, "all of it was given back"


def zeros(rows: int, columns: int, pad: int = 0, type: Any = np.float16) -> np.ndarray:
    """Lines of a multiple of 16 bytes, at a multiple of 16 bytes, which only A and B need."""
    ld = -(-columns // 8) * 8 + pad
    memory = np.zeros(rows * ld + 16, type)
    first = -memory.ctypes.data % 16 // memory.itemsize
    return memory[first : first + rows * ld].reshape(rows, ld)[:, :columns]


def usual(kernel: Kernel) -> dict[str, Any]:
    def made(contiguous: bool, rows: int, columns: int, pad: int = 0) -> np.ndarray:
        return zeros(rows, columns, pad) if contiguous else zeros(columns, rows, pad).T

    about, pairs = kernel.description, kernel.columns_of_element
    last = {name: about[name]["contiguous"] == mode for name, mode in zip("abd", "KNN", strict=True)}
    given = {
        "a": [made(last["a"], m, k, 8 * i) for i, (m, _, k) in enumerate(SHAPES)],
        "b": [made(last["b"], k, n, 8) for _, n, k in SHAPES],
        "out": [made(last["d"], m, n // pairs, 3) for m, n, _ in SHAPES],
        "alpha": 2,
        "stream": 7,
    }
    if pairs == 1:
        given |= {"c": [made(last["d"], m, n, 1) for m, n, _ in SHAPES], "beta": 0.5}
    if "amax" in {one.name for one in kernel.of_call.tensors}:
        given["bias"] = [np.zeros(n, np.float16) for _, n, _ in SHAPES]
        given["residual"] = [zeros(m, n, 5 * i, np.float32) for i, (m, n, _) in enumerate(SHAPES)]
        given["row_sums"] = [np.zeros(m, np.float32) for m, _, _ in SHAPES]
        given["amax"] = np.zeros((1,), np.float32)
    return given


def changes(value: Any, dice: random.Random) -> list[Any]:
    """Values in place of an argument, most of them wrong."""
    if isinstance(value, list):
        at = dice.randrange(len(value))

        def one(changed: Any) -> list[Any]:
            return [*value[:at], changed, *value[at + 1 :]]

        return [
            None,
            1,
            value[0],
            value[:-1],
            [],
            tuple(value),
            [*value, value[0]],
            *map(one, changes(value[at], dice)),
            value[::-1],
        ]
    if not isinstance(value, np.ndarray):
        return [None, "1", 3, value]
    wide = np.zeros((*value.shape[:-1], value.shape[-1] * 2), value.dtype)
    return [
        None,
        1,
        value.astype(np.float64),
        value.astype(np.int32),
        value[:-1],
        value[..., :-1],
        value[1:],
        value[..., 1:],
        value[:0],
        value[None],
        value[:1],
        value[::-1],
        value[..., ::-1],
        wide,
        wide[..., ::2],
        np.swapaxes(value, -1, -2) if value.ndim > 1 else value,
        np.concatenate([value, value]),
        np.zeros_like(value),
        np.zeros(0, value.dtype),
    ]


@pytest.mark.parametrize("name", KERNELS)
def test_usual_calls_are_made_without_python(calls, name):
    found = calls(name)
    given = usual(found.kernel)
    wanted = found.by_python(given)
    assert isinstance(wanted, dict) and wanted["k[]"] == [k for _, _, k in SHAPES]
    assert found.by_c(given) == wanted
    tuples = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    assert found.by_c(tuples) == wanted
    for changed in ({"b": [given["b"][0]] * 6, "a": [given["a"][0]] * 6}, {"beta": 0, "c": None}, {"c": given["out"]}):
        other = given | changed
        if "b" in changed:  # what groups share
            other = {key: [value[0]] * 6 if isinstance(value, list) and key != "out" else value for key, value in given.items()}
            written = {"out", "row_sums"} & set(given)
            other |= {key: [np.zeros_like(given[key][0]) for _ in SHAPES] for key in written}
        assert found.by_c(other) == found.by_python(other), changed.keys()
        assert (found.by_c(other) is not None) or name == "gated"


@pytest.mark.parametrize("name", KERNELS)
def test_every_argument_that_is_wrong_alone_is_left_to_python(calls, name):
    found, dice = calls(name), random.Random(name)
    refused = set()
    given = usual(found.kernel)
    for argument, value in given.items():
        for _ in range(6 if isinstance(value, list) else 1):
            for change in changes(value, dice):
                other = given | {argument: change}
                mine, wanted = found.by_c(other), found.by_python(other)
                assert mine is None or mine == wanted, (argument, change, wanted)
                if isinstance(wanted, str):
                    refused.add(argument)
    assert refused >= set(given) - {"stream", "alpha"}


@pytest.mark.parametrize("name", KERNELS)
def test_pairs_of_changes_agree(calls, name):
    found, dice = calls(name), random.Random(name)
    computed = 0
    for _ in range(400):
        given = usual(found.kernel)
        pair = dice.sample(sorted(given), 2)
        other = given | {argument: dice.choice(changes(given[argument], dice)) for argument in pair}
        mine, wanted = found.by_c(other), found.by_python(other)
        assert mine is None or mine == wanted, {argument: other[argument] for argument in pair}
        computed += mine is not None
    assert computed > 3


def test_an_output_in_what_another_group_has_is_left_to_python(calls):
    found = calls("tensors")
    given = usual(found.kernel)
    out, c = given["out"], given["c"]
    first = out[0].base[: out[0].size]  # memory of the first D
    for changed in (
        {"out": [*out[:5], out[0][:8, :2]]},
        {"a": [*given["a"][:5], np.lib.stride_tricks.as_strided(out[0], (8, 8), (64, 2))]},
        {"c": [*c[:5], out[0][:8, :2]]},
        {"row_sums": [*given["row_sums"][:5], first[16:32].view(np.float32)]},
        {"bias": [*given["bias"][:5], first[16:18]]},
    ):
        assert found.by_c(given | changed) is None
        assert found.by_python(given | changed) in ("out[0]", "out[5]", "row_sums[5]"), changed
    beside = np.zeros((70, 64), np.float16)
    columns = [beside[:m, 8 * i : 8 * i + 8][:, :n] for i, (m, n, _) in enumerate([(70, 8, 0), (70, 8, 0)])]
    two = {"a": [given["a"][0]] * 2, "b": [given["b"][0][:, :8]] * 2, "out": columns, "alpha": 1}
    plain = calls("plain")
    assert plain.by_c(two) is None and isinstance(plain.by_python(two), dict), "beside each other in lines of one matrix"
    rows = [np.ascontiguousarray(beside)[4 * i : 4 * i + 4] for i in range(2)]
    two |= {"a": [given["a"][0][:4]] * 2, "b": [zeros(64, 64).T] * 2, "out": rows}
    assert plain.by_c(two) == plain.by_python(two) is not None, "rows of one matrix"


def test_further_results_in_what_another_group_or_all_have_are_left_to_python(calls):
    found = calls("tensors")
    given = usual(found.kernel)
    sums, out, residual = given["row_sums"], given["out"], given["residual"]
    scalar = np.zeros(1, np.float32)
    assert found.by_c(given | {"alpha": scalar}) == found.by_python(given | {"alpha": scalar}) is not None
    inside = out[0][0, :2].view(np.float32)
    for changed, argument in (
        ({"row_sums": [sums[0], sums[0][5:8], *sums[2:]]}, "row_sums[1]"),
        ({"row_sums": [sums[0]] * 3 + sums[3:], "a": [given["a"][0]] * 3 + given["a"][3:]}, None),
        ({"row_sums": [*sums[:5], residual[0].base[:8]]}, "row_sums[5]"),
        ({"residual": [*residual[:5], sums[0][:16].reshape(8, 2)]}, "row_sums[0]"),
        ({"amax": inside}, "amax"),
        ({"amax": sums[1][1:2]}, "amax"),
        ({"amax": residual[1].base[:1]}, "amax"),
        ({"alpha": inside}, "out[0]"),
        ({"beta": sums[1][2:]}, "row_sums[1]"),
        ({"alpha": given["amax"]}, "amax"),
    ):
        assert found.by_c(given | changed) is None, changed
        assert found.by_python(given | changed) == argument or argument is None, changed


def test_an_output_in_what_its_own_group_has_is_left_to_python(calls):
    found = calls("tensors")
    given = usual(found.kernel)
    first = given["out"][0].base
    for changed in (
        {"a": [np.lib.stride_tricks.as_strided(given["out"][0], (70, 64), (16, 2)), *given["a"][1:]]},
        {"c": [first[4 : 4 + 70 * 24].reshape(70, 24), *given["c"][1:]]},
        {"bias": [first[8:32], *given["bias"][1:]]},
        {"row_sums": [given["residual"][0].base[:70], *given["row_sums"][1:]]},
    ):
        assert found.by_c(given | changed) is None
        assert found.by_python(given | changed) in ("a[0]", "out[0]", "row_sums[0]")
    assert found.by_c(given) is not None


def test_lines_too_far_apart_for_32_bits_are_left_to_python(calls):
    found = calls("tensors")
    given = usual(found.kernel)
    far = [np.lib.stride_tricks.as_strided(given["a"][1], (3, 72), (2**32, 2)), given["residual"][1]]
    far[1] = np.lib.stride_tricks.as_strided(far[1], (3, 40), (2**33, 4))
    for name, one in zip(("a", "residual"), far, strict=True):
        other = given | {name: [given[name][0], one, *given[name][2:]]}
        assert found.by_c(other) is None and found.by_python(other) == f"{name}[1]"


def test_calls_leave_no_references(calls):
    found = calls("tensors")
    call, given = found.kernel, {name: wrapped(value) for name, value in usual(found.kernel).items()}
    kept = [
        given,
        *(value for value in given.values() if not isinstance(value, int | float)),
        *(one for value in given.values() if isinstance(value, list) for one in value),
    ]
    before = [sys.getrefcount(one) for one in kept]
    for _ in range(200):
        assert call(**given) is not LEFT and call(**given, unknown=1) is LEFT and call(**{**given, "b": given["a"]}) is LEFT
    assert [sys.getrefcount(one) for one in kept] == before


def test_the_library_is_asked_once_for_all_threads(calls, monkeypatch):
    """While Python answers, another thread may make the first call too."""
    found, asked = calls("plain"), []
    given = {name: wrapped(value) for name, value in usual(found.kernel).items()}
    functions = fast._no_functions()
    again: list[Any] = []

    def answer() -> Any:
        asked.append(1)
        if len(asked) == 1:
            assert again[0](**given) is not LEFT
        return functions

    monkeypatch.setattr(fast, "_no_functions", answer)
    again.append(calls("plain").kernel)
    before = sys.getrefcount(functions[1])
    assert again[0](**given) is not LEFT and len(asked) == 2
    after = sys.getrefcount(functions[1])
    assert after == before + 1


def test_names_and_extents_that_only_some_kernels_take(calls):
    found, gated = calls("plain"), calls("gated")
    for unknown in ("bias", "group_m", "group_status"):
        other = usual(found.kernel) | {unknown: [np.zeros(8, np.int32)] * 6}
        assert found.by_c(other) is None and found.by_python(other) == unknown
    given = usual(gated.kernel)
    odd = given | {"b": [*given["b"][:4], zeros(9, 24).T, given["b"][5]]}
    assert gated.by_c(odd) is None and gated.by_python(odd) == "b[4]"


def test_without_memory_of_the_library_it_is_left_to_python(calls, monkeypatch):
    monkeypatch.setattr(fast, "_no_functions", lambda: (None, None, None, 0, 0))
    found = calls("plain")
    given = usual(found.kernel)
    assert found.by_c(given) is None and isinstance(found.by_python(given), dict)


def test_more_types_of_arrays_than_it_keeps_are_left_to_python(calls, monkeypatch):
    monkeypatch.setattr(fast, "_exchange_of", lambda kind: exchange_of(Array) if issubclass(kind, Array) else 0)
    found = calls("plain")
    given = usual(found.kernel)
    kinds = [type(f"Array{i}", (Array,), {}) for i in range(6)]
    before = [sys.getrefcount(kind) for kind in kinds]
    made = []
    for kind in (*kinds, *kinds):
        other = {name: [kind(one) for one in value] if isinstance(value, list) else value for name, value in given.items()}
        made.append(found.kernel(**other) is not LEFT)
    del other, kind
    assert made == [True] * 4 + [False] * 2 + [True] * 4 + [False] * 2
    assert found.by_c(given) is None and isinstance(found.by_python(given), dict)
    found.kernel._fast = None  # nothing else has the types
    assert [sys.getrefcount(kind) for kind in kinds] == before


def test_answers_of_methods_of_python_are_asked_for(calls, monkeypatch):
    """Those of torch's tensors are functions of C, which it calls as they are."""
    found = calls("plain")
    given = usual(found.kernel)
    assert found.by_c(given) is not None
    for name, wrong in (
        ("requires_grad", True),
        ("requires_grad", property(lambda self: 1 / 0)),
        ("is_neg", lambda self: True),
    ):
        with monkeypatch.context() as other:
            other.setattr(Array, name, wrong)
            assert found.by_c(given) is None


def test_memory_is_given_back_where_the_library_has_none_left(calls, monkeypatch):
    memory: dict[int, np.ndarray] = {}

    def take(size: int, stream: int) -> int:
        if memory:
            raise MemoryError("for the arrays there was some, for the workspace there is none")
        made = np.zeros(size, np.uint8)
        memory[made.ctypes.data] = made
        return int(made.ctypes.data)

    def give_back(address: int) -> None:
        for one in [*iter([address])]:  # which fails where an exception is set
            del memory[one]

    monkeypatch.setattr(fast, "_no_functions", lambda: (None, take, give_back, 0, 0))
    found = calls("plain")
    assert found.by_c(usual(found.kernel)) is None and not memory
