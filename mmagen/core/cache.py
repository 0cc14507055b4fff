"""The user's cache folder: the linked CUDA toolkit, compiled projects and PTX, shared by all calls."""

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
    """The folder and the `result.json` of builds/<key>, or None when it is absent or not whole.

    Every file that the result names must be there with the size it had when it was stored: a folder copied half-way
    from another machine counts as absent. Programs that lost their executable bit on the way get it back.
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
    """Put `files` (name in the entry -> where it lies now) and `result` under builds/<key>, whole or not at all.

    Returns the entry's folder. Two processes that store one key at once both end with a whole entry. Raises OSError
    when the cache cannot be written.
    """

    def fill(staging: Path) -> None:
        for name, path in files.items():
            shutil.copy2(path, staging / name)
        sizes = {name: (staging / name).stat().st_size for name in files}
        (staging / _RESULT).write_text(json.dumps({**result, "sizes": sizes}, indent=1) + "\n", "utf-8")

    return make_folder(root / "builds" / key, fill, whole=lambda: load_entry(key, root) is not None)


def make_folder(folder: Path, fill: Callable[[Path], None], whole: Callable[[], bool]) -> Path:
    """Make `folder` and what `fill`, called with an empty folder beside it, puts there; all of it or nothing.

    whole: says whether the `folder` that is there now is as it should be. A valid one is kept, an invalid one is replaced.
    Returns `folder`; raises OSError when it cannot be written.
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
    raise OSError(f"{folder} is in use and not whole; remove it")
