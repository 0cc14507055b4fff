"""mmagen diff: what differs between two specs or projects, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fakes import typed

ROOT = Path(__file__).resolve().parents[2]
CLASSIC = ROOT / "specs/sm80_gemm_classic.yaml"


def different(capsys, old: Path, new: Path, *options: str) -> dict:
    code, out, _ = typed(capsys, "diff", str(old), str(new), "--json", *options)
    assert code == 0
    return json.loads(out)


def changed(tmp_path: Path, of: Path, *changes: tuple[str, str]) -> Path:
    text = of.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / f"changed_{of.name}"
    path.write_text(text)
    return path


def test_a_project_and_its_spec_mean_the_same(capsys):
    project = ROOT / "generated/sm80_gemm_classic"
    found = different(capsys, CLASSIC, project)
    assert found["spec"] == found["derived"] == []
    assert "mean the same" in typed(capsys, "diff", str(CLASSIC), str(CLASSIC))[1]


def test_another_name_is_the_only_difference(capsys, tmp_path):
    found = different(capsys, CLASSIC, changed(tmp_path, CLASSIC, ("name: sm80_gemm_classic", "name: other_name")))
    assert [row["key"] for row in found["spec"]] == ["name"]
    assert found["derived"] == found["files"] == []


def test_stages_change_shared_memory_and_little_else(capsys, tmp_path):
    found = different(capsys, CLASSIC, changed(tmp_path, CLASSIC, ("stages: 3", "stages: 4")))
    assert found["spec"] == [{"key": "stages", "old": "3", "new": "4"}]
    rows = {(row["section"], row["row"]): (row["old"], row["new"]) for row in found["derived"]}
    assert rows["Shared memory per CTA", "stages"] == ("3", "4")
    assert rows["Shared memory per CTA", "total"][1].startswith("65,536 B")
    assert not any(section in ("TiledMMA", "Operand A (M,K)", "Epilogue") for section, _ in rows)
    assert [row["file"] for row in found["files"]] == ["include/NAME/config.cuh", "src/NAME.cu"]  # bytes of shared memory


def test_headers_that_come_and_go(capsys):
    old, new = (ROOT / f"specs/sm90_gemm_bf16_{name}.yaml" for name in ("tn", "pingpong"))
    files = {row["file"]: row["difference"] for row in different(capsys, old, new)["files"]}
    assert files["include/mmagen/sm90_cooperative.cuh"] == "gone" and files["include/mmagen/sm90_pingpong.cuh"] == "new"
    text = typed(capsys, "diff", str(old), str(new), "--device", "h100")[1]
    assert "Launches on H100 SXM" in text and "4104x4104x4104, waves" in text


def test_configs_of_libraries_by_name(capsys, tmp_path):
    library = ROOT / "specs/sm90_gemm_bf16_f32.yaml"
    assert "mid" in library.read_text()
    found = different(capsys, library, changed(tmp_path, library, ("name: mid", "name: middle")))
    assert {row["key"].split(":")[0] for row in found["spec"]} == {"mid", "middle"}


def test_a_hand_edit_of_a_project_is_seen(capsys, tmp_path):
    assert typed(capsys, "build", str(CLASSIC), "-o", str(tmp_path))[0] == 0
    header = tmp_path / "sm80_gemm_classic/include/mmagen/gemm_kernel.cuh"
    header.write_text(header.read_text() + "// mine\n")
    found = different(capsys, CLASSIC, tmp_path / "sm80_gemm_classic")
    assert found["files"] == [{"file": "include/mmagen/gemm_kernel.cuh", "difference": "1 line more, 0 less"}]


@pytest.mark.parametrize(("options", "part"), [(["--device", "h300"], "there are v100"), ([], "no spec, and no folder")])
def test_what_cannot_be_compared(capsys, tmp_path, options, part):
    code, _, err = typed(capsys, "diff", str(CLASSIC), str(tmp_path if not options else CLASSIC), *options)
    assert code == 2 and part in err


def test_a_refused_spec_is_reported(capsys, tmp_path):
    code, _, err = typed(capsys, "diff", str(CLASSIC), str(changed(tmp_path, CLASSIC, ("stages: 3", "stages: 300"))))
    assert code == 2 and "stages: 300 need" in err
