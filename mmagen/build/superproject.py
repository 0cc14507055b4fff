"""Several projects compiled as one CMake superproject; each gets its own result."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmagen.build.job import BuildResult, Job, vendored_cutlass, with_origin
from mmagen.build.log import (
    NINJA_STATUS,
    Edge,
    KernelInfo,
    cmake_errors,
    edges,
    failed_to_configure,
    parse_ptxas,
    parse_status,
    useful_lines,
    warnings,
)
from mmagen.core.demangled import demangled
from mmagen.core.process import capture, follow
from mmagen.core.progress import Progress
from mmagen.core.reads import Reading, outside
from mmagen.core.targets import cmake_list
from mmagen.toolchain.model import Toolchain
from mmagen.toolchain.temporary import check_temporary_folder

Keep = Callable[[Job, BuildResult, Mapping[str, Path], Reading], BuildResult]

_HEAD = """\
cmake_minimum_required(VERSION 3.24)
project(mmagen_harness LANGUAGES CXX CUDA)

function(mmagen_targets place name)
  set(lines "")
  foreach(kind library verify bench tune)
    set(target ${name}_${kind})
    if(kind STREQUAL library)
      set(target ${name})
    endif()
    if(TARGET ${target})
      get_target_property(type ${target} TYPE)
      if(type MATCHES "^(STATIC_LIBRARY|SHARED_LIBRARY|EXECUTABLE)$")
        string(APPEND lines "${kind} $<TARGET_FILE:${target}>\\n")
      endif()
    endif()
  endforeach()
  file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/${place}.targets" CONTENT "${lines}")
endfunction()
"""


@dataclass(frozen=True)
class _Site:
    """One scratch folder: src/p0, src/p1, … hold the projects, build/ is CMake's."""

    scratch: Path
    toolchain: Toolchain
    env: Mapping[str, str]

    @property
    def build(self) -> Path:
        return self.scratch / "build"

    def clean(self, text: str, place: str = "") -> str:
        """`text` without this machine's paths: what lies in the project becomes relative to it."""
        assert self.toolchain.nvcc
        if place:
            text = text.replace(f"src/{place}/", "")
        text = text.replace(f"{self.scratch}/", "")
        if self.toolchain.cutlass:
            text = text.replace(str(self.toolchain.cutlass.path), "<cutlass>")
        return text.replace(str(self.toolchain.nvcc.path.parent.parent), "<cuda>")


def build_together(
    jobs: Sequence[Job],
    toolchain: Toolchain,
    *,
    jobs_at_once: int | None = None,
    progress: Progress | None = None,
    env: Mapping[str, str],
    keep: Keep,
) -> list[BuildResult]:
    """Compile `jobs` (no two of one name) in one scratch build, one result each, in their order.

    keep: called with each job that compiled, its result, the files made (kind or "library" -> path), which are gone
    afterwards, and what the compilers read outside of the project; returns the result with the places where they stay. Nothing
    is left behind, whatever happens.
    """
    with tempfile.TemporaryDirectory(prefix="mmagen-") as folder:
        site = _Site(Path(folder).resolve(), toolchain, _child_env(env))
        places = {f"p{index}": job for index, job in enumerate(jobs)}
        for place, job in places.items():
            _lay_out(site.scratch / "src" / place, job)
        alive, refusal = _configure(site, places)
        if refusal:
            results = {place: _refused(site, place, job, refusal) for place, job in alive.items()}
        else:
            results = _compile(site, alive, jobs_at_once, progress, keep)
        for place, job in places.items():
            if place not in results:
                # Another project may have caused the failure: build it alone.
                results[place] = build_together(
                    [job], toolchain, jobs_at_once=jobs_at_once, progress=progress, env=env, keep=keep
                )[0]
        return [with_origin(results[place], job, toolchain) for place, job in places.items()]


def _child_env(env: Mapping[str, str]) -> dict[str, str]:
    """`env` with ninja's status line set, without variables that change the output of ninja or nvcc."""
    dropped = ("NINJA_STATUS", "CMAKE_GENERATOR", "VERBOSE", "CLICOLOR_FORCE", "CMAKE_COLOR_DIAGNOSTICS")
    return {**{k: v for k, v in env.items() if k not in dropped}, "NINJA_STATUS": NINJA_STATUS, "LC_ALL": "C"}


def _lay_out(folder: Path, job: Job) -> None:
    for name, data in job.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _configure(site: _Site, places: Mapping[str, Job]) -> tuple[dict[str, Job], str]:
    """Run CMake, leaving out the projects that its errors name; those that are left, and "" or why CMake refuses them.

    The compilers are probed in the first attempt only: CMake remembers them in the build folder.
    """
    alive = dict(places)
    check_temporary_folder(site.env)
    while True:
        (site.scratch / "CMakeLists.txt").write_text(_superproject(alive), "utf-8")
        done = capture(_cmake_command(site), timeout_s=None, env=site.env)
        if done.exit_code == 0:
            return alive, ""
        output = done.stderr + done.stdout
        if len(alive) == 1 or "mmagen: begin" not in done.stderr:
            return alive, output
        failed = [place for place in failed_to_configure(done.stderr) if place in alive]
        for place in failed or list(alive)[1:]:
            del alive[place]
        if not alive:
            return {}, ""


