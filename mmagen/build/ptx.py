"""Compiles src/*.cu of a project to PTX and host objects for emulation, cached by content."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mmagen.build.build import read_project
from mmagen.build.job import Job
from mmagen.core.cache import cache_root
from mmagen.core.errors import BuildError
from mmagen.core.process import capture
from mmagen.host_runtime.build import build_runner, link_library
from mmagen.host_runtime.library import HostLibrary
from mmagen.toolchain.find import Toolchain

# As in the project's CMakeLists.txt. The host code is to be called by name, so it is not hidden.
_FLAGS = ("-std=c++17", "--expt-relaxed-constexpr", "-lineinfo", "-DNDEBUG", "-O3")


_DEFINITIONS = re.compile(r"target_compile_definitions\(\$\{target\} PRIVATE ([^)]*)\)")


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
    project: Path, toolchain: Toolchain, arch: str | None = None, env: Mapping[str, str] | None = None, *, host: bool = True
) -> Ptx:
    """Compile the kernels of `project` (a folder with a mmagen.json) for `arch`, or the first that the project lists.

    host: compile the host code too, which takes about half as long again. Raises BuildError when the toolchain is
    incomplete and UsageError when the folder is no project; a project that does not compile is a result.
    """
    toolchain.need("nvcc", "host_compiler", "cutlass")
    assert toolchain.nvcc
    env = os.environ if env is None else env
    job = read_project(project, toolchain, [arch] if arch else None, ("verify",))
    others = [path[4:-3] for path in job.files if path.startswith("src/") and path.endswith(".cu")]
    units: dict[str, _Unit] = {}
    error = ""
    for name in dict.fromkeys((job.name, *others)):
        units[name] = _unit(job, name, toolchain, env, host)
        if error := units[name].error:
            break
    texts = {} if error else {name: unit.text for name, unit in units.items()}
    library = None
    if host and not error:
        try:
            objects = [unit.object for unit in units.values()]
            library = HostLibrary(link_library(objects, toolchain, env), build_runner(toolchain, env))
        except BuildError as failure:
            error = str(failure)
    seconds = sum(unit.seconds for unit in units.values())
    cached = all(unit.cached for unit in units.values())
    return Ptx(
        *(job.name, job.kernel, job.spec_sha, job.arch[0], error, toolchain.nvcc.version, job.cutlass, seconds, cached),
        units=texts,
        host=library,
    )


def _unit(job: Job, name: str, toolchain: Toolchain, env: Mapping[str, str], host: bool) -> _Unit:
    """The PTX, and the object if asked for, of src/<name>.cu."""
    assert toolchain.nvcc and toolchain.host_compiler and toolchain.cutlass
    sources = {path: data for path, data in job.files.items() if path.startswith(("include/", "src/", "third_party/"))}
    flags = (*_FLAGS, *_definitions(job))
    versions = (toolchain.nvcc.version, toolchain.host_compiler.version, job.cutlass)
    digest = hashlib.sha256(repr((flags, job.arch[0], versions, name)).encode())
    for path in sorted(sources):
        digest.update(path.encode() + b"\0" + hashlib.sha256(sources[path]).digest())
    stored = cache_root(env) / "ptx" / f"{digest.hexdigest()}.ptx"
    stored_object = stored.with_suffix(".o")
    if stored.is_file() and (not host or stored_object.is_file()):
        return _Unit(stored.read_text("utf-8"), stored_object, "", 0.0, True)

    with tempfile.TemporaryDirectory(prefix="mmagen-ptx-") as scratch:
        for path, data in sources.items():
            place = Path(scratch, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        vendored = Path(scratch, "third_party/cutlass/include")
        headers = vendored if vendored.is_dir() else toolchain.cutlass.path
        made = Path(scratch, "made")
        made.mkdir()
        target = job.arch[0].removeprefix("sm_")
        # One call for both: nvcc keeps the PTX that it embeds in the object.
        steps = (
            ["-c", "-Xcompiler=-fPIC", "-keep", "-keep-dir", "made", "-o", "made/kernel.o"]
            if host
            else ["-ptx", "-o", f"made/{name}.ptx"]
        )
        command: list[str | Path] = [toolchain.nvcc.path, "-ccbin", toolchain.host_compiler.path, *flags, *steps]
        command += ["-gencode", f"arch=compute_{target},code=compute_{target}", "-I", "include", "-isystem", headers]
        done = capture([*command, f"src/{name}.cu"], timeout_s=None, cwd=Path(scratch), env=dict(env))
        if done.exit_code != 0 or not (made / f"{name}.ptx").is_file():
            return _Unit("", stored_object, (done.stderr or done.stdout).strip() or "nvcc failed", done.seconds, False)
        text = (made / f"{name}.ptx").read_text("utf-8").replace(f"{scratch}/", "")
        if host:
            _store(stored_object, (made / "kernel.o").read_bytes())
    _store(stored, text.encode())
    return _Unit(text, stored_object, "", done.seconds, False)


def _definitions(job: Job) -> list[str]:
    """What the project defines beyond NDEBUG."""
    found = _DEFINITIONS.search(job.files.get("CMakeLists.txt", b"").decode())
    return [f"-D{word}" for word in found[1].split() if word != "NDEBUG"] if found else []


def _store(place: Path, data: bytes) -> None:
    """Write atomically: another process may be reading."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(temporary, place)
