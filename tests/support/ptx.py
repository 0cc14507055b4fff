"""Small PTX kernels for the emulator's tests: a header, declarations, and a way to run one."""

from __future__ import annotations

import struct

import numpy as np

from mmagen.emulate import GlobalMemory, Report, launch, parse

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = ".reg .pred %p<20>; .reg .b16 %rs<20>; .reg .b32 %r<60>; .reg .f32 %f<20>; .reg .b64 %rd<40>; .reg .f64 %fd<20>;\n"
# %rd1: in, %rd2: out, both 8 bytes a thread; %r1: thread, %rd3 = in + 8 * thread, %rd4 = out + 8 * thread.
PROLOGUE = """
ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd5, %r1, 8;
add.s64 %rd3, %rd1, %rd5; add.s64 %rd4, %rd2, %rd5;
"""


def kernel(body: str, shared: int = 0, outside: str = "") -> str:
    """PTX of an entry `k(in, out)`; shared: bytes of a static variable `smem`."""
    variable = f".shared .align 16 .b8 smem[{shared}];\n" if shared else ""
    return (
        f"{HEADER}{outside}\n.visible .entry k(.param .u64 in, .param .u64 out)\n"
        f"{{\n{REGISTERS}{variable}{PROLOGUE}\n{body}\nret;\n}}\n"
    )


def run(
    body: str,
    threads: int = 32,
    grid: int = 1,
    data: np.ndarray | None = None,
    shared: int = 0,
    out_bytes: int | None = None,
    outside: str = "",
    **options,
) -> tuple[np.ndarray, Report]:
    """(the out buffer as bytes, report) of a kernel's run; `in` holds `data`, or thread numbers as uint64."""
    memory = GlobalMemory()
    source = memory.allocate("in", np.arange(threads, dtype=np.uint64) if data is None else data, writable=False)
    target = memory.allocate("out", size=8 * threads if out_bytes is None else out_bytes)
    report = launch(
        parse(kernel(body, shared, outside), "k.ptx"),
        "k",
        grid=grid,
        block=threads,
        params=struct.pack("<QQ", source, target),
        memory=memory,
        **options,
    )
    return memory.read("out"), report


def kinds(report: Report) -> set[str]:
    """The kinds of a report's findings."""
    return {f.kind for f in report.findings}
