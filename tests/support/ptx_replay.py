"""Runs a form in the emulator, whole or its matrix function alone, and judges outputs against a GPU's.

Buffers are the kernels' own: arrays [threads, registers] of the form's slot type.
"""

from __future__ import annotations

import re
import struct

import numpy as np

from mmagen import emulate
from mmagen.emulate.arithmetic import matrix_moves, mma, numerics
from tests.support.ptx_forms import WARP, Form
from tests.support.ptx_matrix_forms import BITS, FLOATS

_SIGNS = {"f16": 0x7FFF7FFF, "bf16": 0x7FFF7FFF, "tf32": 0x7FFFFFFF, "f32": 0x7FFFFFFF, "f64": 2**63 - 1}
_SIGNS |= {"e4m3": 0x7F7F7F7F, "e5m2": 0x7F7F7F7F}


def inputs_of(form: Form, buffer: bytes) -> np.ndarray:
    """[threads, inputs] from an input buffer, without its padding."""
    return np.frombuffer(buffer, form.data.dtype).reshape(form.threads, -1)[:, : len(form.inputs)]


def outputs_of(form: Form, buffer: bytes) -> np.ndarray:
    """[threads, outputs] from an output buffer, without what lies above a result narrower than its slot."""
    widths = {"b16": 2, "b32": 4, "f32": 4, "b64": 8, "f64": 8}
    masks = np.array([(1 << 8 * widths[kind]) - 1 for kind in form.outputs], form.data.dtype)
    return np.frombuffer(buffer, form.data.dtype).reshape(form.threads, len(form.outputs)) & masks


