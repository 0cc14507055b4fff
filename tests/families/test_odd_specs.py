"""The odd kernels that only a GPU runs are legal specs all the same, each with a name of its own."""

import pytest

from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.spec.load import load
from tests.support.mutations import ODD

ODD_SPECS = sorted(ODD.glob("*.yaml"))


@pytest.mark.parametrize("path", ODD_SPECS, ids=lambda path: path.stem)
def test_it_renders(path):
    it = plan(load(path.read_text(), path.name).spec)
    assert it.name == f"odd_{path.stem}" and all(bool(operand.tma) == ("sm_90a" in it.arch) for operand in it.operands)
    assert f"src/{it.name}.cu" in render(it)
