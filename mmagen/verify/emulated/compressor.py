"""Emulates the functions of a sparse library that prune, compress and check; compares what they write with mma.sparsity."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, cast

import numpy as np
import numpy.typing as npt

from mmagen.emulate import EmulationError, GlobalMemory
from mmagen.host_runtime.arguments import CompressArguments
from mmagen.mma.sparse_atoms import SparseAtom
from mmagen.mma.sparsity import columns_stored, compress, illegal_codes, kept, metadata_words
from mmagen.plan.operands import VECTOR_BYTES
from mmagen.verify.emulated import host
from mmagen.verify.emulated.findings import OutcomeError, with_findings
from mmagen.verify.emulated.formats import decode, encode, storage
from mmagen.verify.emulated.matrix import Matrix, empty
from mmagen.verify.emulated.task import Task

_BATCH = 2
_FEW = 16  # rows and columns of a matrix that asks about strides alone
_LD_PAD = 3  # elements: rows of the dense matrix begin anywhere
_NONE = -1
_GROUPS = 8  # that a word of metadata describes
_STEPS = 5_000  # that a thread may take: for the matrices here it takes less than 500


def compress_arguments(values: Mapping[str, int]) -> bytes:
    """The struct with its size set; members that are not given are 0."""
    return bytes(CompressArguments(**{"struct_size": ctypes.sizeof(CompressArguments), **values}))


@dataclass(frozen=True)
class Compressed:
    """A matrix and what a library should make of it: codes (batch, m, k), what is left of it, values and metadata. violation: the
    position of the first group with too many nonzeros, or -1."""

    dense: Matrix
    pruned: npt.NDArray[Any]
    values: npt.NDArray[Any]
    metadata: npt.NDArray[np.uint32]
    violation: int


def drawn(
    atom: SparseAtom, m: int, k: int, contiguous_k: bool, pad: int, seed: int, sparse: bool = False, shared: bool = False
) -> Compressed:
    """A batch of random matrices with many ties, zeros of both signs and, of floats, NaN and infinities. sparse: they are what
    they would be pruned to. shared: all are the same one, once in memory."""
    rng, word = np.random.default_rng(seed), atom.type_a.word
    dense = empty(word, m, k, _BATCH, contiguous_k, pad, 0, batch_stride=0 if shared else None)
    numbers = rng.integers(0 if word[0] == "u" else -4, 4, (_BATCH, m, k), endpoint=True).astype(np.float64)
    numbers[rng.random(numbers.shape) < 0.1] = {"s": -128.0, "u": 255.0}.get(word[0], np.nan)
    if word[0] not in "su":
        numbers[rng.random(numbers.shape) < 0.1] = -np.inf if word not in ("e4m3",) else -448.0
        numbers[rng.random(numbers.shape) < 0.1] = -0.0
    if shared:
        numbers[:] = numbers[0]
    stored = kept(atom, np.abs(numbers))
    if sparse:  # zeros of both signs in place of what is not kept
        zeros = np.zeros(numbers.shape) if word[0] in "su" else np.copysign(0.0, rng.random(numbers.shape) - 0.5)
        numbers = np.where(stored[..., :k], numbers, zeros)
    dense.view[...] = encode(numbers, word).reshape(numbers.shape)
    codes = np.ascontiguousarray(dense.view)
    # The magnitude of the codes, which is what counts: not every number above is one of the type.
    stored = kept(atom, np.abs(decode(codes)))
    values, metadata = compress(atom, codes, stored)
    lost = ~stored[..., :k] & (decode(codes) != 0)
    at = np.flatnonzero(lost.reshape(-1, k).any(axis=1))
    violation = _NONE
    if len(at):
        row = int(at[0])
        violation = row * k + int(np.flatnonzero(lost.reshape(-1, k)[row])[0]) // atom.group * atom.group
    return Compressed(dense, np.where(stored[..., :k], codes, np.zeros((), codes.dtype)), values, metadata, violation)


def check_compressor(task: Task, m: int, k: int) -> None:
    """Raises OutcomeError for a function that does something else than it should, EmulationError and HostError."""
    atom, contiguous_k = cast(SparseAtom, task.product.atom), task.product.spec.layout.a_major == "K"
    # Aligned rows are loaded, or stored, by vectors. The kernel must test the alignment of each matrix, so only one of the two is
    # aligned in each of the first two calls.
    aligned = -(k if contiguous_k else m) % (VECTOR_BYTES // atom.type_a.bytes)
    _check(task, drawn(atom, m, k, contiguous_k, aligned + _LD_PAD, task.seed), aligned)
    _check(task, drawn(atom, m, k, contiguous_k, aligned, task.seed + 1, sparse=True), aligned + _LD_PAD)
    # What is read may be the same for the whole batch.
    few, columns = min(m, _FEW), min(k, _FEW)
    _check(task, drawn(atom, few, columns, contiguous_k, _LD_PAD, task.seed + 2, shared=True), _LD_PAD)


def _check(task: Task, expected: Compressed, pruned_pad: int) -> None:
    """pruned_pad: padding between the lines of the pruned matrix, in elements."""
    atom, dense = cast(SparseAtom, task.product.atom), expected.dense
    m, k = dense.rows, dense.columns
    kind, columns = storage(atom.type_a.word), columns_stored(atom, k)
    ld_values = -(-columns * kind.itemsize // VECTOR_BYTES) * VECTOR_BYTES // kind.itemsize
    words = metadata_words(atom, m, k)
    memory = GlobalMemory()
    pruned = empty(dense.word, m, k, _BATCH, dense.columns_contiguous, pruned_pad, 0)
    values = {
        "m": m,
        "k": k,
        "batch": _BATCH,
        "dense": memory.allocate("dense", dense.memory, writable=False, rows=dense.rows_of_memory),
        "pruned": memory.allocate("pruned", size=len(pruned.memory), rows=pruned.rows_of_memory),
        "ld_dense": dense.ld,
        "batch_stride_dense": dense.batch_stride,
        "ld_pruned": pruned.ld,
        "batch_stride_pruned": pruned.batch_stride,
        "values": memory.allocate("values", size=_BATCH * m * ld_values * kind.itemsize),
        "ld_values": ld_values,
        "batch_stride_values": m * ld_values,
        "metadata": memory.allocate("metadata", size=_BATCH * words * 4),
        "batch_stride_metadata": words,
        "violation": memory.allocate("violation", size=8),
    }
    _emulate(task, "compress", memory, values)
    found = memory.read("values").tobytes()
    _same(task, "compress", "values", np.frombuffer(found, kind).reshape(_BATCH, m, -1)[..., :columns], expected.values)
    made = np.frombuffer(memory.read("metadata").tobytes(), np.uint32).reshape(_BATCH, -1)
    _same(task, "compress", "metadata", made, expected.metadata)
    _same_number(task, "compress", memory, expected.violation)
    for stride in (words, 0):  # 0: those of the first matrix for the whole batch
        _emulate(task, "check_metadata", memory, {**values, "batch_stride_metadata": stride})
        _same_number(task, "check_metadata", memory, _NONE)
    _check_illegal(task, expected, memory, values)
    _emulate(task, "prune", memory, values)
    lines = memory.read_rows("pruned")[0].view(kind).reshape(pruned.lines.shape)
    found_pruned = lines if dense.columns_contiguous else lines.swapaxes(1, 2)
    _same(task, "prune", "pruned", found_pruned, expected.pruned)


def _check_illegal(task: Task, expected: Compressed, memory: GlobalMemory, values: Mapping[str, int]) -> None:
    """Metadata with codes that are not legal: in each of the 8 groups of a word, in words of both matrices, the padding included;
    then in two words, of which the first counts."""
    words, codes = expected.metadata.reshape(-1), illegal_codes(cast(SparseAtom, task.product.atom))
    last = len(words) - 1
    places = [last * i // (_GROUPS - 1) for i in range(_GROUPS)]

    def put(place: int, word: int) -> None:
        memory.store(values["metadata"] + 4 * place, np.uint32(word).tobytes())

    def illegal(group: int) -> int:
        code = int(codes[(group + task.seed) % len(codes)])
        return int(words[places[group]]) & ~(15 << 4 * group) & 0xFFFFFFFF | code << 4 * group

    for group, place in reversed([*enumerate(places)]):
        put(place, illegal(group))
        _emulate(task, "check_metadata", memory, values)
        _same_number(task, "check_metadata", memory, place)
        put(place, int(words[place]))
    for group in (2, _GROUPS - 1):
        put(places[group], illegal(group))
    _emulate(task, "check_metadata", memory, values)
    _same_number(task, "check_metadata", memory, places[2])


def _emulate(task: Task, function: str, memory: GlobalMemory, values: Mapping[str, int]) -> None:
    alone = replace(task, library=None)  # the functions are the library's own, whatever the config
    for captured in host.launches_of(alone, task.symbol(function), [compress_arguments(values)], most=2):
        report = host.emulate(alone, captured, memory, _STEPS)
        if report.findings:
            raise OutcomeError(task.symbol(function), with_findings("", [report]))
        if not report.completed:
            raise EmulationError(f"{task.symbol(function)}: does not end")


def _same(task: Task, function: str, name: str, found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> None:
    bits = f"u{expected.dtype.itemsize}"
    wrong = np.ascontiguousarray(found).view(bits) != np.ascontiguousarray(expected).view(bits)
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        _wrong(task, function, f"writes {found[at]} to {name} at {at}, not {expected[at]}")


def _same_number(task: Task, function: str, memory: GlobalMemory, expected: int) -> None:
    found = int(np.frombuffer(memory.read("violation").tobytes(), np.int64)[0])
    if found != expected:
        _wrong(task, function, f"reports {found}, not {expected}")


def _wrong(task: Task, function: str, how: str) -> NoReturn:
    raise OutcomeError(task.symbol(function), {"disposition": "incorrect", "reason": how})
