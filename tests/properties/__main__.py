"""python -m tests.properties: draw specs until enough are accepted, and verify these on the CPU or on a GPU.

One line of JSON per spec is appended to --out; what is there already is not done again. --report prints what they come to,
--show one spec.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from mmagen.toolchain.find import COMPILE, Toolchain, find_toolchain
from tests.properties import summary, verified
from tests.properties.draw import drawn, named
from tests.properties.forks import verify_each
from tests.properties.planned import Record, planned
from tests.properties.verified import Accepted

_BATCHES_AT_ONCE = 2  # one compiles while another runs


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if a spec fails the property, 2 for a wrong command line."""
    options = _options(arguments)
    if options.show:
        print(named(options.show).text, end="")
        return 0
    records = _stored(options.out)
    if not options.report:
        records = _run(options, records)
        print(summary.table(records))
    else:
        print(summary.table(records), summary.failures(records), sep="\n\n")
    return int(any(one["outcome"] in summary.BAD for one in records))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.properties", description=__doc__)
    parser.add_argument("--count", type=int, default=30, help="accepted specs, of all shards together (default: 30)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", type=_shard, default=(1, 1), metavar="I/N", help="every N-th spec, I from 1 to N")
    parser.add_argument(
        "--having",
        type=lambda text: tuple(text.split(",")),
        default=(),
        metavar="FEATURE,...",
        help="only specs with one of these: any key, operations (a list as epilogue), sparse",
    )
    parser.add_argument("--on", choices=("cpu", "gpu", "plan"), default="cpu", help="plan: load, plan and render only")
    parser.add_argument("--out", type=Path, default=Path("specs.jsonl"))
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a spec, or for a batch on a GPU (default: 600)")
    parser.add_argument("--batch", type=int, default=48, help="specs that are built together for a GPU (default: 48)")
    parser.add_argument("--max-dim", type=int, default=1024, help="on a GPU, the largest extent of a problem (default: 1024)")
    parser.add_argument("--report", action="store_true", help="print what the records of --out come to")
    parser.add_argument("--show", metavar="NAME", help="print one spec")
    return parser.parse_args(arguments)


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return int(index), int(count)


def _stored(out: Path) -> list[Record]:
    """The records of a former run. A last line that was cut off is left out."""
    found = []
    for line in out.read_text("utf-8").splitlines() if out.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _run(options: argparse.Namespace, records: list[Record]) -> list[Record]:
    tools = find_toolchain(want=() if options.on == "plan" else (*COMPILE, "gpus"))
    if options.on == "gpu" and not tools.gpus:
        sys.exit(f"--on gpu: {tools.remedies['gpus']}")
    records = list({one["name"]: one for one in records}.values())
    done = {one["name"]: one for one in records}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with options.out.open("a", encoding="utf-8") as out:
        if out.tell() and not options.out.read_bytes().endswith(b"\n"):
            out.write("\n")
        work = _accepted(options, done, out, records)
        size = options.batch if options.on == "gpu" else 1
        for one in _verified(options, tools, _batches(work, size)):
            _keep(one, out, records)
            if sys.stderr.isatty() or len(records) % 50 == 0:
                print(f"{one['name']} {one['outcome']}; {len(records)} specs", file=sys.stderr, flush=True)
    return records


def _accepted(options: argparse.Namespace, done: dict[str, Record], out: TextIO, records: list[Record]) -> Iterator[Accepted]:
    """Specs to verify, until enough are accepted with those of `done`; what is refused is recorded at once."""
    share = -(-options.count // options.shard[1])
    taken = 0
    for spec in drawn(options.seed, options.shard, options.having):
        if taken == share:
            return
        if spec.name in done:
            taken += summary.accepted(done[spec.name])
            continue
        plan = planned(spec)
        if isinstance(plan, dict):
            _keep(plan, out, records)
        else:
            taken += 1
            yield Accepted(spec, plan)


def _verified(options: argparse.Namespace, tools: Toolchain, batches: Iterator[list[Accepted]]) -> Iterator[Record]:
    if options.on == "plan":
        for (one,) in batches:
            yield {"name": one.spec.name, "outcome": "accepted", "what": "", "stage": "render"}
    elif options.on == "cpu":
        yield from verify_each(batches, lambda work: verified.on_cpu(work, tools), options.jobs, options.limit)
    else:
        yield from verify_each(
            batches,
            lambda work: verified.on_gpu(work, tools, -(-options.jobs * 3 // 4), options.max_dim),
            _BATCHES_AT_ONCE,
            options.limit,
        )


def _batches(work: Iterator[Accepted], size: int) -> Iterator[list[Accepted]]:
    batch: list[Accepted] = []
    for one in work:
        batch.append(one)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _keep(one: Record, out: TextIO, records: list[Record]) -> None:
    records.append(one)
    out.write(json.dumps(one) + "\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
