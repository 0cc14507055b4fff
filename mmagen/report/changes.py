"""What changed between two reports of `mmagen verify --json`: verdicts, and speed beside a stated bound for noise."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmagen.core.errors import UsageError
from mmagen.verify.verdict import EMULATED

Key = tuple[str, str, str]  # kernel, problem, distribution of inputs
_LARGEST = 1e300
_NOT_FINITE = ("nan", "inf", "-inf", float("inf"), float("-inf"))  # as reports have them, and as JSON of others may
_SHOWN = 40  # characters of a value in a message
_WORST_FIRST = ("incorrect", "failed", "not_run", "not_supported", "skipped", "compiled", "passed")


@dataclass(frozen=True)
class Measured:
    """What one report says of a problem. word: of the verdict, without "(emulated)". ratio: to cuBLASLt's best of 8, ms: the
    median; None where it was not measured. chosen_by: of an emulated problem the spec and the version that it was chosen by."""

    word: str
    ratio: float | None
    ms: float | None
    device: str
    chosen_by: tuple[str, str] | None = None


@dataclass(frozen=True)
class Change:
    """A problem that differs. what: "passed -> failed", or "ratio 0.98 -> 0.90"; by: of the speed, -0.08 for 8% slower, None for a
    verdict. regression: does it make exit code 1? better: faster, or right where it was not."""

    key: Key
    what: str
    by: float | None
    regression: bool
    better: bool


def read(text: str, file: str) -> dict[Key, Measured]:
    """The records of a report by problem; of several for one, the worst verdict and the first figures. Raises UsageError with the
    line that is no record."""
    found: dict[Key, Measured] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            key = (str(record["name"]), str(record["problem"]), str(record["input_dist"] or ""))
            measured = _measured(record)
        except _NoNumberError as error:
            raise UsageError(f"{file}:{number}: {error}; pass what mmagen verify --json wrote") from None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            what = f"it lacks {error}" if isinstance(error, KeyError) else "it is no JSON object of a record"
            raise UsageError(f"{file}:{number}: {what}; pass what mmagen verify --json wrote") from None
        found[key] = _joined(found[key], measured) if key in found else measured
    if not found:
        raise UsageError(f"{file} has no records; pass what mmagen verify --json wrote")
    return found


def _measured(record: Mapping[str, Any]) -> Measured:
    word = str(record["disposition"]).partition(" ")[0]
    device = str(record.get("device") or "")
    chosen_by = (str(record.get("spec_sha")), str(record.get("mmagen"))) if device == EMULATED else None
    return Measured(word, _number(record, "ratio"), _number(record, "ms_median"), device, chosen_by)


class _NoNumberError(Exception):
    """A figure that cannot be compared."""


def _number(record: Mapping[str, Any], key: str) -> float | None:
    """A figure of a record; None where it was not measured. What is no figure must not look as if nothing were slower."""
    value = record.get(key)
    if value is None or value == 0 or value in _NOT_FINITE or value != value:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _LARGEST:
        raise _NoNumberError(f"its {key} is {str(value)[:_SHOWN]}, which is no positive number")
    return float(value)


def _joined(one: Measured, other: Measured) -> Measured:
    word = min(one.word, other.word, key=lambda w: _WORST_FIRST.index(w) if w in _WORST_FIRST else 0)
    return Measured(word, one.ratio or other.ratio, one.ms or other.ms, one.device or other.device, one.chosen_by)


def changes(old: Mapping[Key, Measured], new: Mapping[Key, Measured], noise: float) -> list[Change]:
    """What differs, regressions first. noise: a speed that changed by this fraction or less counts as equal.

    Speeds are compared as ratios to cuBLASLt, which clocks and devices affect alike; as times only on the same device. Emulation
    chooses its problems by the spec and mmagen's version: where one of these changed, problems that are gone are no regression."""
    choices = {(key[0], one.chosen_by) for key, one in new.items() if one.chosen_by}
    emulated = {kernel for kernel, _ in choices}

    def is_chosen_anew(key: Key) -> bool:
        one = old.get(key)
        return bool(one and one.chosen_by and key not in new and key[0] in emulated and (key[0], one.chosen_by) not in choices)

    found = [_verdict_change(key, old.get(key), new.get(key), is_chosen_anew(key)) for key in dict.fromkeys((*old, *new))]
    speeds = [_speed_change(key, old[key], new[key], noise) for key in old if key in new]
    every = [change for change in (*found, *speeds) if change]
    return sorted(every, key=lambda change: (not change.regression, change.by is not None, change.by or 0.0))


def _verdict_change(key: Key, old: Measured | None, new: Measured | None, chosen_anew: bool) -> Change | None:
    before, after = (one.word if one else "absent" for one in (old, new))
    if before == after:
        return None
    wrong = ("incorrect", "failed")
    regression = (before == "passed" and not chosen_anew) or after in wrong
    better = before in wrong and after == "passed"
    return Change(key, f"{before} -> {after}", None, regression, better)


def _speeds(old: Measured, new: Measured) -> tuple[float, str] | None:
    """How much faster, as a fraction, and both figures; None where there are none to compare."""
    if old.ratio and new.ratio:
        return new.ratio / old.ratio - 1, f"ratio {old.ratio:.3f} -> {new.ratio:.3f}"
    if old.ms and new.ms and old.device == new.device:
        return old.ms / new.ms - 1, f"ms {old.ms:.4f} -> {new.ms:.4f}"
    return None


def _speed_change(key: Key, old: Measured, new: Measured, noise: float) -> Change | None:
    by, what = _speeds(old, new) or (0.0, "")
    return Change(key, what, by, by < 0, by > 0) if abs(by) > noise else None


def rows(found: Iterable[Change]) -> list[list[str]]:
    """For a table: what it is, kernel, problem, inputs, change."""
    return [["REGRESSION" if one.regression else "better" if one.better else "other", *one.key, _text(one)] for one in found]


def _text(change: Change) -> str:
    return change.what if change.by is None else f"{change.what} ({change.by:+.1%})"


def summary(old: Mapping[Key, Measured], new: Mapping[Key, Measured], found: Sequence[Change], noise: float) -> str:
    """One line that states what was compared, and the bound."""
    regressions = sum(change.regression for change in found)
    timed = sum(1 for key in old if key in new and _speeds(old[key], new[key]))
    return (
        f"{len(old)} problems before, {len(new)} now; {timed} speeds compared, {100 * noise:.4g}% or less counts as noise; "
        f"{regressions} regression{'s' * (regressions != 1)}"
    )
