"""write: what is written, kept and refused; nothing touched without need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mmagen.core.errors import UsageError
from mmagen.generate.write import check, write
from tests.support.project_folders import NEW, OLD, plain, project, tree


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "g"
    write(project(OLD), folder)
    return folder


def test_new_folder_holds_exactly_the_files(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er" / "g"
    written = write(project(OLD), folder)
    assert plain(folder) == project(OLD)
    assert written.changed == tuple(sorted(project(OLD))) and written.removed == () and written.unchanged == 0
    assert [p.name for p in folder.parent.iterdir()] == ["g"]
    assert (folder.stat().st_mode & 0o777) == (folder.parent.stat().st_mode & 0o777)


def test_existing_empty_folder_is_filled(tmp_path: Path) -> None:
    write(project(OLD), tmp_path)
    assert plain(tmp_path) == project(OLD)


def test_relative_folder_and_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(project(OLD), Path("."))
    write(project(NEW), Path("."))
    write(project(OLD), Path("x"))
    assert plain(tmp_path / "x") == project(OLD)
    assert not (tmp_path / "src/gone").exists() and (tmp_path / "tests/new/v.cu").read_bytes() == b"new"


def test_same_content_touches_nothing(old: Path) -> None:
    def times() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in [old, *old.rglob("*")]}

    before = times()
    written = write(project(OLD), old)
    assert times() == before
    assert (written.changed, written.removed, written.unchanged) == ((), (), len(OLD) + 1)


def test_update_changes_adds_and_removes(old: Path) -> None:
    kept = (old / "include/g/g.h").stat().st_mtime_ns
    written = write(project(NEW), old)
    assert plain(old) == project(NEW)
    assert written.changed == ("CMakeLists.txt", "mmagen.json", "src/g.cu", "tests/new/v.cu")
    assert written.removed == ("src/gone/a.cu",) and written.unchanged == 1
    assert not (old / "src/gone").exists()
    assert (old / "include/g/g.h").stat().st_mtime_ns == kept


def test_user_files_are_kept(old: Path) -> None:
    (old / "build-debug").mkdir()
    for name in ("build-debug/out.o", "notes.md", "src/gone/mine.cu", "CMakeUserPresets.json"):
        (old / name).write_bytes(b"mine")
    write(project(NEW), old)
    mine = {"build-debug/out.o", "notes.md", "src/gone/mine.cu", "CMakeUserPresets.json"}
    assert plain(old) == project(NEW) | dict.fromkeys(mine, b"mine")


def test_hand_edits_are_refused_by_name(old: Path) -> None:
    (old / "src/g.cu").write_bytes(b"edited")
    (old / "src/gone/a.cu").write_bytes(b"edited")
    (old / "tests/new").mkdir(parents=True)
    (old / "tests/new/v.cu").write_bytes(b"mine")
    before = tree(old)
    with pytest.raises(UsageError) as refused:
        write(project(NEW), old)
    text = str(refused.value)
    assert "src/g.cu: changed by hand\n" in text
    assert "src/gone/a.cu: changed by hand, and no longer generated" in text
    assert "tests/new/v.cu: not written by mmagen" in text
    assert "--force" in text and "CMakeLists.txt" not in text
    assert tree(old) == before


def test_force_keeps_every_hand_edit(old: Path) -> None:
    (old / "src/g.cu").write_bytes(b"edited")
    (old / "src/g.cu.orig").write_bytes(b"older edit")
    (old / "src/gone/a.cu").write_bytes(b"edited too")
    write(project(NEW), old, force=True)
    assert plain(old) == project(NEW) | {
        "src/g.cu.orig": b"older edit",
        "src/g.cu.orig.1": b"edited",
        "src/gone/a.cu.orig": b"edited too",
    }


def test_an_edit_that_equals_the_new_content_is_no_conflict(old: Path) -> None:
    (old / "src/g.cu").write_bytes(NEW["src/g.cu"])
    assert "src/g.cu" not in write(project(NEW), old).changed
    assert plain(old) == project(NEW)


def test_deleted_file_comes_back(old: Path) -> None:
    (old / "src/g.cu").unlink()
    assert write(project(OLD), old).changed == ("src/g.cu",)
    assert plain(old) == project(OLD)


def test_foreign_folder_is_refused_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_bytes(b"mine")
    with pytest.raises(UsageError, match="no project of mmagen"):
        write(project(OLD), tmp_path)
    assert plain(tmp_path) == {"CMakeLists.txt": b"mine"}
    write(project(OLD), tmp_path, force=True)
    assert plain(tmp_path) == project(OLD) | {"CMakeLists.txt.orig": b"mine"}


@pytest.mark.parametrize("manifest", [b"{", b"[]", b'{"files": {"../x": "0"}}', b'{"files": 3}', b"[" * 9000, b"\xff"])
def test_unreadable_manifest_counts_as_none(old: Path, manifest: bytes) -> None:
    (old / "mmagen.json").write_bytes(manifest)
    with pytest.raises(UsageError, match=r"no readable mmagen\.json"):
        write(project(NEW), old)
    write(project(NEW), old, force=True)
    assert (old / "mmagen.json.orig").read_bytes() == manifest
    assert (old / "src/g.cu.orig").read_bytes() == OLD["src/g.cu"]


def test_what_building_or_a_killed_writer_leaves_does_not_make_a_folder_foreign(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "build").mkdir()
    (tmp_path / ".mmagen-0123456789abcdef").mkdir()
    (tmp_path / "CMakeUserPresets.json").write_bytes(b"{}")
    write(project(OLD), tmp_path)
    assert (tmp_path / "src/g.cu").read_bytes() == OLD["src/g.cu"]


def test_file_becomes_folder_and_back(tmp_path: Path) -> None:
    file, folder = project({"a": b"1", "b": b"2"}), project({"a/x": b"3", "a/y/z": b"4", "b": b"2"})
    target = tmp_path / "g"
    write(file, target)
    assert write(folder, target).removed == ("a",)
    assert plain(target) == folder
    assert write(file, target).removed == ("a/x", "a/y/z")
    assert plain(target) == file


def test_user_file_in_a_folder_that_becomes_a_file(tmp_path: Path) -> None:
    target = tmp_path / "g"
    write(project({"a/x": b"3"}), target)
    (target / "a/mine").write_bytes(b"mine")
    with pytest.raises(UsageError, match="a: a folder of yours"):
        write(project({"a": b"1"}), target)
    write(project({"a": b"1"}), target, force=True)
    assert plain(target) == project({"a": b"1"}) | {"a.orig/mine": b"mine"}


def test_links_are_not_followed_out(old: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "g.cu").write_bytes(b"theirs")
    (outside / "g.h").write_bytes(b"theirs")
    (old / "src/g.cu").unlink()
    (old / "src/g.cu").symlink_to(outside / "g.cu")
    (old / "include/g/g.h").unlink()
    (old / "include/g").rmdir()
    (old / "include/g").symlink_to(outside)
    with pytest.raises(UsageError) as refused:
        write(project(NEW), old)
    assert "include/g: a file or link of yours" in str(refused.value)
    assert "src/g.cu: no plain file any more" in str(refused.value)
    write(project(NEW), old, force=True)
    assert dict(plain(old).items()) == project(NEW)
    assert os.readlink(old / "src/g.cu.orig") == str(outside / "g.cu")
    assert os.readlink(old / "include/g.orig") == str(outside)
    assert plain(outside) == {"g.cu": b"theirs", "g.h": b"theirs"}


def test_removing_does_not_reach_through_a_link(old: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.cu").write_bytes(OLD["src/gone/a.cu"])
    (old / "src/gone/a.cu").unlink()
    (old / "src/gone").rmdir()
    (old / "src/gone").symlink_to(outside)
    assert write(project(NEW), old).removed == ()
    assert plain(outside) == {"a.cu": OLD["src/gone/a.cu"]}


def test_folder_that_is_a_link_or_a_file(old: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(old)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(b"x")
    for name, reason in (("link", "symbolic link"), ("dangling", "symbolic link"), ("file", "is a file")):
        with pytest.raises(UsageError, match=reason):
            write(project(NEW), tmp_path / name, force=True)
    for name in ("file/g", "file/deeper/g"):
        with pytest.raises(UsageError, match="a parent of it is a file"):
            write(project(NEW), tmp_path / name)
    assert plain(old) == project(OLD) and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "a//x", "./x", "", "a\\x", "C:x", "a/\0", ".mmagen-1/x"])
def test_paths_that_lead_out_are_a_bug(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="relative POSIX path"):
        write(project({path: b""}), tmp_path / "g")
    assert list(tmp_path.iterdir()) == []


def test_a_set_of_files_that_is_no_project_is_a_bug(tmp_path: Path) -> None:
    for files in ({"a": b""}, {"a": b"", "mmagen.json": b'{"files": {}}'}, {"a": b"", "mmagen.json": b"{}"}):
        with pytest.raises(ValueError, match="must list the other files"):
            write(files, tmp_path / "g")
    with pytest.raises(ValueError, match="is a file and the folder"):
        write(project({"a": b"", "a/b/c": b""}), tmp_path / "g")
    assert list(tmp_path.iterdir()) == []


def test_check_names_what_differs(old: Path, tmp_path: Path) -> None:
    assert check(project(OLD), old) == ()
    (old / "mine").write_bytes(b"mine")
    assert check(project(OLD), old) == ()
    assert check(project(NEW), old) == ("CMakeLists.txt", "mmagen.json", "src/g.cu", "src/gone/a.cu", "tests/new/v.cu")
    (old / "src/g.cu").unlink()
    assert check(project(OLD), old) == ("src/g.cu",)
    assert check(project(OLD), tmp_path / "nowhere") == tuple(sorted(project(OLD)))
