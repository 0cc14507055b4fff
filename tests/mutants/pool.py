"""Tries many mutants, each in a process of its own, and appends what became of them to a file of JSON lines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from tests.mutants.sites import Mutant, mutants, specs_of
from tests.mutants.trial import HUNG, MOST_SPECS, UNTRIED, Outcome, compile_original, outcome

_ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 420.0  # for a mutant


def run(
    drawn: Sequence[Mutant],
    out: Path,
    jobs: int,
    specs: Collection[str] = (),
    most: int = MOST_SPECS,
    limit: float = LIMIT_S,
) -> list[Outcome]:
    """Outcomes of the mutants `drawn`. Those that `out` has already are not tried again; each new one is appended at once. specs,
    most: try a mutant with these alone, and with so many at most. limit: seconds that one may take."""
    known = {one.name: one for one in read(out)}
    waiting = [mutant for mutant in drawn if mutant.name not in known]
    orders = {mutant: order for mutant in waiting if (order := _order(mutant, specs))}
    with ThreadPoolExecutor(jobs) as pool, out.open("a") as file:
        # A mutant is tried when the original of its first spec is compiled, and those that were drawn first come first. An original
        # is compiled when no mutant is ready, so that few jobs have outcomes soon.
        originals: dict[Future[None], str] = {}
        begun: set[str] = set()
        compiled: set[str] = set()
        tried: set[Future[Outcome]] = set()
        done = 0
        while originals or tried or orders:
            free = jobs - len(originals) - len(tried)
            ready = [mutant for mutant, order in orders.items() if order[0] in compiled][:free]
            tried |= {pool.submit(_try, mutant, orders.pop(mutant), most, limit) for mutant in ready}
            needed = dict.fromkeys(order[0] for order in orders.values() if order[0] not in begun)
            for spec in [*needed][: free - len(ready)]:
                originals[pool.submit(compile_original, spec)] = spec
                begun.add(spec)
            finished, _ = wait([*originals, *tried], return_when=FIRST_COMPLETED)
            compiled |= {originals.pop(future) for future in finished & set(originals)}
            for future in finished & tried:
                one = future.result()
                done += 1
                known[one.name] = one
                file.write(one.to_json() + "\n")
                file.flush()
                print(f"{done}/{len(waiting)} {one.status}: {one.header}:{one.line} {one.operator}", file=sys.stderr)
            tried -= finished
    return [known[mutant.name] for mutant in drawn if mutant.name in known]


def read(out: Path) -> list[Outcome]:
    """The outcomes that a file holds; [] if there is none. A last line that was not written to its end is left out."""
    if not out.is_file():
        return []
    lines = out.read_text().split("\n")[:-1]
    return [Outcome(**json.loads(line)) for line in lines]


def of_present(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those of mutants that still exist: whose line and neighbouring lines have not changed. Their lines are the present ones."""
    present = {mutant.name: mutant for of in mutants().values() for mutant in of}
    return [replace(one, line=present[one.name].line) for one in outcomes if one.name in present]


def _order(mutant: Mutant, specs: Collection[str]) -> list[str]:
    """The specs that use the mutant's header, of `specs` alone if there are any; mutants of a header begin with different ones."""
    using = [spec for spec in specs_of(mutant.header) if not specs or spec in specs]
    first = int(mutant.name, 16) % max(len(using), 1)
    return [*using[first:], *using[:first]]


def _try(mutant: Mutant, order: Sequence[str], most: int, limit: float = LIMIT_S) -> Outcome:
    command = [
        sys.executable,
        "-m",
        "tests.mutants",
        "--one",
        mutant.name,
        "--header",
        mutant.header,
        "--most-specs",
        str(most),
    ]
    command += [word for spec in order for word in ("--spec", spec)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=_ROOT)
    except subprocess.TimeoutExpired:
        return outcome(mutant, HUNG, "", f"no verdict in {limit:.0f} s", limit)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return outcome(mutant, UNTRIED, "", f"the tool itself failed: {last[0]}", 0.0)
    return Outcome(**json.loads(done.stdout.strip().splitlines()[-1]))
