"""Finds the tools to compile and run a generated project, with version and origin."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from mmagen.core.cache import cache_root, session_root, unwritable
from mmagen.toolchain.gpus import find_gpus, outdated
from mmagen.toolchain.model import COMPILE, EMULATE, EVERYTHING, REMEDIES, Gpu, Tool, Toolchain

__all__ = ["COMPILE", "EMULATE", "EVERYTHING", "MINIMUM_CMAKE", "Gpu", "Tool", "Toolchain", "cutlass_in", "find_toolchain"]

MINIMUM_CMAKE = (3, 24)

_NVCC_VERSION = r"\bV(\d[\d.]+)"
_CXX_VERSION = r"(\d+\.\d+(?:\.\d+)?)"

# What was found, or None and why not ("" when there is nothing to add to the remedy).
_Search = tuple[Tool | None, str]


def find_toolchain(env: Mapping[str, str] | None = None, want: Collection[str] = EVERYTHING) -> Toolchain:
    """Look for the tools named in `want` (of EVERYTHING) and for nothing else.

    env: the environment to read CUDACXX, CUDA_HOME, CXX, CUTLASS_DIR, CUSPARSELT_DIR, PATH and MMAGEN_CACHE_DIR from; default
    os.environ. Nothing missing is an error here: see Toolchain.need. Raises ValueError for an unknown name.
    """
    env = os.environ if env is None else env
    unknown = set(want) - set(EVERYTHING)
    if unknown:
        raise ValueError(f"unknown tool {', '.join(sorted(unknown))}")
    remedies: dict[str, str] = {}
    found: dict[str, Tool | None] = {}
    for name, finder in _FINDERS.items():
        if name in want:
            found[name], why = finder(env)
            if found[name] is None:
                remedies[name] = f"{why}; {REMEDIES[name]}" if why else REMEDIES[name]
    nvcc = found.get("nvcc")
    toolkit = _toolkit(nvcc, env) if nvcc else None
    gpus, why = find_gpus(env) if "gpus" in want else ((), "")
    if "gpus" in want and not gpus:
        remedies["gpus"] = f"{why}; {REMEDIES['gpus']}"
    elif nvcc and (why := outdated(gpus, nvcc.version)):
        gpus, remedies["gpus"] = (), why
    return Toolchain(
        **found,
        gpus=gpus,
        toolkit=toolkit,
        cublaslt=toolkit is not None and _has_cublaslt(toolkit),
        cusparselt=_find_cusparselt(toolkit, env) if toolkit else None,
        wanted=tuple(n for n in EVERYTHING if n in want),
        remedies=remedies,
    )


def _find_nvcc(env: Mapping[str, str]) -> _Search:
    named = env.get("CUDACXX")
    if named:
        # A compiler asked for by name is used or reported as broken, never replaced by another one.
        tool = _tool(named, "CUDACXX", env, _NVCC_VERSION)
        return tool, "" if tool else f"CUDACXX={named} does not run"
    for origin, path in _nvcc_places(env):
        tool = _tool(path, origin, env, _NVCC_VERSION)
        if tool:
            return tool, ""
    tree = _wheel_toolkit()
    if tree is None:
        return None, ""
    from mmagen.toolchain.wheels import linked_toolkit

    root = cache_root(env)
    try:
        toolkit = linked_toolkit(tree, root)
    except OSError as error:
        unwritable(root, error)
        try:
            toolkit = linked_toolkit(tree, session_root())
        except OSError as failure:
            return None, f"the links to PyPI's CUDA toolkit cannot be made ({failure}); set TMPDIR"
    tool = _tool(toolkit / "bin" / "nvcc", "PyPI wheel", env, _NVCC_VERSION)
    return tool, "" if tool else "PyPI's nvcc does not run"


def _toolkit(nvcc: Tool, env: Mapping[str, str]) -> Path | None:
    """Asked of nvcc itself, because the nvcc on PATH may be a script that starts the one in the toolkit."""
    done = _output_of([nvcc.path, "-dryrun", "-x", "cu", os.devnull], env)
    top = re.search(r"^#\$ TOP=(.*)$", done.stderr, re.MULTILINE) if done else None
    return Path(os.path.normpath(top[1].strip())) if top else None


def _has_cublaslt(toolkit: Path) -> bool:
    folders = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
    return any((toolkit / folder / "cublasLt.h").is_file() for folder in folders)


def _find_cusparselt(toolkit: Path, env: Mapping[str, str]) -> Path | None:
    """The folder whose include/ and lib/ or lib64/ have cuSPARSELt: the one asked for, the toolkit, or a PyPI wheel's."""
    from importlib.util import find_spec

    spec = find_spec("nvidia")
    roots = (spec.submodule_search_locations or ()) if spec else ()
    wheels = [Path(root) / part for root in roots for part in ("cu13", "cusparselt")]
    named = [Path(env["CUSPARSELT_DIR"])] if env.get("CUSPARSELT_DIR") else []
    for place in (*named, toolkit, *wheels):
        libraries = (found for folder in ("lib", "lib64") for found in (place / folder).glob("libcusparseLt.so*"))
        if (place / "include" / "cusparseLt.h").is_file() and any(libraries):
            return place
    return None


