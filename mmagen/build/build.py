"""Projects to programs: configure and compile with CMake, ninja and nvcc, cached by content.

CMake takes seconds to probe the compilers, so all uncached projects of a call are built as one scratch superproject; a failure
in one does not affect the others. Project folders are only read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mmagen
from mmagen.build import registers
from mmagen.build.job import BuildResult, Job, vendored_cutlass, with_origin
from mmagen.build.log import KernelInfo
from mmagen.build.superproject import build_together
from mmagen.core.cache import Cache, Entry
from mmagen.core.errors import UsageError
from mmagen.core.progress import Progress
from mmagen.core.reads import Reading
from mmagen.generate.manifest import MANIFEST, digests, has_tests
from mmagen.toolchain.find import cutlass_in
from mmagen.toolchain.identity import compilers, include_folders, open_cache
from mmagen.toolchain.model import Toolchain

PROGRAMS = ("verify", "bench", "tune")
_OPTIONAL = ("bench", "tune")  # only some projects have them
_CUSPARSELT = "tests/mmagen/cusparselt.cuh"  # a project whose benchmark calls cuSPARSELt has it
_NOT_COMPILED = ("README.md", "figures/", MANIFEST)  # the manifest has digests of the others; what else it says is in the key
NEEDED = ("nvcc", "host_compiler", "cmake", "ninja")

_ARCH = re.compile(r"^(?:sm_)?(\d{2,3}[af]?)$")
_NAME = re.compile(r"^[A-Za-z_]\w*$")


def build(
    projects: Sequence[Path],
    toolchain: Toolchain,
    *,
    arch: Sequence[str] | None = None,
    jobs: int | None = None,
    programs: Sequence[str] = ("verify", "bench"),
    progress: Progress | None = None,
    env: Mapping[str, str] | None = None,
) -> list[BuildResult]:
    """Compile `projects` (folders with a mmagen.json), one result for each, in their order.

    arch: what to compile for, e.g. ["sm_80"]; None: the local GPU's architecture, else what the project lists.
    jobs: compile steps at a time, None for ninja's choice. programs: of PROGRAMS; the optional ones only of
    projects that have them. progress: called with (steps done, steps in all, step). Raises BuildError when the toolchain is
    incomplete and UsageError for a folder that is no project; a project that does not compile is a result, not an exception.
    """
    toolchain.need(*NEEDED)
    env = os.environ if env is None else env
    todo = [read_project(Path(project), toolchain, arch, programs) for project in projects]
    cache = open_cache(toolchain, env)
    facts = compilers(toolchain, env, cache.digests)
    results: list[BuildResult | None] = [_from_cache(job, toolchain, cache, facts) for job in todo]
    missing = [index for index, result in enumerate(results) if result is None]
    if missing:
        for batch in _batches(missing, [job.name for job in todo]):
            built = build_together(
                [todo[i] for i in batch],
                toolchain,
                jobs_at_once=jobs,
                progress=progress,
                env=env,
                keep=lambda job, result, files, reading: _keep(
                    job, result, files, replace(reading, folders=include_folders(env)), toolchain, cache, facts
                ),
            )
            for index, result in zip(batch, built, strict=True):
                results[index] = result
    cache.close()
    found = [result for result in results if result is not None]
    for job, result in zip(todo, found, strict=True):
        registers.keep(result, job.files)
    return found


def built(project: Path, toolchain: Toolchain, env: Mapping[str, str] | None = None) -> BuildResult | None:
    """The kept result of compiling a project as it is now with this toolchain; None if there is none. Compiles nothing. Raises
    UsageError for a folder that is no project."""
    env = os.environ if env is None else env
    cache = open_cache(toolchain, env)
    facts = compilers(toolchain, env, cache.digests)
    offered = read_project(project, toolchain, None, PROGRAMS).programs
    for programs in dict.fromkeys((("verify", "bench"), ("verify",), offered or PROGRAMS)):
        if found := _from_cache(read_project(project, toolchain, None, programs), toolchain, cache, facts):
            return found
    return None


def _batches(indices: Sequence[int], names: Sequence[str]) -> list[list[int]]:
    """Two projects of one name cannot share a superproject: each batch has every name at most once."""
    batches: list[list[int]] = []
    for index in indices:
        batch = next((b for b in batches if names[index] not in (names[i] for i in b)), None)
        if batch is None:
            batches.append([index])
        else:
            batch.append(index)
    return batches


def read_project(project: Path, toolchain: Toolchain, arch: Sequence[str] | None, programs: Sequence[str]) -> Job:
    """The project in folder `project` as a Job. Raises UsageError for anything else and for an invalid `arch`."""
    unknown = set(programs) - set(PROGRAMS)
    if unknown or not programs:
        raise UsageError(f"programs must be some of {', '.join(PROGRAMS)}, not {', '.join(sorted(unknown)) or 'none'}")
    try:
        manifest = json.loads((project / MANIFEST).read_text("utf-8"))
        name, kernel, listed = manifest["name"], manifest["kernel"], tuple(manifest["arch"])
    except FileNotFoundError:
        raise UsageError(f"{project} is not a generated project: it has no mmagen.json") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{project}/mmagen.json cannot be read: {error!r}; generate the project again") from None
    if not isinstance(name, str) or not _NAME.match(name):
        raise UsageError(f"{project}/mmagen.json: name {name!r} is not a C identifier")
    chosen = tuple(map(arch_name, arch)) if arch else choose_arch(tuple(map(arch_name, listed)), toolchain)
    files = _snapshot(project)
    offered = _programs_of(files) if has_tests(files.get(MANIFEST)) else ()
    wanted = tuple(program for program in offered if program in programs)
    return Job(
        project,
        name,
        kernel,
        str(manifest.get("spec_sha", "")),
        files,
        chosen,
        wanted,
        offered,
        _cutlass_version(project, files, toolchain),
    )


def _programs_of(files: Collection[str]) -> tuple[str, ...]:
    """Those of PROGRAMS that a project has: the optional ones only if their source exists."""
    return tuple(
        program for program in PROGRAMS if program not in _OPTIONAL or any(f.startswith(f"tests/{program}.") for f in files)
    )


def arch_name(text: str) -> str:
    """ "sm_90a" for "sm_90a" and "90a". Raises UsageError for anything that is no architecture."""
    match = _ARCH.match(text)
    if not match:
        raise UsageError(f"{text!r} is not a GPU architecture; write it like sm_80 or sm_90a")
    return f"sm_{match[1]}"


def choose_arch(listed: tuple[str, ...], toolchain: Toolchain) -> tuple[str, ...]:
    """What to compile for by default: the first local GPU's architecture, else all that the project lists.

    The GPU's architecture-specific variant ("sm_90a") is taken only when listed. A GPU that can run nothing of
    what is listed is ignored: the project still compiles, and its program reports an unsuitable GPU.
    """
    if not toolchain.gpus:
        return listed
    major, minor = toolchain.gpus[0].capability
    plain = f"sm_{major}{minor}"
    for candidate in (f"{plain}a", f"{plain}f", plain):
        if candidate in listed:
            return (candidate,)
    portable = [int(a[3:]) for a in listed if a[3:].isdigit()]
    return (plain,) if portable and min(portable) <= major * 10 + minor else listed


def _snapshot(project: Path) -> dict[str, bytes]:
    """All files of the project except hidden ones and build folders. The same snapshot is hashed and compiled."""
    files = {}
    for folder, folders, names in os.walk(project):
        here = Path(folder)
        folders[:] = sorted(
            f
            for f in folders
            if not f.startswith((".", "__pycache__"))
            and not (here == project and f == "build")
            and not (here / f / "CMakeCache.txt").exists()
        )
        for name in sorted(names):
            if not name.startswith("."):
                files[(here / name).relative_to(project).as_posix()] = (here / name).read_bytes()
    return files


def _cutlass_version(project: Path, files: Mapping[str, bytes], toolchain: Toolchain) -> str:
    own = vendored_cutlass(files)
    tool = cutlass_in(project / own, "vendored") if own else toolchain.cutlass
    return tool.version if tool else ""


def _key(job: Job, toolchain: Toolchain, programs: Sequence[str], compilers: Mapping[str, Any]) -> str:
    """Digest of everything that the programs depend on, except for the files that the compiler reads outside of the project;
    where the project and the compilers are does not count, nor what only people read."""
    facts = {
        "mmagen": mmagen.__version__,
        "name": job.name,
        "compilers": compilers,
        "cmake": toolchain.cmake and toolchain.cmake.version,
        "cutlass": job.cutlass,
        "cublaslt": toolchain.cublaslt and any(program in programs for program in _OPTIONAL),
        **({"cusparselt": str(toolchain.cusparselt)} if "bench" in programs and _CUSPARSELT in job.files else {}),
        "arch": job.arch,
        "programs": programs,
        "files": digests({path: data for path, data in job.files.items() if not path.startswith(_NOT_COMPILED)}),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _from_cache(job: Job, toolchain: Toolchain, cache: Cache, compilers: Mapping[str, Any]) -> BuildResult | None:
    """A cached build that has at least the requested programs."""
    for programs in dict.fromkeys((job.programs, job.offered)):
        if entry := cache.find("builds", _key(job, toolchain, programs, compilers)):
            return _revive(job, entry, toolchain)
    return None


def _revive(job: Job, entry: Entry, toolchain: Toolchain) -> BuildResult | None:
    folder, stored = entry.folder, entry.result
    try:
        result = BuildResult(
            job.name,
            job.project,
            True,
            programs={kind: folder / name for kind, name in stored["programs"].items() if kind in job.programs},
            library=folder / stored["library"] if stored["library"] else None,
            log=stored["log"],
            warnings=tuple(stored["warnings"]),
            ptxas=tuple(KernelInfo(**kernel) for kernel in stored["ptxas"]),
            seconds=stored["seconds"],
            cached=True,
        )
    except (KeyError, TypeError):
        return None
    return with_origin(result, job, toolchain)


def _keep(
    job: Job,
    result: BuildResult,
    files: Mapping[str, Path],
    reading: Reading,
    toolchain: Toolchain,
    cache: Cache,
    compilers: Mapping[str, Any],
) -> BuildResult:
    """Store a successful build (`files`: kind or "library" -> where it was built) and return it with its paths in the cache."""
    names = {kind: path.name for kind, path in files.items()}
    programs = {kind: name for kind, name in names.items() if kind != "library"}
    stored = {
        "programs": programs,
        "library": names.get("library", ""),
        "log": result.log,
        "warnings": list(result.warnings),
        "ptxas": [kernel.to_dict() for kernel in result.ptxas],
        "seconds": result.seconds,
    }
    key = _key(job, toolchain, job.programs, compilers)
    folder = cache.keep("builds", key, stored, {names[kind]: path for kind, path in files.items()}, reading).folder
    return replace(
        result,
        programs={kind: folder / name for kind, name in programs.items()},
        library=folder / names["library"] if "library" in names else None,
    )
