"""Compiles CUDA programs of any origin for `run_program`: host objects, with the PTX of their kernels beside them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mmagen.core.errors import BuildError
from mmagen.core.process import capture
from mmagen.host_runtime.build import build_runner, link_library
from mmagen.host_runtime.library import HostLibrary
from mmagen.toolchain.find import COMPILE, Toolchain, find_toolchain
from mmagen.toolchain.temporary import check_temporary_folder

_STANDARD = "-std=c++17"
_FLAGS = ("-O3", "-DNDEBUG", "-lineinfo", "--expt-relaxed-constexpr", "-Xcompiler=-fPIC")


@dataclass(frozen=True)
class Program:
    """Host code and kernels. units: the PTX of each source by its stem. arch: e.g. "sm_90a". host: the shared library.
    seconds: of nvcc, 0 where nothing had to be compiled."""

    units: Mapping[str, str]
    arch: str
    host: HostLibrary
    seconds: float = 0.0


def compile_program(
    sources: Sequence[Path], arch: str, folder: Path, *, flags: Sequence[str] = (), toolchain: Toolchain | None = None
) -> Program:
    """Compile .cu files into `folder` as they are, with their host code.

    arch: e.g. "sm_90a". flags: of nvcc, besides C++17 (unless one says -std=...), -O3, -DNDEBUG and -lineinfo. What
    `folder` holds is used again if the command, the compilers and all files that they read are as they were.
    Raises BuildError where the toolchain is incomplete, a source does not compile or two have the same stem.
    """
    toolchain = toolchain or find_toolchain(want=COMPILE)
    toolchain.need("nvcc", "host_compiler")
    if len({source.stem for source in sources}) < len(sources):
        raise BuildError(f"sources need different names: {', '.join(source.name for source in sources)}")
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        made = list(pool.map(lambda source: _unit(source.resolve(), arch, folder, flags, toolchain), sources))
    library = link_library([folder / f"{source.stem}.o" for source in sources], toolchain, os.environ)
    units = {source.stem: (folder / f"{source.stem}.ptx").read_text("utf-8") for source in sources}
    return Program(units, arch, HostLibrary(library, build_runner(toolchain, os.environ)), sum(made))


def _unit(source: Path, arch: str, folder: Path, flags: Sequence[str], toolchain: Toolchain) -> float:
    """Compiles one source unless that was done; seconds of nvcc."""
    assert toolchain.nvcc and toolchain.host_compiler
    target, name = arch.removeprefix("sm_"), source.stem
    command: list[str | Path] = [toolchain.nvcc.path, "-ccbin", toolchain.host_compiler.path, *_FLAGS, *flags]
    command += [] if any(flag.startswith("-std=") for flag in flags) else [_STANDARD]
    command += ["-gencode", f"arch=compute_{target},code=compute_{target}", "-c", "-keep", "-keep-dir", folder]
    command += ["-MD", "-MF", folder / f"{name}.d", "-o", folder / f"{name}.o", source]
    made, words = folder / f"{name}.json", list(map(str, command))
    versions = [toolchain.nvcc.version, toolchain.host_compiler.version]
    outputs = (f"{name}.o", f"{name}.ptx")
    if _is_fresh(made, {"command": words, "versions": versions}):
        return 0.0
    made.unlink(missing_ok=True)
    check_temporary_folder(os.environ)
    done = capture(command, timeout_s=None, cwd=folder)
    if done.exit_code != 0 or not all((folder / output).is_file() for output in outputs):
        errors = [line for line in (done.stderr or done.stdout).splitlines() if "error" in line]
        raise BuildError(f"{source.name} does not compile: {errors[0] if errors else 'nvcc failed'}\n{done.stderr[-2000:]}")
    read = _dependencies((folder / f"{name}.d").read_text("utf-8"), folder)
    files = {path: _digest(Path(path)) for path in [*read, *(str(folder / output) for output in outputs)]}
    made.write_text(json.dumps({"command": words, "versions": versions, "files": files}), "utf-8")
    return done.seconds


def _is_fresh(made: Path, wanted: Mapping[str, list[str]]) -> bool:
    """Whether what `made` describes was made by the same command from the same files, and is still there."""
    try:
        record = json.loads(made.read_text("utf-8"))
        same = all(record[key] == value for key, value in wanted.items())
        return same and all(_digest(Path(path)) == digest for path, digest in record["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _dependencies(rule: str, folder: Path) -> list[str]:
    """Absolute paths of the files that a make rule names behind its colon."""
    words = re.split(r"(?<!\\)\s+", rule.partition(":")[2].replace("\\\n", " "))
    return sorted({os.path.normpath(folder / word.replace("\\ ", " ")) for word in words if word})


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