def _nvcc_places(env: Mapping[str, str]) -> Iterator[tuple[str, Path | str]]:
    """(where it was named, path) of each nvcc to try, the first that runs being taken."""
    if path := shutil.which("nvcc", path=env.get("PATH", "")):
        yield "PATH", path
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if env.get(variable):
            yield variable, Path(env[variable]) / "bin" / "nvcc"


def _wheel_toolkit() -> Path | None:
    """The `nvidia/cu13` tree of the PyPI wheels, without importing any of them."""
    from importlib.util import find_spec

    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(root) / "cu13" / "bin" / "nvcc").is_file():
            return Path(root) / "cu13"
    return None


def _find_host_compiler(env: Mapping[str, str]) -> _Search:
    for variable in ("CUDAHOSTCXX", "CXX"):
        if env.get(variable):
            tool = _tool(env[variable], variable, env, _CXX_VERSION)
            return tool, "" if tool else f"{variable}={env[variable]} does not run"
    for name in ("g++", "c++", "clang++"):
        if tool := _tool(name, "PATH", env, _CXX_VERSION):
            return tool, ""
    return None, ""


def _find_cmake(env: Mapping[str, str]) -> _Search:
    tool, why = _script("cmake", env, r"cmake version (\d[\d.]+)")
    if tool and _numbers(tool.version) < MINIMUM_CMAKE:
        return None, f"{tool.path} is version {tool.version}, 3.24 is needed"
    return tool, why


def _script(name: str, env: Mapping[str, str], pattern: str) -> _Search:
    """A PyPI wheel's console script next to this Python, else whatever PATH has."""
    beside = Path(sys.executable).parent / name
    for path, origin in ((beside, "beside Python"), (name, "PATH")):
        if tool := _tool(path, origin, env, pattern):
            return tool, ""
    return None, ""


def _find_cutlass(env: Mapping[str, str]) -> _Search:
    named = env.get("CUTLASS_DIR")
    if named:
        tool = cutlass_in(Path(named), "CUTLASS_DIR")
        return tool, "" if tool else f"CUTLASS_DIR={named} has no include/cutlass/version.h"
    from importlib.util import find_spec

    spec = find_spec("cutlass_library")
    if spec and spec.origin and (tool := cutlass_in(Path(spec.origin).parent / "source", "PyPI wheel")):
        return tool, ""
    for place in ("cutlass", "../cutlass"):
        if tool := cutlass_in(Path(place), place):
            return tool, ""
    return None, ""


def cutlass_in(root: Path, origin: str) -> Tool | None:
    """The CUTLASS headers in `root` or `root/include`, or None; the version comes from `cutlass/version.h`."""
    for folder in (root / "include", root):
        try:
            text = (folder / "cutlass" / "version.h").read_text("utf-8", errors="replace")
        except OSError:
            continue
        numbers = [re.search(rf"#define\s+CUTLASS_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
        if all(numbers):
            return Tool(folder.resolve(), ".".join(n.group(1) for n in numbers if n), origin)
    return None


def _beside_nvcc(name: str, env: Mapping[str, str]) -> _Search:
    """An optional CUDA tool: on PATH, else in the toolkit that CUDA_HOME or PATH's nvcc belongs to."""
    places = [Path(name)]
    places += [Path(env[v]) / "bin" / name for v in ("CUDA_HOME", "CUDA_PATH") if env.get(v)]
    if nvcc := env.get("CUDACXX") or shutil.which("nvcc", path=env.get("PATH", "")):
        places.append(Path(nvcc).resolve().parent / name)
    for place in places:
        if tool := _tool(place, "PATH" if place.name == str(place) else "CUDA toolkit", env, r"(\d+\.\d+[\d.]*)"):
            return tool, ""
    return None, ""


def _tool(path: Path | str, origin: str, env: Mapping[str, str], pattern: str) -> Tool | None:
    """`path` as a Tool when it runs and says a version; a bare name is looked up on env's PATH."""
    full = shutil.which(str(path), path=env.get("PATH", ""))
    if full is None:
        return None
    done = _output_of([full, "--version"], env)
    match = re.search(pattern, done.stdout) if done and done.returncode == 0 else None
    return Tool(Path(full).absolute(), match.group(1), origin) if match else None


def _output_of(command: Sequence[str | Path], env: Mapping[str, str]) -> subprocess.CompletedProcess[str] | None:
    """How `command`, which takes no time, ended; None when it does not start or end."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=60, env=dict(env), stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


_FINDERS: dict[str, Callable[[Mapping[str, str]], _Search]] = {
    "nvcc": _find_nvcc,
    "host_compiler": _find_host_compiler,
    "cmake": _find_cmake,
    "ninja": lambda env: _script("ninja", env, r"(\d+(?:\.\d+)*)"),
    "cutlass": _find_cutlass,
    "cuobjdump": lambda env: _beside_nvcc("cuobjdump", env),
    "sanitizer": lambda env: _beside_nvcc("compute-sanitizer", env),
}
