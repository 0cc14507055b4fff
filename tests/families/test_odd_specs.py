"""The odd kernels that only a GPU runs are legal specs all the same, each with a name of its own."""

import pytest
from pydantic import ValidationError

from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.spec.load import load
from mmagen.spec.model import Spec
from tests.support.mutations import ODD, SPECS

ODD_SPECS = sorted(ODD.glob("*.yaml"))


@pytest.mark.parametrize("path", ODD_SPECS, ids=lambda path: path.stem)
def test_it_renders(path):
    it = plan(load(path.read_text(), path.name).spec)
    assert it.name == f"odd_{path.stem}" and all(bool(operand.tma) == ("sm_90a" in it.arch) for operand in it.operands)
    assert f"src/{it.name}.cu" in render(it)


@pytest.mark.parametrize("path", [*ODD_SPECS, *sorted(SPECS.glob("*gemm*.yaml"))], ids=lambda path: path.stem)
def test_an_epilogue_cannot_take_the_name_of_an_argument_that_a_kernel_has(path):
    it = plan(load(path.read_text(), path.name).spec)
    for name in [one.name for one in it.arguments.tensors if one.part != "epilogue"]:
        with pytest.raises(ValidationError, match="is the name of another argument"):
            Spec.model_validate(it.spec.model_dump(by_alias=True) | {"epilogue": [{"add": name}]})
