"""Peaks as a table, JSON lines, CSV and a page to commit."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence

from mmagen.microbench.figures import FIELDS, Figure, Machine, best_of_groups, group_of, reads_shared_memory, tally
from mmagen.report.cells import figure, text
from mmagen.report.formats import grid

# A page shows every operation up to here, the best of each kind and a table by N beyond.
MOST_ROWS = 120
_MOST_REASONS = 20
_WIDTHS = (8, 16, 32, 64, 96, 128, 160, 192, 224, 256)


def _text(key: str) -> Callable[[Figure], str]:
    return lambda one: text(one[key])


def _number(key: str, form: str) -> Callable[[Figure], str]:
    return lambda one: figure(one[key], form)


def _configuration(one: Figure) -> str:
    return "" if one["warps"] is None else f"{one['warps']} x {one['accumulators']} x {one['steps']}"


_COLUMNS: tuple[tuple[str, Callable[[Figure], str]], ...] = (
    ("operation", _text("name")),
    ("inputs", _text("inputs")),
    ("verdict", _text("disposition")),
    ("TFLOPS", _number("tflops", ".1f")),
    ("% of rate", _number("pct_rate", ".1f")),
    ("% of datasheet", _number("pct_datasheet", ".1f")),
    ("MHz", _number("clock_mhz", ".0f")),
    ("W", _number("power_w", ".0f")),
    ("s", _number("seconds", ".2f")),
    ("latency", _number("latency_cycles", ".1f")),
    ("interval", _number("interval_cycles", ".1f")),
    ("warps x acc. x steps", _configuration),
)
_EXPLANATION = """\
TFLOPS are 10^12 operations a second (TOPS for integers), a multiply and an add counted as two, the products with what a
sparse A leaves out included. *% of rate*: of what one SM does in a cycle by the datasheet, at the clock at which the loop
ran, from the SM's own cycle counter (column MHz); *% of datasheet*: of the peak that the datasheet prints for the board.
*latency*, *interval*: of a single warp on an SM, or
warpgroup of wgmma, in cycles: from one instruction to the next that adds to the same sums (of wgmma: from its issue until its
sums can be read), and from one to the next that adds to others, or to the same where the hardware needs no wait.
The last column is the smallest configuration as good as the best of those tried: warps on each SM, independent
accumulators of each warp or warpgroup, and instructions on each accumulator from one test of the loop counter to the next.
Operands stay in registers or in one stage of shared memory. Random inputs are integers that fill the mantissa (all but the
last two bits of f16 and tf32, half of f64's; less where accumulators are f16), so that every sum is exact: what is left in
every thread's accumulators was compared with what one block of steps predicts, and a run on ones with the number of
products."""


def table(figures: Sequence[Figure], machine: Machine, columns: int | None = None) -> str:
    """A line for each operation and its inputs, each reason why some did not pass, and the machine. If none of several could be
    run, the reasons alone."""
    nothing = len(figures) > 1 and all(one["disposition"] == "not_supported" for one in figures)
    parts = [
        "" if nothing else _grid(figures, "simple", columns),
        "\n".join(_reasons(figures)),
        f"{tally(figures)}\n{machine.text}",
    ]
    return "\n\n".join(part for part in parts if part)


def _reasons(figures: Sequence[Figure]) -> list[str]:
    """Each reason once, with the operation or the number of operations; of many reasons the most frequent."""
    names: dict[str, dict[str, None]] = {}
    for one in figures:
        if one["reason"]:
            names.setdefault(one["reason"], {}).setdefault(one["name"])
    most = sorted(names.items(), key=lambda item: -len(item[1]))
    lines = [f"{next(iter(of)) if len(of) == 1 else f'{len(of)} operations'}: {why}" for why, of in most[:_MOST_REASONS]]
    rest = sum(len(of) for _, of in most[_MOST_REASONS:])
    return [*lines, f"and {rest} more operations for other reasons"] if rest else lines


def _grid(figures: Sequence[Figure], form: str, columns: int | None = None) -> str:
    heads = [head for head, _ in _COLUMNS]
    rows = [[spell(one) for _, spell in _COLUMNS] for one in figures]
    return grid(heads, rows, form, always=("operation", "verdict"), right=heads[3:], columns=columns)


def to_json(figures: Sequence[Figure]) -> str:
    """JSON lines with all of FIELDS."""
    return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in figures)


def to_csv(figures: Sequence[Figure]) -> str:
    """CSV with a header and all of FIELDS; the sweep as JSON, numbers to four digits behind the point."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for one in figures:
        writer.writerow([_cell(one[field]) for field in FIELDS])
    return out.getvalue()


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{round(value, 4):g}" if abs(value) < 1e5 else str(round(value))
    return "" if value is None else json.dumps(value) if isinstance(value, list) else str(value)


def to_markdown(figures: Sequence[Figure], machine: Machine, *, command: str, date: str, chart: str | None = None) -> str:
    """A page. chart: path of the bar chart, relative to the page's folder."""
    measured = [one for one in figures if one["tflops"]]
    few = len(measured) <= MOST_ROWS
    shown = measured if few else best_of_groups(measured)
    what = tally(figures)
    parts = [
        "# Peaks of MMA operations",
        f"{machine.text}. {date}. {what[0].upper()}{what[1:]}.",
        f"Made by `{command}`.",
        _EXPLANATION,
    ]
    parts += [f"![bars]({chart})"] if chart else []
    parts += ["" if few else "## The best of each kind", _grid(shown, "github")]
    if not few:
        parts += ["## wgmma by N", "Percent of the SM's rate at the clock seen.", _by_width(figures)]
    reasons: dict[str, list[str]] = {}
    for one in figures:
        if one["reason"]:
            reasons.setdefault(one["reason"], []).append(one["name"])
    if reasons:
        parts += [
            "## Not measured or not right",
            "\n".join(
                f"- {', '.join(list(dict.fromkeys(names))[:8])}{' and others' if len(set(names)) > 8 else ''}: {reason}"
                for reason, names in reasons.items()
            ),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _by_width(figures: Sequence[Figure]) -> str:
    groups: dict[str, dict[int, float]] = {}
    for one in figures:
        if reads_shared_memory(one) and one["pct_rate"]:
            groups.setdefault(group_of(one), {})[int(one["shape"].split("x")[1])] = one["pct_rate"]
    heads = ["", *map(str, _WIDTHS)]
    return grid(
        heads, [[name, *(figure(of.get(n), ".0f") for n in _WIDTHS)] for name, of in groups.items()], "github", always=heads
    )
