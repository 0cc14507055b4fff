"""The peak rate of one operation: the program's record, the datasheet's figure, or the reason for a missing result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmagen.core.errors import ExitCode
from mmagen.families.peak.rates import datasheet_tflops
from mmagen.mma.operation import Operation

# One operation on one kind of inputs: a value for each of FIELDS.
Figure = Mapping[str, Any]
# In every report, in this order.
FIELDS = (
    "name",
    "kind",
    "shape",
    "type_d",
    "type_a",
    "type_b",
    "sparsity",
    "places",
    "inputs",
    "disposition",
    "tflops",
    "pct_rate",
    "pct_datasheet",
    "flop_per_cycle",
    "clock_mhz",
    "sm_clock_mhz",
    "power_w",
    "warps",
    "accumulators",
    "steps",
    "seconds",
    "latency_cycles",
    "interval_cycles",
    "device",
    "driver",
    "cuda",
    "cutlass",
    "mmagen",
    "arch",
    "reason",
    "sweep",
)


@dataclass(frozen=True)
class Machine:
    """The device and software versions of a measurement."""

    target: str
    device: str | None
    driver: str | None
    cuda: str | None
    cutlass: str | None
    mmagen: str

    @property
    def text(self) -> str:
        versions = {"driver": self.driver, "CUDA": self.cuda, "CUTLASS": self.cutlass, "mmagen": self.mmagen}
        named = (f"{name} {version}" for name, version in versions.items() if version)
        return " · ".join(filter(None, (self.device, *named, self.target)))


def figure(operation: Operation, record: Figure, machine: Machine) -> Figure:
    """All of FIELDS; what nobody knows is None."""
    peak = datasheet_tflops(operation, machine.target, machine.device)
    tflops = record.get("tflops")
    known = dict(record) | {
        "name": operation.name,
        "kind": operation.kind,
        "shape": "x".join(map(str, operation.shape)),
        "type_d": operation.type_d,
        "type_a": operation.type_a,
        "type_b": operation.type_b,
        "sparsity": operation.sparsity,
        "places": "".join(operation.places[operand][0].upper() for operand in "AB"),
        "pct_datasheet": 100 * tflops / peak if tflops and peak else None,
        "device": machine.device,
        "driver": machine.driver,
        "cuda": machine.cuda,
        "cutlass": machine.cutlass,
        "mmagen": machine.mmagen,
        "arch": machine.target,
    }
    return {field: known.get(field) for field in FIELDS}


def exit_code(figures: Sequence[Figure]) -> ExitCode:
    """1 for a wrong sum, else 4 for what failed or did not compile, else 77 where nothing ran, else 0.

    What the device cannot run does not spoil the exit code of what it can.
    """
    words = {figure["disposition"] for figure in figures}
    if "incorrect" in words:
        return ExitCode.INCORRECT
    if words & {"failed", "not_run"}:
        return ExitCode.RUN_FAILED
    return ExitCode.OK if "passed" in words else ExitCode.NOTHING_VERIFIED


def tally(figures: Iterable[Figure]) -> str:
    """`25 passed, 2 not supported`."""
    counts: dict[str, int] = {}
    for one in figures:
        counts[one["disposition"]] = counts.get(one["disposition"], 0) + 1
    return ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in counts.items()) or "nothing to report"


def reads_shared_memory(one: Figure) -> bool:
    """Does the operation read A or B from shared memory? wgmma does."""
    return "S" in one["places"]


def group_of(one: Figure) -> str:
    """What differs in M, N and K alone: `wgmma SS f32 bf16 2:4`."""
    types = [one["type_d"], one["type_a"], *([one["type_b"]] if one["type_b"] != one["type_a"] else [])]
    satfinite = "SATURATE" in one["name"]
    parts = [
        one["kind"],
        one["places"] if reads_shared_memory(one) else "",
        " ".join(types),
        "sparse" if one["sparsity"] else "",
        "saturating" if satfinite else "",
        one["inputs"],
    ]
    return " ".join(filter(None, parts))


def best_of_groups(figures: Iterable[Figure]) -> list[Figure]:
    """The fastest of each group, groups in order of appearance."""
    best: dict[str, Figure] = {}
    for one in figures:
        group = group_of(one)
        if (one["tflops"] or 0) > (best.setdefault(group, one)["tflops"] or 0):
            best[group] = one
    return list(best.values())
