"""Renders a plan to files: substitutes decided values and selects files; makes no decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import yaml

from mmagen import __version__
from mmagen.core.errors import UsageError
from mmagen.core.targets import capability, cmake_list, cmake_unfit
from mmagen.core.templates import templates_folder
from mmagen.families import family_of
from mmagen.generate import manifest
from mmagen.generate.figures import NONE, Figures, figures
from mmagen.generate.headers import with_headers
from mmagen.generate.templates import project_file, rendered
from mmagen.plan.facts import INTERFACE_VERSION, needs
from mmagen.plan.project import Prepared, ProjectPlan

# libyaml's dumper, if available, writes the same bytes in a fraction of the time.
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def render(plan: ProjectPlan, *, tests: bool = True, with_figures: bool = True) -> dict[str, bytes]:
    """All files of the project by POSIX path, `mmagen.json` with their digests last. The same plan gives the same bytes.

    tests: with its tests/; with_figures: with the pictures of its README.md. Raises UsageError where the project has nothing
    else to build.
    """
    files = with_headers({"spec.yaml": _spec_yaml(plan).encode(), **_project(plan, tests, with_figures)})
    files = dict(sorted(files.items()))
    files["mmagen.json"] = _manifest(plan, files, tests)
    return files


def _project(plan: ProjectPlan, tests: bool, with_figures: bool) -> dict[str, bytes]:
    """The files that come from templates/project. NAME in a path is the project's name; of a path with CONFIG there is a
    file for each kernel of a library."""
    shown = figures(plan) if with_figures else NONE
    contexts = {config: _context(one, config, tests, shown) for config, one in plan.by_kernel.items()}
    library = _context(plan, list(contexts)[-1], tests, shown)  # shared files use the last config
    sources = {path: f"{part}/{path}" for part in family_of(plan).parts(plan) for path in _part_files(part)}
    if not tests:
        if "tests/CMakeLists.txt.j2" not in sources:
            raise UsageError(f"{plan.name} is a program of tests/ alone; mmagen build --tests makes it")
        sources = {path: source for path, source in sources.items() if not path.startswith("tests/")}
    files = shown.files
    for path, source in sources.items():
        for one in contexts.values() if "CONFIG" in path else (library,):
            target = path.removesuffix(".j2").replace("NAME", plan.name).replace("CONFIG", one["config"])
            files[target] = _content(source, one)
    return files


def _content(source: str, context: dict[str, Any]) -> bytes:
    return rendered(source, context) if source.endswith(".j2") else project_file(source)


@cache
def _part_files(part: str) -> tuple[str, ...]:
    """Paths of the files in a folder of templates/project; those that begin with _ are pieces of others."""
    root = templates_folder() / "project" / part
    return tuple(
        sorted(
            path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and not path.name.startswith("_")
        )
    )


def _context(plan: ProjectPlan, config: str, tests: bool, shown: Figures) -> dict[str, Any]:
    """Template variables. config: the selected kernel of a library, "" for a single kernel. shown: in README.md."""
    of_family = family_of(plan).context(plan, config)
    made_by = {"mmagen": __version__, "interface": INTERFACE_VERSION}
    requires, unfit = architectures(plan)
    facts = replace(plan.facts, description={**made_by, **plan.facts.description})
    return {
        "plan": plan,
        "config": config or "config",
        "configs": [name or "config" for name in plan.by_kernel],
        "figures": shown,
        "version": __version__,
        "tests": tests,
        "upper": plan.name.upper(),
        "soversion": ".".join(__version__.split(".")[:2]),
        "facts": facts,
        "cuda_architectures": cmake_list(plan.arch),
        "requires": requires,
        "unfit": unfit,
        "choices": (),
        "usable": True,
        "fixed_shape": True,
        "workspace": "",
        "prepared": Prepared(),
        "definitions": definitions(plan),
        **of_family,
        **unit_sources(of_family["units"], "src"),
    }


def unit_sources(units: Sequence[Sequence[str]], folder: str) -> dict[str, list[Any]]:
    """alone: files that are each a translation unit; together: groups of files, each compiled as one unit. units: names of files
    in `folder`, as families have them."""
    files = [[f"{folder}/{name}.cu" for name in unit] for unit in units]
    return {"alone": [unit[0] for unit in files if len(unit) == 1], "together": [unit for unit in files if len(unit) > 1]}


def architectures(plan: ProjectPlan) -> tuple[str, str]:
    """What all kernels of the plan need, as text; and as a condition of CMake that an `architecture` lacks it."""
    required = max((one.requires for one in plan.by_config.values()), key=capability)
    return needs([required]), cmake_unfit(required, plan.arch)


def definitions(plan: ProjectPlan) -> list[str]:
    """The macros that a kernel is compiled with."""
    return ["NDEBUG", *(["CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED"] if plan.extended else [])]


def _spec_yaml(plan: ProjectPlan) -> str:
    """The spec with its defaults filled in, which makes the project self-contained."""
    document = plan.spec.model_dump(mode="json", by_alias=True)
    return (
        f"# The spec of this project, defaults filled in; `mmagen build spec.yaml` makes it again.\n"
        f"{yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)}"
    )


def _manifest(plan: ProjectPlan, files: dict[str, bytes], tests: bool) -> bytes:
    facts = {
        "mmagen": __version__,
        "name": plan.name,
        "kernel": plan.kernel,
        "spec_sha": plan.spec_sha,
        "arch": list(plan.arch),
    }
    without = {} if tests else {"tests": False}
    return manifest.to_bytes({**facts, **without, "files": manifest.digests(files)})
