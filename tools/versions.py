"""Which versions of CUDA and CUTLASS compile mmagen's projects: `python -m tools.versions --cuda 13.0,13.5 --cutlass DIR`.

Every version of CUDA is installed from PyPI into a folder of its own, as the extra `cuda` would, and with each folder of CUTLASS
headers `mmagen verify --on cpu` compiles the specs and emulates them. The table says for each pair what came of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from mmagen.toolchain.find import cutlass_in, find_toolchain
from mmagen.toolchain.wheels import linked_toolkit

SPECS = ("hello_micro", "sm80_gemm_classic", "sm90_gemm_bf16_tn")
PASSED = "passed"
_REQUIRED = "cuda-toolkit[nvcc,cudart,cccl]=={}.*"  # the extra `cuda` of pyproject.toml, of any version
_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Pair:
    """What is tried: a version of CUDA and a folder of CUTLASS headers."""

    cuda: str
    cutlass: Path
    cutlass_version: str


def main() -> int:
    """Exit status 0 if every spec passed with every pair, else 1."""
    arguments = _arguments()
    given = arguments.cutlass or [found.path for found in [find_toolchain(want=("cutlass",)).cutlass] if found]
    folders = {path: cutlass_in(Path(path), "--cutlass") for path in given}
    if unknown := [str(path) for path, found in folders.items() if found is None]:
        sys.exit(f"no CUTLASS headers (include/cutlass/version.h) in {', '.join(unknown)}")
    if not folders:
        sys.exit("no CUTLASS headers: install the extra `cuda`, or name a folder with --cutlass")
    specs = [path if (path := Path(name)).suffix else _ROOT / f"specs/{name}.yaml" for name in arguments.specs]
    rows = []
    for cuda in arguments.cuda.split(","):
        environment = _installed(cuda, arguments.work)
        for path, found in folders.items():
            assert found
            pair = Pair(cuda, Path(path), found.version)
            rows.append(_row(pair, environment, specs))
            print("  ".join(map(str, rows[-1].values())), flush=True)
    if arguments.markdown:
        arguments.markdown.write_text(_page(rows))
    return 0 if all(value == PASSED for row in rows for value in list(row.values())[2:]) else 1


def _installed(cuda: str, work: Path) -> dict[str, str]:
    """The environment in which a CUDA toolkit from PyPI is the one that is found."""
    target = (work / f"cuda-{cuda}").resolve()
    if not (target / "nvidia").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), _REQUIRED.format(cuda)]
        subprocess.run(command, check=True)
    (tree,) = (target / "nvidia").glob("cu1[3-9]")
    toolkit = linked_toolkit(tree, target)
    return {**os.environ, "CUDACXX": str(toolkit / "bin" / "nvcc")}


def _row(pair: Pair, environment: Mapping[str, str], specs: Sequence[Path]) -> dict[str, str]:
    with_headers = dict(environment) | {"CUTLASS_DIR": str(pair.cutlass)}
    row = {"CUDA": _version_of(environment["CUDACXX"]), "CUTLASS": pair.cutlass_version}
    return row | {path.stem: _verdict(path, with_headers) for path in specs}


def _version_of(nvcc: str) -> str:
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return said.rsplit(", V", 1)[1].split()[0]


def _verdict(spec: Path, environment: Mapping[str, str]) -> str:
    """PASSED, or the first complaint of `mmagen verify`."""
    command = [sys.executable, "-m", "mmagen", "verify", "--on", "cpu", "--no-cache", "--json", "-", str(spec)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return PASSED
    records = [json.loads(line) for line in done.stdout.splitlines()]
    reasons = [record["reason"] for record in records if record["reason"] and record["disposition"] != "skipped"]
    return textwrap.shorten(" ".join([*reasons, done.stderr][:1]), 120) or f"exit code {done.returncode}"


def _page(rows: Sequence[Mapping[str, str]]) -> str:
    """The table as a page of the documentation."""
    text = (
        f"Compiled and emulated on {datetime.date.today().isoformat()} by `python -m tools.versions`. "
        "CUDA from PyPI, as the extra `cuda` installs it; g++ compiles for the host. CI runs with the versions of the extra."
    )
    return f"# Versions\n\n{textwrap.fill(text, 120)}\n\n{tabulate(rows, headers='keys', tablefmt='github')}\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools.versions", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cuda", default="13.0", metavar="13.0,13.5", help="versions of CUDA, of PyPI's cuda-toolkit")
    parser.add_argument("--cutlass", action="append", type=Path, metavar="DIR", help="CUTLASS headers; default: those found")
    parser.add_argument("--specs", nargs="+", default=SPECS, metavar="SPEC", help="names in specs/, or files")
    parser.add_argument("--work", type=Path, default=Path("build/versions"), help="folder for what is installed")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as a page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
