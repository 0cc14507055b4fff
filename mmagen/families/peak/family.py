"""`kernel: peak`: a spec with one operation becomes a standalone project whose program measures it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment

from mmagen import __version__
from mmagen.core.errors import Fault, SpecFaults
from mmagen.core.targets import cmake_list
from mmagen.families.peak.loops import Loop, loop, refusal
from mmagen.families.peak.rates import rates
from mmagen.families.peak.unit import header_files, unit
from mmagen.mma.operation import Operation
from mmagen.plan.operation import arch_of, faults, operation_of
from mmagen.spec.model import Spec

_TAKEN_AS_THEY_ARE = {"common/LICENSE": "LICENSE", "common/cmake/mmagen_cutlass.cmake": "cmake/mmagen_cutlass.cmake"}
_RENDERED = {
    "common/CMakePresets.json.j2": "CMakePresets.json",
    "peak/CMakeLists.txt.j2": "CMakeLists.txt",
    "peak/README.md.j2": "README.md",
    "peak/tests/verify.cu.j2": "tests/verify.cu",
}


@dataclass(frozen=True)
class PeakPlan:
    """What such a project is made from. extended: of CUTLASS it may need every header of wgmma."""

    spec: Spec
    spec_sha: str
    operation: Operation
    loop: Loop
    arch: tuple[str, ...]
    kernel: str = "peak"
    configs: tuple = ()
    note: str = ""
    extended: bool = True

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def rates(self) -> tuple[tuple[int, int], ...]:
        return rates(self.operation)


def plan(spec: Spec, sha: str) -> PeakPlan:
    """The decisions for a spec of kernel peak. Raises SpecFaults with everything that is wrong with it."""
    operation = operation_of(spec)
    wrong = [*faults(spec, operation, "measures the atom alone")]
    if why := refusal(operation):
        wrong.append(Fault(("atom",), why, "choose another; mmagen peak says which can be measured"))
    if wrong:
        raise SpecFaults(tuple(wrong))
    arch = arch_of(spec, operation)
    return PeakPlan(spec, sha, operation, loop(operation, arch[0]), arch)


def files(plan: PeakPlan, environment: Environment, templates: Path) -> dict[str, bytes]:
    """All files of the project but its spec and manifest."""
    context = {"plan": plan, "version": __version__, "cuda_architectures": cmake_list(plan.arch)}
    made = {target: environment.get_template(source).render(context).encode() for source, target in _RENDERED.items()}
    made |= {target: (templates / "project" / source).read_bytes() for source, target in _TAKEN_AS_THEY_ARE.items()}
    source = unit([plan.loop])
    # Of the two kinds of loop it has one.
    made |= {
        f"include/{path}": content
        for path, content in header_files().items()
        if not path.endswith("_loop.cuh") or path in source
    }
    return made | {f"src/{plan.name}.cu": source.encode()}


def describe(plan: PeakPlan) -> str:
    """The text of `mmagen inspect`."""
    operation, of = plan.operation, plan.loop
    tried = "\n".join(f"  {count} accumulators, blocks of {steps}: {kernel}" for count, steps, kernel in of.kernels)
    rate = ", ".join(f"{rate} on sm_{number}" for number, rate in plan.rates) or "no datasheet says"
    return (
        f"{plan.name}: the peak of {operation.name}\n\n{operation.opcode}\ncompiled for {', '.join(plan.arch)}\n"
        f"{of.flop} operations of {of.threads} threads; in a cycle of an SM by the datasheet: {rate}\n"
        f"random inputs: A within {of.limit_a}, B within {of.limit_b}\n\nLoops that are tried\n{tried}\n"
    )
