"""`mmagen cache`: what is in the folder, and what is removed."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from mmagen.cli.cache import shown, size_in_bytes
from mmagen.cli.main import main
from mmagen.core.cache import Cache
from mmagen.core.errors import UsageError
from mmagen.core.reads import Reading
from mmagen.core.upkeep import KINDS, clear, items, prune

DAY = 86400.0
NOW = 1_000_000_000.0
NEW, MIDDLE, OLD = (digit * 64 for digit in "0a9")
FILES = {name: f"{name[0]}1" * 20 for name in (NEW, MIDDLE, OLD)}
SHARED = "f" * 40


@pytest.fixture
def root(tmp_path) -> Path:
    """A cache with three builds of 100 bytes each, used 1, 10 and 40 days ago, and a file of somebody else."""
    for name, days in ((NEW, 1), (MIDDLE, 10), (OLD, 40)):
        folder = tmp_path / "builds" / name
        folder.mkdir(parents=True)
        (folder / "program").write_bytes(bytes(100))
        for path in (folder / "program", folder):
            os.utime(path, (NOW - days * DAY,) * 2)
        (tmp_path / "reads").mkdir(exist_ok=True)
        (tmp_path / "reads" / f"{name}.json").write_text(json.dumps([[FILES[name], name], [SHARED, name]]))
        (tmp_path / "reads" / f"set-{FILES[name]}.json").write_text("{}")
    (tmp_path / "reads" / f"set-{SHARED}.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("mine")
    return tmp_path


def names(found) -> list[str]:
    return [item.path.name for item in found]


def test_items_have_their_size_and_last_use(root):
    found = {item.path.name: item for item in items(root)}
    assert set(found) == {NEW, MIDDLE, OLD}
    assert {item.bytes for item in found.values()} == {100} and found[OLD].used == NOW - 40 * DAY
    assert items(root / "nowhere") == []


def test_prune_by_age(root):
    assert names(prune(root, NOW, 30, None)) == [OLD] and names(items(root)) == [NEW, MIDDLE]
    assert {path.name for path in (root / "reads").iterdir()} == {
        *(f"{name}.json" for name in (NEW, MIDDLE, f"set-{FILES[NEW]}", f"set-{FILES[MIDDLE]}", f"set-{SHARED}"))
    }
    assert prune(root, NOW, 30, None) == []


def test_prune_by_size_takes_the_longest_unused(root):
    assert names(prune(root, NOW, None, 250)) == [OLD]
    assert names(prune(root, NOW, None, 99)) == [MIDDLE, NEW] and not list((root / "reads").iterdir())


def test_both_limits_hold(root):
    assert names(prune(root, NOW, 30, 100)) == [OLD, MIDDLE]


def test_clear_leaves_what_is_not_mmagens(root):
    (root / "digests.json").write_text("{}")
    (root / "builds/.new-7-aa").mkdir()
    assert sorted(names(clear(root))) == sorted([MIDDLE, NEW, OLD])
    assert [path.name for path in root.iterdir()] == ["notes.txt"]
    (root / "notes.txt").unlink()
    assert clear(root) == [] and not root.exists()


@pytest.mark.parametrize("kind", [*KINDS, "reads"])
def test_folders_of_others_with_names_of_the_caches_are_left_alone(kind, root):
    """MMAGEN_CACHE_DIR may be set to somebody's home, who has a folder `projects`."""
    own = root / kind / "thesis/chapter.tex"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("mine")
    (root / kind / "notes.json").write_text("{}")
    os.utime(own.parent, (NOW - 400 * DAY,) * 2)
    assert "thesis" not in names(items(root)) and names(prune(root, NOW, 30, 0)) == [OLD, MIDDLE, NEW]
    clear(root)
    assert own.read_text() == "mine" and (root / kind / "notes.json").exists()
    assert sorted(path.name for path in root.iterdir()) == sorted([kind, "notes.txt"])


def test_all_that_a_build_keeps_is_an_item(root):
    """What is neither would stay for ever."""
    folder = root / "registers"
    folder.mkdir()
    (folder / f"{'b' * 12}-{'c' * 24}.json").write_text("{}")
    assert [item.kind for item in items(root)] == ["builds"] * 3 + ["registers"]
    clear(root)
    assert not folder.exists()


def test_an_entry_that_is_used_counts_as_new(tmp_path):
    program = tmp_path / "program"
    program.write_text("x")
    root = tmp_path / "cache"
    entry = Cache(root).keep("builds", "key", {}, {"program": program}, Reading())
    for path in (entry.folder, *entry.folder.iterdir()):
        os.utime(path, (NOW, NOW))
    assert Cache(root).find("builds", "key")
    assert prune(root, NOW + 40 * DAY, 30, None) == [] and Cache(root).find("builds", "key")


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as done:
        main(["cache", *arguments])
    return int(done.value.code or 0)


def test_the_verbs(root, monkeypatch, capsys):
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(root))
    assert run("info") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{root}\n") and re.search(r"compiled projects +3 +300 B", said) and "300 B in 3 entries" in said
    assert max(map(len, said.splitlines())) <= max(80, len(str(root)))
    assert run("prune", "--max-size", "0.2k") == 0
    assert capsys.readouterr().out == f"{root}: removed 1 entry, 100 B\n"
    assert run("prune", "--max-size", "0.2K") == 0
    assert run("prune", "--max-size", "5") == 2
    assert "--max-size 5 has no unit; write 5M or 5G" in capsys.readouterr().err
    assert run("prune", "--max-size", "many") == 2
    assert "--max-size 'many' is not a size; write it like 500M or 2G" in capsys.readouterr().err
    assert run("clear") == 0 and "removed 2 entries, 200 B" in capsys.readouterr().out
    assert run("info") == 0 and "empty" in capsys.readouterr().out


def test_a_cache_that_is_a_file_is_said_to_be_none(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MMAGEN_CACHE_DIR", str(tmp_path / "file"))
    assert run("info") == 0 and "no folder: nothing is kept" in capsys.readouterr().out


def test_sizes():
    assert [size_in_bytes(text) for text in ("7B", "2k", "1.5 MB", "2GiB")] == [7, 2048, 3 * 512 * 1024, 2 << 30]
    assert [size_in_bytes(text) for text in ("0", "1048576")] == [0, 1 << 20]
    assert [shown(size) for size in (0, 1023, 1024, 5 << 20, 3000 << 30)] == ["0 B", "1023 B", "1.0 kB", "5.0 MB", "3000.0 GB"]
    with pytest.raises(UsageError):
        size_in_bytes("-1")
