"""What the error bounds detect on a GPU: every type of tools.error_bounds that it can run, right and with planted faults.

    python -m pytest tests/gpu/test_error_bounds.py -q

compiles all of them in one build, and ends with a table of errors and bounds. -k wgmma: those of Hopper alone.
"""

from __future__ import annotations

import os

import pytest

from mmagen.build.build import build
from mmagen.generate.write import write
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.run import run
from tests.support.accumulation_faults import FAULTS, OTHER, VARIABLE, called, project
from tools.error_bounds import SPECS

pytestmark = pytest.mark.gpu

PROBLEM = "256,256,4096"
LONG = "256,256,16384"
SHORT = "256,256,48"  # lines of 8-bit elements begin at 16-byte boundaries, as sparse kernels need them


@pytest.fixture(scope="module")
def built(request, tmp_path_factory):
    """Name -> build of every type that is to be tried."""
    folder = tmp_path_factory.mktemp("error_bounds")
    chosen = [item.callspec.params for item in request.session.items if item.path == request.path]
    wanted = {(params["name"], "other" in params) for params in chosen}
    for name, other in wanted:
        write(project(name, other), folder / called(name, other))
    folders = [folder / called(*one) for one in sorted(wanted)]
    results = build(folders, find_toolchain(want=(*COMPILE, "gpus")), programs=("verify",), jobs=len(os.sched_getaffinity(0)))
    return {result.name: result for result in results}


def _record(result, problem, distribution, note, record_property):
    assert result.ok, result.reason
    done = run(result, args=["--problem", problem, "--dist", distribution, "--no-timing"], timeout_s=120)
    assert not done.reason, done.reason
    record = next(one for one in done.records if one["input_dist"] == distribution)
    if record["disposition"] == "not_supported":
        pytest.skip(record["reason"])
    values = (record["max_abs_err"], record["bound"], record["disposition"])
    record_property("error_bound", (result.name, problem, distribution, note, *values))
    return record


@pytest.mark.parametrize("problem", [PROBLEM, LONG, SHORT])
@pytest.mark.parametrize("distribution", ["uniform", "small_int"])
@pytest.mark.parametrize("name", SPECS)
def test_right_sums_pass(built, name, distribution, problem, record_property):
    record = _record(built[called(name)], problem, distribution, "right", record_property)
    assert record["disposition"] == "passed", record["reason"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("distribution", ["uniform", "small_int"])
@pytest.mark.parametrize("name", SPECS)
def test_a_planted_fault_exceeds_the_bound(built, name, distribution, fault, monkeypatch, record_property):
    monkeypatch.setenv(VARIABLE, fault)
    record = _record(built[called(name)], PROBLEM, distribution, fault, record_property)
    assert record["disposition"] == "incorrect" and "elements wrong" in record["reason"]


@pytest.mark.parametrize("other", [True])
@pytest.mark.parametrize("name", OTHER)
def test_another_accumulation_exceeds_the_bound(built, name, other, record_property):
    result = built[called(name, other)]
    records = [_record(result, PROBLEM, kind, OTHER[name], record_property) for kind in ("uniform", "small_int")]
    assert "incorrect" in {record["disposition"] for record in records}
