"""Another epilogue functor takes LinearCombination's place in Config::Epilogue, in every epilogue there is."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.build.ptx import compile_ptx
from mmagen.families import plan
from mmagen.generate.write import write
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.matrix import values
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.task import Task
from mmagen.verify.emulated.verify import parse_problem
from tests.support.mutations import project
from tests.support.selection import representatives

pytestmark = pytest.mark.nvcc

# D = max(alpha * accumulator + beta * C, 0), with the arguments of the functor that it derives from.
RELU = """\
template <class ElementD, class Accumulator, class Scalar>
struct Relu : mmagen::LinearCombination<Scalar, Accumulator, Scalar> {
  using Base = mmagen::LinearCombination<Scalar, Accumulator, Scalar>;
  using Base::Base;

  CUTE_DEVICE static ElementD clamp(Scalar x) { return mmagen::convert<ElementD>(x > Scalar(0) ? x : Scalar(0)); }
  CUTE_DEVICE ElementD operator()(Accumulator accumulator) const { return clamp(Base::operator()(accumulator)); }
  CUTE_DEVICE ElementD operator()(Accumulator accumulator, ElementD source) const {
    return clamp(Base::operator()(accumulator, static_cast<Scalar>(source)));
  }
};
"""
# A project, and problems for its epilogues: stores by vector and by element; by TMA, by element at ragged ends, without TMA.
CASES = {
    "fma_gemm_f32": ("40,48,64", "40,45,40:ld_pad=3:beta=1"),
    "sm90_gemm_warpgroup": ("40,128,64:beta=2", "40,100,64:ld_pad=4:alpha=-1", "33,45,40:offset=1:beta=1"),
}


@pytest.mark.parametrize("name", representatives(CASES, ("sm90_gemm_warpgroup",)))
def test_a_functor_of_ones_own(name, tmp_path):
    files = project(name, name)
    config = f"include/{name}/config.cuh"
    text = files[config].decode()
    assert text.count("mmagen::LinearCombination<") == 1
    text = text.replace("mmagen::LinearCombination<", "Relu<").replace("namespace", f"{RELU}\nnamespace", 1)
    write({**files, config: text.encode()}, tmp_path / name)
    ptx = compile_ptx(tmp_path / name, find_toolchain(want=COMPILE))
    assert not ptx.error, ptx.error
    spec = load((tmp_path / name / "spec.yaml").read_bytes(), name).spec
    made = plan(spec)
    for text in CASES[name]:
        problem = parse_problem(text)
        data = operands(made, problem, "small_int", 1)
        _, (report,) = multiply(Task(made, ptx, problem, "small_int", 1), data)
        linear = problem.alpha * values(data.a) @ values(data.b).transpose(0, 2, 1)
        if data.c:
            linear = linear + problem.beta * values(data.c)
        assert (linear < 0).any() and not report.findings
        assert (values(data.d) == np.maximum(linear, 0)).all(), text
