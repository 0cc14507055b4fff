"""Compiles the translation units of a project to PTX and host objects for emulation, cached by content."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mmagen.build.build import read_project
from mmagen.build.flags import options
from mmagen.build.job import Job
from mmagen.build.units import translation_units
from mmagen.core.cache import Cache, Entry
from mmagen.core.errors import BuildError
from mmagen.core.process import capture
from mmagen.core.reads import Reading, read_depfile
from mmagen.generate.manifest import digests
from mmagen.host_runtime.build import build_runner, link_library
from mmagen.host_runtime.library import HostLibrary
from mmagen.toolchain.find import Toolchain
from mmagen.toolchain.identity import compilers, include_folders, open_cache
from mmagen.toolchain.temporary import check_temporary_folder

# As in every project's CMakeLists.txt. The host code is to be called by name, so it is not hidden.
_FLAGS = ("-std=c++17", "--expt-relaxed-constexpr", "-lineinfo", "-DNDEBUG", "-O3")


@dataclass(frozen=True)
class Ptx:
    """units: the PTX of each translation unit by its name, paths relative to the project; the first is the one that is
    called as the project is. host: the host code of all units, None where it was not asked for. error: what nvcc said when
    it does not compile. arch: e.g. "sm_80". cuda, cutlass: versions it was made with. seconds: of nvcc; 0 when cached."""

    name: str
    kernel: str
    spec_sha: str
    arch: str
    error: str
    cuda: str
    cutlass: str
    seconds: float
    cached: bool
    units: Mapping[str, str] = field(default_factory=dict)
    host: HostLibrary | None = None

    @property
    def text(self) -> str:
        """The PTX of the unit that is called as the project is."""
        return self.units[self.name]


@dataclass(frozen=True)
class _Unit:
    """One translation unit. object: of its host code with the PTX embedded, where that was asked for."""

    text: str
    object: Path
    error: str
    seconds: float
    cached: bool


def compile_ptx(
    project: Path,
    toolchain: Toolchain,
    arch: str | None = None,
    env: Mapping[str, str] | None = None,
    *,
    host: bool = True,
    cache: Cache | None = None,
    pool: Executor | None = None,
) -> Ptx:
    """Compile the kernels of `project` (a folder with a mmagen.json) for `arch`, or the first that the project lists.

    host: compile the host code too, which takes about half as long again. cache, pool: shared by the calls of one run; each
    translation unit is a task of the pool (default: one of threads, as many as there are processors). Raises BuildError when
    the toolchain is incomplete and UsageError when the folder is no project; a project that does not compile is a result.
    """
    toolchain.need("nvcc", "host_compiler", "cutlass")
    assert toolchain.nvcc
    env = os.environ if env is None else env
    job = read_project(project, toolchain, [arch] if arch else None, ("verify",))
    sources = [path for path in job.files if path.startswith("src/") and path.endswith(".cu")]
    of_unit = translation_units(_cmake(job), (f"src/{job.name}.cu", *sources))
    cache = cache or open_cache(toolchain, env)
    compiler = _Compiler(toolchain, env, cache, host, compilers(toolchain, env, cache.digests))
    work = {name: partial(_unit, job, name, together, compiler) for name, together in of_unit.items()}
    with nullcontext(pool) if pool else ThreadPoolExecutor(min(len(work), len(os.sched_getaffinity(0)))) as threads:
        units = _up_to_an_error(threads, work)
    error = next((unit.error for unit in units.values() if unit.error), "")
    texts = {} if error else {name: unit.text for name, unit in units.items()}
    library = None
    if host and not error:
        try:
            objects = [unit.object for unit in units.values()]
            library = HostLibrary(link_library(objects, toolchain, env, cache), build_runner(toolchain, env, cache))
        except BuildError as failure:
            error = str(failure)
    cache.close()
    seconds = sum(unit.seconds for unit in units.values())
    cached = all(unit.cached for unit in units.values())
    return Ptx(
        *(job.name, job.kernel, job.spec_sha, job.arch[0], error, toolchain.nvcc.version, job.cutlass, seconds, cached),
        units=texts,
        host=library,
    )


def _up_to_an_error(pool: Executor, work: Mapping[str, Callable[[], _Unit]]) -> dict[str, _Unit]:
    """The units, in order. Once one does not compile, no other one is begun."""
    failed = threading.Event()

    def unless_failed(make: Callable[[], _Unit]) -> _Unit | None:
        if failed.is_set():
            return None
        unit = make()
        if unit.error:
            failed.set()
        return unit

    made = pool.map(unless_failed, work.values())
    return {name: unit for name, unit in zip(work, made, strict=True) if unit}


@dataclass(frozen=True)
class _Compiler:
    """What all units are compiled with. host: the object too? facts: of the compilers, for the key."""

    toolchain: Toolchain
    env: Mapping[str, str]
    cache: Cache
    host: bool
    facts: Mapping[str, Any]


def _cmake(job: Job) -> str:
    return job.files.get("CMakeLists.txt", b"").decode()


def _unit(job: Job, name: str, together: Sequence[str], compiler: _Compiler) -> _Unit:
    """The PTX, and the object if asked for, of the source files `together` as one translation unit."""
    sources = {path: data for path, data in job.files.items() if path.startswith(("include/", "src/", "third_party/"))}
    flags = (*_FLAGS, *options(_cmake(job)))
    facts = [flags, job.arch[0], job.cutlass, name, together, compiler.facts, digests(sources)]
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    # An entry with the object has the PTX too.
    for kind in dict.fromkeys(("host" if compiler.host else "ptx", "host")):
        if (entry := compiler.cache.find("ptx", f"{kind}-{key}")) and (unit := _stored(entry, 0.0, cached=True)):
            return unit
    with tempfile.TemporaryDirectory(prefix="mmagen-ptx-") as scratch:
        key = f"{'host' if compiler.host else 'ptx'}-{key}"
        return _compiled(job, name, together, compiler, flags, key, sources, Path(scratch))


def _compiled(
    job: Job,
    name: str,
    together: Sequence[str],
    compiler: _Compiler,
    flags: Sequence[str],
    key: str,
    sources: Mapping[str, bytes],
    scratch: Path,
) -> _Unit:
    """Compile one unit in the empty folder `scratch` and store it under `key`."""
    toolchain = compiler.toolchain
    assert toolchain.nvcc and toolchain.host_compiler and toolchain.cutlass
    for path, data in sources.items():
        place = scratch / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    source = f"src/{name}.cu"
    if tuple(together) != (source,):
        source = f"{name}.cu"  # nvcc names what it keeps as this file
        (scratch / source).write_text("".join(f'#include "{path}"\n' for path in together))
    vendored = scratch / "third_party/cutlass/include"
    headers = vendored if vendored.is_dir() else toolchain.cutlass.path
    made = scratch / "made"
    made.mkdir()
    target = job.arch[0].removeprefix("sm_")
    # One call for both: nvcc keeps the PTX that it embeds in the object.
    steps = (
        ["-c", "-Xcompiler=-fPIC", "-keep", "-keep-dir", "made", "-o", "made/kernel.o"]
        if compiler.host
        else ["-ptx", "-o", f"made/{name}.ptx"]
    )
    command: list[str | Path] = [toolchain.nvcc.path, "-ccbin", toolchain.host_compiler.path, *flags, *steps]
    command += ["-gencode", f"arch=compute_{target},code=compute_{target}", "-I", "include", "-isystem", headers]
    command += ["-MD", "-MF", "made/read.d"]
    began = time.time_ns()
    check_temporary_folder(compiler.env)
    done = capture([*command, source], timeout_s=None, cwd=scratch, env=dict(compiler.env))
    if done.exit_code != 0 or not (made / f"{name}.ptx").is_file():
        return _Unit("", made, (done.stderr or done.stdout).strip() or "nvcc failed", done.seconds, False)
    text = (made / f"{name}.ptx").read_text("utf-8").replace(f"{scratch}/", "")
    (made / "stored.ptx").write_text(text, "utf-8")
    files = {"kernel.ptx": made / "stored.ptx"} | ({"kernel.o": made / "kernel.o"} if compiler.host else {})
    reading = Reading(read_depfile(made / "read.d", scratch), include_folders(compiler.env), began)
    unit = _stored(compiler.cache.keep("ptx", key, {}, files, reading), done.seconds, cached=False)
    assert unit
    return unit


def _stored(entry: Entry, seconds: float, *, cached: bool) -> _Unit | None:
    """The unit of an entry, or None if its PTX is not text."""
    try:
        text = (entry.folder / "kernel.ptx").read_text("utf-8")
    except (OSError, ValueError):
        return None
    return _Unit(text, entry.folder / "kernel.o", "", seconds, cached)
