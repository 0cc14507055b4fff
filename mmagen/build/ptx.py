"""A project's kernels as PTX text: what its own nvcc command makes of src/*.cu with -ptx, cached by content."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmagen.build.build import read_project
from mmagen.build.job import Job
from mmagen.core.cache import cache_root
from mmagen.core.process import capture
from mmagen.toolchain.find import Toolchain

# As in the project's CMakeLists.txt, with the host compiler left out of it.
_FLAGS = ("-std=c++17", "--expt-relaxed-constexpr", "-lineinfo", "-DNDEBUG", "-O3", "-ptx")


_DEFINITIONS = re.compile(r"target_compile_definitions\(\$\{target\} PRIVATE ([^)]*)\)")


@dataclass(frozen=True)
class Ptx:
    """text: the PTX, paths relative to the project. error: what nvcc said when there is none. arch: e.g. "sm_80".
    cuda, cutlass: versions it was made with. seconds: of nvcc; 0 when cached. unaligned: the PTX of a wgmma kernel's
    second translation unit, for matrices that TMA cannot address; "" where there is none. configs: the PTX of each kernel
    of a library, by the config's name; `text` has none of them then."""

    name: str
    kernel: str
    spec_sha: str
    arch: str
    text: str
    error: str
    cuda: str
    cutlass: str
    seconds: float
    cached: bool
    unaligned: str = ""
    configs: Mapping[str, str] = field(default_factory=dict)

    def of(self, config: str) -> Ptx:
        """The same for one kernel of a library."""
        return replace(self, text=self.configs[config], configs={})


@dataclass(frozen=True)
class _Unit:
    """One translation unit as PTX."""

    text: str
    error: str
    seconds: float
    cached: bool


def compile_ptx(project: Path, toolchain: Toolchain, arch: str | None = None, env: Mapping[str, str] | None = None) -> Ptx:
    """Compile the kernel of `project` (a folder with a mmagen.json) for `arch`, or the first that the project lists.

    Raises BuildError when the toolchain is incomplete and UsageError when the folder is no project; a kernel that does
    not compile is a result.
    """
    toolchain.need("nvcc", "host_compiler", "cutlass")
    assert toolchain.nvcc
    env = os.environ if env is None else env
    job = read_project(project, toolchain, [arch] if arch else None, ("verify",))
    unaligned = f"{job.name}_unaligned"
    others = [path[4:-3] for path in job.files if path.startswith("src/") and path.endswith(".cu")]
    units: dict[str, _Unit] = {}
    for name in dict.fromkeys((job.name, *others)):
        units[name] = _unit(job, name, toolchain, env)
        if error := units[name].error:
            break
    texts = {} if error else {name: unit.text for name, unit in units.items()}
    return Ptx(
        job.name,
        job.kernel,
        job.spec_sha,
        job.arch[0],
        texts.pop(job.name, ""),
        error,
        toolchain.nvcc.version,
        job.cutlass,
        sum(unit.seconds for unit in units.values()),
        all(unit.cached for unit in units.values()),
        texts.pop(unaligned, ""),
        texts,
    )


def _unit(job: Job, name: str, toolchain: Toolchain, env: Mapping[str, str]) -> _Unit:
    """The PTX of src/<name>.cu."""
    assert toolchain.nvcc and toolchain.cutlass
    target = job.arch[0]
    sources = {path: data for path, data in job.files.items() if path.startswith(("include/", "src/", "third_party/"))}
    flags = (*_FLAGS, *_definitions(job))
    digest = hashlib.sha256(repr((flags, target, toolchain.nvcc.version, job.cutlass)).encode())
    if name != job.name:
        digest.update(name.encode() + b"\0")
    for path in sorted(sources):
        digest.update(path.encode() + b"\0" + hashlib.sha256(sources[path]).digest())
    stored = cache_root(env) / "ptx" / f"{digest.hexdigest()}.ptx"
    if stored.is_file():
        return _Unit(stored.read_text("utf-8"), "", 0.0, True)

    with tempfile.TemporaryDirectory(prefix="mmagen-ptx-") as scratch:
        for path, data in sources.items():
            place = Path(scratch, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        vendored = Path(scratch, "third_party/cutlass/include")
        headers = vendored if vendored.is_dir() else toolchain.cutlass.path
        done = capture(
            [
                toolchain.nvcc.path,
                *flags,
                f"-arch={target}",
                "-I",
                "include",
                "-isystem",
                headers,
                "-o",
                "kernel.ptx",
                f"src/{name}.cu",
            ],
            timeout_s=None,
            cwd=Path(scratch),
            env=dict(env),
        )
        made = Path(scratch, "kernel.ptx")
        if done.exit_code != 0 or not made.is_file():
            return _Unit("", (done.stderr or done.stdout).strip() or "nvcc failed", done.seconds, False)
        text = made.read_text("utf-8").replace(f"{scratch}/", "")
    _store(stored, text)
    return _Unit(text, "", done.seconds, False)


def _definitions(job: Job) -> list[str]:
    """What the project defines beyond NDEBUG."""
    found = _DEFINITIONS.search(job.files.get("CMakeLists.txt", b"").decode())
    return [f"-D{word}" for word in found[1].split() if word != "NDEBUG"] if found else []


def _store(place: Path, text: str) -> None:
    """Whole or not at all: another process may be reading."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, place)
