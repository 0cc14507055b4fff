"""`run_ptx`: entries by name, arguments of every kind, results as arrays, and errors that say what to pass instead."""

from __future__ import annotations

import ctypes
import struct

import ml_dtypes
import numpy as np
import pytest

from mmagen.core.errors import UsageError
from mmagen.emulate import Device, EmulationError, Output, ReadOnly, parse, run_ptx, tensor_map

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
SCALE = f"""{HEADER}
.visible .entry _Z5scalePffi(.param .u64 x, .param .f32 by, .param .u32 n)
{{
  .reg .pred %p; .reg .f32 %f<4>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [x]; ld.param.f32 %f1, [by]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r5, %r3, %r4, %r2;
  setp.ge.u32 %p, %r5, %r1;
  @%p ret;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f2, [%rd3];
  mul.f32 %f3, %f2, %f1;
  st.global.f32 [%rd3], %f3;
  ret;
}}
"""
COPY_STRUCT = f"""{HEADER}
.visible .entry copy(.param .align 8 .b8 job[16], .param .u64 out, .param .u8 flag, .param .f64 real, .param .align 2 .b8 half[2])
{{
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .b16 %h<3>; .reg .f64 %d;
  ld.param.u64 %rd1, [job]; ld.param.u32 %r1, [job+8]; ld.param.u64 %rd2, [out];
  ld.param.u8 %h1, [flag]; ld.param.f64 %d, [real]; ld.param.b16 %h2, [half];
  ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, %r1;
  st.global.u32 [%rd2], %r2; st.global.u8 [%rd2+4], %h1; st.global.b16 [%rd2+6], %h2; st.global.f64 [%rd2+8], %d;
  ret;
}}
"""
EMPTY = ".visible .entry {}()\n{{ ret; }}\n"


TMA_COPY = f"""{HEADER}
.shared .align 128 .b8 box[128];
.shared .align 8 .b64 bar;
.visible .entry copy(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128])
{{
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  mov.b64 %rd1, from; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, to; cvta.param.u64 %rd2, %rd2;
  mov.u32 %r1, %tid.x; setp.ne.u32 %p, %r1, 0;
  @%p ret;
  mbarrier.init.shared::cta.b64 [bar], 1;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [box], [%rd1, {{0, 0}}], [bar];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
  @!%p bra wait;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {{0, 0}}], [box];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
  ret;
}}
"""


def scale(x, by=2.0, n=None, **options):
    count = x.size if n is None else n
    return run_ptx(SCALE, "scale", [x, by, count], grid=2, block=32, **options)


def test_arrays_come_back_as_copies():
    x = np.arange(50, dtype=np.float32)
    launched = scale(x)
    assert launched.ok and launched.findings == [] and (launched.arrays[0] == 2 * x).all() and x[1] == 1
    assert sum(t.requests for t in launched.traffic if t.space == "global") == 4  # a load and a store of two warps


def test_a_stray_access_is_a_finding():
    (first, *_) = scale(np.zeros(50, np.float32), n=51).findings
    assert first.kind == "global_out_of_bounds" and "past the end of argument 0 (200 bytes)" in first.message


def test_read_only_and_unwritten_arrays():
    assert {f.kind for f in scale(ReadOnly(np.ones(4, np.float32)), n=4).findings} == {"read_only"}
    assert {f.kind for f in scale(Output(4, np.float32), n=4).findings} == {"uninitialised_global"}


def test_structs_hold_addresses_of_device_arrays():
    device = Device()
    source, target = device.array(np.array([5, 40], np.uint32), "source"), device.empty(16, np.uint8, "target")
    job = np.array([(source.address + 4, 2)], dtype=np.dtype([("at", "<u8"), ("plus", "<i4")], align=True))
    for packed in (job[0], job[:1].reshape(()), job.tobytes()):
        arguments = [packed, target, True, 0.5, ml_dtypes.bfloat16(1.0)]
        assert run_ptx(COPY_STRUCT, None, arguments, grid=1, block=1, device=device).ok
        assert struct.unpack("<IBxHd", target.read().tobytes()) == (42, 1, 0x3F80, 0.5)
    assert target.written().tolist() == [True] * 5 + [False] + [True] * 10

    class Job(ctypes.Structure):
        _fields_ = (("at", ctypes.c_uint64), ("plus", ctypes.c_int32))

    half, real = ctypes.c_uint16(7), ctypes.c_double(1.5)
    arguments = [Job(source.address, -5), target.address, np.uint8(3), real, half]
    assert run_ptx(COPY_STRUCT, None, arguments, grid=1, block=1, device=device).ok
    assert struct.unpack("<IBxHd", target.read().tobytes()) == (0, 3, 7, 1.5)


