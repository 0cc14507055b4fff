"""Which branches and loops of a project's kernels the emulated problems have reached, all of them together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from mmagen.verify.verdict import Verdict

_WORDS = {
    "taken": "never taken",
    "not taken": "always taken",
    "again": "no second iteration",
    "once": "never a single iteration",
}


def coverage(verdict: Verdict) -> list[str]:
    """A paragraph for each kernel that was emulated: how much of it was reached, and the source lines of what was not."""
    found: dict[str, list[dict[str, Any]]] = {}
    for record in verdict.records:
        for of_launch in (record["details"] or {}).get("coverage", ()):
            found.setdefault(of_launch["entry"], []).append(of_launch)
    return [_paragraph(entry, of_entry) for entry, of_entry in found.items()]


def missed_by_all(coverages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The goals of one kernel (see mmagen.emulate.Goal) that none of the problems reaches, in the order of the PTX."""
    common = set.intersection(*({(goal["ptx_line"], goal["what"]) for goal in one["missed"]} for one in coverages))
    return [goal for goal in coverages[0]["missed"] if (goal["ptx_line"], goal["what"]) in common]


def _paragraph(entry: str, coverages: Sequence[dict[str, Any]]) -> str:
    missed, goals = missed_by_all(coverages), coverages[0]["goals"]
    share = f"{100 * (goals - len(missed)) / goals:.0f}%" if goals else "100%"
    text = f"{kernel_name(entry)}: {share} of {goals} outcomes of branches and loops reached"
    places = Counter((goal["file"].rsplit("/", 1)[-1], goal["line"], _WORDS[goal["what"]]) for goal in missed)
    lines = [
        f"{file}:{line} {what}{f' ({count} places)' if count > 1 else ''}"
        for (file, line, what), count in sorted(places.items())
    ]
    return f"{text}. Not reached: {', '.join(lines)}." if lines else f"{text}."


def kernel_name(entry: str) -> str:
    """The last name of a mangled function, with its boolean template arguments: `gemm_kernel<true>`."""
    rest, name = entry.removeprefix("_ZN"), entry
    while rest != entry and (found := re.match(r"\d+", rest)):
        length = int(found[0])
        name, rest = rest[found.end() :][:length], rest[found.end() + length :]
    flags = ["true" if value == "1" else "false" for value in re.findall(r"Lb([01])E", rest.partition("Ev")[0] + "E")]
    return f"{name}<{', '.join(flags)}>" if flags else name
