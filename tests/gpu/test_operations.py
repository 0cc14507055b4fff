"""MMA operations by themselves on a GPU: right, one by one, and none takes the others with it.

python -m pytest tests/gpu/test_operations.py -q
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from mmagen.mma.catalogue import find
from mmagen.mma.forms import chosen, forms, native_targets
from mmagen.op_tests import case, check
from mmagen.op_tests.batch import batches
from mmagen.op_tests.check import Options, verify_atoms
from mmagen.op_tests.program import encoded, execute
from mmagen.toolchain.find import COMPILE, find_toolchain

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def toolchain():
    return find_toolchain(want=(*COMPILE, "gpus"))


def quiet(*_):
    """Progress that nobody watches."""


@pytest.mark.parametrize(
    "which", ["sm70", "sm75", "sm80", "sm89", "sm90,mma.sync", "SM90_64x24x*", "SM90::GMMA::SPARSE::GMMA_64x48x*"]
)
def test_they_pass_or_say_what_they_need(toolchain, which):
    found = verify_atoms(chosen([which]), toolchain, Options(), quiet)
    assert {v.disposition for v in found} <= {"passed", "not_supported"}, [
        v.reason for v in found if v.disposition != "passed"
    ][:5]
    major, minor = toolchain.gpus[0].capability
    for operation, verdict in zip(chosen([which]), found, strict=True):
        here = any(operation.runs_on(target) for target in native_targets((major, minor)))
        assert (verdict.disposition == "passed") == here, verdict.reason


def test_wrong_metadata_shows(toolchain, tmp_path):
    """The check sees metadata: with each row's nonzeros said to be where another row's are D is wrong."""
    form = forms(find("SM90::GMMA::SPARSE::GMMA_64x16x32_F32F16F16_SS"))[0]
    if toolchain.gpus[0].capability != (9, 0):
        pytest.skip("wgmma is sm_90a's alone")
    program = built(toolchain, form, tmp_path)
    data = case.matrices(form, "small_int", 1)
    right = case.launch_of(form, data, (16, 16))
    moved = np.ascontiguousarray(right.images[3].view(np.uint32).reshape(2, 128)[:, ::-1]).view(np.uint8).ravel()
    wrong = dataclasses.replace(right, images=(*right.images[:3], moved, *right.images[4:]))
    done = execute(program, [encoded(0, launch) for launch in (right, wrong)], tmp_path, 60)
    outcomes = [case.judge(form, executed.d, case.truth_of(form, data, "small_int")) for executed in done]
    assert not outcomes[0].incorrect and outcomes[1].incorrect > 100


def test_an_illegal_address_costs_one_case(toolchain, tmp_path):
    form = forms(find("SM80_16x8x16_F32F16F16F32_TN"))[0]
    program = built(toolchain, form, tmp_path)
    right = case.launch_of(form, case.matrices(form, "small_int", 1), (0, 0))
    stray = dataclasses.replace(right, images=(np.zeros(0, np.uint8), *right.images[1:]))
    done = execute(program, [encoded(0, launch) for launch in (right, stray, right)], tmp_path, 60)
    assert done[0].d == done[2].d is not None and done[1].d is None and "illegal" in done[1].error


def built(toolchain, form, tmp_path):
    """The program of a batch of one."""
    (batch,) = batches([form], native=native_targets(toolchain.gpus[0].capability))
    (one,) = check._build_all([batch], toolchain, Options(), tmp_path, quiet)
    assert one.result.ok and not one.faults
    return one.result.programs["verify"]
