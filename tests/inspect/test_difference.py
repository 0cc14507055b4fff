"""mmagen diff: what differs between two specs or projects, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from mmagen.inspect import machine_code
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
    of_bytes = ["include/NAME/config.cuh", "src/NAME.cu"]  # of shared memory
    assert [row["file"] for row in found["files"]] == ["figures/pipeline.svg", *of_bytes]


def test_each_section_is_named_once(capsys, tmp_path):
    other = changed(tmp_path, CLASSIC, ("tile: [128, 128, 32]", "tile: [128, 128, 64]"))
    text = typed(capsys, "diff", str(CLASSIC), str(other))[1]
    lines = [line.strip() for line in text.splitlines()]
    assert len(different(capsys, CLASSIC, other)["derived"]) > 5
    assert lines.count("Operand A (M,K)") == lines.count("TiledMMA") == 1


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


def test_each_kernel_of_a_library_without_rules_is_compared(capsys, tmp_path):
    library = ROOT / "specs/sm80_gemm_bf16_library.yaml"
    found = different(capsys, library, changed(tmp_path, library, ("stages: 3", "stages: 2")))
    rows = [row["row"] for row in found["derived"] if row["section"].startswith("Selection")]
    assert len(rows) == library.read_text().count("    stages: 3") > 1 and all(row.endswith(", stages") for row in rows)


def test_a_hand_edit_of_a_project_is_seen(capsys, tmp_path):
    assert typed(capsys, "build", str(CLASSIC), "-o", str(tmp_path))[0] == 0
    header = tmp_path / "sm80_gemm_classic/include/mmagen/gemm_kernel.cuh"
    header.write_text(header.read_text() + "// mine\n")
    found = different(capsys, CLASSIC, tmp_path / "sm80_gemm_classic")
    assert found["files"] == [{"file": "include/mmagen/gemm_kernel.cuh", "difference": "1 line more, 0 less"}]


@pytest.mark.parametrize(("options", "part"), [(["--device", "h300"], "there are v100"), ([], "neither a spec")])
def test_what_cannot_be_compared(capsys, tmp_path, options, part):
    code, _, err = typed(capsys, "diff", str(CLASSIC), str(tmp_path if not options else CLASSIC), *options)
    assert code == 2 and part in err


def test_a_refused_spec_is_reported(capsys, tmp_path):
    code, _, err = typed(capsys, "diff", str(CLASSIC), str(changed(tmp_path, CLASSIC, ("stages: 3", "stages: 300"))))
    assert code == 2 and "stages: 300 need" in err and "is accepted with these lines:\n    stages: " in err


# --- Machine code ----------------------------------------------------------------------------------------------------

FUNCTION = "_ZN6mmagen4v0_111gemm_kernelIN17sm80_gemm_classic6ConfigELb1EEEvNS0_10GemmParamsIT_EE"
LOOP = ("LDSM.16.M88.4 R4, [R0]", "HMMA.16816.F32 R8, R4, R6, R8", "@!P0 BRA 0x10", "STL [R1], R8", "EXIT", "NOP")
# What the two tools of CUDA print of a library: the number of copies of LDSM is in the library's name.
FAKE = """#!/bin/sh
case "$1" in
  --version) echo "Cuda compilation tools, release 13.0, V13.0.85" ;;
  -res-usage) echo " Function {function}:"; echo "  REG:$(cat "$2") STACK:8 SHARED:0" ;;
  -sass) echo "	code for sm_80"; echo "		Function : {function}"; sed -n "1,$(cat "$2")p" "{code}" ;;
esac
"""


def _built(folder: Path, lines: str) -> Path:
    """A generated project with a library, whose content says how much of the code it has."""
    project = folder / "sm80_gemm_classic"
    shutil.copytree(ROOT / "generated/sm80_gemm_classic", project)
    (project / "build").mkdir()
    (project / "build/libsm80_gemm_classic.a").write_text(lines)
    return project


@pytest.fixture
def cuobjdump(tmp_path, monkeypatch) -> Path:
    code = tmp_path / "code.txt"
    code.write_text("".join(f"        /*{16 * number:04x}*/                   {one} ;\n" for number, one in enumerate(LOOP)))
    tool = tmp_path / "bin/cuobjdump"
    tool.parent.mkdir()
    tool.write_text(FAKE.format(function=FUNCTION, code=code))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return tool


def test_machine_code_of_built_projects_is_counted_by_class(capsys, tmp_path, cuobjdump):
    old, new = _built(tmp_path / "old", "3"), _built(tmp_path / "new", "6")
    found = different(capsys, old, new)
    assert found["code_not_compared"] == "" and found["files"] == found["derived"] == []
    rows = {row["what"]: (row["old"], row["new"]) for row in found["code"]}
    assert {row["kernel"] for row in found["code"]} <= {"gemm_kernel<NAME::Config, true> sm_80", f"{FUNCTION} sm_80"}
    assert rows == {
        "registers": ("3", "6"),
        "instructions": ("3", "5"),
        "spills (LDL, STL)": ("0", "1"),
        "branches": ("1", "2"),
    }
    text = typed(capsys, "diff", str(old), str(new))[1]
    assert "Machine code\n" in text and "spills (LDL, STL)" in text
    same = typed(capsys, "diff", str(old), str(_built(tmp_path / "again", "3")))[1]
    assert "no key, derived value, instruction count or generated file differs" in same


def test_what_machine_code_needs_is_said(capsys, tmp_path, cuobjdump, monkeypatch):
    project, built = ROOT / "generated/sm80_gemm_classic", _built(tmp_path / "built", "3")
    unbuilt = shutil.copytree(project, tmp_path / "unbuilt")
    (unbuilt / "src/sm80_gemm_classic.cu").write_text("// edited by hand, so that no build of it is kept\n")
    found = different(capsys, built, unbuilt)
    assert found["code"] == [] and found["code_not_compared"].startswith(f"{unbuilt} is not built; mmagen build --compile")
    cuobjdump.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "release 13.0" && exit\necho "no nvdisasm" >&2\nexit 1\n')
    assert "no nvdisasm; cuobjdump and nvdisasm are in" in different(capsys, built, built)["code_not_compared"]
    found_tools = machine_code.find_toolchain(want=("nvcc",))
    monkeypatch.setattr(machine_code, "find_toolchain", lambda want: found_tools)
    assert different(capsys, built, built)["code_not_compared"].startswith("cuobjdump is not found; ")
    assert "Machine code is not compared: cuobjdump is not found" in typed(capsys, "diff", str(built), str(built))[1]
    assert different(capsys, CLASSIC, CLASSIC)["code_not_compared"] == "", "specs have none"


def test_problems_are_told_in_words(capsys, tmp_path):
    new = tmp_path / "changed.yaml"
    new.write_text(CLASSIC.read_text() + "problems:\n  - {shape: [3, 4, 5], ld_pad: 2}\n  - [6, 7, 8]\n")
    (row,) = [row for row in different(capsys, CLASSIC, new)["spec"] if row["key"] == "problems"]
    assert row["new"] == "3x4x5 ld+2; 6x7x8"
