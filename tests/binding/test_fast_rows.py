"""Kernels of groups whose rows lie in common matrices through the compiled caller: the struct that kernel.py makes, or None."""

from __future__ import annotations

import ctypes
import itertools
import random
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
from mmagen.host_runtime.arguments import Arguments
from tests.binding.exchange import Array, exchange_of

SPEC = {
    "mmagen": 1,
    "name": "rows",
    "kernel": "gemm",
    "atom": "SM90_64x32x16_F32F16F16_SS",
    "layout": "TN",
    "tile": [64, 32, 64],
    "schedule": "pingpong",
    "stages": 3,
    "epilogue": ["alpha", "beta_c", {"bias": "column"}, {"add": "residual"}, "column_sums", {"cast": "f16"}],
}
M, N, K, GROUPS = 100, 24, 72, 3
USUAL = {"out": None, "c": None, "alpha": 1, "beta": 0, "stream": None}
LEFT = object()


class Calls:
    """A kernel that computes nothing and keeps the struct of its last call."""

    def __init__(self, grouped: str):
        self.struct: bytes | None = None

        def run(arguments: Any, stream: int | None) -> int:
            found = arguments.contents
            self.struct = ctypes.string_at(ctypes.addressof(found), found.struct_size)
            return 0

        functions = {"run": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Arguments), ctypes.c_void_p)(run)}
        about = mmagen.plan({**SPEC, "grouped": grouped}).facts.description
        self.kernel = Kernel(Entry("rows", Path("none"), about, functions), devices=(CPU,))
        assert self.kernel._fast is not None
        self.python = self.kernel._call
        self.kernel._call = lambda *given: LEFT  # type: ignore[method-assign]

    def by_c(self, given: dict[str, Any]) -> bytes | None:
        """What the compiled caller passed to the kernel; None where it left the call alone, having called nothing."""
        self.struct = None
        arrays = {name: Array(value) if isinstance(value, np.ndarray) else value for name, value in given.items()}
        left = self.kernel(**arrays) is LEFT
        assert left == (self.struct is None)
        return self.struct

    def by_python(self, given: dict[str, Any]) -> bytes | str:
        """The same of kernel.py; the argument where it refuses."""
        self.struct = None
        further = {name: value for name, value in given.items() if name not in ("a", "b", *USUAL)}
        try:
            self.python(*((USUAL | given)[name] for name in ("a", "b", *USUAL)), further)
        except ArgumentError as error:
            assert self.struct is None
            return error.argument
        return self.struct or "nothing to do"


@pytest.fixture(params=["contiguous", "masked"])
def grouped(request, monkeypatch) -> str:
    if fast._module() is None:
        pytest.skip("no C compiler or no headers of Python")
    monkeypatch.setattr(fast, "_exchange_of", exchange_of)
    return str(request.param)


def zeros(*shape: int, gap: int = 0, type: Any = np.float16) -> np.ndarray:
    return np.zeros((*shape[:-1], shape[-1] + gap), type)[..., : shape[-1]]


def usual(grouped: str, ends: bool = False) -> dict[str, Any]:
    stacked = grouped == "contiguous"
    head = () if stacked else (GROUPS,)
    given = {
        "a": zeros(*head, M, K, gap=8),
        "b": zeros(GROUPS, N, K).swapaxes(1, 2),
        "out": zeros(*head, M, N, gap=8),
        "c": zeros(*head, M, N),
        "alpha": 2,
        "beta": 0.5,
        "stream": 7,
        "bias": zeros(GROUPS, N),
        "residual": zeros(*head, M, N, gap=8),
        "column_sums": zeros(GROUPS, N, type=np.float32),
        "group_status": np.zeros(GROUPS, np.int32),
    }
    if not stacked:
        return given | {"group_m": np.full(GROUPS, 5, np.int32)}
    return given | ({"group_ends": np.full(GROUPS, 9, np.int32)} if ends else {"group_offsets": np.arange(4, dtype=np.int32)})


def changes(value: Any) -> list[Any]:
    """Values in place of an argument, most of them wrong."""
    if not isinstance(value, np.ndarray):
        return [None, "1", 3, value]
    wide = np.zeros((*value.shape[:-1], value.shape[-1] * 2), value.dtype)
    return [
        None,
        1,
        value.astype(np.float64),
        value.astype(np.int64),
        value[:-1],
        value[..., :-1],
        value[:0],
        value[None],
        value[0],
        value[:1],
        value[::-1],
        wide,
        wide[..., ::2],
        np.swapaxes(value, -1, -2) if value.ndim > 1 else value,
        np.concatenate([value, value]),
        value.reshape(1, *value.shape),
        np.zeros_like(value),
    ]


