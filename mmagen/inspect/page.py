"""inspect: everything derived from a spec, as text: tiling, copies, bank conflicts, budgets, traffic."""

from __future__ import annotations

import json
from textwrap import indent

from tabulate import tabulate

from mmagen.families import family_of
from mmagen.plan.plans import ProjectPlan


def inspect(plan: ProjectPlan) -> str:
    """The decisions of a plan and their costs, in sections."""
    sections = family_of(plan).page(plan)
    head = f"{plan.name}: {plan.text.title}"
    body = [f"{title}\n{indent(tabulate(rows, tablefmt='plain', disable_numparse=True), '  ')}" for title, rows in sections]
    return "\n\n".join([head, *body]) + "\n"


def to_json(plan: ProjectPlan, with_maps: bool) -> str:
    """The same as a line of JSON: sections as lists of rows, and the maps of owners."""
    from mmagen.inspect import maps  # imports the layout algebra, which is slow

    family = family_of(plan)
    document = {
        "name": plan.name,
        "title": plan.text.title,
        "kernel": plan.kernel,
        "spec_sha": plan.spec_sha,
        "sections": [{"title": title, "rows": rows} for title, rows in family.page(plan)],
    }
    if with_maps:
        document["maps"] = maps.to_json(family.maps(plan))
    return json.dumps(document)
