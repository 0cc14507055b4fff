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
from mmagen.core.upkeep import clear, items, prune

DAY = 86400.0
NOW = 1_000_000_000.0


@pytest.fixture
def root(tmp_path) -> Path:
    """A cache with three builds of 100 bytes each, used 1, 10 and 40 days ago, and a file of somebody else."""
    for name, days in (("new", 1), ("middle", 10), ("old", 40)):
        folder = tmp_path / "builds" / name
        folder.mkdir(parents=True)
        (folder / "program").write_bytes(bytes(100))
        for path in (folder / "program", folder):
            os.utime(path, (NOW - days * DAY,) * 2)
        (tmp_path / "reads").mkdir(exist_ok=True)
        (tmp_path / "reads" / f"key-{name}.json").write_text(json.dumps([[f"files-{name}", name], ["shared", name]]))
        (tmp_path / "reads" / f"set-files-{name}.json").write_text("{}")
    (tmp_path / "reads" / "set-shared.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("mine")
    return tmp_path


def names(found) -> list[str]:
    return [item.path.name for item in found]


def test_items_have_their_size_and_last_use(root):
    found = {item.path.name: item for item in items(root)}
    assert set(found) == {"new", "middle", "old"}
    assert {item.bytes for item in found.values()} == {100} and found["old"].used == NOW - 40 * DAY
    assert items(root / "nowhere") == []


def test_prune_by_age(root):
    assert names(prune(root, NOW, 30, None)) == ["old"] and names(items(root)) == ["middle", "new"]
    assert {path.name for path in (root / "reads").iterdir()} == {
        *("key-new.json", "key-middle.json", "set-files-new.json", "set-files-middle.json", "set-shared.json")
    }
    assert prune(root, NOW, 30, None) == []


def test_prune_by_size_takes_the_longest_unused(root):
    assert names(prune(root, NOW, None, 250)) == ["old"]
    assert names(prune(root, NOW, None, 99)) == ["middle", "new"] and not list((root / "reads").iterdir())


def test_both_limits_hold(root):
    assert names(prune(root, NOW, 30, 100)) == ["old", "middle"]


def test_clear_leaves_what_is_not_mmagens(root):
    (root / "digests.json").write_text("{}")
    assert sorted(names(clear(root))) == ["middle", "new", "old"]
    assert [path.name for path in root.iterdir()] == ["notes.txt"]
    (root / "notes.txt").unlink()
    assert clear(root) == [] and not root.exists()


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
    assert run("prune", "--max-size", "many") == 2
    assert "--max-size 'many' is no size; write it like 500M or 2G" in capsys.readouterr().err
    assert run("clear") == 0 and "removed 2 entries, 200 B" in capsys.readouterr().out
    assert run("info") == 0 and "empty" in capsys.readouterr().out


def test_sizes():
    assert [size_in_bytes(text) for text in ("7", "2k", "1.5 MB", "2GiB")] == [7, 2048, 3 * 512 * 1024, 2 << 30]
    assert [shown(size) for size in (0, 1023, 1024, 5 << 20, 3000 << 30)] == ["0 B", "1023 B", "1.0 kB", "5.0 MB", "3000.0 GB"]
    with pytest.raises(UsageError):
        size_in_bytes("-1")