def test_launches_on_one_device_see_each_other():
    device = Device()
    x = device.array(np.ones((2, 3), ml_dtypes.bfloat16).view(np.uint16).astype(np.float32), "x")
    scale(x, n=6, device=device)
    scale(x, n=6, device=device)
    assert x.read().shape == (2, 3) and (x.read() == 4 * 0x3F80).all()


def test_ml_dtypes_and_shapes_are_kept():
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float16):
        data = np.arange(6).astype(dtype).reshape(2, 3)
        back = Device().array(data).read()
        assert back.dtype == data.dtype and back.shape == (2, 3) and (back == data).all()


def test_tensor_maps_go_where_the_kernel_declares_them():
    device = Device()
    source = device.array(np.arange(64, dtype=np.uint16).reshape(8, 8))
    target = device.empty((8, 8), np.uint16)
    maps = [tensor_map("FLOAT16", place, (8, 8), (16,), (8, 8)) for place in (source, target)]
    launched = run_ptx(TMA_COPY, None, maps, grid=1, block=32, device=device)
    assert launched.ok and (target.read() == source.read()).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"data_type": "FLOAT4"}, "data type FLOAT4; emulated are UINT8"),
        ({"swizzle": "256B"}, "swizzle 256B; emulated are NONE, 32B"),
        ({"l2_promotion": "512B"}, "L2 promotion 512B"),
        ({"interleave": "16B"}, "interleave 16B"),
        ({"element_strides": (1, 2)}, "element strides (1, 2); emulated is 1 in each of the 2 modes"),
        ({"address": 0x1008}, "0x1008 is not a multiple of 16"),
        ({"global_strides": (24,)}, "(24,) bytes is not a multiple of 16"),
        ({"box_dim": (8, 300)}, "a box of (8, 300) elements"),
        ({"box_dim": (128, 8), "swizzle": "64B"}, "do not fit a swizzle of 64"),
    ],
)
def test_tensor_maps_are_refused_as_the_driver_does(change, says):
    arguments = {"data_type": "FLOAT16", "address": 0x1000, "global_dim": (8, 8), "global_strides": (16,), "box_dim": (8, 8)}
    with pytest.raises(EmulationError) as refusal:
        tensor_map(**(arguments | change))
    assert says in str(refusal.value)