def through_ptx(form: Form, given: np.ndarray) -> np.ndarray:
    """The outputs of the form's whole kernel, parsed and launched in the emulator."""
    module, memory = emulate.parse(form.ptx(), form.name), emulate.GlobalMemory()
    padded = np.zeros((form.threads, form.input_stride // form.slot), given.dtype)
    padded[:, : given.shape[1]] = given
    addresses = memory.allocate("input", padded), memory.allocate("output", size=form.threads * form.output_stride)
    params = struct.pack("<2Q", *addresses)
    emulate.launch(module, "probe", grid=form.threads // WARP, block=WARP, params=params, memory=memory)
    return outputs_of(form, memory.read("output").tobytes())


def through_function(form: Form, given: np.ndarray) -> np.ndarray:
    """The outputs of a matrix form by its function in mmagen.emulate.arithmetic."""
    registers = [np.ascontiguousarray(given[:, n]).reshape(-1, WARP) for n in range(given.shape[1])]
    name = form.opcode.partition(".")[0]
    if name == "mma":
        results = _mma(form, registers)
    elif name == "movmatrix":
        results = [matrix_moves.movmatrix(registers[0])]
    else:
        results = _shared(form, name, registers)
    return np.stack(results, axis=-1).reshape(form.threads, len(form.outputs))


def _mma(form: Form, registers: list[np.ndarray]) -> list[np.ndarray]:
    cuts = np.cumsum(form.counts[1:])
    a, b, c = registers[: cuts[0]], registers[cuts[0] : cuts[1]], registers[cuts[1] : cuts[2]]
    metadata = registers[cuts[2]] if len(registers) > cuts[2] else None
    words = tuple(form.opcode.split(".")[1:])
    return mma.mma(words, a, b, c, None if metadata is None else metadata.astype(np.uint32), form.selector)


def _shared(form: Form, name: str, registers: list[np.ndarray]) -> list[np.ndarray]:
    """ldmatrix and stmatrix on one array of 512 bytes a warp."""
    warps, at = np.arange(form.threads // WARP)[:, None, None], np.arange(16)
    words = np.stack(registers[:4], axis=-1).reshape(-1, WARP * 4)
    trans = ".trans" in form.opcode
    if name == "ldmatrix":
        memory = words.view(np.uint8)
        return matrix_moves.ldmatrix(lambda a: memory[warps, a[..., None] + at], registers[4], form.counts[0], trans)
    memory = np.zeros((form.threads // WARP, 512), np.uint8)

    def store(addresses: np.ndarray, data: np.ndarray) -> None:
        memory[warps, addresses[..., None] + at] = data

    matrix_moves.stmatrix(store, registers[4], registers[: form.counts[0]], trans)
    return list(memory.view(np.uint32).reshape(-1, WARP, 4).transpose(2, 0, 1))


def disagreement(form: Form, given: np.ndarray, got: np.ndarray, recorded: np.ndarray) -> str:
    """What the emulator computed otherwise than the GPU, as a sentence; empty if nothing.

    Bit for bit, where f32 and f64 registers may hold any NaN for a NaN; but matrix products of floats only in the exact
    warps, and elsewhere within the bound of `_bounds`.
    """
    same = got == recorded
    for n, kind in enumerate(form.outputs):
        if kind in ("f32", "f64"):
            ours, theirs = (numerics.to_float64(buffer[:, n], kind) for buffer in (got, recorded))
            same[:, n] |= np.isnan(ours) & np.isnan(theirs)
    if form.exact_warps is not None:
        exact = np.isin(np.arange(form.threads) // WARP, form.exact_warps)
        same |= ~exact[:, None] & _close(form, given, got, recorded)
    if same.all():
        return ""
    thread, n = np.argwhere(~same)[0]
    arguments = ", ".join(f"{int(value):#x}" for value in given[thread])
    result = f"{int(got[thread, n]):#x}, the GPU {int(recorded[thread, n]):#x}"
    return f"{form.name}: {(~same).sum()} of {same.size} differ; thread {thread}, %o{n}: {result}, from {arguments}"


def _close(form: Form, given: np.ndarray, got: np.ndarray, recorded: np.ndarray) -> np.ndarray:
    """bool[threads, registers]: where all elements of a register lie within the bound, or are infinite or NaN alike."""
    kind = next(word for word in form.opcode.split(".") if word in BITS)
    ours, theirs = _values(got, kind), _values(recorded, kind)
    sums = _values(_magnitudes(form, given), kind)
    limit = numerics.FORMATS[kind].largest / 2
    with np.errstate(invalid="ignore"):
        near = np.abs(ours - theirs) <= _bounds(form, kind, sums)
        alike = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        open_question = (sums >= limit) & np.isfinite(ours)  # sums may overflow on the way, in another order
    return (near | alike | open_question).all(axis=2)


def _values(registers: np.ndarray, kind: str) -> np.ndarray:
    """float64[threads, registers, elements]."""
    codes = np.ascontiguousarray(registers)
    codes = codes.astype(np.uint32).view(np.uint16) if kind == "f16" else codes
    return numerics.to_float64(codes.reshape(*registers.shape, -1), kind)


def _magnitudes(form: Form, given: np.ndarray) -> np.ndarray:
    """D for |A|, |B| and |C|: the sum of the magnitudes that meet in each element."""
    kinds = [word for word in form.opcode.split(".") if word in BITS][1:]
    masks = [_SIGNS[kind] for kind, count in zip(kinds, form.counts[1:], strict=True) for _ in range(count)]
    masks += [2**32 - 1] * (given.shape[1] - len(masks))
    return through_function(form, given & np.array(masks, given.dtype))


def _bounds(form: Form, kind: str, sums: np.ndarray) -> np.ndarray:
    """How far two correct results may lie apart, for a depth K and S, the sum of the magnitudes of all addends.

    A tensor core aligns exact products and the accumulator to the largest of them, which is at most S, and keeps 23 or
    more bits behind its leading one: each of at most 2K addends and partial sums loses less than 2^-23 S (Fasi et al.,
    PeerJ CS 2021); twice 2^-23 S more for the last rounding on either side, and for S being computed in that precision.
    With f16 sums, up to K/4 partial sums are rounded to f16, 2^-11 S each, and the emulator rounds once. In f64 either
    side rounds K fused steps, 2^-53 S each. Subnormal results lie on a grid of their own.
    """
    k = int(re.search(r"k(\d+)", form.opcode).group(1))
    with np.errstate(invalid="ignore"):
        if kind == "f64":
            return (2 * k + 2) * 2.0**-53 * sums + 2.0**-1073
        wide = (2 * k + 4) * 2.0**-23 * sums + 2.0**-148
        return wide if kind == "f32" else wide + (k / 4 + 2) * 2.0**-11 * sums + 2.0**-23


def is_float_product(form: Form) -> bool:
    """Whether a form is an mma with floating-point elements."""
    return form.opcode.startswith("mma") and any(f".{kind}." in form.opcode for kind in FLOATS)
