"""Which calls of the functions that prune, compress and check verify makes."""

from __future__ import annotations

from types import SimpleNamespace

from mmagen.families import plan
from mmagen.spec.load import load
from mmagen.verify.emulated import compressor
from tests.support.mutations import ODD


def test_what_is_read_is_also_passed_once_for_a_whole_batch(monkeypatch):
    """A stride of 0, which is legal of a dense matrix and of metadata that are checked, and of nothing that is written."""
    asked = []

    def emulate(task, function, memory, values):
        asked.append((function, values))

    monkeypatch.setattr(compressor, "_emulate", emulate)
    monkeypatch.setattr(compressor, "_same", lambda *_: None)
    monkeypatch.setattr(compressor, "_same_number", lambda *_: None)
    of = plan(load((ODD / "sparse_bf16.yaml").read_bytes(), "sparse_bf16").spec)
    compressor.check_compressor(SimpleNamespace(product=of, seed=1), 40, 72)

    def strides(function, member):
        return {values[f"batch_stride_{member}"] == 0 for name, values in asked if name == function}

    assert strides("compress", "dense") == strides("prune", "dense") == strides("check_metadata", "metadata") == {True, False}
    assert strides("compress", "values") == strides("compress", "metadata") == strides("prune", "pruned") == {False}


def test_only_one_of_dense_and_pruned_is_aligned(monkeypatch):
    """A faulty kernel might check the alignment of one matrix and use vectors on the other."""
    asked = set()

    def emulate(task, function, memory, values):
        if function == "prune":
            lines = [values[f"{one}_{name}"] * 2 for name in ("dense", "pruned") for one in ("ld", "batch_stride")]
            asked.add((lines[0] % 16 == lines[1] % 16 == 0, lines[2] % 16 == lines[3] % 16 == 0))

    monkeypatch.setattr(compressor, "_emulate", emulate)
    monkeypatch.setattr(compressor, "_same", lambda *_: None)
    monkeypatch.setattr(compressor, "_same_number", lambda *_: None)
    of = plan(load((ODD / "sparse_bf16.yaml").read_bytes(), "sparse_bf16").spec)
    compressor.check_compressor(SimpleNamespace(product=of, seed=1), 40, 75)
    assert asked >= {(True, False), (False, True)}


def test_a_shared_matrix_is_compressed_to_the_same_for_the_whole_batch():
    of = plan(load((ODD / "sparse_bf16.yaml").read_bytes(), "sparse_bf16").spec)
    made = compressor.drawn(of.atom, 16, 16, True, 3, 1, shared=True)
    assert made.dense.batch_stride == 0 and len(made.dense.memory) < 2 * 16 * 16 * 2
    for of_each in (made.values, made.pruned):
        assert of_each[0].tobytes() == of_each[1].tobytes()
