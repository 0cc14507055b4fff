"""What a round runs: commands, each with the processors and GPUs that it takes and a function that reads its outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

# Of something that was asked for. Only "passed" says that it ran and was right. failed: did not compile, crashed, or a test's
# assertion; cut_off: the round's time ended while it ran; not_run: before it began.
WORDS = ("passed", "skipped", "wrong", "failed", "cut_off", "not_run")
COMPILE, TESTS, VERIFY = "compile", "tests", "verify"  # pools of processors


@dataclass(frozen=True)
class Outcome:
    """kind: of unit, a line of the table: specs, odd, bench, ... unit: its name within the kind. left_out: problems that were not
    run since they are too large."""

    kind: str
    unit: str
    word: str
    reason: str = ""
    left_out: int = 0


@dataclass(frozen=True)
class Ended:
    """How a job ended. exit_code: None if the round ended it. reason: why, as a sentence, "" if it ended by itself. word: cut_off
    if the round's time was up, failed if its own was. log: what it printed."""

    exit_code: int | None
    seconds: float
    reason: str = ""
    word: str = ""
    log: str = ""

    @property
    def last_line(self) -> str:
        """Of what it printed, for a reason."""
        lines = [line.strip() for line in self.log.splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it printed nothing"


@dataclass(frozen=True)
class Job:
    """A command of a round.

    units: what it is to give outcomes of, all of `kind`. read: its outcomes once it has ended, for each unit at least one, however
    it ended. cores: processors that it may use and no other job does; pools: where they come from, the preferred one first.
    gpus: how many it sees. alone: no other job uses its GPU. brief: it has the GPU for seconds. after: the name of a job that must
    have ended. limit_s: its longest time.
    """

    name: str
    kind: str
    units: tuple[str, ...]
    command: tuple[str, ...]
    read: Callable[[Ended], Iterable[Outcome]]
    cores: int = 1
    pools: tuple[str, ...] = (VERIFY, TESTS, COMPILE)
    gpus: int = 1
    alone: bool = False
    brief: bool = False
    after: str = ""
    limit_s: float = 600.0
    env: Mapping[str, str] = field(default_factory=dict)


def of_exit_code(kind: str, unit: str) -> Callable[[Ended], list[Outcome]]:
    """Reads a command of which only the exit code counts: 0 passed, 1 wrong, 77 skipped (nothing could be measured)."""

    def read(ended: Ended) -> list[Outcome]:
        if ended.exit_code is None:
            return [Outcome(kind, unit, ended.word, ended.reason)]
        word = {0: "passed", 1: "wrong", 77: "skipped"}.get(ended.exit_code, "failed")
        return [Outcome(kind, unit, word, "" if word == "passed" else ended.last_line)]

    return read


def text_of(path: Path) -> str:
    """What a job wrote; "" if it wrote nothing."""
    try:
        return path.read_text("utf-8", "replace")
    except FileNotFoundError:
        return ""
