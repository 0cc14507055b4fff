"""inspect: everything derived from a spec, as text: tiling, copies, bank conflicts, budgets, traffic."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mmagen.build import registers
from mmagen.core.errors import UsageError
from mmagen.core.screen import fold, table
from mmagen.families import family_of, pipelines
from mmagen.inspect import choices, numbers
from mmagen.plan.devices import Device, device_for
from mmagen.plan.launch import Numbers
from mmagen.plan.pages import Section
from mmagen.plan.project import ProjectPlan

if TYPE_CHECKING:
    from mmagen.draw.svg import Picture
    from mmagen.draw.windows import Window
    from mmagen.emulate import Event

# resvg takes "monospace" for Courier New alone, and leaves texts out where that is not installed.
_FONTS = (
    "text{font-family:'DejaVu Sans Mono','Liberation Mono','Noto Sans Mono',Menlo,Consolas,'Courier New',monospace !important}"
)


def inspect(plan: ProjectPlan, device: str | None = None, columns: int | None = None) -> str:
    """The decisions of a plan and their costs, in sections, and its launches on a device (by default one that it is compiled
    for), with the registers of kernels that were built. columns: characters of a line."""
    sections = [*_sections(plan), *launches(plan, device)]
    head = fold(f"{plan.name}: {plan.text.title}", columns)
    body = [f"{fold(title, columns)}\n{table((), rows, columns, indent='  ')}" for title, rows in sections]
    return "\n\n".join([head, *body]) + "\n"


def _sections(plan: ProjectPlan) -> list[Section]:
    return [*family_of(plan).page(plan), *choices.sections(plan)]


def launches(plan: ProjectPlan, device: str | None = None, built: bool = True) -> list[Section]:
    """Occupancy and launches on a device. built: with registers of ptxas where they are known. Raises UsageError for a device
    that the project does not run on."""
    return numbers.sections(_numbers(plan, device, built))


def is_built(plan: ProjectPlan, device: str | None = None) -> bool:
    """Are the registers of its kernels by ptxas known?"""
    found = device_for(plan.arch, device)
    return found is not None and bool(_registers(plan, found))


def _numbers(plan: ProjectPlan, device: str | None, built: bool = True) -> list[Numbers]:
    found = device_for(plan.arch, device)
    if found is None and device:
        raise UsageError(f"{plan.name} is compiled for {', '.join(plan.arch)} and does not run on {device}")
    if found is None:
        return []
    return [_timed(plan, one) for one in family_of(plan).numbers(plan, found, _registers(plan, found) if built else {})]


def _timed(plan: ProjectPlan, one: Numbers) -> Numbers:
    """With predicted times; those of a kernel without a `cost` are estimates."""
    if one.predicted or not one.launches:
        return one
    from mmagen.families import estimate  # imports rates and tilings, which pages without launches do without

    return estimate.with_times(plan, one)


def _registers(plan: ProjectPlan, device: Device) -> Mapping[str, int]:
    return registers.known(plan.spec_sha, lambda: _files(plan), device.capability)


def _files(plan: ProjectPlan) -> Mapping[str, bytes]:
    from mmagen.generate.render import render  # imports Jinja, which pages of kernels that were not built do without

    return render(plan, with_figures=False)


def to_html(plan: ProjectPlan, window: Window, device: str | None = None, trace: Sequence[Event] = ()) -> str:
    """The same as an HTML page, with pictures of who owns which element. trace: of the kernel in the emulator."""
    from mmagen.inspect import html

    found = _numbers(plan, device)
    sections = [*_sections(plan), *numbers.sections(found)]
    drawn = _pictures(plan, window, found, trace)
    return html.page(plan.name, plan.text.title, sections, drawn, of_several=len(plan.by_kernel) > 1)


def pictures(plan: ProjectPlan, window: Window, device: str | None = None, trace: Sequence[Event] = ()) -> list[Picture]:
    """Who owns which element, operands in shared memory, copies, the pipeline, as planned and by the trace, and the order of
    tiles on a device."""
    return _pictures(plan, window, _numbers(plan, device), trace)


def _pictures(plan: ProjectPlan, window: Window, launched: Sequence[Numbers], trace: Sequence[Event]) -> list[Picture]:
    from mmagen.draw import maps
    from mmagen.inspect import flow  # imports the layout algebra, which is slow

    owned = maps.pictures(family_of(plan).maps(plan), window)
    found = [*owned, *flow.all_of(pipelines(plan), plan.name, launched)]
    if trace:
        from mmagen.draw import copied, register_staged, traced

        drawn = (one.picture(trace, plan.name, "pipeline-traced") for one in (traced, copied, register_staged))
        found += filter(None, drawn)
    return found


def to_svg(plan: ProjectPlan, window: Window, device: str | None = None, trace: Sequence[Event] = ()) -> dict[str, str]:
    """The pictures by the names of their files."""
    return {f"{plan.name}-{one.name}.svg": one.svg for one in pictures(plan, window, device, trace)}


def to_png(plan: ProjectPlan, window: Window, device: str | None = None, trace: Sequence[Event] = ()) -> dict[str, bytes]:
    """The same pictures, twice as large. Raises UsageError without resvg-py."""
    try:
        import resvg_py
    except ImportError:
        raise UsageError("--png needs resvg-py: pip install 'mmagen[png]'; --svg needs nothing more") from None
    found = pictures(plan, window, device, trace)
    return {
        f"{plan.name}-{one.name}.png": resvg_py.svg_to_bytes(one.svg, background="white", zoom=2, style_sheet=_FONTS)
        for one in found
    }


def to_json(plan: ProjectPlan, with_maps: bool, device: str | None = None) -> str:
    """The same as a line of JSON: sections as lists of rows, launches as numbers, and the maps of owners."""
    family = family_of(plan)
    document = {
        "name": plan.name,
        "title": plan.text.title,
        "kernel": plan.kernel,
        "spec_sha": plan.spec_sha,
        "sections": [{"title": title, "rows": rows} for title, rows in _sections(plan)],
        "numbers": numbers.to_json(_numbers(plan, device)),
    }
    if with_maps:
        from mmagen.inspect import maps  # imports the layout algebra, which is slow

        document["maps"] = maps.to_json(family.maps(plan))
    return json.dumps(document)
