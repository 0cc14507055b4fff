"""TMA against the documents: boxes, swizzles, what lies outside of a tensor, multicast, stores and their groups."""

from __future__ import annotations

import numpy as np
import pytest

from mmagen.emulate import EmulationError, TensorMap
from tests.support.ptx_hopper import run, text, turned

BAR = 16384  # where the mbarrier lies
_SMEM = BAR + 64

SETUP = f"""
    add.u32 %bar, %base, {BAR};
    @%lead mbarrier.init.shared::cta.b64 [%bar], 1;
    @%lead fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
"""
WAIT = """
WAITING:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
    @!%p bra WAITING;
"""
DONE = """
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
"""


def copy_out(bytes_, threads=128):
    """Lines that copy the begin of shared memory to the output, CTA by CTA."""
    lines = [f"    mul.wide.u32 %rd6, %rank, {bytes_};", "    add.u64 %rd6, %out, %rd6;"]
    for start in range(0, bytes_, 16 * threads):
        lines += [
            f"    mad.lo.u32 %r0, %tid, 16, {start};",
            f"    setp.lt.u32 %p, %r0, {bytes_};",
            "    cvt.u64.u32 %rd0, %r0;",
            "    add.u64 %rd1, %rd6, %rd0;",
            "    add.u32 %r1, %base, %r0;",
            "    @%p ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1];",
            "    @%p st.global.v4.u32 [%rd1], {%r2, %r3, %r4, %r5};",
        ]
    return "\n".join(lines)


def load(bytes_, at, rank=3):
    """Thread 0 loads one box."""
    moves = "\n".join(f"    mov.s32 %r{20 + n}, {c};" for n, c in enumerate(at))
    where = ", ".join(f"%r{20 + n}" for n in range(rank))
    return f"""{moves}
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {bytes_};
    @%lead cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes [%base], [%map, {{{where}}}], [%bar];
"""


def box_of(tensor, at, box):
    """The elements of a box, zeros outside; the first mode is the last axis."""
    out = np.zeros(box[::-1], tensor.dtype)
    for place in np.ndindex(*out.shape):
        source = tuple(c + start for c, start in zip(place, at[::-1], strict=True))
        if all(0 <= c < extent for c, extent in zip(source, tensor.shape, strict=True)):
            out[place] = tensor[source]
    return out


def swizzled(lines, width):
    """The image of lines of a box, uint8[lines, bytes], in shared memory."""
    image = np.zeros(lines.size, np.uint8)
    per = lines.shape[1] // 16
    for line in range(len(lines)):
        for chunk in range(per):
            at = line * lines.shape[1] + turned(line, chunk, width) * 16
            image[at : at + 16] = lines[line, chunk * 16 : chunk * 16 + 16]
    return image