ONE = np.zeros(1, np.float32)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([ONE, 1.0], "_Z5scalePffi has 3 parameters (.u64, .f32, .u32), not 2"),
        ([ONE, 1.0, 1 << 32], "argument 2 for n (.u32): 4294967296 does not fit into 32 bits"),
        ([ONE, 1.0, 2.0], "argument 2 for n (.u32): 2.0 is a float"),
        ([ONE, 1.0, np.int64(1)], "argument 2 for n (.u32): a value of type int64 of 8 bytes, not 4"),
        ([ONE, 1.0, np.float32(1)], "argument 2 for n (.u32): a value of type float32"),
        ([ONE, np.int32(1), 1], "argument 1 for by (.f32): a value of type int32"),
        ([ONE, ONE, 1], "argument 1 for by (.f32): an array is passed as a pointer of 8 bytes"),
        ([ONE, 1.0, "1"], "argument 2 for n (.u32): a value of type str cannot be an argument; pass an array"),
        ([np.zeros((4, 4), np.float32)[:, ::2], 1.0, 1], "argument 0 is a view with strides (16, 8); pass numpy.ascontiguous"),
        ([np.zeros((4, 3), np.float32).T, 1.0, 1], "pass its transpose, which is contiguous,"),
        ([np.zeros(4, ">f4"), 1.0, 1], "argument 0 is big-endian"),
        ([np.zeros(4, object), 1.0, 1], "argument 0 is an array of Python objects"),
        ([np.zeros(4, ml_dtypes.int4), 1.0, 1], "argument 0 is of int4, which numpy does not pack"),
        ([Device().array(ONE), 1.0, 1], "is in the memory of another Device"),
        ([tensor_map("FLOAT32", 0x1000, (4,), (), (4,)), 1.0, 1], "a tensor map is a struct of 128 bytes"),
        ([ONE, 1e39, 1], "argument 1 for by (.f32): the number is beyond the largest one of .f32"),
        ([ONE, 10**400, 1], "argument 1 for by (.f32): the number is beyond the largest one of .f32"),
        ([ReadOnly([1.0]), 1.0, 1], "argument 0 for x (.u64): ReadOnly of a value of type list; pass a numpy array"),
        ([Output(-1, np.float32), 1.0, 1], "argument 0: shape -1 has a negative extent"),
        ([Output("a", np.float32), 1.0, 1], "argument 0: shape 'a'"),
        ([Output(4, "no type"), 1.0, 1], "argument 0: shape 4 and type 'no type'"),
        ([Output(4, object), 1.0, 1], "argument 0 is an array of Python objects"),
        ([Output(4, ml_dtypes.int4), 1.0, 1], "argument 0 is of int4, which numpy does not pack"),
        ([Output(1 << 60, np.float32), 1.0, 1], "pass a smaller shape"),
        (None, "arguments is a value of type NoneType; pass a list"),
        (7, "arguments is a value of type int; pass a list"),
        ("abc", "arguments is a value of type str; pass a list"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, says):
    with pytest.raises(EmulationError) as refusal:
        run_ptx(SCALE, None, arguments, grid=1, block=1)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"grid": 1.5}, "a grid, block or cluster has one to three positive extents, not 1.5"),
        ({"block": "32"}, "a grid, block or cluster has one to three positive extents, not '32'"),
        ({"cluster": None}, "a grid, block or cluster has one to three positive extents, not None"),
        ({"dynamic_smem": -1}, "dynamic_smem is -1; pass an integer of at least 0"),
        ({"dynamic_smem": 0.5}, "dynamic_smem is 0.5; pass an integer of at least 0"),
        ({"step_limit": 0}, "step_limit is 0; pass an integer of at least 1"),
        ({"step_limit": None}, "step_limit is None; pass an integer of at least 1"),
        ({"device": "cuda"}, "device is a value of type str; pass a mmagen.emulate.Device"),
        ({"entry": 5}, "the entry is a value of type int; pass its name"),
        ({"ptx": b"text"}, "the PTX is a value of type bytes; pass a text"),
        ({"ptx": None}, "the PTX is a value of type NoneType; pass a text"),
    ],
)
def test_launches_of_other_types_are_refused(changes, says):
    call = {"ptx": SCALE, "arguments": [ONE, 1.0, 1], "grid": 1, "block": 1} | changes
    with pytest.raises(EmulationError) as refusal:
        run_ptx(**call)
    assert says in str(refusal.value) and "report it" not in str(refusal.value)


def test_extents_may_be_integers_of_numpy():
    (grid,) = np.array([1])
    assert run_ptx(SCALE, None, [ONE, 1.0, 1], grid=grid, block=[np.int32(32), 1]).ok


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("ld.global.v3.u32 {%r1, %r2, %r3}, [%rd1];", "registers: 3, elements: 1 ("),
        ("ld.global.v4.u32 {%r1, %r2, %r3}, [%rd1];", "registers: 3, elements: 4 ("),
        ("st.global.v2.u32 [%rd1], {%r1, %r2, %r3};", "registers: 3, elements: 2 ("),
        ("mov.u32 %r1, 18446744073709551616;", "18446744073709551616 has more than 64 bits"),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4}, {%r1,%r2}, {%r1,%r2}, {%r1,%r2,%r3,%r4};",
            "A has 2 registers, not 4",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r1,%r2,%r3}, {%r1,%r2}, {%r1}, {%r1,%r2,%r3,%r4};",
            "D has 3 registers, not 4",
        ),
    ],
)
def test_statements_with_operands_that_do_not_fit_are_refused_with_their_line(statement, says):
    body = f".visible .entry k()\n{{\n.reg .b32 %r<5>; .reg .b64 %rd<2>;\n{statement}\nret;\n}}\n"
    with pytest.raises(EmulationError) as refusal:
        run_ptx(HEADER + body, grid=1, block=32)
    assert str(refusal.value).startswith("<ptx>:7: ") and says in str(refusal.value)
    assert "report it" not in str(refusal.value)


