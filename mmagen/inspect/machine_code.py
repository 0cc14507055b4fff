"""The machine code of two built projects side by side: registers, spills, and instructions of each class of each kernel, in main
loops and in all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mmagen.build import sass
from mmagen.build.build import built
from mmagen.core.demangled import demangled
from mmagen.core.errors import BuildError
from mmagen.toolchain.find import find_toolchain
from mmagen.toolchain.model import COMPILE, Toolchain

_REMEDY = "cuobjdump and nvdisasm are in the CUDA toolkit; nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm on PyPI have them too"


@dataclass(frozen=True)
class MachineCode:
    """kernels: name -> what -> value. missing: why there are none, a sentence."""

    kernels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    missing: str = ""


@dataclass(frozen=True)
class Project:
    """A generated project: its folder and its name."""

    folder: Path
    name: str


def of_both(old: Project, new: Project) -> tuple[MachineCode, MachineCode]:
    """Of each. Where one has none, the other's is not looked at."""
    toolchain = find_toolchain(want=(*COMPILE, "cuobjdump"))
    found = [_library(one, toolchain) for one in (old, new)]
    absent = [f"{one.folder} is not built" for one, library in zip((old, new), found, strict=True) if library is None]
    if absent:
        return _neither(f"{' and '.join(absent)}; mmagen build --compile, or CMake in a folder build/ of it, builds it")
    if toolchain.cuobjdump is None:
        return _neither(f"cuobjdump is not found; {_REMEDY}")
    try:
        first, second = (_of(one, library, toolchain) for one, library in zip((old, new), found, strict=True) if library)
    except BuildError as error:
        return _neither(f"{error}; {_REMEDY}")
    return first, second


def _neither(why: str) -> tuple[MachineCode, MachineCode]:
    return MachineCode(missing=why), MachineCode(missing=why)


def _library(project: Project, toolchain: Toolchain) -> Path | None:
    """The library that was built with CMake in the folder, else the one that `mmagen build --compile` has kept."""
    names = (f"lib{project.name}.a", f"lib{project.name}.so")
    made = [path for name in names for path in project.folder.glob(f"build*/**/{name}") if path.is_file()]
    if made:
        return max(made, key=lambda path: path.stat().st_mtime)
    if toolchain.missing(COMPILE):
        return None
    kept = built(project.folder, toolchain)
    return kept.library if kept else None


def _of(project: Project, library: Path, toolchain: Toolchain) -> MachineCode:
    assert toolchain.cuobjdump
    used = sass.usage(toolchain.cuobjdump, library)
    kernels = sass.disassembled(toolchain.cuobjdump, library)
    if not kernels:
        raise BuildError(f"{library.name} has no kernels")
    found = {}
    for kernel, name in zip(kernels, demangled([one.name for one in kernels]), strict=True):
        rows: dict[str, str] = {}
        if kernel.name in used:
            rows |= {"registers": str(used[kernel.name][0]), "stack bytes": str(used[kernel.name][1])}
        rows |= _counted(kernel)
        found[_label(name, kernel.arch, project.name)] = rows
    return MachineCode(found)


def _counted(kernel: sass.Kernel) -> dict[str, str]:
    whole = sass.counts(kernel.code)
    loops = sass.counts(one for body in kernel.main_loops() for one in body)
    rows = {"instructions": f"{sum(whole.values()):,}", "spills (LDL, STL)": f"{sum(whole[name] for name in sass.SPILLS):,}"}
    rows |= {f"main loops: {name}": f"{count:,}" for name, count in sorted(loops.items())}
    return rows | {name: f"{count:,}" for name, count in sorted(whole.items()) if name not in sass.SPILLS}


def _label(name: str, arch: str, project: str) -> str:
    """Without the project's name, in which any two differ, return type, namespaces of mmagen and arguments."""
    short = re.sub(r"^void |mmagen::(?:v\d+_\d+::)?", "", re.sub(rf"\b{re.escape(project)}\b", "NAME", name))
    return f"{short[: _end_of_name(short)]} {arch}"


def _end_of_name(text: str) -> int:
    """Where the parameters begin: the first parenthesis outside of template arguments."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            return place
    return len(text)
