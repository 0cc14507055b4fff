"""Whatever is passed to a function of the API, what it raises is an MmagenError that says what is wrong."""

from __future__ import annotations

import re
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

import mmagen

GOOD = np.ones((4, 4), np.float32)


class Exporting:
    """An array by DLPack, as `exported` and `device` say; both may be exceptions."""

    def __init__(self, exported: object, device: object = (1, 0)):
        self.exported, self.device = exported, device

    def __dlpack__(self, **_):
        if isinstance(self.exported, Exception):
            raise self.exported
        return self.exported

    def __dlpack_device__(self):
        if isinstance(self.device, Exception):
            raise self.device
        return self.device


class Interface:
    """An array by `__cuda_array_interface__`: that of a matrix, with changes; or an exception."""

    def __init__(self, error: Exception | None = None, **changes: object):
        self.error, self.changes = error, changes

    @property
    def __cuda_array_interface__(self):
        if self.error:
            raise self.error
        return {"data": (4096, False), "shape": (4, 4), "typestr": "<f4", "version": 3} | self.changes


def strided(shape, strides, count=99, offset=0):
    """Strides in bytes."""
    return np.lib.stride_tricks.as_strided(np.zeros(4 * count, np.uint8)[offset:].view(np.float32), shape, strides)


FOREIGN = {
    "nothing": None,
    "a number": 1.5,
    "text": "x",
    "lists": [[1.0]],
    "a class": np.ndarray,
    "a method that raises": Exporting(KeyError("x")),
    "no capsule": Exporting(5),
    "no device": Exporting(None, None),
    "a device that raises": Exporting(None, ValueError("q")),
    "interface that raises": Interface(RuntimeError("no")),
    "interface with text as data": Interface(data=("a", False)),
    "interface without data": Interface(data=None),
    "interface with a fraction": Interface(shape=(4, 4.5)),
    "interface with a stride too few": Interface(strides=(16,)),
    "interface with strides between elements": Interface(strides=(15, 4)),
    "interface of no type": Interface(typestr="x"),
    "interface with an extent of 65 bits": Interface(shape=(4, 2**64 + 4)),
    "interface with a stride of 65 bits": Interface(strides=(2**66 + 16, 4)),
    "interface with an address of 65 bits": Interface(data=(2**64 + 4096, False)),
    "interface with a negative address": Interface(data=(-4096, False)),
}
MALFORMED = {
    "negative rows": GOOD[::-1],
    "negative columns": GOOD[:, ::-1],
    "every other column": np.ones((4, 8), np.float32)[:, ::2],
    "a vector": GOOD[0],
    "no dimension": np.array(1, np.float32),
    "four dimensions": GOOD[None, None],
    "a batch of a stride of 0 along rows": np.broadcast_to(GOOD[0], (4, 4)),
    "overlapping rows": strided((4, 4), (8, 4)),
    "a negative batch stride": strided((2, 4, 4), (-16, 32, 4)),
    "f64": GOOD.astype(np.float64),
    "complex": GOOD.astype(complex),
    "big endian": GOOD.astype(">f4"),
    "text elements": GOOD.astype("U3"),
    "objects": GOOD.astype(object),
    "a struct": np.zeros((4, 4), [("a", np.float32)]),
    "another shape": np.ones((5, 3), np.float32),
    "another batch": np.ones((7, 4, 4), np.float32),
}


def read_only():
    array = GOOD.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("name", [*FOREIGN, *MALFORMED])
@pytest.mark.parametrize("argument", ("a", "b", "c", "out"))
def test_an_array_that_cannot_be_read_is_named_and_nothing_is_written(argument, name, kernel):
    value = (FOREIGN | MALFORMED)[name]
    batch = np.ones((2, 4, 4), np.float32)  # so that another batch is one
    out = np.full((2, 4, 4), 7, np.float32)
    given = {"a": batch, "b": batch.swapaxes(-1, -2), "c": batch, "out": out, "beta": 1} | {argument: value}
    if value is None and argument == "out":
        pytest.skip("a new one is made")
    with pytest.raises(mmagen.ArgumentError) as raised:
        kernel("TN")(**given)
    assert str(raised.value).startswith(f"{raised.value.argument}: ") and len(str(raised.value)) > 20
    assert argument == raised.value.argument or name.startswith("another"), raised.value
    assert (out == 7).all()


def test_what_cannot_be_written_is_refused(kernel):
    with pytest.raises(mmagen.ArgumentError, match=r"^out: it is read-only"):
        kernel("TN")(GOOD, GOOD.T, out=read_only())


def _named(value: object) -> str:
    """The same in every process, which the address of an object is not."""
    return re.sub(r" at 0x\w+", "", repr(value))


@pytest.mark.parametrize("value", [10**400, "x", None, 1j, [], np.zeros(2, np.float32), np.zeros(1, np.float64)], ids=repr)
def test_scalars(value, kernel):
    for name in ("alpha", "beta"):
        with pytest.raises(mmagen.ArgumentError, match=f"^{name}: "):
            kernel("TN")(GOOD, GOOD.T, c=GOOD, **{name: value})


_NO_STREAMS = ["x", 1.5, object(), b"", True, -1, 2**64, SimpleNamespace(cuda_stream=-1), SimpleNamespace(ptr=lambda: 7)]


@pytest.mark.parametrize("value", _NO_STREAMS, ids=_named)
def test_streams(value, kernel):
    with pytest.raises(mmagen.ArgumentError, match=r"^stream: .* is no "):
        kernel("TN")(GOOD, GOOD.T, stream=value)


@pytest.mark.parametrize(("name", "value"), [*product("mnk", ("x", None, 1.5, 2**63))])
def test_extents(name, value, kernel):
    with pytest.raises(mmagen.ArgumentError, match=f"^{name}: "):
        kernel("TN").can_run(**{name: value})


@pytest.mark.parametrize("value", [5, None, b"x", "\0", [], "/nowhere/at/all", {"a": object()}, {1: 2}, {}], ids=_named)
@pytest.mark.parametrize("function", ("load_spec", "plan", "inspect", "build", "verify", "compile"))
def test_what_is_no_spec(function, value):
    with pytest.raises(mmagen.MmagenError):
        getattr(mmagen, function)(value)


@pytest.mark.parametrize("value", [5, None, b"x", "\0", "/nowhere/at/all", __file__, "/bin/sh"], ids=repr)
def test_what_is_no_library(value):
    with pytest.raises(mmagen.UsageError):
        mmagen.open(value)
