"""Tries many mutants, each in a process of its own, and appends what became of them to a file of JSON lines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.mutants.sites import SPECS, Mutant, specs_of
from tests.mutants.trial import HUNG, MOST_SPECS, UNTRIED, Outcome, compile_original, outcome

_ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 420.0


def run(mutants: Sequence[Mutant], out: Path, jobs: int, specs: Collection[str] = (), most: int = MOST_SPECS) -> list[Outcome]:
    """Outcomes of all mutants. Those that `out` has already are not tried again; each new one is appended at once. specs, most:
    try a mutant with these alone, and with so many at most."""
    known = {one.name: one for one in read(out)}
    waiting = [mutant for mutant in mutants if mutant.name not in known]
    of = {mutant: [spec for spec in specs_of(mutant.header) if not specs or spec in specs] for mutant in waiting}
    used = {spec for some in of.values() for spec in some}
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(compile_original, [spec for spec in SPECS if spec in used]))
    with ThreadPoolExecutor(jobs) as pool, out.open("a") as file:
        for done, future in enumerate(
            as_completed([pool.submit(_try, mutant, of[mutant] if specs else (), most) for mutant in waiting if of[mutant]]), 1
        ):
            one = future.result()
            known[one.name] = one
            file.write(one.to_json() + "\n")
            file.flush()
            print(f"{done}/{len(waiting)} {one.status}: {one.header}:{one.line} {one.operator}", file=sys.stderr)
    return [known[mutant.name] for mutant in mutants if mutant.name in known]


def read(out: Path) -> list[Outcome]:
    """The outcomes that a file holds; [] if there is none. A last line that was not written to its end is left out."""
    if not out.is_file():
        return []
    lines = out.read_text().split("\n")[:-1]
    return [Outcome(**json.loads(line)) for line in lines]


def _try(mutant: Mutant, specs: Sequence[str] = (), most: int = MOST_SPECS) -> Outcome:
    command = [sys.executable, "-m", "tests.mutants", "--one", mutant.name, "--most-specs", str(most)]
    # The mutants of a header begin with different specs.
    first = int(mutant.name, 16) % max(len(specs), 1)
    command += [word for spec in (*specs[first:], *specs[:first]) for word in ("--spec", spec)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, cwd=_ROOT)
    except subprocess.TimeoutExpired:
        return outcome(mutant, HUNG, "", f"no verdict in {_TIMEOUT_S:.0f} s", _TIMEOUT_S)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return outcome(mutant, UNTRIED, "", f"the tool itself failed: {last[0]}", 0.0)
    return Outcome(**json.loads(done.stdout.strip().splitlines()[-1]))
