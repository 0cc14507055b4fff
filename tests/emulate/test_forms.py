"""The recorder's kernels: they assemble, run in the emulator, and the judgement of their outputs can fail."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.emulate import record
from tests.support.ptx_forms import Form, all_forms
from tests.support.ptx_replay import disagreement, inputs_of, is_float_product, outputs_of, through_function, through_ptx

FORMS = {form.name: form for form in all_forms()}


def _ptxas() -> str | None:
    beside = Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc").resolve().with_name("ptxas")
    return shutil.which("ptxas") or (str(beside) if beside.exists() else None)


def test_names_are_unique_and_inputs_always_the_same():
    again = all_forms()
    assert len(FORMS) == len(again)
    assert all((FORMS[form.name].data == form.data).all() for form in again)


@pytest.mark.nvcc
@pytest.mark.skipif(_ptxas() is None, reason="ptxas is not here")
@pytest.mark.parametrize("name", FORMS)
def test_every_kernel_assembles_for_the_gpu_that_records(tmp_path, name):
    (tmp_path / "probe.ptx").write_text(FORMS[name].ptx())
    command = [_ptxas(), "-arch=sm_90", str(tmp_path / "probe.ptx"), "-o", str(tmp_path / "probe.cubin")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", FORMS)
def test_every_kernel_runs_in_the_emulator(name):
    form = FORMS[name]
    given = inputs_of(form, form.input_bytes())
    np.testing.assert_array_equal(given, form.data)
    outputs = through_ptx(form, given)
    assert outputs.shape == (form.threads, len(form.outputs))
    if form.opcode:
        np.testing.assert_array_equal(outputs, through_function(form, given))


def test_a_wrong_bit_is_found_and_a_bound_is_not_exactness():
    form = FORMS["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"]
    given = form.data
    right = through_function(form, given)
    assert disagreement(form, given, right, right) == ""
    for thread, flip, wrong in ((0, 1, True), (40, 1, False), (40, 1 << 20, True)):
        other = right.copy()
        other[thread, 2] ^= np.uint32(flip)
        assert (disagreement(form, given, right, other) != "") == wrong
    assert "1 of 512 differ; thread 40, %o2" in disagreement(form, given, right, other)


def test_any_nan_is_a_nan_but_not_a_number():
    form = FORMS["mul.rn.f32"]
    ours = through_ptx(form, form.data)
    nans = (ours & 0x7FFFFFFF) > 0x7F800000
    assert nans.any() and disagreement(form, form.data, ours, np.where(nans, np.uint32(0x7FC00000), ours)) == ""
    assert disagreement(form, form.data, ours, np.where(nans, np.uint32(0), ours)) != ""


@pytest.mark.parametrize("name", [name for name in FORMS if is_float_product(FORMS[name])])
def test_transposed_fragments_are_beyond_the_bound(name):
    """The bound must not hide a wrong layout: with two lanes' inputs swapped, some result is refused."""
    form = FORMS[name]
    swapped = form.data.copy()
    swapped[32:64] = swapped[32:64][np.arange(32) ^ 5]
    right, wrong = through_function(form, form.data), through_function(form, swapped)
    assert disagreement(form, form.data, right, wrong) != ""


class _FakeGpu:
    """Runs forms in the emulator, refuses one and loses its context over another."""

    def __init__(self, refused: str, broken: str):
        self.refused, self.broken, self.resets = refused, broken, 0

    def run(self, form: Form) -> bytes:
        if form.name in (self.refused, self.broken):
            raise record.GpuError("cuLaunchKernel: an illegal memory access was encountered (700)")
        return through_ptx(form, form.data).tobytes()

    def reset(self) -> None:
        self.resets += 1


def test_one_failing_form_does_not_lose_the_others(tmp_path, capsys):
    chosen = [FORMS[name] for name in ("add.rn.f32", "mul.rn.f32", "fma.rn.f64", "prmt.b32", "cvt.rn.f16.f32")]
    gpu = _FakeGpu("mul.rn.f32", "prmt.b32")
    ran, failed = record.record(gpu, chosen)
    assert [form.name for form, _ in ran] == ["add.rn.f32", "fma.rn.f64", "cvt.rn.f16.f32"]
    assert sorted(failed) == ["mul.rn.f32", "prmt.b32"] and gpu.resets == 2
    assert "FAILED  prmt.b32: cuLaunchKernel" in capsys.readouterr().out

    from tests.emulate import test_recorded

    record.save(tmp_path / "new" / "file.npz", ran, failed, {"device": "none"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_recorded, "RECORDED", tmp_path / "new" / "file.npz")
        entries = test_recorded._recorded()
    for form, result in ran:
        assert entries[form.name]["ptx"] == form.ptx()
        np.testing.assert_array_equal(inputs_of(form, entries[form.name]["input"]), form.data)
        np.testing.assert_array_equal(outputs_of(form, entries[form.name]["output"]), outputs_of(form, result))


def test_without_a_driver_it_says_so_and_ends_with_77(monkeypatch, tmp_path, capsys):
    def missing(name: str) -> None:
        raise OSError("no such library")

    monkeypatch.setattr(record.ctypes, "CDLL", missing)
    monkeypatch.setattr(record.sys, "argv", ["record.py", str(tmp_path / "out.npz")])
    assert record.main() == 77
    assert "nothing recorded: no NVIDIA driver" in capsys.readouterr().err
    assert not (tmp_path / "out.npz").exists()
