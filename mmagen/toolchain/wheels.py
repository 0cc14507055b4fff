"""A CUDA toolkit from PyPI in the shape that CMake expects: a small tree of symbolic links.

The wheels put the toolkit under `nvidia/cu13` with `lib` instead of `lib64` and without an unversioned
`libcudart.so`. `bin` must be a real folder: nvcc looks for the rest at `bin/..`, and the kernel resolves `..` behind a
linked folder to the wheel's own tree, where `lib64` is missing.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mmagen.core.cache import make_folder

_RUNTIME = "libcudart.so"


def linked_toolkit(tree: Path, cache: Path) -> Path:
    """A tree of links to the wheels' toolkit `tree` (…/nvidia/cu13), made under `cache` unless it exists.

    Links that point elsewhere (an upgraded or moved wheel) are replaced. Raises OSError when `cache` cannot be written.
    """
    links = _links(tree)
    digest = hashlib.sha256("\n".join(f"{k} {v}" for k, v in sorted(links.items())).encode()).hexdigest()[:16]
    linked = cache / "cuda" / digest
    if _up_to_date(linked, links):
        return linked

    def fill(staging: Path) -> None:
        for name, target in links.items():
            link = staging / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)

    return make_folder(linked, fill, whole=lambda: _up_to_date(linked, links))


def _links(tree: Path) -> dict[str, str]:
    """Link name in the new tree -> what it points at."""
    links = {name: str(tree / name) for name in ("include", "nvvm") if (tree / name).is_dir()}
    for folder, linked_folder in (("bin", "bin"), ("lib", "lib64")):
        for entry in sorted((tree / folder).iterdir()) if (tree / folder).is_dir() else ():
            links[f"{linked_folder}/{entry.name}"] = str(entry)
    versioned = sorted(name for name in links if name.startswith(f"lib64/{_RUNTIME}."))
    if versioned:
        links.setdefault(f"lib64/{_RUNTIME}", links[versioned[-1]])
    return links


def _up_to_date(linked: Path, links: dict[str, str]) -> bool:
    try:
        return all(os.readlink(linked / name) == target and (linked / name).exists() for name, target in links.items())
    except OSError:
        return False
