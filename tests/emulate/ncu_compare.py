"""The emulator's counts of passes and bank conflicts beside ncu's, and why they differ where they do."""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from mmagen.build.ptx import compile_ptx
from mmagen.emulate import Report
from mmagen.families import plan
from mmagen.spec.load import load
from mmagen.toolchain.find import COMPILE, find_toolchain
from mmagen.verify.emulated.matrices import operands
from mmagen.verify.emulated.product import multiply
from mmagen.verify.emulated.task import Task
from mmagen.verify.emulated.verify import parse_problem
from tests.emulate.ncu_conflicts import project

# Passes that ncu may count beyond what the addresses ask for, each as a conflict too.
TOLERANCE = 2
_REPEATED = "loads: passes repeated: {count}"
_MERGED = "stores: {pairs} pairs merged"
_UNEXPLAINED = "not explained"
_OPCODE = re.compile(r"(?:@!?%\w+\s+)?((ld|st|ldmatrix)\.\S+)")


@dataclass(frozen=True)
class Counts:
    """Of one launch, in ncu's terms. lone_stores, lone_conflicts: of scalar stores beside vector stores of one line."""

    load_wavefronts: int
    load_conflicts: int
    store_wavefronts: int
    store_conflicts: int
    store_instructions: int
    lone_stores: int
    lone_conflicts: int


def emulated(spec: str, problem_text: str) -> Counts:
    """Compile the project that `spec` means to PTX and emulate one problem."""
    with TemporaryDirectory() as scratch:
        folder = project(spec, Path(scratch))
        made = plan(load((folder / "spec.yaml").read_bytes(), "spec.yaml").spec)
        ptx = compile_ptx(folder, find_toolchain(want=COMPILE))
    assert not ptx.error, ptx.error
    task = Task(made, ptx, parse_problem(problem_text), "small_int", 1)
    _, (report,) = multiply(task, operands(made, task.problem, task.distribution, task.seed))
    return count(report)


def count(report: Report) -> Counts:
    """Sums of the report's shared loads and stores; asynchronous copies, which these counters of ncu leave out, are not in."""
    sums = {"ld": [0, 0, 0], "st": [0, 0, 0]}
    stores = []
    for t in report.traffic:
        match = _OPCODE.match(t.instruction) if t.space == "shared" else None
        if match:
            kind = "st" if match[2] == "st" else "ld"
            for n, value in enumerate((t.requests, t.units, t.units - t.ideal)):
                sums[kind][n] += value
            if kind == "st":
                stores.append((match[1], t))
    vector_lines = {(t.file, t.line) for opcode, t in stores if ".v2." in opcode}
    lone = [t for opcode, t in stores if ".v2." not in opcode and (t.file, t.line) in vector_lines]
    return Counts(
        *sums["ld"][1:], *sums["st"][1:], sums["st"][0], sum(t.requests for t in lone), sum(t.units - t.ideal for t in lone)
    )


def explain(kernel: dict, counts: Counts) -> str:
    """Why ncu's counts of `kernel` are not the emulator's: "" when they are, "not explained" when nothing known fits."""
    reasons = []
    loads = [kernel[name] - getattr(counts, name) for name in ("load_wavefronts", "load_conflicts")]
    if any(loads):
        known = loads[0] == loads[1] and 0 < loads[0] <= TOLERANCE
        reasons.append(_REPEATED.format(count=loads[0]) if known else f"loads: {_UNEXPLAINED}")
    stores = [getattr(counts, name) - kernel[name] for name in ("store_wavefronts", "store_conflicts")]
    if any(stores):
        # Each merger of two stores is one instruction less. Merged stores take as many passes as their bytes ask for.
        pairs = counts.store_instructions - kernel["store_instructions"]
        fits = 0 < 2 * pairs <= counts.lone_stores
        saved = 2 * pairs * counts.lone_conflicts / counts.lone_stores if fits else None
        reasons.append(_MERGED.format(pairs=pairs) if stores == [saved, saved] else f"stores: {_UNEXPLAINED}")
    return "; ".join(reasons)


def row(kernel: dict, counts: Counts) -> str:
    """A line of the page's table."""
    cells = [f"`{kernel['spec']}`", kernel["problem"]]
    for name in ("load_wavefronts", "load_conflicts", "store_wavefronts", "store_conflicts"):
        ncu, ours = kernel[name], getattr(counts, name)
        cells.append(f"{ours} / {ncu}" + (f" ({ours - ncu:+d})" if ours != ncu else ""))
    return f"| {' | '.join((*cells, explain(kernel, counts)))} |"


def page(recorded: dict) -> str:
    """The whole comparison as Markdown."""
    kernels = recorded["kernels"]
    with ProcessPoolExecutor() as pool:
        all_counts = list(pool.map(emulated, [k["spec"] for k in kernels], [k["problem"] for k in kernels]))
    same = sum(not explain(*pair) for pair in zip(kernels, all_counts, strict=True))
    rows = "\n".join(row(*pair) for pair in zip(kernels, all_counts, strict=True))
    return f"""# Bank conflicts: the emulator and ncu

Passes through the banks of shared memory ("wavefronts") and those of them that are conflicts, of one launch each.
Cells are *emulator / ncu*, with the difference in parentheses where there is one. {same} of {len(kernels)} kernels agree
in everything; the last column says why the others do not.

ncu {recorded["ncu"]} on an {recorded["device"]}, driver {recorded["driver"]}, {recorded["date"]}. Each problem is one CTA tile.
The emulator runs the PTX, ncu counts what ptxas made of it. Asynchronous copies to shared memory are in neither count.
Operand tiles are swizzled unless the name says otherwise; the tile from which the epilogue writes D is padded instead.

| Spec | Problem | Load passes | Load conflicts | Store passes | Store conflicts | Why they differ |
| --- | --- | --- | --- | --- | --- | --- |
{rows}

- *stores: N pairs merged*. PTX stores most pairs of sums as one vector but leaves a few as two scalar stores to adjacent
  addresses, at two passes for the words of one. That ptxas merges N of these pairs (counted over warps) is inferred from
  the counts, not read in SASS: ncu has N store instructions fewer than PTX, and fewer conflicts by exactly those that N
  pairs have in PTX.
- *loads: passes repeated: N*. ncu's passes and its conflicts are both N higher, out of thousands. The addresses do not
  ask for these passes. Presumably the hardware repeated some because asynchronous copies were arriving in the same
  banks: their number changes from launch to launch, and the launch with the fewest of several is recorded. Up to
  {TOLERANCE} are taken for that.

Written by `python -m tests.emulate.ncu_conflicts --compare RECORDED.json --markdown PAGE.md`; the same command with only
the name of a new `.json` file records on another GPU. `tests/emulate/test_ncu_conflicts.py` holds this page to the emulator.
"""
