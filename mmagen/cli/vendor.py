"""Implements `mmagen vendor`; the work is done in other packages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmagen.cli.build import cutlass_headers, load_specs
from mmagen.cli.outputs import show
from mmagen.core.errors import ExitCode, SpecError, UsageError
from mmagen.generate.manifest import MANIFEST, recorded, with_vendored
from mmagen.spec.values import RESERVED_TARGETS

_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_]*$")


def vendor(specs: Sequence[Path], into: Path, *, name: str | None, cutlass: bool, force: bool, check: bool) -> ExitCode:
    """Write the kernels of all specs into the folder `into` as one library, and say what changed there.

    name: of the library; None keeps that of the folder's last run, or takes the folder's. Raises MmagenError: for any refused spec,
    since a library without one of its kernels would not link, and for hand edits unless `force`."""
    from mmagen.generate.collection import collect
    from mmagen.generate.write import check as compare
    from mmagen.generate.write import write

    loaded = load_specs(specs)
    if loaded.diagnostics:
        raise SpecError(loaded.diagnostics, loaded.advice)
    files = collect(_name(into, name), [one.plan for one in loaded.planned])
    if cutlass:
        headers: dict[str, bytes] = {}
        for of_one in cutlass_headers(loaded.planned):
            headers |= of_one
        files = with_vendored(files, headers)
    if check:
        drift = compare(files, into)
        for path in drift:
            show(f"{into / path} differs")
        if drift:
            show(f"mmagen: {into} differs from its specs; run mmagen vendor again", err=True)
        return ExitCode.INCORRECT if drift else ExitCode.OK
    before = _listed(into)
    written = write(files, into, force)
    for line in _changes(written.changed, written.removed, before):
        show(line)
    kernels = ", ".join(one.plan.name for one in loaded.planned)
    show(f"{into}: {kernels}: {_counts(written.changed, written.removed)}")
    return ExitCode.OK


def _name(into: Path, name: str | None) -> str:
    if name is None:
        name = _recorded_name(into) or re.sub(r"\W", "_", into.resolve().name)
        remedy = "give the library a name with --name"
    else:
        remedy = "use letters, digits and _"
    if not _NAME.match(name):
        raise UsageError(f"{name!r} is not a C identifier; {remedy}")
    if name in RESERVED_TARGETS:
        raise UsageError(f"{name!r} is the name of a target of every CMake build; give the library another one with --name")
    if name.lower() == "cutlass":
        raise UsageError(
            f"{name!r}: the library's header would hide CUTLASS's cutlass/cutlass.h; give it another name with --name"
        )
    return name


def _recorded_name(into: Path) -> str | None:
    import json

    try:
        facts = json.loads((into / MANIFEST).read_bytes())
        if "kernels" not in facts:
            raise UsageError(f"{into} is a project of mmagen build; vendor into another folder")
        return str(facts["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _listed(into: Path) -> Mapping[str, str]:
    try:
        return recorded((into / MANIFEST).read_bytes()) or {}
    except OSError:
        return {}


def _changes(changed: Sequence[str], removed: Sequence[str], before: Mapping[str, str]) -> list[str]:
    """A line for each file, but for the headers, which are counted."""
    shown = [path for path in changed if path != MANIFEST and not path.startswith("third_party/")]
    lines = [f"  {'changed' if path in before else 'new    '}  {path}" for path in shown]
    return [*lines, *(f"  removed  {path}" for path in removed)]


def _counts(changed: Sequence[str], removed: Sequence[str]) -> str:
    counts = [f"{len(paths)} {word}" for word, paths in (("written", changed), ("removed", removed)) if paths]
    return ", ".join(counts) or "up to date"
