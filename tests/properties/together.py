"""Several projects compiled by one nvcc call: most of the time of a small kernel is that of the CuTe headers."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mmagen.build.job import BuildResult
from mmagen.build.ptx import Ptx
from mmagen.core.process import capture
from mmagen.generate.render import definitions, render
from mmagen.host_runtime.build import build_runner, link_library
from mmagen.host_runtime.library import HostLibrary
from mmagen.plan.project import ProjectPlan
from mmagen.spec.model import Problem
from mmagen.toolchain.find import Toolchain
from mmagen.verify.emulated.session import only_on_a_gpu, run_tasks, tasks
from mmagen.verify.verdict import Verdict, judge

# Those of a project but for -O3, which is for the host's compiler alone: without it that takes a third less time, and the PTX is
# the same.
_FLAGS = (*("-std=c++17", "--expt-relaxed-constexpr", "-lineinfo", "-I", "include"),)


class DoesNotCompile(Exception):
    """What nvcc says."""


@dataclass(frozen=True)
class Compiled:
    """The kernels of several projects in one PTX text, and their host code if that was asked for."""

    text: str
    host: HostLibrary | None
    arch: str

    def of(self, plan: ProjectPlan, toolchain: Toolchain) -> Ptx:
        """As one project's."""
        assert toolchain.nvcc and toolchain.cutlass
        return Ptx(
            *(
                plan.name,
                plan.kernel,
                plan.spec_sha,
                self.arch,
                "",
                toolchain.nvcc.version,
                toolchain.cutlass.version,
                0.0,
                False,
            ),
            units={"all": self.text},  # one name for all plans, so that the emulator decodes the text once
            host=self.host,
        )


def emulate_together(plans: Sequence[ProjectPlan], folder: Path, toolchain: Toolchain, arch: str) -> list[Verdict]:
    """Compile the kernels of all plans for `arch` in `folder`, and emulate each. Raises DoesNotCompile."""
    compiled = compile_together(plans, folder, toolchain, arch)
    return [emulate(plan, compiled, folder, toolchain) for plan in plans]


def emulate(
    plan: ProjectPlan, compiled: Compiled, folder: Path, toolchain: Toolchain, problems: Sequence[Problem] = ()
) -> Verdict:
    """Emulate one of the projects, on the problems that `verify` chooses or on these."""
    runs = run_tasks(tasks(plan, compiled.of(plan, toolchain), problems, 1, None), 1, lambda done, total, what: None)
    build = BuildResult(plan.name, folder, True, arch=(compiled.arch,), kernel=plan.kernel)
    return judge(build, *runs, no_gpu=only_on_a_gpu(plan))


def compile_together(
    plans: Sequence[ProjectPlan], folder: Path, toolchain: Toolchain, arch: str, *, host: bool = True
) -> Compiled:
    """The PTX of all, and their host code unless only the PTX is asked for. Raises DoesNotCompile."""
    (folder / "made").mkdir(parents=True)
    if not host:
        _nvcc(plans, folder, toolchain, arch, ["-ptx", "-o", "made/all.ptx"])
        return Compiled((folder / "made/all.ptx").read_text("utf-8"), None, arch)
    steps = ["-Xcompiler=-fPIC", "-keep", "-keep-dir", "made", "-c", "-o", "made/all.o"]
    _nvcc(plans, folder, toolchain, arch, steps)
    library = HostLibrary(link_library([folder / "made/all.o"], toolchain, os.environ), build_runner(toolchain, os.environ))
    return Compiled((folder / "made/all.ptx").read_text("utf-8"), library, arch)


def _nvcc(plans: Sequence[ProjectPlan], folder: Path, toolchain: Toolchain, arch: str, steps: Sequence[str]) -> None:
    (folder / "all.cu").write_text("".join(sources_of(plan, folder) for plan in plans), "utf-8")
    target = arch.removeprefix("sm_")
    call_of_nvcc(plans, folder, toolchain, ["-gencode", f"arch=compute_{target},code=compute_{target}", *steps, "all.cu"])


def call_of_nvcc(plans: Sequence[ProjectPlan], folder: Path, toolchain: Toolchain, steps: Sequence[str]) -> None:
    """Call nvcc in the folder, with the flags of the plans' projects and these. Raises DoesNotCompile."""
    assert toolchain.nvcc and toolchain.host_compiler and toolchain.cutlass
    tools = ["-ccbin", toolchain.host_compiler.path, "-isystem", toolchain.cutlass.path]
    macros = [f"-D{macro}" for macro in macros_of(plans[0])]
    done = capture([toolchain.nvcc.path, *_FLAGS, *macros, *tools, *steps], timeout_s=None, cwd=folder)
    if done.exit_code != 0:
        raise DoesNotCompile(done.stderr or done.stdout)


def macros_of(plan: ProjectPlan) -> tuple[str, ...]:
    """Those that its project is compiled with; what is compiled together has the same."""
    return tuple(definitions(plan))


def sources_of(plan: ProjectPlan, folder: Path) -> str:
    """The project's source files, one behind the other; its headers go to the folder."""
    sources = []
    program_alone = plan.kernel == "peak"
    for path, data in render(plan, tests=program_alone).items():
        if path.startswith("include/"):
            place = folder / path
            assert not place.exists() or place.read_bytes() == data, f"{path} of {plan.name} is another"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        elif path.startswith("src/"):
            of_interface = path == f"src/{plan.name}.cu"
            sources.append(_with_names_of_its_own(data.decode(), plan.name) if of_interface else data.decode())
    return "\n".join(sources)


# What the unnamed namespace of a project's interface declares.
_UNNAMED = "Config|Args|run|can_run|query|workspace|config_name|kInterface|last_call|kConfigs|chosen"
_UNNAMED += "|run_unaligned|without_copies|copy_operands|copied_bytes"


def _with_names_of_its_own(source: str, name: str) -> str:
    """The source with other names in its unnamed namespace: those of several projects would be the same."""
    declarations, begin, rest = source.partition("\nnamespace {\n")
    return declarations + begin + re.sub(rf'(?<![\w.:"])({_UNNAMED})\b', rf"\1_{name}", rest)
