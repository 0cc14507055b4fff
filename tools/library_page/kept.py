"""What was measured of libraries: JSON lines that are only appended to. An interrupted run goes on from them, and pages are written
from them.

A line is all that was found of one problem by one program. It belongs to the code of the library (a digest), to the settings, and
to the device: what was measured with others is not used.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mmagen.core.errors import UsageError
from mmagen.tuning.measure import Record, Session

SCHEMA = 1


@dataclass(frozen=True)
class Key:
    """What a measurement belongs to. library: the digest of its code. settings: of the measurement, in words. device: name of the
    GPU; driver and cuda: versions."""

    library: str
    settings: str
    device: str
    driver: str
    cuda: str


@dataclass(frozen=True)
class Found:
    """Of one problem. records: of the kernels and of cuBLASLt. chosen: the config that the library chose. skipped: why it was not
    measured. lost: the kernels that crashed or hung, with reasons. date: in ISO format."""

    problem: str
    records: tuple[Record, ...] = ()
    chosen: str = ""
    skipped: str = ""
    lost: Mapping[str, str] = field(default_factory=dict)
    date: str = ""

    @property
    def ended(self) -> bool:
        """Is there nothing more to find out by measuring again?"""
        return bool(self.records or self.skipped or self.lost)


class Kept:
    """A file of measurements. Threads may add to it."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError if the file cannot be read."""
        self._path, self._lock = path, threading.Lock()
        self._found: dict[Key, dict[str, Found]] = {}
        self.damaged = 0
        try:
            lines = path.read_bytes().splitlines() if path.exists() else []
        except OSError as error:
            raise UsageError(f"--records {path}: {error.strerror}; name a file") from None
        self._cut = bool(lines) and not path.read_bytes().endswith(b"\n")  # the last run was stopped within a line
        for line in lines:
            item = _object(line)
            if item is None:
                self.damaged += 1
            elif item["schema"] == SCHEMA:
                found = Found(**{**item["found"], "records": tuple(item["found"]["records"])})
                self._found.setdefault(Key(**item["key"]), {})[found.problem] = found

    def of(self, key: Key) -> dict[str, Found]:
        """By problem, the last that was found."""
        return dict(self._found.get(key, {}))

    def devices(self, library: str, settings: str) -> list[Key]:
        """The keys of this code and these settings, the one measured first first."""
        return [key for key in self._found if (key.library, key.settings) == (library, settings)]

    def add(self, key: Key, found: Found) -> None:
        """Append; the line is on disk when this returns."""
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write("\n" * self._cut + json.dumps({"schema": SCHEMA, "key": asdict(key), "found": asdict(found)}) + "\n")
            self._cut = False
            self._found.setdefault(key, {})[found.problem] = found


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        item = json.loads(line)
    except ValueError:
        return None
    return item if isinstance(item, dict) and {"schema", "key", "found"} <= item.keys() else None


def session_of(found: Mapping[str, Found]) -> Session:
    """As one run of the program would have yielded it."""
    session = Session()
    for problem, one in found.items():
        session.records += one.records
        session.chosen |= {problem: one.chosen} if one.chosen else {}
        session.skipped |= {problem: one.skipped} if one.skipped else {}
        session.lost |= one.lost
    return session
