"""Tiny PTX kernels, one for each instruction form that mmagen's kernels use, with their inputs.

A form's kernel reads each thread's inputs from global memory, executes the instruction and stores its results: the same
text runs on a GPU (record.py) and in the emulator (test_recorded.py). Nothing here depends on the emulator, and only
numpy is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

WARP = 32


@dataclass(frozen=True)
class Form:
    """One instruction form.

    name: its opcode, with a word behind it where inputs differ. body: PTX lines on registers %i0... and %o0... .
    inputs, outputs: the PTX types of those registers. data: [threads, inputs], uint32, or uint64 where a register has
    64 bits; threads are whole warps, each its own CTA. target: lowest sm_ number. version: of PTX. shared: bytes of the
    array `room`. opcode, counts, selector: of a matrix instruction, its words and how many registers each operand has.
    exact_warps: the warps whose results must agree bit for bit, None for all.
    """

    name: str
    body: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    data: np.ndarray
    target: int = 80
    version: str = "8.0"
    shared: int = 0
    opcode: str = ""
    counts: tuple[int, ...] = ()
    selector: int = 0
    exact_warps: tuple[int, ...] | None = None

    @property
    def threads(self) -> int:
        return len(self.data)

    @property
    def slot(self) -> int:
        """Bytes from one input or output to the next."""
        return self.data.dtype.itemsize

    @property
    def input_stride(self) -> int:
        """Bytes from one thread's inputs to the next one's, a multiple of 16."""
        return -(-len(self.inputs) * self.slot // 16) * 16

    @property
    def output_stride(self) -> int:
        return len(self.outputs) * self.slot

    def input_bytes(self) -> bytes:
        """The input buffer, as the kernel reads it."""
        padded = np.zeros((self.threads, self.input_stride // self.slot), self.data.dtype)
        padded[:, : len(self.inputs)] = self.data
        return padded.tobytes()

    def ptx(self) -> str:
        """The module's text; its entry is `probe(.u64 input, .u64 output)`, launched with 32 threads a CTA."""
        registers = [f"    .reg .{kind} %i{n};" for n, kind in enumerate(self.inputs)]
        registers += [f"    .reg .{kind} %o{n};" for n, kind in enumerate(self.outputs)]
        loads = [f"    ld.global.{kind} %i{n}, [%in+{n * self.slot}];" for n, kind in enumerate(self.inputs)]
        stores = [f"    st.global.{kind} [%out+{n * self.slot}], %o{n};" for n, kind in enumerate(self.outputs)]
        room = [f"    .shared .align 16 .b8 room[{self.shared}];"] if self.shared else []
        return "\n".join(
            [
                f".version {self.version}",
                f".target sm_{self.target}",
                ".address_size 64",
                ".visible .entry probe(.param .u64 input, .param .u64 output)",
                "{",
                "    .reg .b64 %in, %out;",
                "    .reg .b32 %lane, %cta, %thread, %t0, %t1, %t2, %t3;",
                "    .reg .pred %p, %q;",
                *room,
                *registers,
                "    ld.param.u64 %in, [input];",
                "    ld.param.u64 %out, [output];",
                "    cvta.to.global.u64 %in, %in;",
                "    cvta.to.global.u64 %out, %out;",
                "    mov.u32 %lane, %tid.x;",
                "    mov.u32 %cta, %ctaid.x;",
                f"    mad.lo.s32 %thread, %cta, {WARP}, %lane;",
                f"    mad.wide.u32 %in, %thread, {self.input_stride}, %in;",
                f"    mad.wide.u32 %out, %thread, {self.output_stride}, %out;",
                *loads,
                *(f"    {line}" for line in self.body.strip().splitlines()),
                *stores,
                "    ret;",
                "}",
                "",
            ]
        )


def seeded(name: str) -> np.random.Generator:
    """A generator that depends on the form's name alone, so that adding a form changes no other one's inputs."""
    return np.random.default_rng(list(name.encode()))


def f32_codes(values: object) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float64).astype(np.float32).view(np.uint32)


