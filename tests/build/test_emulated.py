"""Every spec verifies on the CPU without a false alarm, and no planted fault does."""

from __future__ import annotations

import pytest

from mmagen.generate.write import write
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.verify import emulate_all
from tests.support.mutations import CONTROLS, EMULATOR, MUTATIONS, SPECS, asked, mutated, project

pytestmark = pytest.mark.nvcc

# Faults of host code, of which the emulator runs a mirror image in Python: only a GPU run can see them.
_HOST = ("gemm_arguments", "micro_launch", "mmagen/tile_scheduler")
# wgmma kernels take long to compile, and test_emulated_hopper.py has those; a peak is measured on a GPU or not at all.
_SPECS = sorted(
    path.stem for path in SPECS.glob("*.yaml") if not any(word in path.read_text() for word in ("atom: SM90", "kernel: peak"))
)
_LARGEST = 2**26  # products of a mutation's own problem that are still quickly emulated
_SECONDS = 20  # for one spec, after compilation, on one core


def _half(those, always=lambda one: False):
    """Every second of them is enough for a run that should not take half an hour."""
    return [pytest.param(one, marks=[] if i % 2 == 0 or always(one) else [pytest.mark.more]) for i, one in enumerate(those)]


def _verdict(files, name, tmp_path, problems=()):
    write(files, tmp_path / name)
    toolchain = find_toolchain(want=COMPILE)
    return emulate_all(
        [tmp_path / name],
        toolchain,
        arch=None,
        problems=problems,
        seed=None,
        distribution=None,
        jobs=1,
        progress=lambda done, total, what: None,
    )[0]


@pytest.mark.parametrize("spec", _half(_SPECS))
def test_a_spec_passes_emulated(spec, tmp_path):
    verdict = _verdict(project(spec, spec), spec, tmp_path)
    assert verdict.word == "passed (emulated)", verdict.reason
    assert all(record["device"] == "cpu-ptx" and record["tflops"] is None for record in verdict.records)
    assert not any(record["details"]["findings"] for record in verdict.records)
    assert verdict.seconds - verdict.build.seconds < _SECONDS


def _in_device_code(mutation):
    return not any(host in edit.file for edit in mutation.edits for host in _HOST)


def _without_the_way_around_tma(files):
    """A wgmma kernel's second translation unit takes as long to compile as the first; no mutation here needs it."""
    return {path: b"" if path.endswith("_unaligned.cu") else data for path, data in files.items()}


def _small(problem):
    extents = problem.split(":")[0].split(",")
    product = 1
    for extent in extents:
        product *= int(extent)
    return product <= _LARGEST


@pytest.mark.parametrize(
    "mutation",
    _half(filter(_in_device_code, asked(EMULATOR, MUTATIONS)), always=lambda one: "hopper" in one.name),
    ids=lambda mutation: mutation.name,
)
def test_a_planted_fault_is_seen_emulated(mutation, tmp_path):
    problems = mutation.problems if all(map(_small, mutation.problems)) else ()
    verdict = _verdict(_without_the_way_around_tma(mutated(mutation)), mutation.name, tmp_path, problems)
    assert verdict.build.ok, verdict.reason
    assert verdict.disposition in ("incorrect", "failed"), f"{mutation.seen}, but it was not seen"
    assert not any("no kernel matches" in (record["reason"] or "") for record in verdict.records), "this fails without a fault"


@pytest.mark.parametrize("control", asked(EMULATOR, CONTROLS), ids=lambda control: control.name)
def test_a_late_warp_alone_is_no_fault_emulated(control, tmp_path):
    assert _verdict(mutated(control), control.name, tmp_path, control.problems).word == "passed (emulated)"