@pytest.mark.parametrize("swizzle", [16, 32, 64, 128])
@pytest.mark.parametrize("at", [(0, 0, 0), (-3, 5, 1), (150, -2, 0), (170, 30, 1), (500, 0, 0)], ids=str)
def test_a_box_comes_swizzled_and_zero_outside(swizzle, at):
    tensor = np.arange(2 * 37 * 192, dtype=np.uint16).reshape(2, 37, 192)
    box = (swizzle // 2 if swizzle > 16 else 24, 16, 1)
    size = box[0] * box[1] * 2
    ptx = text(SETUP + load(size, at) + WAIT + copy_out(size) + DONE)
    got, report = run(
        ptx, tensor, size, maps=(lambda i, o: TensorMap(i, 2, (180, 37, 2), (384, 37 * 384), box, swizzle),), smem=_SMEM
    )
    lines = box_of(tensor[:, :, :180], at, box).reshape(16, -1).view(np.uint8)
    assert (got == swizzled(lines, swizzle)).all() and not report.findings
    (boxes,) = (t for t in report.traffic if t.space == "tma")
    assert (boxes.requests, boxes.units, boxes.ideal) == (16, 16, size // 128)


def test_every_word_of_a_box_has_come_and_must_be_waited_for():
    tensor = np.arange(16 * 64, dtype=np.uint16).reshape(1, 16, 64)
    words = "\n".join(f"    ld.shared.u32 %r{2 + n}, [%r1+{4 * n}];" for n in range(4))
    look = copy_out(2048).replace("    @%p ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1];", words)
    for wait, found in ((WAIT, []), ("", [128] * 4)):
        _, report = run(
            text(SETUP + load(2048, (0, 0, 0)) + wait + look + DONE),
            tensor,
            2048,
            smem=_SMEM,
            maps=(lambda i, o: TensorMap(i, 2, (64, 16, 1), (128, 2048), (64, 16, 1), 128),),
        )
        assert [f.count for f in report.findings if f.kind in ("async_race", "uninitialised_shared")] == found


@pytest.mark.parametrize("rank", [1, 2, 4, 5])
def test_other_ranks(rank):
    shape = (16, 3, 2, 3, 2)[:rank][::-1]
    tensor = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    box, at = (8, 2, 2, 1, 2)[:rank], (4, 1, -1, 2, 1)[:rank]
    strides = tuple(int(tensor.strides[rank - 2 - n]) for n in range(rank - 1))
    size = int(np.prod(box)) * 4
    ptx = text(SETUP + load(size, at, rank) + WAIT + copy_out(size) + DONE)
    got, report = run(ptx, tensor, size, maps=(lambda i, o: TensorMap(i, 4, shape[::-1], strides, box),), smem=_SMEM)
    assert (got.view(np.int32) == box_of(tensor, at, box).reshape(-1)).all() and not report.findings


def test_multicast_reaches_every_cta_of_the_mask_and_their_barriers():
    tensor = np.arange(2 * 8 * 64, dtype=np.uint16).reshape(1, 16, 64)
    body = (
        SETUP
        + """
    mov.s32 %r20, 0;
    shl.b32 %r21, %rank, 3;
    mov.u16 %h0, 3;
    shl.b32 %r22, %rank, 10;
    add.u32 %r22, %base, %r22;
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 2048;
    @%lead cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r22], [%map, {%r20, %r21, %r20}], [%bar], %h0;
"""
        + WAIT
        + copy_out(2048)
        + DONE
    )
    got, report = run(
        text(body),
        tensor,
        4096,
        grid=2,
        cluster=2,
        smem=_SMEM,
        maps=(lambda i, o: TensorMap(i, 2, (64, 16, 1), (128, 2048), (64, 8, 1), 128),),
    )
    image = swizzled(tensor.reshape(16, 64).view(np.uint8), 128)
    assert (got.reshape(2, -1) == image).all() and not report.findings


STORE = """
    mul.lo.u32 %r0, %tid, 16;
    add.u32 %r1, %base, %r0;
    cvt.u64.u32 %rd0, %r0;
    add.u64 %rd1, %in, %rd0;
    ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1];
    st.shared.v4.u32 [%r1], {%r2, %r3, %r4, %r5};
    fence.proxy.async.shared::cta;
    bar.sync 0;
"""
SEND = """
    @%lead cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%map, {%r20, %r21, %r22}], [%base];
    @%lead cp.async.bulk.commit_group;
    @%lead cp.async.bulk.wait_group.read 0;
"""


def stored(at, before="", replace=("", "")):
    lines = np.arange(16 * 64, dtype=np.uint16).reshape(16, 64)
    image = swizzled(lines.view(np.uint8), 128)
    moves = "\n".join(f"    mov.s32 %r{20 + n}, {c};" for n, c in enumerate(at))
    ptx = text((STORE + moves + SEND).replace(*replace) if replace[0] else STORE + moves + SEND)
    got, report = run(
        ptx,
        image,
        2 * 20 * 128,
        smem=2048,
        filled=True,
        maps=(lambda i, o: TensorMap(o, 2, (60, 20, 2), (128, 20 * 128), (64, 16, 1), 128),),
    )
    return lines, got.view(np.uint16).reshape(2, 20, 64), report


@pytest.mark.parametrize("at", [(0, 0, 0), (-5, 10, 1), (32, -3, 0), (0, 0, 2)], ids=str)
def test_a_store_is_clipped(at):
    lines, got, report = stored(at)
    # Rows have 60 elements, and a store writes whole 16 bytes: 64.
    expected = np.zeros((2, 20, 64), np.uint16)
    for row in range(16):
        for column in range(64):
            x, y, z = at[0] + column, at[1] + row, at[2]
            if 0 <= x < 64 and 0 <= y < 20 and z < 2:
                expected[z, y, x] = lines[row, column]
    assert (got == expected).all() and not report.findings


@pytest.mark.parametrize(("at", "written"), [((0, 10, 1), 10 * 8), ((0, 0, 2), 0)])
def test_what_lies_beside_the_tensor_need_not_be_written(at, written):
    """A box of 16 lines of 8 chunks, of which the first ten lie in the tensor, or none."""
    write = "st.shared.v4.u32 [%r1], {%r2, %r3, %r4, %r5};"
    lines, got, report = stored(at, replace=(write, f"setp.lt.u32 %q, %tid, {written};\n    @%q {write}"))
    assert not report.findings
    assert (got[1, 10:] == lines[:10]).all() == (written > 0)
    if written:
        fewer = stored(at, replace=(write, f"setp.lt.u32 %q, %tid, {written - 1};\n    @%q {write}"))[2]
        assert {one.kind for one in fewer.findings} == {"uninitialised_shared"}


@pytest.mark.parametrize(
    ("without", "kind"),
    [
        ("fence.proxy.async.shared::cta;", "proxy_fence"),
        ("bar.sync 0;", "shared_race"),
        ("@%lead cp.async.bulk.wait_group.read 0;", "async_race"),
    ],
)
def test_what_is_missing_around_a_store_is_found(without, kind):
    assert kind in {f.kind for f in stored((0, 0, 0), replace=(without, ""))[2].findings}


@pytest.mark.parametrize("write", ["st.shared.v4.u32 [%r1], {%r2, %r3, %r4, %r5};", "st.shared.u32 [%r1+4], %r2;"])
def test_a_buffer_that_a_store_still_reads_is_not_to_be_written(write):
    again = f"@%lead cp.async.bulk.commit_group;\n    {write}"
    _, _, report = stored((0, 0, 0), replace=("@%lead cp.async.bulk.commit_group;", again))
    assert [f for f in report.findings if f.kind == "async_race" and "a bulk store of thread 0 reads" in f.message]


def _loaded(**changes):
    values = {
        "address": 1 << 20,
        "element": 2,
        "extents": (64, 16, 1),
        "strides": (128, 2048),
        "box": (64, 8, 1),
        "swizzle": 128,
    } | changes
    return TensorMap(**values)


@pytest.mark.parametrize(
    "changes",
    [
        {"address": 8},
        {"strides": (120, 2048)},
        {"box": (128, 8, 1)},
        {"box": (64, 512, 1)},
        {"box": (4, 8, 1), "swizzle": 16},
        {"extents": (64, 16)},
        {"extents": (64, 0, 1)},
    ],
)
def test_maps_that_the_driver_refuses(changes):
    with pytest.raises(EmulationError, match="cuTensorMapEncodeTiled would fail"):
        _loaded(**changes).encode()


def test_maps_survive_their_128_bytes():
    assert TensorMap.decode(_loaded().encode()) == _loaded() and len(_loaded().encode()) == 128
    with pytest.raises(EmulationError, match="no tensor map"):
        TensorMap.decode(bytes(128))


def test_a_load_outside_of_memory_is_found():
    tensor = np.zeros((1, 8, 64), np.uint16)
    ptx = text(SETUP + load(1024, (0, 4, 0)) + WAIT + DONE)
    _, report = run(
        ptx, tensor, 16, maps=(lambda i, o: TensorMap(i, 2, (64, 16, 1), (128, 2048), (64, 8, 1), 128),), smem=_SMEM
    )
    assert [f.kind for f in report.findings] == ["global_out_of_bounds"]


@pytest.mark.parametrize(("at", "unused"), [((0, 0, 0), 0), ((0, 16, 0), 1), ((16, 0, 0), 1)])
def test_boxes_that_are_prefetched_and_never_loaded_are_reported_and_no_fault(at, unused):
    tensor = np.arange(16 * 64, dtype=np.uint16).reshape(1, 16, 64)
    moves = "\n".join(f"    mov.s32 %r{26 + n}, {c};" for n, c in enumerate(at))
    prefetch = f"{moves}\n    @%lead cp.async.bulk.prefetch.tensor.3d.L2.global [%map, {{%r26, %r27, %r28}}];\n"
    _, report = run(
        text(SETUP + prefetch + load(2048, (0, 0, 0)) + WAIT + copy_out(2048) + DONE),
        tensor,
        2048,
        smem=_SMEM,
        maps=(lambda i, o: TensorMap(i, 2, (64, 16, 1), (128, 2048), (64, 16, 1), 128),),
    )
    assert not report.findings and [one.count for one in report.unused_prefetches] == [1] * unused
    if unused:
        assert f"prefetches a box at {at} that no thread of the launch loads" in str(report.unused_prefetches[0])


@pytest.mark.parametrize(
    "copy",
    [
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        " [%base], [%map, {0, 0, 0}], [%bar], {%h0};",
        "cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%map, {0, 0, 0}], [%base];",
        "cp.async.bulk.prefetch.tensor.3d.L2.global.im2col [%map, {0, 0, 0}], {%h0};",
    ],
)
def test_copies_that_are_not_tiled_are_refused(copy):
    with pytest.raises(EmulationError, match=r"copies with \.im2col\w* are not emulated, only tiled ones"):
        run(text(copy), np.zeros(16, np.uint8), 16)
