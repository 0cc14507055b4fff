"""Code of blocks that is kept for later processes, and registers that no block reads before it writes them."""

from __future__ import annotations

import marshal
import struct
import zlib
from hashlib import sha256

import numpy as np
import pytest

from mmagen.emulate import GlobalMemory, KeptCode, launch, parse, prepare
from mmagen.emulate.exec import kept_code
from mmagen.emulate.exec.blocks import cut
from mmagen.emulate.exec.dataflow import block_registers
from tests.support.ptx import kernel, run

# Odd threads take another path, and each path comes back to the end.
BODY = """
    and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0; @%p1 bra EVEN;
    add.s32 %r3, %r1, 5; mul.lo.s32 %r4, %r3, 3; mov.u32 %r9, %r4; bra.uni JOIN;
    EVEN: add.s32 %r5, %r1, 7; mul.lo.s32 %r6, %r5, 2; mov.u32 %r9, %r6;
    JOIN: st.global.u32 [%rd4], %r9;
"""
EXPECTED = [2 * (n + 7) if n % 2 == 0 else 3 * (n + 5) for n in range(32)]


def result(kept, ptx=None):
    ptx = ptx or kernel(BODY)
    memory = GlobalMemory()
    addresses = memory.allocate("in", np.zeros(32, np.uint64), writable=False), memory.allocate("out", size=8 * 32)
    module = parse(ptx, "k.ptx")
    if kept:
        prepare(module, kept)
    report = launch(module, "k", grid=1, block=32, params=struct.pack("<QQ", *addresses), memory=memory, kept=kept)
    assert report.completed and not report.findings
    return memory.read("out").view("u4")[::2].tolist()


@pytest.fixture
def compiled(monkeypatch):
    """The sources that are compiled."""
    found = []

    def recording(source, *rest):
        found.append(source)
        return compile(source, *rest)

    monkeypatch.setattr(kept_code, "compile", recording, raising=False)
    return found


def test_a_later_process_compiles_nothing(tmp_path, compiled):
    first = KeptCode(tmp_path, kernel(BODY))
    assert result(first) == EXPECTED and compiled
    first.save()
    compiled.clear()
    again = KeptCode(tmp_path, kernel(BODY))
    assert result(again) == EXPECTED and not compiled
    before = again.path.read_bytes()
    again.path.write_bytes(b"")
    again.save()  # there is nothing new
    assert again.path.read_bytes() == b"" != before


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data[:40] + b"?" + data[41:], lambda data: b"", None])
def test_a_file_that_is_absent_or_damaged_holds_nothing(tmp_path, compiled, change):
    first = KeptCode(tmp_path, kernel(BODY))
    result(first)
    first.save()
    if change:
        first.path.write_bytes(change(first.path.read_bytes()))
    else:
        first.path.unlink()
    compiled.clear()
    assert result(KeptCode(tmp_path, kernel(BODY))) == EXPECTED and compiled


def test_code_of_another_source_is_not_used(tmp_path, compiled):
    """As another version of the emulator left it, for blocks that there may not be."""
    first = KeptCode(tmp_path, kernel(BODY))
    wrong = {("k", True, False, start, True, False, 0): (b"?" * 32, compile("wrong", "", "exec")) for start in (0, 1, 9999)}
    data = zlib.compress(marshal.dumps(wrong))
    first.path.write_bytes(sha256(data).digest() + data)
    assert result(KeptCode(tmp_path, kernel(BODY))) == EXPECTED and compiled


def test_other_ptx_has_another_file(tmp_path):
    assert KeptCode(tmp_path, "a").path != KeptCode(tmp_path, "b").path


def test_what_another_process_kept_meanwhile_stays(tmp_path, compiled):
    first, second = KeptCode(tmp_path, kernel(BODY)), KeptCode(tmp_path, kernel(BODY))
    code = second.code(("other", True, False, 0, True, False, 0), "def run(R, m, X): pass", "")
    result(first)
    first.save()
    second.save()
    third = KeptCode(tmp_path, kernel(BODY))
    assert {*third.functions} == {*first.functions, *second.functions} and code
    compiled.clear()
    assert result(third) == EXPECTED and not compiled


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    kept = KeptCode(tmp_path / "file", kernel(BODY))
    assert result(kept) == EXPECTED
    kept.save()


def test_a_source_does_not_depend_on_what_was_compiled_before(tmp_path, compiled):
    """All threads run blocks in an order that a part of them does not."""
    ptx = kernel("setp.lt.u32 %p1, %r1, 16; @%p1 bra LESS; add.s32 %r2, %r1, 77; LESS: st.global.u32 [%rd4], %r1;")
    first = KeptCode(tmp_path, ptx)
    result(first, ptx)
    first.save()
    compiled.clear()
    entry = parse(ptx, "k.ptx").entries["k"]
    assert len(cut(entry)) == 4
    for order in (sorted(first.functions), sorted(first.functions, reverse=True)):
        kept = KeptCode(tmp_path, ptx)
        kept._codes = {key: kept._codes[key] for key in order}
        result(kept, ptx)
    assert not compiled


def inner(body):
    entry = parse(kernel(body), "k.ptx").entries["k"]
    return {entry.registers[index].name for index in block_registers(entry, cut(entry))}


@pytest.mark.parametrize(
    ("body", "is_inner"),
    [
        ("mov.u32 %r7, 1; st.global.u32 [%rd4], %r7;", True),
        ("mov.u32 %r7, 1; setp.eq.u32 %p7, %r1, 0; @%p7 mov.u32 %r7, 2; st.global.u32 [%rd4], %r7;", True),
        ("mov.u32 %r7, 1; bar.sync 0; st.global.u32 [%rd4], %r7;", False),
        ("mov.u32 %r7, 1; st.global.u32 [%rd4], %r7; bar.sync 0; mov.u32 %r7, 2; st.global.u32 [%rd4], %r7;", True),
        ("setp.eq.u32 %p7, %r1, 0; @%p7 mov.u32 %r7, 2; st.global.u32 [%rd4], %r7;", False),  # some lanes have an older value
        ("LOOP: add.u32 %r7, %r7, 1; setp.lt.u32 %p7, %r1, 3; @%p7 bra LOOP;", False),
        ("LOOP: st.global.u32 [%rd4], %r7; mov.u32 %r7, 1; setp.lt.u32 %p7, %r1, 3; @%p7 bra LOOP;", False),
        ("barrier.cta.red.popc.aligned.u32 %r7, 0, %p1;", False),  # written by the end of a block
    ],
)
def test_registers_that_blocks_write_before_they_read_them(body, is_inner):
    assert ("%r7" in inner(body)) == is_inner


def test_the_guard_of_a_branch_belongs_to_its_block():
    assert "%p7" in inner("LOOP: add.u32 %r7, %r1, 1; setp.lt.u32 %p7, %r7, 0; @%p7 bra LOOP;")


def test_lanes_that_wait_elsewhere_keep_what_they_need():
    """The first warp computes a value, and uses it after the second has run the same block."""
    body = """
        mov.u32 %r9, 0;
        LOOP: add.s32 %r3, %r1, %r9; mul.lo.s32 %r7, %r3, 3;
        setp.ge.u32 %p1, %r1, 32; setp.eq.u32 %p2, %r9, 0; and.pred %p3, %p1, %p2; mov.u32 %r9, 1;
        @%p3 bra LOOP;
        st.global.u32 [%rd4], %r7;
    """
    out, _ = run(body, threads=64)
    assert out.view("u4")[::2].tolist() == [3 * (n + (n >= 32)) for n in range(64)]
