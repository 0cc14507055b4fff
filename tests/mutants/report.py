"""What became of the mutants: counts by operator, and each survivor with the argument why it is no fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from tabulate import tabulate

from tests.mutants.trial import EQUIVALENT, HUNG, KILLED, NOT_COMPILED, SURVIVED, UNKNOWN, UNTRIED, Outcome

EQUIVALENTS = Path(__file__).with_name("equivalents.yaml")
_STATUSES = (KILLED, HUNG, SURVIVED, UNTRIED, EQUIVALENT, NOT_COMPILED)


@dataclass(frozen=True)
class Argument:
    """Why a mutant that survives is no fault. kind: "equivalent" (computes the same), "slower" (and right), or "host test"
    (another test fails, which `why` names)."""

    kind: str
    why: str


def arguments() -> dict[str, Argument]:
    """Name of a mutant -> argument, of equivalents.yaml."""
    loaded = yaml.safe_load(EQUIVALENTS.read_text()) or {}
    return {str(name): Argument(**entry["argument"]) for name, entry in loaded.items()}


def unexplained(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Survivors without an argument, those that ran out of time, and those that the tool failed to try."""
    known = arguments()
    return [one for one in outcomes if one.status in UNKNOWN and one.name not in known]


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The report: a table of operators, then the survivors one by one."""
    counts = Counter((one.operator, one.status) for one in outcomes)
    operators = sorted({one.operator for one in outcomes})
    rows = [[operator, *(counts[operator, status] for status in _STATUSES)] for operator in operators]
    rows.append(["all", *(sum(counts[operator, status] for operator in operators) for status in _STATUSES)])
    compiled = [one for one in outcomes if one.status not in (NOT_COMPILED, EQUIVALENT)]
    noticed = sum(one.status == KILLED for one in compiled)
    known = arguments()
    explained = Counter(known[one.name].kind for one in compiled if one.status in UNKNOWN and one.name in known)
    parts = [
        f"{len(outcomes)} mutants; {len(compiled)} of them compile to other code, of which verify notices {noticed}. Survivors: "
        + ", ".join(f"{count} {kind}" for kind, count in sorted(explained.items()))
        + f", {len(unexplained(outcomes))} unexplained.",
        tabulate(rows, ["operator", *_STATUSES], tablefmt="github"),
        "## Survivors",
        *(_survivor(one, known.get(one.name)) for one in compiled if one.status in UNKNOWN),
    ]
    return "\n\n".join(parts) + "\n"


def _survivor(one: Outcome, argument: Argument | None) -> str:
    why = f"{argument.kind}: {argument.why}" if argument else f"**unexplained** ({one.status})"
    return f"- `{one.header}:{one.line}` `{_short(one.old)}` -> `{_short(one.new)}` ({one.operator}, {one.name}): {why}"


def _short(text: str) -> str:
    line = " ".join(text.split()).replace("`", "'")
    return line if len(line) <= 90 else line[:87] + "..."
