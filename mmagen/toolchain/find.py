"""What is needed to compile and run a generated project: found, with its version and where it came from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mmagen.core.errors import BuildError

COMPILE = ("nvcc", "host_compiler", "cmake", "ninja", "cutlass")
EVERYTHING = (*COMPILE, "cuobjdump", "sanitizer", "gpus")
MINIMUM_CMAKE = (3, 24)

_CUDA_EXTRA = "pip install 'mmagen[cuda]'"
_REMEDIES = {
    "nvcc": f"{_CUDA_EXTRA}, or install the CUDA toolkit and set CUDACXX to its nvcc",
    "host_compiler": "install a C++17 compiler, e.g. apt install g++, or set CXX",
    "cmake": "pip install 'cmake>=3.24'",
    "ninja": "pip install ninja",
    "cutlass": f"{_CUDA_EXTRA}, or set CUTLASS_DIR to a CUTLASS checkout",
    "cuobjdump": "install the CUDA toolkit's cuobjdump; only needed to look at machine code",
    "sanitizer": "install the CUDA toolkit's compute-sanitizer; only needed for verify --sanitize",
    "gpus": "run on a machine with an NVIDIA GPU and its driver; compiling needs none",
}
_NVCC_VERSION = r"\bV(\d[\d.]+)"
_CXX_VERSION = r"(\d+\.\d+(?:\.\d+)?)"


@dataclass(frozen=True)
class Tool:
    """One tool or header tree: `path` to it, its `version`, and `origin`, the place that named it."""

    path: Path
    version: str
    origin: str


@dataclass(frozen=True)
class Gpu:
    """One visible NVIDIA GPU: `capability` is (major, minor), `driver` the driver's version."""

    name: str
    capability: tuple[int, int]
    driver: str


@dataclass(frozen=True)
class Toolchain:
    """What was looked for (`wanted`) and what was found; a wanted item that is None has its way out in `remedies`.

    cutlass.path is the folder to include from, the one that holds `cutlass/version.h`. cublaslt: nvcc's toolkit has
    cuBLASLt, which benchmarks are then linked to.
    """

    nvcc: Tool | None = None
    host_compiler: Tool | None = None
    cmake: Tool | None = None
    ninja: Tool | None = None
    cutlass: Tool | None = None
    cuobjdump: Tool | None = None
    sanitizer: Tool | None = None
    gpus: tuple[Gpu, ...] = ()
    cublaslt: bool = False
    wanted: tuple[str, ...] = EVERYTHING
    remedies: Mapping[str, str] = field(default_factory=dict)

    def missing(self, names: Collection[str] = COMPILE) -> tuple[str, ...]:
        """Those of `names` that were wanted and not found."""
        return tuple(name for name in names if name in self.wanted and not getattr(self, name))

    def need(self, *names: str) -> None:
        """Raise BuildError, with what to do about it, unless all of `names` were found."""
        absent = self.missing(names)
        if absent:
            lines = (f"{name}: not found; {self.remedies.get(name, _REMEDIES[name])}" for name in absent)
            raise BuildError("not everything that is needed is here:\n  " + "\n  ".join(lines))


def find_toolchain(env: Mapping[str, str] | None = None, want: Collection[str] = EVERYTHING) -> Toolchain:
    """Look for the tools named in `want` (of EVERYTHING) and for nothing else.

    env: the environment to read CUDACXX, CUDA_HOME, CXX, CUTLASS_DIR, PATH and MMAGEN_CACHE_DIR from; default
    os.environ. Nothing missing is an error here: see Toolchain.need. Raises ValueError for an unknown name.
    """
    env = os.environ if env is None else env
    unknown = set(want) - set(EVERYTHING)
    if unknown:
        raise ValueError(f"unknown tool {', '.join(sorted(unknown))}")
    finders: dict[str, Callable] = {
        "nvcc": _find_nvcc,
        "host_compiler": _find_host_compiler,
        "cmake": _find_cmake,
        "ninja": lambda e: _script("ninja", e, r"(\d+(?:\.\d+)*)"),
        "cutlass": _find_cutlass,
        "cuobjdump": lambda e: _beside_nvcc("cuobjdump", e),
        "sanitizer": lambda e: _beside_nvcc("compute-sanitizer", e),
    }
    remedies: dict[str, str] = {}
    found: dict[str, object] = {}
    for name in (n for n in EVERYTHING if n in want and n in finders):
        tool, why = finders[name](env)
        found[name] = tool
        if tool is None:
            remedies[name] = f"{why}; {_REMEDIES[name]}" if why else _REMEDIES[name]
    if nvcc := found.get("nvcc"):
        found["cublaslt"] = _has_cublaslt(nvcc, env)
    if "gpus" in want:
        from mmagen.toolchain.gpus import find_gpus

        found["gpus"], why = find_gpus(env)
        if not found["gpus"]:
            remedies["gpus"] = f"{why}; {_REMEDIES['gpus']}"
    return Toolchain(**found, wanted=tuple(n for n in EVERYTHING if n in want), remedies=remedies)


_Search = tuple[Tool | None, str]


def _find_nvcc(env: Mapping[str, str]) -> _Search:
    named = env.get("CUDACXX")
    if named:
        # A compiler asked for by name is used or complained about, never replaced by another one.
        tool = _tool(named, "CUDACXX", env, _NVCC_VERSION)
        return tool, "" if tool else f"CUDACXX={named} does not run"
    for origin, path in _nvcc_places(env):
        tool = _tool(path, origin, env, _NVCC_VERSION)
        if tool:
            return tool, ""
    tree = _wheel_toolkit()
    if tree is None:
        return None, ""
    from mmagen.core.cache import cache_root
    from mmagen.toolchain.wheels import shim_tree

    try:
        shim = shim_tree(tree, cache_root(env))
    except OSError as error:
        return None, f"the links to PyPI's CUDA toolkit cannot be made ({error}); set MMAGEN_CACHE_DIR"
    tool = _tool(shim / "bin" / "nvcc", "PyPI wheel", env, _NVCC_VERSION)
    return tool, "" if tool else "PyPI's nvcc does not run"


def _has_cublaslt(nvcc: Tool, env: Mapping[str, str]) -> bool:
    """Asked of nvcc itself, because the nvcc on PATH may be a script that starts the one in the toolkit."""
    done = _said([nvcc.path, "-dryrun", "-x", "cu", os.devnull], env)
    top = done and re.search(r"^#\$ TOP=(.*)$", done.stderr, re.MULTILINE)
    folders = ("include", "targets/x86_64-linux/include", "targets/sbsa-linux/include")
    return bool(top) and any((Path(top[1].strip()) / folder / "cublasLt.h").is_file() for folder in folders)


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
    done = _said([full, "--version"], env)
    match = re.search(pattern, done.stdout) if done and done.returncode == 0 else None
    return Tool(Path(full).absolute(), match.group(1), origin) if match else None


def _said(command: Sequence[str | Path], env: Mapping[str, str]) -> subprocess.CompletedProcess[str] | None:
    """How `command`, which takes no time, ended; None when it does not start or end."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=60, env=dict(env), stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))
