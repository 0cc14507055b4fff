"""cp.reduce.async.bulk and its form with a tensor map: results of every operation and type, and order in global memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mmagen.emulate import EmulationError, TensorMap
from tests.emulate.test_bulk_lines import STORE, WRITE, kinds
from tests.support.ptx_hopper import copy_in, run, text

_LINE = "cp.reduce.async.bulk.global.shared::cta.bulk_group"
_TYPES = {
    "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64, "b32": np.uint32, "b64": np.uint64,
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
}  # fmt: skip
_INTEGERS, _HALVES = ("u32", "s32", "u64", "s64"), ("f16", "bf16")
_FORMS = [
    *(("add", kind) for kind in ("u32", "s32", "u64", "f32", "f64", *_HALVES)),
    *((operation, kind) for operation in ("min", "max") for kind in (*_INTEGERS, *_HALVES)),
    *((operation, kind) for operation in ("and", "or", "xor") for kind in ("b32", "b64")),
    ("inc", "u32"),
    ("dec", "u32"),
]
# The kernel fills the output itself: its threads' stores need a fence before TMA changes them.
FILL = """
    mad.wide.u32 %rd4, %tid, 4, %out;
    mad.wide.u32 %rd3, %tid, 4, %in;
    ld.global.b32 %r6, [%rd3+512];
    st.global.b32 [%rd4], %r6;
    fence.proxy.async.global;
"""


def expected(operation, new, old):
    """By numpy, element by element."""
    if operation == "inc":
        return np.array([0 if o >= n else o + 1 for o, n in zip(old, new, strict=True)], old.dtype)
    if operation == "dec":
        return np.array([n if o == 0 or o > n else o - 1 for o, n in zip(old, new, strict=True)], old.dtype)
    functions = {"add": np.add, "min": np.minimum, "max": np.maximum}
    return (functions.get(operation) or getattr(np, f"bitwise_{operation}"))(old, new)


def values(kind, seed):
    draw, dtype = np.random.default_rng(seed), _TYPES[kind]
    count = 512 // np.dtype(dtype).itemsize
    if np.issubdtype(dtype, np.integer):
        low = -50 if np.issubdtype(dtype, np.signedinteger) else 0
        return draw.integers(low, 60, count).astype(dtype)
    return draw.standard_normal(count).astype(np.float32).astype(dtype)


@pytest.mark.parametrize("operation, kind", _FORMS)
@pytest.mark.parametrize("tensor", [False, True])
def test_results(operation, kind, tensor):
    new, old = values(kind, 1), values(kind, 2)
    data = np.concatenate((new, old)).view(np.uint8)
    if tensor:
        element, name = new.itemsize, f"u{kind[1:]}" if kind[0] == "b" and kind != "bf16" else kind
        copy = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.bulk_group"
        store = STORE.replace("COPY [%out], [%base], 512", f"{copy} [%map, {{%r20, %r20}}], [%base]")
        ptx = text(FILL + WRITE + "    mov.u32 %r20, 0;\n" + store)
        make = (lambda i, o: TensorMap(o, element, (64 // element, 8), (64,), (64 // element, 8), kind=name),)
        if kind == "f64":
            with pytest.raises(EmulationError, match="there is no reduction"):
                run(ptx, data, 512, maps=make)
            return
    else:
        noftz = ".noftz" if operation == "add" and kind in _HALVES else ""
        ptx, make = text(FILL + WRITE + STORE.replace("COPY", f"{_LINE}.{operation}{noftz}.{kind}")), ()
    got, report = run(ptx, data, 512, maps=make)
    np.testing.assert_array_equal(got.view(new.dtype), expected(operation, new, old))
    assert not report.findings


def test_sums_of_f32_flush_subnormal_numbers_and_those_of_f16_do_not():
    tiny = np.array([1e-40, 1e-40, 1.5e-38, 1.0], np.float32)
    old = np.array([1e-40, 1.0, -1.2e-38, 1e-40], np.float32)
    data = np.concatenate((np.tile(tiny, 32), np.tile(old, 32)))
    got, _ = run(text(FILL + WRITE + STORE.replace("COPY", f"{_LINE}.add.f32")), data, 512)
    assert got.view(np.float32)[:4].tolist() == [0.0, 1.0, 0.0, 1.0]
    half = np.full(256, 6e-8, np.float16)
    got, _ = run(text(FILL + WRITE + STORE.replace("COPY", f"{_LINE}.add.noftz.f16")), np.concatenate((half, half)), 512)
    assert (got.view(np.float16) == half + half).all() and half[0] > 0


def test_boxes_are_swizzled_and_clipped():
    data, size = np.arange(1024, dtype=np.int32), 4096
    copy = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%map, {%r20, %r21}], [%base];"
    body = f"""{copy_in(size)}
    mov.s32 %r20, 0;
    mov.s32 %r21, 24;
    @%lead {copy}
    @%lead cp.async.bulk.commit_group;
    @%lead cp.async.bulk.wait_group 0;
