"""`kernel: peak`: a spec with one operation becomes a standalone project whose program measures it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment

from mmagen import __version__
from mmagen.errors import Fault, SpecFaults, UsageError
from mmagen.peak.loops import Loop, loop, refusal
from mmagen.peak.program import header_files, unit
from mmagen.peak.rates import rates
from mmagen.registry import Operation, capability, find
from mmagen.spec import Spec

# Keys that a peak has a use for; every other one must be as if it were left out.
_KEYS = ("mmagen", "name", "kernel", "atom", "arch")
_TAKEN_AS_THEY_ARE = {"common/LICENSE": "LICENSE", "common/cmake/mmagen_cutlass.cmake": "cmake/mmagen_cutlass.cmake"}
_RENDERED = {"common/CMakePresets.json.j2": "CMakePresets.json", "peak/CMakeLists.txt.j2": "CMakeLists.txt",
             "peak/README.md.j2": "README.md", "peak/tests/verify.cu.j2": "tests/verify.cu"}


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
    hopper: None = None
    extended: bool = True

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def rates(self) -> tuple[tuple[int, int], ...]:
        return rates(self.operation)


def plan(spec: Spec, sha: str) -> PeakPlan:
    """The decisions for a spec of kernel peak. Raises SpecFaults with everything that is wrong with it."""
    faults = [Fault((key,), f"kernel peak measures the atom alone and has no {key}", "leave it out")
              for key, field in Spec.model_fields.items()
              if key not in _KEYS and getattr(spec, key) != field.get_default(call_default_factory=True)]
    try:
        operation = find(spec.atom)
    except UsageError as error:
        what, _, remedy = str(error).partition("; ")
        raise SpecFaults((*faults, Fault(("atom",), what, remedy))) from None
    if why := refusal(operation):
        faults.append(Fault(("atom",), why, "choose another; mmagen peak says which can be measured"))
    arch = spec.arch or (_default_arch(operation),)
    faults += [Fault(("arch", i), f"{name} does not have {operation.name}",
                     f"it runs on {', '.join(operation.targets) or f'{operation.arch} and later'}")
               for i, name in enumerate(spec.arch or ()) if not operation.runs_on(name)]
    if faults:
        raise SpecFaults(tuple(faults))
    return PeakPlan(spec, sha, operation, loop(operation, arch[0]), arch)


def _default_arch(operation: Operation) -> str:
    """The lowest that runs it and that nvcc 13 still compiles for."""
    return operation.arch if capability(operation.arch) >= 75 else "sm_75"


def files(plan: PeakPlan, environment: Environment, templates: Path) -> dict[str, bytes]:
    """All files of the project but its spec and manifest."""
    context = {"plan": plan, "version": __version__,
               "cuda_architectures": ";".join(arch.removeprefix("sm_") for arch in plan.arch)}
    made = {target: environment.get_template(source).render(context).encode() for source, target in _RENDERED.items()}
    made |= {target: (templates / "project" / source).read_bytes() for source, target in _TAKEN_AS_THEY_ARE.items()}
    source = unit([plan.loop])
    # Of the two kinds of loop it has one.
    made |= {f"include/{path}": content for path, content in header_files().items()
             if not path.endswith("_loop.cuh") or path in source}
    return made | {f"src/{plan.name}.cu": source.encode()}


def describe(plan: PeakPlan) -> str:
    """The text of `mmagen inspect`."""
    operation, of = plan.operation, plan.loop
    tried = "\n".join(f"  {count} accumulators, blocks of {steps}: {kernel}" for count, steps, kernel in of.kernels)
    rate = ", ".join(f"{rate} on sm_{number}" for number, rate in plan.rates) or "no datasheet says"
    return (f"{plan.name}: the peak of {operation.name}\n\n{operation.opcode}\ncompiled for {', '.join(plan.arch)}\n"
            f"{of.flop} operations of {of.threads} threads; in a cycle of an SM by the datasheet: {rate}\n"
            f"random inputs: A within {of.limit_a}, B within {of.limit_b}\n\nLoops that are tried\n{tried}\n")