def test_an_int_for_a_struct_is_refused():
    with pytest.raises(EmulationError, match=r"argument 0 for job \(struct of 16 bytes\): an int has no size of its own"):
        run_ptx(COPY_STRUCT, None, [5, 0, 0, 0.0, b"ab"], grid=1, block=1)


def test_entries_are_found_by_part_of_their_name():
    module = parse(HEADER + "".join(map(EMPTY.format, ("_Z3foov", "_Z6foobarv", "_ZN1a3bazILi4EEEvv"))), "m.ptx")
    for name, entry in (("foobar", "_Z6foobarv"), ("_Z3foov", "_Z3foov"), ("baz", "_ZN1a3bazILi4EEEvv")):
        assert run_ptx(module, name, grid=1, block=1).entry == entry
    for name, says in ((None, "an entry has to be named"), ("foo", "2 entries are called foo"), ("bar()", "")):
        with pytest.raises(EmulationError) as refusal:
            run_ptx(module, name if says else "qux", grid=1, block=1)
        assert says in str(refusal.value) and "_Z6foobarv" in str(refusal.value) and refusal.value.exit_code == 4


def test_entries_are_found_by_their_demangled_name(monkeypatch, tmp_path):
    program = tmp_path / "c++filt"
    program.write_text("#!/bin/sh\necho 'void a::baz<4>()'\necho 'void a::baz<5>()'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    module = parse(HEADER + EMPTY.format("_ZN1a3bazILi4EEEvv") + EMPTY.format("_ZN1a3bazILi5EEEvv"), "m.ptx")
    assert run_ptx(module, "a::baz< 4 >", grid=1, block=1).entry == "_ZN1a3bazILi4EEEvv"


def test_paths_and_texts(tmp_path):
    path = tmp_path / "k.ptx"
    path.write_text(HEADER + EMPTY.format("k") + "\n.visible .entry bad() {\n  frobnicate.u32 1;\n  ret;\n}\n")
    assert run_ptx(path, "k", grid=1, block=1).ok and run_ptx(str(path), "k", grid=1, block=1).ok
    with pytest.raises(EmulationError, match=r"k\.ptx:\d+: this instruction is not supported: frobnicate\.u32 1"):
        run_ptx(path, "bad", grid=1, block=1)
    with pytest.raises(UsageError, match=r"none\.ptx: cannot be read as PTX"):
        run_ptx(tmp_path / "none.ptx", grid=1, block=1)
    with pytest.raises(UsageError, match=r"cannot be read as PTX"):
        run_ptx("k\0.ptx", grid=1, block=1)
    with pytest.raises(EmulationError, match="not a PTX statement"):
        run_ptx("this is no ptx;\n", grid=1, block=1)


WHERE = f"""{HEADER}
.visible .entry where(.param .u64 out)
{{
  .reg .b32 %r<20>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
  mul.wide.u32 %rd2, %r4, 16; add.s64 %rd1, %rd1, %rd2;
  mov.u32 %r5, %cluster_ctarank; mov.u32 %r6, %cluster_ctaid.y; mov.u32 %r7, %clusterid.x; mov.u32 %r8, %clusterid.y;
  st.global.v4.u32 [%rd1], {{%r5, %r6, %r7, %r8}};
  ret;
}}
"""


@pytest.mark.parametrize("cluster", [(2, 1), (1, 2), (2, 2), (1, 4, 1)])
def test_clusters_extend_along_any_axis(cluster):
    """PTX ISA, %cluster_ctarank: the rank in the cluster, x fastest."""
    grid = (4, 4)
    launched = run_ptx(WHERE, None, [Output((4, 4, 4), np.uint32)], grid=grid, block=1, cluster=cluster)
    assert launched.ok
    for y, x in np.ndindex(grid):
        rank = x % cluster[0] + y % cluster[1] * cluster[0]
        assert launched.arrays[0][y, x].tolist() == [rank, y % cluster[1], x // cluster[0], y // cluster[1]]
    with pytest.raises(EmulationError, match="a grid of 4 x 4 x 1 CTAs is no whole number of clusters of 3 x 1 x 1"):
        run_ptx(WHERE, None, [Output(64, np.uint32)], grid=grid, block=1, cluster=3)
