"""Compares the CPU time of `mmagen verify --on cpu` with that of another revision.

    python -m tools.emulation_times REVISION [SPEC ...]

For each GEMM of specs/ that both have, without groups, and without libraries, which take minutes: CPU seconds, user and system, of
the process and its workers, in three ways:

    problems    the spec's own problems and those that each revision adds
    same        two problems, the same in both
    same calls  these two without the calls that `mmagen.verify.emulated.further_calls` makes once for each kernel

Each spec is verified once to compile it, then twice in each way; the smaller of the two CPU times counts. *Before* is the revision,
*after* the working tree; both have the spec of the working tree. A spec that does not pass each time is named and left out. Needs
nvcc and git; about a minute for each spec if nothing is compiled yet. Exit code 0, or 1 if a spec was left out.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tabulate import tabulate

from mmagen import families
from mmagen.plan.plans import GemmPlan
from mmagen.spec.load import load

_ROOT = Path(__file__).parents[1]
_TWO = ("--problem", "136,264,136", "--problem", "64,128,320")
WAYS = ("problems", "same", "same calls")
_TIMES = 2
# A revision without these calls has no such module. Workers are forked, so they have what is replaced here.
_WITHOUT_FURTHER_CALLS = """
import sys
try:
    from mmagen.verify.emulated import further_calls
    further_calls.check = lambda task: None
except ImportError:
    pass
from mmagen.cli.main import main
sys.exit(main())
"""

Run = Callable[[Path, str, str], float]
"""Of a tree, a spec's name and a way: CPU seconds, or infinity if the spec did not pass."""


def verify_once(tree: Path, spec: str, way: str) -> float:
    """CPU seconds of one `mmagen verify`, infinity if it did not pass."""
    arguments = ["verify", f"specs/{spec}.yaml", "--on", "cpu", "--timeout", "900", *(() if way == "problems" else _TWO)]
    program = ["-c", _WITHOUT_FURTHER_CALLS] if way == "same calls" else ["-m", "mmagen"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | {
        "PYTHONPATH": str(tree)
    }
    with subprocess.Popen(
        [sys.executable, *program, *arguments], cwd=tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime if process.returncode == 0 else math.inf


def times(trees: Sequence[Path], spec: str, run: Run = verify_once) -> dict[str, tuple[float, ...]]:
    """Of each way, the CPU seconds in each tree, infinity if the spec did not pass each time. The trees take turns."""
    for tree in trees:
        run(tree, spec, "problems")  # compiles
    found = {}
    for way in WAYS:
        turns = [[run(tree, spec, way) for tree in trees] for _ in range(_TIMES)]
        found[way] = tuple(min(of_tree) if max(of_tree) < math.inf else math.inf for of_tree in zip(*turns, strict=True))
    return found


def table(found: Mapping[str, Mapping[str, tuple[float, ...]]]) -> str:
    """Of each spec and of all together, CPU seconds before and after, and their ratio."""
    rows = [[spec, *(figure for way in WAYS for figure in _figures(of[way]))] for spec, of in found.items()]
    sums = {way: tuple(map(sum, zip(*(of[way] for of in found.values()), strict=True))) for way in WAYS}
    rows.append([f"all {len(found)}", *(figure for way in WAYS for figure in _figures(sums[way]))])
    headers = ["spec", *(f"{way}: {what}" for way in WAYS for what in ("before", "after", "ratio"))]
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True, colalign=("left", *("right",) * (3 * len(WAYS))))


def _figures(seconds: tuple[float, ...]) -> tuple[str, str, str]:
    before, after = seconds
    return f"{before:.2f}", f"{after:.2f}", f"{after / before:.2f}"


def passed(of: Mapping[str, tuple[float, ...]]) -> bool:
    """Did the spec pass each time?"""
    return all(math.isfinite(seconds) for pair in of.values() for seconds in pair)


@contextmanager
def _checked_out(revision: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ("git", "-C", str(_ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def _has_usual_problems(spec: str) -> bool:
    """Is it a GEMM of one kernel whose problems need no groups?"""
    file = _ROOT / "specs" / f"{spec}.yaml"
    plan = families.plan(load(file.read_bytes(), file.name).spec)
    return isinstance(plan, GemmPlan) and not plan.configs and not plan.scheduler.grouped


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision")
    parser.add_argument("specs", nargs="*", metavar="SPEC")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="specs at a time (default: 2)")
    given = parser.parse_args(arguments)
    with _checked_out(given.revision) as before:
        trees = (before, _ROOT)
        both = [file.stem for file in sorted((_ROOT / "specs").glob("*.yaml")) if (before / "specs" / file.name).exists()]
        specs = given.specs or [spec for spec in both if _has_usual_problems(spec)]
        for spec in specs:
            shutil.copy(_ROOT / "specs" / f"{spec}.yaml", before / "specs")
        with ThreadPoolExecutor(given.jobs) as pool:
            found = dict(zip(specs, pool.map(lambda spec: times(trees, spec), specs), strict=True))
    left_out = [spec for spec, of in found.items() if not passed(of)]
    if kept := {spec: of for spec, of in found.items() if passed(of)}:
        print(table(kept))
    for spec in left_out:
        print(f"{spec}: did not pass each time", file=sys.stderr)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
