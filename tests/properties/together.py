"""Several projects compiled by one nvcc call: most of the time of a small kernel is that of the CuTe headers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from mmagen.build.job import BuildResult
from mmagen.build.ptx import Ptx
from mmagen.core.process import capture
from mmagen.families.plans import Plan
from mmagen.generate.render import render
from mmagen.host_runtime.build import build_runner, link_library
from mmagen.host_runtime.library import HostLibrary
from mmagen.toolchain.find import Toolchain
from mmagen.verify.emulated.session import run_tasks, tasks
from mmagen.verify.verdict import Verdict, judge

# Those of a project.
_FLAGS = (
    *("-std=c++17", "--expt-relaxed-constexpr", "-lineinfo", "-DNDEBUG", "-O3"),
    *("-Xcompiler=-fPIC", "-keep", "-keep-dir", "made", "-I", "include"),
)


class DoesNotCompile(Exception):
    """What nvcc says."""


def emulate_together(plans: Sequence[Plan], folder: Path, toolchain: Toolchain, arch: str) -> list[Verdict]:
    """Compile the kernels of all plans for `arch` in `folder`, and emulate each. Raises DoesNotCompile."""
    text, host = _compiled(plans, folder, toolchain, arch)
    verdicts = []
    for plan in plans:
        assert toolchain.nvcc and toolchain.cutlass
        ptx = Ptx(
            *(plan.name, plan.kernel, plan.spec_sha, arch, "", toolchain.nvcc.version, toolchain.cutlass.version, 0.0, False),
            units={plan.name: text},
            host=host,
        )
        runs = run_tasks(tasks(plan, ptx, (), 1, None), 1, lambda done, total, what: None)
        verdicts.append(judge(BuildResult(plan.name, folder, True, arch=(arch,), kernel=plan.kernel), *runs))
    return verdicts


def _compiled(plans: Sequence[Plan], folder: Path, toolchain: Toolchain, arch: str) -> tuple[str, HostLibrary]:
    """The PTX of all, and their host code."""
    assert toolchain.nvcc and toolchain.host_compiler and toolchain.cutlass
    (folder / "made").mkdir(parents=True)
    (folder / "all.cu").write_text("".join(_sources(plan, folder) for plan in plans), "utf-8")
    target = arch.removeprefix("sm_")
    tools = ["-ccbin", toolchain.host_compiler.path, "-isystem", toolchain.cutlass.path]
    code = ["-gencode", f"arch=compute_{target},code=compute_{target}"]
    done = capture(
        [toolchain.nvcc.path, *_FLAGS, *tools, *code, "-c", "-o", "made/all.o", "all.cu"], timeout_s=None, cwd=folder
    )
    if done.exit_code != 0:
        raise DoesNotCompile(done.stderr)
    library = HostLibrary(link_library([folder / "made/all.o"], toolchain, os.environ), build_runner(toolchain, os.environ))
    return (folder / "made/all.ptx").read_text("utf-8"), library


def _sources(plan: Plan, folder: Path) -> str:
    """The project's translation units, to be put behind one another; its headers go to the folder."""
    units = []
    for path, data in render(plan, tests=False).items():
        if path.startswith("include/"):
            place = folder / path
            assert not place.exists() or place.read_bytes() == data, f"{path} of {plan.name} is another"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        elif path.startswith("src/"):
            units.append(_with_names_of_its_own(data.decode(), plan.name))
    return "\n".join(units)


# What the unnamed namespace of a unit declares.
_UNNAMED = "Config|Args|run|can_run|query|workspace|config_name|kInterface|last_call|kConfigs|chosen"


def _with_names_of_its_own(unit: str, name: str) -> str:
    """The unit with other names in its unnamed namespace: those of several units would be the same."""
    declarations, begin, rest = unit.partition("\nnamespace {\n")
    return declarations + begin + re.sub(rf'(?<![\w.:"])({_UNNAMED})\b', rf"\1_{name}", rest)
