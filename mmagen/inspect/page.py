"""inspect: everything derived from a spec, as text: tiling, copies, bank conflicts, budgets, traffic."""

from __future__ import annotations

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