"""
    make = (lambda i, o: TensorMap(o, 4, (32, 32), (128,), (32, 32), 128, kind="s32"),)
    got, report = run(text(body), data, size, maps=make, filled=True, smem=size)
    lines = data.reshape(32, 8, 4)
    plain = np.stack([lines[n][np.arange(8) ^ n % 8] for n in range(32)]).reshape(32, 32)
    assert (got.view(np.int32).reshape(32, 32)[24:] == plain[:8]).all() and not got[: 24 * 128].any()
    assert not report.findings
    with pytest.raises(EmulationError, match="does not say of which type"):
        run(text(body), data, size, maps=(lambda i, o: TensorMap(o, 4, (32, 32), (128,), (32, 32), 128),), smem=size)


READ = "    bar.sync 0;\n    ld.global.b32 %r7, [%rd4];\n    st.shared.b32 [%r1], %r7;\n"


@pytest.mark.parametrize(
    "old, new, kind",
    [
        ("    fence.proxy.async.global;\n", "", {"proxy_fence"}),
        ("    @%lead cp.async.bulk.wait_group 0;\n" + READ, READ, {"async_race"}),
        ("wait_group 0;", "wait_group.read 0;", {"async_race"}),
        (FILL, "    mad.wide.u32 %rd4, %tid, 4, %out;\n", {"uninitialised_global"}),
        ("COPY [%out]", "COPY [%out+16]", {"global_out_of_bounds"}),
        ("COPY [%out]", "COPY [%in]", {"read_only"}),
        (
            "    @%lead cp.async.bulk.commit_group;\n",
            "    @%lead cp.async.bulk.global.shared::cta.bulk_group [%out], [%base], 512;\n"
            "    @%lead cp.async.bulk.commit_group;\n",
            {"async_race"},
        ),
    ],
)
def test_order_within_a_cta(old, new, kind):
    body = FILL + WRITE + STORE + READ
    assert old in body
    for edited, found in ((body, set()), (body.replace(old, new), kind)):
        ptx = text(edited.replace("COPY", f"{_LINE}.add.u32"))
        assert kinds(run(ptx, np.arange(256, dtype=np.uint32), 512)[1]) == found


@pytest.mark.parametrize("copy, found", [(f"{_LINE}.add.u32", set()), (_LINE.replace("cp.reduce", "cp"), {"async_race"})])
def test_ctas_may_add_to_the_same_bytes_but_not_store_to_them(copy, found):
    data = np.arange(128, dtype=np.uint32)
    got, report = run(text(WRITE + STORE.replace("COPY", copy)), data, 512, grid=3, filled=True)
    assert kinds(report) == found
    assert found or (got.view(np.uint32) == 3 * data).all()


def test_another_cta_must_acquire_the_sums():
    flag = """
    mov.u32 %r10, 1;
    setp.eq.u32 %p, %ctaid.x, 0;
    @!%p bra READER;
{adds}
    @%lead st.release.gpu.global.u32 [%out+512], %r10;
    bra.uni END;
READER:
    mov.u32 %r11, 1;
    @%lead ld.acquire.gpu.global.u32 %r11, [%out+512];
    setp.eq.and.u32 %q, %r11, 0, %lead;
    @%q bra READER;
{sync}
    mad.wide.u32 %rd4, %tid, 4, %out;
    ld.global.b32 %r7, [%rd4];
    st.shared.b32 [%base], %r7;
END:
"""
    adds = WRITE + STORE.replace("COPY", f"{_LINE}.add.u32")
    for sync, found in (("    bar.sync 0;", set()), ("", {"global_race"})):
        body = flag.format(adds=adds, sync=sync).replace("st.shared.b32 [%base], %r7;", "")
        _, report = run(text(body), np.arange(128, dtype=np.uint32), 516, grid=2, filled=True)
        assert kinds(report) == found
