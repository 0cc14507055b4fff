"""A page of measurements of a library: how its choice compares with cuBLASLt, with the fastest of its own kernels, and with kernels
of others."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from mmagen.tuning.measure import BASELINES, Record, Session


@dataclass(frozen=True)
class Row:
    """One problem. us: of the library's choice. best: the fastest of its kernels that were timed, with its microseconds; ("", nan)
    if only the choice was. first, best8: microseconds of cuBLASLt, nan where it was not run. rival: of the kernels of others,
    the fastest."""

    problem: str
    config: str
    us: float
    best: tuple[str, float]
    first: float
    best8: float
    rival: tuple[str, float] = ("", float("nan"))


def rows(session: Session, library: str, rivals: Collection[str] = ()) -> list[Row]:
    """A row for each problem that the library's choice was timed on, in order. library: the name of its own choice. rivals: names
    of kernels of others."""
    times: dict[str, dict[str, float]] = {}
    for record in session.records:
        if record["disposition"] == "passed" and record["ms_median"]:
            times.setdefault(record["problem"], {})[record["name"]] = record["ms_median"] * 1e3
    found = []
    for problem, by_name in times.items():
        if library not in by_name:
            continue
        best = _fastest({name: us for name, us in by_name.items() if name not in (library, *BASELINES, *rivals)})
        rival = _fastest({name: us for name, us in by_name.items() if name in rivals})
        first, best8 = (by_name.get(name, float("nan")) for name in BASELINES)
        found.append(Row(problem, session.chosen.get(problem, ""), by_name[library], best, first, best8, rival))
    return found


def _fastest(us: Mapping[str, float]) -> tuple[str, float]:
    return min(us.items(), key=lambda item: item[1], default=("", float("nan")))


def to_markdown(
    sets: Mapping[str, Sequence[Row]], session: Session, title: str, command: str, date: str, rivals: str = ""
) -> str:
    """The page. sets: name -> rows. rivals: whose kernels the rivals of the rows are; "" for no columns of them."""
    parts = [f"# {title}", f"{_facts(session.records)}. {date}.", f"Made by `{command}`.", _METHOD]
    if rivals:
        parts.append(
            f"*over {rivals}*: time of the fastest kernel of {rivals} that was right, over that of the library's choice."
        )
    summary = (*_SUMMARY, *([f"over {rivals}: geometric mean", f"lowest over {rivals}"] if rivals else []))
    columns = (*_COLUMNS, *([f"fastest of {rivals}", "us", f"over {rivals}"] if rivals else []))
    parts += ["## Summary", _grid(summary, [_summary(name, of, bool(rivals)) for name, of in sets.items()])]
    if notes := [f"- {problem}: {reason}" for problem, reason in (*session.skipped.items(), *session.lost.items())]:
        parts += ["## Not measured", "\n".join(notes)]
    for heading, timed in (("Without a figure of cuBLASLt", False), ("How cuBLASLt was timed", True)):
        if said := _said_of_baseline(session, timed):
            parts += [f"## {heading}", "\n".join(f"- {problem}: {what}" for problem, what in said.items())]
    for name, of in sets.items():
        parts += [f"## {name}", _grid(columns, [_row(one, bool(rivals)) for one in of])]
    return "\n\n".join(parts) + "\n"


def _said_of_baseline(session: Session, timed: bool) -> dict[str, str]:
    """Problem -> what a record says of cuBLASLt beside a time: why it was not timed, or, of those that it was timed on, what was
    asked of it."""
    having = {record["problem"] for record in session.records if record["name"] in BASELINES}
    found = {}
    for record in session.records:
        if (record["problem"] in having) == timed and record["disposition"] == "passed" and record.get("reason"):
            found[record["problem"]] = str(record["reason"]).removeprefix("no baseline").lstrip(",: ")
    return found


_METHOD = """\
Each kernel was verified on each problem before it was timed. Times are medians of launches in CUDA graphs; operands are random and
rotate through 200 MB; the order of candidates is shuffled in every repetition. cuBLASLt's first eight heuristics are timed in three
rounds; the first of them, and those within 10 % of the fastest, are timed with the library's kernels. *over best 8*, *over first*:
time of the fastest of these, and of the first, over that of the library's choice; higher is better for the library.
*of its best*: time of the fastest of the library's kernels over that of its choice."""
_SUMMARY = (
    "set",
    "problems",
    "over best 8: geometric mean",
    "5th percentile",
    "lowest",
    "over first",
    "of its best",
    "lowest of its best",
)
_COLUMNS = ("M, N, K", "config", "us", "best of 8, us", "over best 8", "over first", "fastest config", "of its best")


def geometric_mean(values: Sequence[float]) -> float:
    """Of those that are numbers; nan without any."""
    known = np.array([value for value in values if np.isfinite(value)])
    return float(np.exp(np.log(known).mean())) if len(known) else float("nan")


def _summary(name: str, of: Sequence[Row], rivals: bool) -> tuple[str, ...]:
    over_best = np.array([one.best8 / one.us for one in of])
    of_best = [one.best[1] / one.us for one in of]
    known = over_best[np.isfinite(over_best)]
    shown = [geometric_mean(over_best.tolist())]
    shown += [float(np.percentile(known, 5)), float(known.min())] if len(known) else [float("nan")] * 2
    shown += [geometric_mean([one.first / one.us for one in of]), geometric_mean(of_best)]
    shown += [_least(of_best)]
    if rivals:
        over_rival = [one.rival[1] / one.us for one in of]
        shown += [geometric_mean(over_rival), _least(over_rival)]
    return name, str(len(of)), *map(_ratio, shown)


def _least(values: Sequence[float]) -> float:
    return min((value for value in values if np.isfinite(value)), default=float("nan"))


def _row(one: Row, rivals: bool) -> tuple[str, ...]:
    name, best = one.best
    ratios = (one.best8 / one.us, one.first / one.us)
    return (
        one.problem.replace(",", " x "),
        one.config,
        f"{one.us:.2f}",
        _time(one.best8),
        *map(_ratio, ratios),
        name or "-",
        _ratio(best / one.us),
        *((one.rival[0] or "-", _time(one.rival[1]), _ratio(one.rival[1] / one.us)) if rivals else ()),
    )


def _time(us: float) -> str:
    return "-" if np.isnan(us) else f"{us:.2f}"


def _ratio(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _grid(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return tabulate(lines, columns, tablefmt="github", disable_numparse=True)


def _facts(records: Sequence[Record]) -> str:
    """The device and its state while it was measured."""
    timed = [record for record in records if record.get("ms_median")]
    if not timed:
        return "Nothing was measured"
    one = timed[0]
    facts = [str(one["device"]), f"driver {one['driver']}", f"CUDA {one['cuda']}"]
    facts += [f"CUTLASS {one['cutlass']}"] if one.get("cutlass") else []
    clocks = [record["sm_clock_mhz"] for record in timed if record.get("sm_clock_mhz")]
    if clocks:
        facts.append(f"SM clock {min(clocks):.0f} to {max(clocks):.0f} MHz")
    return ", ".join(facts)
