"""Launches as text and as JSON: occupancy, and for each problem grid, waves, traffic and the least time by the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmagen.plan.launch import Launch, Numbers, roofline
from mmagen.plan.pages import Row, Section

_HEADS = (
    *("problem", "tiles", "CTAs", "k tiles", "waves", "last wave", "busy", "DRAM MB", "L2 MB", "flop/B", "least us"),
    "bound by",
)
_PREDICTED = ("predicted us", "least / predicted")
_ESTIMATE = "from datasheets and what was measured of each mechanism on an H200"


def sections(numbers: Sequence[Numbers]) -> list[Section]:
    """Occupancy of each kernel, and its problems; a kernel of a library that none of them is chosen for has no launches."""
    return [section for one in numbers for section in (_occupancy(one), *([_launches(one)] if one.launches else []))]


def _title(one: Numbers, what: str) -> str:
    return f"{one.kernel}: {what}" if one.kernel else what


def _occupancy(one: Numbers) -> Section:
    it = one.occupancy
    source = "by ptxas" if one.measured else "estimated; build --compile or verify on a GPU record those of ptxas"
    return (
        _title(one, f"Occupancy on {one.device.title}"),
        [
            ("CTAs per SM", f"{it.ctas}, limited by {it.limiter}"),
            (
                "limits",
                f"{it.by_smem} by shared memory, {it.by_threads} by threads, {it.by_registers} by registers"
                + (f", {it.by_count} at most on an SM" if it.by_count < it.by_threads else ""),
            ),
            ("registers", f"{it.registers} per thread, {source}"),
        ],
    )


def _launches(one: Numbers) -> Section:
    timed = bool(one.predicted)
    rows: list[Row] = [(*_HEADS, *(_PREDICTED if timed else ()))]
    for number, (problem, it) in enumerate(one.launches):
        least = roofline(it, one.device, one.per_cycle, one.unit)
        m, n, batch = it.tiles
        rows.append(
            (
                problem.text,
                f"{m} x {n}" + (f" x {batch}" if batch > 1 else ""),
                f"{it.ctas:,}",
                f"{it.k_tiles:,}",
                f"{it.waves:,}",
                f"{it.tail:.0%}" + ", shared" * it.shared,
                f"{it.busy:.0%}",
                f"{it.dram / 1e6:,.1f}",
                f"{it.l2 / 1e6:,.1f}",
                f"{it.intensity:,.1f}",
                f"{least.least:,.1f}",
                least.bound,
                *((f"{one.predicted[number]:,.1f}", _part(one, number, least.least)) if timed else ()),
            )
        )
    device = one.device
    peak = f"{one.per_cycle * device.sms * device.clock_mhz / 1e6:.4g} TFLOPS, " if one.per_cycle else ""
    what = f"Launches on {device.title}: {device.sms} SMs, {peak}{device.dram_gbps:,} GB/s by the datasheet"
    if timed:
        fitted = "by the config's cost, for the device that it was fitted on" + (", another one" if one.elsewhere else "")
        what += f"; predicted {_ESTIMATE if one.estimated else fitted}"
    return _title(one, what), rows


def _part(one: Numbers, number: int, least_us: float) -> str:
    """Of a predicted time; none of one on another device."""
    return "-" if one.elsewhere else f"{least_us / one.predicted[number]:.0%}"


def to_json(numbers: Sequence[Numbers]) -> list[dict[str, Any]]:
    """The same as plain values; times in microseconds, sizes in bytes."""
    return [
        {
            "kernel": one.kernel,
            "device": one.device.name,
            "ctas_per_sm": one.occupancy.ctas,
            "limited_by": one.occupancy.limiter,
            "ctas_by": {
                "shared_memory": one.occupancy.by_smem,
                "threads": one.occupancy.by_threads,
                "registers": one.occupancy.by_registers,
                "number": one.occupancy.by_count,
            },
            "registers": one.occupancy.registers,
            "registers_by_ptxas": one.measured,
            "launches": [
                _launch_json(one, problem.text, it) | _predicted_json(one, number)
                for number, (problem, it) in enumerate(one.launches)
            ],
        }
        for one in numbers
    ]


def _predicted_json(one: Numbers, number: int) -> dict[str, Any]:
    if not one.predicted:
        return {}
    return {"predicted_us": one.predicted[number], "predicted_by": "estimate" if one.estimated else "cost"}


def _launch_json(one: Numbers, problem: str, it: Launch) -> dict[str, Any]:
    least = roofline(it, one.device, one.per_cycle, one.unit)
    return {
        "problem": problem,
        "tiles": it.tiles,
        "ctas": it.ctas,
        "k_tiles": it.k_tiles,
        "waves": it.waves,
        "last_wave": it.tail,
        "busy": it.busy,
        "flop": it.flop,
        "dram_bytes": it.dram,
        "l2_bytes": it.l2,
        "intensity": it.intensity,
        "least_us": least.least,
        "compute_us": least.compute,
        "dram_us": least.dram,
        "bound_by": least.bound,
    }
