"""What is kept between calls: whole entries, whoever else writes them and whatever became of them since."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from mmagen.core.cache import cache_root, load_entry, make_folder, store_entry


def store(root: Path, text: str = "program") -> Path:
    made = root.parent / "made"
    made.write_text(text)
    made.chmod(0o755)
    return store_entry("key", root, {"programs": {"verify": "v"}, "seconds": 1.5}, {"v": made})


def test_what_was_stored_is_found(tmp_path):
    folder = store(tmp_path / "cache")
    assert load_entry("key", tmp_path / "cache") == (folder, {"programs": {"verify": "v"}, "seconds": 1.5, "sizes": {"v": 7}})
    assert (folder / "v").read_text() == "program" and folder.stat().st_mode & 0o777 == 0o755
    assert load_entry("other", tmp_path / "cache") is None
    assert os.listdir(folder.parent) == ["key"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "v").unlink(),
        lambda folder: (folder / "v").write_text("half"),
        lambda folder: (folder / "result.json").write_text("{"),
        lambda folder: (folder / "result.json").write_text("[]"),
        lambda folder: (folder / "result.json").write_text('{"sizes": {}}'),
        lambda folder: (folder / "result.json").unlink(),
    ],
    ids=["gone", "half", "no JSON", "no object", "no programs", "no result"],
)
def test_an_entry_that_is_not_whole_is_none_and_makes_room(tmp_path, spoil):
    folder = store(tmp_path / "cache")
    spoil(folder)
    assert load_entry("key", tmp_path / "cache") is None
    store(tmp_path / "cache", "another")
    assert (folder / "v").read_text() == "another" and load_entry("key", tmp_path / "cache")


def test_a_whole_entry_is_never_replaced(tmp_path):
    folder = store(tmp_path / "cache")
    assert store(tmp_path / "cache", "another") == folder and (folder / "v").read_text() == "program"
    assert os.listdir(folder.parent) == ["key"]


def test_a_lost_executable_bit_comes_back(tmp_path):
    folder = store(tmp_path / "cache")
    (folder / "v").chmod(0o644)
    assert load_entry("key", tmp_path / "cache") and os.access(folder / "v", os.X_OK)


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
    writers = [
        context.Process(target=store_entry, args=("key", tmp_path / "cache", {"programs": {"verify": "v"}}, {"v": made}))
        for _ in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 8
    assert load_entry("key", tmp_path / "cache") and os.listdir(tmp_path / "cache/builds") == ["key"]


def test_where_it_lies(tmp_path, monkeypatch):
    assert cache_root({"MMAGEN_CACHE_DIR": str(tmp_path)}) == tmp_path
    monkeypatch.chdir(tmp_path)
    assert cache_root({"MMAGEN_CACHE_DIR": "here"}) == tmp_path / "here"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root({}) == tmp_path / "xdg/mmagen"
