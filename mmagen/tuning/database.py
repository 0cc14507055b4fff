"""The database of measurements: JSON lines, only appended to. It is what an interrupted run goes on from.

A line is one kernel on one problem on one device. A kernel is known by the digest of its code, so that what was measured with other
code is not used. Lines that are cut or of another version are skipped, and counted.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mmagen
from mmagen.core.errors import UsageError
from mmagen.generate.render import render
from mmagen.plan.plans import GemmPlan
from mmagen.tuning.measure import BASELINES, Machine, Record

SCHEMA = 1
_KEPT = ("disposition", "ms_median", "ms_min", "ms_max", "sm_clock_mhz", "power_w", "reason", "machine")
_NEEDED = ("schema", "kernel", "problem", "device", "driver", "cuda", "disposition")
_CODE = ("include/", "src/")


@dataclass(frozen=True)
class Site:
    """Where something was measured: times of different sites are never compared."""

    device: str
    driver: str
    cuda: str


@dataclass(frozen=True)
class Line:
    """One measurement. kernel: the digest of its code, or a name of BASELINES. name: that of the configuration. ms: the median of
    its samples, None unless disposition is "passed". date: ISO 8601, "" if unknown."""

    kernel: str
    name: str
    problem: str
    site: Site
    disposition: str
    ms: float | None
    clock_mhz: float | None
    reason: str
    date: str


@dataclass(frozen=True)
class Contents:
    """What a database holds: the last line of each kernel, problem and site; machines by device; and what was skipped, in words."""

    lines: tuple[Line, ...] = ()
    machines: Mapping[str, Machine] | None = None
    notes: tuple[str, ...] = ()


def digest(plan: GemmPlan) -> str:
    """Of everything that is compiled for a kernel, without the spec's digest, so that other problems, or coefficients that are not
    in its code, do not change it."""
    plan, found = replace(plan, spec_sha=""), hashlib.sha256()
    if plan.scheduler.several_widths:  # set at launch, as then the cluster is
        columns = plan.scheduler.widths or plan.scheduler.tile_n
        found.update(f"{plan.scheduler.cluster} {columns}\0".encode())
    for path, content in sorted(render(plan, tests=False, with_figures=False).items()):
        if path.startswith(_CODE):
            found.update(path.encode() + b"\0" + content + b"\0")
    return found.hexdigest()[:16]


def read(path: Path) -> Contents:
    """The whole lines of a database; nothing if there is no such file. Raises UsageError if it cannot be read."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return Contents()
    except OSError as error:
        raise UsageError(f"--database {path}: {error.strerror}; name a file") from None
    found: dict[tuple[str, str, Site], Line] = {}
    machines: dict[str, Machine] = {}
    damaged: list[int] = []
    other: list[int] = []
    for number, text in enumerate(lines, start=1):
        item = _object(text)
        if item is None:
            damaged.append(number)
        elif item.get("schema") != SCHEMA:
            other.append(number)
        elif any(key not in item for key in _NEEDED):
            damaged.append(number)
        else:
            line = _line(item)
            found[line.kernel, line.problem, line.site] = line
            if isinstance(machine := item.get("machine"), dict):
                machines[line.site.device] = Machine.of(machine)
    notes = [_skipped(path, damaged, "cut or damaged"), _skipped(path, other, f"not of version {SCHEMA}")]
    return Contents(tuple(found.values()), machines, tuple(note for note in notes if note))


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return item if isinstance(item, dict) else None


def _skipped(path: Path, numbers: list[int], what: str) -> str:
    if not numbers:
        return ""
    shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"{path}: {len(numbers)} {'line' if len(numbers) == 1 else 'lines'} {what}, skipped: {shown}"


def _line(item: Mapping[str, Any]) -> Line:
    ms = item.get("ms_median") if item["disposition"] == "passed" else None
    site = Site(str(item["device"]), str(item["driver"]), str(item["cuda"]))
    reason = str(item.get("reason") or "")
    name = str(item.get("name") or "")
    known = str(item["kernel"]), name, str(item["problem"])
    return Line(*known, site, str(item["disposition"]), ms, item.get("sm_clock_mhz"), reason, str(item.get("time") or "")[:10])


class Writer:
    """Appends measurements as they come; each line is flushed, so that a run that is killed loses at most one."""

    def __init__(self, path: Path, kernels: Mapping[str, str], configs: Mapping[str, Mapping[str, Any]]) -> None:
        """kernels: name in the program -> digest. configs: name -> keys. Raises UsageError if the file cannot be written."""
        self._kernels, self._configs = kernels, configs
        try:
            cut = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--database {path}: {error.strerror}; name a file in an existing folder") from None
        if cut:  # the last run was stopped within a line
            self._file.write("\n")

    def add(self, record: Record, site: Site) -> None:
        """One record of the program; those of other names are left out."""
        name = record["name"]
        if name not in self._kernels and name not in BASELINES:
            return
        item: dict[str, Any] = {
            "schema": SCHEMA,
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "kernel": self._kernels.get(name, name),
            "name": name,
            "config": self._configs.get(name),
            "problem": record["problem"],
            "device": site.device,
            "driver": site.driver,
            "cuda": site.cuda,
            "cutlass": record.get("cutlass"),
            "mmagen": mmagen.__version__,
            **{key: record.get(key) for key in _KEPT},
        }
        self._file.write(json.dumps(item) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def site_of(contents: Contents, path: Path) -> Site:
    """Where most of it was measured. Raises UsageError if nothing was."""
    counts = Counter(line.site for line in contents.lines)
    if not counts:
        raise UsageError(f"--database {path}: there are no measurements; without --measured-only they are made")
    return counts.most_common(1)[0][0]


def times(lines: Iterable[Line], site: Site) -> dict[str, dict[str, float]]:
    """kernel -> problem -> seconds, of what was measured there and was right."""
    found: dict[str, dict[str, float]] = {}
    for line in lines:
        if line.site == site and line.ms:
            found.setdefault(line.kernel, {})[line.problem] = line.ms * 1e-3
    return found
