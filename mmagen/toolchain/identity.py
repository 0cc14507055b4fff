"""What makes two compilations with the same sources the same: compilers by content, and the environment that they read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmagen.core.cache import Cache, cache_root
from mmagen.core.digests import Digests
from mmagen.toolchain.model import Toolchain

# What nvcc starts and reads of its toolkit beyond headers, which are recorded as read.
_PARTS = (
    "bin/nvcc",
    "bin/nvcc.profile",
    "bin/cudafe++",
    "bin/ptxas",
    "bin/fatbinary",
    "bin/nvlink",
    "bin/crt/link.stub",
    "bin/crt/prelink.stub",
    "nvvm/bin/cicc",
    "nvvm/libdevice/libdevice.10.bc",
    "lib64/libcudart_static.a",
    "lib64/libcudadevrt.a",
)
# Read from the environment by CMake, nvcc, its parts, the host compiler or its linker.
_VARIABLES = (
    "CXXFLAGS",
    "CUDAFLAGS",
    "LDFLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "GCC_EXEC_PREFIX",
    "COMPILER_PATH",
    "CICC_PATH",
    "NVVMIR_LIBRARY_DIR",
    "CCC_OVERRIDE_OPTIONS",
    "SOURCE_DATE_EPOCH",
)
_PREFIXES = ("NVCC_", "CMAKE_")
# They change what CMake prints or how fast it is, or are replaced.
_WITHOUT_EFFECT = ("CMAKE_GENERATOR", "CMAKE_COLOR_DIAGNOSTICS", "CMAKE_BUILD_PARALLEL_LEVEL", "CMAKE_EXPORT_COMPILE_COMMANDS")
_PACKAGE = Path(__file__).resolve().parents[1]
_CALLERS = ("build", "host_runtime", "microbench")
_INCLUDES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")


def open_cache(toolchain: Toolchain, env: Mapping[str, str]) -> Cache:
    """The cache, which finds CUTLASS's and CUDA's headers wherever they are."""
    roots = {"<cutlass>": toolchain.cutlass.path if toolchain.cutlass else None, "<cuda>": toolchain.toolkit}
    return Cache(cache_root(env), {name: folder for name, folder in roots.items() if folder})


def compilers(toolchain: Toolchain, env: Mapping[str, str], digests: Digests) -> dict[str, Any]:
    """Facts about nvcc and the host compiler, what the environment tells them, and the code that starts them and reads their
    output. The paths of all these do not count."""
    assert toolchain.nvcc and toolchain.host_compiler
    nvcc, host, toolkit = toolchain.nvcc, toolchain.host_compiler, toolchain.toolkit
    return {
        "nvcc": [nvcc.version, digests.of(nvcc.path), *(digests.of(toolkit / part) for part in _PARTS if toolkit)],
        "host": [host.path.name, host.version, digests.of(host.path)],
        "flags": environment(env, digests),
        "code": {f"{of}/{file.name}": digests.of(file) for of in _CALLERS for file in sorted((_PACKAGE / of).glob("*.py"))},
    }


def environment(env: Mapping[str, str], digests: Digests) -> dict[str, list[str]]:
    """Each variable that a compiler reads: its value, and the digests of files that it names (as options files)."""
    names = [*_VARIABLES, *(name for name in sorted(env) if name.startswith(_PREFIXES) and name not in _WITHOUT_EFFECT)]
    return {name: [env[name], *_contents(env[name], digests)] for name in names if env.get(name)}


def include_folders(env: Mapping[str, str]) -> tuple[str, ...]:
    """The include folders that the environment names, in which a header may newly appear."""
    words = [folder for name in _INCLUDES for folder in env.get(name, "").split(os.pathsep)]
    return tuple(folder for folder in words if os.path.isabs(folder))


def _contents(value: str, digests: Digests) -> list[str]:
    words = [word.lstrip("@") for word in re.split(r"[\s=,;:'\"]+", value)]
    return [digest for word in words if os.path.isabs(word) and Path(word).is_file() and (digest := digests.of(word))]
