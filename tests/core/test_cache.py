"""What is kept between calls: whole entries, whoever else writes them and whatever became of them since."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmagen.core import cache as module
from mmagen.core.cache import Cache, cache_root, is_kept, make_folder, no_cache, session_root
from mmagen.core.errors import BuildError
from mmagen.core.notices import take_notices
from mmagen.core.reads import Reading


@pytest.fixture(autouse=True)
def nothing_said():
    """Every test sees its own remarks alone."""
    take_notices()
    yield
    take_notices()


def header_in(folder: Path, text: str = "1") -> Path:
    """A header in an include folder of its own: new files beside a header count."""
    (folder / "include").mkdir(exist_ok=True)
    (folder / "include/h.h").write_text(text)
    return folder / "include/h.h"


def made_of(*paths: Path) -> Reading:
    return Reading(tuple(map(str, paths)), (), time.time_ns() + 10**9)


def store(root: Path, text: str = "program", reading: Reading | None = None, key: str = "key") -> Path:
    made = next(folder for folder in root.parents if folder.is_dir()) / "made"
    made.write_text(text)
    made.chmod(0o755)
    stored = {"programs": {"verify": "v"}, "seconds": 1.5}
    return Cache(root).keep("builds", key, stored, {"v": made}, reading or Reading()).folder


def found(root: Path, key: str = "key"):
    entry = Cache(root).find("builds", key)
    return entry and (entry.folder / "v").read_text()


def leftovers(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.name.startswith(".new-")]


def test_what_was_stored_is_found(tmp_path):
    folder = store(tmp_path / "cache")
    entry = Cache(tmp_path / "cache").find("builds", "key")
    assert entry and entry.folder == folder and entry.result["seconds"] == 1.5
    assert (folder / "v").read_text() == "program" and os.access(folder / "v", os.X_OK) and is_kept(folder / "v")
    assert found(tmp_path / "cache", "other") is None and not leftovers(tmp_path)


# --- what was read ----------------------------------------------------------------------------------------------------


def test_an_entry_is_of_the_files_that_were_read(tmp_path):
    header = header_in(tmp_path)
    store(tmp_path / "cache", "one", made_of(header))
    assert found(tmp_path / "cache") == "one"
    header.write_text("2")
    assert found(tmp_path / "cache") is None
    store(tmp_path / "cache", "two", made_of(header))
    assert found(tmp_path / "cache") == "two"
    header.write_text("1")
    assert found(tmp_path / "cache") == "one", "the entry of before is still there"
    header.unlink()
    assert found(tmp_path / "cache") is None


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path):
    header = header_in(tmp_path)
    os.utime(header, (1e9, 1e9))
    store(tmp_path / "cache", "one", made_of(header))
    cache = Cache(tmp_path / "cache")
    assert cache.find("builds", "key")
    cache.close()
    header.write_text("2")
    os.utime(header, (1e9, 1e9))
    assert found(tmp_path / "cache") is None


def test_a_header_that_newly_appears_beside_or_above_what_was_read_is_seen(tmp_path):
    top = tmp_path / "cutlass"
    header = top / "cute" / "layout.hpp"
    header.parent.mkdir(parents=True)
    header.write_text("1")
    (tmp_path / "made").write_text("program")
    for new in (top / "cuda_runtime.h", top / "cute" / "other.hpp"):
        roots = {"<cutlass>": top}
        entry = Cache(tmp_path / "cache", roots).keep("builds", "k", {}, {"v": tmp_path / "made"}, made_of(header))
        assert is_kept(entry.folder) and Cache(tmp_path / "cache", roots).find("builds", "k")
        (header.parent / ".layout.hpp.swp").write_text("an editor's")
        assert Cache(tmp_path / "cache", roots).find("builds", "k")
        new.write_text("")
        assert Cache(tmp_path / "cache", roots).find("builds", "k") is None


def test_an_include_folder_of_the_environment_counts_though_nothing_was_read_from_it(tmp_path):
    (tmp_path / "early").mkdir()
    store(tmp_path / "cache", reading=Reading((), (str(tmp_path / "early"), str(tmp_path / "absent")), 1))
    assert found(tmp_path / "cache")
    (tmp_path / "early" / "h.h").write_text("")
    assert found(tmp_path / "cache") is None


def test_a_root_may_lie_elsewhere(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "h.h").write_text("same")
    (tmp_path / "made").write_text("program")
    Cache(tmp_path / "cache", {"<cuda>": tmp_path / "a"}).keep(
        "builds", "key", {}, {"v": tmp_path / "made"}, made_of(tmp_path / "a/h.h")
    )
    elsewhere = Cache(tmp_path / "cache", {"<cuda>": tmp_path / "b"}).find("builds", "key")
    assert elsewhere and elsewhere.reading.paths == (str(tmp_path / "b/h.h"),)
    (tmp_path / "b/h.h").write_text("other")
    assert Cache(tmp_path / "cache", {"<cuda>": tmp_path / "b"}).find("builds", "key") is None


def test_a_file_that_changes_while_it_is_compiled_is_not_kept(tmp_path):
    header = tmp_path / "h.h"
    began = time.time_ns() - 10**9
    header.write_text("changed after the compiler began")
    folder = store(tmp_path / "cache", reading=Reading((str(header),), (), began))
    assert (folder / "v").read_text() == "program" and not is_kept(folder) and found(tmp_path / "cache") is None
    gone = store(tmp_path / "cache", reading=made_of(tmp_path / "gone.h"))
    assert not is_kept(gone) and found(tmp_path / "cache") is None


# --- damage -----------------------------------------------------------------------------------------------------------


def _files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("spoiled", ["v", "result.json", "set", "key.json"])
@pytest.mark.parametrize("how", ["gone", "empty", "half", "one byte", "no object", "binary"])
def test_a_damaged_entry_counts_as_absent_and_is_made_again(tmp_path, spoiled, how):
    header = header_in(tmp_path)
    root = tmp_path / "cache"
    folder = store(root, reading=made_of(header))
    place = {
        "v": folder / "v",
        "result.json": folder / "result.json",
        "set": next((root / "reads").glob("set-*")),
        "key.json": root / "reads" / "key.json",
    }[spoiled]
    data = place.read_bytes()
    place.unlink()
    if how != "gone":
        middle = len(data) // 2
        other = bytes([data[middle] ^ 1])
        changed = {"empty": b"", "half": data[:middle], "no object": b"[]", "binary": b"\xff\x00" * 40}
        place.write_bytes(changed.get(how, data[:middle] + other + data[middle + 1 :]))
    assert found(root) is None
    store(root, "another", made_of(header))
    assert found(root) in ("another", "program") and not leftovers(root)


def test_damaged_digests_are_computed_again(tmp_path):
    header = header_in(tmp_path)
    store(tmp_path / "cache", reading=made_of(header))
    for text in ("", "{", "[]", '{"a": 1}', '{"a": [1, 2]}', '{"a": [1, 2, 3, 4, 5, 6]}'):
        (tmp_path / "cache/digests.json").write_text(text)
        assert found(tmp_path / "cache") == "program"


def test_a_whole_entry_is_never_replaced(tmp_path):
    folder = store(tmp_path / "cache")
    assert store(tmp_path / "cache", "another") == folder and (folder / "v").read_text() == "program"
    assert not leftovers(tmp_path)


def test_a_lost_executable_bit_comes_back(tmp_path):
    folder = store(tmp_path / "cache")
    (folder / "v").chmod(0o644)
    assert found(tmp_path / "cache") and os.access(folder / "v", os.X_OK)


# --- permissions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mask", "program", "text", "folders"), [(0o022, 0o755, 0o644, 0o755), (0o077, 0o700, 0o600, 0o700)])
def test_permissions_are_those_of_the_umask(tmp_path, mask, program, text, folders):
    header = header_in(tmp_path)
    before = os.umask(mask)
    try:
        folder = store(tmp_path / "cache", reading=made_of(header))
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "cache").rglob("*")}
    assert modes.pop(folder / "v") == program
    assert {mode for path, mode in modes.items() if path.is_file()} == {text}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {folders}


# --- writers ----------------------------------------------------------------------------------------------------------


def test_a_fault_on_the_way_leaves_nothing(tmp_path):
    def fill(staging):
        (staging / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_folder(tmp_path / "a" / "b", fill, whole=lambda: False)
    assert os.listdir(tmp_path / "a") == []


def test_a_folder_that_is_never_whole_and_cannot_go_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "there" / "busy").mkdir(parents=True)
    monkeypatch.setattr(shutil, "rmtree", lambda folder, ignore_errors: None)
    with pytest.raises(OSError, match="in use and incomplete"):
        make_folder(tmp_path / "there", lambda staging: None, whole=lambda: False)


def test_several_writers_end_with_a_whole_entry(tmp_path):
    made = tmp_path / "made"
    made.write_text("program")
    context = multiprocessing.get_context("fork")
    stored = ("builds", "key", {"programs": {"verify": "v"}}, {"v": made}, Reading())
    writers = [context.Process(target=Cache(tmp_path / "cache").keep, args=stored) for _ in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 8
    assert found(tmp_path / "cache") == "program" and len(os.listdir(tmp_path / "cache/builds")) == 1
    assert not leftovers(tmp_path)


_KILLED = """
import os, signal, sys
from pathlib import Path
from mmagen.core import cache, digests
root, point = Path(sys.argv[1]), sys.argv[2]
def dying(real):
    def call(*arguments, **options):
        where = str(arguments[0] if point != "copyfile" else arguments[1])
        if point == "copyfile":
            Path(where).write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    return call
