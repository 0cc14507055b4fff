"""plan of complex atoms: which kernels there are, what they refuse, and what they count."""

from __future__ import annotations

import pytest

from mmagen.core.errors import SpecFaults
from mmagen.families import plan
from mmagen.generate.render import render
from mmagen.mma.catalogue import operations
from mmagen.plan.bank_conflicts import load
from mmagen.plan.devices import DEVICES
from mmagen.plan.launch import launch
from mmagen.spec.load import load as load_spec
from mmagen.spec.model import LAYOUTS, Problem, Spec
from tests.support.mutations import SPECS

BASE = {
    "mmagen": 1,
    "name": "g",
    "kernel": "gemm",
    "atom": "SM80_8x8x4_C64C64C64C64_TN",
    "layout": "TN",
    "tile": [32, 32, 8],
    "atoms_layout": [2, 2, 1],
}
NAMES = [o.name for o in operations() if o.type_d == "c64"]


def faults(**changes):
    with pytest.raises(SpecFaults) as caught:
        plan(Spec.model_validate(BASE | changes))
    return {fault.key: fault for fault in caught.value.faults}


@pytest.mark.parametrize("atom", NAMES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_atom_has_a_gemm_without_bank_conflicts(atom, layout):
    made = plan(Spec.model_validate(BASE | {"atom": atom, "layout": layout, "tile": [64, 32, 16]}))
    assert made.epilogue.scalar.word == "f64" and made.epilogue.out.word == "c64"
    assert [load(made, operand).ways for operand in made.operands] == [1.0, 1.0]


@pytest.mark.parametrize("out", ["f64", "f32", "bf16"])
def test_d_is_complex(out):
    found = faults(epilogue={"out": out})[("epilogue", "out")]
    assert f"{out} cannot be converted from c64" in found.what and found.remedy == "one of c64"
    assert plan(Spec.model_validate(BASE | {"epilogue": {"out": "c64"}})).epilogue.out.word == "c64"


def test_real_sums_do_not_become_complex():
    changed = {"atom": "SM80_8x8x4_F64F64F64F64_TN", "epilogue": {"out": "c64"}}
    assert "c64 cannot be converted from f64" in faults(**changed)[("epilogue", "out")].what


@pytest.mark.parametrize("listed", [["alpha", "beta_c", "relu"], ["alpha"], ["alpha", {"bias": "column"}, "beta_c"]])
def test_an_epilogue_is_a_linear_combination(listed):
    found = faults(epilogue=listed)[("epilogue",)]
    assert "alpha * x + beta * C, with real alpha and beta" in found.what
    mended = Spec.model_validate(BASE | {"epilogue": found.change[("epilogue",)]})
    assert plan(mended).epilogue.operations == ()
    assert plan(Spec.model_validate(BASE | {"epilogue": ["alpha", "beta_c"]})).epilogue.operations == ()


def test_single_instructions_stay_single():
    micro = plan(Spec.model_validate({key: BASE[key] for key in ("mmagen", "name", "atom")} | {"kernel": "micro"}))
    assert micro.family == "mmagen.families.instruction.family"


def test_gauss_products_have_no_gemm():
    with pytest.raises(SpecFaults, match="no kernel gemm is built from SM80_8x8x4_GC64C64C64GC64_TN"):
        plan(Spec.model_validate(BASE | {"atom": "SM80_8x8x4_GC64C64C64GC64_TN"}))


def test_operations_are_those_of_real_numbers():
    made, device = plan(Spec.model_validate(BASE)), next(one for one in DEVICES if one.name == "a100")
    it = launch(made, Problem(shape=(64, 96, 40)), device, 1)
    assert it.flop == 8 * 64 * 96 * 40 and it.dram == 16 * (64 * 40 + 96 * 40 + 64 * 96)


@pytest.mark.parametrize("name", ["sm80_gemm_c64", "sm90_gemm_c64_nt"])
def test_a_project_has_the_functor_of_complex_numbers(name):
    path = SPECS / f"{name}.yaml"
    files = render(plan(load_spec(path.read_bytes(), path.name).spec))
    assert "include/mmagen/complex_linear_combination.cuh" in files
    config = files[f"include/{name}/config.cuh"].decode()
    assert "mmagen::ComplexLinearCombination<ElementD, ElementAccumulator, Scalar>" in config
    assert "using Scalar = double;" in config and "cutlass::complex<double>" in config
