"""Finds specs by file or folder and implements `mmagen build`; the work is done in other packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from mmagen.cli.outputs import show
from mmagen.cli.progress import shown
from mmagen.core.errors import Diagnostic, ExitCode, SpecError, UsageError, most_serious
from mmagen.core.files import content
from mmagen.core.instead import did_you_mean, like
from mmagen.generate.manifest import MANIFEST, has_tests, with_vendored

if TYPE_CHECKING:
    from mmagen.build.job import BuildResult
    from mmagen.plan.project import ProjectPlan


@dataclass(frozen=True)
class Planned:
    """A spec file and its plan."""

    path: Path
    plan: ProjectPlan


@dataclass(frozen=True)
class Specs:
    """The spec files that can be built, the diagnostics of those that cannot, and what to change in these.

    refused: of each file that has diagnostics, what was read: a pipe cannot be read twice. unfit: names of specs whose kernels
    --arch lacks."""

    planned: tuple[Planned, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    advice: tuple[str, ...] = ()
    refused: Mapping[str, bytes] = field(default_factory=dict)
    unfit: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """USAGE when a spec was refused, else OK."""
        return ExitCode.USAGE if self.diagnostics or self.unfit else ExitCode.OK

    def report_refused(self) -> None:
        """Print the diagnostics of the refused specs. Raises SpecError if every spec was refused."""
        if not self.diagnostics:
            return
        if not self.planned:
            raise SpecError(self.diagnostics, self.advice)
        files = list(self.refused)
        show(str(SpecError(self.diagnostics, self.advice)), err=True)
        count = f"{len(files)} of {len(files) + len(self.planned)} specs refused"
        show(f"mmagen: {count}: {', '.join(files)}; continuing with the others", err=True)


def load_specs(arguments: Sequence[Path]) -> Specs:
    """Load and plan every spec named by `arguments` (files, or folders of *.yaml), each file once.

    A refused spec does not stop the others. Raises UsageError for an unusable path, and for two specs of the same name, which
    would share one project folder.
    """
    from mmagen.families.reading import read

    planned: list[Planned] = []
    diagnostics: list[Diagnostic] = []
    advice: list[str] = []
    refused: dict[str, bytes] = {}
    for path in _spec_files(arguments):
        data = content(path)
        plan, wrong = read(data, str(path))
        diagnostics += wrong
        if plan is not None:
            planned.append(Planned(path, plan))
        else:
            refused[str(path)] = data
            advice += advice_on(data, str(path))
    _refuse_equal_names(planned, diagnostics)
    return Specs(tuple(planned), tuple(diagnostics), tuple(advice), refused)


def fit_for(arch: Sequence[str], loaded: Specs, *, alone: bool = True) -> Specs:
    """The specs whose kernels the architectures of --arch have; the others are printed.

    alone: there is nothing else to do, so that UsageError is raised if none is left.
    """
    if not arch:
        return loaded
    from mmagen.families.reading import refusal_for

    asked, count = ",".join(arch), len(loaded.planned)
    wrong = {one.plan.name: why for one in loaded.planned if (why := refusal_for(one.plan, arch))}
    if not wrong:
        return loaded
    lines = "\n".join(f"{name}: --arch {asked}: {why}" for name, why in wrong.items())
    if alone and len(wrong) == count:
        raise UsageError(lines)
    show(lines, err=True)
    show(f"mmagen: {len(wrong)} of {count} specs refused for {asked}; continuing with the others", err=True)
    kept = tuple(one for one in loaded.planned if one.plan.name not in wrong)
    return replace(loaded, planned=kept, unfit=tuple(wrong))


def advice_on(data: bytes, file: str) -> Iterator[str]:
    """The lines with which the refused spec is accepted, if there are any."""
    from mmagen.families.remedies import accepted_changes, as_yaml

    if changes := accepted_changes(data, file):
        yield f"{file} is accepted with these lines:\n{indent(as_yaml(changes), '    ')}"


def _spec_files(arguments: Sequence[Path]) -> list[Path]:
    files: dict[Path, Path] = {}
    for argument in arguments:
        # A pipe that is named may be read; one in a folder would be waited for.
        found = sorted(one for one in argument.glob("*.yaml") if not one.is_fifo()) if argument.is_dir() else [argument]
        if not found:
            below = sorted({str(path.parent) for path in argument.glob("*/*.yaml")})
            where = f"those in {' and '.join(below[:2])}" if below else "mmagen init writes a first one"
            raise UsageError(f"{argument} has no *.yaml files; pass a folder with specs ({where})")
        for path in found:
            if path.is_symlink() and not path.exists():
                raise UsageError(f"{path} is a symbolic link to {path.readlink()}, which does not exist")
            if not path.exists():
                beside = {one.stem: str(one) for one in path.parent.glob("*.yaml")}
                near = did_you_mean([beside[stem] for stem in like(path.stem, beside, 1)])
                raise UsageError(f"{path} does not exist{near and f' ({near})'}; pass a spec, or a folder with specs")
            files.setdefault(path.resolve(), path)
    return list(files.values())


def _refuse_equal_names(planned: Sequence[Planned], diagnostics: Sequence[Diagnostic]) -> None:
    """Raise UsageError for two specs of the same name; the message includes the diagnostics of the refused specs."""
    files: dict[str, Path] = {}
    for one in planned:
        name = one.plan.name
        if name in files:
            twins = f"{files[name]} and {one.path} are both named {name}; rename one of them"
            raise UsageError("\n".join([twins, *map(str, diagnostics)]))
        files[name] = one.path


def build(
    specs: Sequence[Path],
    output: Path,
    *,
    force: bool = False,
    check: bool = False,
    vendor: bool = False,
    tests: bool | None = None,
    compile_: bool = False,
    arch: Sequence[str] = (),
    jobs: int | None = None,
) -> ExitCode:
    """Generate each spec's project under `output`, or with `check` only list what differs there; then compile.

    tests: include tests/ or not; None keeps what each project under `output` has, and includes tests/ in a new project. A
    refused spec, a project with hand edits or one that does not compile does not stop the others; the most serious exit code is
    returned. Raises MmagenError for errors that affect all of them.
    """
    from mmagen.generate.render import render

    loaded = load_specs(specs)
    loaded.report_refused()
    loaded = fit_for(arch, loaded)
    planned = loaded.planned
    headers = cutlass_headers(planned) if vendor else [{}] * len(planned)
    projects: list[tuple[Path, dict[str, bytes]]] = []
    for one, theirs in zip(planned, headers, strict=True):
        folder = output / one.plan.name
        wanted = _has_tests(folder) if tests is None else tests
        projects.append((folder, with_vendored(render(one.plan, tests=wanted), theirs)))
    if check:
        return most_serious(_check(projects), loaded.exit_code)
    from mmagen.generate.write import write

    refused = []
    for folder, files in projects:
        try:
            written = write(files, folder, force)
        except UsageError as error:
            refused.append(str(error))
            continue
        outcome = (("written", written.changed), ("removed", written.removed))
        changes = [f"{len(paths)} {word}" for word, paths in outcome if paths]
        show(f"{folder}: {', '.join(changes) or 'up to date'}")
    for one in planned:
        if one.plan.note:
            show(f"mmagen: {one.plan.name}: {one.plan.note}", err=True)
        _warn(one.plan)
    if refused:
        raise UsageError("\n".join(refused))
    compiled = _compile([folder for folder, _ in projects], arch, jobs) if compile_ else ExitCode.OK
    return most_serious(compiled, loaded.exit_code)


def _warn(plan: ProjectPlan) -> None:
    """Print what the kernels cost that they need not, and the launches of the spec's own problems."""
    from mmagen.families import kernel_warnings

    found = list(kernel_warnings.warnings(plan))
    if plan.spec.problems:
        from mmagen.families.warnings import warnings  # most specs list no problems

        found += warnings(plan)
    for text in found:
        show(f"mmagen: {plan.name}: warning: {text}", err=True)


