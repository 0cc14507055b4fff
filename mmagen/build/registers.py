"""Registers of kernels as ptxas reported them, kept by the content of a project's sources, for pages that compile nothing.

Not a build: nothing is decided by what is kept here, and a newer compiler's report replaces an older one's.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from mmagen.build.job import BuildResult
from mmagen.build.log import KernelInfo
from mmagen.core.cache import cache_is_off, cache_root
from mmagen.core.targets import capability

_WITHOUT_TMA = ("unaligned", "few_rows")  # in the names of kernels that borrow the Config of another one
_SOURCES = ("include/", "src/", "CMakeLists.txt")  # what the kernels are made of


def _path(spec_sha: str, files: Mapping[str, bytes]) -> Path:
    content = sha256()
    for path in sorted(path for path in files if path.startswith(_SOURCES)):
        content.update(f"{path} {len(files[path])}\n".encode() + files[path])
    return cache_root() / "registers" / f"{spec_sha}-{content.hexdigest()[:24]}.json"


def keep(result: BuildResult, files: Mapping[str, bytes]) -> None:
    """Keep what ptxas reported of a successful build. files: of its project. A cache that cannot be written is left alone."""
    if cache_is_off() or not (result.ok and result.ptxas):
        return
    path = _path(result.spec_sha, files)
    known = _read(path)
    for arch in dict.fromkeys(kernel.arch for kernel in result.ptxas):
        known[arch] = {"cuda": result.cuda, "registers": _by_config(result, arch)}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(handle, "w") as file:
            json.dump(known, file)
        os.replace(scratch, path)


def _by_config(result: BuildResult, arch: str) -> dict[str, int]:
    """The maximum over the kernels of each config; those for operands which TMA cannot address, and kernels without a config, which
    copy operands or add up splits, are apart."""
    found: dict[str, int] = {}
    built = [kernel for kernel in result.ptxas if kernel.arch == arch]
    multiply = [kernel for kernel in built if "::Config" in kernel.demangled] or built
    for kernel in multiply:
        if not any(word in kernel.function for word in _WITHOUT_TMA):
            config = _config(kernel, result.name)
            found[config] = max(found.get(config, 0), kernel.registers)
    return found


def _config(kernel: KernelInfo, name: str) -> str:
    """The config in the name of a kernel, which has NAME::Config or NAME::CONFIG::Config as template argument."""
    before, found, _ = kernel.demangled.partition("::Config")
    scopes = before.rpartition("<")[2].split("::")
    return scopes[-1] if found and scopes[-1] != name else ""


def known(spec_sha: str, files: Callable[[], Mapping[str, bytes]], most: int) -> dict[str, int]:
    """Registers per thread by config ("" for a single kernel) of the project of a spec, for the newest architecture up to the
    compute capability `most` that it was built for; {} if it was not. files: makes the files of the project."""
    folder = cache_root() / "registers"
    if not any(folder.glob(f"{spec_sha}-*.json")):
        return {}
    built = {arch: of for arch, of in _read(_path(spec_sha, files())).items() if capability(arch) <= most}
    if not built:
        return {}
    registers: dict[str, int] = built[max(built, key=capability)]["registers"]
    return registers


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """{} for a file that is absent or damaged."""
    try:
        found = json.loads(path.read_text("utf-8"))
        return {
            str(arch): {"cuda": of["cuda"], "registers": {str(config): int(count) for config, count in of["registers"].items()}}
            for arch, of in found.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
