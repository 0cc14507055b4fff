"""Processors and GPUs, and who may have them. Nothing is ever used by more jobs than it is meant for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tools.gpu_round.jobs import COMPILE, TESTS, VERIFY

_FEW = 4  # processors: too few to divide


def pools(cpus: Sequence[int], reserve: int) -> dict[str, frozenset[int]]:
    """Which processors each pool has. `reserve` of them never compile specs: half run the programs that verify, half the tests,
    which a busy machine would make miss their own time limits. A small machine has one pool under three names."""
    if len(cpus) < _FEW or reserve < 2 or reserve >= len(cpus):
        return dict.fromkeys((COMPILE, TESTS, VERIFY), frozenset(cpus))
    kept = cpus[len(cpus) - reserve :]
    half = len(kept) // 2
    return {COMPILE: frozenset(cpus[: len(cpus) - reserve]), TESTS: frozenset(kept[:half]), VERIFY: frozenset(kept[half:])}


class Cores:
    """Processors by number; a job has its own until it gives them back."""

    def __init__(self, by_pool: Mapping[str, frozenset[int]]) -> None:
        self.pools = dict(by_pool)
        self._free = set().union(*by_pool.values())

    def most(self, names: Iterable[str]) -> int:
        """Processors that these pools have, free or not."""
        return len(set().union(*(self.pools[name] for name in names)))

    def take(self, count: int, names: Sequence[str]) -> tuple[int, ...]:
        """`count` free ones, of the first pools first; () if there are not as many."""
        found: list[int] = []
        for name in names:
            found += [cpu for cpu in sorted(self.pools[name] & self._free) if cpu not in found]
        if len(found) < count:
            return ()
        self._free -= set(found[:count])
        return tuple(found[:count])

    def give(self, cpus: Iterable[int]) -> None:
        self._free |= set(cpus)


class Gpus:
    """GPUs by place. Jobs that verify share one, at most `share` at a time; a job that measures time has its GPU for itself."""

    def __init__(self, count: int, share: int) -> None:
        self.count, self._share = count, share
        self._running = [0] * count
        self._alone: set[int] = set()

    def take(self, count: int, alone: bool, timed_later: bool) -> tuple[int, ...]:
        """The places of `count` GPUs, or of all if there are fewer; () if they are not free. timed_later: jobs are left that must
        be alone. Of several GPUs the last is kept for them, and verifies only when none is left."""
        timing = {self.count - 1} if self.count > 1 and timed_later else set()
        if alone:
            places = sorted(timing or range(self.count))
            found = [place for place in places if not self._running[place]][:1]
        else:
            open_ = [place for place in range(self.count) if place not in timing | self._alone]
            free = [place for place in open_ if self._running[place] < self._share]
            found = sorted(free, key=lambda place: self._running[place])[: min(count, self.count)]
            if len(found) < min(count, self.count):
                return ()
        for place in found:
            self._running[place] += 1
            self._alone |= {place} if alone else set()
        return tuple(found)

    def give(self, places: Iterable[int]) -> None:
        for place in places:
            self._running[place] -= 1
            self._alone.discard(place)