def test_usual_calls_are_made_without_python(grouped):
    calls = Calls(grouped)
    for ends in (False, True):
        given = usual(grouped, ends)
        assert calls.by_c(given) == calls.by_python(given) is not None
        for name, value in (("b", given["b"][0]), ("bias", given["bias"][0]), ("group_status", None), ("c", given["out"])):
            assert calls.by_c(given | {name: value}) == calls.by_python(given | {name: value}) is not None, name
        assert calls.by_c(given | {"a": given["a"][:1]}) == (
            calls.by_python(given | {"a": given["a"][:1]}) if grouped == "masked" else None
        ), "one A of a single matrix for all groups, where each group may have its own"


def test_every_argument_that_is_wrong_alone_is_left_to_python(grouped):
    calls = Calls(grouped)
    refused = set()
    for ends in (False, True):
        given = usual(grouped, ends)
        for name, value in given.items():
            for change in changes(value):
                other = given | {name: change}
                found, wanted = calls.by_c(other), calls.by_python(other)
                assert found is None or found == wanted, (name, getattr(change, "shape", change), wanted)
                if isinstance(wanted, str):
                    refused.add(name)
    assert refused >= set(usual(grouped)) - {"stream"}


def test_pairs_of_changes_agree(grouped):
    calls = Calls(grouped)
    dice = random.Random(grouped)
    computed = 0
    for ends, _ in itertools.product((False, True), range(400)):
        given = usual(grouped, ends)
        pair = dice.sample(sorted(given), 2)
        other = given | {name: dice.choice(changes(given[name])) for name in pair}
        found, wanted = calls.by_c(other), calls.by_python(other)
        assert found is None or found == wanted, {name: getattr(other[name], "shape", other[name]) for name in pair}
        computed += found is not None
    assert computed > 10


def test_sizes_are_given_in_one_way(grouped):
    calls = Calls(grouped)
    given = usual(grouped)
    sizes = calls.kernel._sizes
    none = {name: value for name, value in given.items() if name not in sizes.names}
    assert calls.by_c(none) is None and calls.by_python(none) == sizes.names[0]
    if grouped == "contiguous":
        both = given | usual(grouped, ends=True)
        assert calls.by_c(both) is None and calls.by_python(both) == "group_offsets"
        assert calls.by_c(given | {"group_ends": None}) == calls.by_python(given | {"group_ends": None})


def test_a_call_without_groups_is_left_to_python(grouped):
    calls = Calls(grouped)
    name = calls.kernel._sizes.names[0]
    given = usual(grouped) | {"b": usual(grouped)["b"][0], "group_status": None, "c": None, "beta": 0}
    given |= {name: given[name][0] for name in ("bias", "column_sums")}
    if grouped == "masked":
        given |= {name: given[name][0] for name in ("a", "residual")} | {"out": given["out"][:0]}
    for few in range(2):
        other = given | {name: given[name][:few]}
        if grouped == "masked" and few == 1:
            other["out"] = usual(grouped)["out"][:1]
            assert calls.by_c(other) == calls.by_python(other)
        else:
            assert calls.by_c(other) is None and calls.by_python(other) in (name, "nothing to do")


def test_memory_that_overlaps_is_left_to_python(grouped):
    calls = Calls(grouped)
    given = usual(grouped)
    whole = np.zeros(given["out"].size * 4, np.float16)
    out = whole[: given["out"].size].reshape(given["out"].shape)
    inside = {
        "a": whole[: given["a"].size].reshape(given["a"].shape),
        "b": whole[: given["b"].size].reshape(GROUPS, N, K).swapaxes(1, 2),
        "c": whole[8 : 8 + given["c"].size].reshape(given["c"].shape),
        "bias": whole[: GROUPS * N].reshape(GROUPS, N),
        "residual": whole[: out.size].reshape(out.shape),
        "group_status": whole[: GROUPS * 2].view(np.int32),
    }
    for name, value in inside.items():
        other = given | {"out": out, name: value}
        assert calls.by_c(other) is None and calls.by_python(other) in ("out", "group_status"), name
    assert calls.by_c(given | {"out": out}) is not None
    for changed in ({"alpha": out.reshape(-1)[-2:].view(np.float32)}, {"beta": given["group_status"].view(np.float32)[:1]}):
        assert calls.by_c(given | {"out": out} | changed) is None
        assert calls.by_python(given | {"out": out} | changed) in ("out", "group_status"), changed
