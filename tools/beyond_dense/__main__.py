"""python -m tools.beyond_dense [--rows NAME,...] [--budget TIME] [--markdown FILE]: kernels beyond a dense product beside
cuBLASLt and cuSPARSELt, and the page with every ratio.

Kernels of specs/ are compiled first, all side by side; then each row is measured with nothing else running. What is measured is
appended to --records as it comes: the same command goes on with what is missing, and --page-only writes the page of what there is.
Rows: sparse, scaled, epilogue, beta, grouped, mixed. What --budget left out, and baselines that cannot be run, are listed on the
page by name.

Needs an NVIDIA GPU, except with --page-only. Exit code 1 if a kernel was wrong, 4 if something failed or is missing, 77 if nothing
was measured.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from mmagen.build.build import build
from mmagen.cli.progress import shown
from mmagen.cli.tune import seconds
from mmagen.core.errors import ExitCode, MmagenError, SpecError, UsageError
from mmagen.families.reading import read
from mmagen.generate.render import render
from mmagen.generate.write import write
from mmagen.plan.plans import GemmPlan
from mmagen.toolchain.find import find_toolchain
from mmagen.toolchain.gpus import find_gpus
from mmagen.tuning.database import digest
from tools.beyond_dense.measuring import Settings, Subject, measure, missing
from tools.beyond_dense.page import summary_text, to_markdown
from tools.beyond_dense.rows import Kernel, Row, rows
from tools.library_page.kept import Found, Kept, Key

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = _ROOT / "docs/results/h200-beyond-dense.md"
_VERSIONS = (("cuBLAS", "cublas_api.h", "CUBLAS_VER"), ("cuSPARSELt", "cusparseLt.h", "CUSPARSELT_VER"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; returns the exit code."""
    options = _options(arguments)
    try:
        return _measured(options)
    except MmagenError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.beyond_dense", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default=",".join(rows()), metavar="NAME,...", help="default: all of them")
    parser.add_argument("--budget", metavar="TIME", help="20m, 90s, compiling included: nothing is measured later")
    parser.add_argument("--samples", type=int, default=Settings.samples, help="of each candidate")
    parser.add_argument("--sample-ms", type=float, default=Settings.sample_ms)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--records", type=Path, metavar="FILE", help="default: build/beyond_dense/, by the page's name")
    parser.add_argument("--markdown", type=Path, default=_PAGE, metavar="FILE")
    parser.add_argument("--page-only", action="store_true", help="measure nothing")
    parser.add_argument("-j", "--jobs", type=int, help="compile steps at a time")
    return parser.parse_args(arguments)


def _measured(options: argparse.Namespace) -> int:
    until = None if options.budget is None else time.monotonic() + seconds(options.budget)
    chosen = chosen_rows(options.rows)
    settings = Settings(options.samples, options.sample_ms, options.seed)
    kept = Kept(options.records or Path("build/beyond_dense") / f"{options.markdown.stem}.jsonl")
    if kept.damaged:
        print(f"{kept.damaged} lines of the records are cut or damaged and left out", file=sys.stderr)
    gpus, why = find_gpus(os.environ)
    if not gpus and not options.page_only:
        print(f"nothing was measured: {why}", file=sys.stderr)
        return ExitCode.NOTHING_VERIFIED
    plans = {kernel: plan_of(kernel) for row in chosen.values() for kernel in row.problems()}
    site = None if options.page_only else (gpus[0].name, gpus[0].driver, _versions())
    turns = max(row.rounds for row in chosen.values())
    keys = {kernel: _keys(kernel, plan, settings, turns, kept, site) for kernel, plan in plans.items()}
    notes = [] if options.page_only else _measure(options, chosen, plans, keys, settings, kept, until)
    return _write(options, chosen, keys, kept, notes)


def chosen_rows(names: str) -> dict[str, Row]:
    """In the order of the page. Raises UsageError for a name that is none."""
    known, asked = rows(), [name.strip() for name in names.split(",") if name.strip()]
    if wrong := [name for name in asked if name not in known]:
        raise UsageError(f"--rows {wrong[0]}: no such row; there are {', '.join(known)}")
    if not asked:
        raise UsageError(f"--rows names none; there are {', '.join(known)}")
    return {name: row for name, row in known.items() if name in asked}


def plan_of(kernel: Kernel) -> GemmPlan:
    """Of a kernel of specs/. Raises MmagenError for a spec that is refused."""
    path = _ROOT / f"specs/{kernel.spec}.yaml"
    data = path.read_bytes()
    if kernel.plain:
        changed = {"name": kernel.name, "epilogue": {"out": "bf16"}}
        data = yaml.safe_dump(yaml.safe_load(data) | changed, sort_keys=False).encode()
    plan, wrong = read(data, path.name)
    if plan is None:
        raise SpecError(tuple(wrong))
    assert isinstance(plan, GemmPlan)
    return plan


