"""`mmagen diff`: what differs between two specs or projects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mmagen.cli.build import advice_on
from mmagen.cli.inputs import Place
from mmagen.cli.outputs import line_width
from mmagen.core.errors import ExitCode, SpecError, UsageError
from mmagen.core.files import content
from mmagen.core.instead import instead, like

if TYPE_CHECKING:
    from mmagen.inspect.difference import Side


@click.command("diff", short_help="Compare two specs or projects.")
@click.argument("old", type=Place(path_type=Path), metavar="OLD")
@click.argument("new", type=Place(path_type=Path), metavar="NEW")
@click.option("--device", metavar="DEVICE", help="Compare launches on this device, e.g. h200.")
@click.option("--json", "json_", is_flag=True, help="Print a line of JSON.")
def command(old: Path, new: Path, device: str | None, json_: bool) -> int:
    """Say what differs between two specs, or generated projects: keys, decisions, resources, launches, machine code, and
    generated files. Machine code is that of built projects, by cuobjdump.

    The exit code is 0 whether they differ or not.
    """
    from mmagen.inspect import difference
    from mmagen.plan.devices import NAMES

    if device is not None and device not in NAMES:
        raise UsageError(f"--device {device}: no such device; {instead(like(device, NAMES), NAMES, 'there are')}")
    found = difference.compare(_side(old), _side(new), device)
    click.echo(difference.to_json(found) if json_ else difference.text(found, line_width()), nl=json_)
    return ExitCode.OK


def _side(path: Path) -> Side:
    """A spec file, or a project with the files in its folder."""
    from mmagen.families.reading import read
    from mmagen.generate.manifest import MANIFEST, recorded
    from mmagen.inspect.difference import Side

    spec = path / "spec.yaml" if path.is_dir() else path
    if path.is_dir() and not (spec.is_file() and (path / MANIFEST).is_file()):
        raise UsageError(f"{path} is neither a spec (*.yaml) nor the folder of a generated project")
    data = content(spec)
    manifest = content(path / MANIFEST) if path.is_dir() else None
    plan, diagnostics = read(data, str(spec))
    if plan is None:
        raise SpecError(diagnostics, tuple(advice_on(data, str(spec))))
    if manifest is None:
        return Side(str(path), plan)
    listed = recorded(manifest)
    if listed is None:
        raise UsageError(f"{path / MANIFEST} is damaged; mmagen build {spec} -o DIR writes the project again")
    files = {name: content(path / name) for name in listed if (path / name).is_file()}
    return Side(str(path), plan, files, path)
