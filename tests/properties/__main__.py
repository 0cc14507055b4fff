"""python -m tests.properties: draw specs until enough are accepted, and verify these on the CPU or on a GPU.

One line of JSON per spec is appended to --out; what is there already is not done again. --report prints what they come to,
--show one spec.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

from mmagen.toolchain.find import COMPILE, Toolchain, find_toolchain
from tests.properties import summary, verified
from tests.properties.draw import drawn, named
from tests.properties.forks import verify_each
from tests.properties.planned import Record, planned
from tests.properties.verified import Accepted

_BATCHES_AT_ONCE = 2  # on a GPU: one compiles while another runs
_WAIT = 2  # batches of specs wait for others that compile with them


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 1 if a spec fails the property, 2 for a wrong command line."""
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that processes forked off end too
    if options.show:
        print(named(options.show).text, end="")
        return 0
    if options.report:
        records = [one for path in options.out for one in summary.stored(path)]
        print(summary.table(records), summary.failures(records), sep="\n\n")
    else:
        records = _run(options, summary.stored(options.out[0]))
        print(summary.table(records))
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
    parser.add_argument("--out", type=Path, nargs="+", default=[Path("specs.jsonl")], help="for --report, one or several")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for a batch (default: 600)")
    parser.add_argument("--batch", type=int, default=12, help="specs that one call of nvcc compiles, at most (default: 12)")
    parser.add_argument("--max-dim", type=int, default=1024, help="on a GPU, the largest extent of a problem (default: 1024)")
    parser.add_argument("--report", action="store_true", help="print what the records of --out come to")
    parser.add_argument("--show", metavar="NAME", help="print one spec")
    return parser.parse_args(arguments)


def _shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return int(index), int(count)


def _run(options: argparse.Namespace, records: list[Record]) -> list[Record]:
    tools = find_toolchain(want=() if options.on == "plan" else (*COMPILE, "gpus"))
    if options.on == "gpu" and not tools.gpus:
        sys.exit(f"--on gpu: {tools.remedies['gpus']}")
    done = {one["name"]: one for one in records}
    path: Path = options.out[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as out:
        if out.tell() and not path.read_bytes().endswith(b"\n"):
            out.write("\n")
        work = _accepted(options, done, out, records)
        for one in _verified(options, tools, _batches(work, *_sizes(options, tools))):
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


def _sizes(options: argparse.Namespace, tools: Toolchain) -> tuple[int, Callable[[Accepted], tuple[object, ...]]]:
    """How many specs are a batch, and what those of one have in common."""
    if options.on == "gpu":
        return options.batch, partial(verified.target_on, tools)
    return (1 if options.on == "plan" else options.batch), lambda one: one.together


def _batches(work: Iterator[Accepted], size: int, common: Callable[[Accepted], tuple[object, ...]]) -> Iterator[list[Accepted]]:
    """Specs that nvcc compiles in one call: `size` of them, or as many as there are where others fill batches meanwhile."""
    waiting: dict[tuple[object, ...], list[Accepted]] = {}  # the batch that began first is the first
    for one in work:
        batch = waiting.setdefault(common(one), [])
        batch.append(one)
        if len(batch) == size:
            yield waiting.pop(common(one))
        elif sum(map(len, waiting.values())) > _WAIT * size:
            yield waiting.pop(next(iter(waiting)))
    yield from waiting.values()


def _keep(one: Record, out: TextIO, records: list[Record]) -> None:
    records.append(one)
    out.write(json.dumps(one) + "\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
