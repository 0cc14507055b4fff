"""tensormap.replace and tensormap.cp_fenceproxy: maps that a kernel makes of another one, publishes and acquires."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from mmagen import emulate
from mmagen.emulate import EmulationError, TensorMap
from tests.emulate.test_tma import BAR, DONE, SETUP, WAIT, box_of
from tests.support.ptx import kinds
from tests.support.ptx_hopper import text

PLACE = 8192  # of the map in shared memory
MADE = 1024  # of its copy in the output
TENSOR = np.arange(4 * 6 * 32, dtype=np.uint32).reshape(4, 6, 32)

COPY = f"    add.u32 %r7, %base, {PLACE};\n" + "".join(
    f"    @%lead ld.param.u64 %rd8, [maps+{n}];\n    @%lead st.shared.u64 [%r7+{n}], %rd8;\n" for n in range(0, 128, 8)
)
REPLACE = """
    @%lead tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r7], %in;
    mov.u32 %r8, 5;
    @%lead tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r7], 1, %r8;
    mov.u64 %rd9, 256;
    @%lead tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r7], 0, %rd9;
"""
PUBLISH = f"""
    bar.warp.sync 0xffffffff;
    add.u64 %rd10, %out, {MADE};
    setp.lt.u32 %q, %tid, 32;
    @!%q bra PUBLISHED;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd10], [%r7], 128;
PUBLISHED:
"""
ACQUIRE = "    @%lead fence.proxy.tensormap::generic.acquire.gpu [%map], 128;\n"
LOAD = """
    mov.u32 %r20, 0;
    @%lead mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 512;
    @%lead cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%base], [%map, {%r20, %r20, %r20}], [%bar];
"""
COME = f"""{WAIT}
    shl.b32 %r6, %tid, 2;
    add.u32 %r6, %r6, %base;
    ld.shared.u32 %r5, [%r6];
    mul.wide.u32 %rd4, %tid, 4;
    add.u64 %rd4, %rd4, %out;
    st.global.u32 [%rd4], %r5;
"""
OTHER = f"    add.u64 %map, %out, {MADE};\n"


def launch(body, memory, given, out):
    """One launch; the parameter's map begins at another place and has another extent and stride than what is wanted."""
    before = TensorMap(out, 4, (32, 4, 1), (128, 512), (32, 4, 1), 16)
    return emulate.launch(
        emulate.parse(text(body), "probe.ptx"),
        "probe",
        grid=1,
        block=128,
        dynamic_smem=BAR + 64,
        params=before.encode() + struct.pack("<2Q", given, out),
        memory=memory,
        step_limit=20_000,
    )


def outcome(*bodies):
    """(what the last launch loaded, the kinds of findings of all)."""
    memory = emulate.GlobalMemory()
    given = memory.allocate("input", TENSOR, writable=False)
    out = memory.allocate("output", np.zeros(2048, np.uint8))
    reports = [launch(SETUP + body + DONE, memory, given, out) for body in bodies]
    assert all(report.completed for report in reports)
    return memory.read("output").view(np.uint32)[:128], set().union(*map(kinds, reports))


# Lines of 256 bytes: every second one of the tensor's.
WANTED = box_of(TENSOR.reshape(1, 12, 64)[:, :, :32], (0, 0, 0), (32, 4, 1)).reshape(-1)


def test_a_map_that_the_kernel_made_is_used_once_it_is_acquired():
    got, seen = outcome(COPY + REPLACE + PUBLISH + OTHER + ACQUIRE + LOAD + COME)
    assert seen == set() and (got == WANTED).all()


def test_one_that_is_not_acquired_is_a_finding_in_the_launch_and_in_a_later_one():
    assert outcome(COPY + REPLACE + PUBLISH + OTHER + LOAD + COME)[1] == {"proxy_fence"}
    made = COPY + REPLACE + PUBLISH
    got, seen = outcome(made, OTHER + ACQUIRE + LOAD + COME)
    assert seen == set() and (got == WANTED).all()
    assert outcome(made, OTHER + LOAD + COME)[1] == {"proxy_fence"}
    assert outcome(made, OTHER + "    @%lead prefetch.tensormap [%map];\n" + ACQUIRE + LOAD + COME)[1] == {"proxy_fence"}


def test_a_map_for_another_cta_is_published_and_acquired_with_the_scope_of_the_gpu():
    own = COPY + REPLACE + PUBLISH.replace(".gpu", ".cta") + OTHER + ACQUIRE.replace(".gpu", ".cta") + LOAD + COME
    assert outcome(own)[1] == set()
    for publish, acquire in ((".cta", ".gpu"), (".cluster", ".gpu"), (".gpu", ".cta")):
        made = COPY + REPLACE + PUBLISH.replace(".gpu", publish)
        assert outcome(made, OTHER + ACQUIRE.replace(".gpu", acquire) + LOAD + COME)[1] == {"proxy_fence"}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("    tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r7], 3, %r8;\n", "has no global_dim 3"),
        ("    tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r7], 2, %rd9;\n", "has no global_stride 2"),
        ("    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%base], %rd9;\n", "holds no tensor map"),
        ("    tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r7], 3;\n", "is supported of global_address"),
        (
            "    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd10], [%r7], 64;\n",
            "128",
        ),
    ],
)
def test_what_is_no_field_of_the_map_is_refused(line, wrong):
    with pytest.raises(EmulationError, match=wrong):
        outcome(COPY + REPLACE + line)


def test_a_part_of_a_warp_cannot_publish_a_map():
    alone = PUBLISH.replace("setp.lt.u32 %q, %tid, 32;", "setp.lt.u32 %q, %tid, 16;")
    assert "warp_divergence" in outcome(COPY + REPLACE + alone)[1]


@pytest.mark.parametrize(
    ("was", "instead"), [("mov.u64 %rd9, 256;", "mov.u64 %rd9, 264;"), ("b1024.b64 [%r7], %in;", "b1024.b64 [%r7], %rd11;")]
)
def test_a_map_whose_tensor_tma_cannot_address_is_a_finding(was, instead):
    changed = "    add.u64 %rd11, %in, 8;\n" + REPLACE.replace(was, instead)
    assert changed != "    add.u64 %rd11, %in, 8;\n" + REPLACE
    assert "misaligned" in outcome(COPY + changed + PUBLISH + OTHER + ACQUIRE + LOAD + COME)[1]
