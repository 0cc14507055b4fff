"""A TMPDIR that compilers cannot use is named in a sentence of mmagen's, before any compiler starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmagen.cli.main import main
from mmagen.core.errors import BuildError
from mmagen.host_runtime.compile import compile_program
from mmagen.toolchain.temporary import check_temporary_folder

ROOT = Path(__file__).resolve().parents[2]
SPEC = str(ROOT / "specs/hello_micro.yaml")
SENTENCE = "compilers write temporary files there: name a folder that can be written, or unset TMPDIR"


@pytest.mark.parametrize("name", ["", "with blank", "quo'te", "ünï", "a;b"])
def test_a_folder_that_can_be_written_is_taken(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    check_temporary_folder({"TMPDIR": str(folder)})
    check_temporary_folder({})


def test_others_are_named_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("file", "here/it", "a$b/it", "a`b/it"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    reasons = {
        "": "which is no full path",
        "here": "which is no full path",
        str(tmp_path / "absent"): "which is no folder",
        str(tmp_path / "file"): "which is no folder",
        str(tmp_path / "a$b"): "in which $ and ` mean something to nvcc",
        str(tmp_path / "a`b"): "in which $ and ` mean something to nvcc",
    }
    for given, why in reasons.items():
        with pytest.raises(BuildError) as caught:
            check_temporary_folder({"TMPDIR": given})
        assert str(caught.value) == f"TMPDIR is {given!r}, {why}; {SENTENCE}"
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(BuildError, match="which cannot be written"):
        check_temporary_folder({"TMPDIR": str(tmp_path)})


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "words",
    [
        ("verify", "--no-cache", "--on", "cpu", SPEC),
        ("build", "--no-cache", "--compile", SPEC),
        ("verify", "--no-cache", "--on", "cpu", "--atoms", "SM80_16x8x16_F32F16F16F32_TN"),
    ],
    ids=lambda words: " ".join(words[:-1]),
)
def test_verbs_that_compile_say_it_once(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 3
    said = capsys.readouterr()
    assert said.err == f"mmagen: TMPDIR is '/nonexistent', which is no folder; {SENTENCE}\n"
    assert "tmpxft" not in said.out


@pytest.mark.nvcc
def test_programs_say_it_too(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    source = ROOT / "tests/host_runtime/program_test.cu"
    with pytest.raises(BuildError, match=r"^TMPDIR is '/nonexistent', which is no folder"):
        compile_program([source], "sm_80", tmp_path)
