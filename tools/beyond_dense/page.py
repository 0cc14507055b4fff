"""The page: every problem with its baseline and ratio, the geometric mean and the target of each row, and what was not run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tabulate import tabulate

from mmagen.report.baselines import geometric_mean
from mmagen.tuning.measure import Record
from tools.beyond_dense.rows import Against, Kernel, Pair, Row, Time
from tools.library_page.kept import Found

# What was found of a kernel in a turn, by problem.
Look = Callable[[Kernel, int], Mapping[str, Found]]

_METHOD = """\
Every result was verified against an independent reference before the kernel was timed, and so were cuBLASLt's and cuSPARSELt's,
but for those of *dense* and *product alone*, which compute something else. Times are medians of samples; the launches of a
sample are one CUDA graph where nothing else is said. Operands are random and uniform within a range in which nothing saturates,
and rotate through twice the L2. Kernel and baseline of one program take turns, in a new order in each repetition. *Ratio*: time
of the other over the time of the kernel; higher is better for the kernel. Where times of two programs or of two problems are
compared, except of the grouped e4m3 kernel and a dense product, all are measured three times, in another order each time, and
the ratio is the median."""


@dataclass(frozen=True)
class Line:
    """A pair with medians in microseconds and their ratio; None where there is none, and why."""

    pair: Pair
    ours_us: float | None
    other_us: float | None
    ratio: float | None
    tflops: float | None
    why: str


def lines(against: Against, rounds: int, look: Look) -> list[Line]:
    """One for each pair."""
    return [_line(pair, rounds, look) for pair in against.pairs]


def _line(pair: Pair, rounds: int, look: Look) -> Line:
    turns = [(_record(pair.ours, turn, look), _record(pair.other, turn, look)) for turn in range(rounds)]
    ours, other = ([us for one in side if (us := _us(one)) is not None] for side in zip(*turns, strict=True))
    ratios = [there / here for here, there in ((_us(a), _us(b)) for a, b in turns) if here and there]
    rates = [float(one["tflops"]) for one, _ in turns if one and one.get("tflops")]
    return Line(
        pair,
        median(ours) if ours else None,
        median(other) if other else None,
        median(ratios) if ratios else None,
        median(rates) if rates else None,
        _why(pair, rounds, look, bool(ratios)),
    )


def _record(time: Time, turn: int, look: Look) -> Record | None:
    """What was measured, or None."""
    found = look(time.kernel, turn).get(time.problem)
    named = [record for record in (found.records if found else ()) if record["name"] == (time.candidate or time.kernel.name)]
    return named[0] if named else None


def _us(record: Record | None) -> float | None:
    known = record is not None and record["disposition"] == "passed" and record.get("ms_median")
    return 1e3 * float(record["ms_median"]) if record and known else None


def _why(pair: Pair, rounds: int, look: Look, timed: bool) -> str:
    """Why there is no ratio, or what the program says beside one."""
    said: dict[str, None] = {}
    for time in (pair.ours, pair.other):
        for turn in range(rounds):
            found = look(time.kernel, turn).get(time.problem)
            if found is None:
                said |= {} if timed else {"not measured yet": None}
                continue
            record = _record(Time(time.kernel, time.problem), turn, look)
            of_it = (found.skipped, str(record["reason"] or "").strip() if record else "")
            said |= {text: None for text in of_it if text}
            if not timed and not any(of_it) and _us(_record(time, turn, look)) is None:
                said |= {f"{time.candidate or time.kernel.name} was not timed": None}
    return " ".join(said)


def to_markdown(rows: Mapping[str, Row], look: Look, facts: str, command: str, notes: Sequence[str]) -> str:
    """rows: those asked for. facts: device, driver and versions. notes: what was not run, beside what the rows say."""
    measured = {name: [(one, lines(one, row.rounds, look)) for one in row.against] for name, row in rows.items()}
    summary = [_summary(row.title, one, of) for name, row in rows.items() for one, of in measured[name]]
    heads = ("row", "against", "problems", "geometric mean", "lowest", "target", "met")
    parts = ["# Beyond dense products", f"{facts}.", f"Made by `{command}`.", _METHOD]
    parts += ["## Summary", _grid(heads, summary)]
    for name, row in rows.items():
        parts.append(f"## {row.title}")
        for one, of in measured[name]:
            parts += [f"Against {one.what}:", _grid(("problem", "us", "other, us", "ratio", "TFLOPS"), [*map(_cells, of)])]
    missing = [f"- {row.title}: {text}" for row in rows.values() for text in row.not_run]
    missing += [f"- {note}" for note in notes]
    said: dict[str, None] = {}
    for name, row in rows.items():
        for one, of in measured[name]:
            missing += [
                f"- {row.title}, {line.pair.label}, against {one.what}: {line.why}" for line in of if line.ratio is None
            ]
            said |= {f"- {row.title}, {line.pair.label}: {line.why}": None for line in of if line.ratio and line.why}
    parts += ["## Not run", "\n".join(missing)] if missing else []
    parts += ["## What the programs say beside the figures", "\n".join(said)] if said else []
    return "\n\n".join(parts) + "\n"


def summary_text(markdown: str) -> str:
    """The table of the summary, of a page."""
    return markdown.split("## Summary\n\n")[1].split("\n\n")[0]


def _summary(title: str, against: Against, of: Sequence[Line]) -> tuple[str, ...]:
    ratios = [line.ratio for line in of if line.ratio]
    target = f"{against.mean:.2f}" + (f", none below {against.least:.2f}" if against.least else "")
    if not ratios:
        return title, against.what, f"0 of {len(of)}", "-", "-", target, "not measured"
    mean, least = geometric_mean(ratios), min(ratios)
    met = mean >= against.mean and least >= (against.least or 0.0)
    word = ("yes" if met else "no") + (", of these" if len(ratios) < len(of) else "")
    return title, against.what, f"{len(ratios)} of {len(of)}", f"{mean:.3f}", f"{least:.3f}", target, word


def _cells(line: Line) -> tuple[str, ...]:
    return (
        line.pair.label,
        _figure(line.ours_us, ".2f"),
        _figure(line.other_us, ".2f"),
        _figure(line.ratio, ".3f"),
        _figure(line.tflops, ".0f"),
    )


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _grid(heads: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    return tabulate(body, heads, tablefmt="github", disable_numparse=True)
