"""One spec as far as its project: refused with faults, or a plan; an exception is a defect of mmagen."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from mmagen.core.errors import ABSENT, Diagnostic, MmagenError
from mmagen.families import family_of
from mmagen.families.reading import read
from mmagen.families.remedies import accepted_changes, as_yaml
from mmagen.generate.render import render
from mmagen.plan.project import ProjectPlan
from tests.properties.draw import Drawn

# The result of one spec, as one line of JSON.
Record = dict[str, Any]
PLAN_LIMIT_S = 20  # of a processor


class TimeLimit(BaseException):
    """A step took longer than its limit."""


@contextmanager
def limited(seconds: float, *, of_processor: bool = False) -> Iterator[None]:
    """Raise TimeLimit in the main thread if what is inside takes longer, or that much time of a processor."""
    timer, number = (signal.ITIMER_PROF, signal.SIGPROF) if of_processor else (signal.ITIMER_REAL, signal.SIGALRM)

    def stop(number: int, frame: object) -> None:
        raise TimeLimit

    before = signal.signal(number, stop)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)


def planned(one: Drawn) -> ProjectPlan | Record:
    """The plan of an accepted spec, whose project was rendered and whose problems to emulate were chosen; else the record of its
    refusal or of a crash."""
    try:
        with limited(PLAN_LIMIT_S, of_processor=True):
            plan, diagnostics = read(one.text, f"{one.name}.yaml")
            if plan:
                render(plan)
                for one in [config.plan for config in getattr(plan, "configs", ())] or [plan]:
                    family_of(one).trials(one)
                return plan
            refusal = _refused(one, diagnostics)
    except TimeLimit:
        return record(one.name, "hang", f"load, plan and render took more than {PLAN_LIMIT_S} s of a processor", stage="plan")
    except Exception as error:
        return record(one.name, "crash", _where(error), stage="plan")
    return refusal


def _refused(one: Drawn, diagnostics: tuple[Diagnostic, ...]) -> Record:
    faults = [{"key": list(d.key), "what": d.what, "remedy": d.remedy} for d in diagnostics]
    mended = _mended(one)
    outcome = "refused" if mended else "refused_unmended"
    return record(one.name, outcome, str(diagnostics[0]), stage="plan", faults=faults, mended=mended)


def _mended(one: Drawn) -> bool:
    """Is the spec accepted with the lines that are printed for it, in one step?"""
    changes = accepted_changes(one.text, f"{one.name}.yaml")
    if not changes:
        return False
    # From the text: the document has lists in two places, which would be written as anchors and aliases.
    kept = {key: value for key, value in yaml.safe_load(one.text).items() if changes.get(key) is not ABSENT}
    lines = yaml.safe_load(as_yaml(changes)) or {}
    return read(yaml.safe_dump(kept | lines, sort_keys=False), f"{one.name}.yaml")[0] is not None


def record(name: str, outcome: str, what: str = "", **facts: Any) -> Record:
    """A record; `what` is cut to its first line."""
    return {"name": name, "outcome": outcome, "what": what.split("\n", 1)[0][:500], **facts}


def failure(name: str, error: BaseException, stage: str) -> Record:
    """The record of a spec that was accepted and then raised. stage: "compile" or "run"."""
    if isinstance(error, MmagenError):
        return record(name, "wrong", f"refused when verified: {error}", stage=stage)
    return record(name, "crash", _where(error), stage=stage)


def _where(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = frame.filename.partition("mmagen/")[2] or frame.filename
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]} ({place}:{frame.lineno})"
