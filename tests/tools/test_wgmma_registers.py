"""tools.wgmma_registers finds writes to registers that a wgmma in flight reads, on every path."""

from __future__ import annotations

import pytest

from mmagen.build.sass import parse
from tools.wgmma_registers import faults, main, read_in_flight, written

# One batch in flight: the loop loads metadata, issues a batch of two, then waits for the batch before.
KERNEL = """
	.section	.text.kernel,"ax",@progbits
        /*0000*/                   LDS R9, [R2] ;
        /*0010*/                   HGMMA.SP.64x8x32.F32 R24, gdesc[UR4].tnspB, RZ, !UPT, R9, 0x0, gsb0 ;
.L_x_1:
        /*0020*/                   {load} ;
        /*0030*/                   WARPGROUP.ARRIVE ;
        /*0040*/                   HGMMA.SP.64x8x32.F32 R24, gdesc[UR4].tnspB, R24, {metadata}, 0x0 ;
        /*0050*/                   HGMMA.SP.64x8x32.F32 R24, gdesc[UR4].tnspB, R24, {metadata}, 0x1, gsb0 ;
        /*0060*/                   {between} ;
        /*0070*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0080*/                   {after} ;
        /*0090*/              @!P0 BRA `(.L_x_1) ;
        /*00a0*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*00b0*/                   MOV R9, R2 ;
        /*00c0*/                   EXIT ;
"""


def sentences(load="NOP", metadata="R9", between="NOP", after="NOP"):
    (kernel,) = parse(KERNEL.format(load=load, metadata=metadata, between=between, after=after))
    return [one.split(" writes ")[0].removeprefix("/*").split("*/")[0] for one in faults(kernel)]


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({}, []),
        ({"load": "LDS R9, [R2]"}, ["0020"]),  # the batch of the round before reads it
        ({"load": "LDS R10, [R2]", "metadata": "R10"}, ["0020"]),  # as soon as the loop comes round
        ({"between": "LDS R9, [R2]"}, ["0060"]),
        ({"after": "LDS R9, [R2]"}, ["0080"]),  # the newest group is still in flight
        ({"load": "LDS R10, [R2]", "metadata": "R11", "between": "IADD3 R9, R2, R3, RZ"}, ["0060"]),  # the first round
        ({"load": "LDS R10, [R2]", "metadata": "R11", "after": "IADD3 R9, R2, R3, RZ"}, []),  # the group is done
        ({"between": "LDS.64 R8, [R2]"}, ["0060"]),
        ({"between": "LDS.128 R4, [R2]"}, []),
        ({"between": "STS [R2], R9"}, []),
        ({"between": "@P1 SHFL.IDX PT, R9, R3, RZ, 0x1f"}, ["0060"]),
        ({"between": "ISETP.EQ.AND P0, PT, R9, RZ, PT"}, []),
        ({"between": "LOP3.LUT P1, R9, R2, R3, RZ, 0xc0, !PT"}, ["0060"]),
        ({"between": "IMAD.WIDE R8, R2, R3, RZ"}, ["0060"]),
    ],
)
def test_writes_are_found_where_a_wgmma_may_be_in_flight(changes, at):
    assert sentences(**changes) == at


def test_the_wait_may_leave_more_groups_in_flight():
    (kernel,) = parse(
        KERNEL.format(load="NOP", metadata="R11", between="NOP", after="MOV R9, RZ").replace("gsb0, 0x1", "gsb0, 0x2")
    )
    (found,) = faults(kernel)
    assert "MOV R9, RZ writes R9, which the wgmma in flight reads: /*0010*/ HGMMA.SP" in found


@pytest.mark.parametrize(
    ("wgmma", "registers"),
    [
        ("HGMMA.SP.64x256x32.F32.BF16 R24, gdesc[UR20], R24, R161, 0x1, gsb0", {161}),
        ("HGMMA.SP.64x256x32.F32 R24, gdesc[UR20].tnspB, RZ, !UPT, R161, 0x0", {161}),
        ("HGMMA.64x128x16.F32 R24, R4, gdesc[UR8], R24, gsb0", {4, 5, 6, 7}),
        ("IGMMA.SP.64x128x64.S8.S8 R24, R4, gdesc[UR8], R24, R9, 0x0", {4, 5, 6, 7, 9}),
        ("QGMMA.64x128x32.F32.E4M3.E4M3 R24, gdesc[UR8], R24, !UPT", set()),
    ],
)
def test_what_a_wgmma_reads_while_it_runs(wgmma, registers):
    assert read_in_flight(wgmma) == registers


@pytest.mark.parametrize(
    ("instruction", "registers"),
    [
        ("LDSM.16.M88.4 R8, [R2]", {8, 9, 10, 11}),
        ("CS2R R8, SRZ", {8, 9}),
        ("CS2R.32 R8, SR_CLOCKLO", {8}),
        ("ATOMS.ADD R8, [R2], R3", {8}),
        ("BAR.SYNC.DEFER_BLOCKING R8", set()),
        ("R2UR UR4, R8", set()),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R8", set()),
    ],
)
def test_what_other_instructions_write(instruction, registers):
    assert written(instruction) == registers


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (KERNEL.format(load="NOP", metadata="R9", between="NOP", after="NOP"), 0, "3 wgmma instructions, 0 writes"),
        (
            KERNEL.format(load="LDS R9, [R2]", metadata="R9", between="NOP", after="NOP"),
            1,
            "kernel: /*0020*/ LDS R9, [R2] writes R9",
        ),
        ("nothing", 2, "0 wgmma instructions"),
    ],
)
def test_the_exit_code_says_what_was_found(tmp_path, capsys, text, code, says):
    file = tmp_path / "k.sass"
    file.write_text(text)
    assert main([str(file)]) == code
    assert says in capsys.readouterr().out
