"""A planted fault never passes: each mutation of mutations.py is compiled, run and judged.

    python -m pytest tests/gpu/test_mutations.py -q

compiles all of them in one build, as wide as the machine, and ends with a table of what was seen. With -k
'hopper or sm90', those of wgmma kernels alone.
"""

from __future__ import annotations

import os

import pytest

from mmagen.build.build import build
from mmagen.generate.write import write
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.run import run
from mmagen.verify.verdict import judge
from tests.support.mutation import GPU
from tests.support.mutations import CONTROLS, MUTATIONS, asked, mutated, originals, project

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def built(request, tmp_path_factory):
    """Name -> build of every mutation, control and original that is to be tried."""
    folder = tmp_path_factory.mktemp("mutations")
    chosen = [item.callspec.params for item in request.session.items if item.path == request.path]
    edited = [params[kind] for params in chosen for kind in ("mutation", "control") if kind in params]
    everything = {mutation.name: mutated(mutation) for mutation in edited}
    everything |= {params["spec"]: project(params["spec"], params["spec"]) for params in chosen if "spec" in params}
    for name, files in everything.items():
        write(files, folder / name)
    toolchain = find_toolchain(want=(*COMPILE, "gpus"))
    results = build([folder / name for name in everything], toolchain, programs=("verify",), jobs=len(os.sched_getaffinity(0)))
    return {result.name: result for result in results}


def _verdict(result, problems):
    assert result.ok, f"a mutation must compile, or it proves nothing: {result.reason}"
    arguments = [part for problem in problems for part in ("--problem", problem)]
    return judge(result, run(result, args=[*arguments, "--no-timing"], timeout_s=120))


@pytest.mark.parametrize("mutation", asked(GPU, MUTATIONS), ids=lambda mutation: mutation.name)
def test_a_planted_fault_is_seen(built, mutation, record_property):
    verdict = _verdict(built[mutation.name], mutation.problems)
    record_property("mutation", (mutation.name, mutation.seen, verdict.disposition, verdict.reason[:60]))
    assert verdict.disposition in ("incorrect", "failed"), f"{verdict.disposition}: {mutation.seen}, but it was not seen"


@pytest.mark.parametrize("control", asked(GPU, CONTROLS), ids=lambda control: control.name)
def test_a_late_warp_alone_is_no_fault(built, control, record_property):
    verdict = _verdict(built[control.name], control.problems)
    record_property("mutation", (control.name, control.seen, verdict.disposition, verdict.reason[:60]))
    assert verdict.disposition == "passed", verdict.reason


@pytest.mark.parametrize("spec", originals())
def test_the_original_passes_the_same_problems(built, spec, record_property):
    verdict = _verdict(built[spec], originals()[spec])
    record_property("mutation", (spec, "nothing", verdict.disposition, verdict.reason[:60]))
    assert verdict.disposition == "passed", verdict.reason
