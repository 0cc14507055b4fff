"""The program that stands in for the CUDA runtime, and a project's objects linked for it; both cached by content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmagen.core.cache import cache_root, make_folder
from mmagen.core.errors import BuildError
from mmagen.core.process import capture
from mmagen.toolchain.find import Toolchain

_SOURCES = ("runner.cpp", "cuda_runtime.cpp", "memory.cpp", "tensor_map.cpp")
_HEADERS = ("state.h",)
# Libraries find the runtime's functions in the program that loads them, hence --export-dynamic.
_FLAGS = ("-std=c++17", "-O1", "-cudart", "none", "-Xlinker", "--export-dynamic")
_LIBRARIES = ("-ldl", "-lpthread")


def build_runner(toolchain: Toolchain, env: Mapping[str, str]) -> Path:
    """The runner program (see runner.cpp), compiled if the cache has none. Raises BuildError where it does not compile."""
    assert toolchain.nvcc and toolchain.host_compiler
    here = Path(__file__).parent
    digest = hashlib.sha256(repr((_FLAGS, toolchain.nvcc.version, toolchain.host_compiler.version)).encode())
    for name in (*_SOURCES, *_HEADERS):
        digest.update((here / name).read_bytes() + b"\0")
    sources = [here / name for name in _SOURCES]
    nvcc: list[str | Path] = [toolchain.nvcc.path, "-ccbin", toolchain.host_compiler.path, *_FLAGS, *sources]
    return _made(digest.hexdigest(), "runner", nvcc, _LIBRARIES, env)


def link_library(objects: Sequence[Path], toolchain: Toolchain, env: Mapping[str, str]) -> Path:
    """Link the objects into a shared library for the runner. CUDA symbols are resolved when it is loaded.

    Raises BuildError where they do not link."""
    assert toolchain.host_compiler
    digest = hashlib.sha256(toolchain.host_compiler.version.encode())
    for path in objects:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return _made(digest.hexdigest(), "library.so", [toolchain.host_compiler.path, "-shared", *objects], (), env)


def _made(key: str, name: str, command: Sequence[str | Path], behind: Sequence[str], env: Mapping[str, str]) -> Path:
    """host/<key>/<name> of the cache, made by `command -o PATH behind` unless it is there."""
    folder = cache_root(env) / "host" / key
    if (folder / name).is_file():
        return folder / name

    def fill(staging: Path) -> None:
        done = capture([*command, "-o", staging / name, *behind], timeout_s=None, env=dict(env))
        if done.exit_code != 0 or not (staging / name).is_file():
            raise BuildError(f"the host code for emulation does not link:\n{(done.stderr or done.stdout).strip()}")

    return make_folder(folder, fill, whole=lambda: (folder / name).is_file()) / name