def _refused(site: _Site, place: str, job: Job, output: str) -> BuildResult:
    lines = cmake_errors(output, place) or tuple(output.splitlines())
    return _failure(site, job, place, lines, "CMake cannot configure it")


def _superproject(places: Mapping[str, Job]) -> str:
    lines = [_HEAD]
    for place, job in places.items():
        arch = cmake_list(job.arch)
        own = vendored_cutlass(job.files)
        # mmagen tune leaves out the kernels whose files do not compile, so the log must name the file.
        separate = "ON" if "tune" in job.programs else "OFF"
        # A generated project reads its own variable only: in a superproject CMake's is often just the default.
        lines += [
            f'message(NOTICE "mmagen: begin {place}")',
            f'set(CMAKE_CUDA_ARCHITECTURES "{arch}")',
            f'set(MMAGEN_CUDA_ARCHITECTURES "{arch}" CACHE STRING "" FORCE)',
            f'set(MMAGEN_SEPARATE_UNITS {separate} CACHE BOOL "" FORCE)',
        ]
        if own:
            root = own.removesuffix("/include")
            lines.append(f'set(CUTLASS_DIR "${{CMAKE_SOURCE_DIR}}/src/{place}/{root}")')
        lines += [
            f'set({job.name.upper()}_BUILD_TESTS ON CACHE BOOL "" FORCE)',
            f"add_subdirectory(src/{place} {place})",
            f"mmagen_targets({place} {job.name})",
            f'message(NOTICE "mmagen: end {place}")',
        ]
        if own:
            lines.append("unset(CUTLASS_DIR)")
    return "\n".join(lines) + "\n"


def _cmake_command(site: _Site) -> list[str]:
    tools = site.toolchain
    assert tools.cmake and tools.ninja and tools.nvcc and tools.host_compiler
    command = [
        str(tools.cmake.path),
        "-G",
        "Ninja",
        "-S",
        str(site.scratch),
        "-B",
        str(site.build),
        "-Wno-dev",
        f"-DCMAKE_MAKE_PROGRAM={tools.ninja.path}",
        f"-DCMAKE_CUDA_COMPILER={tools.nvcc.path}",
        f"-DCMAKE_CUDA_HOST_COMPILER={tools.host_compiler.path}",
        f"-DCMAKE_CXX_COMPILER={tools.host_compiler.path}",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DMMAGEN_PTXAS_INFO=ON",
    ]
    if tools.cutlass:
        root = tools.cutlass.path
        command.append(f"-DCUTLASS_DIR={root.parent if root.name == 'include' else root}")
    if tools.cusparselt:
        command.append(f"-DCUSPARSELT_DIR={tools.cusparselt}")
    return command


def _targets(site: _Site, place: str) -> dict[str, Path]:
    """What CMake will build for a project: "library", "verify", "bench", "tune" -> path."""
    lines = (site.build / f"{place}.targets").read_text("utf-8").splitlines()
    return {kind: Path(path) for kind, path in (line.split(" ", 1) for line in lines)}


def _compile(
    site: _Site, places: Mapping[str, Job], at_once: int | None, progress: Progress | None, keep: Keep
) -> dict[str, BuildResult]:
    """If this is interrupted, the projects that are complete by then are kept."""
    assert site.toolchain.ninja
    wanted: dict[str, dict[str, Path]] = {}
    for place, job in places.items():
        made = _targets(site, place)
        wanted[place] = {kind: made[kind] for kind in ("library", *job.programs) if kind in made}
    began = time.time_ns()
    targets = [os.path.relpath(path, site.build) for made in wanted.values() for path in made.values()]
    lines: list[str] = []
    report = _reporter(places, progress)

    def on_line(line: str) -> None:
        lines.append(f"{line}\n")
        report(line)

    command = [str(site.toolchain.ninja.path), "-C", str(site.build), "-k", "0"]
    command += ["-j", str(at_once)] if at_once else []
    try:
        if targets:
            follow([*command, *targets], env=site.env, on_line=on_line)
    except BaseException:
        # A step counts once its output has been read, and ninja has logged that it ended.
        told = {edge.what.rsplit(" ", 1)[-1] for edge in edges("".join(lines))}
        done = {site.build / step.output for step in _steps(site) if step.output in told}
        whole = {place: job for place, job in places.items() if wanted[place] and done.issuperset(wanted[place].values())}
        with contextlib.suppress(Exception):  # the interruption is what is reported
            _results(site, whole, wanted, "".join(lines), began, keep)
        raise
    return _results(site, places, wanted, "".join(lines), began, keep)