holder, name = {
    "copyfile": (cache.shutil, "copyfile"),
    "settle": (cache, "_settle"),
    "set": (cache, "write_file"),
    "replace": (digests.os, "replace"),
}[point]
setattr(holder, name, dying(getattr(holder, name)))
stored = {"programs": {"verify": "v"}}
cache.Cache(root / "cache").keep("builds", "key", stored, {"v": root / "made"}, cache.Reading())
"""


@pytest.mark.parametrize("point", ["copyfile", "settle", "set", "replace"])
def test_a_process_killed_in_the_middle_leaves_nothing_that_is_used(tmp_path, point):
    (tmp_path / "made").write_text("program")
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path), point], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert found(tmp_path / "cache") is None
    assert leftovers(tmp_path) or point == "set"
    for left in leftovers(tmp_path):
        os.utime(left, (time.time() - 90_000,) * 2)
    store(tmp_path / "cache", "program")
    assert found(tmp_path / "cache") == "program" and not leftovers(tmp_path), "what was abandoned is removed"


# --- a cache that cannot be written -----------------------------------------------------------------------------------


def test_without_space_the_run_goes_on_with_one_remark(tmp_path, monkeypatch):
    real = shutil.copyfile

    def full(source, target):
        if Path(target).is_relative_to(tmp_path / "cache"):
            Path(target).write_bytes(b"ha")
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(source, target)

    monkeypatch.setattr(module.shutil, "copyfile", full)
    for key in ("key", "other"):
        folder = store(tmp_path / "cache", key=key)
        assert (folder / "v").read_text() == "program" and not is_kept(folder)
    remarks = take_notices()
    assert len(remarks) == 1 and str(tmp_path / "cache") in remarks[0]
    assert "No space left on device" in remarks[0] and "MMAGEN_CACHE_DIR" in remarks[0]
    monkeypatch.undo()
    assert found(tmp_path / "cache") is None and not leftovers(tmp_path)


_LIMITED = """
import resource, sys
from pathlib import Path
from mmagen.core import cache, notices
root = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
stored = {"programs": {"verify": "v"}}
try:
    cache.Cache(root / "cache").keep("builds", "key", stored, {"v": root / "made"}, cache.Reading())
