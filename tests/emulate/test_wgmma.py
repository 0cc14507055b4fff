"""wgmma against the documents: descriptors, swizzles, majors, types, fragments, scales; and what must not be touched."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import EmulationError, parse
from mmagen.emulate.arithmetic import wgmma
from mmagen.emulate.report.traffic import TrafficCounter
from tests.support.ptx_hopper import TYPES, copy_in, descriptor, fragment_of, k_major, mn_major, run, sums_of, text

B_AT = 32768
_BYTES = 40960


def operands(kind_a, kind_b, n, columns, seed=0):
    """(A, B) of small integers, in their types."""
    rng = np.random.default_rng([seed, n, columns])
    low = 0 if kind_a[0] == "u" or kind_b[0] == "u" else -3
    return tuple(
        rng.integers(low, 4, shape).astype(TYPES[kind]) for kind, shape in ((kind_a, (64, columns)), (kind_b, (n, columns)))
    )


def kernel(
    opcode,
    n,
    sums,
    a,
    b,
    tail,
    *,
    fragment=False,
    wait="wgmma.wait_group.sync.aligned 0;",
    fence=None,
    scale="1",
    before="",
    fill="fence.proxy.async.shared::cta;",
    commit="wgmma.commit_group.sync.aligned;",
    metadata="",
):
    """One wgmma on the images of A and B; a, b: descriptors. metadata: of a sparse one, its register and selector. The
    accumulators begin as 1."""
    count = n // 4 if sums == "f16" else n // 2
    fence = "wgmma.fence.sync.aligned;" if fence is None else fence
    one = {"f32": "0f3F800000", "s32": "1", "f16": "0x3C003C00"}[sums]
    kind = "f32" if sums == "f32" else "b32"
    names = ", ".join(f"%d{i}" for i in range(count))
    loads = [f"    ld.global.u32 %a{i}, [%rd4+{B_AT + 8192 + 4 * i}];" for i in range(4)] if fragment else []
    stores = [f"    st.global.{kind} [%rd5+{4 * i}], %d{i};" for i in range(count)]
    first = "{%a0, %a1, %a2, %a3}" if fragment else "%rd2"
    opcode, right = (f"sp.sync.aligned.{opcode}", f"%rd3, {metadata}") if metadata else (f"sync.aligned.{opcode}", "%rd3")
    body = "\n".join(
        [
            copy_in(_BYTES).replace("fence.proxy.async.shared::cta;", fill),
            f"    mov.b64 %rd2, {a};",
            f"    mov.b64 %rd3, {b};",
            "    mad.wide.u32 %rd4, %tid, 16, %in;",
            f"    mad.wide.u32 %rd5, %tid, {4 * count}, %out;",
            *loads,
            *(f"    mov.{kind} %d{i}, {one};" for i in range(count)),
            f"    setp.ne.b32 %p, {scale}, 0;",
            f"    {fence}",
            f"    {before}",
            f"    wgmma.mma_async.{opcode} {{{names}}}, {first}, {right}, %p{tail};",
            f"    {commit}",
            f"    {wait}",
            *stores,
        ]
    )
    return text(body, f"    .reg .{kind} %d<{count}>;\n    .reg .b32 %a<4>;"), 128 * 4 * count


def product(opcode, n, kinds, image_a, image_b, a, b, tail, a_regs=None, **options):
    """(D, report) of one wgmma."""
    data = np.concatenate([image_a[:B_AT], image_b[: _BYTES - B_AT], np.zeros(2048, np.uint8)])
    if a_regs is not None:
        data[B_AT + 8192 :] = a_regs.reshape(-1).view(np.uint8)
    ptx, size = kernel(opcode, n, kinds[0], a, b, tail, fragment=a_regs is not None, **options)
    raw, report = run(ptx, data, size, smem=_BYTES)
    return sums_of(raw.view(TYPES[kinds[0]]).reshape(128, -1), n), report


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64).T


@pytest.mark.parametrize("n", [8, 24, 128, 256])
@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_k_major_operands(swizzle, n):
    a, b = operands("bf16", "bf16", n, swizzle // 2)
    last = swizzle - 32  # the k block at the end of the line
    places = [descriptor(start + last, 16, 8 * swizzle, swizzle) for start in (0, B_AT)]
    image_b = k_major(b, swizzle)
    if len(b) * swizzle > _BYTES - B_AT:
        image_b, b = k_major(b[: 8192 // swizzle], swizzle), b[: 8192 // swizzle]
        n = len(b)
    d, report = product(f"m64n{n}k16.f32.bf16.bf16", n, ("f32",), k_major(a, swizzle), image_b, *places, ", 1, 1, 0, 0")
    assert (d == exact(a[:, -16:], b[:, -16:]) + 1).all() and not report.findings


@pytest.mark.parametrize("apart", [(128, 256), (1024, 128)], ids=["along K first", "along rows first"])
def test_k_major_core_matrices_without_swizzle(apart):
    a, b = operands("f16", "f16", 16, 16)
    leading, stride = apart
    images = [k_major(x, 16, leading, stride) for x in (a, b)]
    places = [descriptor(start, leading, stride, 16) for start in (0, B_AT)]
    d, report = product("m64n16k16.f32.f16.f16", 16, ("f32",), *images, *places, ", 1, 1, 0, 0")
    assert (d == exact(a, b) + 1).all() and not report.findings


@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
def test_operands_along_m_and_n(swizzle):
    n = 64
    a, b = operands("bf16", "bf16", n, 16)
    atom = 8 * swizzle
    leading, stride = (128, 256) if swizzle == 16 else (atom, atom * (128 // swizzle))
    images = [mn_major(x, swizzle, leading, stride) for x in (a, b)]
    places = [descriptor(start, leading, stride, swizzle) for start in (0, B_AT)]
    d, report = product(f"m64n{n}k16.f32.bf16.bf16", n, ("f32",), *images, *places, ", 1, 1, 1, 1")
    assert (d == exact(a, b) + 1).all() and not report.findings


@pytest.mark.parametrize(("sums", "a_kind", "b_kind", "k", "tail"), [
    ("f32", "f16", "f16", 16, ", 1, 1, 0, 0"), ("f16", "f16", "f16", 16, ", 1, 1, 0, 0"),
    ("f32", "bf16", "bf16", 16, ", 1, 1, 0, 0"), ("f32", "tf32", "tf32", 8, ", 1, 1"),
    ("f32", "e4m3", "e5m2", 32, ", 1, 1"), ("f16", "e5m2", "e4m3", 32, ", 1, 1"), ("s32", "s8", "s8", 32, ""),
    ("s32", "u8", "s8", 32, ""), ("s32", "u8", "u8", 32, "")])  # fmt: skip
@pytest.mark.parametrize("fragment", [False, True], ids=["SS", "RS"])
def test_types(sums, a_kind, b_kind, k, tail, fragment):
    a, b = operands(a_kind, b_kind, 32, k)
    places = [descriptor(start, 16, 256, 32) for start in (0, B_AT)]
    regs = fragment_of(a) if fragment else None
    tail = tail.removesuffix(", 0") if fragment else tail
    d, report = product(
        f"m64n32k{k}.{sums}.{a_kind}.{b_kind}", 32, (sums,), k_major(a, 32), k_major(b, 32), *places, tail, regs
    )
    assert (d == exact(a, b) + 1).all() and not report.findings


@pytest.mark.parametrize(
    ("tail", "scale", "expected"),
    [(", -1, 1, 0, 0", "1", lambda p: 1 - p), (", 1, -1, 0, 0", "1", lambda p: 1 - p), (", -1, -1, 0, 0", "0", lambda p: p)],
)
def test_scales(tail, scale, expected):
    a, b = operands("f16", "f16", 8, 16)
    places = [descriptor(start, 16, 256, 32) for start in (0, B_AT)]
    d, _ = product("m64n8k16.f32.f16.f16", 8, ("f32",), k_major(a, 32), k_major(b, 32), *places, tail, scale=scale)
    assert (d == expected(exact(a, b))).all()


def test_a_wrong_swizzle_gives_a_wrong_product():
    a, b = operands("f16", "f16", 8, 64)
    places = [descriptor(0, 16, 1024, 64), descriptor(B_AT, 16, 1024, 128)]
    d, _ = product("m64n8k16.f32.f16.f16", 8, ("f32",), k_major(a, 128), k_major(b, 128), *places, ", 1, 1, 0, 0")
    assert (d != exact(a[:, :16], b[:, :16]) + 1).any()


def _simple(**options):
    a, b = operands("f16", "f16", 8, 16)
    places = [descriptor(start, 16, 256, 32) for start in (0, B_AT)]
    return product("m64n8k16.f32.f16.f16", 8, ("f32",), k_major(a, 32), k_major(b, 32), *places, ", 1, 1, 0, 0", **options)[1]


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"wait": ""}, "wgmma_order", "accesses %d0 while a wgmma"),
        ({"wait": "wgmma.wait_group.sync.aligned 1;"}, "wgmma_order", "accesses"),
        ({"fence": " "}, "wgmma_order", "without a wgmma.fence"),
        ({"before": "add.f32 %d1, %d1, 0f3F800000;"}, "wgmma_order", "uses %d1"),
        ({"fill": ""}, "proxy_fence", "no fence.proxy.async between"),
    ],
)
def test_what_is_missing_around_a_wgmma_is_found(options, kind, says):
    findings = _simple(**options).findings
    assert [f for f in findings if f.kind == kind and says in f.message], findings


ONE = "setp.eq.u32 %q, %warp, 2;\n    @%q "
THREE = "setp.ne.u32 %q, %warp, 0;\n    @%q "
# Each warp by itself, but all of them.
APART = "setp.gt.u32 %q, %warp, 1;\n    @%q bra LATER{n};\n    {what}\n    bra BOTH{n};\nLATER{n}:\n    {what}\nBOTH{n}:"
WAIT, COMMIT, FENCE = (
    f"wgmma.{what}.sync.aligned{n};" for what, n in (("wait_group", " 0"), ("commit_group", ""), ("fence", ""))
)


@pytest.mark.parametrize("what", [("wait", WAIT), ("commit", COMMIT), ("fence", FENCE)], ids=lambda x: x[0])
@pytest.mark.parametrize(("guard", "warps"), [(ONE, 1), (THREE, 3)], ids=["one", "three"])
def test_what_a_part_of_the_warpgroup_executes_is_found(what, guard, warps):
    option, instruction = what
    findings = _simple(**{option: guard + instruction}).findings
    assert f"with {warps} of the 4 warps" in " ".join(f.message for f in findings if f.kind == "warp_divergence"), findings


@pytest.mark.parametrize("block", [128, 160, 224, 256])
def test_nothing_need_follow_what_a_part_of_the_warpgroup_executes(block):
    """The last wait of a warpgroup, which may have other warps beside it that are no warpgroup."""
    lines = "    setp.ge.u32 %p, %tid, 128;\n    @%p bra END;\n    {}\n    {}\n    {}\nEND:\n"
    partial = WAIT.replace("wgmma", "@%q wgmma")
    for instructions, found in (
        ((COMMIT, "setp.eq.u32 %q, %warp, 1;", partial), ["thread 32 of CTA 0 executes this with 1 of the 4 warps"]),
        ((COMMIT, "", WAIT), []),
    ):
        report = run(text(lines.format(*instructions)), np.zeros(4, np.uint32), 64, block=block)[1]
        assert [f.message[: len(text_)] for f, text_ in zip(report.findings, found, strict=True)] == found


def test_a_part_of_the_warpgroup_that_multiplies_is_found():
    (found,) = [
        f for f in _simple(before="setp.eq.u32 %q, %warp, 3;\n    @%q bra PAST;", commit=f"PAST:\n    {COMMIT}").findings
        if "without some threads" in f.message
    ]  # fmt: skip
    assert found.kind == "warp_divergence" and "mma_async" in found.instruction


def test_warps_may_come_one_after_another():
    """Each executes each instruction, at a time of its own, as long as it is the same one."""
    late = "setp.eq.u32 %q, %warp, 2;\n    @!%q bra PAST{n};\n    nanosleep.u32 100;\nPAST{n}:\n    {what}"
    places = ((FENCE, "fence"), (COMMIT, "commit"), (WAIT, "wait"))
    assert not _simple(**{option: late.format(n=n, what=what) for n, (what, option) in enumerate(places)}).findings


def test_the_same_instruction_is_one_not_two():
    findings = _simple(wait=APART.format(n=0, what=WAIT)).findings
    assert [f for f in findings if f.kind == "warp_divergence" and "with 2 of the 4 warps" in f.message]


def _through_registers(**options):
    """The report of a wgmma whose A is in registers."""
    a, b = operands("f16", "f16", 8, 16)
    places = [0, descriptor(B_AT, 16, 256, 32)]
    images = k_major(a, 32), k_major(b, 32)
    return product("m64n8k16.f32.f16.f16", 8, ("f32",), *images, *places, ", 1, 1, 0", fragment_of(a), **options)[1]


@pytest.mark.parametrize(("touch", "says"), [("mov.u32 %a0, 0;", ["accesses %a0"]), ("add.u32 %r9, %a0, 1;", [])])
def test_an_a_in_registers_may_be_read_meanwhile_but_not_changed(touch, says):
    report = _through_registers(wait=f"{touch}\n    {WAIT}")
    assert [f.message.split(" while")[0].split(" ", 5)[-1] for f in report.findings] == says


OWN = "mad.lo.u32 %r8, %tid, 4, %base;\n    add.u32 %r8, %r8, 16384;"  # a word of each thread beside the operands
OTHERS = "xor.b32 %r9, %tid, 32;\n    mad.lo.u32 %r9, %r9, 4, %base;\n    add.u32 %r9, %r9, 16384;"
MINE, YOURS = "%r8", "%r9"
STORES = f"""st.shared.u32 [{MINE}], 7; fence.proxy.async; bar.sync 0;
    setp.eq.u32 %p, %tid, 0; add.u32 %r10, %base, 16384;
    @%p cp.async.bulk.global.shared::cta.bulk_group [%out], [%r10], 512;
    @%p cp.async.bulk.commit_group; setp.eq.u32 %p, 0, 0;