def _results(
    site: _Site, places: Mapping[str, Job], wanted: Mapping[str, Mapping[str, Path]], output: str, began: int, keep: Keep
) -> dict[str, BuildResult]:
    """The result of each project that ninja built or failed to build. output: what ninja printed; began: time.time_ns() at its
    start."""
    steps = edges(output)
    times = _step_seconds(site)
    read = _read_files(site)
    results = {}
    for place, job in places.items():
        mine = [edge for edge in steps if edge.place == place]
        result = replace(_outcome(site, place, job, wanted[place], mine, output), seconds=times.get(place, 0.0))
        reading = Reading(outside(sorted(read.get(place, ())), site.scratch), began_ns=began)
        results[place] = keep(job, result, wanted[place], reading) if result.ok else result
    return results


def _reporter(places: Mapping[str, Job], progress: Progress | None) -> Callable[[str], None]:
    def on_line(line: str) -> None:
        status = parse_status(line) if progress else None
        if progress and status:
            done, total, what = status
            named = re.sub(r"\b(p\d+)/", lambda m: f"{places[m[1]].name}/" if m[1] in places else m[0], what)
            progress(done, total, named)

    return on_line


def _outcome(site: _Site, place: str, job: Job, wanted: Mapping[str, Path], mine: Sequence[Edge], output: str) -> BuildResult:
    """mine: the project's steps; output: all of ninja's, for a failure that none of them reports."""
    log = [line for edge in mine for line in (edge.what, *edge.lines)]
    absent = [kind for kind in job.programs if kind not in wanted]
    if absent:
        log.append(f"CMakeLists.txt: error: there is no target {', '.join(f'{job.name}_{kind}' for kind in absent)}")
        return _failure(site, job, place, log, "a program is missing")
    broken = [line for edge in mine if edge.failed for line in edge.lines]
    if any(edge.failed for edge in mine) or not all(path.is_file() for path in wanted.values()):
        return _failure(site, job, place, log, "it does not compile", broken or log or output.splitlines())
    lines = site.clean("\n".join(log), place).splitlines()
    kernels = [line for edge in mine if f"/{job.name}.dir/" in edge.what for line in edge.lines]
    ptxas = _named(parse_ptxas(kernels), site.env)
    return BuildResult(
        job.name,
        job.project,
        True,
        log="\n".join(lines),
        ptxas=ptxas,
        warnings=warnings(lines, foreign=("<cutlass>", "<cuda>")),
    )


def _failure(
    site: _Site, job: Job, place: str, log: Sequence[str], what: str, lines: Sequence[str] | None = None
) -> BuildResult:
    text = site.clean("\n".join(log), place)
    errors = useful_lines(site.clean("\n".join(log if lines is None else lines), place).splitlines())
    headline = " ".join(" ".join(errors[:2] if errors and errors[0].startswith("CMake Error") else errors[:1]).split())
    return BuildResult(
        job.name, job.project, False, log=text, errors=errors, reason=f"{what}: {headline}" if headline else what
    )


def _named(kernels: tuple[KernelInfo, ...], env: Mapping[str, str]) -> tuple[KernelInfo, ...]:
    """`kernels` with their names as in the source."""
    names = demangled([kernel.function for kernel in kernels], env)
    return tuple(replace(kernel, demangled=name) for kernel, name in zip(kernels, names, strict=True))


def _read_files(site: _Site) -> dict[str, set[str]]:
    """The absolute paths that each project folder's compile steps read, from ninja's record of their depfiles."""
    assert site.toolchain.ninja
    listed = capture([site.toolchain.ninja.path, "-C", site.build, "-t", "deps"], timeout_s=None, env=site.env).stdout
    found: dict[str, set[str]] = {}
    of: set[str] = set()
    for line in listed.splitlines():
        if line.startswith("    "):
            of.add(os.path.normpath(site.build / line[4:]))
        elif ": #deps" in line:
            of = found.setdefault(line.split("/", 1)[0], set())
    return found


@dataclass(frozen=True)
class _Step:
    """A finished command of ninja: begin and end in milliseconds since ninja started, one of its outputs, the command's hash."""

    begin: int
    end: int
    output: str
    command: str


def _steps(site: _Site) -> list[_Step]:
    """The entries of ninja's log: one for each output."""
    try:
        lines = (site.build / ".ninja_log").read_text("utf-8").splitlines()
    except OSError:
        return []
    rows = [row for row in (line.split("\t") for line in lines) if len(row) == 5]
    return [_Step(int(row[0]), int(row[1]), row[3], row[4]) for row in rows]


def _step_seconds(site: _Site) -> dict[str, float]:
    """Seconds of compile time by project folder; a command with two outputs counts once."""
    commands = {(step.begin, step.end, step.command): step.output.split("/", 1)[0] for step in _steps(site)}
    total: dict[str, float] = {}
    for (begin, end, _), place in commands.items():
        total[place] = total.get(place, 0.0) + (end - begin) / 1000
    return total
