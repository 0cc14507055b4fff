"""Whose memory a workspace is: which stream it is ordered by, and what is refused where no library keeps it long enough."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from mmagen.binding.errors import ArgumentError
from mmagen.binding.kernel import Kernel
from mmagen.binding.libraries import library_of
from mmagen.binding.shared_library import entries_in
from mmagen.binding.tensors import CUDA

FEW, MANY = 8, 128  # of K: the library of conftest.py wants a workspace for many


class Array:
    """As an array on a GPU of a library without a current stream; its memory is the host's."""

    device = SimpleNamespace(id=0)

    def __init__(self, values: np.ndarray):
        self.values = values

    @property
    def __cuda_array_interface__(self):
        return self.values.__array_interface__

    def __array_namespace__(self):
        return SimpleNamespace(empty=lambda shape, dtype, device: Array(np.empty(shape, dtype)))


@pytest.fixture
def kernel(library, monkeypatch):
    """A kernel that takes such arrays, and the streams that its calls have waited for."""
    waited: list[int] = []
    monkeypatch.setattr("mmagen.binding.kernel.wait_for", waited.append)
    (entry,) = entries_in(library("TN", workspace=True)).values()
    return Kernel(entry, devices=(CUDA,)), waited


def operands(k: int):
    a, b = np.ones((4, k), np.float32), np.ones((6, k), np.float32).T
    return Array(a), Array(b), Array(np.full((4, 6), 7, np.float32))


@pytest.mark.parametrize(("k", "stream", "waits"), [(FEW, None, [0]), (FEW, 9, []), (MANY, None, [0]), (MANY, 9, [9])])
def test_a_library_that_knows_no_stream_gets_its_workspace_back_at_the_end(k, stream, waits, kernel):
    call, waited = kernel
    a, b, out = operands(k)
    call(a, b, out, stream=stream)
    assert waited == waits and (out.values == k).all()


def test_a_workspace_of_a_graph_is_refused_where_nobody_keeps_it(kernel, monkeypatch):
    call, _ = kernel
    monkeypatch.setattr("mmagen.binding.kernel.is_capturing", lambda stream: stream == 9)
    a, b, out = operands(MANY)
    with pytest.raises(ArgumentError, match="stream: it is being captured, and this call needs a workspace of 4096 bytes"):
        call(a, b, out, stream=9)
    assert (out.values == 7).all()
    a, b, out = operands(FEW)
    call(a, b, out, stream=9)
    assert (out.values == FEW).all()


def test_cupy_allocates_for_the_stream_of_the_call(monkeypatch):
    """Its memory pool has an arena for each stream: that of the one that is current when memory is taken."""
    current = [3]

    @contextmanager
    def external(stream):
        current.append(stream)
        yield
        current.pop()

    cuda = SimpleNamespace(get_current_stream=lambda device: SimpleNamespace(ptr=current[-1]), ExternalStream=external)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, empty=lambda shape, dtype: (shape, current[-1])))
    like = type("ndarray", (), {"__module__": "cupy"})()
    cupy = library_of(like)
    assert [cupy.room(like, 16, 0, stream) for stream in (3, 9)] == [((16,), 3), ((16,), 9)] and not cupy.keeps_for_graphs
