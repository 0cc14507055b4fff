"""python -m tools.goldens [--check]: writes generated/ from specs/, or lists the specs whose projects differ from it.

generated/ holds one whole project of each kind of kernel, for review, and digests.json with one digest for each other spec:
the digest of its project's mmagen.json, which in turn has the digest of every file. Exit code 1 when --check found a
difference.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from mmagen.cli.build import load_specs
from mmagen.generate.manifest import MANIFEST, digest
from mmagen.generate.render import render
from mmagen.generate.write import write

ROOT = Path(__file__).resolve().parents[1]
SPECS = ROOT / "specs"
GENERATED = ROOT / "generated"
DIGESTS = "digests.json"
# The specs whose projects are kept whole: one of each kind of kernel.
WHOLE = (
    "hello_micro",
    "hello_ownership",
    "hello_peak",
    "sm80_gemm_classic",
    "sm90_gemm_bf16_rules",
    "sm90_gemm_bf16_pingpong",
    "sm90_micro_bf16",
    "sm90_micro_sparse",
)

Projects = Mapping[str, Mapping[str, bytes]]


def rendered(specs: Path = SPECS) -> dict[str, dict[str, bytes]]:
    """{name: files} of the projects of all specs in a folder."""
    return {one.plan.name: render(one.plan) for one in load_specs([specs]).planned}


def committed(project: Path) -> dict[str, bytes]:
    """The files of a project's folder, without build outputs."""
    paths = (path for path in project.rglob("*") if path.is_file())
    inside = {path.relative_to(project).as_posix(): path for path in paths}
    return {name: path.read_bytes() for name, path in inside.items() if not name.startswith("build/")}


def digests(projects: Projects) -> dict[str, str]:
    """The contents of digests.json: {name: digest} of the projects that are not kept whole."""
    return {name: digest(files[MANIFEST]) for name, files in sorted(projects.items()) if name not in WHOLE}


def spelled(table: Mapping[str, str]) -> bytes:
    """The text of digests.json, one line for each spec."""
    return (json.dumps(table, indent=1) + "\n").encode()


def drift(projects: Projects, folder: Path = GENERATED) -> list[str]:
    """What differs between `projects` and `folder`, a line for each spec at fault that names it."""
    lines = []
    for name in WHOLE:
        there, now = committed(folder / name), projects[name]
        if paths := sorted(path for path in there.keys() | now.keys() if there.get(path) != now.get(path)):
            lines.append(f"{name}: {len(paths)} files differ: {', '.join(paths[:3])}{', ...' if len(paths) > 3 else ''}")
    kept = json.loads((folder / DIGESTS).read_bytes()) if (folder / DIGESTS).is_file() else {}
    wanted = digests(projects)
    for name in sorted(kept.keys() | wanted.keys()):
        if kept.get(name) != wanted.get(name):
            what = "has no digest" if name not in kept else "has a digest but no spec" if name not in wanted else "differs"
            lines.append(f"{name}: {what}")
    others = {path.name for path in folder.iterdir()} - {*WHOLE, DIGESTS}
    return lines + [f"{name}: is in {folder.name}/ but not among those to keep; delete it" for name in sorted(others)]


def main(folder: Path = GENERATED) -> int:
    """Write `folder`, or compare it with the specs; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.goldens")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a project differs")
    arguments = parser.parse_args()
    projects = rendered()
    lines = drift(projects, folder)
    for line in lines:
        print(line)
    if arguments.check:
        return int(bool(lines))
    for name in WHOLE:
        shutil.rmtree(folder / name, ignore_errors=True)  # including edits and build outputs
        write(projects[name], folder / name)
    (folder / DIGESTS).write_bytes(spelled(digests(projects)))
    print(f"{folder}: {len(WHOLE)} projects, {len(projects) - len(WHOLE)} digests, {len(lines)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
