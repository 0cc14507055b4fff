"""The user's cache folder: the linked CUDA toolkit, compiled projects and PTX, shared by all invocations."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_RESULT = "result.json"


def cache_root(env: Mapping[str, str] | None = None) -> Path:
    """The cache folder: `$MMAGEN_CACHE_DIR`, else the user's cache folder for mmagen. It may not exist yet."""
    chosen = (os.environ if env is None else env).get("MMAGEN_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("mmagen", appauthor=False))


def load_entry(key: str, root: Path) -> tuple[Path, dict[str, Any]] | None:
    """The folder and the `result.json` of builds/<key>, or None if the entry is absent or incomplete.

    Every file that the result lists must exist with its recorded size: a partly copied folder counts as absent. Executable bits
    lost in copying are restored.
    """
    folder = root / "builds" / key
    try:
        result = json.loads((folder / _RESULT).read_text("utf-8"))
        for name, size in result["sizes"].items():
            if (folder / name).stat().st_size != size:
                return None
        for name in result["programs"].values():
            if not os.access(folder / name, os.X_OK):
                (folder / name).chmod(0o755)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return folder, result


def store_entry(key: str, root: Path, result: Mapping[str, Any], files: Mapping[str, Path]) -> Path:
    """Store `files` (name in the entry -> current path) and `result` under builds/<key>, atomically.

    Returns the entry's folder. Two processes may store the same key concurrently. Raises OSError if the cache cannot be
    written.
    """

    def fill(staging: Path) -> None:
        for name, path in files.items():
            shutil.copy2(path, staging / name)
        sizes = {name: (staging / name).stat().st_size for name in files}
        (staging / _RESULT).write_text(json.dumps({**result, "sizes": sizes}, indent=1) + "\n", "utf-8")

    return make_folder(root / "builds" / key, fill, whole=lambda: load_entry(key, root) is not None)


def make_folder(folder: Path, fill: Callable[[Path], None], whole: Callable[[], bool]) -> Path:
    """Create `folder` atomically. `fill` is called with an empty staging folder beside it and writes the contents.

    whole: is the existing `folder` valid? A valid one is kept, an invalid one replaced. Returns `folder`; raises OSError if it
    cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        fill(staging)
        staging.chmod(0o755)
        return _settle(staging, folder, whole)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _settle(staging: Path, folder: Path, whole: Callable[[], bool]) -> Path:
    for _ in range(3):
        try:
            staging.rename(folder)
            return folder
        except OSError:
            if not folder.exists():
                raise
            if whole():
                return folder
            shutil.rmtree(folder, ignore_errors=True)
    raise OSError(f"{folder} is in use and incomplete; remove it")
