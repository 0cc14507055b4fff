"""Several kernels as the files of one library: `mmagen vendor`. Pure, as render."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmagen import __version__
from mmagen.core.errors import UsageError
from mmagen.core.targets import cmake_list
from mmagen.families import family_of
from mmagen.generate import manifest
from mmagen.generate.render import architectures, definitions, render, unit_sources
from mmagen.generate.templates import project_file, rendered
from mmagen.plan.project import ProjectPlan, Text

_SHARED = {
    "CMakeLists.txt": "collection/CMakeLists.txt.j2",
    "README.md": "collection/README.md.j2",
    "include/NAME/NAME.h": "collection/include/NAME/NAME.h.j2",
    "cmake/NAMEConfig.cmake.in": "package/cmake/NAMEConfig.cmake.in.j2",
    "cmake/NAME.pc.in": "package/cmake/NAME.pc.in.j2",
    "cmake/mmagen_cutlass.cmake": "common/cmake/mmagen_cutlass.cmake",
    "LICENSE": "common/LICENSE",
}
_TOGETHER = {"cmake/mmagen_unit.cmake": "library/cmake/mmagen_unit.cmake"}


@dataclass(frozen=True)
class Collection:
    """What the templates see of the library as a whole."""

    name: str
    text: Text


@dataclass(frozen=True)
class _Kernel:
    name: str
    title: str
    arch: tuple[str, ...]
    architectures: str
    requires: str
    unfit: str
    definitions: list[str]
    alone: list[str]
    together: list[list[str]]


def collect(name: str, plans: Sequence[ProjectPlan]) -> dict[str, bytes]:
    """All files of the library by POSIX path, mmagen.json last; the same whatever the order of the plans. Headers of the runtime
    are there once.

    Raises UsageError for a name that is that of a kernel, and for kernels that are programs and no libraries."""
    files: dict[str, bytes] = {}
    kernels = []
    for plan in sorted(plans, key=lambda one: one.name):
        if plan.name.lower() == name.lower():
            raise UsageError(f"{name} is the name of a kernel and of the library; give the library another --name")
        of_kernel = render(plan, tests=False, with_figures=False)  # the library's README.md is that of all
        of_family = family_of(plan).context(plan, [*plan.by_kernel][-1])
        units = unit_sources(of_family["units"], f"src/{plan.name}")
        for path, content in of_kernel.items():
            if path.startswith("include/"):
                assert files.setdefault(path, content) == content, f"two versions of {path}"
        moved = {path: f"src/{plan.name}/{path.removeprefix('src/')}" for path in of_kernel if path.startswith("src/")}
        files |= {path: of_kernel[source] for source, path in moved.items()}
        files[f"specs/{plan.name}.yaml"] = of_kernel["spec.yaml"]
        kernels.append(
            _Kernel(
                plan.name,
                plan.text.title,
                plan.arch,
                cmake_list(plan.arch),
                *architectures(plan),
                definitions(plan),
                units["alone"],
                units["together"],
            )
        )
    title = f"{len(kernels)} kernel{'s' * (len(kernels) > 1)} made by mmagen"
    context = {
        "plan": Collection(name, Text(title=title)),
        "kernels": kernels,
        "upper": name.upper(),
        "version": __version__,
        "soversion": ".".join(__version__.split(".")[:2]),
    }
    shared = {**_SHARED, **(_TOGETHER if any(kernel.together for kernel in kernels) else {})}
    for path, source in shared.items():
        template = source.endswith(".j2")
        made = rendered(source, context) if template else project_file(source)
        files[path.replace("NAME", name)] = made
    files = dict(sorted(files.items()))
    facts = {"mmagen": __version__, "name": name, "kernels": [kernel.name for kernel in kernels]}
    return {**files, manifest.MANIFEST: manifest.to_bytes({**facts, "files": manifest.digests(files)})}
