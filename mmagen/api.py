"""The functions of `import mmagen`. Specs are files, text or loaded; everything else is in the packages that do it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from mmagen.binding.kernel import Kernel
from mmagen.core.errors import BuildError, SpecError, SpecFaults, UsageError
from mmagen.core.files import content
from mmagen.families import family_of
from mmagen.families.reading import read
from mmagen.plan.plans import ProductPlan
from mmagen.plan.project import ProjectPlan
from mmagen.spec.load import load
from mmagen.spec.model import Spec
from mmagen.verify.verdict import Verdict

SpecLike = str | os.PathLike[str] | Mapping[str, Any] | Spec
_QUIET = lambda *_: None  # noqa: E731  of progress


def load_spec(spec: SpecLike) -> Spec:
    """A spec from a file, from a mapping as YAML would give it, or as it is. Raises SpecError with all faults, each with line
    and column, and UsageError for a file that cannot be read."""
    if isinstance(spec, Spec):
        return spec
    return load(*_text(spec)).spec


def plan(spec: SpecLike) -> ProjectPlan:
    """Every decision about a spec, as a frozen plan. Raises SpecError with all faults."""
    if isinstance(spec, Spec):
        from mmagen.families import plan as plan_spec

        try:
            return plan_spec(spec)
        except SpecFaults:  # which have no place in a file: a mapping gives them one
            spec = spec.model_dump(mode="json", by_alias=True)
    found, faults = read(*_text(spec))
    if found is None:
        raise SpecError(faults)
    return found


def build(spec: SpecLike, into: str | os.PathLike[str] = "generated", *, tests: bool = True, force: bool = False) -> Path:
    """Write the spec's project into the folder `into`/NAME, and return that folder.

    tests: with the programs that verify and time it. force: overwrite files that were edited by hand, which are refused
    otherwise. Raises SpecError and UsageError."""
    from mmagen.generate.render import render
    from mmagen.generate.write import write

    made = plan(spec)
    folder = _path(into, "into") / made.name
    write(render(made, tests=tests), folder, force)
    return folder


def verify(
    spec: SpecLike,
    *,
    on: str = "auto",
    problems: Sequence[str] = (),
    arch: str | None = None,
    seed: int | None = None,
    timeout_s: float = 600.0,
    jobs: int | None = None,
) -> Verdict:
    """Build the spec's project, run it on a GPU or emulate it, and judge every problem.

    on: "gpu", "cpu" (emulated, on small problems), or "auto": a GPU where there is one. problems: as on the command line,
    "256,128,64", or as records name them; () for those of the spec. arch: what to compile for. The verdict has one record for
    each problem. Raises SpecError, BuildError and UsageError."""
    from mmagen.toolchain.find import COMPILE, find_toolchain
    from mmagen.verify.problem_text import as_argument

    if on not in ("auto", "cpu", "gpu"):
        raise UsageError(f"on={on!r}; use 'auto', 'cpu' or 'gpu'")
    if isinstance(problems, str) or not all(isinstance(problem, str) for problem in problems):
        raise UsageError(f"problems={problems!r}; pass a list of strings, e.g. ['256,128,64']")
    made = plan(spec)
    problems = [as_argument(problem, (made,)) for problem in problems]
    toolchain = find_toolchain(want=(*COMPILE, "gpus"))
    emulated = on == "cpu" or (on == "auto" and not toolchain.gpus)
    _check_arch(made, arch)
    with tempfile.TemporaryDirectory(prefix="mmagen-") as scratch:
        folder = build(spec, scratch)
        if emulated:
            from mmagen.verify.emulated.verify import emulate_all

            options: dict[str, Any] = {"seed": seed, "distribution": None, "jobs": jobs, "timeout_s": timeout_s}
            return emulate_all([folder], toolchain, arch=arch, problems=problems, progress=_QUIET, **options)[0]
        from mmagen.build.build import build as compile_projects
        from mmagen.verify.run import run
        from mmagen.verify.verdict import judge

        result = compile_projects([folder], toolchain, arch=[arch] if arch else None, jobs=jobs, programs=("verify",))[0]
        if not result.ok or not toolchain.gpus:
            return judge(result, no_gpu="" if toolchain.gpus else toolchain.remedies["gpus"])
        arguments = [part for problem in problems for part in ("--problem", problem)]
        arguments += ["--seed", str(seed)] if seed is not None else []
        return judge(result, run(result, program="verify", args=arguments, timeout_s=timeout_s))


def inspect(spec: SpecLike) -> str:
    """The page of `mmagen inspect`: layouts, budgets, bank conflicts, traffic."""
    from mmagen.inspect.page import inspect as page

    return page(plan(spec))


def compile(spec: SpecLike, *, arch: str | None = None) -> Kernel:
    """The spec's kernel as a function of arrays, compiled once and cached by content.

    arch: what to compile for, e.g. "sm_90a"; by default the local GPU's architecture, else what the spec lists. Raises SpecError,
    and BuildError where the toolchain is incomplete or the project does not compile."""
    from mmagen.binding.compiled import compiled
    from mmagen.binding.emulated import Emulated

    made = plan(spec)
    if family_of(made).trials(made).judge not in ("product", "pointers"):
        raise UsageError(f"{made.name} is kernel: {made.kernel}; compile() takes kernel: gemm or micro")
    _check_arch(made, arch)
    folder = _project_folder(made)
    return Kernel(compiled(folder, made.name, arch), Emulated(cast(ProductPlan, made), partial(_project_folder, made)))


def open(path: str | os.PathLike[str], name: str | None = None) -> Kernel:
    """The kernel of a shared library made by mmagen, or of the folder that it was built in.

    name: which, where the library has several. Raises UsageError that says what the file is instead."""
    from mmagen.binding.shared_library import entries_in

    found = entries_in(_path(path, "path"))
    if name is None and len(found) == 1:
        name = next(iter(found))
    if name not in found:
        asked = "pass one of them as name" if name is None else f"name={name!r} is none of them"
        raise UsageError(f"{path} has {', '.join(found)}; {asked}")
    return Kernel(found[name])


def _check_arch(made: ProjectPlan, arch: str | None) -> None:
    """Raises UsageError for an architecture that the spec could not list."""
    from mmagen.build.build import arch_name
    from mmagen.families.reading import refusal_for

    if arch is not None and (why := refusal_for(made, (arch_name(arch),))):
        raise UsageError(f"arch: {why}")


def _text(spec: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[bytes, str]:
    """The YAML of a spec, and its label in messages. Raises UsageError."""
    if isinstance(spec, Mapping):
        import yaml

        try:
            return yaml.safe_dump(dict(spec), sort_keys=False).encode(), "spec"
        except yaml.YAMLError as error:
            raise UsageError(
                f"spec: {error.args[0]} {error.args[1:]} in YAML; use numbers, strings, lists and mappings"
            ) from None
    return content(_path(spec, "spec")), os.fspath(spec)


def _path(given: object, argument: str) -> Path:
    """The path that a caller passed. Raises UsageError for what is none."""
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str) or "\0" in os.fspath(given):
        also = " or a mapping" if argument == "spec" else ""
        given = str(given)[:80] if isinstance(given, bytes) else given
        raise UsageError(f"{argument}: {given!r} is no path; pass a file{also}")
    if argument == "spec" and "\n" in os.fspath(given) and not os.path.exists(given):
        raise UsageError("spec: it is the text of a spec, not a path; pass a file or a mapping, e.g. yaml.safe_load(text)")
    if not os.fspath(given):  # pathlib makes the current folder of it
        raise UsageError(f"{argument}: the path is empty")
    return Path(given)


def _project_folder(made: ProjectPlan) -> Path:
    """A folder of the cache with the project, the same for the same files."""
    from mmagen.core.cache import cache_root
    from mmagen.generate.render import render
    from mmagen.generate.write import write

    files = render(made, tests=False, with_figures=False)
    digest = hashlib.sha256(files["mmagen.json"]).hexdigest()[:16]
    folder = cache_root() / "projects" / digest / made.name
    try:
        write(files, folder, force=True)
    except OSError as error:
        raise BuildError(f"{folder} cannot be written: {error.strerror}; set MMAGEN_CACHE_DIR to a folder that can") from None
    return folder