"""  # what thread 0 stores of all of them


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (f"ld.shared.u32 %r10, [{MINE}];", f"st.shared.u32 [{YOURS}], 7;", set()),
        (f"st.shared.u32 [{MINE}], 7;", f"ld.shared.u32 %r10, [{YOURS}];", {"shared_race"}),
        (f"st.shared.u32 [{MINE}], 7;", f"st.shared.u32 [{YOURS}], 8;", {"shared_race"}),
        (f"st.shared.u32 [{MINE}], 7;", f"bar.sync 0;\n    ld.shared.u32 %r10, [{YOURS}];", set()),
        ("", f"ld.shared.u32 %r10, [{MINE}];\n    st.shared.u32 [{YOURS}], 7;", {"shared_race"}),
        (f"{STORES} cp.async.bulk.wait_group 0;", f"st.shared.u32 [{MINE}], 8;", set()),
        (STORES, f"st.shared.u32 [{MINE}], 8;\n    cp.async.bulk.wait_group 0;", {"async_race"}),
    ],
    ids=["overwritten", "read", "written twice", "a barrier", "behind the wait", "stored", "still being stored"],
)
def test_who_waited_for_a_in_registers_knows_what_was_read_but_not_what_was_written(before, after, found):
    """A wgmma has completed when all warps have issued it with what they loaded. It is no barrier."""
    report = _through_registers(before=f"{OWN}\n    {OTHERS}\n    {before}", wait=f"{WAIT}\n    {after}")
    assert {finding.kind for finding in report.findings} == found


FIRST = "wgmma.mma_async.sync.aligned.m64n8k{k}.f32.{kind}.{kind} {{{sums}}}, %rd2, %rd3, %p, 1, 1{majors};"
OF_F16, OF_TF32 = {"k": 16, "kind": "f16", "majors": ", 0, 0"}, {"k": 8, "kind": "tf32", "majors": ""}
SUMS, FRAGMENT = ", ".join(f"%d{i}" for i in range(4)), ", ".join(f"%a{i}" for i in range(4))


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (FIRST.format(**OF_F16, sums=SUMS), ""),
        (FIRST.format(**OF_TF32, sums=SUMS), "another shape, m64n8k8"),
        (FIRST.format(**OF_TF32, sums=SUMS) + f"{COMMIT} {WAIT}", "another shape, m64n8k8"),
        (FIRST.format(**OF_TF32, sums=SUMS) + FENCE, ""),
        (FIRST.format(**OF_F16, sums=FRAGMENT), "reads %a0 as A while a wgmma that writes it"),
        (FIRST.format(**OF_F16, sums=FRAGMENT) + FENCE, "reads %a0 as A while a wgmma that writes it"),
        (FIRST.format(**OF_F16, sums=FRAGMENT) + f"{COMMIT} {WAIT}", "reads %a0 as A, which a wgmma has written"),
        (FIRST.format(**OF_F16, sums=FRAGMENT) + f"{COMMIT} {WAIT} {FENCE}", ""),
        (
            FIRST.format(**OF_F16, sums="%r20, %r21, %r22, %r23").replace("%rd2", f"{{{SUMS}}}").replace("0, 0;", "0;"),
            "writes %d0 while a wgmma that reads",
        ),
    ],
)
def test_only_sums_of_one_shape_are_ordered_without_a_fence(first, says):
    a, b = operands("f16", "f16", 8, 16)
    kinds = ("f32",)
    images = (k_major(a, 32), k_major(b, 32))
    if "%a0" in first:
        first = "mov.b64 %rd2, 0;\n    " + first
    _, report = product(
        *("m64n8k16.f32.f16.f16", 8, kinds, *images, 0, descriptor(B_AT, 16, 256, 32), ", 1, 1, 0", fragment_of(a)),
        before=first,
    )
    assert [says in f.message and f.kind for f in report.findings] == (["wgmma_order"] if says else []), report.findings


def test_registers_that_hold_the_same_need_no_fence():
    assert not _simple(before="mov.f32 %d1, %d1;").findings


@pytest.mark.parametrize(
    "opcode",
    [
        "m64n9k16.f32.f16.f16",
        "m64n8k8.f32.f16.f16",
        "m64n8k16.f32.f16.bf16",
        "m64n40k32.s32.s8.s8",
        "m64n8k16.f16.bf16.bf16",
        "m64n264k16.f32.f16.f16",
    ],
)
def test_what_ptx_does_not_have_is_refused(opcode):
    with pytest.raises(EmulationError, match="wgmma"):
        wgmma.parse(("mma_async", "sync", "aligned", *opcode.split(".")))


def test_sums_saturate_only_where_asked():
    form = wgmma.parse(("mma_async", "sync", "aligned", "m64n8k32", "s32", "s8", "s8", "satfinite"))
    ones, start = np.ones((1, 64, 32), np.float32), np.full((1, 64, 8), 2**31 - 5, np.uint32)
    assert (wgmma.multiply(form, ones, ones[:, :8], start) == 2**31 - 1).all()
    wraps = wgmma.parse(("mma_async", "sync", "aligned", "m64n8k32", "s32", "s8", "s8"))
    assert (wgmma.multiply(wraps, ones, ones[:, :8], start) == np.uint32(2**31 + 27)).all()


@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
@pytest.mark.parametrize("mn", [False, True], ids=["K major", "MN major"])
def test_core_matrices_are_read_without_conflicts_in_every_layout(swizzle, mn):
    n = 32
    a, b = operands("bf16", "bf16", n, max(swizzle, 32) // 2 if not mn else 16)
    leading, stride = (128, 256) if swizzle == 16 else (8 * swizzle, 8 * swizzle * (1 if not mn else 128 // swizzle))
    make = mn_major if mn else k_major
    images = [make(x, swizzle, leading, stride) for x in (a, b)]
    places = [descriptor(start, leading, stride, swizzle) for start in (0, B_AT)]
    tail = ", 1, 1, 1, 1" if mn else ", 1, 1, 0, 0"
    _, report = product(f"m64n{n}k16.f32.bf16.bf16", n, ("f32",), *images, *places, tail)
    matrices = (64 + n) * 16 * 2 // 128
    assert [(t.requests, t.units, t.ideal) for t in report.traffic if t.space == "wgmma"] == [(matrices, matrices, matrices)]


def test_rows_without_swizzle_in_one_column_of_banks_conflict():
    counter = TrafficCounter("it.ptx")
    i = parse(text("    wgmma.fence.sync.aligned;"), "it.ptx").entries["probe"].instructions[-2]
    lines, chunk = np.arange(8), np.arange(2)[:, None] * 16
    counter.count_core_matrices(i, 128 * lines + chunk)
    assert [(t.requests, t.units, t.ideal) for t in counter.traffic()] == [(2, 16, 2)]
    counter.count_core_matrices(i, 128 * lines + (chunk ^ 16 * lines))
    assert [(t.requests, t.units, t.ideal) for t in counter.traffic()] == [(4, 18, 4)]


KEPT = "@!%p st.shared.u32 [%r8], %r9;"  # never executed


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("mov.u32 %r9, 0x44444444;", KEPT, "accesses %r9 while"),
        ("ld.shared.u32 %r9, [%r8];", KEPT, "accesses %r9 while"),
        ("@%p mov.u32 %r9, %r8;", KEPT, "accesses %r9 while"),
        ("add.u32 %r8, %r9, 1;", KEPT, ""),
        ("mov.u32 %r7, %r9;", KEPT.replace("%r9", "%r7"), ""),
        ("", "mov.u32 %r9, 0;", ""),
        ("add.u32 %r8, %r8, 1;", "mov.u32 %r9, 0;", "metadata in %r9, which nothing reads after the wait"),
        ("add.u32 %r8, %r8, 1;", "bra LATER;\nLATER:\n    @!%p bra PAST;\n    add.u32 %r8, %r9, 1;\nPAST:", ""),
    ],
    ids=["constant", "load", "copy", "read", "copied", "at once", "not read", "read on a path"],
)
def test_metadata_of_a_sparse_wgmma_may_be_read_meanwhile_but_not_changed(before, after, says):
    """Seen on an H200: the tensor core reads the register while it runs, and ptxas uses it for something else."""
    a, b = operands("f16", "f16", 8, 32)
    halves = a.reshape(64, 8, 4)
    kept = halves[:, :, :2].reshape(64, 16)  # 0x44444444: the first two of each four
    spread = np.concatenate([halves[:, :, :2], np.zeros((64, 8, 2))], axis=2).reshape(64, 32)
    d, report = product(
        "m64n8k32.f32.f16.f16",
        8,
        ("f32",),
        k_major(kept, 32),
        k_major(b, 64),
        descriptor(0, 16, 256, 32),
        descriptor(B_AT, 16, 512, 64),
        ", 1, 1, 0, 0",
        before="mov.u32 %r8, 0;\n    mov.u32 %r9, 0x44444444;",
        metadata="%r9, 0",
        wait=f"{before}\n    wgmma.wait_group.sync.aligned 0;\n    {after}",
    )
    assert (d == exact(spread, b) + 1).all()
    assert [f.kind for f in report.findings] == (["wgmma_order"] if says else [])
    assert says in "".join(f.message for f in report.findings)
