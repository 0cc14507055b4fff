"""What the runner of random specs does on a GPU that cannot run a spec, and what it decodes once for all that it compiled."""

from __future__ import annotations

from types import SimpleNamespace

from mmagen.build.job import BuildResult
from mmagen.families import plan
from mmagen.spec.load import load
from mmagen.toolchain.model import Gpu
from tests.properties import verified
from tests.properties.draw import drawn
from tests.properties.together import Compiled
from tests.properties.verified import Accepted
from tests.support.mutations import SPECS


def test_a_spec_for_another_gpu_is_not_run_and_the_reason_names_both(monkeypatch):
    def build_programs(plans, folder, toolchain, arch):
        return [BuildResult(plan.name, folder, True, arch=("sm_100a", "sm_120a")) for plan in plans]

    monkeypatch.setattr(verified, "build_programs", build_programs)
    monkeypatch.setattr(verified, "run", lambda *_, **__: 1 / 0)
    path = SPECS / "hello_micro.yaml"
    one = Accepted(next(drawn(1)), plan(load(path.read_bytes(), path.name).spec))
    tools = SimpleNamespace(gpus=[Gpu("NVIDIA H200", (9, 0), "580", (13, 0))])
    (record,) = verified.on_gpu([one], tools, 1, 1024)
    assert record["outcome"] == "not_run"
    assert "needs sm_100a or sm_120a; this GPU, NVIDIA H200, has compute capability 9.0 (sm_90)" in record["what"]


def test_the_emulator_is_given_one_module_for_all_that_was_compiled_together():
    """It keeps what it has decoded by name and text: with a name for each plan it would decode the kernels of all for each."""
    tools = SimpleNamespace(nvcc=SimpleNamespace(version="13.0"), cutlass=SimpleNamespace(version="4.2.0"))
    plans = [plan(load((SPECS / f"{name}.yaml").read_bytes(), name).spec) for name in ("hello_micro", "fma_gemm_f32")]
    compiled = Compiled(".version 9.0\n", None, "sm_90a")
    one, two = (compiled.of(each, tools).units for each in plans)
    assert one == two == {"all": compiled.text}
