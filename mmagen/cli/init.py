"""Implements `mmagen init`: a first spec and a CI file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby, takewhile
from pathlib import Path

from mmagen.cli.outputs import line_width, show
from mmagen.core.errors import ExitCode, UsageError
from mmagen.core.instead import instead, like
from mmagen.core.screen import table
from mmagen.core.templates import examples_folder, templates_folder

_FOLDER = "kernels"
_FIRST = "gemm.mma.yaml"
CI = {"github": ".github/workflows/kernels.yml", "gitlab": ".gitlab-ci.yml", "none": ""}


def init(folder: Path, ci: str, example: str | None = None) -> ExitCode:
    """Write the files into `folder`, which may have others. example: of mmagen's specs, instead of the commented first one.

    Raises UsageError, and writes nothing, for an unknown example, and where one of the files is there with another content."""
    wanted = (
        {f"{_FOLDER}/{example}.mma.yaml": _example(example)}
        if example
        else {f"{_FOLDER}/{_FIRST}": _template(f"{_FOLDER}/{_FIRST}")}
    )
    wanted |= {CI[ci]: _template(CI[ci])} if CI[ci] else {}
    there = [name for name in wanted if (folder / name).exists() and not _is(folder / name, wanted[name])]
    if there:
        files = ", ".join(str(folder / name) for name in there)
        raise UsageError(f"{files}: already there; move it, or choose another folder, --spec or --ci")
    new = [name for name in wanted if not (folder / name).exists()]
    try:
        for name in new:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(wanted[name])
    except OSError as error:
        raise UsageError(f"{error.filename or folder}: {error.strerror or error}") from None
    for name in wanted:
        show(f"{folder / name}{'' if name in new else ': already there'}")
    pasted = shlex.quote(str(folder / _FOLDER))
    steps = [
        (f"mmagen inspect {pasted}", "what follows from the spec"),
        (f"mmagen verify {pasted}", "compiles and runs it on a GPU, or emulates it if there is none"),
        (f"mmagen build {pasted}", "the CUDA project, in generated/"),
    ]
    show(f"\n{table((), steps, line_width())}")
    return ExitCode.OK


def list_examples() -> ExitCode:
    """Print the name of each of mmagen's specs, and the comment that it begins with."""
    rows = [(path.stem, _first_comment(path)) for path in _examples()]
    show(table((), rows, line_width()))
    return ExitCode.OK


def _examples() -> list[Path]:
    return sorted(examples_folder().glob("*.yaml"))


def _first_comment(path: Path) -> str:
    lines = takewhile(lambda line: line.startswith("#"), path.read_text("utf-8").splitlines())
    return " ".join(line.lstrip("# ") for line in lines)


def _template(name: str) -> bytes:
    return (templates_folder() / "init" / name).read_bytes()


def _example(name: str) -> bytes:
    names = [path.stem for path in _examples()]
    if name not in names:
        remedy = instead(like(name, names), _grouped(names), "the examples are", "mmagen init --list")
        raise UsageError(f"--spec {name}: no such example; {remedy}")
    return (examples_folder() / f"{name}.yaml").read_bytes()


def _grouped(names: Sequence[str]) -> dict[str, list[str]]:
    """Names by their first word. Of those that agree in two words there is one entry, e.g. sm90_gemm_*."""
    groups: dict[str, list[str]] = {}
    for begin, alike in groupby(names, lambda name: name.split("_")[:2]):
        one, *others = alike
        groups.setdefault(begin[0], []).append(f"{'_'.join(begin)}_*" if others else one)
    return groups


def _is(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content
