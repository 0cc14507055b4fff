"""The program that stands in for the CUDA runtime, and a project's objects linked for it; both cached by content."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmagen.core.cache import Cache
from mmagen.core.errors import BuildError
from mmagen.core.process import capture
from mmagen.core.reads import Reading, outside, read_depfile
from mmagen.toolchain.find import Toolchain
from mmagen.toolchain.identity import compilers, include_folders, open_cache
from mmagen.toolchain.temporary import check_temporary_folder

_SOURCES = ("runner.cpp", "cuda_runtime.cpp", "memory.cpp", "graph.cpp", "tensor_map.cpp")
_HEADERS = ("state.h",)
# Libraries find the runtime's functions in the program that loads them, hence --export-dynamic.
_FLAGS = ("-std=c++17", "-O1", "-cudart", "none", "-Xlinker", "--export-dynamic")
_LIBRARIES = ("-ldl", "-lpthread")


def build_runner(toolchain: Toolchain, env: Mapping[str, str], cache: Cache | None = None) -> Path:
    """The runner program (see runner.cpp), compiled if the cache has none. Raises BuildError where it does not compile."""
    assert toolchain.nvcc and toolchain.host_compiler
    here = Path(__file__).parent
    own = {name: hashlib.sha256((here / name).read_bytes()).hexdigest() for name in (*_SOURCES, *_HEADERS)}
    cache = cache or open_cache(toolchain, env)
    key = _key(_FLAGS, _LIBRARIES, own, compilers(toolchain, env, cache.digests))
    if entry := cache.find("host", key):
        return entry.folder / "runner"
    nvcc: list[str | Path] = [toolchain.nvcc.path, "-ccbin", toolchain.host_compiler.path, *_FLAGS]
    with tempfile.TemporaryDirectory(prefix="mmagen-host-") as folder:
        scratch, began = Path(folder), time.time_ns()
        read: list[str] = []
        for name in _SOURCES:
            _run([*nvcc, "-c", here / name, "-o", f"{name}.o", "-MD", "-MF", f"{name}.d"], scratch, env)
            read += read_depfile(scratch / f"{name}.d", scratch)
        _run([*nvcc, *(f"{name}.o" for name in _SOURCES), "-o", "runner", *_LIBRARIES], scratch, env)
        reading = Reading(outside(read, here), include_folders(env), began)
        stored = {"programs": {"runner": "runner"}}
        return cache.keep("host", key, stored, {"runner": scratch / "runner"}, reading).folder / "runner"


def link_library(objects: Sequence[Path], toolchain: Toolchain, env: Mapping[str, str], cache: Cache | None = None) -> Path:
    """Link the objects into a shared library for the runner. CUDA symbols are resolved when it is loaded.

    Raises BuildError where they do not link."""
    assert toolchain.nvcc and toolchain.host_compiler
    cache = cache or open_cache(toolchain, env)
    key = _key([cache.digests.of(path) for path in objects], compilers(toolchain, env, cache.digests))
    if entry := cache.find("host", key):
        return entry.folder / "library.so"
    with tempfile.TemporaryDirectory(prefix="mmagen-host-") as folder:
        scratch = Path(folder)
        _run([toolchain.host_compiler.path, "-shared", *objects, "-o", "library.so"], scratch, env)
        return cache.keep("host", key, {}, {"library.so": scratch / "library.so"}, Reading()).folder / "library.so"


def _key(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _run(command: Sequence[str | Path], folder: Path, env: Mapping[str, str]) -> None:
    check_temporary_folder(env)
    done = capture(command, timeout_s=None, cwd=folder, env=dict(env))
    if done.exit_code != 0:
        raise BuildError(f"the host code for emulation does not link:\n{(done.stderr or done.stdout).strip()}")