def _keys(
    kernel: Kernel, plan: GemmPlan, settings: Settings, turns: int, kept: Kept, site: tuple[str, str, str] | None
) -> dict[int, Key]:
    """By turn: of this machine, or of the one that was measured on last."""
    code = digest(plan)
    found = {}
    for turn in range(turns):
        how = settings.text(kernel, turn)
        last = kept.devices(code, how)
        found[turn] = Key(code, how, *site) if site else (last[-1] if last else Key(code, how, "", "", ""))
    return found


def _versions() -> str:
    """CUDA, cuBLAS and cuSPARSELt, as their headers say."""
    toolchain = find_toolchain()
    nvcc = toolchain.nvcc
    tops = [top for top in (toolchain.cusparselt, toolchain.toolkit) if top]
    places = [top / folder for top in tops for folder in ("include", "targets/x86_64-linux/include")]
    found = [f"CUDA {nvcc.version if nvcc else 'unknown'}"]
    for name, header, prefix in _VERSIONS:
        text = next((place / header for place in places if (place / header).is_file()), None)
        found.append(f"{name} {version_in(text.read_text('utf-8', 'replace'), prefix)}" if text else f"no {name}")
    return ", ".join(found)


def version_in(header: str, prefix: str) -> str:
    """`13.1.0` of a header that defines PREFIX_MAJOR, PREFIX_MINOR and PREFIX_PATCH."""
    parts = (re.search(rf"#define\s+{prefix}_{part}\s+(\d+)", header) for part in ("MAJOR", "MINOR", "PATCH"))
    return ".".join(part[1] for part in parts if part) or "of unknown version"


def _measure(
    options: argparse.Namespace,
    chosen: Mapping[str, Row],
    plans: Mapping[Kernel, GemmPlan],
    keys: Mapping[Kernel, Mapping[int, Key]],
    settings: Settings,
    kept: Kept,
    until: float | None,
) -> list[str]:
    """What could not be compiled, and when things were done."""
    wanted = {
        kernel
        for row in chosen.values()
        for kernel, problems in row.problems().items()
        if any(missing(problems, kept.of(keys[kernel][turn])) for turn in range(row.rounds))
    }
    names = list(dict.fromkeys(replace(kernel, graphs=True) for kernel in plans if kernel in wanted))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mmagen-beyond-") as folder, shown() as progress:
        projects = [Path(folder) / kernel.name for kernel in names]
        for project, kernel in zip(projects, names, strict=True):
            write(render(plan_of(kernel)), project)
        results = build(projects, find_toolchain(), jobs=options.jobs, programs=("bench",), progress=progress) if names else []
        built = dict(zip(names, results, strict=True))
        print(f"compiled {len(names)} projects in {time.monotonic() - began:.0f} s", file=sys.stderr)
        subjects = {
            kernel: Subject(kernel, one, keys[kernel])
            for kernel in plans
            if (one := built.get(replace(kernel, graphs=True))) is not None and one.ok
        }
        for name, row in chosen.items():
            measure(row, subjects, settings, kept, until, lambda text, name=name: _say(f"{name}: {text}", began))  # type: ignore[misc]
        _say("measured", began)
    return [f"{kernel.name} does not compile: {one.reason}" for kernel, one in built.items() if not one.ok]


def _say(text: str, began: float) -> None:
    print(f"{time.monotonic() - began:5.0f} s  {text}", file=sys.stderr, flush=True)


def _write(
    options: argparse.Namespace,
    chosen: Mapping[str, Row],
    keys: Mapping[Kernel, Mapping[int, Key]],
    kept: Kept,
    notes: Sequence[str],
) -> int:
    """The page, and the exit code."""

    def look(kernel: Kernel, turn: int) -> Mapping[str, Found]:
        return kept.of(keys[kernel][turn])

    asked = [
        (keys[kernel][turn], look(kernel, turn).get(problem))
        for row in chosen.values()
        for kernel, problems in row.problems().items()
        for problem in problems
        for turn in range(row.rounds)
    ]
    records = [record for _, found in asked for record in (found.records if found else ())]
    timed = [(key, found) for key, found in asked if found and found.records]
    if not timed:
        print("nothing was measured", file=sys.stderr)
        return ExitCode.NOTHING_VERIFIED
    key = timed[-1][0]
    made = {str(record.get("cutlass") or "") for record in records} - {""}
    facts = [key.device, f"driver {key.driver}", key.cuda, *(f"CUTLASS {one}" for one in sorted(made))]
    facts.append(max(found.date for _, found in timed))
    command = " ".join(["python -m tools.beyond_dense", *sys.argv[1:]])
    page = to_markdown(chosen, look, ", ".join(facts), command, notes)
    options.markdown.parent.mkdir(parents=True, exist_ok=True)
    options.markdown.write_text(page, "utf-8")
    print(summary_text(page))
    if any(record["disposition"] == "incorrect" for record in records):
        return ExitCode.INCORRECT
    whole = all(found and found.records for _, found in asked)
    failed = any(record["disposition"] != "passed" for record in records)
    return ExitCode.OK if whole and not failed and not notes else ExitCode.RUN_FAILED


if __name__ == "__main__":
    sys.exit(main())
