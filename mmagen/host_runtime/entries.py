"""Properties of PTX entries needed for a launch: parameters, maximum threads, static shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)([^{]*)\{")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.([a-z]+)(\d+)\s+(?:\.ptr\s+(?:\.[a-z]+\s+)?(?:\.align\s+\d+\s+)?)?[\w$]+(?:\[(\d+)\])?"
)
_MOST_THREADS = re.compile(r"\.(?:maxntid|reqntid)\s+([\d,\s]+)")
_SHARED = re.compile(r"^\s*\.shared\s+(?:\.align\s+\d+\s+)?\.[a-z]+(\d+)\s+([\w$]+)(?:\[(\d+)\])?", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """parameters: (offset, size) of each in the parameter block. most_threads: of a CTA, 0 where the PTX does not say.
    static_shared_bytes: of the variables that the entry uses. All in bytes."""

    name: str
    parameters: tuple[tuple[int, int], ...]
    most_threads: int
    static_shared_bytes: int

    @property
    def directives(self) -> tuple[str, ...]:
        """As the runner takes it."""
        sizes = [number for parameter in self.parameters for number in parameter]
        facts = (self.most_threads, self.static_shared_bytes, len(self.parameters), *sizes)
        return ("kernel", self.name, *map(str, facts))


@lru_cache(maxsize=64)
def entries_of(text: str) -> tuple[Entry, ...]:
    """The entries of a PTX text, in its order."""
    shared = {name: int(bits) // 8 * int(count or 1) for bits, name, count in _SHARED.findall(text)}
    found = list(_ENTRY.finditer(text))
    bounds = [*(match.start() for match in found), len(text)]
    return tuple(_entry(match, text[match.end() : end], shared) for match, end in zip(found, bounds[1:], strict=True))


def _entry(match: re.Match[str], body: str, shared: dict[str, int]) -> Entry:
    parameters, end = [], 0
    for alignment, _, bits, count in _PARAMETER.findall(match[2]):
        size = int(bits) // 8
        end = -(-end // int(alignment or size)) * int(alignment or size)
        parameters.append((end, size * int(count or 1)))
        end += size * int(count or 1)
    threads = 0
    if limits := _MOST_THREADS.search(match[3]):
        threads = 1
        for extent in limits[1].split(","):
            threads *= int(extent)
    used = sum(size for name, size in shared.items() if re.search(rf"\b{re.escape(name)}\b", body))
    return Entry(match[1], tuple(parameters), threads, used)