def _f32_edges() -> np.ndarray:
    """Codes that decide conversions: ends of every format, ties, integers' limits, subnormals, infinities, NaN."""
    near = np.array([1.0, 2.0**-14, 2.0**-24, 2.0**-25, 65504.0, 448.0, 57344.0, 2.0**-6, 2.0**-9, 2.0**-16, 2.0**-17])
    ties = np.concatenate([near * (1 + 2.0**-bits) for bits in (3, 4, 8, 9, 11, 12)] + [near])
    halves = np.array([0.5, 1.5, 2.5, 3.5, 126.5, 127.5, 128.5, 254.5, 255.5, 32767.5])
    limits = np.array([2.0**31, 2.0**32, 2.0**63, 2.0**64, 65520.0, 65519.996, 464.0, 465.0, 61440.0, 1e9, 3.4e38])
    tiny = np.array([2.0**-126, 2.0**-133, 2.0**-134, 0.1, 1 / 3])
    values = f32_codes(np.concatenate((ties, halves, halves - 0.5, limits, tiny)))
    around = np.concatenate((values, values + 1, values - 1))
    raw = np.array([0, 1, 2, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FC12345], np.uint32)
    positive = np.concatenate((raw, around))
    return np.unique(np.concatenate((positive, positive | 0x80000000)))


F32_EDGES = _f32_edges()
INTEGER_EDGES = {
    32: np.array([0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0xFFFFFF, 0x1000001, 0x7FFFFFFF]),
    64: np.array([0, 1, 2**24 + 1, 2**31, 2**32 - 1, 2**53 + 1, 2**54 + 2, 2**54 + 6, 2**62 + 2**38, 2**63 - 1, 2**63]),
}


def values_of(kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """count codes of a kind, edges first and random ones behind, in random order: uint64.

    kind: f32, f64, f16x2, bf16x2, e8x2 (a pair of bytes), b16, b32, b64, or small: 0 to 31.
    """
    if kind == "f32":
        usual = f32_codes(rng.standard_normal(count) * 2.0 ** rng.integers(-20, 20, count))
        pool = np.concatenate((rng.permutation(F32_EDGES)[: count * 3 // 4], usual)).astype(np.uint64)
    elif kind == "f64":
        with np.errstate(invalid="ignore"):
            widened = F32_EDGES.view(np.float32).astype(np.float64).view(np.uint64)
        nudged = widened + rng.integers(-1, 2, widened.size).astype(np.uint64)
        usual = (rng.standard_normal(count) * 2.0 ** rng.integers(-60, 60, count)).view(np.uint64)
        nasty = rng.integers(0, 2**64, 16, dtype=np.uint64)
        pool = np.concatenate((rng.permutation(nudged)[: count // 2], nasty, usual))
    elif kind == "small":
        pool = rng.integers(0, 32, count).astype(np.uint64)
    elif kind in ("b32", "b64"):
        bits = int(kind[1:])
        edges = INTEGER_EDGES[bits].astype(np.uint64)
        edges = np.concatenate((edges, ~edges, ~edges + 1, edges + (1 << (bits - 1)))) & np.uint64(2**bits - 1)
        pool = np.concatenate((edges, rng.integers(0, 2**bits, count, dtype=np.uint64)))
    else:
        pool = rng.integers(0, 2 ** {"f16x2": 32, "bf16x2": 32, "e8x2": 16, "b16": 16}[kind], count, dtype=np.uint64)
    return rng.permutation(pool[:count])


def scalar(
    opcode: str,
    inputs: tuple[tuple[str, str], ...],
    output: str,
    *,
    body: str = "",
    warps: int = 4,
    target: int = 80,
    version: str = "8.0",
) -> Form:
    """A form of one instruction on each thread alone: `opcode %o0, %i0, ...;` unless a body says otherwise.

    inputs: (PTX type, kind of values) of each operand.
    """
    rng = seeded(opcode)
    wide = any(kind.endswith("64") for kind, _ in (*inputs, (output, "")))
    data = np.stack([values_of(values, warps * WARP, rng) for _, values in inputs], axis=1)
    operands = ", ".join(f"%i{n}" for n in range(len(inputs)))
    return Form(
        opcode,
        body or f"{opcode} %o0, {operands};",
        tuple(kind for kind, _ in inputs),
        (output,),
        data if wide else data.astype(np.uint32),
        target,
        version,
    )


def all_forms() -> list[Form]:
    """Every form, in the order of the table that record.py prints."""
    from tests.support.ptx_matrix_forms import matrix_forms, memory_forms
    from tests.support.ptx_scalar_forms import scalar_forms

    return [*matrix_forms(), *memory_forms(), *scalar_forms()]
