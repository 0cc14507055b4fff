"""Implements `mmagen inspect`: loads and plans the spec, and prints its page, its maps of owners, or both as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from mmagen.cli.build import Specs, load_specs
from mmagen.cli.outputs import in_colour, line_width, show
from mmagen.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from mmagen.draw.windows import Window
    from mmagen.emulate import Event
    from mmagen.plan.maps import Map
    from mmagen.plan.project import ProjectPlan


class Folders(NamedTuple):
    """For the page with pictures, which may be a file, and for the pictures in two formats; None for what is not wanted.
    traced: with the pipeline as the emulator executes it."""

    html: Path | None = None
    svg: Path | None = None
    png: Path | None = None
    traced: bool = False

    @property
    def wanted(self) -> bool:
        return any((self.html, self.svg, self.png))


NONE_WANTED = Folders()


def inspect(
    specs: Sequence[Path],
    *,
    ownership: bool,
    window: str | None,
    json_: bool,
    device: str | None,
    folders: Folders = NONE_WANTED,
) -> ExitCode:
    """ownership: with the maps of owners, which a kernel that is only that has in any case; window: what to show of them;
    device: of the launches.

    Raises UsageError and SpecError."""
    from mmagen.inspect.page import inspect as describe
    from mmagen.inspect.page import to_json

    ranges: Window = {}
    if window is not None:
        from mmagen.inspect.maps import parse_window  # imports the layout algebra, which is slow

        ranges = parse_window(window)
    asked = ownership or window is not None
    if folders.traced and not folders.wanted:
        raise UsageError("--traced adds a picture: say where, with --html, --svg or --png")
    loaded = load_specs(specs)
    _refuse_names_of_files(folders, len(loaded.planned))
    for file, data in loaded.refused.items():
        _refused(file, data, loaded, asked, ranges, json_)
    loaded.report_refused()
    for one in loaded.planned:
        _write_pictures(one.plan, ranges, device, folders)
        with_maps = asked or one.plan.maps_are_verified
        if json_:
            click.echo(to_json(one.plan, with_maps, device))
        else:
            page = describe(one.plan, device, line_width())
            click.echo(f"{page}\n{maps_text(one.plan, ranges)}" if with_maps else page)
    return loaded.exit_code


def _refuse_names_of_files(folders: Folders, pages: int) -> None:
    """Raise UsageError for a file where there are several to write; a folder that exists may be called anything."""
    if folders.html and folders.html.is_file() and folders.html.suffix != ".html":
        raise UsageError(f"--html {folders.html} is a file; name a folder, or a file that ends in .html")
    several = (
        ("page", pages > 1, folders.html, ".html"),
        ("picture", True, folders.svg, ".svg"),
        ("picture", True, folders.png, ".png"),
    )
    for what, many, folder, suffix in several:
        if many and folder and folder.suffix == suffix and not folder.is_dir():
            raise UsageError(f"--{suffix[1:]} {folder}: each {what} is a file of its own; name a folder for them")


def _write_pictures(plan: ProjectPlan, window: Window, device: str | None, folders: Folders) -> None:
    """Write HTML/NAME.html, or HTML itself where it is called so, SVG/NAME-*.svg and PNG/NAME-*.png.

    Raises UsageError for a folder that cannot be written."""
    if not folders.wanted:
        return
    trace = _trace(plan) if folders.traced else ()
    from mmagen.inspect.page import to_html, to_png, to_svg

    files: dict[Path, str | bytes] = {}
    if folders.html:
        files[_page(folders.html, plan)] = to_html(plan, window, device, trace)
    if folders.svg:
        files |= {folders.svg / name: text for name, text in to_svg(plan, window, device, trace).items()}
    if folders.png:
        files |= {folders.png / name: image for name, image in to_png(plan, window, device, trace).items()}
    for path, content in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from None
        show(f"wrote {path}", err=True)


def _page(html: Path, plan: ProjectPlan) -> Path:
    return html if html.suffix == ".html" and not html.is_dir() else html / f"{plan.name}.html"


def _trace(plan: ProjectPlan) -> Sequence[Event]:
    """What the kernel does in the emulator. Raises what `trace` raises."""
    from mmagen.toolchain.find import EMULATE, find_toolchain
    from mmagen.verify.emulated.traced import trace

    return trace(plan, find_toolchain(want=EMULATE))


def _refused(file: str, data: bytes, loaded: Specs, asked: bool, window: Window, json_: bool) -> None:
    """Print what can be said about a spec that `build` refuses."""
    from mmagen.inspect import refused

    it = refused.examine(data, file, loaded.diagnostics)
    click.echo(refused.to_json(it) if json_ else refused.text(it, line_width()))
    if asked and not json_ and (found := refused.maps(it)):
        click.echo(_drawn(found, window))


def maps_text(plan: ProjectPlan, window: Window) -> str:
    """The maps of owners of a plan, coloured and as wide as the terminal where stdout is one."""
    from mmagen.families import family_of

    return _drawn(family_of(plan).maps(plan), window)


def _drawn(found: Sequence[Map], window: Window) -> str:
    from mmagen.inspect import maps

    return maps.text(found, window, line_width(), in_colour())
