"""The emulator against what a GPU computed: every form of tests.support.ptx_forms, recorded by record.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.ptx_forms import all_forms
from tests.support.ptx_replay import disagreement, inputs_of, outputs_of, through_function, through_ptx

RECORDED = Path(__file__).parent / "recorded" / "h200.npz"
FORMS = {form.name: form for form in all_forms()}


def _recorded() -> dict[str, dict]:
    """The manifest's entries by name, with their buffers as bytes; empty without the file."""
    if not RECORDED.exists():
        return {}
    with np.load(RECORDED) as file:
        blobs = {name: file[name].tobytes() for name in ("manifest", "inputs", "outputs")}
    entries = {entry["name"]: entry for entry in json.loads(blobs["manifest"])["forms"]}
    for entry in entries.values():
        for which in ("input", "output"):
            start, size = entry[which]
            entry[which] = blobs[f"{which}s"][start : start + size]
    return entries


ENTRIES = _recorded()
needs_recording = pytest.mark.skipif(
    not ENTRIES, reason="recorded/h200.npz is absent; `python3 -m tests.emulate.record tests/emulate/recorded/h200.npz`"
)


@needs_recording
def test_the_recording_is_of_todays_kernels():
    assert {name for name in ENTRIES if name not in FORMS or FORMS[name].ptx() != ENTRIES[name]["ptx"]} == set()


@needs_recording
@pytest.mark.parametrize("name", FORMS)
def test_a_kernel_computes_what_the_gpu_did(name):
    if name not in ENTRIES:
        pytest.skip("not in the recording: newer than it, or refused by the GPU's driver")
    form = FORMS[name]
    given, recorded = inputs_of(form, ENTRIES[name]["input"]), outputs_of(form, ENTRIES[name]["output"])
    assert disagreement(form, given, through_ptx(form, given), recorded) == ""


@needs_recording
@pytest.mark.parametrize("name", [name for name in FORMS if FORMS[name].opcode])
def test_a_matrix_function_computes_what_the_gpu_did(name):
    if name not in ENTRIES:
        pytest.skip("not in the recording: newer than it, or refused by the GPU's driver")
    form = FORMS[name]
    given, recorded = inputs_of(form, ENTRIES[name]["input"]), outputs_of(form, ENTRIES[name]["output"])
    assert disagreement(form, given, through_function(form, given), recorded) == ""
