"""Every spec verifies on the CPU without a false alarm, and no planted fault does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmagen.build.ptx import compile_ptx
from mmagen.families import plan
from mmagen.generate.write import write
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.session import run_tasks, tasks
from mmagen.verify.emulated.verify import emulate_all, parse_problem
from tests.support.mutations import CONTROLS, EMULATOR, MUTATIONS, SPECS, asked, mutated, project

pytestmark = pytest.mark.nvcc

# Headers of host code: of a fault there the whole project is compiled, of others the PTX alone.
_HOST = ("gemm_arguments", "gemm_launch", "micro_launch", "sm90_launch", "mmagen/tile_scheduler", "sm90_tile_scheduler_stream_k")
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


def _in_host_code(mutation):
    return any(host in edit.file for edit in mutation.edits for host in _HOST)


@pytest.fixture(scope="module")
def original(made_once):
    """The unedited project of a spec, whose host code all edits of its kernels share."""

    def compiled(spec):
        def make(folder):
            write(project(spec, spec), folder / spec)
            assert not compile_ptx(folder / spec, find_toolchain(want=COMPILE)).error

        return compile_ptx(made_once(f"emulated_{spec}", make) / spec, find_toolchain(want=COMPILE))

    return compiled


def _with_the_kernel_of(files, ptx, tmp_path):
    """The original with the PTX that an edit makes of its main translation unit."""
    # The second unit of a wgmma kernel takes as long to compile as the first; no edit here needs it.
    write({path: b"" if path.endswith("_unaligned.cu") else data for path, data in files.items()}, tmp_path / ptx.name)
    edited = compile_ptx(tmp_path / ptx.name, find_toolchain(want=COMPILE), host=False)
    assert not edited.error, edited.error
    return replace(ptx, units={**ptx.units, ptx.name: edited.text})


def _small(problem):
    extents = problem.split(":")[0].split(",")
    product = 1
    for extent in extents:
        product *= int(extent)
    return product <= _LARGEST


def _always(mutation):
    return "hopper" in mutation.name or _in_host_code(mutation)


@pytest.mark.parametrize("mutation", _half(asked(EMULATOR, MUTATIONS), always=_always), ids=lambda mutation: mutation.name)
def test_a_planted_fault_is_seen_emulated(mutation, original, tmp_path):
    problems = mutation.problems if all(map(_small, mutation.problems)) else ()
    if _in_host_code(mutation):
        verdict = _verdict(mutated(mutation), mutation.name, tmp_path, problems)
        assert verdict.build.ok, verdict.reason
        records = verdict.records
    else:
        ptx = _with_the_kernel_of(mutated(mutation, mutation.spec), original(mutation.spec), tmp_path)
        spec = load((tmp_path / mutation.spec / "spec.yaml").read_bytes(), mutation.name).spec
        work = tasks(plan(spec), ptx, [parse_problem(problem) for problem in problems], 1, None)
        records = [record for result in run_tasks(work, 1, lambda *_: None) for record in result.records]
    wrong = [record["reason"] for record in records if record["disposition"] in ("incorrect", "failed")]
    assert wrong, f"{mutation.seen}, but it was not seen"
    assert not any("host code" in reason for reason in wrong), "the launch failed, whatever the fault"


@pytest.mark.parametrize("control", asked(EMULATOR, CONTROLS), ids=lambda control: control.name)
def test_a_late_warp_alone_is_no_fault_emulated(control, tmp_path):
    assert _verdict(mutated(control), control.name, tmp_path, control.problems).word == "passed (emulated)"
