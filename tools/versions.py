"""Which versions of CUDA and CUTLASS compile mmagen's projects: `python -m tools.versions --cuda 13.0,13.5 --cutlass DIR`.

Every version of CUDA is installed from PyPI into a folder of its own, as the extra `cuda` would, and with each folder of CUTLASS
headers `mmagen verify --on cpu` compiles the specs and emulates them. Of CUDA 12 there is no nvcc on PyPI: with --clang, clang
compiles the specs with that version's headers and ptxas. The table says for each pair what came of it.
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
from tools import clang_versions

SPECS = ("hello_micro", "sm80_gemm_classic", "sm90_gemm_bf16_tn")
PASSED = "passed"
_GOOD = (PASSED, clang_versions.COMPILED)
_HEADS = 3  # columns before those of the specs
_REQUIRED = "cuda-toolkit[nvcc,cudart,cccl]=={}.*"  # the extra `cuda` of pyproject.toml, of any version
_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Pair:
    """What is tried: a version of CUDA and a folder of CUTLASS headers."""

    cuda: str
    cutlass: Path
    cutlass_version: str

    @property
    def has_nvcc(self) -> bool:
        return int(self.cuda.partition(".")[0]) >= 13


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
        for found in folders.values():
            assert found
            pair = Pair(cuda, Path(found.path), found.version)
            if not pair.has_nvcc and not arguments.clang:
                sys.exit(f"PyPI has no nvcc of CUDA {cuda}: name a clang of version 17 or later with --clang")
            row = _row_of_nvcc if pair.has_nvcc else _row_of_clang
            rows.append(row(pair, specs, arguments))
            print("  ".join(map(str, rows[-1].values())), flush=True)
    if arguments.markdown:
        arguments.markdown.write_text(_page(rows))
    return 0 if all(value in _GOOD for row in rows for value in list(row.values())[_HEADS:]) else 1


def _installed(cuda: str, work: Path) -> dict[str, str]:
    """The environment in which a CUDA toolkit from PyPI is the one that is found."""
    target = (work / f"cuda-{cuda}").resolve()
    if not (target / "nvidia").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), _REQUIRED.format(cuda)]
        subprocess.run(command, check=True)
    (tree,) = (target / "nvidia").glob("cu1[3-9]")
    toolkit = linked_toolkit(tree, target)
    return {**os.environ, "CUDACXX": str(toolkit / "bin" / "nvcc")}


def _row_of_nvcc(pair: Pair, specs: Sequence[Path], arguments: argparse.Namespace) -> dict[str, str]:
    environment = _installed(pair.cuda, arguments.work) | {"CUTLASS_DIR": str(pair.cutlass)}
    row = {"CUDA": _version_of(environment["CUDACXX"]), "CUTLASS": pair.cutlass_version, "compiler": "nvcc"}
    return row | {path.stem: _verdict(path, environment) for path in specs}


def _row_of_clang(pair: Pair, specs: Sequence[Path], arguments: argparse.Namespace) -> dict[str, str]:
    toolkit, clang = clang_versions.installed(pair.cuda, arguments.work), arguments.clang
    row = {"CUDA": clang_versions.ptxas_version(toolkit), "CUTLASS": pair.cutlass_version}
    row["compiler"] = f"clang {clang_versions.clang_version(clang)}"
    return row | {path.stem: clang_versions.verdict(path, toolkit, pair.cutlass, clang) for path in specs}


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
        "CUDA 13 from PyPI, as the extra `cuda` installs it; g++ compiles for the host. Of CUDA 12 PyPI has headers, libdevice and "
        "ptxas, and no nvcc: there clang compiled kernels and host code with them, ptxas assembled the kernels, and "
        "nothing was run. CI runs with the versions of the extra."
    )
    return (
        f"# Versions\n\n{textwrap.fill(text, 120)}\n\n{_command(rows)}\n\n{tabulate(rows, headers='keys', tablefmt='github')}\n"
    )


def _command(rows: Sequence[Mapping[str, str]]) -> str:
    """What makes these rows, where each version of CUTLASS is in a folder of that name."""
    cuda = ",".join(dict.fromkeys(row["CUDA"].rpartition(".")[0] for row in rows))
    folders = [f"--cutlass cutlass-{version}" for version in dict.fromkeys(row["CUTLASS"] for row in rows)]
    clang = [f"--clang clang++-{row['compiler'].split()[1].partition('.')[0]}" for row in rows if row["compiler"] != "nvcc"][:1]
    rest = " ".join([*folders, *clang, "--markdown docs/versions.md"])
    return f"    python -m tools.versions --cuda {cuda} \\\n        {rest}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools.versions", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cuda", default="13.0", metavar="13.0,13.5", help="versions of CUDA, of PyPI's cuda-toolkit")
    parser.add_argument("--cutlass", action="append", type=Path, metavar="DIR", help="CUTLASS headers; default: those found")
    parser.add_argument("--clang", metavar="CLANG", help="a clang++ of version 17 or later, for CUDA 12")
    parser.add_argument("--specs", nargs="+", default=SPECS, metavar="SPEC", help="names in specs/, or files")
    parser.add_argument("--work", type=Path, default=Path("build/versions"), help="folder for what is installed")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as a page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
