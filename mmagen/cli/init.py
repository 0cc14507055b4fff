"""Implements `mmagen init`: a first spec and a CI file."""

from __future__ import annotations

import difflib
from pathlib import Path

from mmagen.cli.outputs import line_width, show
from mmagen.core.errors import ExitCode, UsageError
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
    kernels = folder / _FOLDER
    steps = [
        (f"mmagen inspect {kernels}", "what follows from the spec"),
        (f"mmagen verify {kernels}", "compiles and runs it on a GPU, or emulates it if there is none"),
        (f"mmagen build {kernels}", "the CUDA project, in generated/"),
    ]
    show(f"\n{table((), steps, line_width())}")
    return ExitCode.OK


def _template(name: str) -> bytes:
    return (templates_folder() / "init" / name).read_bytes()


def _example(name: str) -> bytes:
    names = sorted(path.stem for path in examples_folder().glob("*.yaml"))
    if name not in names:
        near = difflib.get_close_matches(name, names)
        raise UsageError(
            f"--spec {name}: no such example; {'perhaps ' + ' or '.join(near) if near else 'there are ' + ', '.join(names)}"
        )
    return (examples_folder() / f"{name}.yaml").read_bytes()


def _is(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content
