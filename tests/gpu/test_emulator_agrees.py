"""The same inputs give the same results on the GPU and in the emulator, for every spec that multiplies.

python -m pytest tests/gpu/test_emulator_agrees.py -q
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from mmagen.build.ptx import compile_ptx
from mmagen.families import plan
from mmagen.generate.write import write
from mmagen.plan.plans import ProductPlan
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.compare import compare
from mmagen.verify.emulated.formats import is_integer
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import values
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.session import tasks
from tests.gpu.driver import Gpu
from tests.gpu.driver import multiply as multiply_on_gpu
from tests.support.mutations import SPECS, project

pytestmark = pytest.mark.gpu

# Of one matrix. Those of problems whose lines lie 2^31 elements apart are virtual memory, nearly all of it untouched, which a copy
# would make real; verify runs them on the GPU.
_MOST_BYTES = 1 << 28


def _plan(name):
    path = SPECS / f"{name}.yaml"
    return plan(load(path.read_bytes(), path.name).spec)


_PLANS = {path.stem: _plan(path.stem) for path in sorted(SPECS.glob("*.yaml"))}
# Those whose operands are copied by threads: the driver has no tensor maps for TMA.
DRIVEN = {
    name: one
    for name, one in _PLANS.items()
    if isinstance(one, ProductPlan) and all(operand.gmem_copies for operand in one.operands)
}


@pytest.fixture(scope="module")
def gpu():
    with Gpu() as device:
        yield device


@pytest.mark.parametrize("name", DRIVEN)
def test_the_gpu_computes_what_the_emulator_does(name, gpu, tmp_path):
    write(project(name, name), tmp_path / name)
    ptx = compile_ptx(tmp_path / name, find_toolchain(want=COMPILE))
    assert not ptx.error
    for task in _near(tasks(_plan(name), ptx, (), 7, None)):
        here = operands(task.plan, task.problem, task.distribution, task.seed)
        there = deepcopy(here)
        written, (report,) = multiply(task, here)
        multiply_on_gpu(gpu, task, there)
        assert not report.findings
        if task.distribution == "small_int" or (is_integer(task.plan.atom.type_d.word) and is_integer(here.d.word)):
            assert np.array_equal(here.d.memory, there.d.memory), f"{name} {task.problem.text}: not bit for bit"
            continue
        # Both lie within the derived bound of the exact result, so within twice of it of each other.
        for data in (here, there):
            assert compare(task.plan, task.problem, data, written, "uniform").reason == ""
        assert np.isfinite(values(there.d)).all()


def _near(found):
    """Tasks whose matrices can be copied to a GPU that others use too."""
    near = [task for task in found if all(size <= _MOST_BYTES for size in _sizes(task))]
    assert near
    return near


def _sizes(task):
    data = operands(task.plan, task.problem, task.distribution, task.seed)
    return [len(matrix.memory) for matrix in data.matrices.values()]
