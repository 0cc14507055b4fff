"""One PTX instruction on arrays: each thread has its own operands."""

from __future__ import annotations

import struct

import numpy as np

from mmagen.emulate import GlobalMemory, launch, parse

_CTA = 1024


def each(body: str, out: str, *inputs: tuple[str, np.ndarray]) -> np.ndarray:
    """What `body` leaves in %o, as unsigned integers of its width, given %a, %b, %c in each thread.

    out: PTX type of %o, of which registers exist. inputs: (PTX type, codes as unsigned integers) of each, of one length.
    """
    count = max(len(values) for _, values in inputs)
    slots = np.stack([np.broadcast_to(values.astype(np.uint64), count) for _, values in inputs], axis=1)
    registers = "".join(f".reg .{kind} %{name}; " for name, (kind, _) in zip("abc", inputs, strict=False))
    loads = "".join(
        f"ld.global.{kind} %{name}, [%in+{8 * n}]; " for n, (name, (kind, _)) in enumerate(zip("abc", inputs, strict=False))
    )
    text = f"""
.version 8.6
.target sm_90a
.address_size 64
.entry k(.param .u64 in, .param .u64 out, .param .u32 count)
{{
.reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<8>; .reg .b64 %in, %out; .reg .{out} %o; {registers}
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %r0, %r0, {_CTA}, %r1; ld.param.u32 %r1, [count];
setp.ge.u32 %p0, %r0, %r1; @%p0 ret;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out];
mad.wide.u32 %in, %r0, {8 * len(inputs)}, %in; mad.wide.u32 %out, %r0, 8, %out;
{loads}
{body}
st.global.{out} [%out], %o;
ret;
}}
"""
    memory = GlobalMemory()
    given, result = memory.allocate("in", slots, writable=False), memory.allocate("out", np.zeros(count, np.uint64))
    report = launch(
        parse(text, "each.ptx"),
        "k",
        grid=-(-count // _CTA),
        block=_CTA,
        params=struct.pack("<QQI", given, result, count),
        memory=memory,
        lanes=1 << 17,
    )
    assert not report.findings, [str(f) for f in report.findings]
    width = int(out.lstrip("bfus"))
    return memory.read("out", np.uint64).astype(f"u{width // 8}")
