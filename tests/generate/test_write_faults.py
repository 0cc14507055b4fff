"""write: whole or not at all, whatever fails in the middle and whoever else writes."""

from __future__ import annotations

import builtins
import errno
import multiprocessing
import os
from pathlib import Path

import pytest

from mmagen.core.errors import UsageError
from mmagen.generate.write import write
from tests.support.project_folders import NEW, OLD, plain, project, tree


class Trip:
    """Lets the n-th call to os.replace, os.mkdir, os.rmdir or open-for-writing fail, before or after its effect."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: BaseException, at: int, *, after: bool):
        self.calls, self.at, self.error, self.after = 0, at, error, after
        for module, name in ((os, "replace"), (os, "mkdir"), (os, "rmdir"), (builtins, "open")):
            monkeypatch.setattr(module, name, self.wrap(getattr(module, name)))

    def wrap(self, function):  # type: ignore[no-untyped-def]
        def wrapped(*args, **options):  # type: ignore[no-untyped-def]
            if function is self_open and "x" not in (args[1] if len(args) > 1 else ""):
                return function(*args, **options)
            self.calls += 1
            trips = self.calls == self.at
            if trips and not self.after:
                raise self.error
            result = function(*args, **options)
            if trips:
                if hasattr(result, "close"):
                    result.close()
                raise self.error
            return result

        self_open = builtins.open if function is builtins.open else None
        return wrapped

    @property
    def tripped(self) -> bool:
        return self.calls >= self.at


ERRORS = [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]


def edited(folder: Path) -> None:
    """A project in which a forced update has every kind of step to do."""
    write(project(OLD | {"turns": b"file", "back/x": b"folder"}), folder)
    (folder / "src/g.cu").write_bytes(b"edited")
    (folder / "tests").write_bytes(b"a file where a folder has to be")
    (folder / "back/mine").write_bytes(b"mine")


UPDATED = project(NEW | {"turns/x": b"folder", "back": b"file"})


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", ERRORS, ids=["ENOSPC", "Ctrl-C"])
def test_a_fault_at_any_point_leaves_the_old_project_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, after: bool
) -> None:
    survived = 0
    for at in range(1, 200):
        folder = tmp_path / str(at) / "g"
        edited(folder)
        before = tree(folder)
        with monkeypatch.context() as patch:
            trip = Trip(patch, error, at, after=after)
            try:
                write(UPDATED, folder, force=True)
            except UsageError:
                survived += 1
                assert tree(folder) == before, f"call {at}"
            except KeyboardInterrupt:
                survived += 1
                # It may come once all is done and only the staging folder is left to remove.
                whole = plain(folder).items() >= UPDATED.items()
                assert tree(folder) == before or whole, f"call {at}"
        assert [path.name for path in folder.parent.iterdir()] == ["g"]
        if not trip.tripped:
            break
        assert not list(folder.glob(".mmagen-*"))
    else:
        pytest.fail("the update never ran to its end")
    assert survived > 20
    assert {path: content for path, content in plain(folder).items() if path in UPDATED} == UPDATED
    assert (folder / "src/g.cu.orig").read_bytes() == b"edited" and (folder / "back.orig/mine").exists()


@pytest.mark.parametrize("error", ERRORS, ids=["ENOSPC", "Ctrl-C"])
def test_a_fault_in_a_new_folder_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    for at in range(1, 50):
        folder = tmp_path / str(at) / "g"
        folder.parent.mkdir()
        with monkeypatch.context() as patch:
            trip = Trip(patch, error, at, after=False)
            try:
                write(project(OLD), folder)
            except (UsageError, KeyboardInterrupt):
                assert list(folder.parent.iterdir()) == []
        if not trip.tripped:
            break
    assert at > len(OLD) and plain(folder) == project(OLD)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "g"
    write(project(OLD), folder)
    return folder


def test_nothing_is_lost_when_even_the_way_back_fails(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.replace, 0

    def replace(source: str, target: str) -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(UsageError, match="previous files are in") as refused:
        write(project(NEW), old)
    monkeypatch.undo()
    staging = Path(str(refused.value).rpartition(" are in ")[2])
    assert set(project(OLD).values()) <= set(plain(old).values()) and staging.is_dir()


def test_the_manifest_comes_last(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then a writer that is killed leaves the old digests, by which the next one knows what is whose."""
    real, arrived = os.replace, []

    def replace(source: str, target: str) -> None:
        real(source, target)
        arrived.extend([Path(target).name] if source.endswith(".new") else [])

    monkeypatch.setattr(os, "replace", replace)
    assert "mmagen.json" in write(project(NEW | {"zzz": b"new"}), old).changed
    assert arrived[-1] == "mmagen.json" and "zzz" in arrived


def test_interrupt_during_the_way_back_is_waited_out(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real, calls = tree(old), os.replace, 0

    def replace(source: str, target: str) -> None:
        nonlocal calls
        calls += 1
        real(source, target)
        if calls in (4, 5, 6):
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        write(project(NEW), old)
    assert calls > 6 and tree(old) == before


def test_a_full_disk_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Trip(monkeypatch, OSError(errno.ENOSPC, "No space left on device"), 3, after=False)
    with pytest.raises(UsageError, match="cannot be written: No space left on device; it was left as it was"):
        write(project(OLD), tmp_path / "g")


# --- Several writers -----------------------------------------------------------------------------------------------


def _write_often(folder: Path, letter: bytes, barrier: multiprocessing.synchronize.Barrier) -> None:  # type: ignore[name-defined]
    files = project({f"d{i}/f{i}": letter * (i + 1) for i in range(8)})
    barrier.wait()
    for _ in range(25):
        write(files, folder)


def test_concurrent_writers_leave_one_whole_project(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(3)
    folder = tmp_path / "g"
    writers = [context.Process(target=_write_often, args=(folder, letter, barrier)) for letter in (b"a", b"b", b"c")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    found = plain(folder)
    letter = found["d0/f0"]
    assert found == project({f"d{i}/f{i}": letter * (i + 1) for i in range(8)})
    assert [path.name for path in tmp_path.iterdir()] == ["g"]
