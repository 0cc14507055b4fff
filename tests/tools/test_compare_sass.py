"""tools.compare_sass finds main loops and tells how alike two of them are."""

from __future__ import annotations

from mmagen.build.sass import parse
from tools.compare_sass import main, verdict

KERNEL = """
	.section	.text.kernel,"ax",@progbits
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_1:
        /*0010*/                   LDS.128 R4, [R0] ;
        /*0020*/                   IADD3 R0, R0, 0x10, RZ ;
        /*0030*/                   HMMA.16816.F32 R8, R4, R6, R8 ;
        /*0040*/              @!P0 BRA `(.L_x_1) ;
        /*0050*/                   STG.E [R2], R8 ;
.L_x_2:
        /*0060*/                   IADD3 R3, R3, 0x1, RZ ;
        /*0070*/              @!P1 BRA `(.L_x_2) ;
        /*0080*/                   LDC R1, c[0x0][0x28] ;
        /*0090*/                   EXIT ;
.L_x_3:
        /*00a0*/                   NOP ;
        /*00b0*/                   BRA `(.L_x_1) ;
"""


def loop(text: str = KERNEL) -> list[str]:
    (kernel,) = parse(text)
    (body,) = kernel.main_loops()
    return body


def test_the_innermost_loop_with_mma_is_found_and_no_other():
    assert [one.split()[0] for one in loop()] == ["LDS.128", "IADD3", "HMMA.16816.F32", "@!P0"]


def test_loops_are_as_alike_as_they_are():
    assert verdict(loop(), loop(KERNEL.replace("L_x_1", "L_x_7"))) == "identical"
    assert verdict(loop(), loop(KERNEL.replace("R4", "R12"))) == "renamed"
    assert verdict(loop(), loop(KERNEL.replace("IADD3 R0, R0, 0x10, RZ", "VIADD R0, R0, 0x10"))) == "same mainstream"
    first, *others = loop()
    assert verdict(loop(), [*others, first]) == "rescheduled"
    assert verdict(loop(), loop(KERNEL.replace("LDS.128", "LDS.64"))) == "different"


def test_folders_are_compared_file_by_file(tmp_path, capsys):
    for name, text in (("before", KERNEL), ("same", KERNEL), ("after", KERNEL.replace("HMMA.16816", "HMMA.1688"))):
        (tmp_path / name / "gemm").mkdir(parents=True)
        (tmp_path / name / "gemm/kernel.sass").write_text(text)
    assert main([str(tmp_path / "before"), str(tmp_path / "same")]) == 0
    assert "main loops of 4 instructions: identical" in capsys.readouterr().out
    assert main([str(tmp_path / "before"), str(tmp_path / "after")]) == 1
    assert "different" in capsys.readouterr().out