def _has_tests(folder: Path) -> bool:
    """Was the project in `folder` built with its tests? True if there is no project."""
    manifest = folder / MANIFEST
    return has_tests(manifest.read_bytes() if manifest.is_file() else None)


def _check(projects: Sequence[tuple[Path, Mapping[str, bytes]]]) -> ExitCode:
    from mmagen.generate.write import check

    drift = [folder / path for folder, files in projects for path in check(files, folder)]
    for path in drift:
        show(f"{path} differs")
    if drift:
        show("mmagen: projects differ from their specs; run mmagen build again", err=True)
    return ExitCode.INCORRECT if drift else ExitCode.OK


def cutlass_headers(planned: Sequence[Planned]) -> list[dict[str, bytes]]:
    """The CUTLASS headers to vendor into each project; each distinct set is read once."""
    from mmagen.generate.vendor import vendor_cutlass
    from mmagen.toolchain.find import find_toolchain

    toolchain = find_toolchain(want=("cutlass",))
    toolchain.need("cutlass")
    assert toolchain.cutlass
    extended = [p.plan.extended for p in planned]
    headers = {kind: vendor_cutlass(toolchain.cutlass.path, kind) for kind in set(extended)}
    return [headers[kind] for kind in extended]


def _compile(folders: Sequence[Path], arch: Sequence[str], jobs: int | None) -> ExitCode:
    from mmagen.build.build import build as compile_projects
    from mmagen.core.cache import is_kept
    from mmagen.toolchain.find import COMPILE, find_toolchain

    toolchain = find_toolchain(want=COMPILE if arch else (*COMPILE, "gpus"))
    with shown() as progress:
        results = compile_projects(folders, toolchain, arch=arch or None, jobs=jobs, progress=progress)
    for result in results:
        if result.ok:
            how = "from the cache" if result.cached else f"{result.seconds:.1f} s"
            show(f"{result.name}: compiled for {', '.join(result.arch)} ({how})")
            for path in result.programs.values():
                show(f"  {path}" if is_kept(path) else f"  {path.name}: not kept, because the cache could not be written")
        for warning in result.warnings:
            show(f"{result.name}: {warning}", err=True)
    failed = [result for result in results if not result.ok]
    if failed:
        show(f"mmagen: {_failures(failed)}", err=True)
    return ExitCode.BUILD_FAILED if failed else ExitCode.OK


def _failures(failed: Sequence[BuildResult]) -> str:
    lines = [f"{len(failed)} project{'s' * (len(failed) > 1)} did not build"]
    for result in failed:
        lines += [f"  {result.name}: {line}" for line in result.errors or (result.reason,)]
    return "\n".join(lines)
