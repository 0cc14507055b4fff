"""The command line; see the package's docstring."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from pathlib import Path

from mmagen.core.errors import UsageError
from mmagen.toolchain.find import find_toolchain
from tools.foreign_kernels.faults import FAULTS, Fault
from tools.foreign_kernels.kernel import Kernel
from tools.foreign_kernels.page import page
from tools.foreign_kernels.run import Outcome, run
from tools.foreign_kernels.sources import SOURCES, Checkout, checkout
from tools.foreign_kernels.table import KERNELS


def main() -> int:
    """0: all that was asked for is right, without a finding. 1: something is not. 2: bad usage."""
    parser = argparse.ArgumentParser(prog="python -m tools.foreign_kernels")
    for source in SOURCES.values():
        parser.add_argument(f"--{source.name}", type=Path, metavar="DIR", help=f"{source.url} at {source.version}")
    parser.add_argument("--only", metavar="NAME", action="append", help="kernels of this name or pattern")
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/mmagen-foreign"), help="what is compiled is kept there")
    parser.add_argument("--details", action="store_true", help="print every finding")
    parser.add_argument("--faults", action="store_true", help="also plant faults in the kernels' PTX")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the results as a page")
    options = parser.parse_args()
    try:
        given = {name: getattr(options, name) for name in SOURCES if getattr(options, name)}
        found = {name: checkout(SOURCES[name], folder) for name, folder in given.items()}
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    chosen = [k for k in KERNELS if k.source.name in found and _asked_for(k.name, options.only)]
    if not chosen:
        print("no kernel of that name in the projects that were given", file=sys.stderr)
        return 2
    return _run_all(chosen, found, options)


def _asked_for(name: str, patterns: list[str] | None) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _run_all(chosen: list[Kernel], found: dict[str, Checkout], options: argparse.Namespace) -> int:
    outcomes = []
    for kernel in chosen:
        outcomes.append(run(kernel, found, options.scratch))
        _print(outcomes[-1], options.details)
    planted = _run_faults({kernel.name: kernel for kernel in chosen}, found, options) if options.faults else []
    if options.markdown:
        nvcc = find_toolchain(want=["nvcc"]).nvcc
        options.markdown.write_text(
            page(outcomes, planted, found, nvcc.version if nvcc else "unknown", str(options.markdown)), "utf-8"
        )
    unseen = [fault for fault, outcome in planted if not outcome.seen_as(fault.seen)]
    return 0 if all(outcome.ok for outcome in outcomes) and not unseen else 1


def _run_faults(
    chosen: dict[str, Kernel], found: dict[str, Checkout], options: argparse.Namespace
) -> list[tuple[Fault, Outcome]]:
    planted = []
    for fault in FAULTS:
        if fault.kernel in chosen:
            outcome = run(chosen[fault.kernel], found, options.scratch, fault.plant)
            planted.append((fault, outcome))
            print(f"{fault.kernel:32} {fault.what}: {outcome.seen_as(fault.seen) or 'not seen'}", flush=True)
            if options.details:
                _print(outcome, True)
    return planted


def _print(outcome: Outcome, details: bool) -> None:
    kernel = outcome.kernel
    problem = kernel.problem.text if kernel.problem else "its own"
    findings = ", ".join(f"{kind} ({count})" for kind, count in outcome.findings.items()) or "no finding"
    verdict = "" if outcome.ok else "UNEXPECTED"
    where = f"{kernel.name:32} {kernel.arch:7} {problem:14}"
    print(f"{where} {outcome.result:10} {findings:30} {outcome.steps:8} steps {outcome.seconds:6.1f} s {verdict}", flush=True)
    if details:
        print(*(f"    {line}" for line in outcome.details), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
