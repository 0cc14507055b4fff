"""`kernel: peak`: a standalone project whose program measures the peak rate of one operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mmagen.core.errors import Change, Fault, SpecFaults
from mmagen.families.operation_spec import arch_of, faults, operation_of
from mmagen.families.peak.loops import loop, refusal
from mmagen.families.peak.model import PeakPlan
from mmagen.mma.atoms import similar_atom
from mmagen.mma.catalogue import known
from mmagen.plan import pages
from mmagen.plan.devices import Device
from mmagen.plan.launch import Numbers
from mmagen.plan.maps import Map, of_operation
from mmagen.plan.project import Text
from mmagen.plan.rules import one_tile_problem_faults
from mmagen.plan.trials import Trials
from mmagen.spec.model import Problem, Spec

if TYPE_CHECKING:
    from mmagen.families.protocol import Family


class _Peak:
    def builds(self, atom: str) -> bool:
        found = known(atom)
        return found is not None and found.of_cutlass

    def plan(self, spec: Spec, sha: str) -> PeakPlan:
        operation = operation_of(spec)
        wrong = [*faults(spec, operation, "measures the atom alone")]
        if why := refusal(operation):
            another: Change = {("atom",): similar_atom(spec.atom)}
            wrong.append(Fault(("atom",), why, "choose another; mmagen peak lists those that can be measured", another))
        if wrong:
            raise SpecFaults(tuple(wrong))
        arch = arch_of(spec, operation)
        return PeakPlan(
            family=__name__,
            spec=spec,
            spec_sha=sha,
            arch=arch,
            text=Text(title=f"peak rate of {operation.name}"),
            operation=operation,
            loop=loop(operation, arch[0]),
        )

    def problem_faults(self, plan: PeakPlan, problems: Sequence[Problem]) -> Iterator[Fault]:
        return one_tile_problem_faults(plan.spec, plan.operation.shape, problems)

    def parts(self, plan: PeakPlan) -> tuple[str, ...]:
        return "common", "peak"

    def context(self, plan: PeakPlan, config: str) -> Mapping[str, Any]:
        return {
            "units": [[plan.name]],
            "decisions": "",
            "loops": [plan.loop],
            "headers": list(dict.fromkeys(plan.loop.headers)),
            "own": [plan.loop.own],
        }

    def trials(self, plan: PeakPlan) -> Trials:
        return Trials(refusal="peak rates can only be measured on a GPU")

    def page(self, plan: PeakPlan) -> list[pages.Section]:
        operation, of = plan.operation, plan.loop
        rate = ", ".join(f"{rate} on sm_{number}" for number, rate in plan.rates) or "not in a datasheet"
        what: list[pages.Row] = [
            ("instruction", operation.opcode),
            ("compiled for", ", ".join(plan.arch)),
            ("work", f"{of.flop} operations by {of.threads} threads"),
            ("datasheet", f"operations per cycle and SM: {rate}"),
            ("random inputs", f"|A| <= {of.limit_a}, |B| <= {of.limit_b}"),
        ]
        tried: list[pages.Row] = [
            (pages.count(count, "accumulator"), f"blocks of {steps}", str(kernel)) for count, steps, kernel in of.kernels
        ]
        return [("Instruction", what), ("Candidate loops", tried)]

    def numbers(self, plan: PeakPlan, device: Device, ptxas: Mapping[str, int]) -> list[Numbers]:
        return []

    def maps(self, plan: PeakPlan) -> list[Map]:
        return of_operation(plan.operation)


FAMILY: Family[PeakPlan] = _Peak()
