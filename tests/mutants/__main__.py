"""Command line of the mutation tester; see the package's docstring."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.mutants.pool import LIMIT_S, of_present, read, run
from tests.mutants.report import markdown, unexplained
from tests.mutants.sites import mutants, mutants_of, sample
from tests.mutants.trial import MOST_SPECS, judge


def main() -> int:
    """Exit code 0 if every survivor is explained."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--header", action="append", default=[], help="of this header alone; repeatable")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="the I-th of N parts, from 1")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"), help="outcomes; what it has is not tried again")
    parser.add_argument("--report", type=Path, help="print the report of such a file and try nothing")
    parser.add_argument("--one", metavar="NAME", help="try this mutant alone and print its outcome as JSON")
    parser.add_argument("--spec", action="append", default=[], help="try mutants with this spec; repeatable")
    parser.add_argument("--most-specs", type=int, default=MOST_SPECS, help="that a mutant is tried with while none notices it")
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for a mutant (default: 420)")
    parser.add_argument("--show", metavar="NAME", help="print the edited header")
    chosen = parser.parse_args()
    if chosen.report:
        outcomes = of_present(read(chosen.report))
        print(markdown(outcomes))
        return int(bool(unexplained(outcomes)))
    if name := chosen.one or chosen.show:
        headers = [mutants_of(header) for header in chosen.header] or mutants().values()
        (mutant,) = (one for of in headers for one in of if one.name == name)
        print(judge(mutant, chosen.spec, chosen.most_specs).to_json() if chosen.one else mutant.apply().decode())
        return 0
    if unknown := sorted(set(chosen.header) - set(mutants())):
        parser.error(f"no spec of tests.mutants.sites uses {', '.join(unknown)}")
    drawn = sample(chosen.count, chosen.seed, chosen.header)
    part, parts = map(int, chosen.shard.split("/"))
    outcomes = run(drawn[part - 1 :: parts], chosen.out, chosen.jobs, chosen.spec, chosen.most_specs, chosen.limit)
    print(markdown(outcomes))
    return int(bool(unexplained(outcomes)))


if __name__ == "__main__":
    sys.exit(main())