except cache.BuildError as error:
    print(error)
print(notices.take_notices())
"""


def test_without_space_anywhere_the_error_names_place_and_remedy(tmp_path):
    (tmp_path / "made").write_bytes(b"x" * 5000)
    env = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", _LIMITED, str(tmp_path)], timeout=60, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout and "File too large" in done.stdout and "set TMPDIR" in done.stdout
    assert "MMAGEN_CACHE_DIR" in done.stdout
    assert not leftovers(tmp_path) and found(tmp_path / "cache") is None
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


def test_a_cache_below_a_file_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    folder = store(tmp_path / "file" / "cache")
    assert (folder / "v").is_file() and not is_kept(folder) and len(take_notices()) == 1
    assert found(tmp_path / "file" / "cache") is None
    Cache(tmp_path / "file" / "cache").close()


def test_a_temporary_folder_that_cannot_be_made_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(module.tempfile, "mkdtemp", lambda **_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space")))
    monkeypatch.setattr(module, "_session_root", module._session_root.__wrapped__)
    with pytest.raises(BuildError, match="No space; free space there, or set TMPDIR"):
        session_root()


def test_without_the_cache_nothing_is_read_or_written(tmp_path, monkeypatch):
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path / "cache"))
    store(cache_root())
    before = _files(tmp_path / "cache")
    with no_cache():
        assert found(cache_root()) is None
        cache = Cache(cache_root())
        kept = cache.keep("builds", "key", {"programs": {}}, {"v": tmp_path / "made"}, Reading())
        cache.close()
        assert not is_kept(kept.folder) and (kept.folder / "v").is_file()
    assert _files(tmp_path / "cache") == before and found(cache_root()) == "program" and take_notices() == []


def test_where_it_lies(tmp_path, monkeypatch):
    assert cache_root({"MMAGEN_CACHE_DIR": str(tmp_path)}) == tmp_path
    monkeypatch.chdir(tmp_path)
    assert cache_root({"MMAGEN_CACHE_DIR": "here"}) == tmp_path / "here"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root({}) == tmp_path / "xdg/mmagen"


def test_an_old_key_forgets_its_oldest_state(tmp_path):
    for state in range(12):
        store(tmp_path / "cache", str(state), made_of(header_in(tmp_path, str(state))))
    assert len(json.loads((tmp_path / "cache/reads/key.json").read_text())) == 8
    assert found(tmp_path / "cache") == "11"
