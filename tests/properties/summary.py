"""What the records of a run come to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.properties.planned import Record

REFUSED = ("refused", "refused_unmended")
# Outcomes that fail the property.
BAD = ("wrong", "not_compiled", "crash", "hang")


def accepted(one: Record) -> bool:
    """Did `build` accept the spec? What crashed while it was loaded was not."""
    return one["outcome"] not in REFUSED and one.get("stage") != "plan"


def table(records: Sequence[Record]) -> str:
    """One line per figure."""
    counts = Counter(one["outcome"] for one in records)
    taken = [one for one in records if accepted(one)]
    refused = counts["refused"] + counts["refused_unmended"]
    rows = [
        ("specs", len(records)),
        ("accepted", len(taken)),
        ("compiled", sum(1 for one in taken if one["outcome"] != "not_compiled" and one.get("stage") == "run")),
        *((name, counts[name]) for name in ("right", *BAD, "not_run")),
        ("refused", refused),
        ("refusals mended by their own remedy", sum(1 for one in records if one.get("mended"))),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {count:6,}" for name, count in rows]
    for key, title in (("seconds", "seconds per spec"), ("cpu_s", "of a processor")):
        times = sorted((one[key] for one in records if key in one), reverse=True)
        if times:
            lines.append(f"{title:{width}}  mean {sum(times) / len(times):.1f}, most {times[0]:.1f}")
    return "\n".join(lines)


def failures(records: Sequence[Record]) -> str:
    """A line per spec that fails: its name, outcome and the first line of what failed."""
    bad = sorted((one for one in records if one["outcome"] in BAD), key=lambda one: (one["outcome"], one["what"]))
    return "\n".join(f"{one['name']}  {one['outcome']}  {one['what']}" for one in bad)


def stored(path: Path) -> list[Record]:
    """The records of a file, the last of each spec. A last line that was cut off is left out."""
    found = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return list({one["name"]: one for one in found}.values())
