"""What the emulator finds that a right result hides, that it finds nothing in sound kernels, and what it counts."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import GlobalMemory
from mmagen.emulate.memory.spaces import GLOBAL_BASE
from mmagen.emulate.report.traffic import bank_passes, sectors
from tests.support.ptx import kinds, run

ADDRESS = "mov.u32 %r2, smem; shl.b32 %r3, %r1, 2; add.s32 %r4, %r2, %r3;"
# Each thread writes its word and reads its neighbour's.
WRITE, READ = "st.shared.u32 [%r4], %r1;", "xor.b32 %r5, %r4, 4; ld.shared.u32 %r6, [%r5];"
COPY = "cp.async.ca.shared.global [%r4], [%rd3], 4; cp.async.commit_group;"
STORE = "st.global.u32 [%rd4], %r6;"


def found(body: str, kind: str, **options):
    """The one finding of a kind; it must be the only kind."""
    report = run(body, **{"shared": 1024, **options})[1]
    assert kinds(report) == {kind}, [str(f) for f in report.findings]
    return report.findings[0]


@pytest.mark.parametrize(
    "body",
    [
        ADDRESS + WRITE + "bar.sync 0;" + READ + STORE,
        ADDRESS + WRITE + "bar.sync 0;" + READ + "bar.sync 0;" + WRITE,
        ADDRESS + WRITE + "bar.warp.sync -1;" + READ + "bar.warp.sync -1;" + WRITE,
        ADDRESS + WRITE + "ld.shared.u32 %r6, [%r4];" + WRITE + STORE,
        ADDRESS + COPY + "cp.async.wait_group 0; bar.sync 0;" + READ + STORE,
        ADDRESS + COPY + "cp.async.wait_all; ld.shared.u32 %r6, [%r4];" + STORE,
        # A second stage is filled while the first is read.
        ADDRESS + COPY + "add.s32 %r4, %r4, 512;" + COPY + "sub.s32 %r4, %r4, 512; cp.async.wait_group 1; bar.sync 0;" + READ,
        # All read one word, then one thread writes it behind a barrier.
        ADDRESS
        + WRITE
        + "bar.sync 0; ld.shared.u32 %r6, [%r2]; bar.sync 0; setp.eq.s32 %p1, %r1, 5; @%p1 st.shared.u32 [%r2], 3;",
        "setp.eq.s32 %p1, %r1, 0; @%p1 mov.u32 %r2, 1; @%p1 st.global.u32 [%rd4], %r2;",
    ],
)
def test_sound_kernels_raise_no_alarm(body):
    report = run(body, threads=32 if "warp" in body else 64, shared=1024)[1]
    assert report.findings == [] and report.completed


@pytest.mark.parametrize(
    "body, message",
    [
        (ADDRESS + WRITE + READ + STORE, "which thread 1 wrote since the last barrier"),
        (ADDRESS + WRITE + "bar.sync 0;" + READ + WRITE, "which thread 1 read since the last barrier"),
        ("mov.u32 %r2, smem; st.shared.u32 [%r2], 7;", "together with thread"),
        (
            ADDRESS + "st.shared.u8 [%r4], 1; xor.b32 %r5, %r4, 4; st.shared.u8 [%r5], 1;",
            "writes shared byte 4, which thread 1",
        ),
        # Right in lockstep: lane 0 reads before the others of its warp write.
        (
            ADDRESS + WRITE + "bar.sync 0; ld.shared.u32 %r6, [%r2]; setp.eq.s32 %p1, %r1, 5; @%p1 st.shared.u32 [%r2], 3;",
            "read",
        ),
        # Warp barriers do not order different warps.
        (ADDRESS + WRITE + "bar.warp.sync -1; xor.b32 %r5, %r4, 128; ld.shared.u32 %r6, [%r5];", "which thread 32 wrote"),
    ],
)
def test_shared_races(body, message):
    finding = found(body, "shared_race", threads=64)
    assert message in finding.message and finding.message.startswith("thread ")


def test_races_count_per_cta_and_name_their_place():
    body = '.file 1 "include/mine.cuh"\n.file 2 "/x/cute/copy.hpp"\n.loc 1 12 1\n' + ADDRESS + WRITE
    body += "\n.loc 2 99 5, function_name $L__info_string0, inlined_at 1 12 1\n" + READ
    finding = found(body, "shared_race", grid=3)
    assert (finding.file, finding.line, finding.count) == ("include/mine.cuh", 12, 96)
    assert finding.instruction == "ld.shared.u32 %r6, [%r5]" and (finding.thread, finding.cta) == (0, 0)
    assert str(finding).startswith("include/mine.cuh:12: shared_race: thread 0 of CTA 0 reads shared byte 4")


@pytest.mark.parametrize(
    "body, message",
    [
        (ADDRESS + COPY + READ, "in flight"),
        (ADDRESS + COPY + "cp.async.wait_group 1; bar.sync 0;" + READ, "in flight"),
        (ADDRESS + "cp.async.ca.shared.global [%r4], [%rd3], 4; cp.async.wait_group 0; bar.sync 0;" + READ, "in flight"),
        (ADDRESS + COPY + "cp.async.wait_group 0;" + READ, "with no barrier since"),
        (ADDRESS + COPY + WRITE, "writes shared byte 0 while a cp.async of its own"),
        (ADDRESS + COPY + "bar.sync 0; cp.async.wait_group 0;" + READ, "with no barrier since"),
    ],
)
def test_copies_that_nobody_waited_for(body, message):
    assert message in found(body, "cp_async_unwaited", data=np.arange(64, dtype=np.uint64)).message


def test_a_copy_into_what_others_still_read():
    body = ADDRESS + WRITE + "bar.sync 0;" + READ + COPY + "cp.async.wait_all;"
    assert "read since the last barrier" in found(body, "shared_race").message


def test_memory_that_nothing_wrote():
    finding = found(ADDRESS + "ld.shared.u32 %r6, [%r4];" + STORE, "uninitialised_shared")
    assert "shared byte 0, which nothing wrote" in finding.message and finding.count == 32
    assert "out[0], which nothing wrote" in found("ld.global.u32 %r6, [%rd4];", "uninitialised_global").message


def test_registers_that_nothing_wrote():
    body = "setp.lt.u32 %p1, %r1, 20; @%p1 mov.u32 %r2, 1; add.s32 %r3, %r2, 1; st.global.u32 [%rd4], %r3;"
    finding = found(body, "uninitialised_register")
    assert "thread 20 of CTA 0 reads %r2" in finding.message and finding.count == 12
    assert "reads %p2" in found("@%p2 bra END; END: mov.u32 %r2, 1;", "uninitialised_register").message
    loop = "LOOP: setp.eq.s32 %p1, %r1, 40; @%p1 mov.u32 %r3, %r2; mov.u32 %r2, 1; @%p1 bra LOOP;"
    assert run(loop)[1].findings == []


def test_an_unwritten_part_counts_where_a_value_uses_it():
    pack, rest = "mov.b64 %rd9, {%r2, %r1};", "st.global.u32 [%rd4], %r3;"
    high = "{ .reg .b32 tmp; mov.b64 {tmp, %r3}, %rd9; }"
    assert run(pack + high + rest)[1].findings == []
    for used in (
        "mov.b64 {%r3, %r4}, %rd9;",  # the unwritten half is stored
        high + "st.global.u64 [%rd4], %rd9;",
        high + "cvt.u32.u64 %r3, %rd9;",
        high + "add.s32 %r3, %r3, %r2;",
    ):
        assert "reads %r2, which it never wrote" in found(pack + used + rest, "uninitialised_register").message


def test_unwritten_bytes_count_where_a_product_uses_them():
    """nvcc computes the quotient of a small counter by dp2a, of whose second operand the other two bytes are never written."""
    pack = "prmt.b32 %r5, %r1, 0, 0x3340; prmt.b32 %r6, %r2, %r7, 0x3340; prmt.b32 %r5, %r5, %r6, 0x5410;"
    rest = "dp2a.lo.u32.u32 %r3, %r4, %r5, %r4; st.global.u32 [%rd4], %r3;"
    assert run("mov.u32 %r4, 259;" + pack + rest)[1].findings == []
    for used in (
        rest.replace(".lo", ".hi"),
        "dp2a.lo.u32.u32 %r3, %r5, %r4, %r4; st.global.u32 [%rd4], %r3;",
        "dp2a.lo.u32.u32 %r3, %r5, %r5, %r4; st.global.u32 [%rd4], %r3;",
        rest + "st.global.u32 [%rd4], %r5;",
        "prmt.b32 %r5, %r5, %r5, 0x1032;" + rest,
    ):
        assert "reads %r2, which it never wrote" in found("mov.u32 %r4, 259;" + pack + used, "uninitialised_register").message
    none_of_it = "prmt.b32 %r3, %r1, %r2, 0x3210; st.global.u32 [%rd4], %r3;"  # every byte comes from %r1
    assert run(none_of_it)[1].findings == []
    assert run("mov.b64 {_, _}, %rd9;")[1].findings == []


@pytest.mark.parametrize("text", ["prmt.b32 %r3, %r1, %r2;", "dp2a.lo.u32.u32 %r3, %r1;", "mov.b64 {}, %rd3;"])
def test_a_malformed_instruction_that_is_not_reached_ends_nothing(text):
    assert run("bra done;" + text + "done: st.global.u32 [%rd4], %r1;")[1].findings == []


def test_global_bounds():
    finding = found("ld.global.u64 %rd10, [%rd3+24];", "global_out_of_bounds")
    assert "thread 29 of CTA 0 accesses 8 bytes at 0 bytes past the end of in (256 bytes)" in finding.message
    assert finding.count == 3
    assert "16 bytes before out (256 bytes)" in found("st.global.u64 [%rd4+-16], 0;", "global_out_of_bounds").message
    assert "near no allocation" in found("mov.u64 %rd9, 64; ld.global.u8 %r3, [%rd9];", "global_out_of_bounds").message
    finding = found("st.global.u64 [%rd2+248], 0;", "global_out_of_bounds", threads=1, out_bytes=252)
    assert "out[248], of which 4 bytes lie past its end" in finding.message


def test_bad_accesses_read_poison_and_write_nothing():
    out, report = run("ld.global.u32 %r2, [%rd3+4096]; st.global.u32 [%rd4], %r2; st.global.u32 [%rd4+8192], 3;", threads=4)
    assert out.view("u4")[::2].tolist() == [0xFFFFFFFF] * 4 and report.completed


def test_inputs_are_read_only():
    assert "in[8], which is read-only" in found("st.global.u32 [%rd1+8], 1;", "read_only").message


def test_shared_bounds_and_alignment():
    finding = found(ADDRESS + "st.shared.u32 [%r4+960], %r1;", "shared_out_of_bounds")
    assert "accesses 4 bytes at shared byte 1024; there are 1024" in finding.message and finding.count == 16
    assert "not a multiple of 8" in found("mov.u32 %r2, smem; st.shared.u64 [%r2+4], 0;", "misaligned", threads=1).message
    assert "not a multiple of 4" in found("ld.global.u32 %r2, [%rd1+2];", "misaligned").message
    assert "not a multiple of 16" in found(ADDRESS + "cp.async.cg.shared.global [%r4], [%rd1], 16;", "misaligned").message


@pytest.mark.parametrize(
    "body, message, completed",
    [
        ("setp.lt.u32 %p1, %r1, 32; @%p1 bra END; bar.sync 0; END: mov.u32 %r2, 1;", "32 threads of its CTA never reach", True),
        ("setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 0; bra END; A: bar.sync 1; END: mov.u32 %r2, 1;", "forever", False),
        (
            "setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 0; bra END; A: bar.sync 0; END: mov.u32 %r2, 1;",
            "another instruction",
            True,
        ),
        ("bar.sync 2, 96;", "64 of 96 threads reach it", False),
        ("bar.sync 16;", "uses barrier 16; a CTA has barriers 0 to 15", True),
        ("mov.u32 %r2, 16; barrier.sync %r2, 64;", "uses barrier 16", True),
        ("bar.arrive 17, 128; bar.sync 17, 128;", "uses barrier 17", True),
        ("bar.sync 1, 48;", "uses barrier 1 with 48 threads, which is not a multiple of 32", True),
        (
            "setp.lt.u32 %p1, %r1, 32; @%p1 bar.arrive 1, 64; bar.sync 1, 64;",
            "is one of 96 threads at barrier 1, which 64 complete",
            None,
        ),
        (
            "setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 1, 64; bra END; A: bar.sync 1, 32; END: mov.u32 %r2, 1;",
            "uses barrier 1 with 32 threads; those that have arrived there named 64",
            None,
        ),
        (
            "setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 1, 96; bra END; A: bar.arrive 1, 64; END: mov.u32 %r2, 1;",
            "uses barrier 1 with",
            None,
        ),
        (
            "setp.lt.u32 %p1, %r1, 32; @%p1 bra A; barrier.red.popc.u32 %r2, 1, 64, %p1; bra END; A: barrier.sync 1, 64; END: ret;",
            "reduces at barrier 1 together with threads that do not",
            True,
        ),
    ],
)
def test_barriers_that_not_all_reach(body, message, completed):
    """completed: None where both may be."""
    report = run(body, threads=64)[1]
    assert kinds(report) == {"barrier_divergence"} and completed in (None, report.completed)
    assert any(message in f.message for f in report.findings)


@pytest.mark.parametrize(("read", "races"), [("%r4", set()), ("%r5", {"shared_race"})], ids=["own", "of the other warp"])
@pytest.mark.parametrize("count", ["32", "%r6"])
def test_a_warp_completes_a_barrier_of_32_threads_on_its_own(read, races, count):
    """However many warps use the same number: they do not wait for each other. Each lane reads what its neighbour wrote."""
    body = ADDRESS + WRITE + f"mov.u32 %r6, 32; bar.sync 1, {count}; xor.b32 %r4, %r4, 4; xor.b32 %r5, %r4, 128;"
    report = run(body + f"ld.shared.u32 %r2, [{read}];", threads=64, shared=1024)[1]
    assert report.completed and kinds(report) == races


@pytest.mark.parametrize(
    ("bit", "races"), [(128, set()), (256, {"shared_race"})], ids=["of the same half", "of the other half"]
)
@pytest.mark.parametrize(
    "barrier",
    [
        "setp.lt.u32 %p1, %r1, 64; @%p1 bra A; bar.sync 1, 64; bra END; A: bar.sync 2, 64; END:",
        "shr.u32 %r6, %r1, 6; barrier.sync %r6, 64;",
        "shr.u32 %r6, %r1, 6; setp.lt.u32 %p1, %r1, 64; barrier.red.popc.u32 %r7, %r6, 64, %p1;",
    ],
    ids=["two numbers", "a register", "reductions"],
)
def test_barriers_of_two_halves_do_not_order_one_after_the_other(barrier, bit, races):
    body = ADDRESS + WRITE + barrier + f"xor.b32 %r5, %r4, {bit}; ld.shared.u32 %r2, [%r5];"
    report = run(body, threads=128, shared=1024)[1]
    assert report.completed and kinds(report) == races


def test_matrix_instructions_need_their_warp():
    body = ADDRESS + WRITE + "bar.sync 0; setp.gt.u32 %p1, %r1, 3; @%p1 ret; and.b32 %r5, %r4, -16;"
    body += "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r5];"
    report = run(body, shared=1024)[1]
    assert "warp_divergence" in kinds(report)
    assert "with 4 of its warp's 32 threads" in next(f for f in report.findings if f.kind == "warp_divergence").message


def test_ctas_that_write_the_same_place():
    finding = found("st.global.u32 [%rd4], %r1;", "global_race", grid=2)
    assert finding.message == "CTA 0 writes global memory that CTA 1 writes in the same launch" and finding.count == 32
    assert found("st.global.u32 [%rd4], %r1;", "global_race", grid=2, lanes=32).cta == 1
    assert found("red.global.add.u32 [%rd2], 1;", "uninitialised_global", grid=2).count == 64


def test_findings_are_capped_but_the_run_goes_on():
    body = "".join(f"ld.global.u8 %r2, [%rd1+{5000 + n}];" for n in range(130))
    report = run(body)[1]
    assert len(report.findings) == 100 and report.completed


# Counts


def lanes(function) -> np.ndarray:
    return np.array([[function(n) for n in range(32)]], dtype=np.int64)


@pytest.mark.parametrize(
    "function, size, expected",
    [
        (lambda n: 4 * n, 4, (1, 1)),
        (lambda n: 8 * n, 4, (2, 1)),
        (lambda n: 128 * n, 4, (32, 1)),
        (lambda n: 0, 4, (1, 1)),
        (lambda n: 132 * n, 4, (1, 1)),
        (lambda n: 2 * n, 2, (1, 1)),
        (lambda n: 8 * n, 8, (2, 2)),
        (lambda n: 16 * n, 16, (4, 4)),
        (lambda n: 128 * (n % 8) + 16 * (n // 8), 16, (32, 4)),
        (lambda n: 128 * (n % 8) + 16 * ((n // 8) ^ (n % 8)), 16, (4, 4)),
        (lambda n: 80 * n, 16, (4, 4)),
    ],
)
def test_bank_passes(function, size, expected):
    assert bank_passes(lanes(function), None, size) == expected


@pytest.mark.parametrize(
    "function, size, expected",
    [
        (lambda n: 4 * n, 4, (4, 4)),
        (lambda n: 4 * n + 16, 4, (5, 4)),
        (lambda n: 32 * n, 4, (32, 4)),
        (lambda n: 0, 4, (1, 1)),
        (lambda n: 16 * n, 16, (16, 16)),
        (lambda n: 2 * n, 2, (2, 2)),
    ],
)
def test_sectors(function, size, expected):
    assert sectors(lanes(function), None, size) == expected


def test_inactive_lanes_cost_nothing():
    active = np.arange(32)[None, :] < 2
    assert bank_passes(lanes(lambda n: 128 * n), active, 4) == (2, 1)
    assert sectors(lanes(lambda n: 128 * n), active, 4) == (2, 1)


def test_traffic_is_counted_per_instruction_and_line():
    body = '.file 1 "mine.cuh"\n.loc 1 5 1\n' + "mov.u32 %r2, smem; shl.b32 %r3, %r1, 3; add.s32 %r4, %r2, %r3;"
    body += "st.shared.u32 [%r4], %r1; st.shared.u32 [%r4+4], %r1;\n.loc 1 6 1\nst.global.u64 [%rd4], %rd5;"
    report = run(body, threads=64, shared=1024)[1]
    stores = [t for t in report.traffic if t.space == "shared"]
    assert [(t.requests, t.units, t.ideal) for t in stores] == [(2, 4, 2), (2, 4, 2)]
    by_line = {(t.line, t.space): (t.requests, t.units, t.ideal) for t in report.by_line()}
    assert by_line == {(5, "shared"): (4, 8, 4), (6, "global"): (2, 16, 16)}


def test_ldmatrix_counts_one_pass_per_matrix_without_conflicts():
    body = "mov.u32 %r2, smem; shl.b32 %r3, %r1, 4; add.s32 %r4, %r2, %r3; st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};"
    body += "bar.sync 0; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r4];"
    report = run(body, shared=1024)[1]
    assert [(t.units, t.ideal) for t in report.traffic if t.instruction.startswith("ldmatrix")] == [(4, 4)]


def test_global_memory_by_name():
    memory = GlobalMemory()
    first = memory.allocate("a", np.arange(3, dtype=np.float32))
    second = memory.allocate("b", size=10, misalign=4)
    assert first % 256 == 0 and second % 256 == 4 and first > GLOBAL_BASE
    assert memory.read("a", np.float32).tolist() == [0, 1, 2]
    assert memory.read_rows("a")[1].all() and not memory.read_rows("b")[1].any()
    assert memory.describe(second + 3) == "b[3]"


def test_warps_may_meet_at_a_named_barrier_from_different_places():
    """PTX ISA, "barrier": all threads of a warp execute the same instruction. Producers and consumers of ThunderKittens do not."""
    body = "setp.lt.u32 %p1, %r1, {}; @%p1 bra A; bar.sync {}; bra END; A: bar.sync {}; END: mov.u32 %r2, 1;"
    assert not run(body.format(32, 15, 15), threads=64)[1].findings
    findings = run(body.format(16, 15, 15), threads=64)[1].findings
    assert {finding.kind for finding in findings} == {"warp_divergence"}
