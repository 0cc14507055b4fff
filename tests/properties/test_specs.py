"""What `build` accepts is right: 17 small specs of every family on the CPU; more of them with --specs-count."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mmagen.families.reading import read
from mmagen.plan.plans import ProductPlan
from mmagen.plan.project import ProjectPlan
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.session import only_on_a_gpu
from tests.properties import __main__ as runner
from tests.properties.draw import drawn, named
from tests.properties.together import emulate_together

SEED = 53
# How many of each family, by the call of nvcc that compiles them: a call takes 15 s for headers, and 5 GB for 20 kernels.
GROUPS = (
    {"ownership": 2, "micro": 4, "instruction.family": 1},
    {"mma_gemm": 2, "dmma_gemm": 1},
    {"wgmma.micro": 1, "wgmma.gemm": 4, "wgmma.sparse_gemm": 1, "wgmma.ownership": 1},
)
FEATURES = {"operations", "grouped", "scale", "sparse", "cluster", "split", "weights"}  # that some of them have
ARCH = "sm_90a"  # has all operations that the emulator executes
MOST_REGISTERS = 24  # per thread, of accumulators or fragments; of both where operands are in registers


def _small(plan: ProjectPlan) -> bool:
    """Does it compile in a few seconds once the headers are read?"""
    if plan.spec.configs or only_on_a_gpu(plan):
        return False
    if not isinstance(plan, ProductPlan):
        return True
    kept = (plan.accumulator_registers, plan.fragment_registers)
    return (max(kept) if plan.atom.wgmma else sum(kept)) <= MOST_REGISTERS


def _chosen(group: int) -> list[ProjectPlan]:
    """The first small specs of the seed, as many of each family as the group has."""
    wanted, found = Counter(GROUPS[group]), list[ProjectPlan]()
    for spec in drawn(SEED):
        if wanted.total() == 0:
            return found
        plan, _ = read(spec.text, spec.name)
        if plan and wanted[plan.family.removeprefix("mmagen.families.")] and _small(plan):
            wanted[plan.family.removeprefix("mmagen.families.")] -= 1
            found.append(plan)
    raise AssertionError("drawn() ends")


def test_they_have_the_features_that_are_seldom_drawn():
    found = {feature for plan in _chosen(len(GROUPS) - 1) for feature in named(plan.name).features}
    assert found >= FEATURES


@pytest.mark.nvcc
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_accepted_specs_are_right(group: int, tmp_path: Path):
    plans = _chosen(group)
    verdicts = emulate_together(plans, tmp_path / "together", find_toolchain(want=COMPILE), ARCH)
    assert len(verdicts) == sum(GROUPS[group].values())
    assert [(one.name, one.reason) for one in verdicts if one.disposition != "passed"] == []


@pytest.mark.nvcc
def test_as_many_specs_as_were_asked_for_are_right(request: pytest.FixtureRequest, tmp_path: Path):
    options = request.config.option
    if not options.specs_count:
        pytest.skip("--specs-count says how many specs to verify besides")
    arguments = [f"--{name}={getattr(options, f'specs_{name}')}" for name in ("count", "seed", "shard")]
    out = tmp_path / "specs.jsonl"
    assert runner.main([*arguments, "--on=cpu", f"--out={out}"]) == 0, f"python -m tests.properties --report --out {out}"
