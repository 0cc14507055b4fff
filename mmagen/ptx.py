"""A project's kernel as PTX text: what its own nvcc command makes of src/<name>.cu with -ptx, cached by content."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mmagen.build import read_project
from mmagen.cache import cache_root
from mmagen.process import capture
from mmagen.toolchain import Toolchain

# As in the project's CMakeLists.txt, with the host compiler left out of it.
_FLAGS = ("-std=c++17", "--expt-relaxed-constexpr", "-lineinfo", "-DNDEBUG", "-O3", "-ptx")


@dataclass(frozen=True)
class Ptx:
    """text: the PTX, paths relative to the project. error: what nvcc said when there is none. arch: e.g. "sm_80".
    cuda, cutlass: versions it was made with. seconds: of nvcc; 0 when cached."""

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


def compile_ptx(project: Path, toolchain: Toolchain, arch: str | None = None, env: Mapping[str, str] | None = None) -> Ptx:
    """Compile the kernel of `project` (a folder with a mmagen.json) for `arch`, or the first that the project lists.

    Raises BuildError when the toolchain is incomplete and UsageError when the folder is no project; a kernel that does
    not compile is a result.
    """
    toolchain.need("nvcc", "host_compiler", "cutlass")
    assert toolchain.nvcc and toolchain.cutlass
    env = os.environ if env is None else env
    job = read_project(project, toolchain, [arch] if arch else None, ("verify",))
    target = job.arch[0]
    versions = (toolchain.nvcc.version, job.cutlass)
    sources = {path: data for path, data in job.files.items() if path.startswith(("include/", "src/", "third_party/"))}
    digest = hashlib.sha256(repr((_FLAGS, target, toolchain.nvcc.version, job.cutlass)).encode())
    for path in sorted(sources):
        digest.update(path.encode() + b"\0" + hashlib.sha256(sources[path]).digest())
    stored = cache_root(env) / "ptx" / f"{digest.hexdigest()}.ptx"
    if stored.is_file():
        return Ptx(job.name, job.kernel, job.spec_sha, target, stored.read_text("utf-8"), "", *versions, 0.0, True)

    with tempfile.TemporaryDirectory(prefix="mmagen-ptx-") as scratch:
        for path, data in sources.items():
            place = Path(scratch, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        vendored = Path(scratch, "third_party/cutlass/include")
        headers = vendored if vendored.is_dir() else toolchain.cutlass.path
        done = capture([toolchain.nvcc.path, *_FLAGS, f"-arch={target}", "-I", "include", "-isystem", headers,
                        "-o", "kernel.ptx", f"src/{job.name}.cu"], timeout_s=None, cwd=Path(scratch), env=dict(env))
        made = Path(scratch, "kernel.ptx")
        if done.exit_code != 0 or not made.is_file():
            return Ptx(job.name, job.kernel, job.spec_sha, target, "", (done.stderr or done.stdout).strip(),
                       *versions, done.seconds, False)
        text = made.read_text("utf-8").replace(f"{scratch}/", "")
    _store(stored, text)
    return Ptx(job.name, job.kernel, job.spec_sha, target, text, "", *versions, done.seconds, False)


def _store(place: Path, text: str) -> None:
    """Whole or not at all: another process may be reading."""
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=place.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, place)
